"""An event loop in a thread of its own, so that code without asyncio can wait for the engine."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from assentry.errors import GuardError

T = TypeVar("T")


class Portal:
    """Runs coroutines on a background loop; starts on first use."""

    def __init__(self, name: str = "assentry") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running background loop."""
        if self._loop is None:
            with self._lock:
                if self._loop is None:
                    self._process = os.getpid()
                    self._loop = self._started()
        if self._process != os.getpid():
            raise GuardError("the gate was opened before this process was forked; open one in each process")
        return self._loop

    def _started(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        ready = threading.Event()

        def serve() -> None:
            asyncio.set_event_loop(loop)
            loop.call_soon(ready.set)
            loop.run_forever()
            loop.close()

        threading.Thread(target=serve, name=self._name, daemon=True).start()
        ready.wait()
        return loop

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """`work` runs on the background loop."""
        try:
            loop = self.loop
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returned; interrupting the caller cancels the work."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """The loop has stopped and nothing runs on it."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


def on_event_loop() -> bool:
    """The calling thread runs an event loop, which blocking would stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
