"""One request read at once, on the thread that asks: in WAL mode a reader waits for nobody, and two rows are quick.

Going through another thread would cost ten times as much as looking. Where it cannot be done at once (another
thread is looking, the file is locked for recovery), it is left to the readers.
"""

import threading
from pathlib import Path

import apsw

from assentry.core.request import Request
from assentry.errors import AssentryError
from assentry.stores import rows
from assentry.stores.sqlite.connect import fetch, open_reader
from assentry.stores.sqlite.writer import Writer
from assentry.stores.statements import statements

SQL = statements("sqlite")


class Missed(Exception):
    """Not now; ask a reader."""


class Glance:
    """A connection that is looked through by whoever holds its lock."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self._path, self._writer, self._asks = path, writer, writer.asks
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._closed = False

    def request(self, workspace: str, request_id: str) -> Request | None:
        """The request as last committed."""
        if not self._lock.acquire(blocking=False):
            raise Missed
        try:
            return self._request(workspace, request_id, self._connection or self._connect())
        except apsw.Error:
            raise Missed from None
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close(True)
                self._connection = None

    def _connect(self) -> apsw.Connection:
        if self._closed or not self._writer.ready.is_set() or self._writer.failure is not None:
            raise Missed
        try:
            self._connection = open_reader(self._path, 0)
        except AssentryError:
            raise Missed from None
        return self._connection

    def _request(self, workspace: str, request_id: str, connection: apsw.Connection) -> Request | None:
        key = {"workspace": workspace, "id": rows.column(request_id)}
        known = self._asks.get(workspace, request_id)
        if known is not None:
            found = fetch(connection, SQL["read_moving"], key)
            if found and not found[0][1]:
                return rows.read_request(known, found[0][2])
        whole = fetch(connection, SQL["read_request"], key)
        if not whole:
            return None
        text, body, _ = whole[0]
        request = rows.read_request(rows.read_ask(text, request_id), body)
        if not request.purged:
            self._asks.keep(request.ask, text)
        return request
