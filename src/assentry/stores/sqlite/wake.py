"""How a process hears that another one committed: inotify on a file beside the database, or a look at short intervals.

On Linux a commit writes one byte to the wake file and inotify wakes whoever watches. A watcher holds a read lock on
its first byte; a writer that finds no such lock but its own store's writes nothing, so that a process is not woken by
its own commits. Elsewhere there is no such file: SQLite's `data_version`, read from shared memory in a few
microseconds, says whether there is anything new. What is new is read in `watch.py`.
"""

import os
import select
import struct
import threading
from contextlib import suppress
from errno import EBADF
from pathlib import Path

import apsw

from assentry.system import create_private

try:
    from fcntl import F_OFD_GETLK, F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK, fcntl

    from inotify_simple import INotify, flags
except ImportError:  # not Linux
    INotify = None

SWEEP_SECONDS = 2.0
"""How often a watcher looks without having been woken, should a wake-up be lost."""

POLL_SECONDS = 0.05
"""How often it looks where the system cannot wake it: half of that is the mean delay, for under 1 % of a processor."""

_CLOSED = -1
_LOCK = "hhqqixxxx"  # struct flock: type, whence, start, length, process


def wake_file(database: Path) -> "WakeFile | None":
    """The wake file of this database, open; none where nobody could be woken by it."""
    return WakeFile(database) if INotify is not None else None


def alarm() -> "Alarm | Sweep":
    """The best way there is here to hear of commits."""
    if INotify is not None:
        with suppress(OSError):  # this user has as many inotify instances as the system allows
            return Alarm()
    return Sweep()


class WakeFile:
    """The file, open. A lock belongs to this opening of it, so two stores in one process wake each other too."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + "-wake")
        create_private(self.path)
        self._file = os.open(self.path, os.O_RDWR)

    def attend(self) -> None:
        """From now on others ring for us. What was committed before this can already be read."""
        if self._file == _CLOSED:
            raise OSError(EBADF, "the store is closed")
        fcntl(self._file, F_OFD_SETLK, struct.pack(_LOCK, F_RDLCK, os.SEEK_SET, 0, 1, 0))

    def ring(self) -> None:
        """Whoever watches through another opening of the file is woken."""
        with suppress(OSError, ValueError):
            if self._is_attended():
                os.pwrite(self._file, b"\1", 0)

    def _is_attended(self) -> bool:
        answer = fcntl(self._file, F_OFD_GETLK, struct.pack(_LOCK, F_WRLCK, os.SEEK_SET, 0, 1, 0))
        return bool(struct.unpack(_LOCK, answer)[0] != F_UNLCK)

    def close(self) -> None:
        # Its number may be that of another file soon.
        file, self._file = self._file, _CLOSED
        os.close(file)


class Alarm:
    """Waits until the wake file is written to, the time for a sweep has come, or the end."""

    def __init__(self) -> None:
        self._inotify = INotify()
        self._stopped, self._stop = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._stopped, select.POLLIN | select.POLLHUP)

    def begin(self, file: WakeFile | None, _: apsw.Connection) -> None:
        """What is committed from now on is heard."""
        if file is None:
            raise OSError(EBADF, "the store is closed")
        self._inotify.add_watch(file.path, flags.MODIFY)
        self._poll.register(self._inotify.fileno(), select.POLLIN)
        file.attend()

    def wait(self) -> bool:
        """Whether there may be something to see; false at the end."""
        ready = {number for number, _ in self._poll.poll(SWEEP_SECONDS * 1000)}
        if self._inotify.fileno() in ready:
            self._inotify.read(timeout=0)
        return self._stopped not in ready

    def stop(self) -> None:
        """Whoever waits is told that this is the end."""
        os.close(self._stop)

    def close(self) -> None:
        os.close(self._stopped)
        self._inotify.close()


class Sweep:
    """Waits until the database has changed, as seen every `POLL_SECONDS`, or the end."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def begin(self, _: WakeFile | None, connection: apsw.Connection) -> None:
        """What is committed from now on is heard."""
        self._connection = connection
        self._version = connection.pragma("data_version")

    def wait(self) -> bool:
        """Whether there is something to see; false at the end."""
        while not self._stopped.wait(POLL_SECONDS):
            before = self._version
            try:
                self._version = self._connection.pragma("data_version")
            except apsw.Error:
                return True  # whoever looks says what is wrong
            if self._version != before:
                return True
        return False

    def stop(self) -> None:
        """Whoever waits is told that this is the end."""
        self._stopped.set()

    def close(self) -> None:
        """Nothing is held open."""
