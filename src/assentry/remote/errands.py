"""Calls that another program carries out, proposed at a server as the agent that the token names."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from typing import Any

from assentry.core.action import Json
from assentry.core.verdict import GateKind
from assentry.engine.errands import LEASE, Errand, Told
from assentry.errors import AssentryError
from assentry.remote.line import LONGEST_WAIT, Line

LONGEST_TEXT = 20_000
MOST_FORESEEN = 100
"""As many calls as a server judges at once without proposing them."""
_SOON = 5.0
"""Nobody waits longer to hear of gates: without them tools can be called all the same."""


class FarErrands:
    """`Errands` at a server."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def propose(self, errand: Errand, key: str) -> Told:
        """The call is judged and on record there."""
        why = "; ".join(filter(None, (errand.alarm, errand.why)))
        said = {**_described(errand), "args": dict(errand.args), "key": key, "why": why}
        return _told(await self._line.post("/proposals", said, once=key))

    async def gates(self, errands: Sequence[Errand]) -> list[GateKind | None]:
        """What the server foresees; none are known where it is not heard of soon."""
        found: list[GateKind | None] = []
        try:
            async with asyncio.timeout(_SOON):
                for start in range(0, len(errands), MOST_FORESEEN):
                    calls = [_described(errand) for errand in errands[start : start + MOST_FORESEEN]]
                    told = await self._line.post("/foreseen", {"calls": calls})
                    found += [GateKind(gate) if gate else None for gate in told["gates"]]
        except (TimeoutError, AssentryError, ValueError, LookupError, TypeError):
            return [None] * len(errands)
        return found if len(found) == len(errands) else [None] * len(errands)

    async def decided(self, told: Told, seconds: float) -> Told:
        """The same once somebody has decided, or after so many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while told.waits and (left := until - loop.time()) > 0:
            told = _told(await self._line.get(f"/proposals/{told.id}", wait=min(left, LONGEST_WAIT)))
        return told

    async def begin(self, told: Told, attempt: str) -> Told:
        """The approval is used up; what is carried out now is exactly this."""
        said = {"attempt": attempt[:200], "lease": LEASE.total_seconds()}
        return _told(await self._line.post(f"/proposals/{told.id}/begin", said))

    async def renew(self, request_id: str, fence: int) -> None:
        """It is still being carried out."""
        await self._line.post(f"/proposals/{request_id}/renew", {"fence": fence, "lease": LEASE.total_seconds()})

    async def report(self, request_id: str, fence: int, result: Json, error: str = "") -> None:
        """What came of it is on record there."""
        if error:
            await self._line.post(f"/proposals/{request_id}/fail", {"fence": fence, "error": error})
        else:
            await self._line.post(f"/proposals/{request_id}/finish", {"fence": fence, "result": result})


def _described(errand: Errand) -> dict[str, Any]:
    effect = {name: value for name, value in asdict(errand.effect).items() if value is not None}
    return {
        "action": errand.action, "description": errand.description[:LONGEST_TEXT], "hold": bool(errand.alarm),
        "arguments": None if errand.schema is None else dict(errand.schema),
        "effect": {name: str(value) if isinstance(value, Enum) else value for name, value in effect.items()},
    }  # fmt: skip


def _told(said: Mapping[str, Any]) -> Told:
    return Told(said["id"], said["code"], said["state"], said["told"], said.get("args"), said.get("fence", 0))
