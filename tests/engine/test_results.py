"""What a caller gets that comes back for a result: the result, or what is left of it; never an error of ours."""

from datetime import timedelta

import pytest

import assentry
from assentry.core.request import State
from assentry.errors import StoreError, StoreFull
from assentry.ports import Filter


class Handle:
    """Something that cannot be written as JSON."""


async def test_a_result_that_nobody_saw_is_none_also_for_a_typed_function(house):
    @house.gate.guard(name="send", risk="risky", detached=True, patience=0, verify=lambda done: True)
    async def send(to: str) -> str:
        return to

    call = send.with_(run="r", key="1")
    try:
        await call("ana")
    except assentry.Parked as parked:
        request = await house.desk.store.request("default", parked.request_id)
    await house.lost(request)
    async with house.gate.worker():
        await house.in_state(request.id, State.DONE)
    assert await call("ana") is None


async def test_a_result_that_could_not_be_kept_is_told_as_it_was_kept(house):
    @house.gate.guard(risk="risky")
    async def open_account(name: str) -> int:
        return Handle()  # type: ignore[return-value]

    call = open_account.with_(run="r", key="1")
    await call("ana")
    (request,) = (await house.inbox.page(Filter(states=(State.DONE,)))).requests
    assert request.result_text == '{"unserializable":"Handle"}'
    assert await call("ana") == {"unserializable": "Handle"}


async def test_a_result_that_cannot_be_recorded_is_an_unknown_outcome_and_no_invitation_to_try_again(house):
    gate = house.another_gate(lease=timedelta(seconds=0.05))

    async def full(*_, **__):
        raise StoreFull("no space is left; nothing was changed: free some space and try again")

    @gate.guard(risk="risky")
    async def send(to: str) -> str:
        gate._store.transact = full
        return to

    with pytest.raises(assentry.OutcomeUnknown) as told:
        await send.with_(run="r", key="1")("ana")
    assert isinstance(told.value.__cause__, StoreFull)
    del gate._store.transact
    with pytest.raises(assentry.OutcomeUnknown):
        await send.with_(run="r", key="1")("ana")
    await house.in_state(told.value.request_id, State.UNKNOWN)


async def test_a_result_is_told_again_when_the_database_was_away_for_a_moment(house):
    transact, failures = house.gate._store.transact, []

    async def away(*args, **more):
        if len(failures) < 2:
            failures.append(True)
            raise StoreError("the database cannot be reached; try again")
        return await transact(*args, **more)

    @house.gate.guard(risk="risky")
    async def send(to: str) -> str:
        house.gate._store.transact = away
        return to

    assert await send("ana") == "ana"
    assert len(failures) == 2
    (request,) = (await house.inbox.page(Filter(states=(State.DONE,)))).requests
    assert request.result_text == '"ana"'
