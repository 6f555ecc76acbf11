"""How long the bare notification takes from one process to another: inotify on a file, LISTEN and NOTIFY."""

import os
import time
from collections.abc import Callable

import psycopg
from inotify_simple import INotify, flags

from bench.tasks import serve

_hear: list[Callable[[], float]] = []
_connections: dict[str, psycopg.Connection] = {}
_inotify: dict[str, INotify] = {}


def now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def listen(place: str) -> bool:
    """The next notification from `place` will be heard."""
    if "://" in place:
        if place not in _connections:
            _connections[place] = psycopg.connect(place, autocommit=True)
            _connections[place].execute("LISTEN news")
        connection = _connections[place]

        def hear() -> float:
            for _ in connection.notifies(stop_after=1):
                return now()
            raise RuntimeError("nothing was heard")

    else:
        if place not in _inotify:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
            _inotify[place] = INotify()
            _inotify[place].add_watch(place, flags.MODIFY)
        inotify = _inotify[place]

        def hear() -> float:
            inotify.read()
            return now()

    _hear.append(hear)
    return True


def heard() -> float:
    """When it came."""
    return _hear.pop()()


def tell(place: str) -> float:
    """When it was sent: for a file just before the write, for PostgreSQL when its commit was acknowledged."""
    if "://" in place:
        if place not in _connections:
            _connections[place] = psycopg.connect(place, autocommit=True)
        _connections[place].execute("NOTIFY news")
        return now()
    file = os.open(place, os.O_WRONLY)
    sent = now()
    os.pwrite(file, b"\1", 0)
    os.close(file)
    return sent


if __name__ == "__main__":
    serve({"listen": listen, "heard": heard, "tell": tell})
