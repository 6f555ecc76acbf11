"""The stream of news: people hear of everything in their workspace, an agent of its own requests only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from assentry.server.events import LOOK, Event, Listener
from tests.server.reception import POLICY, Reception
from tests.stage import PATIENCE

News = list[dict[str, Any]]


@asynccontextmanager
async def stream(desk: Reception, who: str) -> AsyncIterator[AsyncIterator[News]]:
    """The stream as the server sends it, piece by piece; a test client would wait for its end."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    gone = asyncio.Event()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/api/v1/events", "raw_path": b"/api/v1/events", "query_string": b"", "root_path": "",
        "headers": [(b"host", b"assentry.test"), (b"authorization", f"Bearer {desk.secrets[who]}".encode())],
        "client": ("127.0.0.1", 1), "server": ("assentry.test", 80),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        else:
            await chunks.put(message.get("body", b""))

    async def heard() -> AsyncIterator[News]:
        while True:
            lines = (await chunks.get()).decode().splitlines()
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
    box.put(LOOK)
    assert list(box._waiting.values()) == [LOOK]
