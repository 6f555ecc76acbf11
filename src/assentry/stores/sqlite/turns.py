"""What an event loop says about the callers on it: how many write at once, and whether Ctrl-C can interrupt them.

Only the public interface of a loop is used, so every implementation of one gives the same answers.
"""

import asyncio
import signal
import threading
import time

CROWD = 4
"""So many changes in one turn of a loop: a shared commit costs less than one commit for each of them."""

LOOK_SECONDS = 1.0
"""How long the answer about Ctrl-C is kept: asking takes a sixth of a millisecond, longer than most of a commit."""


class Turns(threading.local):
    """The loop of the calling thread, by turns: a turn is what the loop runs before it looks for new events."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before = self._now = 0
        self._looked = float("-inf")
        self._interruptible = True

    def is_crowded(self, loop: asyncio.AbstractEventLoop) -> bool:
        """One more change is about to be made on `loop`, and in this turn, or in the one before, there were many."""
        if loop is not self._loop:
            self._begin(loop)
        if self._now == 0:
            loop.call_soon(self._turned, loop)
        self._now += 1
        return max(self._before, self._now) >= CROWD

    def may_be_interrupted(self, loop: asyncio.AbstractEventLoop) -> bool:
        """As `may_be_interrupted`, asked once a second and for each loop."""
        if loop is not self._loop:
            self._begin(loop)
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked, self._interruptible = now, may_be_interrupted()
        return self._interruptible

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._looked = loop, float("-inf")
        self._before = self._now = 0

    def _turned(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop:
            self._before, self._now = self._now, 0


def may_be_interrupted() -> bool:
    """Ctrl-C would raise between any two instructions here. `asyncio.run` prevents that; a bare loop does not."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
