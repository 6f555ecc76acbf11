"""A person's session with a server: calls, tried again where that cannot do anything twice."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx

from assentry.errors import NotAllowed, StoreError
from assentry.remote.problems import error_of

TRIES = 5
_FIRST_PAUSE = 0.2
_PATIENCE = httpx.Timeout(30.0, connect=10.0)
_LISTENING = httpx.Timeout(10.0, read=60.0)


class Session:
    """Calls to one server in one person's name."""

    def __init__(self, url: str, session: str) -> None:
        self.url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {session}"} if session else {}
        self._clients: dict[int, httpx.AsyncClient] = {}

    async def read(self, what: str, **given: Any) -> Any:
        """Stored things as the server has them."""
        return (await self._call("GET", f"/api/v1/records/{what}", params={"q": json.dumps(given)}))["found"]

    async def get(self, path: str, **query: str) -> Any:
        """What the server answers."""
        return await self._call("GET", path, params=query)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What the server answers; repeated under one key, so that a lost answer does nothing twice."""
        return await self._call("POST", path, json=body, headers={"idempotency-key": uuid4().hex})

    async def close(self) -> None:
        client = self._clients.pop(id(asyncio.get_running_loop()), None)
        if client is not None:
            await client.aclose()

    async def _call(self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        pause = _FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                answer = await self._client().request(method, path, headers=dict(headers or {}), **more)
            except httpx.TransportError as problem:
                if not left:
                    raise StoreError(
                        f"the server at {self.url} cannot be reached ({type(problem).__name__}); is it running?"
                    ) from None
            else:
                if answer.status_code not in (502, 503, 504) or not left:
                    return _told(answer)
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError  # the last try returned or raised

    def _client(self) -> httpx.AsyncClient:
        key = id(asyncio.get_running_loop())
        if key not in self._clients:
            self._clients[key] = httpx.AsyncClient(base_url=self.url, headers=self._headers, timeout=_PATIENCE)
        return self._clients[key]

    def listen(self, notice: Callable[[Mapping[str, int] | None], None]) -> Callable[[], None]:
        """`notice` hears of every change, from a thread; after a break it is told to look at everything."""
        stopped = threading.Event()
        open_now: list[httpx.Response] = []

        def work() -> None:
            while not stopped.is_set():
                with (
                    suppress(httpx.HTTPError, ValueError),
                    httpx.Client(base_url=self.url, headers=self._headers, timeout=_LISTENING) as client,
                    client.stream("GET", "/api/v1/events") as answer,
                ):
                    open_now[:] = [answer]
                    for text in answer.iter_lines():
                        if stopped.is_set():
                            return
                        if text.startswith("data: "):
                            notice(_heard(json.loads(text[6:])))
                stopped.wait(1.0)

        threading.Thread(target=work, name="assentry-line", daemon=True).start()

        def stop() -> None:
            stopped.set()
            for answer in open_now:
                with suppress(Exception):
                    answer.close()

        return stop


def _heard(event: Mapping[str, Any]) -> Mapping[str, int] | None:
    about, name, version = event.get("about"), str(event.get("id", "")), int(event.get("version", 0))
    if about == "look":
        return None
    return {name if about == "request" else f"{about}:{name or 'set'}": version}


def _told(answer: httpx.Response) -> Any:
    if answer.status_code == 401:
        raise NotAllowed("the server does not know this session any more; `assentry login URL`", principal="")
    if not answer.is_success:
        raise error_of(answer)
    return answer.json() if answer.content else {}
