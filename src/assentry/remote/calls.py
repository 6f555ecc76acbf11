"""Calls whose requests are on record behind a server: proposed, waited for, begun and reported over HTTP."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.core.decision import Cancel, Event, Fail, Finish, Renew
from assentry.core.request import NEVER_RAN, Ask, Request, State
from assentry.engine.asking import Named, Prepared
from assentry.engine.calls import Calls
from assentry.engine.execution import Execution
from assentry.engine.holding import CURRENT, HeldRun
from assentry.engine.judgement import Context
from assentry.engine.office import Held
from assentry.errors import AssentryError, GuardError, RunPaused, RunStopped
from assentry.remote.callers import FarCallers
from assentry.remote.line import Line
from assentry.remote.reading import at_once, request_in
from assentry.remote.run import FarRun

T = TypeVar("T")

PAUSE_SECONDS = 25.0
"""How long one call waits at the server while a person has paused the agent."""
HEAR_OUT_SECONDS = 5.0
"""How long a caller that was cancelled waits to hear what became of its last call."""


class FarExecution(Execution):
    """Executes here what the server permits, and tells it how that went."""

    line: Line

    async def begin(self, request: Request, **_: Any) -> Request:
        """The permit is used and the lease held; nobody else runs it."""
        return await self.begin_under(request, 0)

    async def begin_under(self, request: Request, fence: int, wait: float = 0) -> Request:
        """The same inside a run that is held under this fence."""
        if not request.id:
            return replace(request, state=State.RUNNING)
        said = {"attempt": uuid.uuid4().hex, "lease": self.lease.total_seconds(), "run_fence": fence}
        path = f"/proposals/{request.id}/begin"
        began = request_in(await _heard_out(self.line.post(path, said, wait=wait), self._told_never_ran))
        self.hold(began)
        return began

    async def _told_never_ran(self, told: Mapping[str, Any]) -> None:
        await self.never_ran(request_in(told))

    async def never_ran(self, began: Request) -> None:
        """It was begun, and whoever wanted it no longer does: that nothing came of it is on record."""
        await self._move(began, Fail(began.fence, NEVER_RAN))

    async def _move(self, request: Request, event: Event) -> Request:
        if not request.id:
            return request
        path = f"/proposals/{request.id}"
        match event:
            case Finish(fence, text):
                told = await self.line.post(f"{path}/finish", {"fence": fence, "result": _plain(text)})
            case Fail(fence, error):
                told = await self.line.post(f"{path}/fail", {"fence": fence, "error": _words(error)})
            case Renew(fence, lease):
                told = await self.line.post(f"{path}/renew", {"fence": fence, "lease": lease.total_seconds()})
            case Cancel(_, reason):
                told = await self.line.post(f"{path}/cancel", {"reason": reason[:2000]})
            case _:
                raise GuardError(f"an agent cannot bring about {type(event).__name__} through a server")
        return replace(request_in(told), fence=request.fence, sealed=request.sealed)

    async def _keep_evidence(self, request: Request, event: Finish | Fail) -> Request:
        """The server has kept it, and has looked whether somebody found it done meanwhile."""
        return request


class FarCalls(Calls):
    """The way of every call through a server."""

    line: Line
    execution: FarExecution
    callers: FarCallers

    def caller_of(self, context: Context, patience: float | None = None) -> Named | None:
        """As with a local gate. A run that was begun without a key has one of its own, which nobody else knows."""
        active = context.active
        again = bool(context.key) if active is None else not active.record.key.startswith("once:")
        return None if again or patience == 0 else self.callers.name

    def runs_at_once(self, prepared: Prepared) -> bool:
        """Only the server knows."""
        return False

    async def admitted(self, prepared: Prepared, patience: float | None) -> Request:
        """A request that is running and ours to run now, or one that has ended already."""
        caller = self.caller_of(prepared.context, patience)
        proposed = self._proposed(prepared, uuid.uuid4().hex, patience, caller=caller)
        request = await _heard_out(proposed, self._not_wanted)
        if request.state is State.RUNNING and (request.fence or not request.id):
            if request.id:
                self.execution.hold(request)
            return request
        return await self._decided(prepared.tool, request, patience, active=prepared.context.active)

    async def submit(
        self, prepared: Prepared, *, start: bool = True, request_id: str | None = None, caller: Named | None = None
    ) -> tuple[Request, bool]:
        """The request is on record at the server."""
        attempt = uuid.uuid4().hex if start else ""
        made = await self._proposed(prepared, attempt, 0, request_id, caller=caller)
        return made, made.state is not State.DONE

    async def _proposed(
        self, prepared: Prepared, attempt: str, patience: float | None, once: str | None = None, *,
        caller: Named | None = None,
    ) -> Request:  # fmt: skip
        said = {**_said(prepared), "attempt": attempt, "lease": self.execution.lease.total_seconds()}
        said["caller"] = "" if caller is None else await self.callers.sent()
        once = once or uuid.uuid4().hex

        async def post(wait: float) -> dict[str, Any]:
            return await self.line.post("/proposals", said, once=once, wait=wait)

        told = await self._while_going(prepared.context.active, patience, post)
        if not told["id"]:
            return at_once(prepared, self.workspace, State.RUNNING if attempt else State.APPROVED)
        return await self._shown(request_in(told))

    async def _shown(self, request: Request) -> Request:
        """The request; where it depends on this process, that is shown to live from now on."""
        return await self.callers.waits(request)

    async def put(self, ask: Ask, caller: Named | None = None) -> Request:
        """The question is on record at the server."""
        asked, active = ask.question, _far(CURRENT.get())
        assert asked is not None  # noqa: S101  only questions are put
        limit = ask.candidate.verdict.ladder.limit
        inside = {} if active is None else {"run": active.id, "run_fence": active.fence}
        said = {
            "text": asked.text, "choices": list(asked.choices), "answers": asked.schema,
            "shown": restore(ask.candidate.args_text).get("shown"), "best_guess": asked.best_guess,
            "has_best_guess": asked.has_best_guess, "seconds": None if limit is None else limit.total_seconds(),
            "reviewers": list(ask.candidate.verdict.reviewers), **_claimed(ask.claims), **inside,
            "key": ask.step if active is not None or not ask.step else _outside(ask.run, ask.agent, ask.step),
            "caller": "" if caller is None else await self.callers.sent(),
        }  # fmt: skip
        once = uuid.uuid4().hex

        async def post(wait: float) -> dict[str, Any]:
            return await self.line.post("/questions", said, once=once, wait=wait)

        return await self._shown(request_in(await self._while_going(active, None, post)))

    async def begun(
        self, request: Request, active: HeldRun | None, *, policy: int | None = None, counts: bool = True
    ) -> Request:
        """Intent is on record; the server sees to what the run uses up, and by which policy it may begin."""
        run = _far(active)

        async def begin(wait: float) -> Request:
            return await self.execution.begin_under(request, 0 if run is None else run.fence, wait)

        began = await self._while_going(run, None, begin)
        self.callers.leaves(began)
        return began

    async def _while_going(
        self, active: HeldRun | None, patience: float | None, call: Callable[[float], Coroutine[Any, Any, T]]
    ) -> T:
        """What the call gave once no pause holds the agent up; a run that is paused looks after that itself."""
        run, loop = _far(active), asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        while True:
            left = PAUSE_SECONDS if until is None else max(0.0, min(PAUSE_SECONDS, until - loop.time()))
            try:
                return await call(round(left, 3))
            except RunPaused:
                if run is not None and (held := await run.looked()).is_held:
                    raise Held(held) from None
                if until is not None and loop.time() >= until:
                    raise

    async def _not_wanted(self, request: Request) -> None:
        """Proposed for a caller who has gone meanwhile."""
        if request.state is State.RUNNING and request.fence:
            await self.execution.never_ran(request)
        else:
            await self.withdrawn(request)

    async def withdrawn(self, request: Request) -> None:
        """A caller that stopped waiting and cannot find its request again leaves nothing waiting or approved."""
        if request.id and request.ask.step.startswith("once:") and request.ask.run == request.ask.agent:
            with suppress(AssentryError):
                await self.line.post(f"/proposals/{request.id}/cancel", {"reason": "the caller stopped waiting"})


async def _heard_out(call: Coroutine[Any, Any, T], after: Callable[[T], Coroutine[Any, Any, None]]) -> T:
    """What the call gave. Cancelled meanwhile, its answer is awaited for a while all the same, and seen to."""
    asked = asyncio.ensure_future(call)

    async def see_to_it() -> None:
        with suppress(AssentryError, RunStopped, TimeoutError):
            async with asyncio.timeout(HEAR_OUT_SECONDS):
                await after(await asked)

    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.shield(see_to_it())
        raise


def _far(active: HeldRun | None) -> FarRun | None:
    if active is not None and not isinstance(active, FarRun):
        raise GuardError("this call is inside a run of another gate; begin one with the gate that guards it")
    return active


def _said(prepared: Prepared) -> dict[str, Json]:
    """The call as the server is told of it."""
    tool, context = prepared.tool, prepared.context
    run = _far(context.active)
    key = context.key
    if run is None and key:
        key = _outside(context.run, context.agent, key)
    declared = tool.declared
    options = [] if callable(tool.options) else list(tool.options)
    if callable(tool.options) or any(each.instead or callable(each.change) for each in options):
        raise GuardError(f"{tool.name}: options that are functions, or name other actions, need a local gate")
    needed = datetime.now(UTC) + tool.needed_by if isinstance(tool.needed_by, timedelta) else tool.needed_by
    insists = "; ".join(trigger.says for trigger in prepared.fired)
    return {
        "action": tool.name, "args_text": canonical(prepared.args), "description": tool.description,
        "arguments": tool.schema, "secret": sorted(tool.secret), "says": tool.says, "if_denied": tool.if_denied,
        "effect": {
            "reversible": declared.reversible, "reach": _word(declared.reach), "outside": declared.outside,
            "money": declared.money, "risk": _word(declared.risk),
        },
        "options": [
            {"label": each.label, "consequence": each.consequence, "change": each.change} for each in options
        ],
        "needed_by": None if needed is None else needed.isoformat(), "idempotent": tool.idempotent,
        "hold": bool(insists), "why": "; ".join(filter(None, (insists, context.why))),
        "goal": context.goal, "confidence": context.confidence, "cost": context.cost,
        "alternatives": list(context.alternatives), "key": key, "draft_of": context.draft_of,
        "run": "" if run is None else run.id, "run_fence": 0 if run is None else run.fence,
    }  # fmt: skip


def _outside(run: str, agent: str, key: str) -> str:
    """A key outside runs, with the name that the caller gave to what it belongs to."""
    return key if run in ("", agent) else f"{run}/{key}"


def _claimed(claims: Mapping[str, Json]) -> dict[str, Json]:
    return {name: claims[name] for name in ("why", "goal", "confidence", "cost", "alternatives") if name in claims}


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


def _words(error: str) -> str:
    """The error as it can be kept, whatever its own words are."""
    return error.encode(errors="replace").decode() or "it failed"


def _plain(text: str) -> Json:
    """A result as JSON carries it."""
    return restore(text) if text else None
