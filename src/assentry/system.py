"""What differs between operating systems: locks, private files, durable names, the editor, signals to stop.

Everything here works without POSIX. Who runs this process is in `engine/gate.py`; how processes hear of each other's
commits is in `stores/sqlite/wake.py`.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from assentry.errors import StoreBusy, StoreError

HAS_MODES = hasattr(os, "getuid")
"""Whether files have an owner and a mode. Windows has access lists instead: a new file inherits its directory's."""

_OTHERS = 0o077
_OTHERS_WRITE = 0o022

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))
"""What a keyboard or a service manager sends to end a process; only Windows has SIGBREAK."""


@contextmanager
def locked(file: Path, seconds: float) -> Iterator[None]:
    """No other process holds `file` meanwhile; `StoreBusy` if one does for longer than `seconds`.

    The lock is SQLite's own on an empty database: it works alike on every system, and ends with its process.
    """
    create_private(file)
    connection: apsw.Connection | None = None
    try:
        try:
            connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_timeout(int(seconds * 1000))
            connection.execute("BEGIN EXCLUSIVE")
        except (apsw.BusyError, apsw.LockedError):
            raise StoreBusy(f"another process holds {file}; end it or try again") from None
        except apsw.Error as problem:
            raise StoreError(f"{file} cannot be locked ({type(problem).__name__}); remove it and try again") from None
        yield
    finally:
        if connection is not None:
            connection.close(True)


def create_private(path: Path) -> bool:
    """The file exists; if it was created here, only its owner may read and write it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    return True


def others_can_read(path: Path) -> bool:
    """Whether users other than the owner may read `path`, where the system says so by a mode."""
    return HAS_MODES and bool(path.stat().st_mode & _OTHERS)


def others_can_write(path: Path) -> bool:
    """Whether users other than the owner may change `path`, where the system says so by a mode."""
    return HAS_MODES and bool(path.stat().st_mode & _OTHERS_WRITE)


def sync_directory(directory: Path) -> None:
    """The names in `directory` survive a power cut. Windows opens no directory for that; its file system keeps them."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    descriptor = os.open(directory, os.O_RDONLY | flag)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def editor_command() -> list[str]:
    """The person's own editor, as the words of a command."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("vi" if HAS_MODES else "notepad")
    # With POSIX rules the backslashes of a Windows path would be gone.
    return [word.strip('"') for word in shlex.split(chosen, posix=HAS_MODES)]


@contextmanager
def told_to_stop(call: Callable[[], object], numbers: Iterable[int] = STOP_SIGNALS) -> Iterator[None]:
    """`call` runs on this event loop when one of these signals comes; must be entered on the main thread.

    Plain handlers, since only POSIX loops have `add_signal_handler`.
    """
    loop = asyncio.get_running_loop()

    def heard(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(call)

    before = {number: signal.signal(number, heard) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
