"""A guarded function: calling it proposes the call; it runs, waits, parks or is refused as policy says."""

import functools
import inspect
import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar

from assentry.core.request import Request, State
from assentry.engine.asking import Prepared
from assentry.engine.calls import Calls
from assentry.engine.holding import CURRENT, HeldRun
from assentry.engine.judgement import Context
from assentry.engine.office import inside
from assentry.engine.outcomes import result_of
from assentry.engine.portal import Portal, on_event_loop
from assentry.engine.threads import in_thread
from assentry.engine.tool import Tool
from assentry.errors import GuardError, Parked

P = ParamSpec("P")
R = TypeVar("R")

UNSAID: Any = object()

CONTEXT: ContextVar[Context | None] = ContextVar("assentry_context", default=None)


class Guarded(Generic[P, R]):
    """What `@gate.guard` makes of a function. Call it as before; `with_` adds what the agent has to say."""

    def __init__(
        self,
        tool: Tool,
        calls: Calls,
        portal: Portal,
        patience: float | None,
        fallback: Context,
        context: Context | None = None,
        bound: tuple[Any, ...] = (),
    ) -> None:
        self._tool, self._calls, self._portal = tool, calls, portal
        self._patience, self._fallback, self._context, self._bound = patience, fallback, context, bound
        if tool.function is not None:
            functools.update_wrapper(self, tool.function)
        if tool.is_async:
            inspect.markcoroutinefunction(self) if hasattr(inspect, "markcoroutinefunction") else None

    @property
    def name(self) -> str:
        """The action's name, as policy and reviewers see it."""
        return self._tool.name

    @property
    def tool(self) -> Tool:
        return self._tool

    def result_of(self, request: Request) -> Any:
        """What an ended request for this function means to its caller: the result, or the error that says why not."""
        return result_of(request, self._calls.tool_for(request, self._tool))

    def with_(self, *, wait: float | None = UNSAID, **said: Any) -> "Guarded[P, R]":
        """The same function with what the agent says about this call: why, goal, confidence, cost, alternatives,
        and `key`, the name of this step within its run, under which a repeated call finds its request again.

        `wait` is how many seconds this call waits before it raises `Parked` (0: at once; None: as long as it takes).
        """
        unknown = said.keys() - Context.__dataclass_fields__.keys()
        if unknown:
            known = ", ".join(sorted(("wait", *(name for name in Context.__dataclass_fields__ if name != "active"))))
            raise GuardError(f"with_() does not know {sorted(unknown)[0]!r}; there are {known}")
        if not isinstance(said.get("alternatives", ""), str):  # a single text would be taken apart letter by letter
            said["alternatives"] = tuple(said["alternatives"])
        context = replace(self._context or CONTEXT.get() or self._fallback, **said)
        patience = self._patience if wait is UNSAID else seconds(wait)
        return Guarded(self._tool, self._calls, self._portal, patience, self._fallback, context, self._bound)

    def __get__(self, instance: Any, owner: type | None = None) -> "Guarded[P, R]":
        if instance is None:
            return self
        return Guarded(
            self._tool, self._calls, self._portal, self._patience, self._fallback, self._context, (instance,)
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._tool.is_async:
            return self.acall(*args, **kwargs)  # type: ignore[return-value]
        return self._blocking_call(args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """The call, awaited; for a synchronous function it runs in a thread."""
        active = CURRENT.get()
        if active is not None:
            await active.until_going()
        prepared = self._prepared(args, kwargs)
        if active is None and self._calls.judgement.switches:
            await self._calls.judgement.until_go(prepared.context.agent, self._patience)
        if self._calls.runs_at_once(prepared):
            self._calls.note(prepared)
            return await self._run_bare(prepared)
        if active is not None:
            return await self._in_run(prepared, active)
        return await self._admitted_and_run(prepared, self._patience)

    async def _in_run(self, prepared: Prepared, active: HeldRun) -> Any:
        """The same inside a run: what waits parks it, and what a person ends with it ends it.

        It is in flight from the start, except while it waits: the run does not park before it has ended, so that no
        sibling is cancelled between its record and its work.
        """
        patience = active.patience_for(self._patience)
        async with active.waiting():
            return await active.once_going(lambda: self._gated(prepared, active, patience))

    async def _gated(self, prepared: Prepared, active: HeldRun, patience: float | None) -> Any:
        async with active.in_flight():
            request = await self._calls.admitted(prepared, patience)
            if request.state is State.UNKNOWN and active.record.host:
                # Whoever finds out how it went wakes the run.
                raise Parked(request.id, request.code, request.candidate.says)
            with inside():
                return await self._run_or_result(prepared, request)

    async def _admitted_and_run(self, prepared: Prepared, patience: float | None) -> Any:
        return await self._run_or_result(prepared, await self._calls.admitted(prepared, patience))

    async def _run_or_result(self, prepared: Prepared, request: Request) -> Any:
        """What came of a request: it is run here if it is ours to run."""
        tool = self._calls.tool_for(request, self._tool)
        if request.state is not State.RUNNING:
            return result_of(request, tool)
        return await self._calls.execution.run(tool, request, prepared.injected)

    def _blocking_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        prepared = self._prepared(args, kwargs)
        if self._calls.judgement.switches:
            self._until_go(prepared)
        if self._calls.runs_at_once(prepared):
            self._calls.note(prepared)
            return self._tool.call(self._values(prepared), prepared.injected)  # type: ignore[no-any-return]
        if on_event_loop():
            raise GuardError(
                f"{self.name} may have to wait for a person, and waiting would stop the event loop it was called on; "
                f"use `await {self.name}.acall(...)`"
            )
        active = prepared.context.active
        if active is not None:
            return active.run_from_thread(self._in_run(prepared, active))  # type: ignore[no-any-return]
        request = self._portal.run(self._calls.admitted(prepared, self._patience))
        tool = self._calls.tool_for(request, self._tool)
        if request.state is not State.RUNNING:
            return result_of(request, tool)  # type: ignore[no-any-return]
        return self._run_here(tool, request, prepared)  # type: ignore[no-any-return]

    def _until_go(self, prepared: Prepared) -> None:
        """No stop switch holds the agent up; on an event loop nobody waits for that."""
        patience = 0 if on_event_loop() else self._patience
        active, agent = prepared.context.active, prepared.context.agent
        if active is not None and not on_event_loop():
            active.run_from_thread(active.until_going())
        else:
            self._portal.run(self._calls.judgement.until_go(agent, patience))

    def _run_here(self, tool: Tool, request: Request, prepared: Prepared) -> Any:
        execution = self._calls.execution
        if tool.is_async:
            return self._portal.run(execution.run(tool, request, prepared.injected))
        try:
            result = execution.call(tool, request, prepared.injected)
        except (Exception, SystemExit) as problem:
            self._portal.run(execution.fail(request, problem))
            raise
        except BaseException:
            execution.release(request)
            raise
        self._portal.run(execution.finish(tool, request, result))
        return result

    async def _run_bare(self, prepared: Prepared) -> Any:
        values = self._values(prepared)
        if self._tool.is_async:
            return await self._tool.call(values, prepared.injected)
        return await in_thread(self._tool.call, values, prepared.injected)

    def _values(self, prepared: Prepared) -> dict[str, Any]:
        signature = self._tool.signature
        assert signature is not None  # noqa: S101  a guarded function has one
        # Bound a moment ago and immutable: validating again could only give the same.
        return dict(prepared.args) if signature.is_flat else signature.values(prepared.args)

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        signature = self._tool.signature
        assert signature is not None  # noqa: S101  a guarded function has one
        plain, injected = signature.bind(self._bound + args, kwargs)
        context = self._context or CONTEXT.get() or self._fallback
        active = CURRENT.get()
        if active is not None:
            context = in_run(context, active, self._tool.name, plain)
        return self._calls.prepare(self._tool, plain, context, injected)


def in_run(context: Context, active: HeldRun, name: str, args: Any) -> Context:
    """The context of a call inside a run: its agent and goal, and a step of its own."""
    active.enter_gate()
    record = active.record
    key = context.key or active.key_for(name, args)
    return replace(context, agent=record.agent, run=record.id, key=key, goal=context.goal or record.goal, active=active)


def seconds(wait: float | None) -> float | None:
    """How long a call waits, if that is a length of time."""
    if wait is None or (type(wait) in (int, float) and 0 <= wait < math.inf):
        return wait
    raise GuardError("wait= must be a number of seconds, 0 or more, or None to wait as long as it takes")


def guarded(make: Callable[[Callable[..., Any]], Any], function: Any) -> Any:
    """`make` applied now, or a decorator that applies it: `@gate.guard` and `@gate.guard(...)` alike."""
    return make if function is None else make(function)
