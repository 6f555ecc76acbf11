"""Real servers to put under load: `assentry serve` in a process of its own, and somebody who has logged in."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from assentry.server.visitors import CSRF_HEADER
from tests.evidence.processes import Child, Say, TookTooLong, fork
from tests.evidence.world import Place

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 60.0


def cookie_at(url: str) -> str:
    """What the cookie of a session is called there."""
    return f"assentry-session-{urlsplit(url).port}"


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers, and the cookie of somebody who has logged in there."""

    name: str
    place: Place
    process: Child
    url: str
    secret: str
    csrf: str

    @property
    def headers(self) -> dict[str, str]:
        return {"cookie": f"{cookie_at(self.url)}={self.secret}", CSRF_HEADER: self.csrf}

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=self.headers, timeout=60)


def started(name: str, place: Place, *, port: int = 0, plant: str = "") -> tuple[Child, Path]:
    """A server that begins; `plant` names a bug of `served_bugs`."""
    log = Path(place.directory) / f"{name}.log"
    log.unlink(missing_ok=True)
    command = ["serve", "--no-browser", "--port", str(port), "--no-work"]
    begin = f"from tests.evidence import served_bugs; served_bugs.{plant}(); " if plant else ""
    code = f"{begin}import sys; sys.argv[0] = 'assentry'; from assentry.cli import main; main()"

    def work(_: Say) -> None:
        place.enter()
        os.environ |= {"ASSENTRY_DATABASE": place.database, "NO_COLOR": "1", "COLUMNS": "1000"}
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.execv(sys.executable, [sys.executable, "-c", code, *command])

    return fork(name, work), log


def way_in(process: Child, log: Path) -> tuple[str, str]:
    """Its address and the secret of its one-time link, once it answers."""
    until = time.monotonic() + START_SECONDS
    while (
        found := re.search(r"(http://\S+)/enter\?link=(\S+)", said := log.read_text() if log.exists() else "")
    ) is None:
        if time.monotonic() > until or os.waitpid(process.pid, os.WNOHANG)[0]:
            raise TookTooLong(f"the server did not begin to serve:\n{said[-2000:]}")
        time.sleep(0.02)
    return found[1], found[2]


def logged_in(url: str, link: str) -> tuple[str, str]:
    """The cookie of whoever pressed the button behind the link, and what the pages it gets send with every change."""
    with httpx.Client(base_url=url, timeout=60) as client:
        client.post("/enter", data={"link": link})
        page = client.get("/")
        page.raise_for_status()
        found = re.search(r'name="csrf"[^>]*(?:content|value)="([0-9a-f]+)"', page.text)
        assert found is not None
        return client.cookies[cookie_at(url)], found[1]


@contextmanager
def served(name: str, place: Place, *, plant: str = "") -> Iterator[Served]:
    """A server at work, and somebody logged in."""
    process, log = started(name, place, plant=plant)
    try:
        url, link = way_in(process, log)
        yield Served(name, place, process, url, *logged_in(url, link))
    finally:
        process.signal(signal.SIGKILL)
        process.end()
