"""Hears of commits in other processes: woken through the wake file, it reads which entries are new."""

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import apsw

from assent.errors import AssentError
from assent.stores.rows import notice_key
from assent.stores.sqlite.connect import fetch, open_reader, wake_file
from assent.stores.sqlite.writer import Writer
from assent.stores.statements import statements

try:
    from inotify_simple import INotify, flags
except ImportError:  # not Linux: the file's time is looked at instead
    INotify = None

log = logging.getLogger(__name__)

SWEEP_SECONDS = 2.0
"""How often it looks without having been woken, should a wake-up be lost."""

POLL_SECONDS = 0.1
"""How often the wake file is looked at where the system cannot tell us."""

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
        self._stop_reader, self._stop_writer = os.pipe()
        self.thread = threading.Thread(target=self._run, name=f"assent-watcher {path.name}", daemon=True)
        self.thread.start()

    def committed_here(self, first: int, last: int) -> None:
        """The entries from `first` to `last` are our own; if nobody else wrote in between, all up to `last` is known.

        Ids are dense, and a value that another thread just raised can only be larger: then it is left alone.
        """
        if self._last == first - 1:
            self._last = last

    def stop(self) -> None:
        os.close(self._stop_writer)

    def _run(self) -> None:
        self._writer.ready.wait()
        if self._writer.failure is not None:
            return
        try:
            connection = open_reader(self._path, self._busy_seconds)
        except AssentError:
            log.exception("changes made by other processes will not be noticed")
            return
        with contextlib.closing(connection), _Wake(wake_file(self._path), self._stop_reader) as wake:
            self._last = fetch(connection, SQL["last_entry"], {})[0][0]
            # Whatever was committed before this point was not seen here.
            self._tell(None)
            while wake.wait():
                try:
                    self._look(connection)
                except apsw.Error:
                    log.exception("the database could not be looked at; trying again")
                    self._tell(None)
        os.close(self._stop_reader)

    def _look(self, connection: apsw.Connection) -> None:
        while True:
            last = self._last
            found = fetch(connection, SQL["news"], {"last": last, "limit": _AT_ONCE})
            if not found:
                return
            self._tell({notice_key(kind, subject): version or 0 for _, kind, subject, version in found})
            self._last = max(self._last, found[-1][0])
            if len(found) < _AT_ONCE:
                return


class _Wake:
    """Waits until the wake file is written, the time for a sweep has come, or the end."""

    def __init__(self, file: Path, stop: int) -> None:
        self._stop = stop
        self._poll = select.poll()
        self._poll.register(stop, select.POLLIN | select.POLLHUP)
        self._timeout = POLL_SECONDS * 1000
        self._inotify = INotify() if INotify is not None else None
        if self._inotify is not None:
            self._timeout = SWEEP_SECONDS * 1000
            self._inotify.add_watch(file, flags.MODIFY)
            self._poll.register(self._inotify.fileno(), select.POLLIN)

    def __enter__(self) -> "_Wake":
        return self

    def __exit__(self, *_: object) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def wait(self) -> bool:
        """Whether there may be something to see; false at the end."""
        ready = {number for number, _ in self._poll.poll(self._timeout)}
        if self._inotify is not None and self._inotify.fileno() in ready:
            self._inotify.read(timeout=0)
        return self._stop not in ready
