"""How much one agent may ask of people: so much at once, so much in a minute. What is more is turned away at once.

Counting every time would cost every proposal a query, so a count is believed for a while, and what was asked here
since is added to it. Many processes of one agent may so ask a little more than the limit, never much.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from assentry.core.audit import Entry
from assentry.core.policy import Limits
from assentry.errors import Limited
from assentry.ports import Pressure, Store

BELIEVED_SECONDS = 5.0
TOO_MUCH_SECONDS = 0.5
"""How long an agent that was turned away is turned away without looking."""
MINUTE = timedelta(minutes=1)
NEAR = 0.7
LANDING_SECONDS = 0.002


@dataclass(slots=True)
class _Known:
    counted: Pressure
    at: float
    added: int = 0
    refused: str = ""
    told: float | None = None


class Throttle:
    """Turns away what goes beyond the limits of policy, for all agents of this process."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace
        self._known: dict[str, _Known] = {}
        self._flying: Counter[str] = Counter()
        """Requests that were admitted and are not on record yet."""
        self._doors: dict[tuple[int, str], asyncio.Lock] = {}

    @asynccontextmanager
    async def admitted(self, agent: str, limits: Limits, run: str = "", step: str = "") -> AsyncIterator[None]:
        """People may be asked once more on behalf of this agent, inside; raises `Limited` where they may not.

        Near the limit one goes at a time, so that many at once do not all slip through. A step that has asked
        already is none that asks.
        """
        if limits.pending is None and limits.per_minute is None:
            yield
            return
        known = self._known.get(agent)
        if known is not None and not self._is_old(known, limits) and not _beyond(known, limits, near=True):
            async with self._in_the_air(agent, known):
                yield
            return
        async with AsyncExitStack() as inside:
            door = self._doors.setdefault((id(asyncio.get_running_loop()), agent), asyncio.Lock())
            await inside.enter_async_context(door)
            known = self._known.get(agent)
            close = known is not None and not known.refused and bool(_beyond(known, limits, near=True))
            if known is None or close or self._is_old(known, limits):
                known = self._known[agent] = await self._count(agent, limits, known)
                if _beyond(known, limits, near=True) and known.added:
                    # Some may have been counted twice, in the air and on record: once more, when all have landed.
                    await self._landed(agent)
                    known = self._known[agent] = await self._count(agent, limits, known)
            if known.refused and await self._store.by_step(self._workspace, run, step) is None:
                raise self._too_much(agent, known)
            if not _beyond(known, limits, near=True):
                await inside.aclose()
            async with self._in_the_air(agent, known):
                yield

    async def _landed(self, agent: str) -> None:
        while self._flying[agent]:  # noqa: ASYNC110  they may fly on other loops, and land within milliseconds
            await asyncio.sleep(LANDING_SECONDS)

    @asynccontextmanager
    async def _in_the_air(self, agent: str, known: _Known) -> AsyncIterator[None]:
        known.added += 1
        self._flying[agent] += 1
        try:
            yield
        finally:
            self._flying[agent] -= 1

    def _is_old(self, known: _Known, limits: Limits) -> bool:
        age = time.monotonic() - known.at
        if known.refused:
            return age > TOO_MUCH_SECONDS
        least = min(most for most in (limits.pending, limits.per_minute) if most is not None)
        return age > BELIEVED_SECONDS or known.added >= max(1, least // 10)

    async def _count(self, agent: str, limits: Limits, before: _Known | None) -> _Known:
        most = max(limits.pending or 0, limits.per_minute or 0) + 1
        flying = self._flying[agent]
        counted = await self._store.pressure(self._workspace, agent, datetime.now(UTC) - MINUTE, most)
        known = _Known(counted, time.monotonic(), flying)
        known.refused = _beyond(known, limits)
        if before is not None:
            known.told = before.told
        return known

    def _too_much(self, agent: str, known: _Known) -> Limited:
        now = time.monotonic()
        if known.told is None or now - known.told > MINUTE.total_seconds():
            # One line a minute is enough to know, and no flood.
            known.told = now
            body = {"agent": agent, "why": known.refused}
            entry = Entry("agent.limited", datetime.now(UTC), self._workspace, "", agent, body)
            self._store.record(lambda: entry)
        return Limited(agent, known.refused)


def _beyond(known: _Known, limits: Limits, *, near: bool = False) -> str:
    """What limit one request more would exceed, or come `near`, in words."""
    share = NEAR if near else 1.0
    pending, recent = known.counted.pending + known.added, known.counted.recent + known.added
    if limits.pending is not None and pending >= share * limits.pending:
        return f"{limits.pending:,} of its requests wait for people already"
    if limits.per_minute is not None and recent >= share * limits.per_minute:
        return f"it has asked people {limits.per_minute:,} times in the last minute"
    return ""
