"""Runs at the command line: listed, shown, paused, continued and stopped."""

import time
from pathlib import Path

import pytest

import assentry as package
from tests.cli.terminal import Agent, Assentry


@pytest.fixture
def parked(either: Agent) -> str:
    """The code of a run that waits for a person."""
    gate = either.gate

    @gate.guard(reversible=False, says="Delete {files.count} files")
    async def delete_files(files: list[str]) -> int:
        return len(files)

    @gate.host("loop")
    async def resume(_: object, __: object) -> int:
        return await delete_files(["a", "b"])

    async def work() -> str:
        with pytest.raises(package.Parked) as parked:  # noqa: PT012  the run has to be entered
            async with gate.run("Tidy up", original="a small cleanup", host="loop", scope={"files": 1}) as run:
                await run.plan(["look", "delete"])
                await delete_files(["a", "b"])
        assert "a worker that has the host 'loop' goes on" in parked.value.__notes__[0]
        return run.code

    return gate.portal.run(work())


def test_a_run_is_listed_and_shown_with_its_steps(parked: str, assentry: Assentry) -> None:
    out = assentry("runs").out
    assert all(text in out for text in ("parked", parked, "Tidy up"))
    shown = assentry("run", "show", parked[:5]).out
    for text in (
        "a small cleanup",
        "at most 1 file (none used)",
        "· look",
        "Delete 2 files",
        "hard gate: scope",
        "has waited for",
    ):
        assert text in shown, text
    told = assentry("run", "show", parked, "--json").json
    assert (told["run"]["state"], told["steps"][0]["triggers"]) == ("parked", ["scope"])
    assert assentry("runs", "--state", "finished", "--json").json == {"runs": [], "next": ""}


def test_whoever_decides_learns_who_goes_on(parked: str, assentry: Assentry) -> None:
    (request,) = assentry("pending", "--json").json["requests"]
    approved = assentry("approve", request["code"])
    assert "approved; its run goes on with a worker that has the host 'loop'" in approved.out
    shown = " ".join(assentry("run", "show", parked).out.split())
    assert "may go on: waits for a worker with the host 'loop'" in shown


def test_a_run_without_a_host_goes_on_where_it_is_entered_again(agent: Agent, assentry: Assentry) -> None:
    async def work() -> str:
        with pytest.raises(package.Parked) as parked:
            async with agent.gate.run("Tidy up", key="nightly", patience=0) as run:
                await agent.gate.ask("Which ones?", key="which")
        assert not hasattr(parked.value, "__notes__")
        return run.code

    code = agent.gate.portal.run(work())
    (request,) = assentry("pending", "--json").json["requests"]
    assentry("answer", request["code"], "all of them")
    shown = " ".join(assentry("run", "show", code).out.split())
    assert "may go on: entering it again with its key goes on" in shown


def test_a_run_is_paused_continued_and_stopped(parked: str, assentry: Assentry) -> None:
    assert "paused" in assentry("pause", parked, "--reason", "lunch").out
    assert [run["state"] for run in assentry("runs", "--json").json["runs"]] == ["paused"]
    assentry("pause", parked, code=3)
    assert "goes on" in assentry("go", "--all").out
    assert "stopped" in assentry("stop", "--agent", "cleanup", "--reason", "enough").out
    told = assentry("run", "show", parked, "--json").json
    assert (told["run"]["state"], told["run"]["reason"]) == ("stopped", "enough")
    assert told["steps"][0]["state"] == "cancelled"
    assert assentry("pending", "--json").json["requests"] == []
    assert "everything is stopped" in assentry("stop", "--all").out
    assert "stopped" in assentry("log").out


def test_a_stop_says_how_many_requests_it_withdrew(parked: str, agent: Agent, assentry: Assentry) -> None:
    assert "1 request was withdrawn" in assentry("stop", parked).out
    assert "withdrawn" not in assentry("stop", "--agent", "nobody").out
    assentry("go", "--agent", "nobody")
    for name in ("a", "b", "c"):
        agent.asks(args={"files": [name]})
    assert "withdrawn" not in assentry("pause", "--all").out
    assentry("go", "--all")
    out = assentry("stop", "--all").out
    assert "everything is stopped" in out
    assert "3 requests were withdrawn" in out
    assert assentry("stop", "--all", "--json").json["withdrawn"] == 0
    assert "withdrawn" in " ".join(assentry("stop", "--help").out.split())


@pytest.mark.parametrize(
    "wrong", [["stop"], ["stop", "x", "--all"], ["runs", "--state", "asleep"], ["run", "show", "zz"]]
)
def test_mistakes_end_in_one_line(here: Path, agent: Agent, assentry: Assentry, wrong: list[str]) -> None:
    done = assentry(*wrong, code=None)
    assert done.code in (1, 2)
    assert done.err.count("\n") == 1


def test_time_stands_still_for_what_a_paused_run_waits_for(parked: str, assentry: Assentry) -> None:
    assentry("pause", parked)
    (waiting,) = assentry("pending", "--json").json["requests"]
    assert "paused" in assentry("show", waiting["code"]).out
    assentry("go", parked)
    assert "1 h left" in assentry("show", waiting["code"]).out


def test_an_agent_is_stopped_and_stays_so_until_somebody_says_go(
    parked: str, either: Agent, assentry: Assentry
) -> None:
    out = assentry("stop", "--agent", "cleanup", "--reason", "wrong folder").out
    assert "cleanup is stopped: nothing new begins" in out
    assert f"{parked}  Tidy up: stopped" in out
    held = assentry("runs").err
    assert "cleanup was stopped by" in held
    assert "wrong folder" in held

    async def again() -> None:
        async with either.gate.run("Tidy up once more"):
            raise AssertionError("it did not begin")

    deadline = time.monotonic() + 60
    while either.gate._judgement.held_up("cleanup") is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(package.RunStopped, match="wrong folder"):
        either.gate.portal.run(again())
    told = assentry("go", "--agent", "cleanup", "--json").json
    assert told == {"runs": [], "withdrawn": 0, "switches": []}
    assert assentry("runs").err == ""


def test_going_on_says_what_is_still_held(parked: str, assentry: Assentry) -> None:
    assentry("pause", "--all", "--reason", "audit")
    assentry("pause", "--agent", "cleanup", "--reason", "odd")
    told = assentry("pause", "--agent", "other", "--json").json
    assert [switch["agent"] for switch in told["switches"]] == ["", "cleanup", "other"]
    out = assentry("go", "--all").out
    assert "everything goes on" in out
    assert "cleanup was paused by" in out
    assert "`assentry go --agent cleanup` lets it go on" in out
    assert [run["state"] for run in assentry("runs", "--json").json["runs"]] == ["paused"]
    assert f"{parked}  Tidy up: goes on once" in assentry("go", "--agent", "cleanup").out
