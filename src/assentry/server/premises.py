"""What one server process holds: an open store, a desk for each workspace, and the news for whoever listens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from assentry.assemble import Desk, desk_at
from assentry.engine.callers import clear
from assentry.engine.chronicle import Chronicle
from assentry.engine.gate import Gate
from assentry.engine.identity import Identities
from assentry.engine.oversight import Oversight
from assentry.engine.passkeys import Passkeys
from assentry.errors import AssentryError
from assentry.keys import KeyRing
from assentry.ports import Store
from assentry.server.agents import Agents
from assentry.server.events import Events
from assentry.server.knocks import Knocks
from assentry.settings import Settings

if TYPE_CHECKING:
    from assentry.server.sign_on import SignOn

log = logging.getLogger("assentry.server")

FORGET_EVERY = 3600.0
LOOK_EVERY = 10.0
"""How often it is found out which callers are gone."""


@dataclass(frozen=True, slots=True)
class Room:
    """One workspace of this server."""

    desk: Desk
    identities: Identities
    oversight: Oversight
    chronicle: Chronicle
    passkeys: Passkeys
    sign_on: "SignOn | None" = None
    """Where its people log in, if anywhere but here."""

    @property
    def name(self) -> str:
        return self.desk.settings.workspace


class Premises:
    """Rooms are opened when first used and hear of every change of their policy."""

    def __init__(self, settings: Settings, store: Store, keys: KeyRing, gate: Gate | None = None) -> None:
        self.settings, self.store, self.keys = settings, store, keys
        self.gate = gate
        """Where agents propose; only with one are there answers to them."""
        self.agents = Agents(store, keys, gate)
        self.sign_on = _sign_on(settings)
        self.events = Events(store)
        self.hashing = asyncio.Semaphore(2)
        """Checking a password takes memory and a core; a crowd of wrong ones must not take all of them."""
        self.knocks = Knocks()
        self.checking = 0
        """How many passwords are being checked, or wait to be."""
        self._rooms: dict[str, Room] = {}
        self._opening = asyncio.Lock()
        self._leave: Callable[[], None] | None = None
        self._chores: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Ready to serve."""
        await self.store.open()
        self._leave = self.events.start(self._heard)
        self._do(self._forget_now_and_then())
        self._do(self._look_for_the_gone())

    async def close(self) -> None:
        """Whoever listens is let go, and nothing more is heard."""
        self.events.close()
        self.agents.close()
        if self._leave is not None:
            self._leave()
        for chore in tuple(self._chores):
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)

    async def room(self, workspace: str) -> Room:
        """The room of a workspace, its policy loaded."""
        found = self._rooms.get(workspace)
        if found is None:
            async with self._opening:
                found = self._rooms.get(workspace) or await self._opened(workspace)
                self._rooms[workspace] = found
        return found

    async def _opened(self, workspace: str) -> Room:
        desk = await desk_at(replace(self.settings, workspace=workspace), self.store, self.keys)
        sign_on = self.sign_on if workspace == self.settings.workspace else None
        passkeys = Passkeys(self.store, workspace)
        return Room(desk, Identities(self.store, workspace), desk.oversight, desk.chronicle, passkeys, sign_on)

    def _heard(self, changed: Mapping[str, int] | None) -> None:
        if changed is None or any(key.startswith(("policy:", "grant:", "switch:")) for key in changed):
            for room in tuple(self._rooms.values()):
                self._do(_refreshed(room))

    def _do(self, work: Awaitable[None]) -> None:
        chore = asyncio.ensure_future(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _forget_now_and_then(self) -> None:
        while True:
            with suppress(AssentryError):
                before = await self.store.now() - timedelta(days=1)
                for workspace in {self.settings.workspace, *self._rooms}:
                    await self.store.forget_credentials(workspace, before)
            await asyncio.sleep(FORGET_EVERY)

    async def _look_for_the_gone(self) -> None:
        while True:
            for workspace in {self.settings.workspace, *self._rooms}:
                try:
                    await clear(self.store, workspace)
                except AssentryError as problem:
                    log.warning("callers that are gone could not be looked for in %s: %s", workspace, problem)
            await asyncio.sleep(LOOK_EVERY)


async def _refreshed(room: Room) -> None:
    try:
        await room.desk.judgement.refresh()
    except AssentryError as problem:
        log.warning("the policy of %s could not be read; the one before holds: %s", room.name, problem)


def _sign_on(settings: Settings) -> "SignOn | None":
    if not settings.sso_issuer:
        return None  # and what OpenID Connect takes is not imported
    from assentry.server.sign_on import sign_on_for

    return sign_on_for(settings)
