"""The agent's side: guard functions, propose calls, ask questions, hear outcomes. There is no method that decides."""

import asyncio
import inspect
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from assentry.core.action import Json, Reach, Risk
from assentry.core.canonical import canonical, restore
from assentry.core.policy import Policy
from assentry.core.request import Request, State
from assentry.core.running import LEASE
from assentry.engine.agent_runs import AgentRuns
from assentry.engine.asking import new_code
from assentry.engine.callers import Callers
from assentry.engine.calls import Calls
from assentry.engine.describing import check_patience, declaration, described, no_such_argument
from assentry.engine.execution import Execution
from assentry.engine.freshness import still_true
from assentry.engine.guard import CONTEXT, Guarded, guarded
from assentry.engine.holding import CURRENT
from assentry.engine.hosting import Fits, Host, HostFunction, begin, begin_inside, called, held, new_run
from assentry.engine.importing import not_while_importing
from assentry.engine.judgement import Context, Judgement
from assentry.engine.notary import Notary
from assentry.engine.office import Held, HeldUp, Office
from assentry.engine.os_user import os_user
from assentry.engine.outcomes import refusal, result_of
from assentry.engine.portal import Portal
from assentry.engine.proposing import Proposer
from assentry.engine.runs import ActiveRun
from assentry.engine.stopping import put_stop, stopped_at
from assentry.engine.tool import Lookup, OptionSpec, Tool, resolved
from assentry.engine.waiting import Hub
from assentry.engine.worker import Worker
from assentry.errors import (
    AssentryError,
    GuardError,
    NotFound,
    Parked,
    PolicyError,
    PolicyMoved,
)
from assentry.ports import Store, Vault

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("assentry.gate")

RETRY_SECONDS = 2.0
SEAL_SECONDS = 60.0
"""How often a gate that may sign puts the log below a new checkpoint; it also does when it closes."""

_MISSING: Any = object()


class Gate(Proposer):
    """What an agent holds. It can propose, wait and hear; it cannot decide."""

    def __init__(
        self,
        store: Store,
        vault: Vault,
        *,
        workspace: str = "default",
        agent: str = "agent",
        fallback: Policy | None = None,
        lease: timedelta = LEASE,
        asked_by: str | None = None,
        portal: Portal | None = None,
        notary: Notary | None = None,
    ) -> None:
        self._store, self._vault, self._workspace = store, vault, workspace
        self._portal = portal or Portal()
        self._notary = notary
        self._sealing: Future[None] | None = None
        self._closed = False
        self._tools: dict[str, Tool] = {}
        self._context = Context(agent=agent)
        self._hub = Hub(store, workspace)
        self._judgement = Judgement(store, workspace, fallback)
        worker = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._execution = Execution(store, vault, self._portal, worker, lease)
        user = asked_by if asked_by is not None else os_user()
        self._callers = Callers(store, workspace, self._portal, lease)
        self._calls = Calls(
            store, workspace, self._judgement, self._execution, self._hub, vault, user, self._tools, self._callers
        )
        self._hosts: dict[str, Host] = {}
        self._office = Office(
            store=store,
            workspace=workspace,
            worker=worker,
            lease=lease,
            hub=self._hub,
            portal=self._portal,
            vault=vault,
            asked_by=user,
            new_code=new_code,
            stop_point=partial(stopped_at, self._calls, self._context),
            stop_put=partial(put_stop, self._calls, self._context),
            ask=self.ask,
            tools=self._tools,
            still_true=partial(still_true, store, self._judgement, vault),
            until_go=self._judgement.until_go,
            look_again=self._judgement.refresh,
            limits=lambda: self._judgement.policy.limits,
            counts_days=lambda: self._judgement.policy.limits.daily is not None,
        )

    @property
    def portal(self) -> Portal:
        """The background loop on which code without asyncio waits."""
        return self._portal

    @property
    def workspace(self) -> str:
        return self._workspace

    @property
    def policy(self) -> Policy:
        """The policy that judges now."""
        return self._judgement.policy

    def tool_named(self, name: str) -> Tool:
        """The guarded action of this name."""
        if name not in self._tools:
            raise GuardError(f"{name} is not guarded in this process")
        return self._tools[name]

    async def start(self) -> None:
        """The policy is loaded, changes to it are heard, and the log is sealed from time to time."""
        await self._store.open()
        await self._judgement.refresh()
        self._hub.listen(self._heard)
        if self._notary is not None:
            self._sealing = self._portal.submit(self._seal_now_and_then(self._notary))

    async def close(self) -> None:
        """Nothing is held open; everything acknowledged is durable, and sealed where there is a key to sign with.

        Again, it does nothing.
        """
        if self._closed:
            return
        self._closed = True
        if self._sealing is not None:
            self._sealing.cancel()
        self._execution.close()
        await self._callers.close()
        self._hub.stop()
        await self._store.flush()
        if self._notary is not None:
            with suppress(AssentryError):
                await self._notary.seal()
        await self._store.close()
        if asyncio.get_running_loop() is not self._portal.loop:
            self._portal.close()

    async def _seal_now_and_then(self, notary: Notary) -> None:
        while True:
            await asyncio.sleep(SEAL_SECONDS)
            try:
                await notary.seal()
            except AssentryError as problem:
                log.warning("the log could not be sealed: %s", problem)

    def _heard(self, changed: Mapping[str, int] | None) -> None:
        if changed is None or any(key.startswith(("policy:", "grant:", "switch:")) for key in changed):
            self._portal.submit(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self._judgement.refresh()
        except PolicyError as problem:
            log.error("the active policy cannot be loaded, so everything that changes something waits: %s", problem)  # noqa: TRY400
            self._judgement.lock_down("it does not load in this version; see the log")
        except AssentryError as problem:
            log.warning("the active policy could not be read and is tried again: %s", problem)
            await asyncio.sleep(RETRY_SECONDS)
            self._portal.submit(self._refresh())

    @overload
    def guard(self, function: Callable[P, R], /, **described: Any) -> Guarded[P, R]: ...

    @overload
    def guard(
        self,
        *,
        name: str = "",
        reversible: bool | None = None,
        reach: Reach | str | None = None,
        outside: bool | None = None,
        money: bool | None = None,
        risk: Risk | str | None = None,
        says: str = "",
        options: Iterable[OptionSpec] | Callable[..., Any] = (),
        if_denied: str = "",
        needed_by: datetime | timedelta | None = None,
        facts: Lookup | None = None,
        refresh: Lookup | bool = False,
        undo: Callable[..., Any] | None = None,
        verify: Callable[..., Any] | None = None,
        idempotent: bool = False,
        inject: Mapping[str, Any] | None = None,
        detached: bool = False,
        patience: float | None = None,
    ) -> Callable[[Callable[P, R]], Guarded[P, R]]: ...

    def guard(  # type: ignore[misc]  # the first overload is short for the second, applied at once
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str = "",
        reversible: bool | None = None,
        reach: Reach | str | None = None,
        outside: bool | None = None,
        money: bool | None = None,
        risk: Risk | str | None = None,
        says: str = "",
        options: Iterable[OptionSpec] | Callable[..., Any] = (),
        if_denied: str = "",
        needed_by: datetime | timedelta | None = None,
        facts: Lookup | None = None,
        refresh: Lookup | bool = False,
        undo: Callable[..., Any] | None = None,
        verify: Callable[..., Any] | None = None,
        idempotent: bool = False,
        inject: Mapping[str, Any] | None = None,
        detached: bool = False,
        patience: float | None = None,
        **unknown: Any,
    ) -> Any:
        """The function, guarded: each call is classified, judged, and runs, waits, parks or is refused.

        `reversible`, `reach`, `outside`, `money` and `risk` declare its effect; what is left out is looked up
        or guessed from names. `patience` is how many seconds a call waits before it raises `Parked` (0: at once;
        None: as long as it takes). `detached` leaves the running to a worker. `refresh` looks up again what an old
        approval depended on, before it runs: a function like `facts`, or `True` for that one.
        """

        if unknown:
            raise no_such_argument(next(iter(unknown)), inspect.getfullargspec(Gate.guard).kwonlyargs)
        check_patience(patience)

        def make(function: Callable[..., Any]) -> Guarded[Any, Any]:
            made = described(
                function,
                name,
                declaration(reversible, reach, outside, money, risk),
                says=says,
                options=options,
                if_denied=if_denied,
                needed_by=needed_by,
                facts=facts,
                refresh=refresh,
                undo=undo,
                verify=verify,
                idempotent=idempotent,
                inject=inject or {},
                detached=detached,
            )
            if made.name in self._tools:
                raise GuardError(f"an action named {made.name!r} is guarded already; pass name= to tell them apart")
            self._tools[made.name] = made
            return Guarded(made, self._calls, self._portal, patience, self._context)

        return guarded(make, function)

    @contextmanager
    def context(self, **said: Any) -> Iterator[None]:
        """Calls inside belong to this agent, run and goal: `with gate.context(agent="cleanup", run="41"):`"""
        if not isinstance(said.get("alternatives", ""), str):  # a single text would be taken apart letter by letter
            said["alternatives"] = tuple(said["alternatives"])
        token = CONTEXT.set(replace(CONTEXT.get() or self._context, **said))
        try:
            yield
        finally:
            CONTEXT.reset(token)

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
        """A run: every guarded call inside belongs to it. `async with gate.run("Tidy up", scope={"files": 50}) as run:`

        `scope` is what it may do. With a `key`, entering again goes on with the same run: steps on record give their
        results back. With a `host` (see `gate.host`) it parks at once where it has to wait, and is resumed by a worker;
        without one its process waits, for `patience` seconds where that is given. A run inside another that can be
        taken up again is known by that one and its own key, or goal and place: once finished it is not taken twice.
        `fits(run, state)` is asked about the last run with this key, and raises where that is not to be gone on with.
        """
        not_while_importing("a run begins")
        if host and host not in self._hosts:
            raise GuardError(f"no host is called {host!r} here; register one with @gate.host({host!r})")
        parent = CURRENT.get()
        if parent is not None and parent.record.host and host:
            raise GuardError(
                f"run {parent.code} has a host and is resumed as a whole; begin a run with a host of its own outside "
                "of it, or this one without a host"
            )
        outer = parent if parent is not None and (parent.record.host or parent.record.key) else None
        made = new_run(
            self._office, goal, agent=agent or (CONTEXT.get() or self._context).agent, original=original, scope=scope,
            host=host, key=key if outer is None else outer.key_inside(key, goal),
            parent="" if parent is None else parent.id,
        )  # fmt: skip
        wait = patience if patience is not _MISSING else 0 if host else None
        # Nothing of it is there yet that could be parked, so even a run with a host waits here while it is paused.
        await self._judgement.until_go(made.agent, None if patience is _MISSING else patience)
        record = await (
            begin(self._office, made, fits) if outer is None else begin_inside(self._office, outer, made, fits)
        )
        async with held(self._office, record, wait) as active:
            if outer is not None:
                outer.entered_inside(key, active)
            yield active

    async def perform(self, goal: str, work: Callable[[ActiveRun], Any], **described: Any) -> Any:
        """What `work(run)` returned, as the outcome of a run: `await gate.perform("Tidy up", tidy, scope=…)`."""
        async with self.run(goal, **described) as run:
            if run.is_over:
                return run.record.outcome
            run.outcome = made = await resolved(work(run))
        return made

    async def begin(self, host: str, state: Json = None, *, goal: str, **described: Any) -> Any:
        """What a host's function returned, called as `resume(state, None)` at the beginning of a run of its own.

        So one function is the whole agent: it begins with `None` and goes on with what was decided.
        """
        async with self.run(goal, host=host, **described) as run:
            if run.is_over:
                return run.record.outcome
            run.snapshot(state)
            if not await self._store.snapshot(self._workspace, run.id):
                await run.keep_snapshot()
            run.outcome = made = await called(self._hosts[host].function, restore(canonical(state)), None)
        return made

    def host(
        self, name: str, *, capacity: int = 10, fits: Fits | None = None
    ) -> Callable[[HostFunction], HostFunction]:
        """Registers `resume(state, resumption)`, which goes on with parked runs that name this host.

        `capacity` is how many of them one worker takes on at once. A plain function runs in a thread.
        `fits(run, state)` is asked before one is taken up: where this code cannot go on with it, it raises
        `GuardError`, and the run stays parked for a worker that can.
        """

        def register(function: HostFunction) -> HostFunction:
            if name in self._hosts:
                raise GuardError(f"a host is called {name!r} already; pass name= to tell them apart")
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise GuardError("a host is a function that returns what the run came to, not a generator")
            self._hosts[name] = Host(function, capacity, fits)
            return function

        return register

    async def outcome(self, request_id: str, patience: float | None = 0) -> Request:
        """The request as it is now, or once it has been decided within `patience`."""
        request = await self._store.request(self._workspace, request_id)
        if request is None:
            raise NotFound(f"there is no request {request_id} in workspace {self._workspace}")
        if patience == 0:
            return request
        try:
            return await self._calls.settled(request, patience)
        except Parked:
            return request

    async def resume(self, request_id: str, patience: float | None = 0, **injected: Any) -> Any:
        """The result of a parked call, run here if it was approved meanwhile; `Parked` if it still waits."""
        not_while_importing("a request is resumed")
        request = await self._store.request(self._workspace, request_id)
        if request is None:
            raise NotFound(f"there is no request {request_id} in workspace {self._workspace}")
        request = await self._calls.settled(request, patience)
        name = request.candidate.action.name
        known = self._tools.get(name)
        if known is None:
            raise GuardError(f"request {request.code} is for {name}, which is not guarded in this process")
        if request.state is State.APPROVED:
            request = await still_true(self._store, self._judgement, self._vault, known, request)
        if request.state is State.PENDING or await self._judgement.is_paused(request):
            raise Parked(request.id, request.code, request.candidate.says)
        if request.state is State.APPROVED:
            reason, version = await self._judgement.objection(known, request)
            if reason:
                raise refusal(await self._execution.withdraw(request, reason))
            try:
                return await self._execution.run(known, request, injected, version)
            except (Held, HeldUp, PolicyMoved):
                await self._judgement.refresh()
                return await self.resume(request_id, patience, **injected)
        return result_of(request, known)

    def agent(self, name: str) -> AgentRuns:
        """The calls and runs of an agent that is elsewhere and whose name was proved: for servers."""
        return AgentRuns(self._calls, self._office, name)

    def leave(self) -> None:
        """Nothing more is heard and no lease is renewed; the store is left open to others."""
        self._execution.close()
        self._callers.leave()
        self._hub.stop()

    def worker(self, *, capacity: int = 10) -> Worker:
        """A worker that runs what is approved for the functions guarded here: `async with gate.worker():`"""
        return Worker(
            self._store, self._workspace, self._hub, self._execution, self._tools, capacity, judgement=self._judgement,
            hosts=self._hosts, office=self._office,
        )  # fmt: skip


def store_of(gate: Gate) -> Store:
    """Where everything is kept, for what is built around a gate: servers, workers, adapters. Agents do not need it."""
    return gate._store
