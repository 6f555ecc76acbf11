"""Waiting for a request to change: woken by the store's notices, with a slow sweep behind them."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime

from assentry.core.request import Request
from assentry.engine.deadlines import settle_overdue
from assentry.ports import Store

SWEEP_SECONDS = 30.0
"""How long a lost notice can go unnoticed."""


class Ear:
    """What was heard of one request while somebody cared, on the loop where they wait."""

    __slots__ = ("event", "loop", "unsure", "version")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.event = asyncio.Event()
        self.version = 0
        self.unsure = False
        """Something may have been missed."""

    def hear(self, version: int | None) -> None:
        """From any thread: the request has this version, or an unknown one."""
        if version is None:
            self.unsure = True
        elif version > self.version:
            self.version = version
        if asyncio._get_running_loop() is self.loop:
            self.event.set()
            return
        with suppress(RuntimeError):  # a loop that was closed waits for nothing
            self.loop.call_soon_threadsafe(self.event.set)


class Hub:
    """Wakes whoever waits for a request, on whichever loop they wait."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace
        self._lock = threading.Lock()
        self._ears: dict[str, list[Ear]] = defaultdict(list)
        self._listeners: list[Callable[[Mapping[str, int] | None], None]] = []
        self._stop: Callable[[], None] | None = None

    def start(self) -> None:
        """Notices arrive. Idempotent."""
        with self._lock:
            if self._stop is None:
                self._stop = self._store.watch(self._notice)

    def stop(self) -> None:
        with self._lock:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def listen(self, listener: Callable[[Mapping[str, int] | None], None]) -> Callable[[], None]:
        """`listener` hears every notice, on the store's thread; returns how to stop that."""
        self.start()
        self._listeners.append(listener)

        def leave() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return leave

    def _notice(self, changed: Mapping[str, int] | None) -> None:
        with self._lock:
            if changed is None:
                told: list[tuple[Ear, int | None]] = [(ear, None) for ears in self._ears.values() for ear in ears]
            else:
                told = [(ear, version) for key, version in changed.items() for ear in self._ears.get(key, ())]
        for ear, version in told:
            ear.hear(version)
        for listener in tuple(self._listeners):
            listener(changed)

    @contextmanager
    def hearing(self, request_id: str) -> Iterator[Ear]:
        """Notices about this request are kept for `changed`, from before the request was made if need be."""
        self.start()
        ear = Ear()
        with self._lock:
            self._ears[request_id].append(ear)
        try:
            yield ear
        finally:
            with self._lock:
                self._ears[request_id].remove(ear)
                if not self._ears[request_id]:
                    del self._ears[request_id]

    async def changed(self, request: Request, patience: float | None = None, ear: Ear | None = None) -> Request:
        """The request once it is newer than `request`, or as it is when patience runs out.

        Whoever waits also moves time on: a rung or an end that falls due meanwhile is applied. With an `ear` that
        was there before `request` was read, silence means that there is nothing to read yet.
        """
        if ear is None:
            with self.hearing(request.id) as own:
                own.unsure = True
                return await self.changed(request, patience, own)
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        latest = request
        # What was committed a moment ago says by itself how much time is left; otherwise the database's clock does.
        now = None if ear.unsure else request.changed_at
        while True:
            ear.event.clear()
            if ear.unsure or ear.version > request.version:
                ear.unsure = False
                found = await self._store.request(self._workspace, request.id)
                if found is None or found.version > request.version:
                    return found or request
                latest = found
            remaining = None if until is None else until - loop.time()
            if remaining is not None and remaining <= 0:
                return latest
            if not await self._slept(ear.event, latest, remaining, now):
                ear.unsure = True
            now = None

    async def _slept(
        self, event: asyncio.Event, request: Request, remaining: float | None, now: datetime | None
    ) -> bool:
        """Whether a notice came; otherwise time was moved on, patience ended, or the slow sweep is due."""
        span = SWEEP_SECONDS if remaining is None else min(SWEEP_SECONDS, remaining)
        if request.due_at is not None:
            left = (request.due_at - (now or await self._store.now())).total_seconds()
            if left <= 0:
                await settle_overdue(self._store, request)
                return False
            span = min(span, left)
        with suppress(TimeoutError):
            # Not `wait_for`: in Python 3.11 it can swallow a cancellation that comes with the notice.
            async with asyncio.timeout(span):
                await event.wait()
        return event.is_set()
