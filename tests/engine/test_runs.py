"""Runs: calls belong to them, they park, and whoever takes one again takes no step twice."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import assentry
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.core.run_life import Enter, advance_run
from assentry.engine.holding import CURRENT
from assentry.engine.oversight import Oversight
from assentry.errors import GuardError, InvalidArguments
from assentry.ports import Filter, RunFilter, View
from tests.engine.conftest import House
from tests.engine.run_world import World
from tests.stage import PATIENCE

pytestmark = pytest.mark.usefixtures("house")


async def test_a_run_is_on_record_with_its_steps(house: House) -> None:
    world = World(house.gate)
    async with house.gate.run("Tidy up", original="just a small cleanup", agent="cleanup") as run:
        await run.plan(["find", "move"])
        found = await world.find("a")
        await run.ticked("find")
        with pytest.raises(InvalidArguments, match="the plan has no step 'dig'"):
            await run.ticked("dig")
        await world.move(found[0])
        await run.spent("0.25")
        await run.observed("web", "see password=hunter2hunter2")
        await run.observed("https://x.example/?password=hunter2hunter2", "fine")
        run.outcome = {"moved": 1}
    record = await house.run()
    assert (record.state, record.agent, record.steps) == (RunState.FINISHED, "cleanup", 2)
    assert (str(record.spend), record.outcome, record.original) == ("0.25", {"moved": 1}, "just a small cleanup")
    assert [(step.says, step.done) for step in record.plan] == [("find", True), ("move", False)]
    assert "hunter2" not in repr(record)
    page = await house.desk.store.requests("default", Filter(run=record.id))
    assert [request.candidate.action.name for request in page.requests] == ["move_file"]
    assert await house.kinds(record.id) == ["run.began", "run.finished"]


async def test_a_run_that_fails_says_so(house: House) -> None:
    with pytest.raises(ValueError, match="bad"):
        async with house.gate.run("Tidy up"):
            raise ValueError("bad")
    record = await house.run()
    assert (record.state, record.error) == (RunState.FAILED, "ValueError: bad")


async def test_a_swallowed_pause_is_raised_again_and_later_calls_are_refused(house: House) -> None:
    world = World(house.gate)

    async def swallows() -> None:
        async with house.gate.run("Tidy up", patience=0):
            with suppress(BaseException):
                await world.delete(["a"])
            with pytest.raises(assentry.Parked):
                await world.move("b")

    with pytest.raises(assentry.Parked):
        await swallows()
    assert world.did == []
    assert (await house.run()).state is RunState.PARKED


async def test_parking_waits_for_siblings_and_keeps_their_results(house: House) -> None:
    did: list[str] = []
    go = asyncio.Event()

    @house.gate.guard(reversible=True, reach="local")
    async def slow(name: str) -> str:
        await go.wait()
        did.append(name)
        return name

    world = World(house.gate)

    async def both() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(slow("a")), group.create_task(world.delete(["x"]))]
        return [task.result() for task in tasks]

    async def first() -> None:
        async with house.gate.run("Both", key="k", patience=0):
            await both()

    task = house.start(first())
    await house.waiting()
    go.set()
    with pytest.raises((assentry.Parked, BaseExceptionGroup)):
        await task
    assert did == ["a"]
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    async with house.gate.run("Both", key="k"):
        assert await both() == ["a", 1]
    assert did == ["a"]
    assert world.did == ["delete 1"]


async def test_a_run_whose_process_vanished_is_orphaned_and_its_key_goes_on(house: House) -> None:
    gate = house.another_gate(agent="cleanup", lease=timedelta(seconds=0.3))
    world = World(gate)
    run = gate.run("Tidy up", key="k")
    active = await run.__aenter__()
    await world.move("a")
    assert active._keeper is not None
    active._keeper.cancel()  # as if its process were gone
    CURRENT.set(None)
    async with house.gate.worker():
        await house.until_run(RunState.ORPHANED)
    again = World(house.gate)
    async with house.gate.run("Tidy up", key="k") as entered:
        assert entered.id == active.id
        assert await again.move("a") == "A"
    assert again.did == []
    with pytest.raises(assentry.Conflict):
        await active.spent(1)


async def test_whoever_lost_a_run_has_no_say_in_it_however_much_it_hears(house: House) -> None:
    async with house.gate.run("Tidy up", key="nightly") as run:
        other = house.another_gate(agent="cleanup", lease=timedelta(seconds=30))
        record = await house.run()

        def taken(view: View) -> Any:
            assert view.run is not None
            return advance_run(view.run, Enter("elsewhere", timedelta(seconds=30)), view.now + timedelta(hours=1))

        await other._store.transact("default", None, taken, run=record.id)
        async with asyncio.timeout(PATIENCE):
            while run.record.worker != "elsewhere":
                await run._look()
        with pytest.raises(assentry.Conflict):
            await run.spent(1)
    assert (await house.run()).spend == 0


async def test_a_call_cancelled_while_it_begins_is_on_record_as_not_run(house: House) -> None:
    world = World(house.gate)
    task = house.start(world.delete(["a"]))
    (request,) = await house.waiting()
    store, began = house.gate._store, asyncio.Event()
    transact = store.transact

    async def slow(*args: Any, **more: Any) -> Any:
        made = await transact(*args, **more)
        if made is not None and made.request is not None and made.request.state is State.RUNNING:
            began.set()
            await asyncio.sleep(30)
        return made

    store.transact = slow  # type: ignore[method-assign]
    await house.inbox.approve(house.me, request.id)
    async with asyncio.timeout(PATIENCE):
        await began.wait()
    task.cancel()
    failed = await house.in_state(request.id, State.FAILED)
    assert (failed.error, world.did) == ("cancelled before it ran", [])


async def test_a_function_that_takes_the_run(house: House) -> None:
    world = World(house.gate)

    async def work(run: Any) -> str:
        await run.plan(["move"])
        return str(await world.move("a"))

    assert await house.gate.perform("Tidy up", work, original="please") == "A"
    record = await house.run()
    assert (record.state, record.outcome, record.original) == (RunState.FINISHED, "A", "please")
    with pytest.raises(GuardError, match="not inside a run"):
        assentry.current_run()


async def test_a_state_or_an_outcome_that_is_no_json_is_said_so(house: House) -> None:
    with pytest.raises(InvalidArguments, match="the state of a run is kept as JSON"):
        async with house.gate.run("Tidy up") as run:
            run.snapshot({1: "x"})
    with pytest.raises(InvalidArguments, match="the outcome of a run is kept as JSON"):
        async with house.gate.run("Tidy up") as run:
            run.outcome = {1, 2}
    assert {each.state for each in await house.desk.store.runs("default", RunFilter())} == {RunState.FAILED}


async def test_what_happens_to_a_run_elsewhere_is_heard_here_with_its_version(house: House) -> None:
    heard: dict[str, int] = {}
    stop = house.gate._store.watch(lambda news: heard.update(news or {}))
    async with house.gate.run("Tidy up") as run:
        await Oversight(house.desk.store, "default").pause(house.me, await house.run())
        async with asyncio.timeout(PATIENCE):
            while heard.get(f"run:{run.id}", 0) < 2:
                await asyncio.sleep(0.005)
        await Oversight(house.desk.store, "default").go(house.me, await house.run())
    stop()
