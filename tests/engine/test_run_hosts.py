"""Hosts: a run that is parked goes on elsewhere, and what its host does next is told apart from a pause."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import assentry
from assentry.core.decision import Finding
from assentry.core.request import State
from assentry.core.run import Run, RunState
from assentry.engine.hosting import Host, Unfit, resumed
from assentry.errors import Conflict, GuardError, RunStopped
from assentry.ports import Filter
from tests.engine.conftest import House
from tests.engine.run_world import World
from tests.stage import PATIENCE

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("house")]


async def test_a_parked_run_goes_on_elsewhere_and_takes_no_step_twice(house: House) -> None:
    world = World(house.gate)
    told: list[Any] = []

    def agent(gate: assentry.Gate, at: World) -> Callable[..., Any]:
        async def work() -> dict[str, int]:
            found = await at.find("a")
            await at.move(found[0])
            await at.move(found[0])  # the same call again is another step
            return {"deleted": await at.delete(found)}

        @gate.host("loop")
        async def resume(state: Any, resumption: Any) -> Any:
            told.append((state, resumption))
            return await work()

        return work

    work = agent(house.gate, world)

    async def begun() -> None:
        async with house.gate.run("Tidy up", host="loop") as run:
            run.snapshot({"messages": ["hello"]})
            await work()

    with pytest.raises(assentry.Parked):
        await begun()
    assert world.did == ["move a0", "move a0"]
    parked = await house.run()
    assert (parked.state, len(parked.waits)) == (RunState.PARKED, 1)

    other = house.another_gate(agent="cleanup")
    elsewhere = World(other)
    agent(other, elsewhere)
    async with other.worker():
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome, record.fence) == ({"deleted": 3}, 2)
    assert (world.did, elsewhere.did) == (["move a0", "move a0"], ["delete 3"])
    ((state, resumption),) = told
    assert state == {"messages": ["hello"]}
    assert f"approved by {house.me.name}" in resumption.summary


async def test_one_call_approved_beside_one_that_still_waits_keeps_its_result(house: House) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False)
    async def drop(path: str) -> str:
        await asyncio.sleep(0.02)
        did.append(path)
        return path

    async def work() -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(drop(path)) for path in ("a", "b")]
        return [task.result() for task in tasks]

    @house.gate.host("loop")
    async def resume(state: Any, resumption: Any) -> Any:
        return await work()

    async def begun() -> None:
        async with house.gate.run("Tidy up", host="loop"):
            await work()

    with pytest.raises(BaseException) as stopped:
        await begun()
    assert stopped.type in (assentry.Parked, BaseExceptionGroup)
    requests = {request.candidate.action.args["path"]: request for request in await house.waiting(2)}
    async with house.gate.worker():
        await house.inbox.approve(house.me, requests["a"].id)
        await house.in_state(requests["a"].id, State.DONE)
        await house.until_run(RunState.PARKED)
        assert did == ["a"]
        await house.inbox.approve(house.me, requests["b"].id)
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome, did) == (["a", "b"], ["a", "b"])


async def test_one_function_is_the_whole_agent(house: House) -> None:
    world = World(house.gate)
    told: list[Any] = []

    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        told.append((state, resumption is None))
        assentry.current_run().snapshot([*state, "seen"])
        return await world.delete(["a"])

    with pytest.raises(assentry.Parked):
        await house.gate.begin("loop", ["hello"], goal="Tidy up", scope={"steps": 9})
    (request,) = await house.waiting()
    async with house.gate.worker():
        await house.inbox.approve(house.me, request.id)
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome, record.goal, world.did) == (1, "Tidy up", ["delete 1"])
    assert told == [(["hello"], True), (["hello", "seen"], False)]


async def test_a_hosted_run_waits_until_somebody_has_looked_into_an_unknown_outcome(house: House) -> None:
    started = asyncio.Event()
    gate = await asyncio.to_thread(house.another_gate, agent="cleanup", lease=timedelta(seconds=1))

    @gate.guard(reversible=False)
    async def shred(path: str) -> str:
        started.set()
        await asyncio.sleep(60)
        return path

    @gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        return [await shred("a"), state]

    with pytest.raises(assentry.Parked):
        await gate.begin("loop", "hello", goal="Tidy up")
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    dying = house.start(resumed(gate._office, gate._hosts["loop"], await house.run()))
    async with asyncio.timeout(PATIENCE):
        await started.wait()
    dying.cancel()  # as if its process were gone, halfway through
    await asyncio.gather(dying, return_exceptions=True)
    async with gate.worker():
        await house.in_state(request.id, State.UNKNOWN)
        async with asyncio.timeout(PATIENCE):
            while (run := await house.run()).state is not RunState.PARKED or run.waits != (request.id,):
                await asyncio.sleep(0.01)
        await house.inbox.reconcile(house.me, request.id, Finding.DONE, "the file is gone")
        record = await house.until_run(RunState.FINISHED)
    assert record.outcome == [None, "hello"]


async def test_a_call_inside_a_guarded_call_waits_there_and_parks_nothing_halfway(house: House) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False)
    async def inner(path: str) -> str:
        did.append(f"inner {path}")
        return path

    @house.gate.guard(reversible=False)
    async def outer(path: str) -> str:
        did.append(f"outer {path}")
        return await inner(path) + "!"

    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        return await outer("a")

    with pytest.raises(assentry.Parked):
        await house.gate.begin("loop", goal="Tidy up")
    (first,) = await house.waiting()
    async with house.gate.worker():
        await house.inbox.approve(house.me, first.id)
        (second,) = await house.until(
            lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,))
        )
        assert (await house.run()).state is RunState.RUNNING  # its process waits, in the middle of the call
        await house.inbox.approve(house.me, second.id)
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome, did) == ("a!", ["outer a", "inner a"])


@pytest.mark.parametrize("how", [asyncio.CancelledError, SystemExit, "another run"])
async def test_what_ends_a_host_and_is_no_pause_of_its_run_is_its_failure(house: House, how: Any) -> None:
    """Or it would be taken up again at once, without end."""
    entered = 0

    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        nonlocal entered
        if resumption is None:
            await assentry.current_run().ask("May I?")
        entered += 1
        raise RunStopped("other", "somebody") if how == "another run" else how()

    with pytest.raises(assentry.Parked):
        await house.gate.begin("loop", goal="Tidy up")
    (request,) = await house.waiting()
    async with house.gate.worker():
        await house.inbox.answer(house.me, request.id, "yes")
        record = await house.until_run(RunState.FAILED)
    assert (entered, "GuardError" in record.error) == (1, True)


async def test_two_hosts_of_one_name_are_told_apart_by_another(house: House) -> None:
    async def tidy(state: Any, resumption: Any) -> None: ...

    house.gate.host("loop")(tidy)
    with pytest.raises(GuardError, match="'loop' already; pass name= to tell them apart"):
        house.gate.host("loop")(tidy)


async def test_a_run_with_a_host_begins_no_other_one_inside(house: House) -> None:
    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        return await house.gate.begin("loop", goal="Another one")

    with pytest.raises(GuardError, match="begin a run with a host of its own outside"):
        await house.gate.begin("loop", goal="Tidy up")


async def test_an_agent_interrupts_itself_and_its_host_hears_what_was_chosen(house: House) -> None:
    told: list[Any] = []

    @house.gate.host("loop")
    async def resume(state: Any, resumption: Any) -> Any:
        told.append((state, resumption.chosen, resumption.allowed))
        return "done"

    async def agent() -> None:
        async with house.gate.run("Scale down", host="loop"):
            raise assentry.Interrupt(
                "they look like a standby cluster",
                planned_action="Delete 47 instances",
                impact="no failover for the shop",
                options=["Keep them", "Only those of 2019"],
                state={"messages": [1, 2]},
            )

    with pytest.raises(assentry.Parked):
        await agent()
    (request,) = await house.waiting()
    card = await house.inbox.brief(request.id)
    assert (card.title, card.args["impact"]) == (
        "The agent stopped itself and asks for a person",
        "no failover for the shop",
    )
    async with house.gate.worker():
        await house.inbox.choose(house.me, request.id, 1)
        await house.until_run(RunState.FINISHED)
    assert told == [({"messages": [1, 2]}, "Only those of 2019", False)]


async def test_the_same_interruption_twice_asks_twice(house: House) -> None:
    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        if state < 2:
            raise assentry.Interrupt("look at this", planned_action="a batch", state=state + 1)
        return "done"

    with pytest.raises(assentry.Parked):
        await house.gate.begin("loop", 0, goal="Batches")
    async with house.gate.worker():
        (first,) = await house.waiting()
        assert (await house.inbox.brief(first.id)).title == "The agent stopped itself and asks for a person"
        await house.inbox.approve(house.me, first.id)
        (second,) = await house.until(
            lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,))
        )
        await house.inbox.approve(house.me, second.id)
        record = await house.until_run(RunState.FINISHED)
    assert record.outcome == "done"


async def test_many_plain_hosts_at_once_do_not_wait_for_each_others_threads(house: House) -> None:
    @house.gate.guard(reversible=True, reach="local")
    def move(path: str) -> str:
        return path

    @house.gate.host("loop", capacity=40)
    def tidy(state: Any, resumption: Any) -> Any:
        return [move(f"{state} {number}") for number in range(2)]

    made = await asyncio.gather(*(house.gate.begin("loop", number, goal="Tidy up") for number in range(40)))
    assert made == [[f"{number} 0", f"{number} 1"] for number in range(40)]


async def test_a_host_that_does_not_fit_leaves_the_run_and_one_that_was_asked_too_early_does_too(house: House) -> None:
    def unfit(run: Run, state: Any) -> None:
        raise GuardError(f"{run.code} has {state}")

    called: list[Any] = []
    house.gate.host("loop")(lambda state, _: called.append(state))
    with suppress(asyncio.CancelledError):
        async with house.gate.run("Tidy up", host="loop") as run:
            run.snapshot("old")
            raise asyncio.CancelledError
    parked = await house.run()
    office, function = house.gate._office, house.gate._hosts["loop"].function
    with pytest.raises(Unfit, match=f"{run.code} has old"):
        await resumed(office, Host(function, fits=unfit), parked)
    assert await house.run() == parked
    # Somebody else had it since it was found: whether it fits was asked of a state that may be gone.
    with pytest.raises(Conflict, match="another process"):
        await resumed(office, Host(function, fits=lambda *_: None), replace(parked, fence=parked.fence - 1))
    assert await house.run() == parked
    assert called == []
