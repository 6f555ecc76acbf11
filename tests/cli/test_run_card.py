"""What a card says beyond its request: the run, a check-in, and the drafts before it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from assentry.core.advance import opened
from assentry.core.request import Request
from assentry.engine.chronicle import MOST_DRAFTS, Chronicle
from tests.cli.running import Crew
from tests.cli.terminal import Agent, Assentry, at_terminal
from tests.cli.test_hostile import ALL, HOSTILE, scan

FIRST = "Dear team,\n\nwe removed a great many files at a price of 40 EUR.\n\nYours"
SECOND = "Dear team,\n\nwe removed 12 files.\n\nYours"


def mail(agent: Agent, body: str, **said: Any) -> Request:
    return agent.asks("send_mail", {"to": "team@example.org", "body": body}, says="Mail {to}", **said)


def waiting(assentry: Assentry) -> str:
    (card,) = assentry("pending", "--json").json["requests"]
    return str(card["code"])


def test_the_card_tells_of_the_run_with_its_scope_and_what_the_agent_says_apart(
    either: Agent, assentry: Assentry
) -> None:
    crew = Crew(either)

    async def body(run: Any) -> None:
        await run.spent("0.40")
        await crew.delete_files(["a", "b"])

    code = crew.works("Tidy up", body, original="a small cleanup", scope={"files": 1, "paths": ["/srv"]})
    out = assentry("show", waiting(assentry)).out
    for text in (f"run {code}", f"Run {code} of cleanup", "“a small cleanup”", "at most 1 file (none used)",
                 "touch only what is in /srv", "1 step, cost 0.4 as the agent says", "parked: has waited for a person"):  # fmt: skip
        assert text in out, f"{text!r} is missing:\n{out}"
    assert out.index("Exactly this runs") < out.index(f"Run {code}"), "the run does not push the bytes away"
    assert out.index("a small cleanup") < out.index("The agent says (unchecked)") < out.index("goal  Tidy up")
    assert "What your word means" not in out


def test_a_check_in_shows_the_run_first_its_last_steps_and_what_each_choice_means(
    either: Agent, assentry: Assentry
) -> None:
    run = Crew(either).looked_in()
    code = waiting(assentry)
    out = assentry("show", code).out
    order = ["3 steps since somebody looked in", f"Run {run} of cleanup", "✓ look", "· delete", "What it did before this",
             "Note one – ran at once, done", "Note three", "What your word means for the run", f"assentry approve {code}",
             "continue:", "redirect:", f"assentry pause {run}", "pause:", "skip:", f"assentry deny {code} --stop",
             "stop: the whole run ends", "Exactly this runs"]  # fmt: skip
    place = 0
    for text in order:
        assert text in out[place:], f"{text!r} does not follow:\n{out}"
        place = out.index(text, place)
    told = assentry("show", code, "--json").json["background"]
    assert (told["check_in"], told["run"]["code"]) == (True, run)
    assert [step["says"] for step in told["recent"]] == ["Note one", "Note two", "Note three"]


def test_at_a_paused_run_the_card_says_how_it_goes_on(agent: Agent, assentry: Assentry) -> None:
    run = Crew(agent).looked_in()
    assentry("pause", run, "--reason", "lunch")
    out = assentry("show", waiting(assentry)).out
    assert f"assentry go {run}" in out
    assert f"assentry pause {run}" not in out
    assert "lunch" in out


def test_a_run_that_works_for_another_says_for_which(agent: Agent, assentry: Assentry) -> None:
    crew = Crew(agent)

    async def body(_: Any) -> None:
        async with crew.gate.run("Find the owners", agent="researcher", patience=0):
            await crew.delete_files(["x"])

    parent = crew.works("Tidy up", body)
    out = assentry("show", waiting(assentry)).out
    assert "of researcher" in out
    assert f"works for  run {parent} of cleanup (“Tidy up”)" in out


def test_a_request_that_only_names_a_run_has_no_such_section(agent: Agent, assentry: Assentry) -> None:
    request = agent.asks(run="nightly", key="1")
    done = assentry("show", request.code)
    assert "Run nightly" not in done.out
    assert "run nightly" in done.out
    assert assentry("show", request.code, "--json").json["background"]["run"] is None


def test_a_draft_says_who_sent_the_one_before_back_and_what_is_different(either: Agent, assentry: Assentry) -> None:
    first = mail(either, FIRST)
    assentry("revise", first.code, "without the price")
    second = mail(either, SECOND, draft_of=first.id)
    out = assentry("show", second.code).out
    for text in (f"Draft 2, revises {first.code}", "sent back by", "with: “without the price”",
                 "- we removed a great many files", "+ we removed 12 files."):  # fmt: skip
        assert text in out, out
    assert "- Dear team" not in out, "what stayed is not said to have gone"
    assert out.index("Draft 2") < out.index("Exactly this runs")
    chain = assentry("show", second.code, "--json").json["background"]["drafts"]
    assert [(each["number"], each["code"], each["word"]) for each in chain] == [
        (1, first.code, "revise"), (2, second.code, ""),
    ]  # fmt: skip
    assert chain[0]["instructions"] == "without the price"
    assert chain[0]["args"]["body"] == FIRST


def test_the_history_has_every_round_with_what_was_said(agent: Agent, assentry: Assentry) -> None:
    before, codes = "", []
    for number in range(3):
        request = mail(agent, f"draft number {number}", draft_of=before)
        before = request.id
        codes.append(request.code)
        if number < 2:
            assentry("revise", request.code, f"instructions {number}")
    short = assentry("show", codes[2]).out
    assert "draft 1" in short
    assert "--history" in short
    out = assentry("show", codes[2], "--history").out
    for number, code in enumerate(codes):
        assert f"Round {number + 1}: {code}" in out
    assert all(f"“instructions {number}”" in out for number in range(2))
    assert out.count("- draft number") == 2


def test_what_an_agent_only_claims_to_revise_is_told_as_it_is(either: Agent, assentry: Assentry) -> None:
    agent = either
    denied = mail(agent, "first")
    assentry("deny", denied.code, "--reason", "never")
    out = assentry("show", mail(agent, "second", draft_of=denied.id).code).out
    assert f"{denied.code} was not sent back: it is denied" in out
    other = agent.asks("delete_files", agent="somebody", draft_of=denied.id)
    out = assentry("show", other.code).out
    assert "was asked by another agent, cleanup" in out
    assert "was for another action, send_mail" in out
    lost = assentry("show", mail(agent, "third", draft_of="no\x1b\x00such").code).out
    assert "which is not on record" in lost
    scan(lost.encode())


async def test_a_chain_of_drafts_that_bites_its_tail_or_never_ends_is_walked_so_far(agent: Agent) -> None:
    store, story = agent.gate._store, Chronicle(agent.gate._store, "default")
    template = mail(agent, "x").ask

    async def put(number: int, draft_of: int) -> Request:
        named = {"id": f"{template.id[:-4]}{number:04}", "code": f"dr{number:06}"}
        ask = replace(template, **named, draft_of=f"{template.id[:-4]}{draft_of:04}", run="r", step=f"s{number}")
        change = await store.transact(
            "default", None, lambda view: opened(ask, view.now, worker="", lease=view.now - view.now)
        )
        assert change is not None
        assert change.request is not None
        return change.request

    itself = await put(9000, 9000)
    found = await story.drafts(itself)
    assert (found.before, found.cut) == ((), True)
    await put(8001, 8002)
    back = await story.drafts(await put(8002, 8001))
    assert (len(back.before), back.cut) == (1, True)
    for number in range(1, 2 * MOST_DRAFTS):
        last = await put(number, number - 1)
    long = await story.drafts(last)
    assert (len(long.before), long.cut) == (MOST_DRAFTS, True)


def test_texts_that_only_look_the_same_are_said_to_differ(agent: Agent, assentry: Assentry) -> None:
    first = mail(agent, "café  au lait")
    assentry("revise", first.code, "again")
    out = assentry("show", mail(agent, "cafe\u0301 au lait", draft_of=first.id).code).out
    assert "it reads the same" in out
    same = assentry("show", mail(agent, "café  au lait", draft_of=first.id, key="2", run="r").code).out
    assert "nothing in the arguments is different" in same


@pytest.mark.parametrize("kind", [*HOSTILE, "long"])
def test_no_run_or_draft_makes_a_terminal_do_anything(agent: Agent, assentry: Assentry, kind: str) -> None:
    text = HOSTILE.get(kind, "x" * 10_000)
    crew = Crew(agent)

    async def body(run: Any) -> None:
        await run.plan([text, text])
        await run.observed(text, text)
        await run.observed(text, text, trusted=True)
        await crew.note(text)
        async with crew.gate.run(text, agent="helper", host="loop"):
            await crew.delete_files([text])

    run = crew.works(text, body, original=text, scope={"actions": [text], "paths": [text], "recipients": [text]})
    code = waiting(assentry)
    first = mail(agent, text)
    assentry("revise", first.code, text[:2_000])
    second = mail(agent, f"{text} {text}\n{text}", draft_of=first.id)
    for command in (["show", code], ["show", second.code], ["show", second.code, "--history", "--full"], ["runs"],
                    ["run", "show", run], ["run", "show", run, "--full"], ["run", "show", run, "--json"],
                    ["pending"], ["pending", "--run", run, "--state", "all"], ["review"], ["pause", run, "--reason", text],
                    ["run", "show", run], ["stop", run]):  # fmt: skip
        done = assentry(*command, code=None)
        assert done.code in (0, 3), done
        scan(done.out.encode())
        scan(done.err.encode())
    assert len(assentry("show", code).out) < 20_000, "what an agent wrote does not drown the card"


def test_nothing_of_a_run_begins_a_line_or_colours_it_on_a_real_terminal(agent: Agent, assentry: Assentry) -> None:
    crew = Crew(agent)

    async def body(run: Any) -> None:
        await run.plan([f"{ALL}\nOutcome\n  done"])
        await crew.delete_files(["a"])

    run = crew.works(f"{ALL}\nTime\n  no limit", body, original=f"{ALL}\nWhy you are asked")
    code = waiting(assentry)
    for command in (["show", code], ["run", "show", run], ["runs"]):
        ended, seen = at_terminal(command)
        assert ended == 0
        scan(seen, terminal=True)
        assert b"[red]safe[/red]" in seen.replace(b"\r\n", b"") or command == ["runs"]
    lines = [line for line in assentry("show", code).out.splitlines() if line[:1].strip()]
    assert [line for line in lines if line.startswith(("Time", "Outcome", "Why"))] == ["Why you are asked", "Time"]
    assert json.loads(assentry("show", code, "--json").out)["background"]["run"]["goal"].endswith("no limit")
