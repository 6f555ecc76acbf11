"""Whether somebody who listens, waits or reads on for long may still do so: proved again and again.

Tokens are revoked, sessions end, and policies drop people while a call goes on.
"""

import asyncio

from fastapi import Request

from assentry.errors import AssentryError
from assentry.server.problems import Problem
from assentry.server.visitors import Visitor, anybody, premises_of

RECHECK = 1.0
"""The last proof may be so old, in seconds, when something more is told. What was heard of counts at once."""
_SOON = 0.05


async def still_here(request: Request, visitor: Visitor) -> Visitor:
    """The visitor as they are by now; the error says that they are no longer who they were when the call began."""
    await premises_of(request).settled(visitor.room)
    found = await anybody(request)
    if found is None or _who(found) != _who(visitor):
        raise Problem(
            401, "this is no longer valid: it was revoked, or it expired; sign in again or send another token"
        )
    return found


def _who(visitor: Visitor) -> tuple[str, str, str]:
    return visitor.principal.kind, visitor.principal.name, visitor.room.name


class Presence:
    """Somebody whose call goes on."""

    def __init__(self, request: Request, visitor: Visitor) -> None:
        self._request, self._visitor = request, visitor
        self._checked_at = asyncio.get_running_loop().time()
        self._ends_at = float("inf")

    async def began(self) -> "Presence":
        """From here on it is known when the proof expires."""
        await self._know(self._visitor)
        return self

    @property
    def left(self) -> float:
        """The seconds until the proof expires, by the clock of this machine."""
        return max(_SOON, self._ends_at - asyncio.get_running_loop().time())

    async def check(self, *, now: bool = False) -> None:
        """They may still be here, or the error says why not; looked up where the last time was long ago, or `now`."""
        at = asyncio.get_running_loop().time()
        if now or at - self._checked_at >= RECHECK or at >= self._ends_at:
            await self._know(await still_here(self._request, self._visitor))

    async def remains(self, *, now: bool = False) -> bool:
        """The same as an answer. Where it cannot be found out, they do not: whoever may be here comes again."""
        try:
            await self.check(now=now)
        except (Problem, AssentryError):
            return False
        return True

    async def _know(self, visitor: Visitor) -> None:
        loop = asyncio.get_running_loop()
        proof = visitor.session.credential if visitor.session is not None else visitor.token
        self._checked_at, self._ends_at = loop.time(), float("inf")
        if proof is not None and proof.expires_at is not None:
            left = proof.expires_at - await visitor.room.desk.store.now()
            self._ends_at = loop.time() + left.total_seconds()
