"""The stream of news: people hear of everything in their workspace, an agent of its own requests only."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from fastapi import Request as Call

from assentry.core.authority import Principal
from assentry.core.credential import CredentialKind
from assentry.server import presence
from assentry.server.api import log
from assentry.server.api import requests as streams
from assentry.server.events import LOOK, Event, Listener
from assentry.server.problems import Problem
from assentry.server.visitors import Visitor, somebody
from tests.server.reception import POLICY, Reception
from tests.stage import PATIENCE

News = list[dict[str, Any]]
_END = b"the end"


def called(desk: Reception, who: str) -> dict[str, Any]:
    """A call for the stream."""
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/api/v1/events", "raw_path": b"/api/v1/events", "query_string": b"", "root_path": "",
        "headers": [(b"host", b"assentry.test"), (b"authorization", f"Bearer {desk.secrets[who]}".encode())],
        "client": ("127.0.0.1", 1), "server": ("assentry.test", 80), "app": desk.app,
    }  # fmt: skip


@asynccontextmanager
async def stream(desk: Reception, who: str) -> AsyncIterator[AsyncIterator[News]]:
    """The stream as the server sends it, piece by piece; a test client would wait for its end."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    gone = asyncio.Event()
    scope = called(desk, who)

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        else:
            await chunks.put(message.get("body", b"") if message.get("more_body") else _END)

    async def heard() -> AsyncIterator[News]:
        while (chunk := await chunks.get()) != _END:
            lines = chunk.decode().splitlines()
            yield [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]

    answering = asyncio.ensure_future(desk.app(scope, receive, send))
    try:
        async with asyncio.timeout(PATIENCE), aclosing(heard()) as news:
            async for found in news:
                if found:
                    assert [event["about"] for event in found] == ["look"]
                    break
            yield news
    finally:
        gone.set()
        answering.cancel()
        await asyncio.wait([answering])


async def until(news: AsyncIterator[News], wanted: set[tuple[str, str]]) -> News:
    """What came until everything wanted had come."""
    all_of_it: News = []
    while not wanted <= {(event["about"], event["id"]) for event in all_of_it}:
        all_of_it += await anext(news)
    return all_of_it


async def test_an_agent_hears_of_its_own_requests_only(desk: Reception) -> None:
    async with stream(desk, "agent") as agents, stream(desk, "reviewer") as peoples:
        run = await desk.post("/agent/runs", {"goal": "spy", "original": "x"}, "other agent", 201)
        theirs = await desk.post("/agent/proposals", {"action": "tidy_shelf", "args": {"n": 1}}, "other agent", 201)
        await desk.post("/switches", {"setting": "pause", "agent": "stranger"})
        await desk.post("/grants", {"actions": ["paint"], "life": "1h"}, "operator", 201)
        await desk.post("/policy", {"text": POLICY + "\nretention: 90d\n"}, "operator")
        mine = await desk.post("/agent/proposals", {"action": "tidy_shelf", "args": {"n": 2}}, "agent", 201)
        everything = {("run", run["id"]), ("request", theirs["id"]), ("request", mine["id"])}
        all_of_it = await until(peoples, everything | {(about, "") for about in ("switch", "grant", "policy")})
        told = await until(agents, {("request", mine["id"])})
    assert {(event["about"], event["id"]) for event in told} == {("request", mine["id"])}
    assert theirs["code"] in {event.get("code") for event in all_of_it}


def test_the_letter_box_of_an_agent_keeps_what_is_its_own() -> None:
    box, peoples = Listener("default", "sweeper"), Listener("default")
    mine = Event("request", "1", 1, None, "sweeper")
    others = [Event("request", "2", 1, None, "stranger"), Event("request", "3"), Event("run", "4"), Event("policy")]
    for event in (*others, mine):
        box.put(event)
        peoples.put(event)
    assert list(box._waiting.values()) == [mine]
    assert list(peoples._waiting.values()) == [*others, mine]
    box.doubted = False
    box.put(Event("identity"))
    assert box.doubted
    assert list(box._waiting.values()) == [mine]
    box.put(LOOK)
    assert list(box._waiting.values()) == [LOOK]


async def visitor(desk: Reception, who: str) -> tuple[Call, Visitor]:
    call = Call(called(desk, who))
    return call, await somebody(call)


async def loses_the_token(desk: Reception) -> None:
    _, found = await visitor(desk, "agent")
    assert found.token is not None
    await desk.identities.end(Principal("ann"), CredentialKind.TOKEN, found.token.id)


async def signs_out(desk: Reception) -> None:
    _, found = await visitor(desk, "reviewer")
    await desk.identities.log_out(found.known_session)


async def leaves_the_policy(desk: Reception) -> None:
    await desk.post("/policy", {"text": POLICY.replace("  bea:", "  bob:")}, "operator")


ENDS = (("agent", loses_the_token), ("reviewer", signs_out), ("reviewer", leaves_the_policy))


async def noise(desk: Reception) -> None:
    """Others are busy, so that no stream is ever quiet."""
    number = 0
    while True:
        number += 1
        for event in (Event("run", str(number)), Event("request", str(number), 1, None, "sweeper")):
            desk.premises.events._everyone(event)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("who", "ends"), ENDS)
async def test_a_stream_ends_with_the_right_to_see_it(
    desk: Reception,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    ends: Callable[[Reception], Awaitable[None]],
    noisy: bool,
) -> None:
    """By what was heard of it: neither silence nor time have to pass."""
    monkeypatch.setattr(streams, "_HEARTBEAT", 3600.0)
    monkeypatch.setattr(presence, "RECHECK", 3600.0)
    async with stream(desk, who) as news, stream(desk, "operator") as others:
        if noisy:
            desk.start(noise(desk))
        assert desk.premises.events.listening == 2
        await ends(desk)
        told = [event async for found in news for event in found]
        assert desk.premises.events.listening == 1
        assert await anext(others)
    if who == "agent":
        assert {event["about"] for event in told} <= {"request"}


async def test_a_stream_that_is_never_quiet_ends_when_the_session_has_expired(
    desk: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is heard of that: it is looked up every second."""
    monkeypatch.setattr(streams, "_HEARTBEAT", 3600.0)
    monkeypatch.setattr(presence, "RECHECK", 0.1)
    store = desk.premises.store
    clock = store.now

    async def later() -> Any:
        return await clock() + timedelta(days=15)

    async with stream(desk, "reviewer") as news:
        desk.start(noise(desk))
        assert await anext(news)
        monkeypatch.setattr(store, "now", later)
        async for _ in news:
            pass
        monkeypatch.undo()
    assert desk.premises.events.listening == 0


async def test_a_quiet_stream_ends_when_the_token_expires(desk: Reception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_HEARTBEAT", 3600.0)
    call, found = await visitor(desk, "agent")
    _, desk.secrets["agent"] = await desk.identities.give_token(Principal("ann"), "sweeper", life=timedelta(hours=1))
    soon = await presence.Presence(*(await visitor(desk, "agent"))).began()
    assert 0 < soon.left <= 3600
    assert (await presence.Presence(call, found).began()).left == float("inf")
    monkeypatch.setattr(presence.Presence, "left", 0.05)
    async with stream(desk, "agent") as news:
        clock = desk.premises.store.now

        async def later() -> Any:
            return await clock() + timedelta(hours=2)

        monkeypatch.setattr(desk.premises.store, "now", later)
        async for _ in news:
            pass
    assert desk.premises.events.listening == 0


async def test_whoever_calls_as_somebody_else_by_now_is_no_longer_here(desk: Reception) -> None:
    call, _ = await visitor(desk, "reviewer")
    _, other = await visitor(desk, "operator")
    with pytest.raises(Problem, match="no longer valid"):
        await presence.still_here(call, other)


async def decided(desk: Reception, request_id: str, word: str) -> None:
    seen = (await desk.now(request_id)).shown_digest
    await desk.post(f"/requests/{request_id}/decision", {"word": word, "seen_digest": seen})


async def test_what_was_heard_of_the_policy_is_read_before_anybody_is_looked_up(desk: Reception) -> None:
    read = asyncio.Event()

    async def reads() -> None:
        await asyncio.sleep(0.02)
        read.set()

    desk.premises._heeding["default"] = asyncio.ensure_future(reads())
    await presence.still_here(*(await visitor(desk, "reviewer")))
    assert read.is_set()


async def test_an_agent_whose_token_was_revoked_while_it_waited_learns_nothing(desk: Reception) -> None:
    made = await desk.post("/agent/proposals", {"action": "tidy_shelf", "args": {}}, "agent", 201)
    run = await desk.post("/agent/runs", {"goal": "tidy"}, "agent", 201)
    waiting = [
        desk.start(desk.call("agent", "GET", f"/agent/proposals/{made['id']}?wait=55")),
        desk.start(desk.call("agent", "GET", f"/agent/runs/{run['id']}?wait=55&version=99")),
    ]
    await desk.until_waiting(2)
    await loses_the_token(desk)
    await decided(desk, made["id"], "approve")
    desk.premises.agents.let_go()
    assert [(await each).status_code for each in waiting] == [401, 401]


async def test_an_agent_whose_token_was_revoked_while_it_was_paused_begins_nothing(desk: Reception) -> None:
    made = await desk.post("/agent/proposals", {"action": "tidy_shelf", "args": {}}, "agent", 201)
    await decided(desk, made["id"], "approve")
    await desk.post("/switches", {"setting": "pause", "agent": "sweeper"})
    asked: tuple[tuple[str, Any], ...] = (
        (f"/agent/proposals/{made['id']}/begin", {}),
        ("/agent/proposals", {"action": "tidy_shelf", "args": {"n": 2}}),
        ("/agent/questions", {"text": "Which?"}),
        ("/agent/runs", {"goal": "tidy"}),
    )
    judgement = desk.gate._judgement
    assert await desk.until_held("sweeper")
    waiting = [desk.start(desk.call("agent", "POST", f"{path}?wait=55", body)) for path, body in asked]
    await desk.until_held("sweeper", ears=len(asked))
    before = await desk.kinds()
    await loses_the_token(desk)
    await desk.post("/switches", {"setting": "go", "agent": "sweeper"})
    assert [(await each).status_code for each in waiting] == [401] * len(asked)
    assert judgement.held_up("sweeper") is None
    after = await desk.kinds()
    assert after[len(before) :] == ["identity.ended", "switch.released"]


async def test_a_copy_of_the_log_breaks_off_for_whoever_has_signed_out(
    desk: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "RECHECK", 0.0)
    monkeypatch.setattr(log, "_CHUNK", 1)
    chunks = aiter((await log.exported(*(await visitor(desk, "reviewer")))).body_iterator)
    assert await anext(chunks)
    await signs_out(desk)
    with pytest.raises(Problem, match="no longer valid"):
        await anext(chunks)
