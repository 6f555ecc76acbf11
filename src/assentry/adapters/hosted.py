"""A framework's agent as a run: it waits in this process, or parks and is gone on with by any worker."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar

from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request, State
from assentry.engine.gate import Gate
from assentry.engine.holding import CURRENT
from assentry.engine.hosting import HostFunction, called
from assentry.errors import GuardError, Parked


class Attachment:
    """What `attach` gives: it offers what its class says, so that no method of the framework leads past the gate."""

    _reads: ClassVar[frozenset[str]] = frozenset()
    """What of the framework's object only reads, and is handed through."""
    _instead: ClassVar[Mapping[str, str]] = {}
    """What it offers besides and is refused here, and what to do instead."""

    def _inner(self) -> Any:
        """The framework's object."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name in self._reads:
            return getattr(self._inner(), name)
        if name in self._instead:
            raise self._refused(name, self._instead[name])
        raise AttributeError(f"{type(self).__name__} has no {name}; see its page in docs/ for what it offers")

    def _refused(self, name: str, instead: str) -> "Ungated":
        return Ungated(f"{name} of what is attached would not pass the gate; {instead}")


class Ungated(GuardError, AttributeError):
    """A way of the framework that does not pass the gate. To `hasattr` it is not there."""


class Hosted:
    """One function that is the whole agent: `go_on(state, None)` begins, `go_on(state, resumption)` goes on.

    With `wait` a run stays in the process that began it while a person decides. Without, it is rows and no process;
    workers of the gate go on with it.
    """

    def __init__(self, gate: Gate, name: str, go_on: HostFunction, *, wait: bool, capacity: int = 10) -> None:
        self._gate, self._name, self._go_on, self.waits = gate, name, go_on, wait
        if not wait:
            gate.host(name, capacity=capacity)(go_on)

    async def begin(self, state: Json, **described: Any) -> Any:
        """What the agent came to. Raises `Parked` where it waits elsewhere from now on."""
        if not self.waits:
            return await self._gate.begin(self._name, state, **described)
        async with AsyncExitStack() as inside:
            run = await inside.enter_async_context(self._gate.run(**described))
            if run.is_over:
                return run.record.outcome
            run.snapshot(state)
            run.outcome = made = await called(self._go_on, restore(canonical(state)), None)
        return made


async def one_decided(gate: Gate, waiting: Sequence[Request]) -> None:
    """One of them is no longer waiting. A run that parks does so on all of them, and this raises `Parked`."""
    active = CURRENT.get()
    patience = active.patience_for(None) if active is not None else None
    held = {State.PENDING} | ({State.UNKNOWN} if active is not None and active.record.host else set())
    if not waiting or any(request.state not in held for request in waiting):
        return
    if patience is None or patience > 0:
        looks = [asyncio.ensure_future(gate.outcome(request.id, patience)) for request in waiting]
        try:
            done, _ = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for look in looks:
                look.cancel()
        if any(look.result().state not in held for look in done):
            return
    parked = [Parked(request.id, request.code, request.candidate.says) for request in waiting]
    if active is None:
        raise parked[0]
    await active.park(parked)
