"""Answers on their way from a thread that works to an event loop that waits.

A thread settles many answers at once; each loop is woken once for all of its own.
"""

import asyncio
from collections.abc import Iterable
from typing import Any


class Ticket:
    """One awaited answer. Made on the loop that waits; `value` or `error` is set by the thread that works."""

    __slots__ = ("error", "future", "loop", "value")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def abandoned(self) -> bool:
        """Nobody waits for the answer any more."""
        return self.future.cancelled()


def deliver(tickets: Iterable[Ticket]) -> None:
    """Whoever awaits these tickets gets what was set on them."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.loop, []).append(ticket)
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(settle, settled)
        except RuntimeError:
            # The loop was closed, so nobody can be waiting on it; what was committed stays committed.
            continue


def settle(tickets: Iterable[Ticket]) -> None:
    """The same, on the loop where all of them are awaited."""
    for ticket in tickets:
        if ticket.future.done():
            continue
        if ticket.error is None:
            ticket.future.set_result(ticket.value)
        else:
            ticket.future.set_exception(ticket.error)
