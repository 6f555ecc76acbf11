"""Calls that may be repeated: a POST with an `Idempotency-Key` happens once, and its answer is given again.

The key is claimed durably before anything happens, so that the same call never runs twice at once, on this instance or
another. What ended in an error changed nothing, and may be tried again with the same key. Whoever died between the
claim and the answer holds it for a minute. Answers are kept sealed, since they hold what they are about.

An operation that takes the key as a parameter of its own looks after repetition itself.
"""

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from fastapi import FastAPI, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assentry.core.action import Json
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.errors import AssentryError, StaleRequest
from assentry.ports import Store, Vault
from assentry.server import problems
from assentry.server.problems import Problem
from assentry.server.routes import api_routes
from assentry.server.visitors import Visitor, anybody, premises_of

log = logging.getLogger("assentry.server")

HEADER = "idempotency-key"
REPEATED = "idempotent-replayed"
LONGEST_KEY = 200
KEPT_FOR = timedelta(hours=24)
ABANDONED_AFTER = timedelta(minutes=1)
LARGEST_KEPT = 256 * 1024
_KEPT_HEADERS = ("content-type", "etag", "location")


def shown_once(request: Request) -> None:
    """What is answered holds a secret: it is given this once and kept nowhere."""
    request.state.shown_once = True


class Repeats:
    """An ASGI layer around the application: every POST of the API, whoever wrote it, may be repeated."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._known: list[re.Pattern[str]] | None = None

    def _repeatable(self, app: FastAPI) -> list[re.Pattern[str]]:
        """The operations that exist and do not look after repetition themselves; no row is kept for anything else."""
        if self._known is None:
            routes = [route for route in api_routes(app) if "POST" in (route.methods or ())]
            without = [each for each in routes if all(one.alias != HEADER for one in each.dependant.header_params)]
            self._known = [route.path_regex for route in without]
        return self._known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" else None
        if key is None or scope["method"] != "POST" or not _keeps(scope["path"]):
            return await self._app(scope, receive, send)
        if not any(each.match(scope["path"]) for each in self._repeatable(scope["app"])):
            return await self._app(scope, receive, send)
        scope.setdefault("state", {})
        request, body = Request(scope), await _whole(receive)
        if body is None:
            return await problems.answer(request, Problem(413, "the body is too large"))(scope, receive, send)
        again = _replayed(body, receive)
        try:
            visitor = await anybody(request)
            if visitor is None:
                return await self._app(scope, again, send)
            vault = premises_of(request).keys
            claim = await _claimed(visitor, vault, key, _digest(scope, body))
        except (Problem, AssentryError) as problem:
            return await problems.answer(request, problem)(scope, again, send)
        if isinstance(claim, Response):
            return await claim(scope, again, send)
        store = visitor.room.desk.store
        answer = _Answer(scope, send)
        try:
            await self._app(scope, again, answer.hear)
        except BaseException:
            await _settle(store, claim, {"stage": "free"})
            raise
        await _settle(store, claim, answer.about(vault, claim.id))
        await answer.release()
        return None


def _keeps(path: str) -> bool:
    """Answers to this are kept. An agent's calls are known again by their step, attempt or fence, in the very record
    that they make; what they are answered may hold the secrets that it gave, and is kept nowhere."""
    return path.startswith("/api/v1/") and (not path.startswith("/api/v1/agent/") or path.endswith("/notes"))


class _Answer:
    """Hears an answer, and holds it back until it is kept; one that is too large to be kept goes out as it comes."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send = scope, send
        self._held: list[Message] = []
        self._size = 0
        self._too_large = False
        self.status = 0

    async def hear(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self._size += len(message.get("body", b""))
        self._held.append(message)
        if self._size > LARGEST_KEPT:
            self._too_large = True
            await self.release()

    async def release(self) -> None:
        """Everything heard so far is on its way."""
        held, self._held = self._held, []
        for message in held:
            await self._send(message)

    def about(self, vault: Vault, name: str) -> Mapping[str, Json]:
        """What is to be remembered of it. An error changed nothing, so the key is free again."""
        if not 200 <= self.status < 300:
            return {"stage": "free"}
        if self._too_large or self._scope["state"].get("shown_once"):
            return {"stage": "given"}
        start = next(message for message in self._held if message["type"] == "http.response.start")
        headers = MutableHeaders(raw=list(start["headers"]))
        body = b"".join(message.get("body", b"") for message in self._held)
        try:
            sealed = vault.seal(_context(name), body.decode())
        except AssentryError as problem:
            log.warning("an answer could not be sealed, so it is not kept: %s", problem)
            return {"stage": "given"}
        return {
            "stage": "kept",
            "status": self.status,
            "headers": {name: headers[name] for name in _KEPT_HEADERS if name in headers},
            "sealed": sealed,
        }


async def _claimed(visitor: Visitor, vault: Vault, key: str, digest: str) -> Credential | Response:
    """The claim with which the call may run; or the answer that it got before."""
    if not 0 < len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise Problem(400, f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters")
    store, workspace, who = visitor.room.desk.store, visitor.room.name, visitor.principal
    name = hashlib.sha256("\0".join(("reply", workspace, who.kind, who.name, key)).encode()).hexdigest()
    now = await store.now()
    found = await store.credential(workspace, CredentialKind.REPLY, name)
    fresh = Credential(
        workspace, CredentialKind.REPLY, name, who.name, now, who.name, expires_at=now + KEPT_FOR,
        about={"stage": "running", "request": digest, "since": now.timestamp()},
    )  # fmt: skip
    if found is not None:
        if found.is_live(now) and found.about["stage"] != "free":
            if found.about["request"] != digest:
                raise Problem(422, "this Idempotency-Key was used for another call; take a new one for a new call")
            if found.about["stage"] != "running":
                return _given_before(vault, found)
            if now.timestamp() - float(found.about["since"]) < ABANDONED_AFTER.total_seconds():
                raise _under_way()
        fresh = replace(fresh, version=found.version + 1)
    try:
        await store.transact(workspace, None, lambda _: Change(credentials=(fresh,)))
    except StaleRequest:
        raise _under_way() from None
    return fresh


def _under_way() -> Problem:
    return Problem(409, "the same call is under way; ask again in a moment", headers={"Retry-After": "1"})


def _given_before(vault: Vault, found: Credential) -> Response:
    done = Problem(409, "this was done already, and its answer was given once and is not kept; do not repeat it")
    if found.about["stage"] == "given":
        raise done
    try:
        body = vault.unseal(_context(found.id), str(found.about["sealed"]))
    except AssentryError:
        raise done from None  # sealed with a key that is gone; what was done was done all the same
    return Response(body, found.about["status"], {**found.about["headers"], REPEATED: "true"})


def _context(name: str) -> str:
    """What a sealed answer is bound to."""
    return f"reply:{name}"


async def _settle(store: Store, claim: Credential, about: Mapping[str, Json]) -> None:
    """The outcome stands beside the claim. Where it cannot be written, the claim lapses by itself."""
    settled = replace(claim, version=claim.version + 1, about={"request": claim.about["request"], **about})
    if about["stage"] == "free":
        settled = replace(settled, expires_at=claim.made_at)  # nothing to remember: forgotten with the next sweep
    try:
        await store.transact(claim.workspace, None, lambda _: Change(credentials=(settled,)))
    except StaleRequest:
        log.warning("a call took so long that a repetition of it was let through")
    except AssentryError as problem:
        log.warning("an answer could not be kept for a repetition of its call: %s", problem)


def _digest(scope: Scope, body: bytes) -> str:
    """Stands for the whole call."""
    head = "\0".join((scope["method"], scope["path"], scope["query_string"].decode("latin-1"), ""))
    return hashlib.sha256(head.encode() + body).hexdigest()


async def _whole(receive: Receive) -> bytes | None:
    """The body; nothing where it ended early, so that half of it is never taken for all of it."""
    parts: list[bytes] = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
    return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more; what comes after it comes from outside."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
