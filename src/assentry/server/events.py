"""News for whoever listens: the store's notices become small events, once for each workspace however many listen.

An event says that something changed and what it is now, never what is in it. Whoever was away is told to look again.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assentry.core.request import Request
from assentry.errors import AssentryError
from assentry.ports import Store
from assentry.server.problems import Problem

log = logging.getLogger("assentry.server")

_MOST_AT_ONCE = 500
"""Whoever has so much to hear looks at everything instead."""
_BREATH = 0.03
"""The first news goes out at once; what comes within so many seconds after it is told together."""
MOST_STREAMS = 250
"""For one person or agent on one instance."""
NOT_REQUESTS = ("policy:", "grant:", "run:", "switch:", "identity:")


@dataclass(frozen=True)
class Event:
    """One thing that changed."""

    about: str
    """request, run, policy, grant, switch, identity; or look: anything may have."""
    id: str = ""
    version: int = 0
    more: Mapping[str, Any] | None = None
    agent: str = ""

    @cached_property
    def line(self) -> str:
        """As it goes over the wire; written once, however many listen."""
        return f"data: {json.dumps(self.document())}\n\n"

    def document(self) -> dict[str, Any]:
        return {"about": self.about, "id": self.id, "version": self.version, **(self.more or {})}


LOOK = Event("look")


class Listener:
    """One stream's letter box. What is newer replaces what is older, so a slow reader costs little."""

    def __init__(self, workspace: str, agent: str = "", who: str = "") -> None:
        self.workspace, self.agent, self.who = workspace, agent, who
        self._waiting: dict[tuple[str, str], Event] = {}
        self._rang = asyncio.Event()
        self.closed = False

    def put(self, event: Event) -> None:
        if self.agent and event is not LOOK and (event.about != "request" or event.agent != self.agent):
            return  # an agent hears of its own requests and of nothing else
        if len(self._waiting) >= _MOST_AT_ONCE or event is LOOK:
            self._waiting = {("look", ""): LOOK}
        elif ("look", "") not in self._waiting:
            self._waiting[event.about, event.id] = event
        self._rang.set()

    def close(self) -> None:
        self.closed = True
        self._rang.set()

    async def events(self, quiet: float) -> AsyncIterator[list[Event]]:
        """What has come since, as it comes; an empty list after a quiet while."""
        while not self.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(quiet):
                    await self._rang.wait()
            self._rang.clear()
            waiting, self._waiting = self._waiting, {}
            yield list(waiting.values())


class Events:
    """Turns notices into events, for the workspaces that somebody listens to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: dict[str, set[Listener]] = {}
        self._heard: dict[str, int] = {}
        self._look = False
        self._rang = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listening(self) -> int:
        """How many streams are open."""
        return sum(map(len, self._listeners.values()))

    def start(self, also: Callable[[Mapping[str, int] | None], None]) -> Callable[[], None]:
        """Notices are heard, on this loop; `also` hears them as they come."""
        self._loop = loop = asyncio.get_running_loop()

        def on_loop(changed: Mapping[str, int] | None) -> None:
            also(changed)
            if changed is None:
                self._look = True
            else:
                self._heard.update(changed)
            self._rang.set()

        def notice(changed: Mapping[str, int] | None) -> None:
            with suppress(RuntimeError):  # a loop that was closed hears nothing
                loop.call_soon_threadsafe(on_loop, changed)

        stop = self._store.watch(notice)
        self._task = asyncio.ensure_future(self._tell())

        def leave() -> None:
            stop()
            if self._task is not None:
                self._task.cancel()

        return leave

    def listen(self, workspace: str, agent: str = "", who: str = "") -> Listener:
        """A letter box; the first thing in it says to look at everything, since nobody knows what was missed."""
        listener = Listener(workspace, agent, who)
        theirs = sum(each.who == who for each in self._listeners.get(workspace, ()))
        if theirs >= MOST_STREAMS:
            raise Problem(429, f"{who} has {theirs} streams open; close some", headers={"Retry-After": "30"})
        if self._closed:
            listener.close()
        self._listeners.setdefault(workspace, set()).add(listener)
        listener.put(LOOK)
        return listener

    def leave(self, listener: Listener) -> None:
        found = self._listeners.get(listener.workspace, set())
        found.discard(listener)
        if not found:
            self._listeners.pop(listener.workspace, None)

    def close(self) -> None:
        """Every stream ends."""
        self._closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.close()

    async def _tell(self) -> None:
        told_at = -_BREATH
        while True:
            await self._rang.wait()
            if (early := told_at + _BREATH - time.monotonic()) > 0:
                await asyncio.sleep(early)
            told_at = time.monotonic()
            self._rang.clear()
            heard, self._heard = self._heard, {}
            look, self._look = self._look, False
            if look or len(heard) > _MOST_AT_ONCE:
                self._everyone(LOOK)
                continue
            try:
                await self._news(heard)
            except AssentryError as problem:
                log.warning("news could not be read, so everybody looks again: %s", problem)
                self._everyone(LOOK)

    async def _news(self, heard: Mapping[str, int]) -> None:
        requests = [key for key in heard if not key.startswith(NOT_REQUESTS)]
        for key in heard.keys() - set(requests):
            about, _, name = key.partition(":")
            # Runs are named by ids that say nothing to strangers; of the rest, only that something changed.
            self._everyone(Event(about, name if about == "run" else "", heard[key]))
        for workspace in tuple(self._listeners) if requests else ():
            for request in await self._store.those(workspace, requests):
                event = about_request(request)
                for listener in tuple(self._listeners.get(workspace, ())):
                    listener.put(event)

    def _everyone(self, event: Event) -> None:
        for listeners in self._listeners.values():
            for listener in tuple(listeners):
                listener.put(event)


def about_request(request: Request) -> Event:
    """What a list needs to know of a request that moved."""
    more = {
        "code": request.code,
        "state": str(request.state),
        "by": request.decided_by,
        "word": request.word,
        "run": request.ask.run,
        "review": request.review.value,
        "votes": len(request.votes),
    }
    # What a process of this machine asked for under the same name is not the token's.
    agent = request.ask.agent if request.ask.asked_by.startswith("agent:") else ""
    return Event("request", request.id, request.version, more, agent)
