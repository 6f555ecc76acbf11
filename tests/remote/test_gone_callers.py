"""Agents behind a server whose process is gone, and agents that only look in now and then."""

import asyncio
from datetime import timedelta

import pytest

import assentry
from assentry.core.request import State
from assentry.engine import agent_calls
from assentry.engine.callers import clear
from assentry.errors import CallerGone, Unreachable
from assentry.remote.callers import FarCallers
from tests.remote.place import Place
from tests.stage import PATIENCE

SHORT = timedelta(seconds=1)


async def abandoned(place: Place, request_id: str):
    async with asyncio.timeout(PATIENCE):
        while True:
            await clear(place.desk.store, "default")
            request = await place.desk.store.request("default", request_id)
            assert request is not None
            if request.abandoned_at is not None:
                return request
            await asyncio.sleep(0.02)


async def connected(place: Place) -> assentry.Gate:
    token = await place.token("cleanup")
    return await asyncio.to_thread(assentry.connect, place.url, token, lease=SHORT)


async def test_a_connected_process_that_dies_leaves_nothing_that_could_be_approved(place: Place) -> None:
    gate = await connected(place)

    @gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> str:
        return "ran"

    call = place.start(delete_files(["a"]))
    (request,) = await place.waiting()
    assert len(request.callers) == 1
    # It lives for longer than a lease, and is approved in a moment if anybody wants to.
    until = asyncio.get_running_loop().time() + 2 * SHORT.total_seconds()
    while asyncio.get_running_loop().time() < until:
        await clear(place.desk.store, "default")
        await asyncio.sleep(0.05)
    assert (await place.desk.store.request("default", request.id)).abandoned_at is None
    gate._callers.leave()
    await gate._line.close()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (await abandoned(place, request.id)).state is State.PENDING
    with pytest.raises(CallerGone):
        await place.approve(request)
    assert (await place.deny(request, "")).word == "dismiss"


async def test_a_connected_process_that_was_only_slow_waits_again(place: Place) -> None:
    gate = await connected(place)

    @gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> str:
        return "ran"

    call = place.start(delete_files(["a"]))
    (request,) = await place.waiting()
    async with asyncio.timeout(PATIENCE):
        while gate._callers._keeper is None:
            await asyncio.sleep(0.01)
    gate._callers._keeper.cancel()
    async with asyncio.timeout(PATIENCE):
        while "request.abandoned" not in await kinds(place, request.id):
            await clear(place.desk.store, "default")
            await asyncio.sleep(0.02)
    gate._callers._keeper = gate._portal.submit(gate._callers._keep())
    async with asyncio.timeout(PATIENCE):
        while "request.awaited_again" not in await kinds(place, request.id):
            await asyncio.sleep(0.02)
        # Under its new name it stays, however often anybody looks.
        while (now := await place.desk.store.request("default", request.id)).callers == request.callers:
            await asyncio.sleep(0.02)
    assert now.abandoned_at is None
    await place.approve(request)
    assert await call == "ran"
    await gate.close()


async def kinds(place: Place, request_id: str) -> list[str]:
    await place.desk.store.sequence("default")
    return [each.text.partition('"kind":"')[2].partition('"')[0] for each in await entries(place, request_id)]


async def entries(place: Place, request_id: str):
    return await place.desk.store.entries("default", subject=request_id)


async def test_an_agent_that_polls_over_http_is_never_taken_for_gone(place: Place) -> None:
    async with place.agent() as agent:
        made = (await agent.post("/proposals", json={"action": "delete_files", "args": {"files": ["a"]}})).json()
        assert (made["callers"], made["abandoned_at"]) == ([], None)
        await place.approve(made["id"])
        assert (await agent.get(f"/proposals/{made['id']}")).json()["may_run"] is True


async def test_no_agent_speaks_for_the_process_of_another(place: Place) -> None:
    said = {"action": "delete_files", "args": {"files": ["a"]}, "caller": "p1"}
    async with place.agent("one") as one, place.agent("two") as two:
        assert (await one.post("/callers/p1", json={"lease": 600, "new": True})).json() == {"known": True}
        made = (await one.post("/proposals", json=said)).json()
        assert (await two.post("/callers/p1", json={"lease": 0, "new": True})).json() == {"known": True}
        assert (await two.post(f"/proposals/{made['id']}/callers", json={"caller": ""})).status_code == 404
        await clear(place.desk.store, "default")
        assert (await one.get(f"/proposals/{made['id']}")).json()["abandoned_at"] is None
        assert (await one.post("/callers/p1", json={"lease": 0})).json() == {"known": True}
        await clear(place.desk.store, "default")
        found = (await one.get(f"/proposals/{made['id']}")).json()
        assert found["abandoned_at"] is not None
        assert (await one.post("/callers/p1", json={})).json() == {"known": False}
        assert (await one.post(f"/proposals/{made['id']}/callers", json={"caller": ""})).json()["abandoned_at"] is None


async def test_a_connected_process_that_dies_before_it_shows_itself_leaves_nothing_that_could_be_approved(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = await connected(place)

    async def killed(_: FarCallers) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(FarCallers, "_take_name", killed)
    monkeypatch.setattr(agent_calls, "FIRST_SIGN", timedelta())
    place.start(gate.propose("delete_files", {"files": ["a"]}))
    (request,) = await place.waiting()
    assert (await abandoned(place, request.id)).state is State.PENDING
    with pytest.raises(CallerGone):
        await place.approve(request)


async def test_a_connected_process_that_took_another_name_tells_it_until_it_was_heard(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = await connected(place)
    request = (await gate.propose("delete_files", {"files": ["a"]})).request
    assert request is not None
    gate._callers.leave()
    gone = await abandoned(place, request.id)
    post, failed = gate._line.post, []

    async def away(path, *args, **more):
        if path.endswith("/callers") and not failed:
            failed.append(path)
            raise Unreachable("the server does not answer")
        return await post(path, *args, **more)

    monkeypatch.setattr(gate._line, "post", away)
    gate._callers._closed = False
    gate._callers._keeper = gate._portal.submit(gate._callers._keep())
    async with asyncio.timeout(PATIENCE):
        while (back := await place.now(request)).abandoned_at is not None:
            await asyncio.sleep(0.02)
    assert failed
    assert not set(back.callers) & set(gone.callers)
    await gate.close()
