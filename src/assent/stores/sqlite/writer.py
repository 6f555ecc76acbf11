"""The one thread that writes: it takes what is queued, commits it in one transaction, and then answers.

Nobody waits for a group to form. While one transaction syncs, the next group gathers by itself.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from assent.core.audit import Entry
from assent.errors import AssentError, StoreError
from assent.stores.handoff import Ticket, deliver
from assent.stores.rows import Row, entry_columns, micros
from assent.stores.sqlite.connect import create_private, open_writer, translated, wake_file
from assent.stores.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

GROUP = 256
"""The most changes that share one transaction."""

LOSS_WINDOW = 0.2
"""Seconds for which a recorded entry may wait in memory; what a crash can lose of calls that simply ran."""

RECORDED_AT_ONCE = 256
"""So many recorded entries are written without waiting for the window to end."""

RECORDED_AT_MOST = 65_536
"""Beyond this, recording fails, and with it the call that wanted to be recorded."""

Work = Callable[[Transaction], Any]
Job = tuple[Work, Ticket]


class Writer:
    """A thread with the only connection that writes."""

    def __init__(
        self,
        path: Path,
        busy_seconds: float,
        clock: Callable[[], datetime],
        committed: Callable[[Transaction], None],
    ) -> None:
        self._path, self._busy_seconds, self._clock, self._committed = path, busy_seconds, clock, committed
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._recorded: deque[Callable[[], Entry]] = deque()
        self._unsaved: list[Row] = []
        self._nudged = False
        self._flush_at: float | None = None
        self._stopping = False
        self._wake = -1
        self.ready = threading.Event()
        """Set once the database is open, or cannot be opened (then `failure` says why)."""
        self.failure: AssentError | None = None
        self.thread = threading.Thread(target=self._run, name=f"assent-writer {path.name}", daemon=True)
        self.thread.start()

    def submit(self, work: Work) -> Ticket:
        """`work` will run inside a transaction; the ticket is settled after the commit."""
        ticket = Ticket()
        self._queue.put((work, ticket))
        return ticket

    def record(self, entry: Callable[[], Entry]) -> None:
        """The entry will be made and written within the loss window, or with the next change if that is sooner."""
        recorded = self._recorded
        if len(recorded) + len(self._unsaved) >= RECORDED_AT_MOST:
            raise StoreError(
                f"{RECORDED_AT_MOST} entries wait to be written to {self._path} and none can be; "
                "see that the database can be written, then try again"
            )
        recorded.append(entry)
        # The entry is appended before the flag is read, and the writer clears the flag before it looks:
        # one of the two always sees the other.
        if not self._nudged or len(recorded) == RECORDED_AT_ONCE:
            self._nudged = True
            self._queue.put(None)

    def stop(self) -> None:
        """The thread ends after what is queued was committed."""
        self._stopping = True
        self._queue.put(None)

    def _run(self) -> None:
        try:
            self._connection = open_writer(self._path, self._busy_seconds)
            create_private(wake_file(self._path))
            self._wake = os.open(wake_file(self._path), os.O_WRONLY | os.O_CLOEXEC)
        except AssentError as error:
            self.failure = error
        except (OSError, apsw.Error) as error:
            self.failure = translated(error, self._path)
        self.ready.set()
        if self.failure is not None:
            self._refuse_all(self.failure)
            return
        self._transaction = Transaction(self._connection, self._clock)
        while not (self._stopping and self._queue.empty()):
            jobs = self._gather()
            if jobs or self._must_flush():
                self._commit_group(jobs)
        if self._waiting():
            self._commit_group([])
        os.close(self._wake)
        self._connection.close(True)

    def _gather(self) -> list[Job]:
        """What is queued now; waits for the first only."""
        timeout = None if self._flush_at is None else max(0.0, self._flush_at - time.monotonic())
        jobs: list[Job] = []
        try:
            item = self._queue.get(timeout=timeout)
            while True:
                if item is not None:
                    jobs.append(item)
                    if len(jobs) == GROUP:
                        break
                item = self._queue.get_nowait()
        except Empty:
            pass
        if self._waiting() and self._flush_at is None:
            self._flush_at = time.monotonic() + LOSS_WINDOW
        return jobs

    def _must_flush(self) -> bool:
        if self._flush_at is None:
            return False
        return len(self._recorded) >= RECORDED_AT_ONCE or self._stopping or time.monotonic() >= self._flush_at

    def _waiting(self) -> bool:
        return bool(self._recorded or self._unsaved)

    def _commit_group(self, jobs: list[Job]) -> None:
        """Each job's change is committed, or its own error known; a failed commit is everybody's error."""
        transaction, connection = self._transaction, self._connection
        jobs = [job for job in jobs if not job[1].abandoned]
        tickets = [ticket for _, ticket in jobs]
        self._make_entries()
        try:
            connection.execute("BEGIN IMMEDIATE")
            transaction.begin()
            for row in self._unsaved:
                transaction.append_row(row)
            alone = len(jobs) == 1 and not self._unsaved
            for work, ticket in jobs:
                if alone:
                    self._do_alone(work, ticket)
                else:
                    self._do_one_of_many(work, ticket)
            if connection.in_transaction:
                connection.execute("COMMIT")
            self._unsaved.clear()
        except Exception as error:  # noqa: BLE001  the thread must survive, and everyone must get an answer
            self._undo()
            failure = translated(error, self._path)
            for ticket in tickets:
                ticket.value, ticket.error = None, failure
        self._flush_at = time.monotonic() + LOSS_WINDOW if self._waiting() else None
        deliver(tickets)
        self._announce()

    def _make_entries(self) -> None:
        """What was recorded is made into rows, once; the flag is cleared first, see `record`."""
        self._nudged = False
        while self._recorded:
            make = self._recorded.popleft()
            try:
                self._unsaved.append(_row(make()))
            except Exception:
                log.exception("a recorded entry could not be made and is not in the log")

    def _do_alone(self, work: Work, ticket: Ticket) -> None:
        """The transaction is this job's alone, so its failure needs no savepoint."""
        try:
            ticket.value = work(self._transaction)
        except apsw.Error:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a step raises belongs to whoever wrote it
            self._undo()
            ticket.error = error

    def _do_one_of_many(self, work: Work, ticket: Ticket) -> None:
        transaction, connection = self._transaction, self._connection
        connection.execute("SAVEPOINT change")
        mark = transaction.mark()
        try:
            ticket.value = work(transaction)
        except BaseException as error:
            if not connection.in_transaction:
                # A fault of the database has rolled back the whole group.
                raise
            connection.execute("ROLLBACK TO change")
            transaction.back_to(mark)
            ticket.error = translated(error, self._path) if isinstance(error, apsw.Error) else error
        connection.execute("RELEASE change")

    def _undo(self) -> None:
        """Nothing of the transaction remains."""
        with suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._transaction.begin()

    def _announce(self) -> None:
        """Watchers here are told directly; those elsewhere through the wake file."""
        transaction = self._transaction
        if not transaction.dirty:
            return
        with suppress(OSError):
            os.pwrite(self._wake, b"\1", 0)
        self._committed(transaction)

    def _refuse_all(self, error: AssentError) -> None:
        refused = []
        with suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if item is not None:
                    item[1].error = error
                    refused.append(item[1])
        deliver(refused)


def _row(entry: Entry) -> Row:
    """The entry as a row; of one that cannot be written as JSON the head remains, so that it blocks nothing."""
    try:
        return entry_columns(entry, micros)
    except AssentError:
        log.exception("an entry of kind %s cannot be written as JSON; it is logged without its body", entry.kind)
        return entry_columns(replace(entry, body={"unwritable": True}), micros)
