"""People stop and pause runs: nothing of them happens from there on, or not before they may go on."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import assentry
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.core.run_life import Continue, Pause, Stop
from assentry.engine.hosting import taken_up
from assentry.errors import Conflict, RunStopped
from assentry.ports import Filter
from tests.engine.conftest import House
from tests.engine.run_world import World
from tests.stage import PATIENCE

pytestmark = pytest.mark.usefixtures("house")


async def test_a_person_stops_a_run_and_it_notices_at_its_next_gate(house: House) -> None:
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up"):
            await world.move("a")
            await house.said(Stop("ann", "enough"))
            for _ in range(2000):
                with suppress(Exception):  # a broad handler goes on regardless
                    await world.move("b")

    with pytest.raises(RunStopped):
        await agent()
    record = await house.run()
    assert (record.state, record.by, record.reason) == (RunState.STOPPED, "ann", "enough")
    assert world.did == ["move a"]


async def test_a_denial_that_stops_ends_the_run(house: House) -> None:
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up"):
            try:
                await world.delete(["a"])
            except assentry.Denied:
                await world.move("b")

    task = house.start(agent())
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "no", stop=True)
    with pytest.raises(RunStopped):
        await task
    assert (await house.run()).state is RunState.STOPPED
    assert world.did == []


async def test_a_parked_run_that_is_denied_as_a_whole_is_stopped_by_that_word(house: House) -> None:
    world = World(house.gate)

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> Any:
        return await world.move("b")  # as a model does that was told no: something else

    with pytest.raises(assentry.Parked):
        async with house.gate.run("Tidy up", host="loop"):
            await world.delete(["a"])
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "no", stop=True)
    run = await house.run()
    assert (run.state, run.by, run.reason) == (RunState.STOPPED, house.me.name, "no")
    with pytest.raises(Conflict):  # nobody can take it up any more
        await taken_up(house.gate._office, run)
    assert world.did == []


async def test_who_denies_a_checkpoint_and_the_whole_run_stops_it(house: House) -> None:
    async def agent() -> None:
        async with house.gate.run("Tidy up") as run:
            await run.checkpoint("plan ready")

    task = house.start(agent())
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "no", stop=True)
    with pytest.raises(RunStopped, match="no"):
        await task
    run = await house.run()
    assert (run.state, run.by) == (RunState.STOPPED, house.me.name)


async def test_a_paused_run_that_is_parked_goes_on_only_when_told(house: House) -> None:
    world = World(house.gate)

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> Any:
        return await world.delete(["a"])

    with pytest.raises(assentry.Parked):
        async with house.gate.run("Tidy up", host="loop"):
            await world.delete(["a"])
    await house.said(Pause("ann"))
    async with house.gate.worker():
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        await asyncio.sleep(0.2)
        assert (await house.run()).state is RunState.PAUSED
        await house.said(Continue("ann"))
        await house.until_run(RunState.FINISHED)
    assert world.did == ["delete 1"]


async def test_a_paused_run_whose_process_waits_does_nothing_until_it_goes_on(house: House) -> None:
    world = World(house.gate)
    moved = asyncio.Event()

    async def agent() -> str:
        async with house.gate.run("Tidy up"):
            await world.move("a")
            moved.set()
            await said_and_paused
            found = await world.find("x")  # reading waits as well
            return await world.move(found[0])  # type: ignore[no-any-return]

    said_and_paused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = house.start(agent())
    await moved.wait()
    await house.said(Pause("ann"))
    said_and_paused.set_result(None)
    await asyncio.sleep(0.3)
    assert not task.done()
    assert world.did == ["move a"]
    await house.said(Continue("ann"))
    assert await asyncio.wait_for(task, PATIENCE) == "X0"


async def test_what_is_approved_while_its_run_is_paused_does_not_run_before_it_goes_on(house: House) -> None:
    world = World(house.gate)

    async def agent() -> int:
        async with house.gate.run("Tidy up"):
            return await world.delete(["a"])  # type: ignore[no-any-return]

    task = house.start(agent())
    (request,) = await house.waiting()
    await house.said(Pause("ann"))
    await house.inbox.approve(house.me, request.id)
    await asyncio.sleep(0.3)
    assert world.did == []
    await house.said(Continue("ann"))
    assert await asyncio.wait_for(task, PATIENCE) == 1


async def test_a_hosted_run_that_is_paused_puts_itself_down_and_is_resumed(house: House) -> None:
    world = World(house.gate)
    go = asyncio.Event()

    async def work() -> str:
        await world.move("a")
        await go.wait()
        return await world.move("b")  # type: ignore[no-any-return]

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> str:
        return await work()

    async def agent() -> None:
        async with house.gate.run("Tidy up", host="loop"):
            await work()

    task = house.start(agent())
    await house.until(lambda found: len(found) == 1, Filter(states=(State.DONE,)))
    await house.said(Pause("ann"))
    go.set()
    with pytest.raises(RunStopped):
        await asyncio.wait_for(task, PATIENCE)
    assert (await house.run()).state is RunState.PAUSED
    async with house.gate.worker():
        await house.said(Continue("ann"))
        await house.until_run(RunState.FINISHED)
    assert world.did == ["move a", "move b"]


async def test_a_worker_runs_nothing_of_a_run_that_is_paused_or_stopped(house: House) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def wipe(disk: str) -> None:
        did.append(disk)

    async def agent() -> None:
        async with house.gate.run("Wipe", host="loop"):
            await wipe("a")

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await agent()
    await house.said(Pause("ann"))
    await house.inbox.approve(house.me, parked.value.request_id)
    async with house.gate.worker():
        await asyncio.sleep(0.3)
        assert did == []
        await house.said(Stop("ann", "enough"))
        async with asyncio.timeout(PATIENCE):
            while (await house.desk.store.request("default", parked.value.request_id)).state is not State.CANCELLED:  # type: ignore[union-attr]
                await asyncio.sleep(0.02)
    assert did == []
