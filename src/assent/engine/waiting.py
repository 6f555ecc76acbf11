"""Waiting for a request to change: woken by the store's notices, with a slow sweep behind them."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress

from assent.core.request import Request
from assent.engine.deadlines import settle_overdue
from assent.ports import Store

SWEEP_SECONDS = 30.0
"""How long a lost notice can go unnoticed."""


class Hub:
    """Wakes whoever waits for a request, on whichever loop they wait."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace
        self._lock = threading.Lock()
        self._waiters: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = defaultdict(list)
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
            ids = list(self._waiters) if changed is None else [key for key in changed if key in self._waiters]
            woken = [waiter for key in ids for waiter in self._waiters[key]]
        for loop, event in woken:
            with suppress(RuntimeError):  # a loop that was closed waits for nothing
                loop.call_soon_threadsafe(event.set)
        for listener in tuple(self._listeners):
            listener(changed)

    async def changed(self, request: Request, patience: float | None = None) -> Request:
        """The request once it is newer than `request`, or as it is when patience runs out.

        Whoever waits also moves time on: a rung or an end that falls due meanwhile is applied.
        """
        self.start()
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        event = asyncio.Event()
        waiter = (loop, event)
        with self._lock:
            self._waiters[request.id].append(waiter)
        try:
            while True:
                event.clear()
                latest = await self._store.request(self._workspace, request.id)
                if latest is None or latest.version > request.version:
                    return latest or request
                remaining = None if until is None else until - loop.time()
                if remaining is not None and remaining <= 0:
                    return latest
                await self._sleep(event, latest, remaining)
        finally:
            with self._lock:
                self._waiters[request.id].remove(waiter)
                if not self._waiters[request.id]:
                    del self._waiters[request.id]

    async def _sleep(self, event: asyncio.Event, request: Request, remaining: float | None) -> None:
        """Returns when noticed, when time must be moved on, when patience ends, or for the slow sweep."""
        span = SWEEP_SECONDS if remaining is None else min(SWEEP_SECONDS, remaining)
        if request.due_at is not None:
            left = (request.due_at - await self._store.now()).total_seconds()
            if left <= 0:
                await settle_overdue(self._store, request)
                return
            span = min(span, left)
        with suppress(TimeoutError):
            # Not `wait_for`: in Python 3.11 it can swallow a cancellation that comes with the notice.
            async with asyncio.timeout(span):
                await event.wait()
