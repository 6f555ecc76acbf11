"""Where the servers of a database can be reached, for commands on their machine: kept beside the keys while they run.

Only `assentry link` reads it. Which server a command talks to, and in whose name, is never decided by it.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

_QUICK = 0.5


@contextmanager
def announced(home: Path, identity: str, url: str, listens: tuple[str, int]) -> Iterator[None]:
    """Inside, commands on this machine find the server of this database at `url`; it listens on `listens`.

    Each server has a file of its own, so that one that ends takes nothing away from another.
    """
    known(home, identity)  # forgets servers that were killed
    host, port = listens
    file = home / "servers" / f"{identity}.{port}.json"
    with suppress(OSError):  # a server also starts where the home cannot be written to
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_text(json.dumps({"url": url, "host": host, "port": port}), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()


def known(home: Path, identity: str) -> str:
    """Where a server of this database answers, the latest first; empty if none does on this machine."""
    with suppress(OSError):
        for file in sorted((home / "servers").glob(f"{identity}.*.json"), key=_age, reverse=True):
            if url := _answering(file):
                return url
            file.unlink(missing_ok=True)
    return ""


def _age(file: Path) -> float:
    return file.stat().st_mtime


def _answering(file: Path) -> str:
    """The URL in the file, if it is one and something listens where the file says."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        url, listens = str(kept["url"]), (str(kept["host"]), int(kept["port"]))
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or " " in url or not url.isprintable():
            return ""
        socket.create_connection(listens, timeout=_QUICK).close()
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return ""
    return url
