"""What a worker cannot help stands in nobody's way."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

import assentry
from assentry.core.decision import Finding
from assentry.core.request import State
from assentry.errors import LeaseLost, StoreFull
from assentry.ports import Filter
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


async def test_unknown_outcomes_that_only_people_can_settle_do_not_hold_up_what_is_approved(house):
    @house.gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        return to

    async def submitted(to: str):
        try:
            await send(to)
        except assentry.Parked as parked:
            return await house.desk.store.request("default", parked.request_id)

    lost = [await submitted(f"lost {number}") for number in range(5)]
    for request in lost:
        await house.lost(request)
    async with house.gate.worker(capacity=2):
        for request in lost:
            await house.in_state(request.id, State.UNKNOWN)
        wanted = [await submitted(f"wanted {number}") for number in range(5)]
        for request in wanted:
            await house.in_state(request.id, State.DONE)
    states = [(await house.desk.store.request("default", request.id)).state for request in lost]
    assert states == [State.UNKNOWN] * 5


async def test_a_verify_that_cannot_tell_is_not_asked_without_end_and_holds_up_nothing(house):
    asked = []

    @house.gate.guard(risk="risky", detached=True, patience=0, verify=lambda done: asked.append(done.key))
    async def send(to: str) -> str:
        return to

    async def submitted(to: str):
        try:
            await send(to)
        except assentry.Parked as parked:
            return await house.desk.store.request("default", parked.request_id)

    lost = [await submitted(f"lost {number}") for number in range(5)]
    for request in lost:
        await house.lost(request)
    async with house.gate.worker(capacity=2):
        async with asyncio.timeout(PATIENCE):
            while len(asked) < 5:
                await asyncio.sleep(0.01)
        request = await submitted("wanted")
        await house.in_state(request.id, State.DONE)
    assert len(asked) == len(set(asked)) == 5


async def test_what_the_database_could_not_take_is_tried_again_soon(house, monkeypatch):
    gate = house.another_gate(lease=timedelta(seconds=5))
    monkeypatch.setattr("assentry.engine.worker.TROUBLE_SECONDS", 0.05)

    @gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        return to

    with pytest.raises(assentry.Parked) as parked:
        await send("ana")
    transact, refused = gate._store.transact, []

    async def full(*args, **more):
        if len(refused) < 2:
            refused.append(args)
            raise StoreFull("no space is left; nothing was changed: free some space and try again")
        return await transact(*args, **more)

    gate._store.transact = full
    async with gate.worker() as worker:
        await house.in_state(parked.value.request_id, State.DONE)
        await asyncio.sleep(0.1)
        assert await worker._round(asyncio.Event()) > 1, "it does not go on looking for what it has done"
    assert len(refused) == 2


async def test_what_is_allowed_again_runs_again_also_in_the_worker_that_lost_it(house):
    go_on, ran = asyncio.Event(), []

    @house.gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        ran.append(to)
        if len(ran) == 1:
            await go_on.wait()
        return to

    async with house.gate.worker():
        with pytest.raises(assentry.Parked) as parked:
            await send("ana")
        request = await house.in_state(parked.value.request_id, State.RUNNING)
        await house.lapsed(request)
        await house.inbox.reconcile(house.me, request.id, Finding.RETRY)
        go_on.set()
        async with asyncio.timeout(PATIENCE):
            while "execution.late" not in await house.kinds(request.id):
                await asyncio.sleep(0.01)
        await house.inbox.approve(house.me, request.id)
        await house.in_state(request.id, State.DONE)
    assert ran == ["ana", "ana"]


async def test_a_lease_that_was_given_up_is_not_renewed_by_what_still_waits_for_its_turn(house):
    @house.gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        return to

    with pytest.raises(assentry.Parked) as parked:
        await send("ana")
    execution = house.gate._execution
    request = await execution.begin(await house.desk.store.request("default", parked.value.request_id))
    given_up = execution._held[request.id]
    execution.release(request)
    await execution._renew(given_up)
    assert await house.desk.store.request("default", request.id) == request


async def test_a_renewal_that_comes_too_late_takes_no_lease_from_what_was_begun_again(house):
    @house.gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        return to

    with pytest.raises(assentry.Parked) as parked:
        await send("ana")
    execution, transact = house.gate._execution, house.gate._store.transact
    request = await execution.begin(await house.desk.store.request("default", parked.value.request_id))
    late = execution._held[request.id]

    async def begun_again_meanwhile(*args, **more):
        execution.release(request)
        execution.hold(request)
        raise LeaseLost("it was begun again", request_id=request.id, code=request.code, state="running")

    house.gate._store.transact = begun_again_meanwhile
    await execution._renew(late)
    house.gate._store.transact = transact
    assert execution._held[request.id] is not late


async def test_what_ends_late_takes_no_lease_from_what_was_begun_again(house):
    @house.gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        return to

    with pytest.raises(assentry.Parked) as parked:
        await send("ana")
    execution = house.gate._execution
    request = await execution.begin(await house.desk.store.request("default", parked.value.request_id))
    again = replace(request, fence=request.fence + 1)
    execution.hold(again)
    execution.release(request)
    assert execution._held[request.id].request is again
    execution.release(again)
    assert request.id not in execution._held


async def test_what_falls_due_while_a_round_goes_on_is_not_left_until_the_slow_sweep(house, monkeypatch):
    async with house.gate.worker() as worker:
        pass

    async def slow(office):
        async with asyncio.timeout(PATIENCE):
            while worker._later["r"][1] > asyncio.get_running_loop().time():
                await asyncio.sleep(0.01)

    monkeypatch.setattr("assentry.engine.worker.lapsed", slow)
    worker._leave("r", 1, 0.5)
    assert await worker._round(asyncio.Event()) < 1


@pytest.mark.parametrize("finding", [Finding.DONE, Finding.FAILED])
async def test_who_ends_after_somebody_found_it_done_goes_on_with_the_result(house, finding):
    go_on, ran = asyncio.Event(), []

    @house.gate.guard(risk="risky")
    async def send(to: str) -> str:
        ran.append(to)
        await go_on.wait()
        return f"sent to {to}"

    call = house.start(send("ana"))
    try:
        (request,) = await house.until(lambda found: bool(found and ran), Filter(states=(State.RUNNING,)))
        house.gate._execution.release(request)
        await house.lapsed(request)
        await house.inbox.reconcile(house.me, request.id, finding)
    finally:
        go_on.set()
    if finding is Finding.DONE:
        assert await call == "sent to ana"
    else:
        with pytest.raises(LeaseLost):
            await call
    assert "execution.late" in await house.kinds(request.id)
    assert ran == ["ana"]
