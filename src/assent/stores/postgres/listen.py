"""Hears of commits on other connections through LISTEN, and finds its way back when the connection is lost."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import psycopg

from assent.errors import AssentError
from assent.stores.postgres.connect import Connector

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
Tell = Callable[[Mapping[str, int] | None], None]


async def listen(connector: Connector, tell: Tell) -> None:
    """`tell` hears of every commit that is not our own, until cancelled; `None` whenever some may have been missed."""
    pause = FIRST_PAUSE
    while True:
        try:
            connection = await connector.connect()
        except AssentError:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            continue
        try:
            await connection.execute("LISTEN assent")
            pause = FIRST_PAUSE
            tell(None)
            async for notice in connection.notifies():
                # Our own commits are told directly, without the way through the server.
                if notice.pid not in connector.ours:
                    tell(parsed(notice.payload))
        except psycopg.Error:
            log.warning("lost the connection that listens for changes; connecting again")
        finally:
            await connector.discard(connection)
        await asyncio.sleep(pause)


def parsed(payload: str) -> Mapping[str, int] | None:
    """`workspace id version` as a notice; what is not of this form only says that something changed."""
    parts = payload.rsplit(" ", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        return None
    return {parts[1]: int(parts[2])}
