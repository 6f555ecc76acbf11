"""An agent of the demo as whoever watches it has it: a process that is started, heard, killed and stopped."""

import asyncio
import json
import sys
from typing import Any

from assentry.demo.world import Postbox, World
from assentry.errors import AssentryError

_MOST_STARTS = 5
_STOP_SECONDS = 20


class AgentFailed(AssentryError):
    """The agent's process ended where it should not have."""


class Actor:
    """One agent's process. It shares nothing with us but the database and lines of text."""

    def __init__(self, name: str, module: str, world: World, box: Postbox, pause: float) -> None:
        self.name, self.finished = name, False
        self._module, self._world, self._box, self._pause = module, world, box, pause
        self._starts = 0
        self._killed = False
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, events: asyncio.Queue[dict[str, Any]]) -> None:
        """A process plays the agent, and what it says is put into `events` with the agent's name."""
        self._starts += 1
        if self._starts > _MOST_STARTS:
            raise AgentFailed(f"{self.name} died again and again; agent.log in the folder says why (--keep keeps it)")
        command = [sys.executable, "-m", self._module, f"--smtp-port={self._box.port}", f"--pause={self._pause}"]
        pipe = asyncio.subprocess.PIPE
        with (self._world.folder / "agent.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, cwd=self._world.folder, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True,
                env=self._world.environment() | {"ASSENTRY_AGENT": self.name}, limit=4_000_000,
            )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self._process, events))

    async def _read(self, process: asyncio.subprocess.Process, events: asyncio.Queue[dict[str, Any]]) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            events.put_nowait({"agent": self.name, **json.loads(line)})
        events.put_nowait({"agent": self.name, "kind": "gone", "code": await process.wait()})

    async def kill(self) -> bool:
        """Whether there was a process; it is gone now, as in a crash."""
        self._killed = await self._end()
        return self._killed

    def gone(self, code: int) -> bool:
        """Whether nobody here ended it; raises where it failed by itself."""
        if code > 0:
            raise AgentFailed(f"{self.name} failed; agent.log in the folder says why (--keep keeps it)")
        unexpected, self._killed = not self._killed, False
        return unexpected

    async def stop(self) -> None:
        """The agent has put its things down and ended."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            await self._end()
        if self._reading is not None:
            await self._reading

    async def _end(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        self._process.kill()
        await self._process.wait()
        return True
