"""The one thread that writes: it takes what is queued, commits it in one transaction, and then answers.

Nobody waits for a group to form. While one transaction syncs, the next group gathers by itself.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from assent.errors import AssentError, StoreError
from assent.stores.handoff import Ticket, deliver
from assent.stores.recorder import LOSS_WINDOW, Recorder
from assent.stores.rows import micros
from assent.stores.sqlite.connect import open_writer, translated
from assent.stores.sqlite.transaction import Transaction
from assent.stores.sqlite.wake import WakeFile

GROUP = 256
"""The most changes that share one transaction."""

Work = Callable[[Transaction], Any]
"""What one caller wants done inside a transaction. It may be done twice, if another in its group fails half-way."""

Job = tuple[Work, Ticket]


class _HalfWrittenError(Exception):
    """A job failed after it had written something, or at the hands of the database."""


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
        self._recorder = Recorder(lambda: self._queue.put(None), micros, str(path))
        self.record = self._recorder.record
        self._flush_at: float | None = None
        self._stopping = False
        self.ready = threading.Event()
        """Set once the database is open, or cannot be opened."""
        self.failure: AssentError | None = None
        """Why nothing can be written any more: it could not be opened, or was closed."""
        self.thread = threading.Thread(target=self._run, name=f"assent-writer {path.name}", daemon=True)
        self.thread.start()

    def submit(self, work: Work) -> Ticket:
        """`work` will run inside a transaction; the ticket is settled after the commit."""
        ticket = Ticket()
        self._queue.put((work, ticket))
        # The thread sets `failure` before it answers for the last time; who comes after that answers itself.
        if self.failure is not None:
            self._refuse_all(self.failure)
        return ticket

    def stop(self) -> None:
        """The thread ends after what is queued was committed."""
        self._stopping = True
        self._queue.put(None)

    def _run(self) -> None:
        try:
            self._connection = open_writer(self._path, self._busy_seconds)
            self.wake = WakeFile(self._path)
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
        if self._recorder:
            self._commit_group([])
        self.wake.close()
        self._connection.close(True)
        self.failure = StoreError(f"the store at {self._path} is closed; open it again before using it")
        self._refuse_all(self.failure)

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
        if self._recorder and self._flush_at is None:
            self._flush_at = time.monotonic() + LOSS_WINDOW
        return jobs

    def _must_flush(self) -> bool:
        if self._flush_at is None:
            return False
        return self._recorder.is_full or self._stopping or time.monotonic() >= self._flush_at

    def _commit_group(self, jobs: list[Job]) -> None:
        """Each job's change is committed, or its own error known; a failed commit is everybody's error."""
        jobs = [job for job in jobs if not job[1].abandoned]
        try:
            try:
                self._write_group(jobs, self._do)
            except _HalfWrittenError:
                self._undo()
                self._write_group(jobs, self._do_apart)
        except Exception as error:  # noqa: BLE001  the thread must survive, and everyone must get an answer
            self._undo()
            failure = translated(error, self._path)
            failure.__cause__ = error
            for _, ticket in jobs:
                ticket.value, ticket.error = None, failure
        self._flush_at = time.monotonic() + LOSS_WINDOW if self._recorder else None
        deliver(ticket for _, ticket in jobs)
        self._announce()

    def _write_group(self, jobs: list[Job], do: Callable[[Work, Ticket], None]) -> None:
        """What was recorded and every job, in one transaction."""
        transaction, connection = self._transaction, self._connection
        recorded = self._recorder.take()
        connection.execute("BEGIN IMMEDIATE")
        transaction.begin()
        for row in recorded:
            transaction.append_row(row)
        for work, ticket in jobs:
            ticket.value = ticket.error = None
            do(work, ticket)
        connection.execute("COMMIT")
        transaction.committed()
        self._recorder.written(len(recorded))

    def _do(self, work: Work, ticket: Ticket) -> None:
        """The job is done, without a savepoint: most that fail have written nothing yet, so nothing is to be undone."""
        before = self._connection.total_changes()
        try:
            ticket.value = work(self._transaction)
        except BaseException as error:  # whatever a step raises belongs to whoever wrote it
            if isinstance(error, apsw.Error) or self._connection.total_changes() != before:
                raise _HalfWrittenError from error
            ticket.error = error

    def _do_apart(self, work: Work, ticket: Ticket) -> None:
        """The job is done so that it can be undone alone. Steps are pure: taking them again changes nothing else."""
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
        self._transaction.forget()

    def _announce(self) -> None:
        """Watchers here are told directly; those elsewhere through the wake file."""
        transaction = self._transaction
        if not transaction.dirty:
            return
        self.wake.ring()
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
