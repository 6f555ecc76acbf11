"""A gate and a reviewer's desk on the same real database, as two parties that share nothing else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from assentry.core.advance import advance
from assentry.core.change import Change
from assentry.core.decision import Begin, Event, Renew
from assentry.core.request import Request, State
from assentry.engine.deadlines import sweep
from assentry.ports import View
from tests.stage import PATIENCE, Stage, stage

BLINK = timedelta(milliseconds=1)


@dataclass
class House(Stage):
    """What a test of the engine works with."""

    pay: Any = None
    delete: Any = None

    async def waited_for(self, request_id: str, callers: int) -> None:
        """So many calls of the gate wait for this request."""
        async with asyncio.timeout(PATIENCE):
            while len(self.gate._hub._ears.get(request_id, ())) < callers:
                await asyncio.sleep(0.005)

    async def lost(self, request: Request) -> None:
        """A process that is gone had begun it: nobody renews its lease, and no lease keeper of a gate knows of it."""
        await self._moved(request, Begin("gone", BLINK, request.candidate.permit_digest))

    async def lapsed(self, running: Request) -> None:
        """Its lease is over although whoever runs it is still there, and what came of it is unknown.

        A renewal is no news to others, so nobody else would look before the lease they know of is over.
        """
        await self._moved(running, Renew(running.fence, BLINK))
        await self.unknown(running.id)

    async def unknown(self, request_id: str) -> None:
        """Time was moved on until what came of the request is unknown, by whoever looked first."""
        async with asyncio.timeout(PATIENCE):
            while (request := await self.desk.store.request("default", request_id)) is not None:
                if request.state is State.UNKNOWN:
                    return
                await sweep(self.desk.store, "default")

    async def _moved(self, request: Request, event: Event) -> None:
        def step(view: View) -> Change | None:
            assert view.request is not None
            return advance(view.request, event, view.now)

        await self.desk.store.transact("default", request.id, step)


@pytest.fixture
async def house(database: str) -> AsyncIterator[House]:
    async with stage(database, House, agent="cleanup", lease=timedelta(seconds=30)) as made:
        yield made
