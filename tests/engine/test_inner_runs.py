"""Runs inside runs: where the outer one is taken again, those inside that ended are not."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import assentry
from assentry.core.run import Run, RunState
from assentry.core.run_life import Lapse, advance_run
from assentry.engine.holding import CURRENT
from assentry.engine.oversight import Oversight
from assentry.engine.runs import ActiveRun
from assentry.errors import ActionFailed, GuardError
from assentry.ports import RunFilter
from tests.engine.conftest import House
from tests.engine.test_runs import World
from tests.stage import PATIENCE

Work = Callable[[assentry.Gate, World], Awaitable[Any]]


async def by_goal(house: House) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in reversed(await house.desk.store.runs("default", RunFilter())):
        found.setdefault(run.goal, []).append(run)
    return found


async def outer(house: House, state: RunState) -> Run:
    async with asyncio.timeout(PATIENCE):
        while (run := (await by_goal(house))["Outer"][0]).state is not state:
            await asyncio.sleep(0.01)
    return run


async def taken_twice(house: House, inside: Work) -> tuple[Run, list[str]]:
    """The outer run, which did `inside`, parked, and was taken again by another process; and what was done."""
    world = World(house.gate)

    def agent(gate: assentry.Gate, at: World) -> None:
        @gate.host("outer")
        async def work(state: Any, resumption: Any) -> Any:
            made = await inside(gate, at)
            await at.delete(["z"])
            return made

    agent(house.gate, world)
    with pytest.raises(assentry.Parked):
        await house.gate.begin("outer", None, goal="Outer")
    other = house.another_gate(agent="cleanup")
    elsewhere = World(other)
    agent(other, elsewhere)
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    async with other.worker():
        await outer(house, RunState.FINISHED)
    return (await by_goal(house))["Outer"][0], world.did + elsewhere.did


@pytest.mark.parametrize("key", ["", "sub"])
async def test_a_finished_run_inside_another_is_not_taken_twice(house: House, key: str) -> None:
    async def inside(gate: assentry.Gate, at: World) -> Any:
        made = []
        for name in ("a", "b"):
            async with gate.run("Inner", key=key) as run:
                await run.plan(["move"])
                made.append(await at.move(name))
                await run.spent(1)
                run.outcome = name
        return made

    record, did = await taken_twice(house, inside)
    assert (record.outcome, did) == (["A", "B"], ["move a", "move b", "delete 1"])
    inner = (await by_goal(house))["Inner"]
    assert [(run.state, run.outcome, run.steps, run.spend) for run in inner] == [
        (RunState.FINISHED, "a", 1, 1),
        (RunState.FINISHED, "b", 1, 1),
    ]


async def test_a_finished_function_is_not_called_twice(house: House) -> None:
    calls: list[str] = []

    async def inside(gate: assentry.Gate, at: World) -> Any:
        async def work(run: ActiveRun) -> Any:
            calls.append(run.code)
            return {"moved": await at.move("a")}

        return await gate.perform("Inner", work)

    record, did = await taken_twice(house, inside)
    assert (record.outcome, did, len(calls)) == ({"moved": "A"}, ["move a", "delete 1"], 1)


async def test_a_run_inside_that_failed_fails_again_and_the_next_goes_on(house: House) -> None:
    told: list[str] = []

    async def inside(gate: assentry.Gate, at: World) -> Any:
        for name in ("a", "b"):
            try:
                async with gate.run("Inner", key="sub"):
                    await at.move(name)
                    if name == "a":
                        raise OSError("disk on fire")
            except (OSError, ActionFailed) as problem:
                told.append(str(problem))

    _, did = await taken_twice(house, inside)
    assert did == ["move a", "move b", "delete 1"]
    inner = (await by_goal(house))["Inner"]
    assert [run.state for run in inner] == [RunState.FAILED, RunState.FINISHED]
    assert told == [
        "disk on fire",
        f"run {inner[0].code} was taken before and failed with OSError; `error` has what it said",
    ]


async def test_a_finished_run_inside_does_nothing_new(house: House) -> None:
    names = iter("ab")

    async def inside(gate: assentry.Gate, at: World) -> Any:
        async with gate.run("Inner"):
            try:
                await at.move(next(names))
            except GuardError as problem:
                return str(problem)
        return ""

    record, did = await taken_twice(house, inside)
    assert did == ["move a", "delete 1"]
    assert "had finished, and move_file was not called like this in it" in str(record.outcome)


async def test_whoever_goes_on_with_the_outer_run_goes_on_with_those_inside(house: House) -> None:
    """The process that had both vanished, and the inner one would be its for a while yet."""
    world = World(house.gate)
    async with house.gate.run("Outer", key="o") as run:
        scope = house.gate.run("Inner")
        await scope.__aenter__()
        await world.move("a")
        other = house.another_gate(agent="cleanup")
        elsewhere = World(other)

        def lost(view: Any) -> Any:
            return advance_run(replace(view.run, due_at=view.now), Lapse(), view.now)

        await house.desk.store.transact("default", None, lost, run=run.id)
        assert (await by_goal(house))["Inner"][0].state is RunState.RUNNING

        async def again() -> str:
            async with other.run("Outer", key="o"), other.run("Inner"):
                await elsewhere.move("a")
                return await elsewhere.move("b")

        assert await asyncio.create_task(_without_run(again)) == "B"
        assert (world.did, elsewhere.did) == (["move a"], ["move b"])
        with pytest.raises(assentry.AssentryError):
            await world.move("c")
        await scope.__aexit__(None, None, None)
    assert world.did == ["move a"]
    assert [run.state for run in (await by_goal(house))["Inner"]] == [RunState.FINISHED]


async def _without_run(work: Callable[[], Awaitable[Any]]) -> Any:
    CURRENT.set(None)
    return await work()


async def test_what_was_paused_goes_on_from_the_inside_out(house: House) -> None:
    over = Oversight(house.desk.store, "default")
    async with house.gate.run("Outer", key="o") as run, house.gate.run("Inner"):
        await over.pause(house.me, run.record)
        inner = (await by_goal(house))["Inner"][0]
        assert inner.state is RunState.PAUSED
        await over.go(house.me, run.record)
        kinds = await house.kinds()
        assert (await by_goal(house))["Inner"][0].state is RunState.RUNNING
        assert kinds.count("run.continued") == 2
