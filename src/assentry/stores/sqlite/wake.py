"""The file beside the database through which a commit wakes other processes: one byte is written, inotify tells.

Whoever watches holds a read lock on its first byte. A writer that finds no such lock but its own store's writes
nothing, so that a process is not woken by its own commits.
"""

import os
import select
import struct
from contextlib import suppress
from errno import EBADF
from pathlib import Path

from assentry.stores.sqlite.connect import create_private

try:
    from fcntl import F_OFD_GETLK, F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK, fcntl

    from inotify_simple import INotify, flags
except ImportError:  # not Linux: the file is always written, and looked at from time to time
    INotify = None

SWEEP_SECONDS = 2.0
"""How often a watcher looks without having been woken, should a wake-up be lost."""

POLL_SECONDS = 0.1
"""How often it looks where the system cannot wake it."""

_CLOSED = -1
_LOCK = "hhqqixxxx"  # struct flock: type, whence, start, length, process


class WakeFile:
    """The file, open. A lock belongs to this opening of it, so two stores in one process wake each other too."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + "-wake")
        create_private(self.path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)

    def attend(self) -> None:
        """From now on others ring for us. What was committed before this can already be read."""
        if self._file == _CLOSED:
            raise OSError(EBADF, "the store is closed")
        if INotify is not None:
            fcntl(self._file, F_OFD_SETLK, struct.pack(_LOCK, F_RDLCK, os.SEEK_SET, 0, 1, 0))

    def ring(self) -> None:
        """Whoever watches through another opening of the file is woken."""
        with suppress(OSError, ValueError):
            if self._is_attended():
                os.pwrite(self._file, b"\1", 0)

    def _is_attended(self) -> bool:
        if INotify is None:
            return True
        answer = fcntl(self._file, F_OFD_GETLK, struct.pack(_LOCK, F_WRLCK, os.SEEK_SET, 0, 1, 0))
        return bool(struct.unpack(_LOCK, answer)[0] != F_UNLCK)

    def close(self) -> None:
        # Its number may be that of another file soon.
        file, self._file = self._file, _CLOSED
        os.close(file)


class Alarm:
    """Waits until the file is written to, the time for a sweep has come, or the end."""

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

    def wait(self) -> bool:
        """Whether there may be something to see; false at the end."""
        ready = {number for number, _ in self._poll.poll(self._timeout)}
        if self._inotify is not None and self._inotify.fileno() in ready:
            self._inotify.read(timeout=0)
        return self._stop not in ready

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
