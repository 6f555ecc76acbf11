"""DBOS workflows as durable code: DBOS records the steps, Assentry the decisions, and nobody waits in `recv`.

The run and the workflow share one id. Where a guarded call must wait, the attempt ends without an outcome and the
workflow lies on a shelf: a queue that nobody serves. Whoever takes the run up moves it to a queue of this one attempt,
served here and only until it has begun, and DBOS replays it. So Assentry's lease alone says who goes on: DBOS's own
recovery puts a workflow back on the queue of the attempt that had it, where nobody looks.
"""

import asyncio
import functools
import inspect
import json
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from assentry.core.action import Json
from assentry.core.canonical import canonical
from assentry.core.run import RunState
from assentry.engine.gate import Gate, store_of
from assentry.engine.holding import CURRENT
from assentry.engine.hosting import Resumption
from assentry.engine.runs import ActiveRun
from assentry.errors import GuardError, Interrupt, InvalidArguments, RunStopped
from assentry.extras import needs

KNOWN = "a version that Assentry knows comes with `pip install 'assentry[dbos]'`"

with needs("dbos", __name__):
    from dbos import DBOS, DBOSPortableJSONSerializer, SetWorkflowID, WorkflowSerializationFormat, WorkflowStatus
    from dbos import error as dbos_error

    # DBOS's own names: a queue in memory, which other processes do not know, and the loop that serves one.
    from dbos._queue import _INTERNAL_QUEUE_CONSTRUCTION, Queue, queue_worker_thread
    from sqlalchemy import make_url

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("assentry.dbos")

SHELF = "assentry-parked"
"""The queue on which parked workflows lie. It is not registered, so that no process takes from it."""

POLL_SECONDS = 0.005
"""How often DBOS looks for an attempt that is to begin; it does only while there is one."""

LOOK_SECONDS = 1.0
"""How often an attempt that DBOS has not begun looks whether it ever will."""

ENDED = ("SUCCESS", "ERROR", "CANCELLED")
OPEN = ("ENQUEUED", "PENDING")


class TurnedAway(BaseException):
    """This attempt is not the run's. No `Exception`, so that DBOS records no outcome for it."""


class DbosHost:
    """What `dbos_host` makes: decorate workflows with `workflow`, begin them with `start`; workers go on with them."""

    def __init__(self, gate: Gate, dbos: DBOS, name: str, capacity: int) -> None:
        _is_json(dbos)
        _keeps_to_itself(dbos, gate)
        self._gate, self._dbos, self._name = gate, dbos, name
        self._seats: dict[str, _Seat] = {}
        self._workflows: dict[str, Callable[..., Any]] = {}
        gate.host(name, capacity=capacity)(self._resume)

    def workflow(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """The function as a DBOS workflow whose guarded calls belong to the run that `start` begins."""
        if not inspect.iscoroutinefunction(function):
            raise GuardError(f"{function.__qualname__} must be an `async def` to be a workflow that can park")

        @functools.wraps(function)
        async def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
            workflow_id = DBOS.workflow_id or ""
            seat = self._seats.get(workflow_id)
            if seat is None:
                await self._turn_away(function.__qualname__, workflow_id)
            return await seat.take(function(*args, **kwargs))

        made = DBOS.workflow(serialization_type=WorkflowSerializationFormat.PORTABLE)(attempt)
        self._workflows[function.__qualname__] = made
        return made

    async def start(
        self,
        workflow: Callable[..., Coroutine[Any, Any, R]],
        /,
        *args: Any,
        goal: str = "",
        original: str = "",
        scope: Any = None,
        key: str = "",
        agent: str = "",
        **kwargs: Any,
    ) -> R:
        """What the workflow returned, as the outcome of a run. Raises `Parked` where it has to wait for a person.

        `goal`, `original`, `scope`, `key` and `agent` are the run's; everything else is the workflow's.
        """
        if workflow not in self._workflows.values():
            raise GuardError(f"{workflow.__qualname__} is no workflow of this host; decorate it with @host.workflow")
        if DBOS.workflow_id is not None:
            raise GuardError(f"{workflow.__qualname__} is a run of its own; start it outside of DBOS workflows")
        _as_json(f"the arguments of {workflow.__qualname__}", {"args": list(args), "kwargs": kwargs})
        goal = goal or inspect.cleandoc(workflow.__doc__ or workflow.__qualname__).splitlines()[0]
        run: ActiveRun
        async with self._gate.run(goal, agent=agent, original=original, scope=scope, key=key, host=self._name) as run:
            run.snapshot({"workflow": workflow.__qualname__, "id": run.id})
            if await _look(run.id) is None:
                await asyncio.to_thread(_shelve_new, run.id, workflow, args, kwargs)
            run.outcome = await self._go_on(run)
        return run.outcome  # type: ignore[no-any-return]

    def current(self) -> ActiveRun:
        """Inside a workflow: its run, for checkpoints, questions and a plan."""
        run = CURRENT.get()
        if not isinstance(run, ActiveRun) or run.id not in self._seats:
            raise GuardError("this is not inside a workflow of this host; begin it with `host.start(...)`")
        return run

    async def _resume(self, _: Json, __: Resumption | None) -> Json:
        run = CURRENT.get()
        assert isinstance(run, ActiveRun)  # noqa: S101  a host is called inside the run it resumes
        return await self._go_on(run)

    async def _go_on(self, run: ActiveRun) -> Json:
        """The workflow's outcome, after DBOS replayed it here; whatever else ends the attempt is raised."""
        status = await _look(run.id)
        if status is None or status.name not in self._workflows:
            raise GuardError(
                f"the workflow of run {run.code} is not known here: another database or other workflows are in use, "
                "or its process died before it began; start it again"
            )
        if status.status in ENDED:
            return _outcome(status, run)
        if status.app_version != DBOS.application_version:
            await asyncio.to_thread(DBOS.cancel_workflow, run.id)
            raise GuardError(
                f"the code of the workflow changed while run {run.code} was under way: DBOS began it as version "
                f"{status.app_version}, and this is {DBOS.application_version}; start it again, and set "
                "application_version in DBOSConfig where old runs may go on with new code"
            )
        seat = self._seats[run.id] = _Seat(self._gate, run)
        try:
            await asyncio.to_thread(DBOS.resume_workflow, run.id, queue_name=seat.queue)
            seat.served_by(self._dbos)
            return await self._recorded(seat, await self._ended(seat))
        except TurnedAway as problem:
            raise RunStopped(run.code, "DBOS", "its workflow was taken up elsewhere, or will be at once") from problem
        except BaseException as problem:
            if not isinstance(problem, Exception):
                await asyncio.shield(self._put_aside(seat))
            raise
        finally:
            if self._seats.get(run.id) is seat:
                del self._seats[run.id]
            seat.served.set()

    async def _ended(self, seat: "_Seat") -> BaseException | None:
        """How the body ended; none too where DBOS will not begin it, which its record then tells."""
        while not (await asyncio.wait([seat.ended], timeout=LOOK_SECONDS))[0]:
            if seat.is_deserted:
                raise GuardError(f"DBOS did not begin the workflow of run {seat.run.code}: {KNOWN}")
            if not seat.taken:
                status = await _look(seat.run.id)
                if status is None or status.status not in OPEN or status.queue_name != seat.queue:
                    return None
        return seat.ended.result()

    async def _recorded(self, seat: "_Seat", problem: BaseException | None) -> Json:
        """The outcome as DBOS has it; it is written after the body ended, unless the workflow was taken from us."""
        if problem is not None and not isinstance(problem, Exception | dbos_error.DBOSBaseException):
            raise problem
        pause = 0.002
        while True:
            status = await _look(seat.run.id)
            if status is not None and status.status in ENDED:
                return _outcome(status, seat.run, problem)
            if status is None or status.status != "PENDING" or status.queue_name != seat.queue or seat.crowded:
                raise TurnedAway(seat.run.code)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)

    async def _put_aside(self, seat: "_Seat") -> None:
        """The workflow waits on the shelf, or has ended with its run; one that is elsewhere by now is left alone."""
        await seat.leave()
        run, status = seat.run, await _look(seat.run.id)
        if status is None or status.queue_name != seat.queue or status.status not in OPEN:
            return
        if run.record.state in (RunState.STOPPING, RunState.STOPPED):
            await asyncio.to_thread(DBOS.cancel_workflow, run.id)
        else:
            await asyncio.to_thread(DBOS.resume_workflow, run.id, queue_name=SHELF)

    async def _turn_away(self, name: str, workflow_id: str) -> NoReturn:
        """DBOS began it and no run here asked for that: its run does, elsewhere or later; or it has none."""
        record = await store_of(self._gate).run(self._gate.workspace, workflow_id)
        if record is None or not record.state.is_open:
            raise GuardError(f"{name} was not begun as a run; begin it with `host.start({name}, ...)`")
        log.info("run %s is not held here; DBOS's attempt at its workflow ends", record.code)
        raise TurnedAway(record.code)


class _Seat:
    """Where the body of one attempt runs: once, inside its run, on the loop that holds the run."""

    def __init__(self, gate: Gate, run: ActiveRun) -> None:
        self._gate, self.run, self._fence = gate, run, run.record.fence
        self.queue = f"assentry-{run.id}-{self._fence}"
        self.served = threading.Event()
        self._server: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self._body: Future[Any] | None = None
        self.ended: asyncio.Future[BaseException | None] = self._loop.create_future()
        self.crowded = False
        """DBOS began it a second time, so the first attempt can no longer be recorded."""

    @property
    def taken(self) -> bool:
        return self._body is not None

    @property
    def is_deserted(self) -> bool:
        """Nobody took it, and nobody is there who would."""
        return not self.taken and self._server is not None and not self._server.is_alive()

    def served_by(self, dbos: DBOS) -> None:
        """DBOS begins what is on the queue of this attempt, here."""
        queue = Queue(self.queue, polling_interval_sec=POLL_SECONDS, token=_INTERNAL_QUEUE_CONSTRUCTION)
        self._server = threading.Thread(target=queue_worker_thread, args=(self.served, dbos, queue), daemon=True)
        self._server.start()

    async def take(self, call: Coroutine[Any, Any, R]) -> R:
        """What the body returned. Awaited where DBOS runs workflows; its context goes with the body."""
        self.served.set()
        if self.taken:
            call.close()
            self.crowded = True
            raise TurnedAway(self.run.code)
        token = CURRENT.set(self.run)
        try:
            self._body = body = asyncio.run_coroutine_threadsafe(self._bounded(call), self._loop)
            return await asyncio.wrap_future(body)
        finally:
            CURRENT.reset(token)

    async def _bounded(self, call: Coroutine[Any, Any, R]) -> R:
        try:
            result = await self._kept_to(call)
        except BaseException as problem:
            self.ended.set_result(problem)
            raise
        self.ended.set_result(None)
        return result

    async def _kept_to(self, call: Coroutine[Any, Any, R]) -> R:
        """What the body returned; a pause that it swallowed is raised again, before DBOS could record an outcome."""
        try:
            result = await call
        except Interrupt:
            raise GuardError("a DBOS workflow asks with `host.current().ask(...)` or `.checkpoint(...)`") from None
        except Exception:
            if await self._is_lost():
                raise TurnedAway(self.run.code) from None
            raise
        finally:
            self.run.raise_again()
        _as_json("what the workflow returned", result)
        return result

    async def _is_lost(self) -> bool:
        """Another process holds the run; what failed here for that reason is no outcome."""
        record = await store_of(self._gate).run(self._gate.workspace, self.run.id)
        return record is None or record.fence != self._fence

    async def leave(self) -> None:
        """The body has ended; where its run was cancelled, so is it."""
        if self._body is not None and not self.ended.done():
            self._body.cancel()
            await asyncio.wait([self.ended])


def dbos_host(gate: Gate, dbos: DBOS, *, name: str = "dbos", capacity: int = 10) -> DbosHost:
    """A host for DBOS workflows: `host = dbos_host(gate, DBOS(config=...))`, before `DBOS.launch()`.

    A worker of the gate goes on with at most `capacity` of them at once.
    """
    return DbosHost(gate, dbos, name, capacity)


def _shelve_new(run_id: str, workflow: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with SetWorkflowID(run_id):
        DBOS.enqueue_workflow(SHELF, workflow, *args, **kwargs)


async def _look(run_id: str) -> WorkflowStatus | None:
    return await asyncio.to_thread(DBOS.get_workflow_status, run_id)


def _outcome(status: WorkflowStatus, run: ActiveRun, problem: BaseException | None = None) -> Json:
    """What the ended workflow came to, as DBOS has it on record."""
    if status.status == "CANCELLED":
        raise GuardError(f"the workflow of run {run.code} was cancelled in DBOS; start it again if it is still wanted")
    if status.status == "ERROR":
        raise problem or status.error or GuardError(f"the workflow of run {run.code} failed in DBOS")
    return status.output


def _as_json(what: str, value: Any) -> None:
    """A replay gets exactly what the first attempt got."""
    try:
        canonical(value)
        same = json.loads(json.dumps(value)) == value
    except (InvalidArguments, TypeError, ValueError):
        same = False
    if not same:
        raise InvalidArguments(
            f"{what} would change when DBOS keeps it as JSON; use texts, numbers, booleans, None, lists and dicts"
        )


def _is_json(dbos: DBOS) -> None:
    if not isinstance(getattr(dbos, "_serializer", None), DBOSPortableJSONSerializer):
        raise GuardError(
            "DBOS would pickle what it keeps, and whoever can write its database could then run code here; configure "
            'it with "serializer": DBOSPortableJSONSerializer()'
        )


def _keeps_to_itself(dbos: DBOS, gate: Gate) -> None:
    """Two SQLite libraries that open one file in one process drop each other's locks."""
    engine = dbos._config.get("system_database_engine")
    url = engine.url if engine is not None else make_url(dbos._config["system_database_url"] or "sqlite://")
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    theirs, ours = Path(url.database.removeprefix("file:")).resolve(), Path(store_of(gate).address)
    same = theirs == ours.resolve()
    with suppress(OSError):
        same = same or theirs.samefile(ours)
    if same:
        raise GuardError("DBOS is configured to use Assentry's own SQLite file; give it a database of its own")
