"""The thread and event loop where all connections of a store live, whichever loop its callers use."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from assent.stores.handoff import Ticket, deliver

Errand = Callable[[], Coroutine[Any, Any, Any]]


class Home:
    """One background loop. Work is handed to it, and its answers back, with one wake-up for many."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._arrived: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._woken = False
        self._finished: list[Ticket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def post(self, receive: Callable[[Any], None], what: Any) -> None:
        """`receive(what)` will be called on the home loop. From any thread."""
        self._arrived.append((receive, what))
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._take_in)

    def run(self, errand: Errand) -> Ticket:
        """`errand` will run on the home loop; the ticket is for the loop that calls this."""
        ticket = Ticket()
        self.post(self._begin, (errand, ticket))
        return ticket

    def finish(self, ticket: Ticket) -> None:
        """The ticket is settled, together with others that are settled in the same turn of the loop."""
        if not self._finished:
            self.loop.call_soon(self._answer)
        self._finished.append(ticket)

    def begin(self, task: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """The task runs here and is kept until it ends. From the home loop only."""
        begun = self.loop.create_task(task)
        self._tasks.add(begun)
        begun.add_done_callback(self._tasks.discard)
        return begun

    def stop(self) -> None:
        """The loop ends; whatever still ran on it is cancelled."""
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            for task in self._tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            self._answer()
        finally:
            self.loop.close()

    def _take_in(self) -> None:
        # Cleared first: what is posted from here on wakes the loop again.
        self._woken = False
        while self._arrived:
            receive, what = self._arrived.popleft()
            receive(what)

    def _begin(self, what: tuple[Errand, Ticket]) -> None:
        self.begin(self._do(*what))

    async def _do(self, errand: Errand, ticket: Ticket) -> None:
        try:
            if not ticket.abandoned:
                ticket.value = await errand()
        except asyncio.CancelledError:
            ticket.error = asyncio.CancelledError()
            raise
        except BaseException as error:  # noqa: BLE001  it reaches whoever asked
            ticket.error = error
        finally:
            self.finish(ticket)

    def _answer(self) -> None:
        finished, self._finished = self._finished, []
        deliver(finished)
