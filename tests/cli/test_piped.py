"""In a pipe a table loses nothing: a line for each row, whole cells, no colour, whatever the environment says."""

from pathlib import Path

import pytest

from assentry.core.text import visible
from tests.cli.running import Crew
from tests.cli.terminal import Agent, Assentry, spawned

NARROW = {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
LONG = "quarterly-report-of-the-northern-branch-" * 4


def piped(*args: str) -> list[str]:
    """What the command wrote into a pipe, in lines."""
    done = spawned(*args, **NARROW)
    assert done.returncode == 0, done.stderr.decode()
    out = done.stdout.decode()
    assert "\x1b" not in out
    return out.splitlines()


def test_pending_names_every_target_whole_on_one_line(agent: Agent) -> None:
    agent.asks("archive_report", {"report": "r-7", "region": LONG})
    agent.asks("cancel_order", {"order_id": "A-17"}, says="Cancel {order_id}, asked for by " + LONG)
    head, *rows = piped("pending")
    assert head.split() == ["RISK", "CODE", "WHAT", "AGENT", "ASKED", "TIME", "LEFT"]
    assert len(rows) == 2
    assert any("Archive report r-7" in row for row in rows)
    assert any(f"Cancel A-17, asked for by {LONG}" in row for row in rows)
    assert all("cleanup" in row and row.endswith("1 h, then denied") for row in rows)


def test_runs_show_their_whole_goal(agent: Agent) -> None:
    crew = Crew(agent)
    crew.looked_in(f"Tidy up {LONG}{LONG}")
    head, row = piped("runs")
    assert head.split() == ["STATE", "RUN", "GOAL", "AGENT", "STEPS", "COST", "BEGAN", "NOW"]
    assert f"Tidy up {LONG}{LONG}" in row
    assert row.endswith("s") or "has waited for a person" in row


def test_permissions_show_their_whole_condition(assentry: Assentry, agent: Agent) -> None:
    condition = " && ".join(f'args.name != "{LONG}{each}"' for each in range(3))
    assentry("grants", "give", "tidy_*", "--for", "2h", "--when", condition, "--agent", f"agent-{LONG}")
    head, row = piped("grants", "list")
    assert head.split() == ["GRANT", "WHAT", "USED", "ENDS", "BY"]
    assert condition in row
    assert f"agent-{LONG}" in row
    assert "0 uses, no spending" in row
    assert "in 2 h" in row


def test_an_explanation_and_the_doctor_keep_each_sentence_on_a_line(here: Path, agent: Agent) -> None:
    because = "because " + "nobody may do this without a second look, " * 4
    rules = "\n".join(
        f'  - {{name: "rule {number} {LONG[:80]}", actions: ["tidy_{number}"], gate: hard, because: "{because}"}}'
        for number in range(2)
    )
    (here / "long.yaml").write_text(f"rules:\n{rules}\n", encoding="utf-8")
    lines = piped("policy", "explain", "long.yaml", "--action", "tidy_1")
    assert any(because.strip() in line for line in lines)
    assert any(f"rule 0 {LONG[:80]}" in line for line in lines)
    assert any(line.strip().startswith("ok") and "database" in line for line in piped("doctor"))


def test_the_log_says_each_entry_on_one_line(agent: Agent) -> None:
    agent.asks("archive_report", {"report": "r-7"}, agent=f"agent-{LONG}")
    (line,) = piped("log", "--kind", "request.asked")
    assert f"asked by agent-{LONG}" in line


@pytest.mark.parametrize("order", ["A-17", "x@evil.org"])
def test_pending_and_show_name_the_target_and_say_what_was_guessed(
    assentry: Assentry, agent: Agent, order: str
) -> None:
    request = agent.asks("abort_delivery", {"delivery_id": order}, declared=None)
    assert f"Abort delivery {order}" in assentry("pending").out
    shown = " ".join(assentry("show", request.code).out.split())
    assert f"Abort delivery {order}" in shown
    assert "probably cannot be undone · probably changes a service" in shown
    assert "nobody declared it" in shown
    assert "The name says “abort”" in shown


def test_explain_marks_guesses_and_known_actions_apart(assentry: Assentry, agent: Agent) -> None:
    guessed = assentry("policy", "explain", "--action", "abort_delivery").out
    assert "probably cannot be undone, probably changes a service" in guessed
    assert "“Probably” marks a guess" in guessed
    known = assentry("policy", "explain", "--action", "delete_file", "--args", '{"path": "a"}').out
    assert "cannot be undone" in known
    assert "probably" not in known.lower()
    declared = assentry("policy", "explain", "--action", "abort_delivery", "--irreversible").out
    assert ": cannot be undone, probably changes a service" in declared
    answers = assentry("policy", "explain", "--action", "abort_delivery", "--irreversible", "--json").json["answers"]
    assert [each["basis"] for each in answers] == ["declared", "names"]


def test_what_an_agent_writes_stays_inert_in_a_pipe(agent: Agent) -> None:
    hostile = "a\x1b[2Jb\u202ec\nrow two"
    agent.asks("archive_report", {"report": hostile})
    _, row = piped("pending")
    assert visible("\x1b", lines=False) in row
    assert "⟨U+000A⟩row two" in row
