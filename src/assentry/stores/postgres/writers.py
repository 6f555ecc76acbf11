"""Threads that commit: each takes what is queued and sends it as one statement.

PostgreSQL commits transactions that notify one after the other, so a few connections that commit groups do
more than many that commit singly. Nobody waits for a group to form.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue

import psycopg

from assentry.errors import StoreError
from assentry.stores.handoff import Ticket, deliver
from assentry.stores.postgres.connect import Connector, Interrupted, Link, is_lost, translated
from assentry.stores.postgres.writes import SQL, Write, changes_text

GROUP = 64
"""The most writes that share one commit."""


class Writers:
    """A few threads with a connection each, and one queue."""

    def __init__(self, connector: Connector, committed: Callable[[Mapping[str, int]], None], count: int) -> None:
        self._connector, self._committed = connector, committed
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        self._failure: StoreError | None = None
        self._committing = 0
        """How many groups are on their way, about: threads may change it at once."""
        self._threads = [threading.Thread(target=self._run, name="assentry-writer", daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    @property
    def idle(self) -> bool:
        """Nobody commits, so there is nobody to share a commit with. A hint: it may change at any moment."""
        return self._committing == 0 and self._queue.empty()

    def submit(self, write: Write) -> Ticket:
        """The ticket is settled with whether the write took effect."""
        write.ticket = Ticket()
        self._queue.put(write)
        if self._failure is not None:
            self._refuse_all(self._failure)
        return write.ticket

    def stop(self) -> list[threading.Thread]:
        """The threads, which end after what is queued was committed."""
        self._queue.put(None)
        return self._threads

    def _run(self) -> None:
        link = Link(self._connector)
        while True:
            first = self._queue.get()
            if first is None:
                break
            group = [first]
            stopping = False
            with suppress(Empty):
                while len(group) < GROUP and not stopping:
                    write = self._queue.get_nowait()
                    if write is None:
                        stopping = True
                    else:
                        group.append(write)
            group = [write for write in group if write.ticket is None or not write.ticket.abandoned]
            self._committing += 1
            news = self.commit(link, group)
            self._committing -= 1
            deliver(write.ticket for write in group if write.ticket is not None)
            if news:
                self._committed(news)
            if stopping:
                break
        # The others stop too. Whoever came in between is refused here, whoever comes later in `submit`.
        self._failure = StoreError(f"the store at {self._connector.where} is closed; open it again before using it")
        self._refuse_all(self._failure)
        link.drop()

    def commit(self, link: Link, group: list[Write]) -> dict[str, int]:
        """What took effect; every ticket knows about its own. For any thread that has a connection."""
        try:
            return self._commit(link, group)
        except Exception as error:  # noqa: BLE001  the thread must survive, and everyone must get an answer
            _fail(group, error)
            return {}

    def _commit(self, link: Link, group: list[Write]) -> dict[str, int]:
        if not group:
            return {}
        connection = link.connection()
        # All groups lock rows in the same order, so no two wait for each other.
        group.sort(key=lambda write: write.key)
        sent = time.monotonic()
        try:
            ((done, clock),) = connection.execute(SQL["commit"], changes_text(*group), prepare=True).fetchall()
        except psycopg.Error as error:
            if is_lost(error, connection):
                link.drop()
                _fail(group, Interrupted())
                return {}
            if len(group) == 1:
                _fail(group, _of(error, self._connector.where))
                return {}
            # One of them was refused, and with it all were rolled back; singly, the others go through.
            return {key: version for write in group for key, version in self.commit(link, [write]).items()}
        self._connector.clock.learn(clock, sent)
        news: dict[str, int] = {}
        for write, effect in zip(group, done, strict=True):
            if write.ticket is not None:
                write.ticket.value = effect
            if effect:
                news |= write.news
        return news

    def _refuse_all(self, error: StoreError) -> None:
        refused = []
        with suppress(Empty):
            while True:
                write = self._queue.get_nowait()
                if write is not None and write.ticket is not None:
                    write.ticket.error = error
                    refused.append(write.ticket)
        self._queue.put(None)
        deliver(refused)


def _fail(group: list[Write], error: BaseException) -> None:
    for write in group:
        if write.ticket is not None:
            write.ticket.error = error


def _of(error: psycopg.Error, where: str) -> BaseException:
    """Unique violations are for the caller to explain; the rest is told in our words."""
    return error if isinstance(error, psycopg.errors.UniqueViolation) else translated(error, where)
