"""A few threads that read, each on a connection that cannot write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from assentry.stores.hands import Hands
from assentry.stores.sqlite.connect import open_reader, translated
from assentry.stores.sqlite.writer import Writer

Look = Callable[[apsw.Connection], Any]


def readers(path: Path, busy_seconds: float, writer: Writer, size: int) -> Hands[apsw.Connection]:
    """Reads run there; they neither block an event loop nor wait for the writer."""

    def connect() -> apsw.Connection:
        writer.ready.wait()
        if writer.failure is not None:
            raise writer.failure
        return open_reader(path, busy_seconds)

    def translate(error: Exception) -> BaseException:
        return translated(error, path) if isinstance(error, apsw.Error | OSError) else error

    return Hands(f"assentry-reader {path.name}", size, connect, lambda connection: connection.close(True), translate)
