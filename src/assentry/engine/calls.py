"""From a call's record to its end: waited for, decided, begun and run."""

import asyncio

from uuid_utils.compat import uuid7

from assentry.core.advance import advance
from assentry.core.change import Change
from assentry.core.decision import Cancel
from assentry.core.request import Executor, Request, State
from assentry.core.run import Run
from assentry.core.switch import Setting
from assentry.engine.asking import Asking, Named, Prepared
from assentry.engine.freshness import still_true
from assentry.engine.holding import HeldRun
from assentry.engine.judgement import Context
from assentry.engine.office import HeldUp
from assentry.engine.tool import Tool
from assentry.engine.waiting import Ear
from assentry.errors import (
    AssentryError,
    Conflict,
    LeaseLost,
    Parked,
    PolicyMoved,
)
from assentry.ports import View


class Calls(Asking):
    """The way of every call through one workspace, for one process."""

    async def settled(
        self, request: Request, patience: float | None, ear: Ear | None = None, *, ours: bool = True
    ) -> Request:
        """The request once it may run here or has ended; `Parked` if patience ran out first.

        One that is `ours` and that nobody can find again is withdrawn when the caller stops waiting.
        """
        deadline = None if patience is None else asyncio.get_running_loop().time() + patience
        if patience != 0 and request.state is State.PENDING:
            self.on_wait(request)
        while _must_wait(request):
            left = None if deadline is None else deadline - asyncio.get_running_loop().time()
            is_over = left is not None and left <= 0
            try:
                shown = await (self.callers.findable(request) if is_over else self.callers.waits(request))
                if shown is not request:
                    request = shown
                    continue
                if is_over:
                    raise Parked(request.id, request.code, request.candidate.says)
                request = await self.hub.changed(request, left, ear)
            except asyncio.CancelledError:
                if ours:
                    await asyncio.shield(self.withdrawn(request))
                raise
        if request.state is not State.APPROVED:
            self.callers.leaves(request)
        return request

    def caller_of(self, context: Context, patience: float | None = None) -> Named | None:
        """What names this process as the caller of such a call; none where the call can be found again without it."""
        active = context.active
        again = bool(context.key) if active is None else bool(active.record.key or active.record.host)
        return None if again or patience == 0 else self.callers.name

    async def withdrawn(self, request: Request) -> None:
        """A caller that stopped waiting and cannot find its request again leaves nothing waiting or approved."""
        await self._given_up(request.id)

    async def _given_up(self, request_id: str) -> None:
        def step(view: View) -> Change | None:
            now = view.request
            if now is None or now.ask.executor is Executor.WORKER:
                return None
            match now.state:
                case State.PENDING if now.callers or not now.ask.step:
                    pass
                case State.APPROVED if self.callers.is_alone(now):
                    pass  # decided in the very moment in which its caller left; nobody else could use the permit
                case State.APPROVED:
                    return self.callers.without_this(now, view.now)
                case _:
                    return None
            return advance(now, Cancel(now.ask.agent, "the caller stopped waiting"), view.now)

        await self.store.transact(self.workspace, request_id, step)

    async def admitted(self, prepared: Prepared, patience: float | None) -> Request:
        """A request that is running and ours to run now, or one that has ended already."""
        looked = await self.look_up(prepared)
        if looked is not prepared:
            # That may have taken a while, and a person may have stopped everything meanwhile.
            prepared, active = looked, looked.context.active
            if active is not None:
                await active.until_going(flying=True)
            else:
                await self.judgement.until_go(prepared.context.agent, patience)
        if not prepared.verdict.gate.holds:
            request, is_new = await self._submitted(prepared, patience, str(uuid7()))
            return (
                request
                if is_new and request.state is State.RUNNING
                else await self._decided(prepared.tool, request, patience, active=prepared.context.active)
            )
        while True:
            # Heard from before it is made, it need not be read again to see that nobody has decided yet.
            request_id = str(uuid7())
            with self.hub.hearing(request_id) as ear:
                request, _ = await self._submitted(prepared, patience, request_id)
                ours = request.id == request_id
                heard, active = ear if ours else None, prepared.context.active
                ended = await self._decided(prepared.tool, request, patience, heard, active, ours=ours)
            if ours or ended.state is not State.CANCELLED or ended.word == "dismiss" or request.ask.step:
                return ended
            await self.judgement.until_go(prepared.context.agent, patience)
            # It was somebody else's who asked for the same and no longer wants it; we still do.

    async def _submitted(self, prepared: Prepared, patience: float | None, request_id: str) -> tuple[Request, bool]:
        """As `submit`, once no switch holds the agent up; a run sees to that itself."""
        try:
            caller = self.caller_of(prepared.context, patience)
            if prepared.context.active is not None:
                return await self.submit(prepared, request_id=request_id, caller=caller)
            return await self.judgement.once_going(
                prepared.context.agent, patience, lambda: self.submit(prepared, request_id=request_id, caller=caller)
            )
        except asyncio.CancelledError:
            # It may be on record all the same. What waits is also waited for by others, if they asked for the same.
            if prepared.verdict.gate.holds:
                await asyncio.shield(self._given_up(request_id))
            else:
                await asyncio.shield(self.execution.did_not_run(self.workspace, request_id, 1))
            raise

    async def _decided(
        self,
        asked: Tool,
        request: Request,
        patience: float | None,
        ear: Ear | None = None,
        active: HeldRun | None = None,
        *,
        ours: bool = True,
    ) -> Request:
        try:
            return await self._begun_or_ended(asked, request, patience, ear, active)
        except asyncio.CancelledError:
            if ours:
                await asyncio.shield(self.withdrawn(request))
            raise

    async def _begun_or_ended(
        self, asked: Tool, request: Request, patience: float | None, ear: Ear | None, active: HeldRun | None
    ) -> Request:
        while True:
            if active is None or patience == 0 or not _must_wait(request):
                request = await self.settled(request, patience, ear, ours=False)
            else:
                async with active.aside():
                    request = await self.settled(request, patience, ear, ours=False)
            if request.state is not State.APPROVED:
                return request
            tool = self.tool_for(request, asked)
            if active is not None:
                await active.until_going(for_sure=True, flying=True)
            elif self.judgement.switches:
                await self._until_go(request, patience)
            latest = await still_true(self.store, self.judgement, self.vault, tool, request)
            if latest.state is not State.APPROVED:
                request, ear = latest, None
                continue
            request = latest
            if active is None and self.judgement.switches:
                await self._until_go(request, patience)
            reason, version = await self.judgement.objection(tool, request)
            if reason:
                return await self.execution.withdraw(request, reason)
            try:
                return await self.begun(request, active, policy=version)
            except (HeldUp, PolicyMoved):
                await self.judgement.refresh()
            except LeaseLost:
                raise
            except Conflict:
                # Another call of the same step was faster, or the permit lapsed: its end is ours as well.
                found = await self.store.request(self.workspace, request.id)
                if found is None or found.state is State.APPROVED:
                    raise
                request = found

    async def _until_go(self, request: Request, patience: float | None) -> None:
        """What is approved begins once no switch holds its agent up; one that was stopped is turned away elsewhere."""
        held = self.judgement.held_up(request.ask.agent)
        if held is None or held.setting is Setting.STOP:
            return
        if patience is not None:
            await self.callers.findable(request)
            raise Parked(request.id, request.code, request.candidate.says)
        await self.judgement.until_go(request.ask.agent)

    async def begun(
        self, request: Request, active: HeldRun | None, *, policy: int | None, counts: bool = True
    ) -> Request:
        """Intent is on record; inside a run together with what it uses up, and only while the run is ours.

        `policy` is the version by which it may begin.
        """
        if active is None:
            request = await self.execution.begin(request, policy=policy)
            self.callers.leaves(request)
            return request
        made: list[Run | None] = []

        def holding(view: View, began: Request) -> Run | None:
            made.append(active._begins(view, began, counts=counts))
            return made[-1]

        request = await self.execution.begin(request, run=active.id, holding=holding, policy=policy)
        active._saw(made[-1])
        self.callers.leaves(request)
        return request

    def tool_for(self, request: Request, asked: Tool) -> Tool:
        """The tool that runs what was decided; an option may have named another one."""
        name = request.candidate.action.name
        tool = asked if name == asked.name else self.tools.get(name)
        if tool is None:
            raise AssentryError(f"request {request.code} chose {name}, which is not guarded in this process")
        return tool


def _must_wait(request: Request) -> bool:
    """Somebody else has to move it first. What runs already is run by whoever began it, here or elsewhere."""
    if request.state is State.APPROVED:
        return request.ask.executor is Executor.WORKER
    return request.state in (State.PENDING, State.RUNNING)
