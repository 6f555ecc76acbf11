"""Callers that go away: while they are asked about, while their request is put on record, while it runs."""

import asyncio
from typing import Any

import pytest

from assentry.core.request import State
from assentry.engine import calls
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


async def test_a_caller_cancelled_in_the_moment_of_the_decision_leaves_nothing_approved(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None: ...

    call = house.start(delete_files(["a"]))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    await house.approve(request)
    call.cancel()  # the call has not been woken since
    await asyncio.gather(call, return_exceptions=True)
    assert (await house.now(request)).state is State.CANCELLED


@pytest.mark.parametrize(
    ("where", "proposed"),
    [("still_true", False), ("objection", False), ("objection", True), ("begun", False), ("begun", True)],
)
async def test_a_caller_cancelled_between_decision_and_beginning_leaves_nothing_approved(
    house, monkeypatch, where, proposed
):
    there = asyncio.Event()

    async def stuck(*_: Any, **__: Any) -> Any:
        there.set()
        await asyncio.Event().wait()

    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None: ...

    async def carry_out() -> None:
        proposal = await house.gate.propose("delete_files", {"files": ["a"]})
        async with proposal.execution():
            pytest.fail("it began")

    call = house.start(carry_out() if proposed else delete_files(["a"]))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    match where:
        case "still_true":
            monkeypatch.setattr(calls, "still_true", stuck)
        case "objection":
            monkeypatch.setattr(house.gate._judgement, "objection", stuck)
        case "begun":
            monkeypatch.setattr(house.gate._execution, "begin", stuck)
    await house.approve(request)
    async with asyncio.timeout(PATIENCE):
        await there.wait()
    assert (await house.now(request)).state is State.APPROVED
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (await house.now(request)).state is State.CANCELLED


@pytest.mark.parametrize("other", ["a process", "its key"])
async def test_a_caller_cancelled_in_the_moment_of_the_decision_leaves_it_to_whoever_can_use_it(house, other):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> str:
        return "ran"

    call = house.start((delete_files.with_(key="1") if other == "its key" else delete_files)(["a"]))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    if other == "a process":
        second = house.another_gate(agent=house.gate._context.agent)
        proposal = await second.propose("delete_files", {"files": ["a"]}, schema=delete_files.tool.schema)
        assert proposal.request.id == request.id
    await house.approve(request)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    now = await house.now(request)
    assert now.state is State.APPROVED
    if other == "a process":
        assert now.callers == (second._callers._name,)
    else:
        assert await delete_files.with_(key="1")(["a"]) == "ran"
