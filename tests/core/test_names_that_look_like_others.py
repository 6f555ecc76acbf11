"""Letters that nobody sees or that look like others: a name with them is no name that we know."""

import pytest

from assentry.adapters.claude_code import errand_in
from assentry.core.action import Action, Basis, Effect, Reach, Risk
from assentry.core.classify import classify, profile
from assentry.core.declared import Said
from assentry.core.judge import judge
from assentry.core.names import is_plain_name
from assentry.core.policy import Policy
from assentry.core.policy_file import load_policy
from assentry.core.verdict import GateKind

HIDDEN = [
    "get\u200b_weather", "get_weather\u200b", "read_file\u202e", "get_w\u0435ather", "g\u0435t_weather", "re\u0430d_file",
    "\uff47et_weather", "\U0001d420et_weather", "run_c\u043emmand", "get_\u03bfrder", "read\u00adfile", "read_file\u3164",
    "list\ufe0f_files", "get\u2060weather", "get weather\u00a0", "\u0455\u0435arch", "get_\u0440\u0430\u0443", "read\nfile",
]  # fmt: skip
OURS = ["get_weather", "files.read", "überweisung_lesen", "\u67e5\u8be2\u5929\u6c14", "send_\u90ae\u4ef6", "find_\u043f\u043e\u0433\u043e\u0434\u0430", "café_suchen"]  # fmt: skip


def _judged(name: str, policy: Policy, *, trusted: bool) -> tuple[GateKind, Basis, Risk, Effect]:
    args = {"command": "ls", "action": "list"}
    found = classify(profile(name, "Gets the weather.", said=Said(trusted=trusted)), args)
    return judge(policy, Action(name, args, trusted=trusted), found).gate, found.basis, found.risk, found.effect


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name", HIDDEN)
def test_a_name_that_is_not_what_it_looks_like_is_unknown_and_waits(name: str, trusted: bool) -> None:
    allows = load_policy("rules: [{name: all, actions: ['*'], gate: run}]")
    for policy in (Policy(), allows):
        gate, basis, risk, effect = _judged(name, policy, trusted=trusted)
        assert (gate, basis) == (GateKind.HARD, Basis.UNKNOWN)
        assert risk >= Risk.DANGEROUS
        assert effect == Effect(reversible=False, reach=Reach.SERVICE, outside=True)


@pytest.mark.parametrize("name", OURS)
def test_names_in_other_languages_are_what_they_look_like(name: str) -> None:
    plain = _judged("weather", Policy(), trusted=True)[0]
    assert _judged(name, Policy(), trusted=True)[0] in (GateKind.RUN, GateKind.WATCH, plain, GateKind.HARD)
    assert "look like others" not in str(profile(name).base.reasons)


@pytest.mark.parametrize("name", [name for name in OURS if not name.isascii()])
def test_a_strangers_name_that_is_not_plain_is_unknown(name: str) -> None:
    assert _judged(name, Policy(), trusted=False)[:2] == (GateKind.HARD, Basis.UNKNOWN)
    assert not is_plain_name(name)


def test_the_name_of_a_server_counts_too() -> None:
    def alarm(name: str) -> str:
        return errand_in({"tool_name": name, "tool_input": {}, "session_id": "s"}).alarm

    assert alarm("mcp__files__get_weather") == ""
    assert "look like others" in alarm("mcp__fil\u0435s__get_weather")
    assert "look like others" in alarm("mcp__files\u200b__get_weather")
