"""A few threads that read, each on a connection that cannot write."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from assent.errors import AssentError, StoreError
from assent.stores.handoff import Ticket, deliver
from assent.stores.sqlite.connect import open_reader, translated
from assent.stores.sqlite.writer import Writer

Look = Callable[[apsw.Connection], Any]


class Readers:
    """Reads run here, so that they neither block an event loop nor wait for the writer."""

    def __init__(self, path: Path, busy_seconds: float, writer: Writer, size: int) -> None:
        self._path, self._busy_seconds, self._writer, self._size = path, busy_seconds, writer, size
        self._queue: SimpleQueue[tuple[Look, Ticket] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._stopped = False

    def submit(self, look: Look) -> Ticket:
        """`look` will run on some reader's connection."""
        ticket = Ticket()
        self._queue.put((look, ticket))
        if self._stopped:
            self._refuse_all()
        # The count is a hint: a thread too many or one too late does no harm.
        if self._idle < self._queue.qsize() and len(self._threads) < self._size:
            with self._lock:
                if len(self._threads) < self._size and not self._stopped:
                    name = f"assent-reader {self._path.name}"
                    thread = threading.Thread(target=self._run, name=name, daemon=True)
                    self._threads.append(thread)
                    thread.start()
        return ticket

    def stop(self) -> list[threading.Thread]:
        """The threads, which end after what is queued."""
        with self._lock:
            self._stopped = True
            for _ in self._threads:
                self._queue.put(None)
            return list(self._threads)

    def _refuse_all(self) -> None:
        """Nobody is left to look; what still waits is told so. The signs to stop are put back."""
        refused = []
        with suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if item is not None:
                    item[1].error = StoreError(f"the store at {self._path} is closed; open it again before using it")
                    refused.append(item[1])
        for _ in self._threads:
            self._queue.put(None)
        deliver(refused)

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while True:
            self._idle += 1
            item = self._queue.get()
            self._idle -= 1
            if item is None:
                break
            look, ticket = item
            if ticket.abandoned:
                continue
            try:
                if connection is None:
                    connection = self._connect()
                ticket.value = look(connection)
            except apsw.Error as error:
                ticket.error = translated(error, self._path)
            except Exception as error:  # noqa: BLE001  it reaches whoever asked
                ticket.error = error
            deliver((ticket,))
        if connection is not None:
            connection.close(True)

    def _connect(self) -> apsw.Connection:
        self._writer.ready.wait()
        if self._writer.failure is not None:
            raise self._writer.failure
        try:
            return open_reader(self._path, self._busy_seconds)
        except AssentError:
            raise
        except OSError as error:
            raise StoreError(str(translated(error, self._path))) from None
