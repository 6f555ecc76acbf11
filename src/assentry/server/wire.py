"""What surrounds every answer: the names we go by, security headers, size limits, a log line without payloads."""

import json
import logging
import secrets
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assentry.server.tracing import named, spanned

log = logging.getLogger("assentry.access")

LARGEST_BODY = 4 * 1024 * 1024
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


class Wire:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], meters: Meters, public: str = "") -> None:
        self._app, self._hosts, self._meters = app, frozenset(hosts), meters
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

        if self._hosts and headers.get("host", "").lower() not in self._hosts:
            return await _refuse(answer, 421, "misdirected", "this server does not go by that name; see ASSENTRY_URL")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > LARGEST_BODY:
            return await _refuse(answer, 413, "too-large", f"a body has at most {LARGEST_BODY:,} bytes")
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                return {"type": "http.disconnect"}
            return message

        with spanned(scope["method"], headers) as span:
            try:
                await self._app(scope, limited, answer)
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


async def _refuse(send: Send, status: int, name: str, detail: str) -> None:
    body = {"type": f"/problems/{name}", "title": detail.partition(";")[0], "status": status, "detail": detail}
    sent = json.dumps(body).encode()
    head = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(sent)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": sent})
