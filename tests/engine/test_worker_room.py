"""What a worker cannot help stands in nobody's way."""

import asyncio
from datetime import timedelta

import assent
from assent.core.request import State


async def test_unknown_outcomes_that_only_people_can_settle_do_not_hold_up_what_is_approved(house):
    gate = house.another_gate(lease=timedelta(seconds=0.05))

    @gate.guard(risk="risky", detached=True, patience=0)
    async def send(to: str) -> str:
        return to

    async def submitted(to: str):
        try:
            await send(to)
        except assent.Parked as parked:
            return await house.desk.store.request("default", parked.request_id)

    lost = [await submitted(f"lost {number}") for number in range(5)]
    for request in lost:
        gate._execution.release(await gate._execution.begin(request))
    async with gate.worker(capacity=2):
        for request in lost:
            await house.in_state(request.id, State.UNKNOWN)
        wanted = [await submitted(f"wanted {number}") for number in range(5)]
        for request in wanted:
            await house.in_state(request.id, State.DONE)
    states = [(await house.desk.store.request("default", request.id)).state for request in lost]
    assert states == [State.UNKNOWN] * 5


async def test_a_verify_that_cannot_tell_is_not_asked_without_end_and_holds_up_nothing(house):
    gate = house.another_gate(lease=timedelta(seconds=0.05))
    asked = []

    @gate.guard(risk="risky", detached=True, patience=0, verify=lambda done: asked.append(done.key))
    async def send(to: str) -> str:
        return to

    async def submitted(to: str):
        try:
            await send(to)
        except assent.Parked as parked:
            return await house.desk.store.request("default", parked.request_id)

    lost = [await submitted(f"lost {number}") for number in range(5)]
    for request in lost:
        gate._execution.release(await gate._execution.begin(request))
    async with gate.worker(capacity=2):
        async with asyncio.timeout(10):
            while len(asked) < 5:
                await asyncio.sleep(0.01)
        request = await submitted("wanted")
        await house.in_state(request.id, State.DONE)
    assert len(asked) == len(set(asked)) == 5
