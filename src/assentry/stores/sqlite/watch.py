"""Hears of commits in other processes: once there are any, it reads which entries are new."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import apsw

from assentry.errors import AssentryError
from assentry.stores.rows import notice_key
from assentry.stores.sqlite.connect import fetch, open_reader
from assentry.stores.sqlite.wake import alarm
from assentry.stores.sqlite.writer import Writer
from assentry.stores.statements import statements

log = logging.getLogger(__name__)

_AT_ONCE = 10_000
SQL = statements("sqlite")


class Watcher:
    """A thread that calls `tell` with what other processes committed."""

    def __init__(
        self,
        path: Path,
        busy_seconds: float,
        tell: Callable[[Mapping[str, int] | None], None],
        writer: Writer,
    ) -> None:
        self._path, self._busy_seconds, self._tell, self._writer = path, busy_seconds, tell, writer
        self._last = -1
        self._alarm = alarm()
        self.thread = threading.Thread(target=self._run, name=f"assentry-watcher {path.name}", daemon=True)
        self.thread.start()

    def committed_here(self, first: int, last: int) -> None:
        """The entries from `first` to `last` are our own; if nobody else wrote in between, all up to `last` is known.

        Ids are dense, and a value that another thread just raised can only be larger: then it is left alone.
        """
        if self._last == first - 1:
            self._last = last

    def stop(self) -> None:
        self._alarm.stop()

    def _run(self) -> None:
        self._writer.ready.wait()
        try:
            if self._writer.failure is None:
                self._watch()
        except (AssentryError, apsw.Error, OSError):
            if self._writer.is_ending:
                return  # the store was closed before anybody could watch it
            log.exception("changes made by other processes will not be noticed")
        finally:
            self._alarm.close()

    def _watch(self) -> None:
        with closing(open_reader(self._path, self._busy_seconds)) as connection:
            self._alarm.begin(self._writer.wake, connection)
            self._last = fetch(connection, SQL["last_entry"], {})[0][0]
            # Whatever was committed before this point was not heard of here.
            self._tell(None)
            while self._alarm.wait():
                try:
                    self._look(connection)
                except apsw.Error:
                    log.exception("the database could not be looked at; trying again")
                    self._tell(None)

    def _look(self, connection: apsw.Connection) -> None:
        while True:
            found = fetch(connection, SQL["news"], {"last": self._last, "limit": _AT_ONCE})
            if not found:
                return
            self._tell({notice_key(kind, subject): version or 0 for _, kind, subject, version in found})
            self._last = max(self._last, found[-1][0])
            if len(found) < _AT_ONCE:
                return
