"""Calls that another program carries out, proposed at a server as the agent that the token names."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from assent.core.action import Json, Risk
from assent.core.verdict import GateKind
from assent.engine.errands import LEASE, Errand, Told
from assent.remote.line import LONGEST_WAIT, Line


class FarErrands:
    """`Errands` at a server."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def propose(self, errand: Errand, key: str) -> Told:
        """The call is judged and on record there."""
        said: dict[str, Any] = {
            "action": errand.action,
            "args": dict(errand.args),
            "description": errand.description,
            "key": key,
        }
        if errand.schema is not None:
            said["arguments"] = dict(errand.schema)
        effect = {name: value for name, value in asdict(errand.effect).items() if value is not None}
        if why := "; ".join(filter(None, (errand.alarm, errand.why))):
            said["why"] = why
        if errand.alarm:
            effect["risk"] = Risk.DANGEROUS
        said["effect"] = {name: str(value) if isinstance(value, Enum) else value for name, value in effect.items()}
        return _told(await self._line.post("/proposals", said, once=key))

    async def gate(self, errand: Errand) -> GateKind | None:
        """Not known here: an agent's token does not ask what policy would say."""
        return None

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


def _told(said: Mapping[str, Any]) -> Told:
    return Told(said["id"], said["code"], said["state"], said["told"], said.get("args"), said.get("fence", 0))
