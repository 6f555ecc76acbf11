"""A run that this process works on and whose record is behind a server."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.core.run_life import Failed, Finished, Live, Park, Progress, RunEvent, Stop
from assentry.engine.guard import CONTEXT, in_run
from assentry.engine.judgement import Context
from assentry.engine.office import NotAsked, Office, StopPoint
from assentry.engine.proposal import Proposal
from assentry.engine.runs import ActiveRun
from assentry.engine.stopping import NOTHING
from assentry.engine.tool import tool
from assentry.errors import Denied, GuardError, OutcomeUnknown, RunPaused
from assentry.remote.line import LONGEST_WAIT, Line
from assentry.remote.reading import request_in, run_in


class FarRun(ActiveRun):
    """What `async with gate.run(...)` gives where the gate is connected to a server."""

    def __init__(self, office: Office, record: Run, patience: float | None) -> None:
        super().__init__(office, record, patience)
        self._line = cast(Line, office.store.line)  # type: ignore[attr-defined]  # it is a FarStore

    @property
    def fence(self) -> int:
        """What this process was given with the run."""
        return self._fence

    async def looked(self, wait: float = 0) -> Run:
        """The run as it is now, or as it is when it has changed."""
        more = {"version": self._record.version} if wait else {}
        self._saw(run_in(await self._line.get(f"/runs/{self.id}", wait=wait, **more), self._fence))
        return self._record

    async def until_going(self, *, for_sure: bool = False, flying: bool = False) -> None:
        """The run may do its next thing; while it is paused the server says when that ends."""
        while self._record.state is RunState.PAUSED and self.patience_for(None) != 0:
            await self.looked(LONGEST_WAIT)
            self.enter_gate(flying=flying)
        await super().until_going(for_sure=for_sure, flying=flying)

    async def _checked_in(self) -> None:
        """The server knows by itself when a person has looked."""

    async def _look(self) -> None:
        await self.looked()

    async def _move(
        self,
        event: Callable[[int], RunEvent],
        *,
        ends: bool = False,
        snapshot: str | None = None,
        awaiting: tuple[str, ...] = (),
    ) -> None:
        if self.is_over:
            return
        path, held = f"/runs/{self.id}", {"fence": self._fence}
        match event(self._fence):
            case Live(lease=lease):
                told = await self._line.post(f"{path}/live", {**held, "lease": lease.total_seconds()})
            case Progress() as made:
                told = await self._line.post(f"{path}/notes", {**held, **_noted(made)}, once=uuid.uuid4().hex)
            case Park(waits=waits):
                state = {"keeps": True} if snapshot is None else {"state": restore(snapshot)}
                told = await self._line.post(f"{path}/park", {**held, "waits": list(waits), **state})
            case Finished(outcome=outcome):
                told = await self._line.post(f"{path}/finish", {**held, "outcome": outcome})
            case Failed(error=error):
                told = await self._line.post(f"{path}/fail", {**held, "error": error or "it failed"})
            case Stop(reason=reason):
                told = await self._line.post(f"{path}/cancel", {"reason": reason[:2000]})
            case other:
                raise GuardError(f"an agent cannot bring about {type(other).__name__} through a server")
        self._saw(run_in(told, self._fence))


def _noted(made: Progress) -> dict[str, Json]:
    said: dict[str, Json] = {}
    if made.plan is not None:
        said["plan"] = [{"says": step.says, "done": step.done} for step in made.plan]
    if made.spend:
        said["spent"] = float(made.spend)
    if made.observation is not None:
        seen = made.observation
        said["observed"] = {"source": seen.source[:200], "text": seen.text or " ", "trusted": seen.trusted}
    return said


async def put_stop(calls: Any, fallback: Context, active: FarRun, point: StopPoint) -> Request | None:
    """The request of this point, on record and not waited for; whether there is one is the server's to say."""
    _, told = await _put(calls, fallback, active, point)
    return request_in(told) if told["id"] else None


async def stopped_at(calls: Any, fallback: Context, active: FarRun, point: StopPoint) -> tuple[str, Mapping[str, Json]]:
    """What a person said where a run stopped, as with a local gate; whether it stops is the server's to say."""
    args = restore(canonical(point.args))
    context, told = await _put(calls, fallback, active, point)
    if not told["id"]:
        return "", args
    request = request_in(told)
    prepared = calls.prepare(tool(point.kind, declared=NOTHING), args, context, {})
    try:
        async with active.waiting():
            if request.state is not State.DONE:
                async with Proposal(calls, prepared, request, counts=False).execution() as running:
                    running.result = dict(running.args)
                return "", running.args
    except OutcomeUnknown:
        # Its process vanished between the decision and the next step; the decision stands.
        request = await calls.store.request(calls.workspace, request.id) or request
    except Denied as denied:
        chosen = await calls.store.request(calls.workspace, denied.request_id)
        if chosen is not None and chosen.chosen is not None:
            return chosen.ask.options[chosen.chosen].label, args
        raise
    return "", restore(request.candidate.args_text)


async def _put(calls: Any, fallback: Context, active: FarRun, point: StopPoint) -> tuple[Context, dict[str, Any]]:
    """The point told to the server, and what it says of it."""
    args = restore(canonical(point.args))
    context = replace(CONTEXT.get() or fallback, key=point.key, draft_of=point.draft_of)
    context = in_run(context, active, point.kind, args)
    said = {
        "fence": active.fence, "kind": point.kind, "args": args, "gate": str(point.gate), "key": context.key,
        "editable": sorted(point.editable), "insists": point.insists, "draft_of": point.draft_of,
        "options": [{"label": each.label, "consequence": each.consequence} for each in point.options],
        "caller": "" if calls.caller_of(context) is None else await calls.callers.sent(),
    }  # fmt: skip

    async def post() -> dict[str, Any]:
        while True:
            try:
                return await calls.line.post(f"/runs/{active.id}/stops", said)  # type: ignore[no-any-return]
            except RunPaused:
                await active.looked()
                await active.until_going()

    await active.until_going()
    told = await post()
    if not told["asked"]:
        raise NotAsked
    return context, told
