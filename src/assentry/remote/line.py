"""The line to a server: every call is tried again until it is answered, and none of them is made twice.

What could be made twice carries a name of its own (an idempotency key, an attempt, a fence), so that the server knows
it again.
"""

import asyncio
import json
import random
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from assentry.core.action import Json
from assentry.engine.portal import Portal
from assentry.errors import SettingsError, Unreachable
from assentry.remote.problems import error_of

LONGEST_WAIT = 50.0
"""What one call waits for news; it is made again after that."""
_ANSWER_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_TRY_AGAIN = (502, 503, 504)


class Line:
    """Speaks with one server, on one background loop, whichever loop or thread asks."""

    def __init__(self, url: str, token: str, portal: Portal, *, retry_for: float) -> None:
        self._url, self._portal, self._retry_for = url.rstrip("/"), portal, retry_for
        self._headers = {"Authorization": f"Bearer {_sendable(token)}", "Accept": "application/json"}
        self._client: httpx.AsyncClient | None = None

    @property
    def url(self) -> str:
        """Where the server is, as people may see it."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def get(self, path: str, *, wait: float = 0, **params: str | int) -> dict[str, Any]:
        """The answer; with `wait` it may take so many seconds."""
        return await self._on_portal("GET", path, None, {**params, **({"wait": wait} if wait else {})}, wait)

    async def post(self, path: str, body: Mapping[str, Json], *, once: str = "", wait: float = 0) -> dict[str, Any]:
        """The answer to what was said; `once` is the same for every retry."""
        return await self._on_portal("POST", path, body, {"wait": wait} if wait else {}, wait, once)

    async def close(self) -> None:
        """The line is closed."""
        if self._client is not None:
            await self._client.aclose()

    async def _on_portal(self, *call: Any) -> dict[str, Any]:
        work = self._answered(*call)
        if asyncio.get_running_loop() is self._portal.loop:
            return await work
        return await asyncio.wrap_future(self._portal.submit(work))

    async def _answered(
        self, method: str, path: str, body: Mapping[str, Json] | None, params: Mapping[str, Any], wait: float,
        once: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        began, pause = time.monotonic(), _FIRST_PAUSE
        headers = {"Idempotency-Key": once} if once else {}
        # In plain ASCII whatever is in it; what the server cannot keep it says itself.
        sent = None if body is None else json.dumps(body, default=str).encode()
        if sent is not None:
            headers["Content-Type"] = "application/json"
        while True:
            try:
                answer = await self._opened().request(
                    method, f"{self._url}/api/v1/agent{path}", content=sent, params=params, headers=headers,
                    timeout=httpx.Timeout(_ANSWER_SECONDS + wait, connect=_ANSWER_SECONDS),
                )  # fmt: skip
            except (httpx.UnsupportedProtocol, httpx.InvalidURL) as problem:
                raise SettingsError(f"{self._url} is no address of a server ({problem}); such as https://…") from None
            except httpx.LocalProtocolError as problem:
                raise SettingsError(
                    f"this cannot be sent to {self._url} ({type(problem).__name__}); look at the token "
                    "and at the names that the call carries"
                ) from None
            except httpx.TransportError as problem:
                why = type(problem).__name__
            else:
                if answer.is_success:
                    found: dict[str, Any] = answer.json()
                    return found
                under_way = answer.status_code == 409 and "retry-after" in answer.headers
                if answer.status_code not in _TRY_AGAIN and not under_way:
                    raise error_of(answer)
                why = f"it answered {answer.status_code}"
            if time.monotonic() - began + pause > self._retry_for:
                raise Unreachable(
                    f"the server at {self._url} could not be reached for {self._retry_for:g} s ({why}); whether the "
                    "last call arrived is not known, and calling again with the same key finds out"
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret, only spread
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            # Many calls may wait for people at once; a bound would make the others wait for those.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            self._client = httpx.AsyncClient(headers=self._headers, limits=limits)
        return self._client


def _sendable(token: str) -> str:
    """The token without what files and shells leave around it; the error never repeats it."""
    token = token.strip()
    if not token:
        raise SettingsError("the token is empty; `assentry token give AGENT` on the server's machine makes one")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise SettingsError("the token has characters that no token has; give it as `assentry token give` printed it")
    return token
