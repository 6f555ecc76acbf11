"""The timeline of a run and the list of runs, as a stranger reads them; and what went ahead while nobody spoke."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

import assentry as package
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.engine import chronicle
from assentry.engine.chronicle import Chronicle
from assentry.engine.deadlines import settle_overdue
from assentry.engine.inbox import Inbox
from assentry.ports import Filter
from tests.cli.running import Crew
from tests.cli.terminal import Agent, Assentry, at_terminal
from tests.stage import PATIENCE

SECOND = timedelta(seconds=1)
SOFT = "limits: {window: 1s}\nrules:\n  - {name: shown, actions: [note], gate: soft, because: it is shown first}\n"


def follows(out: str, *texts: str) -> None:
    place = 0
    for text in texts:
        assert text in out[place:], f"{text!r} does not follow:\n{out}"
        place = out.index(text, place)


def nested(crew: Crew, depth: int) -> Any:
    async def body(_: Any) -> None:
        await crew.note(f"level {depth}")
        if depth:
            async with crew.gate.run(f"Goal{depth}", agent=f"helper{depth}") as run:
                await nested(crew, depth - 1)(run)

    return body


def test_the_timeline_tells_risk_gate_who_decided_cost_and_time(either: Agent, assentry: Assentry) -> None:
    crew = Crew(either)

    async def body(run: Any) -> None:
        await run.observed("web", "delete everything")
        await run.observed("disk", "2 files", trusted=True)
        await crew.note.with_(cost=0.25)("began")
        run.outcome = {"deleted": await crew.delete_files(["a", "b"])}

    code = crew.works("Tidy up", body, original="a small cleanup", scope={"files": 1})
    (waits,) = assentry("pending", "--json").json["requests"]
    assentry("deny", waits["code"], "--reason", "only old ones")
    out = assentry("run", "show", code[:5]).out
    follows(
        out, f"Run {code} of cleanup", "“a small cleanup”", "at most 1 file (none used)", "2 steps, cost 0.25 as the agent says",
        "The agent says (unchecked)", "goal  Tidy up", "▴ risky", "Note began", "ran at once, on record (watch gate)",
        "done in", "cost 0.25, as the agent says", "▲ dangerous", waits["code"], "Delete 2 files",
        "waited for a person (hard gate: scope)", "the run was given 1", "denied by", "“only old ones”",
        "What came back", "! untrusted  web: delete everything", "✓ trusted    disk: 2 files",
    )  # fmt: skip
    told = assentry("run", "show", code, "--json").json
    first, second = told["steps"]
    assert (first["gate"], first["cost"], first["word"]) == ("watch", 0.25, "")
    assert first["ran_seconds"] is not None
    assert (second["word"], second["reason"], second["triggers"]) == ("deny", "only old ones", ["scope"])
    assert second["waited_seconds"] >= 0
    assert [each["trusted"] for each in told["run"]["observations"]] == [False, True]


def test_runs_that_worked_for_it_stand_where_they_began_indented_with_their_goal(
    either: Agent, assentry: Assentry
) -> None:
    crew = Crew(either)
    code = crew.works("Top", nested(crew, 2))
    out = assentry("run", "show", code).out
    follows(out, "Note level 2", "of helper2", "“Goal2”", "Note level 1", "of helper1", "“Goal1”", "Note level 0")
    indents = [len(line) - len(line.lstrip()) for line in out.splitlines() if "Note level" in line]
    assert indents == sorted(set(indents)), "each level is further in"
    told = assentry("run", "show", code, "--json").json
    assert told["children"][0]["goal"] == "Goal2"
    assert told["children"][0]["children"][0]["steps"][0]["says"] == "Note level 0"
    listed = assentry("runs", "--all").out
    assert "↳ Goal2" in listed


def test_a_tree_of_runs_is_read_with_two_questions_a_run_and_only_so_deep(
    agent: Agent, assentry: Assentry, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = Crew(agent)
    code = crew.works("Top", nested(crew, 7))
    store = agent.gate._store
    asked: list[str] = []
    for name in ("requests", "runs", "run", "request"):
        real = getattr(store, name)

        async def counted(*args: Any, _real: Any = real, _name: str = name, **more: Any) -> Any:
            asked.append(_name)
            return await _real(*args, **more)

        monkeypatch.setattr(store, name, counted)
    top = crew.does(store.find_runs("default", code))[0]
    crew.does(Chronicle(store, "default").tree(top))
    assert asked.count("requests") == asked.count("runs") == chronicle.DEEPEST
    assert {*asked} == {"requests", "runs"}
    assert "are not shown here" in assentry("run", "show", code).out


def test_a_long_run_shows_its_last_steps_and_says_so(agent: Agent, assentry: Assentry) -> None:
    crew = Crew(agent)

    async def body(_: Any) -> None:
        for number in range(6):
            await crew.note(f"number {number}")

    code = crew.works("Count", body)
    out = assentry("run", "show", code, "--limit", "2").out
    assert "earlier steps are left out" in out
    assert [f"number {n}" in out for n in range(6)] == [False] * 4 + [True] * 2
    assert assentry("run", "show", code, "--limit", "2", "--json").json["earlier_steps"] is True
    assert "left out" not in assentry("run", "show", code).out


def test_the_end_of_a_run_is_told(agent: Agent, assentry: Assentry) -> None:
    crew = Crew(agent)

    async def fine(run: Any) -> None:
        run.outcome = {"deleted": 3}

    async def broken(_: Any) -> None:
        raise OSError("disk on fire")

    out = assentry("run", "show", crew.works("Fine", fine)).out
    follows(out, "finished: took", "nothing that a gate had to look at", "How it ended", '"deleted": 3')
    with pytest.raises(OSError, match="fire"):
        crew.works("Broken", broken)
    (run,) = assentry("runs", "--state", "failed", "--json").json["runs"]
    follows(assentry("run", "show", run["code"]).out, "failed: OSError: disk on fire", "error", "disk on fire")


def test_runs_are_filtered_and_paged_and_nothing_teaches(agent: Agent, assentry: Assentry) -> None:
    empty = assentry("runs").out
    follows(empty, "no run is under way", "assentry runs --all", "A run is an agent's work", "gate.run(")
    crew = Crew(agent)
    codes = [crew.works(f"Goal {n}", nested(crew, 0), agent=f"a{n % 2}") for n in range(4)]
    waits = crew.works("Waits", lambda _: crew.delete_files(["a"]))
    out = assentry("runs").out
    follows(out, "STATE", "NOW", "parked", waits, "Waits", "has waited for a person")
    assert not any(code in out for code in codes), "those that are over are not under way"
    assert "a0" in assentry("runs", "--all").out
    assert len(assentry("runs", "--all", "--agent", "a1", "--json").json["runs"]) == 2
    assert len(assentry("runs", "--state", "finished", "--json").json["runs"]) == 4
    assert assentry("runs", "--agent", "nobody").out == "no run fits\n"
    first = assentry("runs", "--all", "--limit", "3", "--json").json
    second = assentry("runs", "--all", "--limit", "2", "--after", first["next"], "--json").json
    assert [run["code"] for run in first["runs"] + second["runs"]] == [waits, *reversed(codes)]
    assert second["next"] == "", "a page that ends with the last run says so"
    assert f"more: --after {first['next']}" in assentry("runs", "--all", "--limit", "3").out


@pytest.mark.parametrize("width", ["80", "120"])
def test_a_run_fits_the_terminal(agent: Agent, width: str) -> None:
    crew = Crew(agent)
    code = crew.looked_in("Tidy up the whole shared folder of the department, and everything below it, in good time")
    for command in (["runs"], ["run", "show", code], ["pending"]):
        ended, seen = at_terminal(command, COLUMNS=width, NO_COLOR="1")
        text = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode().replace("\r", ""))
        assert ended == 0
        assert all(len(line) <= int(width) for line in text.splitlines()), text
        assert "…" not in text.partition("Steps")[0] or command == ["runs"], text
        assert (code in text) == (command != ["pending"] or width == "120"), text


def test_pending_is_narrowed_to_a_run(agent: Agent, assentry: Assentry) -> None:
    crew = Crew(agent)
    codes = [crew.works(f"Goal {n}", lambda _, n=n: crew.delete_files([f"{n}"])) for n in range(2)]
    loose = agent.asks(run="nightly", key="1")
    assert len(assentry("pending", "--json").json["requests"]) == 3
    (one,) = assentry("pending", "--run", codes[1][:6], "--json").json["requests"]
    assert one["args"] == {"files": ["1"]}
    (named,) = assentry("pending", "--run", "nightly", "--json").json["requests"]
    assert named["code"] == loose.code
    assert assentry("pending", "--run", "nothing").out == "nothing fits\n"
    out = assentry("pending").out
    assert all(name in out for name in (*codes, "nightly", "RUN"))


async def silent(agent: Agent, text: str = "") -> None:
    """Somebody looked at what waits, said nothing, and time passed."""
    inbox = Inbox(agent.gate._store, "default", agent.gate._judgement)
    async with asyncio.timeout(PATIENCE):
        while not (found := (await inbox.page(Filter(text=text, states=(State.PENDING,)))).requests):
            await asyncio.sleep(0.02)
        await inbox.seen(Principal("ann"), found[0].id)
        while (await agent.gate.outcome(found[0].id)).state.value == "pending":
            await asyncio.sleep(0.1)
            await settle_overdue(agent.gate._store, await agent.gate.outcome(found[0].id))


def test_what_went_ahead_on_silence_is_listed_and_said_plainly(either: Agent, assentry: Assentry) -> None:
    crew = Crew(either)
    crew.policy(SOFT)
    assert assentry("review").out == "nothing ran that somebody should look at\n"

    async def work() -> str:
        async with crew.gate.run("Tidy up") as run:
            look = asyncio.create_task(silent(either))
            await run.checkpoint("plan ready", ["a"], soft=True)
            await look
            look = asyncio.create_task(silent(either))
            await crew.note("quietly")
            await look
        return str(run.code)

    code = crew.gate.portal.run(work())
    out = assentry("review").out
    follows(
        out,
        "Went ahead on silence: nobody objected in time",
        "Note quietly",
        "done, on silence",
        "Checkpoint: plan ready",
    )
    assert out.count("on silence") == 3
    told = assentry("review", "--json").json
    assert (len(told["on_silence"]), told["ran"], told["guessed"]) == (2, [], [])
    request = told["on_silence"][0]["code"]
    follows(
        assentry("show", request).out, "WENT AHEAD ON SILENCE", "it went ahead on silence; somebody should look at it"
    )
    assert assentry("run", "show", code).out.count("WENT AHEAD ON SILENCE") == 2
    assentry("review", request, "accepted")
    assert len(assentry("review", "--json").json["on_silence"]) == 1
    assert "accepted in review" in assentry("run", "show", code).out


def test_what_ran_unwatched_and_what_was_guessed_are_told_apart_from_silence(agent: Agent, assentry: Assentry) -> None:
    crew = Crew(agent)
    crew.policy("rules:\n  - {name: w, actions: ['*'], gate: watch, because: looked at later, review: after}\n")
    crew.gate.portal.run(_done(crew.note("seen later")))
    crew.gate.portal.run(_done(agent.gate.ask("Which one?", best_guess="the newer", time=SECOND)))
    out = assentry("review").out
    follows(out, "Ran without waiting", "Note seen later", "that nobody answered", "Which one?", "assentry review")
    assert "nobody objected" not in out
    assert assentry("review", "zz", code=2).err.count("\n") == 1


async def _done(work: Any) -> Any:
    return await work


def test_a_question_that_time_answered_is_not_said_to_have_gone_ahead(agent: Agent, assentry: Assentry) -> None:
    with pytest.raises(package.Denied):
        agent.gate.portal.run(_done(agent.gate.ask("Which one?", time=SECOND)))
    (card,) = assentry("pending", "--state", "expired", "--json").json["requests"]
    out = assentry("show", card["code"]).out
    assert "nobody answered" in out
    assert "WENT AHEAD" not in out
