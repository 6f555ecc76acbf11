"""Bugs to plant in a server. Each breaks the process it is called in, and no other."""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

from assentry.engine.inbox import WAITING
from assentry.server import deciding
from assentry.server.api import requests as api
from assentry.server.events import Events
from assentry.server.pages import listing as listings
from tests.evidence.planted import swap


def counts_everything() -> None:
    """The list counts what waits by reading it."""
    listing = listings.listing

    async def counted(visitor: Any, query: Any, now: Any) -> Any:
        after = ""
        for _ in range(20):
            page = await visitor.room.desk.inbox.page(WAITING, after=after, limit=500)
            if not (after := page.next):
                break
        return await listing(visitor, query, now)

    swap(listings, "listing", counted)


def hears_badly() -> None:
    """One notice in ten is not passed on."""
    news, counted = Events._news, count(1)

    async def some(self: Events, heard: Mapping[str, int]) -> None:
        await news(self, {key: version for key, version in heard.items() if next(counted) % 10})

    swap(Events, "_news", some)


def answers_too_early() -> None:
    """A decision is acknowledged before it is committed."""
    decide = deciding.decide
    chores: set[Any] = set()

    async def later(visitor: Any, request: Any, said: Any) -> Any:
        async def work() -> None:
            await asyncio.sleep(0.2)
            await decide(visitor, request, said)

        chore = asyncio.ensure_future(work())
        chores.add(chore)
        chore.add_done_callback(chores.discard)
        return request

    swap(api, "decide", later)
