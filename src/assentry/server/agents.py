"""Where agents are answered: a gate for each workspace, and those who wait for an outcome."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from assentry.engine.agent_runs import AgentRuns
from assentry.engine.gate import Gate
from assentry.keys import KeyRing
from assentry.ports import Store

T = TypeVar("T")


class Agents:
    """Gates are opened when an agent of their workspace first calls."""

    def __init__(self, store: Store, keys: KeyRing, gate: Gate | None) -> None:
        self._store, self._keys, self._given = store, keys, gate
        self._gates: dict[str, Gate] = {} if gate is None else {gate.workspace: gate}
        self._opening = asyncio.Lock()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._leaving = False

    async def of(self, workspace: str, name: str) -> AgentRuns:
        """The agent of this name in this workspace; both were proved by its token."""
        gate = self._gates.get(workspace)
        if gate is None:
            async with self._opening:
                gate = self._gates.get(workspace) or await self._opened(workspace)
                self._gates[workspace] = gate
        return gate.agent(name)

    async def _opened(self, workspace: str) -> Gate:
        portal = self._given.portal if self._given is not None else None
        gate = Gate(self._store, self._keys, workspace=workspace, portal=portal)
        await gate.start()
        return gate

    async def waited(self, look: Coroutine[Any, Any, T], otherwise: T) -> T:
        """What `look` found, or `otherwise` where the server ends first."""
        task = asyncio.create_task(look)
        if self._leaving:
            task.cancel()
        self._waiting.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._waiting.discard(task)
            task.cancel()
        return otherwise if task.cancelled() else task.result()

    def let_go(self) -> None:
        """Whoever waits is answered with how things are now, so that the server can end."""
        self._leaving = True
        for task in tuple(self._waiting):
            task.cancel()

    def close(self) -> None:
        """Nothing more is heard by gates that were opened here."""
        self.let_go()
        for gate in self._gates.values():
            if gate is not self._given:
                gate.leave()
