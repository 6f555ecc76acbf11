"""A few threads that do errands, each with a tool of its own (a connection) that nobody else uses."""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from assentry.errors import StoreError
from assentry.stores.handoff import Ticket, deliver

Tool = TypeVar("Tool")


class Hands(Generic[Tool]):
    """Errands run here, so that they block no event loop. Threads are started when there is work for them."""

    def __init__(
        self,
        name: str,
        size: int,
        take: Callable[[], Tool],
        put_back: Callable[[Tool], None],
        translate: Callable[[Exception], BaseException],
    ) -> None:
        self._name, self._size, self._take, self._put_back, self._translate = name, size, take, put_back, translate
        self._queue: SimpleQueue[tuple[Callable[[Tool], Any], Ticket] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._stopped = False

    def submit(self, errand: Callable[[Tool], Any]) -> Ticket:
        """`errand` will be done by some thread with its tool."""
        ticket = Ticket()
        self._queue.put((errand, ticket))
        # The count is a hint: a thread too many or one too late does no harm.
        if self._idle < self._queue.qsize() and len(self._threads) < self._size:
            self._start_one()
        # Looked at last: what was queued before `stop` is still done, what came after it is refused here.
        if self._stopped:
            self._refuse_all()
        return ticket

    def stop(self) -> list[threading.Thread]:
        """The threads, which end after what is queued."""
        with self._lock:
            self._stopped = True
            for _ in self._threads:
                self._queue.put(None)
            return list(self._threads)

    def _start_one(self) -> None:
        with self._lock:
            if len(self._threads) < self._size and not self._stopped:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        tool: Tool | None = None
        while True:
            self._idle += 1
            item = self._queue.get()
            self._idle -= 1
            if item is None:
                break
            errand, ticket = item
            if ticket.abandoned:
                continue
            try:
                if tool is None:
                    tool = self._take()
                ticket.value = errand(tool)
            except Exception as error:  # noqa: BLE001  it reaches whoever asked
                ticket.error = self._translate(error)
            except BaseException as error:  # noqa: BLE001  a step may raise what `except Exception` would miss
                ticket.error = error
            deliver((ticket,))
        if tool is not None:
            self._put_back(tool)

    def _refuse_all(self) -> None:
        """Nobody is left to go; what still waits is told so. The signs to stop are put back."""
        refused = []
        with suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if item is not None:
                    item[1].error = StoreError("the store is closed; open it again before using it")
                    refused.append(item[1])
        for _ in self._threads:
            self._queue.put(None)
        deliver(refused)
