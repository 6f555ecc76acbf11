"""Hears of commits on other connections through LISTEN, and finds its way back when the connection is lost."""

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping

import psycopg
from psycopg.pq.abc import PGconn

from assentry.errors import AssentryError
from assentry.stores.postgres.connect import Connector, Link

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
HEARTBEAT = 15.0
"""Seconds after which a silent connection is asked whether it is still there."""
ANSWER_SECONDS = 10.0
"""How long that may take. A server that is cut off keeps the connection open and says nothing."""
_ASK = b"SELECT 1"

Tell = Callable[[Mapping[str, int] | None], None]


class Silent(Exception):
    """The connection is open, and nobody answers on it."""


class Listener:
    """A thread that calls `tell` with every commit that is not our own; `None` whenever some may have been missed."""

    def __init__(self, connector: Connector, tell: Tell) -> None:
        self._connector, self._tell = connector, tell
        self._listens = False
        self._stopped, self._stop = os.pipe()
        self.thread = threading.Thread(target=self._run, name="assentry-listener", daemon=True)
        self.thread.start()

    @property
    def hears(self) -> bool:
        """It is connected, and was answered when it last asked."""
        return self._listens and self.thread.is_alive()

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
                    self._listens = True
                    self._tell(None)
                    self._listen(connection.pgconn)
                    return
                except AssentryError:
                    pause = min(pause * 2, LONGEST_PAUSE)
                except (psycopg.Error, Silent):
                    log.warning("lost the connection that listens for changes; connecting again")
                self._listens = False
                link.drop()
                if self._ready(pause):
                    return
        finally:
            self._listens = False
            link.drop()
            os.close(self._stopped)

    def _listen(self, connection: PGconn) -> None:
        """Everything heard is told, until the end. Nothing here waits for the server but the poll, which has an end."""
        last, asked = time.monotonic(), False
        while True:
            left = last + (ANSWER_SECONDS if asked else HEARTBEAT) - time.monotonic()
            if self._ready(max(0.0, left), connection.socket):
                return
            connection.consume_input()
            self._tell_all(connection)
            if asked and _is_answered(connection):
                last, asked = time.monotonic(), False
            elif time.monotonic() - last >= (ANSWER_SECONDS if asked else HEARTBEAT):
                if asked:
                    raise Silent
                connection.send_query(_ASK)
                connection.flush()
                last, asked = time.monotonic(), True

    def _tell_all(self, connection: PGconn) -> None:
        news: dict[str, int] = {}
        while (notice := connection.notifies()) is not None:
            # Our own commits are told directly, without the way through the server.
            if notice.be_pid in self._connector.ours:
                continue
            found = parsed(notice.extra.decode())
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


def _is_answered(connection: PGconn) -> bool:
    """What was asked has been answered in full; an error is an answer as well."""
    while not connection.is_busy():
        if connection.get_result() is None:
            return True
    return False


def parsed(payload: str) -> Mapping[str, int] | None:
    """`workspace id version` as a notice; what is not of this form only says that something changed."""
    parts = payload.rsplit(" ", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        return None
    return {parts[1]: int(parts[2])}
