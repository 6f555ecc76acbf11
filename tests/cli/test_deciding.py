"""Looking and deciding from a terminal, against a real database."""

import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assentry import option
from assentry.core.request import State
from tests.cli.terminal import Agent, Assentry, at_terminal, spawned
from tests.stage import GONE, MILD

CARD = {
    "abandoned_at", "action", "agent", "args", "asked_at", "asked_by", "can_send_back", "claims", "code", "declared", "differences", "digest",
    "editable", "effect", "ends_at",
    "error", "facts", "gate", "grounds", "id", "if_denied", "is_stop", "kind", "needed_by", "needs", "options", "outcome",
    "policy_version", "question", "result", "review", "reviewers", "risk", "run", "schema", "secrets", "state", "then",
    "on_silence", "paused", "time_left", "title", "undo_until", "votes", "warnings", "why", "phrase",
}  # fmt: skip

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "keep": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}


def apply(assentry: Assentry, here: Path, text: str) -> None:
    (here / "p.yaml").write_text(text)
    assentry("policy", "apply", "p.yaml", "--yes")


def test_pending_lists_the_most_urgent_first_with_shape_word_time_and_what_then(
    assentry: Assentry, agent: Agent
) -> None:
    hard, manual, question = agent.asks(), agent.pays(), agent.wonders(best_guess="x")
    lines = assentry("pending").out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == [manual.code, hard.code, question]
    assert lines[1].startswith("◆ critical")
    assert lines[2].startswith("▲ dangerous")
    assert lines[3].startswith("? question")
    assert lines[2].endswith("1 h, then denied")
    assert lines[3].endswith("then goes on with the best guess")
    assert "cleanup" in lines[2]


def test_nothing_waits(assentry: Assentry, agent: Agent) -> None:
    assert assentry("pending").out == "nothing waits\n"
    assert assentry("pending", "--json").json == {"mode": "enforce", "requests": [], "next": ""}


def test_a_missing_database_is_said_and_not_created(assentry: Assentry, here: Path) -> None:
    done = assentry("pending", code=1)
    assert "there is no database" in done.err
    assert done.err.count("\n") == 1
    assert not (here / "assentry.db").exists()


def test_the_json_of_a_card_has_the_documented_fields(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks(why="they are old")
    [card] = assentry("pending", "--json").json["requests"]
    assert set(card) == CARD
    shown = assentry("show", request.code, "--json").json
    assert shown["request"] == {**card, "time_left": shown["request"]["time_left"]}
    assert shown["you"]
    assert shown["why_not"] == ""
    assert card["args"] == {"files": ["a.tmp", "b.tmp"], "root": "~/projects"}
    assert card["claims"] == {"why": "they are old"}


def test_pending_filters_and_pages(assentry: Assentry, agent: Agent) -> None:
    for name in ("alpha", "bravo", "charlie", "delta", "echo"):  # no code begins like one of these
        agent.asks(args={"files": [f"{name}.tmp"]}, says=f"Delete draft {name}")
    agent.pays()
    assert len(assentry("pending", "--risk", "critical", "--json").json["requests"]) == 1
    assert len(assentry("pending", "--text", "draft charlie", "--json").json["requests"]) == 1
    assert assentry("pending", "--agent", "nobody").out == "nothing fits\n"
    first = assentry("pending", "--limit", "4", "--json").json
    second = assentry("pending", "--limit", "4", "--after", first["next"], "--json").json
    codes = [card["code"] for page in (first, second) for card in page["requests"]]
    assert len(set(codes)) == 6
    assert second["next"] == ""


def test_pending_shows_other_states(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks()
    assentry("deny", request.code, "--reason", "no")
    assert request.code in assentry("pending", "--state", "denied").out
    assert request.code in assentry("pending", "--state", "all").out
    assert "undo-asked" in assentry("pending", "--state", "gone", code=2).err


def test_the_card_stands_in_the_order_in_which_it_matters(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks(
        says="Delete {files.count} files",
        why="they are old",
        options=[option("Only one", "the other stays", {"files": ["a.tmp"]}), option("Cancel", "nothing changes")],
    )
    out = assentry("show", request.code).out
    order = [
        "▲ dangerous", "Delete 2 files", "2 files", "cannot be undone", "Why you are asked", "What you can do", "Only one",
        "the other stays", "Cancel", "nothing runs", "Time", "then denied", "What was asked", "delete_files", "2 items",
        "digest: " + request.candidate.permit_digest, "The agent says (unchecked)", "they are old", "assentry choose",
    ]  # fmt: skip
    place = 0
    for text in order:
        assert text in out[place:], f"{text} does not follow:\n{out}"
        place = out.index(text, place)


def test_the_card_says_who_declared_what_and_what_does_not_count(assentry: Assentry, agent: Agent, here: Path) -> None:
    (here / "own.yaml").write_text("actions: {delete_files: {reversible: true, because: there is a backup}}\n")
    assentry("policy", "apply", "own.yaml")
    agent.gate.portal.run(agent.gate._judgement.refresh())
    request = agent.asks()
    out = assentry("show", request.code).out
    told = "can be undone: no, says the code; the policy (there is a backup) says yes, not counted"
    assert told in " ".join(out.split())
    explained = assentry("policy", "explain", "--action", "delete_files", "--irreversible").out
    assert told in " ".join(explained.split())


def test_long_values_are_folded_and_the_digest_stands_only_under_a_whole_card(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks(args={"files": [f"{n}.tmp" for n in range(300)], "note": "word " * 500})
    short = assentry("show", request.code).out
    assert "290 items more: assentry show" in short
    assert "299.tmp" not in short
    assert request.candidate.permit_digest not in short
    whole = assentry("show", request.code, "--full").out
    assert "299.tmp" in whole
    assert whole.count("word") == 500
    assert request.candidate.permit_digest in whole


def test_ids_are_abbreviated_and_an_ambiguous_one_lists_candidates(assentry: Assentry, agent: Agent) -> None:
    requests = [agent.asks(args={"files": [f"{number}.tmp"]}) for number in range(3)]
    assert requests[0].code in assentry("show", requests[0].code.upper()[:6]).out
    common = requests[0].id[:8]  # ids begin with the time, so those of one minute begin alike
    assert all(request.id.startswith(common) for request in requests)
    done = assentry("show", common, code=1)
    assert all(request.code in done.err for request in requests)
    assert "type more of it" in done.err
    assert assentry("show", "zzzz", "--json", code=1).json["error"]["kind"] == "NotFound"


def test_approve_lets_it_run_and_the_second_word_is_a_conflict(assentry: Assentry, either: Agent) -> None:
    request = either.asks()
    done = assentry("approve", request.code[:5], "--note", "checked")
    assert "approved; its caller runs it" in done.out
    after = either.now(request)
    assert after.state is State.APPROVED
    assert after.votes[0].surface == "terminal"
    error = assentry("deny", request.code, "--reason", "too late", "--json", code=3).json["error"]
    assert error["kind"] == "AlreadyDecided"
    assert error["exit"] == 3
    assert error["code"] == request.code


def test_another_digest_than_the_one_shown_is_refused(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks()
    assert "changed since it was shown" in assentry("approve", request.code, "--digest", "0" * 64, code=3).err
    assentry("approve", request.code, "--digest", request.candidate.permit_digest)


def test_a_critical_action_wants_its_phrase(assentry: Assentry, agent: Agent) -> None:
    request = agent.pays()
    error = assentry("approve", request.code, "--json", code=6).json["error"]
    assert error["phrase"] == "pay 12400.00"
    assentry("approve", request.code, "--confirm", "pay 12400", code=6)
    assert agent.now(request).state is State.PENDING
    assentry("approve", request.code, "--confirm", "pay 12400.00")
    assert agent.now(request).state is State.APPROVED


@pytest.mark.parametrize("typed", ["\n", "y\n", "yes\n", "\x04"])
def test_enter_alone_never_approves(agent: Agent, typed: str) -> None:
    request = agent.pays()
    code, seen = at_terminal(["approve", request.code], [("> ", typed)])
    assert code in (1, 6)
    assert b"Exactly this runs" in seen
    assert agent.now(request).state is State.PENDING


def test_the_typed_phrase_approves(agent: Agent) -> None:
    request = agent.pays()
    code, _ = at_terminal(["approve", request.code], [("> ", "pay 12400.00\n")])
    assert code == 0
    assert agent.now(request).state is State.APPROVED


def test_arguments_too_long_for_one_look_are_shown_first_or_need_the_digest(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks(args={"files": [f"{n}.tmp" for n in range(300)]})
    assert "--digest" in assentry("approve", request.code, code=6).err
    code, seen = at_terminal(["approve", request.code], [("Type approve", "\n")])
    assert code == 1
    assert b"299.tmp" in seen
    assert agent.now(request).state is State.PENDING
    assentry("approve", request.code, "--digest", request.candidate.permit_digest)


def test_what_somebody_changed_is_not_approved_unseen(assentry: Assentry, agent: Agent, here: Path) -> None:
    apply(assentry, here, "rules: [{name: two, actions: ['delete_*'], gate: hard, quorum: 2}]\nself_review: allow\n"
          f"people: {{ann: {{os_users: [{_me()}]}}, bob: {{os_users: [other]}}}}\n")  # fmt: skip
    request = agent.asks()
    assert "counted: 1 of 2" in assentry("modify", request.code, "--args", '{"files": ["a.tmp"]}').out
    assert "already decided" in assentry("approve", request.code, code=4).err
    out = assentry("show", request.code).out
    assert "Changed since it was asked" in out
    assert out.index("Changed since it was asked") < out.index("1 of 2 approvals")


def test_a_denial_needs_a_reason(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks()
    assert "needs a reason" in assentry("deny", request.code, code=1).err
    assert "its run ends" in assentry("deny", request.code, "--reason", "no", "--stop").out
    assert agent.now(request).reason == "no"


def test_a_person_at_a_terminal_is_asked_for_the_reason(agent: Agent) -> None:
    request = agent.asks()
    code, _ = at_terminal(["deny", request.code], [("Why?", "not today\n")])
    assert code == 0
    assert agent.now(request).reason == "not today"


def test_modify_sets_values_by_the_schema(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks(args={"path": "a", "keep": 3, "tags": ["x"]}, schema=SCHEMA)
    done = assentry("modify", request.code, "--set", "path=5", "--set", "keep=7", "--unset", "tags")
    assert "What changes" in done.out
    assert json.loads(agent.now(request).candidate.args_text) == {"path": "5", "keep": 7}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--set", "depth=1"], "has no argument 'depth'; there are: keep, path, tags"),
        (["--set", "keep=many"], "`keep` must be an integer, got text\n"),
        (["--set", "tags=3"], "`tags` must be a list of texts, got an integer\n"),
        (["--set", "tags=x"], """`tags` must be a list of texts: --set 'tags=["x"]'"""),
        (["--set", "tags=[3]"], "`tags.0` must be text, got an integer\n"),
        (["--args", '{"keep": "many"}'], "do not fit the schema"),
        (["--args", "[1]"], "must be a JSON object"),
        (["--args", "{"], "is not JSON"),
        (["--args", '{"keep": NaN}'], "JSON cannot carry"),
        (["--set", "keep=3"], "nothing is different"),
    ],
)
def test_modify_says_what_is_wrong(assentry: Assentry, agent: Agent, options: list[str], complaint: str) -> None:
    request = agent.asks(args={"path": "a", "keep": 3, "tags": ["x"]}, schema=SCHEMA)
    done = assentry("modify", request.code, *options, code=1)
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert agent.now(request).state is State.PENDING


def test_modify_wants_to_know_what(assentry: Assentry, agent: Agent) -> None:
    assert "say what to change" in assentry("modify", agent.asks().code, code=2).err


def editor(here: Path, *texts: str) -> str:
    """An editor that writes these texts, one each time it is opened, and keeps what it was shown."""
    script = here / "editor.py"
    script.write_text(
        "#!/usr/bin/env python3\nimport sys, pathlib\n"
        f"texts = {list(texts)!r}\n"
        "seen = pathlib.Path('seen'); number = len(list(pathlib.Path('.').glob('seen*')))\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "pathlib.Path(f'seen{number}').write_bytes(file.read_bytes())\n"
        "if number < len(texts): file.write_text(texts[number])\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_edit_reopens_with_the_error_shows_the_difference_and_asks(agent: Agent, here: Path) -> None:
    request = agent.asks(args={"path": "a\u202eb", "keep": 3}, schema=SCHEMA)
    opened = editor(here, '{"keep": "x"}', "# mine\n" + json.dumps({"path": "b", "keep": 4}))
    code, seen = at_terminal(["modify", request.code, "--edit"], [("Type modify", "modify\n")], EDITOR=opened)
    assert code == 0, seen.decode()
    assert (here / "seen0").read_text().isascii()
    assert "NOT ACCEPTED: arguments do not fit the schema" in (here / "seen1").read_text()
    assert b"What changes" in seen
    assert json.loads(agent.now(request).candidate.args_text) == {"path": "b", "keep": 4}


@pytest.mark.parametrize("left", ["", '{"path": "a", "keep": 3}'])
def test_an_editor_left_without_a_change_changes_nothing(agent: Agent, here: Path, left: str) -> None:
    request = agent.asks(args={"path": "a", "keep": 3}, schema=SCHEMA)
    code, seen = at_terminal(["modify", request.code, "--edit"], EDITOR=editor(here, left))
    assert code == 1
    assert b"nothing was changed" in seen
    assert agent.now(request).state is State.PENDING


def test_edit_without_agreement_changes_nothing(agent: Agent, here: Path) -> None:
    request = agent.asks(args={"path": "a", "keep": 3}, schema=SCHEMA)
    opened = editor(here, '{"path": "a", "keep": 4}')
    code, _ = at_terminal(["modify", request.code, "--edit"], [("Type modify", "\n")], EDITOR=opened)
    assert code == 1
    assert agent.now(request).state is State.PENDING


def test_choose_takes_the_option_as_numbered_on_the_card(assentry: Assentry, either: Agent) -> None:
    request = either.asks(options=[option("One", "", {"files": ["a.tmp"]}), option("Cancel")])
    assert "has no option 3; there are 2" in assentry("choose", request.code, "3", code=1).err
    done = assentry("choose", request.code, "1", "--json").json
    assert done["did"] == "choose"
    assert done["request"]["args"]["files"] == ["a.tmp"]
    assert [each["number"] for each in done["request"]["options"]] == [1, 2]
    other = either.asks(options=[option("One", "", {"files": ["a.tmp"]}), option("Cancel")])
    assert "nothing runs" in assentry("choose", other.code, "2").out


def test_answers_are_text_choices_numbers_or_json(assentry: Assentry, agent: Agent) -> None:
    choices = agent.wonders(choices=["newer", "older"])
    assert "choose one of" in assentry("answer", choices, "middle", code=1).err
    assert "answered" in assentry("answer", choices, "2").out
    number = agent.wonders("How many?", schema={"type": "integer"})
    assert "does not fit" in assentry("answer", number, "--json-value", '"x"', code=1).err
    assentry("answer", number, "7")
    free = agent.wonders("Anything?")
    assentry("answer", free, "12")
    assert "approve or deny it" in assentry("answer", agent.asks().code, "x", code=1).err


def test_revise_sends_it_back(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks()
    assert "needs instructions" in assentry("revise", request.code, code=1).err
    assentry("revise", request.code, "shorter")
    after = agent.now(request)
    assert (after.state, after.reason) == (State.REVISED, "shorter")
    told = assentry("approve", request.code, code=3).err
    assert "was already sent back by" in told
    assert "it is" not in told


def test_who_is_nobody_in_the_policy_may_look_but_not_decide(assentry: Assentry, agent: Agent, here: Path) -> None:
    request = agent.asks()
    apply(assentry, here, "people: {ann: {os_users: [somebody-else]}}\n")
    assert "You may not decide this" in assentry("show", request.code).out
    error = assentry("approve", request.code, "--json", code=4).json["error"]
    assert error["kind"] == "NotAllowed"
    assert agent.now(request).state is State.PENDING


def test_only_a_person_at_a_terminal_starts_a_soft_window(assentry: Assentry, agent: Agent, here: Path) -> None:
    apply(
        assentry,
        here,
        "rules: [{name: soft, actions: [rename_file], when: effect.reversible, gate: soft, window: 5m}]\n",
    )
    agent.gate._portal.run(agent.gate._judgement.refresh())
    request = agent.asks("rename_file", {"old": "a", "new": "b"}, declared=MILD)
    assert "starts when somebody has seen it" in assentry("show", request.code).out
    assert spawned("show", request.code, "--json").returncode == 0
    assert agent.now(request).seen_at is None
    at_terminal(["show", request.code])
    assert agent.now(request).seen_at is not None


@pytest.mark.parametrize("width", ["60", "80", "100", "120"])
def test_a_table_at_a_terminal_shows_every_code_and_what_it_is_about(
    assentry: Assentry, agent: Agent, here: Path, width: str
) -> None:
    window = "{name: soft, actions: [rename_file], when: effect.reversible, gate: soft, window: 5m}"
    endless = "{name: endless, actions: [delete_files], gate: hard, limit: never, at_end: stay}"
    apply(assentry, here, f"rules: [{window}, {endless}]\n")
    agent.gate._portal.run(agent.gate._judgement.refresh())
    soft = agent.asks("rename_file", {"old": "a", "new": "b"}, declared=MILD)
    hard = agent.asks()
    seen = at_terminal(["pending"], COLUMNS=width, NO_COLOR="1")[1].decode()
    table = re.sub(r"\x1b\[[0-9;]*m", "", seen.replace("\r", ""))
    assert all(len(line) <= int(width) for line in table.splitlines()), table
    for request, title in ((soft, "Rename file"), (hard, "Delete 2 files")):
        (line,) = (line for line in table.splitlines() if request.code in line)
        assert title.split()[0] in line
    assert "when seen" in table
    assert "no limit" in table


def test_a_surface_of_ones_own_says_that_it_showed_the_card(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks()
    assentry("show", request.code, "--json", "--seen")
    assert agent.now(request).seen_at is not None


@pytest.mark.parametrize("command", [["pending"], ["show", "{}"], ["log"], ["approve", "{}"]])
def test_observe_mode_is_loud_wherever_requests_are_shown(
    assentry: Assentry, agent: Agent, here: Path, command: list[str]
) -> None:
    request = agent.asks()
    (here / "p.yaml").write_text("mode: observe\n")
    assert "OBSERVE MODE" in assentry("policy", "apply", "p.yaml").err
    assert "OBSERVE MODE" in assentry(*(part.format(request.code) for part in command)).err
    assert assentry("pending", "--json").json["mode"] == "observe"


def test_watch_draws_what_comes(agent: Agent) -> None:
    command = ["pending", "--watch"]
    first = agent.asks(says="the first")
    code, seen = at_terminal(command, [("the first", "\x03")])
    assert code == 130
    assert first.code.encode() in seen


def test_output_in_a_pipe_is_plain_and_stable(agent: Agent) -> None:
    request = agent.asks(
        says="Delete everything that is old and has a rather long title that would not fit " + "x" * 80
    )
    done = spawned("pending")
    assert b"\x1b" not in done.stdout
    assert b"x" * 80 in done.stdout
    assert not any(line.endswith(b" ") for line in done.stdout.splitlines())
    assert b"\x1b" not in spawned("show", request.code, FORCE_COLOR="").stdout


def test_colour_only_on_a_terminal_that_wants_it(agent: Agent) -> None:
    agent.asks()
    assert b"\x1b[31m" in at_terminal(["pending"])[1]
    assert b"\x1b[31m" not in at_terminal(["pending"], NO_COLOR="1")[1]


def _me() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


def test_after_the_fact_undo_reconcile_and_review(assentry: Assentry, agent: Agent) -> None:
    done = agent.gate.guard(lambda path: path, name="tidy", reversible=True, reach="local", undo=lambda path: None)
    done("a")
    [card] = assentry("pending", "--state", "done", "--json").json["requests"]
    assert "assentry undo" in assentry("show", card["code"]).out
    assert "takes it back" in assentry("undo", card["code"]).out
    waiting = agent.asks(declared=GONE)
    assert "only an unknown outcome" in assentry("reconcile", waiting.code, "done", code=3).err
    assert "nothing to review" in assentry("review", waiting.code, "accepted", code=3).err


def test_ctrl_c_at_a_question_ends_the_command_and_changes_nothing(agent: Agent, assentry: Assentry) -> None:
    request = agent.asks()
    code, _ = at_terminal(["deny", request.code], [("Why?", "\x03")], seconds=30)
    assert code == 130
    assert [each["code"] for each in assentry("pending", "--json").json["requests"]] == [request.code]


def test_what_the_program_does_not_allow_is_not_offered_and_says_so_when_it_is_tried(
    assentry: Assentry, agent: Agent
) -> None:
    fixed: dict[str, Any] = {"type": "object", "properties": {"path": {"const": "a"}}}
    request = agent.asks("delete_file", {"path": "a"}, schema=fixed, why="Is it old enough?")
    shown = assentry("show", request.code).out
    assert "Is it old enough?" in shown
    assert "assentry revise" in shown
    assert "assentry modify" not in shown
    for change in (["--set", "path=b"], ["--unset", "path"], ["--args", '{"path": "a", "more": 1}']):
        tried = assentry("modify", request.code, *change, code=None)
        assert tried.code != 0
        assert "the program that asks allows no changes" in tried.err
    deaf = agent.asks("delete_file", {"path": "b"}, schema={"x-assentry-no-drafts": True})
    shown = assentry("show", deaf.code).out
    assert "assentry modify" in shown
    assert "assentry revise" not in shown
    assert "hears no words" in assentry("revise", deaf.code, "shorter", code=None).err
    card = assentry("show", deaf.code, "--json").json["request"]
    assert (card["editable"], card["can_send_back"]) == (True, False)
