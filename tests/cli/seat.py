"""A person at the full-screen inbox: keys go in, the screen is read, other desks are on the same database."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

import assentry as package
from assentry.assemble import Desk, desk
from assentry.cli.screen.app import InboxApp
from assentry.cli.screen.inbox import InboxScreen
from assentry.core.authority import Principal
from assentry.core.request import Request, State
from assentry.engine.os_user import os_user
from assentry.engine.policies import apply_policy
from assentry.settings import Settings
from tests.cli.terminal import Agent

HELD = "rules:\n  - {name: all, actions: ['*'], gate: hard, because: everything waits here}\n"

OPTIONS = (
    package.option("Only the old ones", "The newer stay.", {"files": ["old"]}),
    package.option("Cancel", "Nothing changes."),
)


@dataclass
class Seat:
    """A person at the inbox."""

    pilot: Pilot[int]
    place: Path

    @property
    def screen(self) -> InboxScreen:
        found = self.pilot.app.screen_stack[0]
        assert isinstance(found, InboxScreen)
        return found

    @property
    def top(self) -> Any:
        return self.pilot.app.screen

    @property
    def text(self) -> str:
        """Everything that can be read on the screen now, dialogs included."""
        lines = self.pilot.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line) for line in lines)

    async def until(self, is_so: Callable[[], Any], seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, f"it did not come to that; the screen says:\n{self.text}"
            await self.pilot.pause(0.02)
        await self.pilot.pause()

    async def sees(self, *words: str) -> None:
        await self.until(lambda: all(word in self.text for word in words))

    async def press(self, *keys: str) -> None:
        await self.pilot.pause(0.08)
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def looks_at(self, request: Request) -> None:
        await self.until(lambda: self.screen.current is not None and self.screen.current.id == request.id)
        await self.pilot.pause(0.08)

    async def dialog(self, kind: type[Any]) -> None:
        await self.until(lambda: isinstance(self.top, kind))
        await self.pilot.pause(0.1)


@asynccontextmanager
async def seated(here: Path, size: tuple[int, int] = (130, 44), database: str = "") -> AsyncIterator[Seat]:
    app = InboxApp(Settings(database=database or str(here / "assentry.db")))
    async with app.run_test(size=size) as pilot:
        seat = Seat(pilot, here)
        await seat.until(lambda: seat.screen.live.is_open or seat.screen.trouble)
        await seat.pilot.pause(0.2)
        yield seat


@asynccontextmanager
async def elsewhere(here: Path) -> AsyncIterator[Desk]:
    """Somebody at another desk on the same database."""
    place = await desk(Settings(database=str(here / "assentry.db")))
    try:
        yield place
    finally:
        await place.store.close()


async def policy(agent: Agent, text: str) -> None:
    text = text.replace("ME", os_user())
    await apply_policy(agent.gate._store, "default", text, Principal("root", roles=("*",), teams=("*",)), "test")
    await agent.gate._judgement.refresh()


async def state(agent: Agent, request: Request, seat: Seat, wanted: State) -> Request:
    await seat.until(lambda: agent.now(request).state is wanted)
    return agent.now(request)
