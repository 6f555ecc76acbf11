"""What surrounds every answer: the names we go by, security headers, limits, a log line without payloads."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assentry.server.tracing import named, spanned

log = logging.getLogger("assentry.access")

LARGEST_BODY = 4 * 1024 * 1024
LARGEST_ANONYMOUS = 64 * 1024
"""For a body from somebody who has not signed in and sent no valid token: enough for every form at the door."""
ONCE = frozenset(
    {
        b"host", b"authorization", b"origin", b"content-type", b"content-length", b"transfer-encoding",
        b"sec-fetch-site", b"x-assentry-csrf", b"idempotency-key", b"if-match",
    }
)  # fmt: skip
"""Headers that decide something. Where one is sent twice, a proxy may have judged by the other one."""
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types assentry",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


class Meters:
    """What operations look at. Nothing here is named after what an agent wrote."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.answers = Counter("assentry_http_answers", "HTTP answers", labels, registry=self.registry)
        self.seconds = Histogram("assentry_http_seconds", "Time to answer", ("route",), registry=self.registry)
        self.streams = Gauge("assentry_event_streams", "Open streams of events", registry=self.registry)
        self.decisions = Counter("assentry_decisions", "Decisions taken here", ("word",), registry=self.registry)
        self.proposals = Counter("assentry_proposals", "Proposals taken here", ("gate",), registry=self.registry)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the server waits for what somebody sends, in seconds."""

    head: float = 10.0
    """For the first line and the headers, from the connection or the answer before."""
    body: float = 30.0
    """For the whole body, from the end of the headers."""


class Wire:
    """An ASGI layer around the application. `known` says whether whoever sends this has proved who they are."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        meters: Meters,
        known: Callable[[Scope], Awaitable[bool]],
        public: str = "",
        limits: Limits | None = None,
    ) -> None:
        self._app, self._hosts, self._meters, self._known = app, frozenset(hosts), meters, known
        self._limits = limits or Limits()
        self._https = urlsplit(public).netloc.lower() if public.startswith("https://") else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers, began, name = Headers(scope=scope), time.perf_counter(), secrets.token_hex(6)
        told = {"status": 0}
        if self._https and headers.get("host", "").lower() == self._https:
            scope["scheme"] = "https"

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                out = MutableHeaders(scope=message)
                for key, value in HEADERS.items():
                    out.setdefault(key, value)
                if scope["scheme"] == "https":
                    out.setdefault("strict-transport-security", "max-age=31536000")
                out.setdefault("cache-control", "no-store")
                out["x-request-id"] = name
            await send(message)

        if problem := _ambiguous(scope):
            return await _refuse(answer, 400, "bad-request", problem)
        if self._hosts and headers["host"].lower() not in self._hosts:
            return await _refuse(answer, 421, "misdirected", "this server does not go by that name; see ASSENTRY_URL")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > LARGEST_BODY:
            return await _refuse(answer, 413, "too-large", _TOO_LARGE)
        body = _Body(receive, answer, self._limits.body, lambda: self._known(scope))
        with spanned(scope["method"], headers) as span:
            try:
                await self._app(scope, body.receive, body.send)
            finally:
                route = self._note(scope, told["status"], time.perf_counter() - began, name)
                named(span, scope["method"], route, told["status"])
        return None

    def _note(self, scope: Scope, status: int, seconds: float, name: str) -> str:
        # The pattern that matched, not what was asked for: addresses hold codes.
        route = str(getattr(scope.get("route"), "path", "none"))
        self._meters.answers.labels(scope["method"], route, str(status)).inc()
        self._meters.seconds.labels(route).observe(seconds)
        line = {
            "request": name, "method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1e3, 1),
        }  # fmt: skip
        log.info(json.dumps(line))
        return route


_TOO_LARGE = f"a body has at most {LARGEST_BODY:,} bytes"
_ANONYMOUS = f"a body has at most {LARGEST_ANONYMOUS:,} bytes unless you are signed in or send a valid token"
_SLOW = "the body did not arrive in time; send it again"


class _Body:
    """The body of one call. One that is too large or too slow is cut, and that is the answer.

    After the last piece nothing is limited: whoever listens to a stream or waits for an outcome receives there.
    """

    __slots__ = ("_began", "_ended", "_is_cut", "_is_known", "_known", "_receive", "_send", "_size", "_until")

    def __init__(self, receive: Receive, send: Send, seconds: float, known: Callable[[], Awaitable[bool]]) -> None:
        self._receive, self._send, self._known = receive, send, known
        self._until = asyncio.get_running_loop().time() + seconds
        self._size = 0
        self._ended = self._began = self._is_known = self._is_cut = False

    async def receive(self) -> Message:
        if self._ended:
            return await self._receive()
        if self._is_cut:
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            return await self._cut(408, "timeout", _SLOW)
        self._ended = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        if self._size > LARGEST_BODY:
            return await self._cut(413, "too-large", _TOO_LARGE)
        if self._size > LARGEST_ANONYMOUS and not self._is_known:
            self._is_known = await self._known()
            if not self._is_known:
                return await self._cut(413, "too-large", _ANONYMOUS)
        return message

    async def send(self, message: Message) -> None:
        if not self._is_cut:
            self._began = True
            await self._send(message)

    async def _cut(self, status: int, name: str, detail: str) -> Message:
        self._is_cut, self._ended = True, False
        if not self._began:
            # What is still on its way after a 413 is read and dropped for a short while, so that the answer is heard.
            await _refuse(self._send, status, name, detail, ends=status == 408)
        return {"type": "http.disconnect"}


def _ambiguous(scope: Scope) -> str:
    """What in the head of this call could be read in two ways; empty where nothing could."""
    names = [name for name, _ in scope["headers"]]
    if b"host" not in names:
        return "send a Host header"
    if len(set(names)) != len(names):
        twice = sorted(name.decode("latin-1") for name in ONCE if names.count(name) > 1)
        if twice:
            return f"{twice[0]} was sent twice; send it once"
    return "" if scope["path"].startswith("/") else "the address after the method must begin with /"


async def _refuse(send: Send, status: int, name: str, detail: str, *, ends: bool = False) -> None:
    body = {"type": f"/problems/{name}", "title": detail.partition(";")[0], "status": status, "detail": detail}
    sent = json.dumps(body).encode()
    head = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(sent)).encode())]
    if ends:
        head.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": sent})
