"""The parts of a gate that are elsewhere: what of the store, of waiting and of judging there is at this end."""

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NoReturn

from assentry.core.request import Request
from assentry.core.run import Run
from assentry.engine.judgement import Judgement
from assentry.engine.tool import Tool
from assentry.engine.waiting import Ear, Hub
from assentry.errors import GuardError, NotFound
from assentry.remote.line import LONGEST_WAIT, Line
from assentry.remote.reading import request_in, run_in


class FarStore:
    """What an agent may read of the store behind a server: its own. Nothing here writes."""

    def __init__(self, line: Line) -> None:
        self.line = line

    @property
    def address(self) -> str:
        return "a server"

    async def request(self, _: str, request_id: str) -> Request | None:
        """The agent's own request."""
        try:
            return request_in(await self.line.get(f"/proposals/{request_id}"))
        except NotFound:
            return None

    async def by_step(self, _: str, run: str, step: str) -> Request | None:
        """The request that this step of the agent's own run made."""
        found = (await self.line.get("/proposals", run=run, key=step))["proposals"]
        return request_in(found[0]) if found else None

    async def run(self, _: str, run_id: str) -> Run | None:
        """The agent's own run."""
        try:
            return run_in(await self.line.get(f"/runs/{run_id}"), 0)
        except NotFound:
            return None

    async def now(self) -> datetime:
        """This machine's clock; only the server's counts."""
        return datetime.now(UTC)

    async def flush(self) -> None:
        """Nothing is kept here that could be lost."""

    def __getattr__(self, name: str) -> NoReturn:
        raise GuardError(f"the store is behind a server, and an agent cannot reach {name} of it from here")


class FarHub(Hub):
    """Waits for news of a request by asking the server, which answers when there are some."""

    def __init__(self, store: Any, workspace: str, line: Line) -> None:
        super().__init__(store, workspace)
        self._line = line

    def listen(self, listener: Callable[[Mapping[str, int] | None], None]) -> Callable[[], None]:
        """Nothing is heard by itself: the server is asked."""
        return lambda: None

    async def changed(self, request: Request, patience: float | None = None, ear: Ear | None = None) -> Request:
        """The request once it is newer than `request`, or as it is when patience runs out."""
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        while True:
            left = LONGEST_WAIT if until is None else min(LONGEST_WAIT, until - loop.time())
            wait = max(0.0, round(left, 3))
            found = request_in(await self._line.get(f"/proposals/{request.id}", wait=wait, version=request.version))
            if found.version > request.version or (until is not None and loop.time() >= until):
                return found


class FarJudgement(Judgement):
    """The server judges, when a call is proposed and once more when it begins. Here nobody objects."""

    async def is_paused(self, request: Request) -> bool:
        """The server says so when it is begun."""
        return False

    async def objection(self, tool: Tool, request: Request) -> tuple[str, int]:
        """The server says so when it is begun."""
        return "", 0


class OpenVault:
    """Keeps nothing: secrets stay in memory, as they were given, and the server seals what it stores."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def seal(self, _: str, text: str) -> str:
        return text

    def unseal(self, _: str, sealed: str) -> str:
        return sealed

    def fingerprint(self, text: str) -> str:
        """The same for equal secrets, within this process."""
        return hmac.new(self._key, text.encode(), sha256).hexdigest()
