"""Runs of one agent through a server: begun, kept alive, stopped at, parked, entered again, ended.

The process that does the work is elsewhere and shows that it lives by calling; what it was given is a fence, and what
an older one says no longer counts.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from assentry.core.action import Json
from assentry.core.authority import Principal
from assentry.core.canonical import canonical, restore
from assentry.core.request import STOPS, Request, State
from assentry.core.run import PlanStep, Run, RunState
from assentry.core.run_life import Failed, Finished, Live, Park, RunEvent, Stopped
from assentry.core.running import LEASE
from assentry.engine.agent_calls import AgentCalls, ProxiedRun
from assentry.engine.holding import as_json
from assentry.engine.hosting import Resumption, begin, begin_inside, new_run, taken_up
from assentry.engine.judgement import Context
from assentry.engine.office import StopPoint
from assentry.engine.oversight import Oversight
from assentry.engine.sealing import redacted
from assentry.engine.stopping import stop_call
from assentry.errors import Conflict, InvalidArguments, NotAllowed, NotFound, RunPaused


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that was entered: what it was parked with, and what was decided meanwhile."""

    run: Run
    state: Json
    told: Resumption | None


class AgentRuns(AgentCalls):
    """The calls and runs of one agent through a server."""

    async def begin_run(
        self, goal: str, *, attempt: str, original: str = "", plan: Iterable[PlanStep] = (), key: str = "",
        parent: str = "", parent_fence: int = 0, scope: Any = None, lease: timedelta = LEASE, patience: float = 0,
    ) -> Run:  # fmt: skip
        """A new run, or the open one with this key, held by this attempt. A scope is for the operator to give.

        That `original` is what somebody asked for is the operator's word too: without it, it is left out.

        Inside a `parent` that the same process holds, one with this key that has finished is given back as it is.
        """
        if scope and not self.is_trusted:
            raise NotAllowed(
                "a scope says what a run may do, and an agent does not say that of itself; an operator can list "
                f"{self.agent} under agents: in the policy",
                principal=self.agent,
            )
        if parent:
            await self.run(parent)
        await self._until_go(patience)
        known = await self._store.run_by_key(self._office.workspace, self.agent, key) if key else None
        if known is not None and (known.state.is_open or parent_fence):
            self._is_free(known)
        office = replace(self._office, worker=self._worker(attempt), lease=lease)
        made = new_run(
            office, goal, agent=self.agent, original=original if self.is_trusted else "", scope=scope or None, host="",
            key=key, parent=parent,
        )  # fmt: skip
        if parent_fence and key:
            run = await begin_inside(office, await self.held(parent, parent_fence), made)
        else:
            run = await begin(office, made)
        steps = tuple(plan)
        if steps and not run.plan:
            active = self._proxied(run, run.fence)
            await active.plan(steps)
            run = active.record
        return run

    async def enter(self, run_id: str, *, attempt: str, lease: timedelta = LEASE, patience: float = 0) -> Taken:
        """The run goes on, held by this attempt, with what it was parked with and what people said meanwhile."""
        run = await self.run(run_id)
        await self._until_go(patience)
        self._is_free(run)
        told = await self.resumption(run)
        if not (run.state is RunState.RUNNING and run.worker == self._worker(attempt)):
            office = replace(self._office, worker=self._worker(attempt), lease=lease)
            run = await taken_up(office, run)
        return Taken(run, await self.parked_with(run), None if told is None else replace(told, run=run))

    async def resumption(self, run: Run) -> Resumption | None:
        """What the run waited for, as far as it is decided; nothing for one that is not parked."""
        if run.state is not RunState.PARKED:
            return None
        found = [await self._store.request(self._office.workspace, each) for each in run.waits]
        decided = tuple(each for each in found if each is not None and each.state is not State.PENDING)
        since = run.parked_at or run.changed_at or run.created_at
        return Resumption(run, decided, await self._store.now() - since)

    async def parked_with(self, run: Run) -> Json:
        """The state that it was last parked with."""
        text = await self._store.snapshot(self._office.workspace, run.id)
        return restore(text) if text else None

    async def note(
        self, run_id: str, fence: int, *, plan: Iterable[PlanStep] | None = None, spent: float | str | None = None,
        source: str = "", text: str = "", trusted: bool = False,
    ) -> Run:  # fmt: skip
        """What the agent intends, what it spent, what came back to it. It vouches for that only if vouched for."""
        active = self._proxied(await self.run(run_id), fence)
        if plan is not None:
            await active.plan(plan)
        if spent is not None:
            await active.spent(spent)
        if text or source:
            await active.observed(source, text, trusted=trusted and self.is_trusted)
        return active.record

    async def live(self, run_id: str, fence: int, lease: timedelta = LEASE) -> Run:
        """The run's process shows that it lives."""
        active = self._proxied(await self.run(run_id), fence)
        await active.moved(Live(fence, lease))
        return active.record

    async def stop_at(self, run_id: str, fence: int, point: StopPoint, caller: str = "") -> Request | None:
        """A person is asked where the run stops; none where nobody has to be. Raises `NotAsked` where that matters."""
        if point.kind not in STOPS:
            raise InvalidArguments(f"a run stops at one of: {', '.join(sorted(STOPS))}")
        await self._until_go(0)
        active = await self.held(run_id, fence)
        prepared = stop_call(self._calls, Context(agent=self.agent), active, point)
        if prepared is None:
            return None
        named = self._named(caller)
        request, _ = await self._once_going(0, lambda: self._calls.submit(prepared, start=False, caller=named))
        return self._own(request)

    async def park(self, run_id: str, fence: int, waits: tuple[str, ...], state: Json, *, keeps: bool = False) -> Run:
        """The run waits as rows, with what is needed to go on; `keeps` leaves the state as it was."""
        run = await self.run(run_id)
        if run.state is RunState.PARKED and run.fence == fence:
            return run
        for each in waits:
            if (await self.request(each)).ask.run != run.id:
                raise NotFound(f"run {run.code} has no such request to wait for")
        text = None if keeps else canonical(redacted(self._office.vault, as_json("the state of a run", state)))
        active = self._proxied(run, fence)
        await active.moved(Park(fence, waits), snapshot=text, awaiting=waits)
        return active.record

    async def finish_run(self, run_id: str, fence: int, outcome: Json) -> Run:
        """The run is over, and what it came to is on record."""
        told = restore(canonical(redacted(self._office.vault, as_json("the outcome of a run", outcome))))
        return await self._ended(run_id, fence, Finished(fence, told), RunState.FINISHED)

    async def fail_run(self, run_id: str, fence: int, error: str) -> Run:
        """The run is over, and what went wrong is on record."""
        told = str(redacted(self._office.vault, error))[:2000]
        return await self._ended(run_id, fence, Failed(fence, told), RunState.FAILED)

    async def cancel_run(self, run_id: str, reason: str = "") -> Run:
        """The agent gives the run up: what it waits for is withdrawn, and so are the runs that work for it."""
        run = await self.run(run_id)
        if run.state is not RunState.STOPPING:
            by = Principal(self.agent, "agent")
            run = await Oversight(self._store, self._office.workspace).stop(by, run, reason or "the agent gave it up")
        if run.state is RunState.STOPPING:
            active = self._proxied(run, run.fence)
            await active.moved(Stopped(run.fence))
            run = active.record
        return run

    async def run(self, run_id: str) -> Run:
        """The agent's own run."""
        run = await self._store.run(self._office.workspace, run_id)
        if run is None or run.agent != self.agent or run.asked_by != self.asked_by:
            raise NotFound("you have no such run")
        return run

    async def is_ready(self, run: Run) -> bool:
        """A parked run that can go on: something it waits for is decided, or it waits for nothing."""
        if run.state is not RunState.PARKED:
            return False
        found = [await self._store.request(self._office.workspace, each) for each in run.waits]
        return not run.waits or any(each is None or each.state is not State.PENDING for each in found)

    async def run_changed(self, run: Run, patience: float, version: int = 0) -> Run:
        """The run once it is newer than `version`, or without one once it can go on or is over; at most so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        event = asyncio.Event()
        watched = {f"run:{run.id}", *run.waits}

        def heard(changed: Any) -> None:
            if changed is None or not watched.isdisjoint(changed):
                with suppress(RuntimeError):  # a loop that was closed waits for nothing
                    loop.call_soon_threadsafe(event.set)

        leave = self._hub.listen(heard)
        try:
            while True:
                event.clear()
                run = await self.run(run.id)
                watched.update(run.waits)
                left = until - loop.time()
                over = not run.state.is_open or await self.is_ready(run)
                if (run.version > version if version else over) or left <= 0:
                    return run
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await event.wait()
        finally:
            leave()

    def _is_free(self, run: Run) -> None:
        """It is nobody else's and not paused; one that another attempt holds cannot be entered anyway."""
        if run.asked_by != self.asked_by:
            raise Conflict(
                "this key belongs to a run that another process began; choose another",
                request_id="", code="", state=str(run.state),
            )  # fmt: skip
        if run.state is RunState.PAUSED:
            raise RunPaused(run.code, run.by, run.reason)

    async def _ended(self, run_id: str, fence: int, event: RunEvent, state: RunState) -> Run:
        run = await self.run(run_id)
        if run.state in (state, RunState.STOPPED) and run.fence == fence:
            return run
        active = self._proxied(run, fence)
        await active.moved(event, ends=True)
        return active.record

    def _proxied(self, run: Run, fence: int) -> "_Run":
        active = _Run(self._office, run, 0)
        active.take(fence)
        return active

    def _worker(self, attempt: str) -> str:
        return f"{self.asked_by}:{attempt}"


class _Run(ProxiedRun):
    """The same, moved by whoever holds it."""

    async def moved(
        self, event: RunEvent, *, ends: bool = False, snapshot: str | None = None, awaiting: tuple[str, ...] = ()
    ) -> None:
        """The event has happened to it."""
        await self._move(lambda _: event, ends=ends, snapshot=snapshot, awaiting=awaiting)
