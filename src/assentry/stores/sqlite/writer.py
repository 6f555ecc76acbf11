"""The one connection that writes, and the thread that takes what is queued, commits it together, and then answers.

Nobody waits for a group to form. While one transaction syncs, the next group gathers by itself. A change that
comes alone, to a disk that syncs quickly, is committed on the spot: handing it over would take longer than that.
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

from assentry.errors import AssentryError, StoreError
from assentry.stores.handoff import Ticket, deliver, settle
from assentry.stores.recorder import LOSS_WINDOW, Recorder
from assentry.stores.rows import micros
from assentry.stores.sqlite.asks import Asks
from assentry.stores.sqlite.connect import CHECKPOINT_PAGES, open_writer, translated
from assentry.stores.sqlite.transaction import Transaction
from assentry.stores.sqlite.turns import Turns
from assentry.stores.sqlite.wake import wake_file

GROUP = 256
"""The most changes that share one transaction."""

QUICK = 0.005
"""A commit that takes longer than this many seconds is not made on an event loop again for a while."""

PAUSE = 20.0
"""So many times as long as it took: slow commits take no more than a twentieth of an event loop's time."""

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
        self.asks = Asks()
        self._writing = threading.Lock()
        """Held by whoever uses the connection."""
        self._turns = Turns()
        self._spot_from = 0.0
        self._checkpoint_due = False
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._recorder = Recorder(lambda: self._queue.put(None), micros, str(path))
        self.record = self._recorder.record
        self._flush_at: float | None = None
        self._stopping = False
        self.ready = threading.Event()
        """Set once the database is open, or cannot be opened."""
        self.failure: AssentryError | None = None
        """Why nothing can be written any more: it could not be opened, or was closed."""
        self.thread = threading.Thread(target=self._run, name=f"assentry-writer {path.name}", daemon=True)
        self.thread.start()

    def submit(self, work: Work) -> Ticket:
        """`work` will run inside a transaction; the ticket is settled after the commit."""
        ticket = Ticket()
        if self._is_alone(ticket) and self._done_here(work, ticket):
            return ticket
        self._queue.put((work, ticket))
        # The thread sets `failure` before it answers for the last time; who comes after that answers itself.
        if self.failure is not None:
            self._refuse_all(self.failure)
        return ticket

    @property
    def is_ending(self) -> bool:
        """Somebody has closed the store."""
        return self._stopping

    def stop(self) -> None:
        """The thread ends after what is queued was committed."""
        self._stopping = True
        self._queue.put(None)

    def _run(self) -> None:
        try:
            self._connection = open_writer(self._path, self._busy_seconds)
            self._connection.set_wal_hook(self._written_ahead)
            self._transaction = Transaction(self._connection, self._clock, self.asks)
            self.wake = wake_file(self._path)
        except AssentryError as error:
            self.failure = error
        except (OSError, apsw.Error) as error:
            self.failure = translated(error, self._path)
        self.ready.set()
        if self.failure is not None:
            self._refuse_all(self.failure)
            return
        while not (self._stopping and self._queue.empty()):
            jobs = self._gather()
            with self._writing:
                if jobs or self._must_flush():
                    self._commit_group(jobs)
                if self._checkpoint_due:
                    self._checkpoint()
        # Whoever commits on the spot finds this taken from now on.
        self._writing.acquire()
        if self._recorder:
            self._commit_group([])
        if self.wake is not None:
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
        """Each job's change is committed and answered, or its own error known; a failed commit is everybody's error."""
        jobs = [job for job in jobs if not job[1].abandoned]
        self._write_or_fail(jobs, self._begin)
        self._ring()
        deliver(ticket for _, ticket in jobs)
        self._announce()

    def _is_alone(self, ticket: Ticket) -> bool:
        """Nobody else is about to write, here or on this loop, with whom a commit could be shared; syncing is quick."""
        return (
            not self._turns.is_crowded(ticket.loop)
            and self._queue.empty()
            and not self._recorder
            and self.ready.is_set()
            and time.monotonic() >= self._spot_from
            and not self._turns.may_be_interrupted(ticket.loop)
        )

    def _done_here(self, work: Work, ticket: Ticket) -> bool:
        """The job is done and committed on this thread, unless that would mean waiting for another writer."""
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if self.failure is not None or not self._begun_at_once():
                return False
            start = time.monotonic()
            self._write_or_fail([(work, ticket)], lambda: None)
            if (took := (end := time.monotonic()) - start) > QUICK:
                self._spot_from = end + PAUSE * took
            if self._checkpoint_due:
                self._queue.put(None)
            self._ring()
            settle((ticket,))
            self._announce()
        except BaseException:
            # Interrupted, on the main thread: before COMMIT nothing of it remains, after it nothing is to be undone.
            self._undo()
            raise
        finally:
            self._writing.release()
        return True

    def _begun_at_once(self) -> bool:
        """A transaction has begun; false if another process writes just now."""
        connection = self._connection
        connection.set_busy_timeout(0)
        try:
            self._begin()
        except apsw.Error:
            return False
        finally:
            connection.set_busy_timeout(int(self._busy_seconds * 1000))
        return True

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def _write_or_fail(self, jobs: list[Job], begin: Callable[[], None]) -> None:
        """Each ticket has its answer: the value of a committed change, or why there is none."""
        try:
            try:
                begin()
                self._write_group(jobs, self._do)
            except _HalfWrittenError:
                self._undo()
                self._begin()
                self._write_group(jobs, self._do_apart)
        except Exception as error:  # noqa: BLE001  the thread must survive, and everyone must get an answer
            self._undo()
            failure = translated(error, self._path)
            failure.__cause__ = error
            for _, ticket in jobs:
                ticket.value, ticket.error = None, failure
        except BaseException:
            # Interrupted, on the main thread.
            self._undo()
            raise
        self._flush_at = time.monotonic() + LOSS_WINDOW if self._recorder else None

    def _write_group(self, jobs: list[Job], do: Callable[[Work, Ticket], None]) -> None:
        """What was recorded and every job, in the transaction that has begun."""
        transaction = self._transaction
        recorded = self._recorder.take()
        transaction.begin()
        for row in recorded:
            transaction.append_row(row)
        for work, ticket in jobs:
            ticket.value = ticket.error = None
            do(work, ticket)
        self._connection.execute("COMMIT")
        self._recorder.written(len(recorded))

    def _written_ahead(self, _: apsw.Connection, __: str, pages: int) -> int:
        """After each commit: a long write-ahead log is worked into the file by the thread, not by a loop."""
        self._checkpoint_due = pages >= CHECKPOINT_PAGES
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        self._checkpoint_due = False
        with suppress(apsw.Error):  # nothing depends on it; the next commit says again that it is due
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

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

    def _ring(self) -> None:
        """Watchers elsewhere are woken through the wake file: first, since they have the longest way."""
        if self._transaction.dirty and self.wake is not None:
            self.wake.ring()

    def _announce(self) -> None:
        """Watchers here are told directly."""
        if self._transaction.dirty:
            self._committed(self._transaction)

    def _refuse_all(self, error: AssentryError) -> None:
        refused = []
        with suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if item is not None:
                    item[1].error = error
                    refused.append(item[1])
        deliver(refused)
