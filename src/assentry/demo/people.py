"""A person from a script, who takes every decision in a process of its own: the command line, as anybody would."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from assentry.core.request import Request
from assentry.demo.play import Play
from assentry.demo.world import RELEASES, World
from assentry.errors import AssentryError

CAREFUL = {
    "delete_files": ("choose", "3"),
    "question": ("answer", RELEASES[1]),
    "deploy": ("deny", "--reason", "not on a Friday afternoon"),
    "send_report": ("modify", "--set", 'to=["team@example.org"]'),
}
BOLD = {
    "delete_files": ("choose", "2"),
    "question": ("answer", RELEASES[2]),
    "deploy": ("approve",),
    "send_report": ("approve",),
}
_DIES_BEFORE = "send_report"
"""While this waits, the agent's process is killed, so that the decision falls when nobody is there to hear it."""


class CommandFailed(AssentryError):
    """A command of the scripted person did not do what it should."""


@dataclass(frozen=True, slots=True)
class ScriptedPerson:
    """Decides as the plan says, and at the end takes some of it back."""

    play: Play
    world: World
    plan: Mapping[str, tuple[str, ...]]
    takes_back: tuple[str, ...]

    async def decide(self, request: Request, settled: asyncio.Task[Request]) -> None:
        """The request was decided by a command."""
        action = request.ask.candidate.action.name
        if action == _DIES_BEFORE:
            await self.play.kill_agent()
        word, *more = self.plan[action]
        await self._assentry(word, request.code, *more, "--digest", request.candidate.permit_digest)
        await asyncio.wait({settled}, timeout=30)

    async def finish(
        self, offers: Callable[[], Awaitable[list[Request]]], undo: Callable[[str], Awaitable[None]]
    ) -> None:
        """What the plan takes back was taken back by a command."""
        del undo
        for request in await offers():
            if request.candidate.action.name in self.takes_back:
                await self._assentry("undo", request.code)
                await self.play.undone(request.id)

    async def _assentry(self, *words: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *program(), *words, cwd=self.world.folder, env=self.world.environment(), stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate()
        if process.returncode:
            raise CommandFailed(f"`assentry {words[0]}` failed: {said.decode(errors='replace').strip()}")


def scripted(play: Play, world: World, seed: int) -> ScriptedPerson:
    """The careful person for odd numbers, the bold one for even ones."""
    if seed % 2:
        return ScriptedPerson(play, world, CAREFUL, takes_back=("write_file",))
    return ScriptedPerson(play, world, BOLD, takes_back=("deploy",))


def program() -> list[str]:
    """The command `assentry` of this installation."""
    installed = Path(sys.executable).with_name("assentry")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "assentry"]


def typed() -> str:
    """The command as a person types it in another terminal."""
    command = program()
    found = shutil.which("assentry")
    return "assentry" if found and [found] == command else join(command)
