"""How much one agent may ask of people: so much at once, so much in a minute. What is more is turned away at once.

Counting every time would cost every proposal a query, so a count is believed for a while, and what was asked here
since is added to it. Many processes of one agent may so ask a little more than the limit, never much.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from assent.core.audit import Entry
from assent.core.policy import Limits
from assent.errors import Limited
from assent.ports import Pressure, Store

BELIEVED_SECONDS = 5.0
TOO_MUCH_SECONDS = 0.5
"""How long an agent that was turned away is turned away without looking."""
MINUTE = timedelta(minutes=1)


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

    async def admit(self, agent: str, limits: Limits) -> None:
        """People may be asked once more on behalf of this agent; raises `Limited` where they may not."""
        if limits.pending is None and limits.per_minute is None:
            return
        known = self._known.get(agent)
        if known is None or self._is_old(known, limits):
            known = self._known[agent] = await self._count(agent, limits, known)
        if known.refused:
            raise self._too_much(agent, known)
        known.added += 1

    def _is_old(self, known: _Known, limits: Limits) -> bool:
        age = time.monotonic() - known.at
        if known.refused:
            return age > TOO_MUCH_SECONDS
        least = min(most for most in (limits.pending, limits.per_minute) if most is not None)
        return age > BELIEVED_SECONDS or known.added >= max(1, least // 10) or bool(_beyond(known, limits))

    async def _count(self, agent: str, limits: Limits, before: _Known | None) -> _Known:
        most = max(limits.pending or 0, limits.per_minute or 0) + 1
        counted = await self._store.pressure(self._workspace, agent, datetime.now(UTC) - MINUTE, most)
        known = _Known(counted, time.monotonic())
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


def _beyond(known: _Known, limits: Limits) -> str:
    """What limit one request more would exceed, in words."""
    pending, recent = known.counted.pending + known.added, known.counted.recent + known.added
    if limits.pending is not None and pending >= limits.pending:
        return f"{limits.pending:,} of its requests wait for people already"
    if limits.per_minute is not None and recent >= limits.per_minute:
        return f"it has asked people {limits.per_minute:,} times in the last minute"
    return ""
