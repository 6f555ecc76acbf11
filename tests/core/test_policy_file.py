"""Loading a policy: what is right loads, what is wrong is refused with file, line, rule and remedy, all at once."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from assentry.core.action import Declaration, Reach, Risk
from assentry.core.policy import PRESETS, AgentEntry, Limits, Mode, Option, PerRisk, Policy
from assentry.core.policy_file import KEYS, load_policy, to_document
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum, Rung
from assentry.errors import PolicyError

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "src" / "assentry" / "assentry.schema.json").read_text())
EXAMPLE = (ROOT / "examples" / "assentry.yaml").read_text()
DOCUMENTED = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "policy.md").read_text(), re.DOTALL)
COMPLAINT = re.compile(r"policy\.yml:[1-9]\d*: \S.*; \S.*|policy\.yml:[1-9]\d*: .*")

minutes = lambda n: timedelta(minutes=n)  # noqa: E731


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as caught:
        load_policy(text, "policy.yml")
    error = caught.value
    assert str(error) == "\n".join(error.complaints)
    assert error.file == "policy.yml"
    assert error.complaints[0].startswith(f"policy.yml:{error.line}: ")
    for each in error.complaints:
        assert COMPLAINT.fullmatch(each), each
    return error.complaints


def rule(text: str) -> str:
    """A document with one rule, whose keys `text` adds from line 4 on."""
    return f"rules:\n  - name: r\n    actions: [delete_*]\n{text}\n"


def test_an_empty_file_is_the_built_in_policy() -> None:
    assert load_policy("") == load_policy("# nothing\n") == load_policy("{}") == PRESETS["balanced"]


def test_everything_that_can_be_written_is_read() -> None:
    loaded = load_policy(
        """
version: 1
mode: observe
autonomy: autonomous
defaults: {risky: watch}
floor: {dangerous: watch}
limits: {scale: 7, confidence: 0.6, cost: 2, time: 2h, window: 90s, undo: 1w}
reviewers: role:manager
ladder: [{after: 10m, remind: true}]
at_end: stay
self_review: allow
second_person: true
retention: 2d
organisation: {domains: [Example.com]}
people:
  alice: {roles: [manager], teams: [platform], os_users: [al], email: a@example.com}
  bob:
agents:
  payer: {owner: bob, trusted: false}
  other:
actions:
  sync: {reversible: true, reach: service, outside: false, money: false, risk: risky, because: we wrote it}
rules:
  - name: all of it
    actions: [sync, "x.*"]
    agents: payer
    when: facts.count > 3
    gate: hard
    because: so it is
    says: Sync {what}
    reviewers: [alice, bob]
    quorum: {count: 2, roles: ["role:manager"]}
    ladder:
      - {after: 15m, remind: true}
      - {after: 1h, tell: [role:manager]}
      - {after: 2h, rota: [alice, bob]}
    loops: 1
    limit: never
    at_end: deny
    undo: 3d
    review: after
    options:
      - {label: half, consequence: less, set: {share: 0.5, tags: [a, null, true, 2025-01-01]}}
      - {label: ticket, action: create_ticket}
  - {name: gentle, actions: [sync], gate: soft, window: 1m, at_end: proceed}
  - {name: always, actions: [sync], when: true, gate: watch}
""",
        version=5,
    )
    first, gentle, always = loaded.rules
    assert (loaded.mode, loaded.autonomy, loaded.version) == (Mode.OBSERVE, "autonomous", 5)
    assert loaded.defaults == PerRisk(risky=GateKind.WATCH)
    assert loaded.floor.dangerous is GateKind.WATCH
    assert loaded.limits == Limits(
        7, 0.6, 2.0, time=minutes(120), window=timedelta(seconds=90), undo=timedelta(weeks=1)
    )
    assert loaded.reviewers == ("role:manager",)
    assert loaded.ladder == Ladder((Rung(minutes(10), remind=True),), 0, minutes(120), AtEnd.STAY)
    assert (loaded.self_review, loaded.retention, loaded.domains) == (True, timedelta(days=2), ("example.com",))
    assert loaded.second_person
    assert [person.name for person in loaded.people] == ["alice", "bob"]
    assert loaded.agents == (AgentEntry("payer", "bob", trusted=False), AgentEntry("other"))
    assert loaded.declared[0].declaration == Declaration(True, Reach.SERVICE, False, False, Risk.RISKY)
    assert (first.agents, first.when, first.line) == (("payer",), "facts.count > 3", 24)
    assert first.quorum == Quorum(2, ("manager",))
    assert first.ladder is not None
    assert (len(first.ladder.rungs), first.ladder.loops, first.ladder.limit) == (3, 1, None)
    assert first.ladder.at_end is AtEnd.DENY
    assert first.options[0] == Option("half", "less", {"share": 0.5, "tags": ["a", None, True, "2025-01-01"]})
    assert first.options[1].action == "create_ticket"
    assert (gentle.gate, gentle.window) == (GateKind.SOFT, minutes(1))
    assert always.when == "true"


@pytest.mark.parametrize("name", PRESETS)
def test_autonomy_sets_things_together_and_written_keys_override(name: str) -> None:
    assert load_policy(f"autonomy: {name}") == PRESETS[name]
    loaded = load_policy(f"autonomy: {name}\nlimits: {{scale: 5}}")
    assert loaded.limits.scale == 5
    assert loaded.limits.confidence == PRESETS[name].limits.confidence


def test_a_ladder_longer_than_the_time_limit_extends_it() -> None:
    loaded = load_policy(rule("    gate: hard\n    ladder: [{after: 3h, remind: true}]"))
    assert loaded.rules[0].ladder == Ladder((Rung(minutes(180), remind=True),), 0, minutes(240))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("reviewer: x", 1, 'unknown key "reviewer"; did you mean "reviewers"?'),
        ("a: b: c", 1, "not valid YAML"),
        ("x: [1, 2", 1, "not valid YAML"),
        ("- 1", 1, "the policy is a list, not a mapping; write lines"),
        ("text", 1, 'the policy is "text", not a mapping; write lines'),
        ("mode: enforce\nmode: observe", 2, '"mode" is set twice, first on line 1; remove one of them'),
        ("a: &x {}\nb: *x", 1, "anchors are not allowed"),
        ("a: !!python/object:os.system x", 1, "tags and anchors are not allowed"),
        ("--- {}\n--- {}", 2, "second document"),
        ("[" * 40, 1, "nested more than"),
        ("? [a]\n: b", 1, "a key must be a word"),
        ("mode: \x07", 1, "not a text file: it contains the character U+0007"),
        ("mode: loud", 1, 'mode is "loud"; known are enforce, observe'),
        ("version: 2", 1, "version is not 1"),
        ("autonomy: balance", 1, 'did you mean "balanced"?'),
        ("defaults: {risky: wach}", 1, 'defaults.risky is "wach"; did you mean "watch"?'),
        ("defaults: {dangerous: soft}", 1, "defaults.dangerous cannot be soft"),
        ("defaults: {risky: ask}", 1, 'defaults.risky is "ask"'),
        ("floor: {critical: soft}", 1, 'floor.critical is "soft"'),
        ("defaults: {critical: watch}", 1, "looser than the floor hard"),
        ("limits: {scale: 0}", 1, 'limits.scale is "0"; write a whole number from 1'),
        ("limits: {scale: true}", 1, "limits.scale"),
        ("limits: {confidence: .nan}", 1, "not a finite number"),
        ("limits: {confidence: -.inf}", 1, "not a finite number"),
        ("limits: {cost: 1e999}", 1, "number is too large"),
        ("limits: {scale: 99999999999999999999}", 1, "number is too large"),
        ("limits: {confidence: 1.2}", 1, "a number from 0 to 1"),
        ("limits: {time: 1 hour}", 1, "a duration such as 90s"),
        ("limits: {time: 0s}", 1, "a duration such as 90s"),
        ("limits: {time: 99999w}", 1, "a duration such as 90s"),
        ("limits: {time: 5}", 1, "a duration such as 90s"),
        ("self_review: maybe", 1, "self_review must be allow or deny"),
        ("second_person: both", 1, 'second_person is "both"'),
        ("mode: enforce\nsecond_person: true", 2, "there is no people: section to tell two people apart; name them"),
        ("second_person: true\npeople: {ann: }", 1, "only ann may; give somebody else the role operator too"),
        ("second_person: true\npeople: {ann: {roles: [operator]}, bob: }", 1, "needs two people who may change"),
        ("retention: forever", 1, "a duration such as 90s"),
        ("organisation: {domains: [a@b.c]}", 1, "is not a domain"),
        ("people: {}", 1, "people is empty"),
        ("people: {'a:b': {}}", 1, "contains a colon"),
        ("people: {'': {}}", 1, "empty or unreadable name"),
        ("people:\n  a: {os_users: [x]}\n  b: {os_users: [x]}", 3, 'the os_user "x" is both a and b'),
        ("people: {a: {role: x}}", 1, 'unknown key "role"; did you mean "roles"?'),
        ("people: {a: }\nagents: {a: }", 2, "is a person and an agent"),
        ("people: {a: }\nagents: {x: {owner: b}}", 2, 'unknown owner "b"'),
        ("people: {a: }\nreviewers: [b]", 2, 'unknown reviewer "b"'),
        ("reviewers: []", 1, "reviewers is empty"),
        ("reviewers: [a, a]", 1, "names one twice"),
        ("at_end: proceed", 1, "silence never approves"),
        ("ladder: [{after: 1h}]", 1, "a rung does nothing"),
        ("ladder: [{remind: true}]", 1, "a rung needs after"),
        ("ladder: [{after: 1h, remind: true}, {after: 1m, remind: true}]", 1, "in order of after"),
        ("actions: {x: {}}", 1, "declares nothing"),
        ("actions: {x: {reversible: no}}", 1, "write true or false"),
        ("actions: {x: {reach: far}}", 1, 'reach of x is "far"'),
        ("rules: {a: b}", 1, "rules is a mapping; write a list"),
        ("rules: [x]", 1, "a rule is"),
        ("rules: [{gate: hard}]", 1, "the rule has no name"),
        ("rules: [{name: '', gate: hard}]", 1, "name is empty"),
        ("rules: [{name: ' ', gate: hard}]", 1, "name is empty"),
        ("rules: [{name: 'default: x', gate: hard}]", 1, "cannot begin with default:"),
        (
            "rules:\n - {name: a, gate: hard}\n - {name: a, gate: run}",
            3,
            'rule "a": another rule on line 2 has this name',
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_remedy(text: str, line: int, says: str) -> None:
    found = complaints(text)
    assert any(each.startswith(f"policy.yml:{line}: ") and says in each for each in found), found


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 2, "the rule has no gate"),
        ("    gate: hrd", 4, 'gate is "hrd"; did you mean "hard"?'),
        ("    gate: hard\n    reviewer: [x]", 5, 'unknown key "reviewer"; did you mean "reviewers"?'),
        ("    gate: hard\n    at_end: proceed", 5, "at_end cannot be proceed on a hard gate: silence never approves"),
        ("    gate: manual\n    at_end: approve", 5, "at_end cannot be approve on a manual gate"),
        ("    gate: watch\n    at_end: proceed", 5, "at_end cannot be proceed on a watch gate"),
        ("    gate: soft\n    when: effect.reversible\n    at_end: deny", 6, "a soft gate proceeds at its end"),
        ("    gate: hard\n    window: 5m", 5, "window is for soft gates"),
        ("    gate: soft", 4, "cannot be undone"),
        ("    gate: hard\n    when: facts.count >", 5, "when: column 14: the condition ends too early"),
        ("    gate: hard\n    when: 1 + 1", 5, "when: the condition gives a whole number"),
        ("    gate: hard\n    when: 17", 5, 'when is "17"; write text, in quotes if it is a number'),
        ("    gate: hard\n    when: size(args)", 5, "when: the condition gives a whole number"),
        ("    gate: hard\n    actions: []", 5, '"actions" is set twice, first on line 3'),
        ("    gate: hard\n    agents: [1]", 5, "agents is"),
        ("    gate: hard\n    quorum: 0", 5, 'quorum is "0"'),
        ("    gate: hard\n    quorum: {count: 1, roles: [a, b]}", 5, "quorum wants 1 of 2 roles"),
        ("    gate: hard\n    reviewers: ['group:x']", 5, "selects nobody"),
        (
            "    gate: hard\n    ladder: [{after: 2h, remind: true}]\n    limit: 1h",
            6,
            "limit ends before the last rung",
        ),
        ("    gate: hard\n    limit: soon", 5, "limit is"),
        ("    gate: hard\n    review: before", 5, "review has one word: after"),
        ("    gate: hard\n    options: [{consequence: x}]", 5, "an option needs a label"),
        ("    gate: hard\n    options: [{label: x}, {label: x}]", 5, "two options have one label"),
        ("    gate: hard\n    because: ''", 5, "because is empty"),
        ('    gate: hard\n    because: "a\\0b"', 5, "NUL"),
    ],
)
def test_what_is_wrong_with_a_rule_is_named_with_it(text: str, line: int, says: str) -> None:
    found = complaints(rule(text))
    assert any(each.startswith(f'policy.yml:{line}: rule "r": ') and says in each for each in found), found


def test_all_complaints_come_at_once_in_order() -> None:
    found = complaints(rule("    gate: hrd\n    reviewer: x\n    when: nope") + "  - {gate: x}\nmode: y\n")
    assert [int(each.split(":")[1]) for each in found] == [4, 5, 6, 7, 7, 8]


PEOPLE = """people:
  alice: {roles: [manager]}
  bob: {roles: [finance], teams: [platform]}
  carol: {roles: [finance]}
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("    reviewers: [manager]", 'unknown reviewer "manager"; did you mean "role:manager"?'),
        ("    reviewers: [alise]", 'unknown reviewer "alise"; did you mean "alice"?'),
        ("    reviewers: [role:boss]", "unknown reviewer"),
        ("    ladder: [{after: 1m, tell: [dave]}]", 'unknown reviewer "dave"'),
        ("    ladder: [{after: 1m, rota: [alice, dave]}]", 'unknown reviewer "dave"'),
        ("    quorum: 4", "needs 4 of everyone listed under people: alice, bob, carol, so only 3 can decide"),
        ("    reviewers: [role:finance]\n    quorum: 3", "needs 3 of role:finance: bob, carol, so only 2 can decide"),
        (
            "    reviewers: [role:finance]\n    quorum: {roles: [manager]}",
            "there is nobody for each of the roles manager",
        ),
        ("    quorum: {roles: [manager, manager]}", "names one twice"),
    ],
)
def test_reviewers_must_exist_and_suffice_where_people_are_configured(text: str, says: str) -> None:
    assert any(says in each for each in complaints(PEOPLE + rule(f"    gate: hard\n{text}")))


@pytest.mark.parametrize(
    ("document", "refused"),
    [
        ("rules: [{name: r, actions: [send_email], gate: soft}]", True),
        ("rules: [{name: r, actions: [send_email], gate: soft, when: facts.count < 3}]", True),
        ("actions: {send_email: {reversible: true}}\nrules: [{name: r, actions: [send_email], gate: soft}]", False),
        ("actions: {tidy: {reversible: false}}\nrules: [{name: r, actions: [tidy], gate: soft}]", True),
        ("actions: {'tidy.*': {reversible: false}}\nrules: [{name: r, actions: [tidy.up], gate: soft}]", True),
        ("actions: {'tidy.*': {reversible: false}}\nrules: [{name: r, actions: ['tidy.*'], gate: soft}]", True),
        ("actions: {tidy.up: {reversible: false}}\nrules: [{name: r, actions: ['tidy.*'], gate: soft}]", True),
        ("rules: [{name: r, actions: ['delete_*'], gate: soft}]", True),
        ("rules: [{name: r, actions: ['delete_*'], gate: soft, when: effect.reversible}]", False),
        ("rules: [{name: r, gate: soft}]", True),
        ("rules: [{name: r, actions: [our_own_thing], gate: soft}]", False),
    ],
)
def test_a_soft_gate_on_something_known_to_be_irreversible_does_not_load(document: str, refused: bool) -> None:
    if refused:
        assert any("undone" in each for each in complaints(document))
    else:
        load_policy(document)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("rules: [{name: a, gate: hard}, {name: b, gate: run}]", 'rule "b": is never reached, because rule "a"'),
        ("rules: [{name: a, actions: [x*], gate: hard}, {name: b, actions: [xy], gate: run}]", "never reached"),
        ("rules: [{name: a, actions: [x*], gate: hard}, {name: b, actions: [xy*], gate: run}]", "never reached"),
        (
            "rules: [{name: a, gate: hard, when: facts.cuont > 1}]",
            'facts has no "cuont" unless a lookup gives one, and without it the action waits; did',
        ),
        ("rules: [{name: a, gate: hard, reviewers: [x]}]", "no people: section"),
    ],
)
def test_what_is_only_odd_is_a_warning_with_its_line(document: str, says: str) -> None:
    warnings = load_policy(document).warnings
    assert any(says in each for each in warnings), warnings
    assert all(each.startswith("assentry.yaml:1: ") for each in warnings)


@pytest.mark.parametrize(
    "document",
    [
        "rules: [{name: a, gate: hard, when: facts.count > 1}, {name: b, gate: run}]",
        "rules: [{name: a, gate: hard, agents: [x]}, {name: b, gate: run}]",
        "rules: [{name: a, gate: hard, actions: [xy]}, {name: b, gate: run, actions: [x*]}]",
        "rules: [{name: a, gate: hard, actions: ['*b]*']}, {name: b, gate: run, actions: ['[ab]*']}]",
    ],
)
def test_rules_that_can_be_reached_are_not_warned_about(document: str) -> None:
    assert load_policy(document).warnings == ()


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    assert "larger than 1024 KiB" in complaints("#" * 1_100_000)[0]


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{p}, *{p}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True))
    assert "not allowed" in complaints(bomb)[0]


def test_yes_and_no_stay_words() -> None:
    assert load_policy("people: {no: {roles: [on, yes]}}").people[0].roles == ("on", "yes")


@pytest.mark.parametrize("document", [*DOCUMENTED, EXAMPLE, *(f"autonomy: {name}" for name in PRESETS)])
def test_every_documented_policy_loads_fits_the_schema_and_survives_a_round_trip(document: str) -> None:
    loaded = load_policy(document)
    assert loaded.warnings == ()
    Draft202012Validator(SCHEMA).validate(yaml.safe_load(document))
    written = to_document(loaded)
    Draft202012Validator(SCHEMA).validate(written)
    assert load_policy(yaml.safe_dump(written, sort_keys=False)) == loaded
    assert load_policy(json.dumps(written)) == loaded


def test_the_schema_is_one_and_every_key_has_a_description() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    for name, section in SCHEMA["$defs"].items():
        for key, value in section.get("properties", {}).items():
            target = SCHEMA["$defs"].get(value.get("$ref", "").removeprefix("#/$defs/"), {})
            assert value.get("description") or target.get("description"), f"{name}.{key}"


def test_the_schema_and_the_loader_know_the_same_keys() -> None:
    sections = SCHEMA["$defs"]
    found = {name: section for name, section in sections.items() if section.get("additionalProperties") is False}
    found["quorum"] = sections["quorum"]["oneOf"][1]
    found["levels"] = sections["policy"]["properties"]["defaults"]
    assert {name: set(section["properties"]) for name, section in found.items()} == {
        name: set(keys) for name, keys in KEYS.items()
    }
    assert set(sections["policy"]["properties"]["floor"]["properties"]) == set(KEYS["levels"])
    for section in found.values():
        assert section["additionalProperties"] is False


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "policy.md").read_text()
    for section, keys in KEYS.items():
        for key in keys:
            assert re.search(rf"\b{key}\b", text), f"{section}.{key} is not in docs/policy.md"


@pytest.mark.parametrize(
    "document",
    [
        "rules: [{name: r, gate: hard, at_end: proceed}]",
        "rules: [{name: r, gate: hard, window: 5m}]",
        "rules: [{name: r, gate: soft, at_end: deny}]",
        "rules: [{name: r, gate: hard, reviewer: x}]",
        "rules: [{name: r}]",
        "rules: [{gate: hard}]",
        "defaults: {critical: soft}",
        "limits: {time: soon}",
        "ladder: [{after: 1h}]",
        "actions: {x: {because: y}}",
        "people: {}",
        "at_end: approve",
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(document: str) -> None:
    complaints(document)
    assert not Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(document))


KEY_NAMES = sorted({key for keys in KEYS.values() for key in keys})
WORDS = st.sampled_from(
    [*KEY_NAMES, *(str(gate) for gate in GateKind), "1h", "never", "*", "alice", "role:x", "", "deny"]
)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
thorough = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def loaded_or_error(text: str) -> Policy | PolicyError:
    try:
        return load_policy(text, "policy.yml")
    except PolicyError as error:
        return error


def loads_or_complains(text: str) -> None:
    outcome = loaded_or_error(text)
    if isinstance(outcome, PolicyError):
        assert outcome.complaints
        for each in outcome.complaints:
            assert COMPLAINT.fullmatch(each), each
    else:
        assert load_policy(yaml.safe_dump(to_document(outcome), sort_keys=False)) == outcome


@thorough
@given(st.dictionaries(st.sampled_from(KEYS["policy"]), VALUES, max_size=5))
def test_any_document_loads_or_is_complained_about(document: dict[str, Any]) -> None:
    loads_or_complains(yaml.safe_dump(document, allow_unicode=True))


@thorough
@given(st.dictionaries(st.sampled_from(KEYS["rule"]), VALUES, max_size=6))
def test_any_rule_loads_or_is_complained_about(written: dict[str, Any]) -> None:
    loads_or_complains(json.dumps({"rules": [{"name": "r", "gate": "hard", **written}]}))


@thorough
@given(st.text(max_size=60))
def test_any_text_loads_or_is_complained_about(text: str) -> None:
    loads_or_complains(text)


@thorough
@given(st.data())
def test_a_mutated_example_loads_or_is_complained_about(data: st.DataObject) -> None:
    text = EXAMPLE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 30)))
        middle = data.draw(
            st.text(max_size=8) | st.sampled_from([text[start:end] * 2, "\n", "  ", ": ", "- ", "{", "*a"])
        )
        text = text[:start] + middle + text[end:]
    loads_or_complains(text)
