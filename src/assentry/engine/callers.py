"""Processes that wait: how they show that they live, and what becomes of their requests when they do not.

Each way of waiting is found again in its own way, and only the first kind can be abandoned:

- a call that waits in its process, outside of runs and without a `key`, or in a run that nobody can enter again (no
  `key`, no host): nothing but the process knows of it, so its request names the process as its caller;
- a call with a `key`, or in a run with a `key` or a host: whoever takes the step again finds its request;
- a call that raised `Parked`: the id was handed out, and `gate.resume` finds the request by it;
- `detached` calls: a worker runs them, whoever asked;
- agents that call a server over HTTP, MCP proxies and hooks: they hold the id or a ticket and may be away for as long
  as they like. A connected gate (`assentry.connect`) waits in its process, and shows through the server that it lives.

One row per process is renewed, not one per request. A name that was taken for gone never comes back; a process that
was only slow takes another name and waits again for what it still waits for, which it knows itself.

A row is there before any request names the process. What names a process without a row, however that came about, is
found by `lost_callers` and abandoned like the rest, so that nobody need see to it that no name outlives its row.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from assentry.core.advance import LEGAL, advance
from assentry.core.change import Change
from assentry.core.decision import Awaited, CallerLost, Event, Findable
from assentry.core.request import Request
from assentry.engine.portal import Portal
from assentry.errors import AssentryError
from assentry.ports import Store, View

log = logging.getLogger("assentry.callers")

BEATS = 4
"""How often in each lease a process shows that it lives."""
RETRY_SECONDS = 1.0


def new_name() -> str:
    """A name that no other process has."""
    return secrets.token_hex(8)


def name_at_server(agent: str, name: str) -> str:
    """The name on record of a process that told it to a server: no agent can name the process of another one."""
    return sha256(f"{agent}\0{name}".encode()).hexdigest()[:24]


class Callers:
    """How the callers of this process are known to live. Nothing is written before the first of them waits."""

    def __init__(self, store: Store, workspace: str, portal: Portal, lease: timedelta) -> None:
        self._store, self._workspace, self._portal, self._lease = store, workspace, portal, lease
        self._name = ""
        self._shown_at = 0.0
        self._waits_for: dict[str, None] = {}
        """The ids of what this process waits for. Only it knows that for certain: others may have taken it for gone."""
        self._must_tell = False
        """It has taken another name, and not all that it waits for names it by that one yet."""
        self._showing: asyncio.Lock | None = None
        self._keeper: Future[None] | None = None
        self._closed = False

    async def name(self) -> str:
        """The name under which this process shows that it lives; the first time, it begins to.

        Where it could not for longer than a lease, it may have been taken for gone meanwhile; then it has another name.
        """
        if not self._name or time.monotonic() - self._shown_at > self._lease.total_seconds():
            await self._on_portal(self._shown(self._name))
        return self._name

    async def waits(self, request: Request) -> Request:
        """The request, which names this process if it names any."""
        if not depends(request):
            return request
        name = await self.name()
        self._waits_for[request.id] = None
        if request.abandoned_at is not None and name in request.callers:
            # Others took this process for gone: under the name that it had, nobody may ever look for it again.
            await self._on_portal(self._shown(name))
            name = self._name
        is_named = name in request.callers and request.abandoned_at is None
        return request if is_named else await self._moved(request.id, Awaited(name)) or request

    async def findable(self, request: Request) -> Request:
        """The request, which whoever asked can find again by its id: no process need live for it any more."""
        self.leaves(request)
        if not depends(request):
            return request
        return await self._moved(request.id, Findable()) or request

    def leaves(self, request: Request) -> None:
        """This process does not wait for it any more."""
        self._waits_for.pop(request.id, None)

    def is_alone(self, request: Request) -> bool:
        """Nobody but this process waits for it, and nothing else can find it again."""
        return bool(self._name) and request.callers == (self._name,)

    def without_this(self, request: Request, now: datetime) -> Change | None:
        """The change by which this process is no longer among those that wait for it."""
        return advance(request, CallerLost(self._name), now)

    async def close(self) -> None:
        """This process is no longer known to live, and whoever looks sees so at once."""
        self.leave()
        if self._name:
            with suppress(AssentryError):
                await self._show(timedelta())

    def leave(self) -> None:
        """Nothing is renewed any more, as if the process were gone."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()

    async def _on_portal(self, work: Coroutine[Any, Any, None]) -> None:
        if asyncio.get_running_loop() is self._portal.loop:
            await work
        else:
            await asyncio.wrap_future(self._portal.submit(work))

    async def _shown(self, name: str) -> None:
        """This process, which had this name, is known to live, and all that it waits for names it."""
        self._showing = self._showing or asyncio.Lock()
        async with self._showing:
            if name != self._name:
                return  # another call has seen to it meanwhile
            began = time.monotonic()
            if not name:
                await self._take_name()
            elif not await self._show(self._lease):
                log.warning("this process was taken for gone; it waits again for what it waited for")
                await self._take_name()
                self._must_tell = True
            self._shown_at = began
            if self._must_tell:
                for request_id in tuple(self._waits_for):
                    request = await self._moved(request_id, Awaited(self._name))
                    if request is None or not depends(request):
                        self._waits_for.pop(request_id, None)
                self._must_tell = False
            if self._keeper is None and not self._closed:
                self._keeper = self._portal.submit(self._keep())

    async def _keep(self) -> None:
        pause = self._lease.total_seconds() / BEATS
        while not self._closed:
            await asyncio.sleep(pause)
            try:
                await self._shown(self._name)
                await self._clear()
                pause = self._lease.total_seconds() / BEATS
            except AssentryError as problem:
                log.warning("this process could not show that it lives: %s", problem)
                pause = min(RETRY_SECONDS, self._lease.total_seconds() / BEATS)

    # What touches the store; behind a server, the server does it.

    async def _show(self, life: timedelta) -> bool:
        """It lives for so long; false where it was taken for gone."""
        return await self._store.show_caller(self._workspace, self._name, life)

    async def _take_name(self) -> None:
        name = new_name()
        await self._store.show_caller(self._workspace, name, self._lease, new=True)
        self._name = name

    async def _clear(self) -> None:
        await clear(self._store, self._workspace)

    async def _moved(self, request_id: str, event: Awaited | Findable) -> Request | None:
        return await moved(self._store, self._workspace, request_id, event)


def depends(request: Request) -> bool:
    """What becomes of it depends on the processes that wait for it."""
    return bool(request.callers) and Awaited in LEGAL[request.state]


async def clear(store: Store, workspace: str) -> None:
    """Requests whose callers are gone say so; what was approved for them has ended.

    May be interrupted anywhere and done again by anybody: a lost caller is forgotten only after its requests moved.
    """
    for caller in await store.lost_callers(workspace):
        await every(store, workspace, caller, CallerLost(caller))
        await store.forget_caller(workspace, caller)


async def every(store: Store, workspace: str, caller: str, event: Event) -> None:
    """The event has happened to every request that this process waits for."""
    after = ""
    while found := await store.waited_for_by(workspace, caller, after=after):
        for request in found:
            await moved(store, workspace, request.id, event)
        after = found[-1].id


async def moved(store: Store, workspace: str, request_id: str, event: Event) -> Request | None:
    """The request after the event, or as it is where it is past that."""

    def step(view: View) -> Change | None:
        now = view.request
        if now is None or type(event) not in LEGAL[now.state]:
            return None
        return advance(now, event, view.now)

    change = await store.transact(workspace, request_id, step)
    if change is not None and change.request is not None:
        return change.request
    return await store.request(workspace, request_id)
