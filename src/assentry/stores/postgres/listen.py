"""Hears of commits on other connections through LISTEN, and finds its way back when the connection is lost."""

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping

import psycopg

from assentry.errors import AssentryError
from assentry.stores.postgres.connect import Connection, Connector, Link

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
HEARTBEAT = 15.0
"""Seconds after which a silent connection is asked whether it is still there."""

Tell = Callable[[Mapping[str, int] | None], None]


class Listener:
    """A thread that calls `tell` with every commit that is not our own; `None` whenever some may have been missed."""

    def __init__(self, connector: Connector, tell: Tell) -> None:
        self._connector, self._tell = connector, tell
        self._stopped, self._stop = os.pipe()
        self.thread = threading.Thread(target=self._run, name="assentry-listener", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        os.close(self._stop)

    def _run(self) -> None:
        link = Link(self._connector)
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    connection = link.connection()
                    connection.execute("LISTEN assentry")
                    pause = FIRST_PAUSE
                    self._tell(None)
                    self._listen(connection)
                    return
                except AssentryError:
                    pause = min(pause * 2, LONGEST_PAUSE)
                except psycopg.Error:
                    log.warning("lost the connection that listens for changes; connecting again")
                link.drop()
                if self._ready(pause):
                    return
        finally:
            link.drop()
            os.close(self._stopped)

    def _listen(self, connection: Connection) -> None:
        """Everything heard is told, until the end."""
        asked = time.monotonic()
        while not self._ready(HEARTBEAT, connection.fileno()):
            if time.monotonic() - asked > HEARTBEAT / 2:
                asked = time.monotonic()
                connection.execute("SELECT 1")
            news: dict[str, int] = {}
            for notice in connection.notifies(timeout=0):
                # Our own commits are told directly, without the way through the server.
                if notice.pid in self._connector.ours:
                    continue
                found = parsed(notice.payload)
                if found is None:
                    self._tell(None)
                else:
                    news |= found
            if news:
                self._tell(news)

    def _ready(self, seconds: float, *others: int) -> bool:
        """Whether it is time to stop; returns early if one of the others has something to read."""
        poll = select.poll()
        poll.register(self._stopped, select.POLLIN | select.POLLHUP)
        for other in others:
            poll.register(other, select.POLLIN)
        return self._stopped in {number for number, _ in poll.poll(seconds * 1000)}


def parsed(payload: str) -> Mapping[str, int] | None:
    """`workspace id version` as a notice; what is not of this form only says that something changed."""
    parts = payload.rsplit(" ", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        return None
    return {parts[1]: int(parts[2])}
