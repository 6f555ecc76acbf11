"""The thread that writes recorded entries, in groups, each exactly once."""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from itertools import takewhile
from queue import Empty, SimpleQueue

import psycopg

from assentry.core.audit import Entry
from assentry.errors import AssentryError, StoreError
from assentry.stores.handoff import Ticket, deliver
from assentry.stores.postgres.connect import Connector, Link, is_lost, translated, unreachable
from assentry.stores.postgres.writes import SQL, Write, changes_text, when
from assentry.stores.recorder import AT_ONCE, LOSS_WINDOW, Recorder
from assentry.stores.rows import Row

log = logging.getLogger(__name__)

_FOR_GOOD = (psycopg.errors.InsufficientPrivilege, psycopg.DataError, psycopg.IntegrityError)
"""Refusals that trying again does not change."""


class Recording:
    """Takes entries from anybody and writes them within the loss window."""

    def __init__(self, connector: Connector) -> None:
        self._link = Link(connector)
        self._queue: SimpleQueue[Ticket | None] = SimpleQueue()
        self._recorder = Recorder(lambda: self._queue.put(None), when, connector.where)
        self._where = connector.where
        self._lock = threading.Lock()
        self._stopping = False
        self._ended = False
        self.thread: threading.Thread | None = None

    def record(self, entry: Callable[[], Entry]) -> None:
        """The entry will be made and written within the loss window."""
        if self.thread is None:
            self._start()
        self._recorder.record(entry)

    def flush(self) -> Ticket:
        """The ticket is settled once everything recorded before is durable."""
        if self.thread is None:
            self._start()
        ticket = Ticket()
        self._queue.put(ticket)
        if self._ended:
            self._answer(self._waiting(), StoreError(f"the store at {self._where} is closed; open it again"))
        return ticket

    def stop(self) -> list[threading.Thread]:
        """The thread, which ends after everything was written, if it can be."""
        with self._lock:
            self._stopping = True
            self._queue.put(None)
            return [] if self.thread is None else [self.thread]

    def _start(self) -> None:
        with self._lock:
            if self.thread is None and not self._stopping:
                self.thread = threading.Thread(target=self._run, name="assentry-recorder", daemon=True)
                self.thread.start()

    def _run(self) -> None:
        write_at: float | None = None
        while not self._stopping or self._recorder or not self._queue.empty():
            flushing = self._waiting(write_at)
            if self._recorder and write_at is None:
                write_at = time.monotonic() + LOSS_WINDOW
            due = write_at is not None and (self._recorder.is_full or time.monotonic() >= write_at)
            if not (flushing or due or self._stopping):
                continue
            failure: AssentryError | None = None
            try:
                self._write_all()
            except AssentryError as error:
                failure = error
            self._answer(flushing, failure)
            if failure is not None and self._stopping:
                break
            write_at = time.monotonic() + LOSS_WINDOW if self._recorder else None
        self._link.drop()
        self._ended = True
        self._answer(self._waiting(0.0), StoreError(f"the store at {self._where} is closed; open it again"))

    def _waiting(self, until: float | None = 0.0) -> list[Ticket]:
        """Who waits for a flush; at most until then (0: not at all, `None`: as long as it takes) for the first."""
        found = []
        try:
            timeout = None if until is None else max(0.0, until - time.monotonic())
            item = self._queue.get(timeout=timeout) if timeout != 0.0 else self._queue.get_nowait()
            while True:
                if item is not None:
                    found.append(item)
                item = self._queue.get_nowait()
        except Empty:
            return found

    def _answer(self, tickets: list[Ticket], failure: AssentryError | None) -> None:
        for ticket in tickets:
            ticket.error = failure
        deliver(tickets)

    def _write_all(self) -> None:
        self._recorder.take()
        while self._recorder.rows:
            self._write_some()

    def _write_some(self) -> None:
        """The first rows that belong together are durable. A name that is already there means: they were."""
        rows = self._recorder.rows
        first = rows[0]
        # Rows that were sent before go again under the same name, and no others with them.
        again = first.get("batch")
        together = list(
            takewhile(lambda row: row["workspace"] == first["workspace"] and row.get("batch") == again, rows[:AT_ONCE])
        )
        batch = again or secrets.token_hex(8)
        for row in together:
            row["batch"] = batch
        connection = self._link.connection()
        try:
            connection.execute(SQL["commit"], changes_text(_write(together)), prepare=True)
        except psycopg.errors.UniqueViolation:
            pass
        except psycopg.Error as error:
            if is_lost(error, connection):
                self._link.drop()
                raise unreachable(self._where) from None
            if not isinstance(error, _FOR_GOOD):
                raise translated(error, self._where) from None
            self._refused(together)
            return
        self._recorder.written(len(together))

    def _refused(self, together: list[Row]) -> None:
        """Of a group that the server refused, all go singly; one that it refuses alone holds up nobody."""
        for row in together:
            row["batch"] = secrets.token_hex(8)
        if len(together) == 1:
            log.error("an entry of kind %s is refused by %s and is not in the log", together[0]["kind"], self._where)
            self._recorder.written(1)


def _write(together: list[Row]) -> Write:
    """The first row alone bears the name, which there can be once."""
    first, *others = together
    return Write({"entries": [first, *({**row, "batch": None} for row in others)]}, (first["workspace"], ""), {})
