"""A gate that is connected to a server: `assentry.connect(url, token)`."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

from assentry.core.run import Run
from assentry.core.running import LEASE
from assentry.engine.describing import check_lease
from assentry.engine.gate import Gate
from assentry.engine.holding import CURRENT
from assentry.engine.hosting import Fits, held
from assentry.engine.judgement import Context
from assentry.engine.portal import Portal
from assentry.engine.runs import ActiveRun
from assentry.engine.wait_notice import notice
from assentry.engine.worker import Worker
from assentry.errors import GuardError, RunPaused
from assentry.ports import Store
from assentry.remote.callers import LONGEST_LEASE, FarCallers
from assentry.remote.calls import PAUSE_SECONDS, FarCalls, FarExecution
from assentry.remote.line import Line
from assentry.remote.parts import FarHub, FarJudgement, FarStore, OpenVault
from assentry.remote.reading import run_in
from assentry.remote.run import FarRun, put_stop, stopped_at

RETRY_SECONDS = 300.0
"""For how long a server that does not answer is tried."""
_NOT_HERE = {
    "undo": "taking back", "verify": "finding out how it went", "detached": "leaving it to a worker",
    "facts": "looking up facts", "refresh": "looking up again",
}  # fmt: skip
_MISSING: Any = object()


def connect(url: str, token: str, *, lease: timedelta = LEASE, retry_for: float = RETRY_SECONDS) -> "FarGate":
    """A gate behind the server at this address; the token says which agent this is, and of which workspace.

    The functions run here, the deciding and the record are there. A server that does not answer is tried for
    `retry_for` seconds, also while a call waits. `lease`, from 1 second to 10 minutes, is how long the server takes
    this process to live without a sign of it.
    """
    check_lease(lease, LONGEST_LEASE)
    portal = Portal("assentry-remote")
    line = Line(url, token, portal, retry_for=retry_for)
    told = portal.run(line.get("/me"))
    return FarGate(line, portal, agent=told["agent"], workspace=told["workspace"], lease=lease)


class FarGate(Gate):
    """What an agent holds whose gate is a server. It can propose, wait and hear; it cannot decide."""

    def __init__(self, line: Line, portal: Portal, *, agent: str, workspace: str, lease: timedelta) -> None:
        store, vault = cast(Store, FarStore(line)), OpenVault()
        super().__init__(
            store, vault, workspace=workspace, agent=agent, lease=lease, asked_by=f"agent:{agent}", portal=portal
        )
        self._line, self._lease = line, lease
        self._context = Context(agent=agent)
        self._hub = FarHub(store, workspace, line)
        self._judgement = FarJudgement(store, workspace)
        self._execution = FarExecution(store, vault, portal, f"agent:{agent}", lease)
        self._execution.line = line
        self._callers = FarCallers(line, portal, agent, lease)
        calls = FarCalls(
            store, workspace, self._judgement, self._execution, self._hub, vault, f"agent:{agent}", self._tools,
            self._callers,
        )  # fmt: skip
        calls.line = line
        calls.on_wait = notice(f" --server {line.url}")
        self._calls = calls
        self._office = replace(
            self._office, hub=self._hub, stop_point=partial(stopped_at, calls, self._context),
            stop_put=partial(put_stop, calls, self._context),
            until_go=self._judgement.until_go, counts_days=lambda: False,
        )  # fmt: skip

    async def start(self) -> None:
        """There is nothing to start: the server is there."""

    async def close(self) -> None:
        """Nothing is held open; leases that were held run out."""
        self._execution.close()
        await self._callers.close()
        if asyncio.get_running_loop() is self._portal.loop:
            await self._line.close()
        else:
            await asyncio.wrap_future(self._portal.submit(self._line.close()))
            self._portal.close()

    def guard(self, function: Any = None, /, **described: Any) -> Any:
        """The function, guarded, as with a local gate. What a worker or a lookup would have to do is not for here."""
        for name, says in _NOT_HERE.items():
            if described.get(name):
                raise GuardError(f"{name}= is for {says}, which a gate behind a server does not do; use a local one")
        return super().guard(function, **described) if function is not None else super().guard(**described)

    @contextmanager
    def context(self, **said: Any) -> Iterator[None]:
        """Calls inside have this goal, and whatever else the agent says. Who the agent is says its token."""
        self._is_me(said.get("agent", ""))
        with super().context(**said):
            yield

    @asynccontextmanager
    async def run(
        self,
        goal: str,
        *,
        agent: str = "",
        original: str = "",
        scope: Any = None,
        key: str = "",
        host: str = "",
        patience: float | None = _MISSING,
        fits: Fits | None = None,
    ) -> AsyncIterator[ActiveRun]:
        """A run, as with a local gate. A `scope` counts only where the policy lists this agent."""
        self._is_me(agent)
        if host:
            raise GuardError("a run behind a server has no host; enter it again with its key, or use a local gate")
        parent = CURRENT.get()
        parent = parent if isinstance(parent, FarRun) else None
        # A run that nobody can take up again needs no memory of those inside it.
        outer = parent if parent is not None and not parent.record.key.startswith("once:") else None
        said = {
            "goal": goal, "original": original, "scope": scope,
            "key": key if outer is None else outer.key_inside(key, goal), "parent": "" if parent is None else parent.id,
            "parent_fence": 0 if outer is None else outer.fence, "attempt": uuid.uuid4().hex,
            "lease": self._lease.total_seconds(),
        }  # fmt: skip
        wait = None if patience is _MISSING else patience
        told = await self._begun(said, wait)
        record = run_in(told, told["fence"])
        if fits is not None and record.fence > 1 and record.state.is_open:
            await self._fitting(record, fits)
        async with held(self._office, record, wait, FarRun) as active:
            if outer is not None:
                outer.entered_inside(key, active)
            yield active

    async def _begun(self, said: dict[str, Any], patience: float | None) -> dict[str, Any]:
        once, loop = uuid.uuid4().hex, asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        while True:
            left = PAUSE_SECONDS if until is None else max(0.0, min(PAUSE_SECONDS, until - loop.time()))
            try:
                return await self._line.post("/runs", said, once=once, wait=round(left, 3))
            except RunPaused as paused:
                # Only what pauses the agent as a whole is waited for; a run of its own that is paused says so.
                if paused.code or (until is not None and loop.time() >= until):
                    raise

    async def _fitting(self, run: Run, fits: Fits) -> None:
        """Whoever is asked has not objected; else the run is put down again. The server gives its state to holders."""
        told = await self._line.get(f"/runs/{run.id}/resumption")
        try:
            fits(run, told["state"])
        except GuardError:
            await self._line.post(f"/runs/{run.id}/park", {"fence": run.fence, "waits": [], "keeps": True})
            raise

    def host(self, name: str, *, capacity: int = 10, fits: Fits | None = None) -> Any:
        """Not here: parked runs are gone on with by entering them again with their key."""
        raise GuardError(
            "hosts need a local gate; behind a server, enter a parked run again with its key, or, with an adapter, "
            "attach the agent with wait=True"
        )

    def worker(self, *, capacity: int = 10) -> Worker:
        """Not here: the server looks after time."""
        raise GuardError("a worker needs a local gate; behind a server, the server looks after deadlines")

    def _is_me(self, agent: str) -> None:
        if agent and agent != self._context.agent:
            raise GuardError(f"the token is for {self._context.agent}; an agent called {agent!r} needs one of its own")
