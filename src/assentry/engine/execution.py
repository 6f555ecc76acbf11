"""Running what was permitted: intent before effect, exactly the stored bytes, a result or an honest unknown."""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from assentry.core.action import Json
from assentry.core.advance import advance
from assentry.core.audit import Entry
from assentry.core.canonical import canonical, digest, restore
from assentry.core.change import Change, entry
from assentry.core.decision import Begin, BeginUndo, Cancel, Event, Fail, Finding, Finish, Reconcile, Renew
from assentry.core.request import NEVER_RAN, Request, State
from assentry.core.run import Run
from assentry.core.run_life import Charge, advance_run
from assentry.core.running import LEASE
from assentry.core.scope import cost, uses
from assentry.engine.office import Held, nobody_holds
from assentry.engine.portal import Portal
from assentry.engine.sealing import redacted, unsealed
from assentry.engine.threads import in_thread
from assentry.engine.tool import Tool, resolved
from assentry.errors import (
    ActionFailed,
    AssentryError,
    Conflict,
    GuardError,
    InvalidArguments,
    LeaseLost,
    OutcomeUnknown,
    PermitMismatch,
    StoreError,
)
from assentry.ports import Store, Vault, View

log = logging.getLogger("assentry.execution")

_TELLING_PAUSES = (0.1, 0.4, 1.5)

_KEY: ContextVar[str] = ContextVar("assentry_idempotency_key", default="")


def idempotency_key() -> str:
    """Inside a guarded function: the key to hand to the outside world, the same for every attempt. Else empty."""
    return _KEY.get()


@dataclass(frozen=True, slots=True)
class Done:
    """What `undo` and `verify` are given: the arguments that ran, what came back, and the idempotency key."""

    args: Mapping[str, Any]
    result: Any
    key: str
    request_id: str


@dataclass(slots=True)
class _Held:
    request: Request
    since: float = field(default_factory=time.monotonic)


class Execution:
    """Executes requests in this process, under one worker name."""

    def __init__(self, store: Store, vault: Vault, portal: Portal, worker: str, lease: timedelta = LEASE) -> None:
        self._store, self._vault, self._portal = store, vault, portal
        self.worker, self.lease = worker, lease
        self._held: dict[str, _Held] = {}
        self._keeper: threading.Thread | None = None
        self._stopping = threading.Event()

    async def begin(
        self,
        request: Request,
        *,
        run: str | None = None,
        holding: Callable[[View, Request], Run | None] | None = None,
        policy: int | None = None,
    ) -> Request:
        """Intent is on record and the permit is used; whoever gets here runs it, nobody else does.

        Raises `HeldUp` where a stop switch holds its agent up, whatever was known of the switches before, and
        `PolicyMoved` where another `policy` is active than the version by which it may begin.

        Inside a `run` only for the process that holds it: `holding` gives the run as it then is, or raises.
        """
        event = Begin(self.worker, self.lease, request.candidate.permit_digest)

        def step(view: View) -> Change | None:
            if view.request is None:
                return None
            change = advance(view.request, event, view.now)
            began = change.request if change is not None else None
            if change is None or began is None or began.state is not State.RUNNING:
                return change
            nobody_holds(view)
            if holding is None:
                return change
            return replace(change, run=holding(view, began))

        try:
            change = await self._store.transact(
                request.workspace, request.id, step, hint=request, run=run, agent=request.ask.agent, policy=policy
            )
        except asyncio.CancelledError:
            await asyncio.shield(self.did_not_run(request.workspace, request.id, request.fence + 1))
            raise
        began = change.request if change is not None and change.request is not None else request
        if began.state is not State.RUNNING:
            raise Conflict(
                f"request {began.code} is {began.state}: {began.reason}; propose again",
                request_id=began.id, code=began.code, state=str(began.state),
            )  # fmt: skip
        self.hold(began)
        return began

    async def did_not_run(self, workspace: str, request_id: str, fence: int) -> None:
        """Cancelled while intent was being put on record: if it is, so is that nothing came of it."""

        def step(view: View) -> Change | None:
            now = view.request
            ours = now is not None and now.state is State.RUNNING and now.worker == self.worker
            if now is None or not ours or now.fence != fence:
                return None
            return advance(now, Fail(now.fence, NEVER_RAN), view.now)

        with suppress(AssentryError):
            await self._store.transact(workspace, request_id, step)

    async def withdraw(self, request: Request, reason: str) -> Request:
        """What was approved does not run after all; its permit is gone."""
        return await self._move(request, Cancel("policy", f"not run although approved: {reason}"))

    async def cancel(self, request: Request, agent: str, reason: str) -> Request:
        """Whoever asked for it no longer wants it."""
        return await self._move(request, Cancel(agent, reason))

    def values(self, tool: Tool, request: Request) -> dict[str, Any]:
        """The arguments to run with, read from the stored bytes, secrets put back; exactly what the permit is for."""
        _is_permitted(tool, request)
        plain = unsealed(self._vault, request.id, restore(request.candidate.args_text), request.sealed)
        if tool.signature is None:
            return plain  # type: ignore[no-any-return]
        values = tool.signature.values(plain)
        if canonical(tool.signature.plain(values)) != canonical(plain):
            raise InvalidArguments(
                f"the arguments approved as request {request.code} are read as others by {tool.name} (it trims, rounds "
                "or fills in); nothing ran; propose it again with what it would make of them"
            )
        return values

    def call(self, tool: Tool, request: Request, injected: Mapping[str, Any]) -> Any:
        """What the function returned for the stored bytes; the idempotency key is set while it runs."""
        values = self.values(tool, request)
        token = _KEY.set(request.idempotency_key)
        try:
            result = tool.call(values, injected)
            return _run_already(self._portal.run(_awaited(result)) if inspect.isawaitable(result) else result)
        finally:
            _KEY.reset(token)

    async def run(self, tool: Tool, request: Request, injected: Mapping[str, Any], policy: int | None = None) -> Any:
        """The function's result, after intent (unless already on record), the call, and the record of its end."""
        if request.state is not State.RUNNING:
            _is_permitted(tool, request)
            request = await self.begin(request, run=request.ask.run or None, holding=_charged, policy=policy)
        token = _KEY.set(request.idempotency_key)
        try:
            values = self.values(tool, request)
            if tool.is_async:
                result = await tool.call(values, injected)
            else:
                result = await in_thread(tool.call, values, injected)
            # Behind a plain wrapper an async function looks like any other; it has not run before it is awaited.
            result = _run_already(await result if inspect.isawaitable(result) else result)
        except Exception as problem:
            await self.fail(request, problem)
            raise
        except SystemExit as left:
            # It would end the loop that it runs on, and with it everybody else's work.
            await self.fail(request, left)
            raise ActionFailed(
                f"{tool.name} tried to end the process; that is on record as its failure",
                request_id=request.id, code=request.code, error="SystemExit",
            ) from left  # fmt: skip
        except BaseException:
            # Cancelled halfway: nobody knows how far it came. The lease runs out and the outcome is unknown.
            self.release(request)
            raise
        finally:
            _KEY.reset(token)
        await self.finish(tool, request, result)
        return result

    async def finish(self, tool: Tool, request: Request, result: Any) -> Request:
        """The result is on record."""
        return await self._end(request, Finish(request.fence, self._result_text(tool, request, result)))

    async def fail(self, request: Request, problem: BaseException) -> Request:
        """The error is on record."""
        return await self._end(request, Fail(request.fence, self._error_text(request, problem)))

    async def undo(self, tool: Tool, request: Request) -> Request:
        """The way back was taken and its end is on record."""
        if tool.undo is None:
            return request
        begun = await self._move(request, BeginUndo(self.worker, self.lease))
        self.hold(begun)
        try:
            await _called(tool.undo, self._done(tool, begun))
        except Exception as problem:  # noqa: BLE001  whatever it raised is on record as the end of the undo
            return await self.fail(begun, problem)
        return await self._end(begun, Finish(begun.fence, ""))

    async def verify(self, tool: Tool, request: Request) -> Request:
        """An unknown outcome is settled if `verify` can tell; what it cannot tell stays unknown."""
        if tool.verify is None or request.undoing:
            return request
        found = await _called(tool.verify, self._done(tool, request))
        if found is None:
            return request
        finding = Finding.DONE if found else Finding.FAILED
        note = "" if found else "verify says it did not happen"
        return await self._move(request, Reconcile(finding, f"verify:{self.worker}", note))

    def _done(self, tool: Tool, request: Request) -> Done:
        result = restore(request.result_text) if request.result_text else None
        return Done(self.values(tool, request), result, request.idempotency_key, request.id)

    def _result_text(self, tool: Tool, request: Request, result: Any) -> str:
        returns = tool.signature.returns if tool.signature is not None else None
        try:
            plain: Json = returns.dump_python(result, mode="json") if returns is not None else result
            return canonical(redacted(self._vault, plain, self._secrets(request)))
        except Exception:  # noqa: BLE001  it ran, whatever is the matter with what it gave
            return canonical({"unserializable": type(result).__name__})

    def _error_text(self, request: Request, problem: BaseException) -> str:
        try:
            text = redacted(self._vault, f"{type(problem).__name__}: {problem}", self._secrets(request))
        except Exception:  # noqa: BLE001  an error that cannot be told is one all the same
            text = type(problem).__name__
        return str(text)[:2000]

    def _secrets(self, request: Request) -> list[str]:
        return [self._vault.unseal(request.id, secret) for secret in request.sealed.values()]

    async def _end(self, request: Request, event: Finish | Fail) -> Request:
        try:
            return await self._told_at_last(request, event)
        except LeaseLost:
            now = await self._keep_evidence(request, event)
            if isinstance(event, Finish) and now.state is State.DONE and now.fence == event.fence:
                return now  # somebody looked meanwhile and found it done, as it is; nobody has begun it again
            raise
        except StoreError as problem:
            # It ran. The store's own error says that nothing was changed and to try again; that would run it twice.
            raise OutcomeUnknown(request.id, request.code) from problem
        finally:
            self.release(request)

    async def _told_at_last(self, request: Request, event: Finish | Fail) -> Request:
        """How it ended is on record, also where the database was away for a moment: nobody else knows it.

        Telling it twice does no harm: the fence lets only this execution tell, and what is on record stays.
        """
        for pause in _TELLING_PAUSES:
            try:
                return await self._move(request, event)
            except StoreError as problem:
                log.warning("how %s ended could not be put on record and is told again: %s", request.code, problem)
                await asyncio.sleep(pause)
        return await self._move(request, event)

    async def _keep_evidence(self, request: Request, event: Finish | Fail) -> Request:
        """A result that came too late is kept in the log, as a digest; it changes nothing. The request as it is."""
        said = event.result_text if isinstance(event, Finish) else event.error
        seen = [request]

        def step(view: View) -> Change:
            seen[:] = [view.request or request]
            late: Entry = entry(
                view.request or request, view.now, "execution.late", self.worker,
                fence=event.fence, finished=isinstance(event, Finish), digest=digest(said),
            )  # fmt: skip
            return Change(entries=(late,))

        await self._store.transact(request.workspace, request.id, step)
        return seen[0]

    async def _move(self, request: Request, event: Event) -> Request:
        def step(view: View) -> Change | None:
            return None if view.request is None else advance(view.request, event, view.now)

        change = await self._store.transact(request.workspace, request.id, step, hint=request)
        return change.request if change is not None and change.request is not None else request

    def hold(self, request: Request) -> None:
        """The lease is renewed for as long as it takes."""
        self._held[request.id] = _Held(request)
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="assentry-leases", daemon=True)
            self._keeper.start()

    def release(self, request: Request) -> None:
        """The lease is no longer renewed. One that the same request was given later, begun again, still is."""
        held = self._held.get(request.id)
        if held is not None and held.request.fence <= request.fence:
            self._held.pop(request.id, None)

    def close(self) -> None:
        """No lease is renewed any more."""
        self._stopping.set()

    def _keep(self) -> None:
        pause = self.lease.total_seconds() / 3
        while not self._stopping.wait(pause):
            for held in list(self._held.values()):
                if time.monotonic() - held.since >= pause / 2:
                    self._portal.submit(self._renew(held))

    async def _renew(self, held: _Held) -> None:
        if not self._is_held(held):
            return  # released while this waited for its turn; nobody runs it here any more, so its lease is to end
        try:
            held.request = await self._move(held.request, Renew(held.request.fence, self.lease))
        except Conflict:
            if self._is_held(held):  # what was begun again meanwhile keeps its own lease
                self.release(held.request)
        except AssentryError:
            return

    def _is_held(self, held: _Held) -> bool:
        return self._held.get(held.request.id) is held


async def _awaited(result: Any) -> Any:
    return await result


def _run_already(result: Any) -> Any:
    """The result, unless it is one whose work would only begin when somebody uses it."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        result = type(result).__name__
        raise GuardError(
            f"it returned a {result}, whose body has not run; return a list, so that it runs while it is permitted"
        )
    return result


def _charged(view: View, began: Request) -> Run | None:
    """The run when something of it that was held begins in a process that does not hold it.

    What did not have to wait was charged when it was put on record; what is tried again was when it first began.
    """
    run, was = view.run, view.request
    if run is None:
        return None
    if run.is_held:
        raise Held(run)
    if was is None or was.state is not State.APPROVED or not began.ask.candidate.verdict.gate.holds:
        return None
    if not run.state.is_open:
        return None
    candidate = began.candidate
    used = uses(candidate.action, candidate.assessment)
    change = advance_run(run, Charge(cost(candidate.action), used, bool(began.votes)), view.now)
    return change.run if change is not None else None


def _is_permitted(tool: Tool, request: Request) -> None:
    """The stored bytes and the function's schema are those of the permit; whatever changed since is another action."""
    candidate, ask = request.candidate, request.ask
    content = digest(candidate.action.name, tool.schema_text, candidate.args_text)
    permit = digest(content, ask.workspace, ask.agent, ask.run, ask.step)
    if request.permit is None or permit != request.permit.digest:
        raise PermitMismatch(
            f"{tool.name} has another schema here, or other arguments are stored, than request {request.code} was "
            "approved with; nothing ran; propose it again",
            request_id=request.id, code=request.code, state=str(request.state),
        )  # fmt: skip


async def _called(function: Any, done: Done) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(done)
    return await resolved(await in_thread(function, done))
