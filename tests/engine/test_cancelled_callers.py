"""Callers that go away: while they are asked about, while their request is put on record, while it runs."""

import asyncio
from typing import Any

import pytest

from assentry.core.request import State
from assentry.ports import Filter
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


async def test_a_cancelled_caller_leaves_nothing_in_the_inbox(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None: ...

    call = house.start(delete_files(["a"]))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    call.cancel()
    await house.in_state(request.id, State.CANCELLED)


@pytest.mark.parametrize(("reversible", "left"), [(False, State.CANCELLED), (True, State.FAILED)])
async def test_a_caller_cancelled_while_its_request_is_put_on_record_leaves_nothing_open(house, reversible, left):
    ran, made = [], asyncio.Event()

    @house.gate.guard(reversible=reversible, reach="local")
    async def write_file(path: str) -> None:
        ran.append(path)

    store = house.gate._store
    transact = store.transact

    async def slow(*args: Any, **more: Any) -> Any:
        change = await transact(*args, **more)
        if not made.is_set():
            made.set()
            await asyncio.Event().wait()
        return change

    store.transact = slow
    call = house.start(write_file("a"))
    async with asyncio.timeout(PATIENCE):
        await made.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    (request,) = (await house.inbox.page(Filter(states=tuple(State)))).requests
    assert (request.state, ran) == (left, [])


async def test_a_cancelled_caller_does_not_end_what_another_is_running(house):
    made, begun, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @house.gate.guard(reversible=False)
    async def delete_file(path: str) -> str:
        begun.set()
        await go_on.wait()
        return path

    store = house.gate._store
    transact = store.transact

    async def late(*args: Any, **more: Any) -> Any:
        change = await transact(*args, **more)
        if not made.is_set():
            made.set()
            await asyncio.Event().wait()
        return change

    store.transact = late
    gone = house.start(delete_file("a"))
    async with asyncio.timeout(PATIENCE):
        await made.wait()
        other = house.start(delete_file("a"))
        (request,) = await house.waiting()
        await house.waited_for(request.id, 2)
        await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
        await begun.wait()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        go_on.set()
        assert await other == "a"
    await house.in_state(request.id, State.DONE)


async def test_an_action_cancelled_while_running_is_not_called_done(house):
    begun = asyncio.Event()

    @house.gate.guard(reversible=True, reach="local")
    async def write_slowly(path: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    call = house.start(write_slowly("a"))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    (request,) = (await house.inbox.page(Filter(states=(State.RUNNING,)))).requests
    assert request.finished_at is None
