"""The calls of a run that are being made at the same time, and how it parks: once they have ended, on all that wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assentry.errors import Parked


class Flights:
    """Calls in flight, and the requests that the run parks on."""

    def __init__(self) -> None:
        self._flying = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.parked: list[Parked] = []
        self.closed = False
        """The run parks: no call begins any more."""

    @asynccontextmanager
    async def flying(self) -> AsyncIterator[None]:
        """A call is being made; the run does not park before it has ended, or waits for a person itself."""
        self._takes_off()
        try:
            yield
        finally:
            self._lands()

    @asynccontextmanager
    async def landed(self) -> AsyncIterator[None]:
        """A call in flight waits for a person: the run may park meanwhile."""
        self._lands()
        try:
            yield
        finally:
            self._takes_off()

    async def park_on(self, parked: Parked) -> None:
        """The run will park on this request; returns once calls in flight beside it have ended."""
        self.parked.append(parked)
        try:
            # Calls beside it that are about to be made are made, so that people are asked all at once.
            await asyncio.sleep(0)
        finally:
            self.closed = True
        await self.ended()

    async def ended(self) -> None:
        """No call is in flight."""
        await self._quiet.wait()

    @property
    def waits(self) -> tuple[str, ...]:
        """The requests that the run parks on, each once."""
        return tuple(dict.fromkeys(parked.request_id for parked in self.parked))

    def _takes_off(self) -> None:
        self._flying += 1
        self._quiet.clear()

    def _lands(self) -> None:
        self._flying -= 1
        if not self._flying:
            self._quiet.set()
