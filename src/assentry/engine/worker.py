"""What operations run: execution for callers that are gone, undo, unknown outcomes, and the passing of time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from assentry.core.request import Request, State
from assentry.core.run import Run
from assentry.engine.callers import clear
from assentry.engine.deadlines import sweep
from assentry.engine.execution import Execution
from assentry.engine.hosting import Host, Unfit, lapsed, resumed
from assentry.engine.judgement import Judgement
from assentry.engine.office import Held, HeldUp, Office
from assentry.engine.tool import Tool
from assentry.engine.waiting import Hub
from assentry.errors import AssentryError, Conflict, PolicyMoved, StoreError
from assentry.ports import Store

log = logging.getLogger("assentry.worker")

SWEEP_SECONDS = 30.0
CLEAR_SECONDS = 10.0
"""How often a worker looks for processes that are gone while requests wait for them."""
TROUBLE_SECONDS = 1.0
"""How long a worker waits after the database could not be used."""


class Worker:
    """Takes what is approved for the functions this process has, moves time on, and takes things back."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        hub: Hub,
        execution: Execution,
        tools: Mapping[str, Tool],
        capacity: int = 10,
        *,
        judgement: Judgement,
        hosts: Mapping[str, Host],
        office: Office,
    ) -> None:
        self._store, self._workspace, self._hub, self._execution = store, workspace, hub, execution
        self._judgement, self._hosts, self._office = judgement, hosts, office
        self._hosting: Counter[str] = Counter()
        self._tools, self._capacity = tools, capacity
        self._busy: set[str] = set()
        self._clear_at = 0.0
        self._later: dict[str, tuple[int, float]] = {}
        self._task: asyncio.Task[None] | None = None
        self._jobs: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Worker":
        self._task = asyncio.create_task(self.serve())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """No new work is taken, and what was begun has ended."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*self._jobs, return_exceptions=True)

    async def serve(self) -> None:
        """Works until cancelled: woken by notices and by the next deadline, with a slow sweep behind them."""
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        wake.set()

        def heard(changed: Mapping[str, int] | None) -> None:
            if changed is not None and any(key.startswith("switch:") for key in changed):
                loop.call_soon_threadsafe(self._later.clear)
            loop.call_soon_threadsafe(wake.set)

        leave = self._hub.listen(heard)
        try:
            while True:
                wake.clear()
                try:
                    pause = await self._round(wake)
                except AssentryError as problem:
                    log.warning("the worker could not work: %s", problem)
                    pause = TROUBLE_SECONDS
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await wake.wait()
        finally:
            leave()

    async def _round(self, wake: asyncio.Event) -> float:
        """Everything due has moved and everything runnable has a job; how long there is nothing to do."""
        began = _now()
        await sweep(self._store, self._workspace)
        if began >= self._clear_at:
            await clear(self._store, self._workspace)
            self._clear_at = began + CLEAR_SECONDS
        room = self._capacity - len(self._busy)
        for request in await self._takeable(room) if room > 0 else ():
            self._busy.add(request.id)
            job = asyncio.create_task(self._job(request, wake))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        await lapsed(self._office)
        if self._hosts:
            await self._resume_some(wake)
        now = _now()
        # Also what was left alone when this round looked and has fallen due since: it is the next round's.
        pause = min([CLEAR_SECONDS, *(until - now for _, until in self._later.values() if until > began)])
        due = await self._store.next_due(self._workspace)
        if due is not None:
            pause = min(pause, (due - await self._store.now()).total_seconds())
        return max(0.01, pause)

    async def _resume_some(self, wake: asyncio.Event) -> None:
        """Every parked run that can go on here has a job, as far as its host has room."""
        for run in await self._resumable():
            host = self._hosts[run.host]
            if self._hosting[run.host] >= host.capacity:
                continue
            self._busy.add(run.id)
            self._hosting[run.host] += 1
            job = asyncio.create_task(self._resumption(run, host, wake))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _resumable(self) -> list[Run]:
        """The oldest parked runs that may go on here. Those that may not do not hide the ones behind them."""
        limit = 2 * self._capacity
        while True:
            open_hosts = [name for name, host in self._hosts.items() if self._hosting[name] < host.capacity]
            found = await self._store.resumable(self._workspace, open_hosts, limit=limit)
            free = [run for run in found if self._can_resume(run)]
            if len(free) >= self._capacity or len(found) < limit:
                return free
            limit *= 4

    def _can_resume(self, run: Run) -> bool:
        if self._judgement.held_up(run.agent) is not None:
            self._leave(run.id, run.version, SWEEP_SECONDS)
            return False
        return run.id not in self._busy and not self._is_left(run.id, run.version)

    async def _resumption(self, run: Run, host: Host, wake: asyncio.Event) -> None:
        try:
            log.info("run %s goes on: %s", run.code, run.goal)
            log.info("run %s %s", run.code, await resumed(self._office, host, run))
        except Conflict:
            self._leave(run.id, run.version, SWEEP_SECONDS)
            log.info("run %s was taken up by another worker", run.code)
        except Unfit as problem:
            self._leave(run.id, run.version, SWEEP_SECONDS)
            log.warning("run %s is left as it is: %s", run.code, problem)
        except StoreError as problem:
            self._leave(run.id, run.version, TROUBLE_SECONDS)
            log.warning("run %s could not be resumed: %s", run.code, problem)
        except Exception as problem:
            self._leave(run.id, run.version, SWEEP_SECONDS)
            log.warning("run %s failed", run.code, exc_info=problem)
        finally:
            self._busy.discard(run.id)
            self._hosting[run.host] -= 1
            wake.set()

    def _is_left(self, key: str, version: int) -> bool:
        seen, until = self._later.get(key, (0, 0.0))
        return seen == version and _now() < until

    async def _takeable(self, room: int) -> list[Request]:
        """The oldest requests that this process can move. Those it cannot move do not hide the ones behind them."""
        limit = self._capacity + room
        while True:
            found = await self._store.runnable(self._workspace, tuple(self._tools), limit)
            free = [request for request in found if request.id not in self._busy and self._can(request)]
            if len(free) >= room or len(found) < limit:
                return free[:room]
            limit *= 4

    def _can(self, request: Request) -> bool:
        tool = self._tools[request.candidate.action.name]
        if self._is_left(request.id, request.version):
            return False
        match request.state:
            case State.UNDO_ASKED:
                return tool.undo is not None
            case State.UNKNOWN:
                return (tool.verify is not None or tool.idempotent) and not request.undoing
            case _:
                return tool.function is not None

    async def _job(self, request: Request, wake: asyncio.Event) -> None:
        tool = self._tools[request.candidate.action.name]
        try:
            if request.state is State.APPROVED:
                request = await self._office.still_true(tool, request)
            match request.state:
                case State.PENDING:
                    log.info("request %s is asked again: what it depends on has changed", request.code)
                case State.UNDO_ASKED:
                    await self._execution.undo(tool, request)
                case State.UNKNOWN if tool.verify is None and self._judgement.held_up(request.ask.agent) is not None:
                    self._leave(request.id, request.version, SWEEP_SECONDS)
                case State.UNKNOWN if tool.verify is not None:
                    if (await self._execution.verify(tool, request)).state is State.UNKNOWN:
                        self._leave(request.id, request.version, SWEEP_SECONDS)
                case State.APPROVED if await self._judgement.is_paused(request):
                    self._leave(request.id, request.version, TROUBLE_SECONDS)
                case State.APPROVED:
                    reason, version = await self._judgement.objection(tool, request)
                    if reason:
                        log.warning("request %s is approved and is not run: %s", request.code, reason)
                        await self._execution.withdraw(request, reason)
                    else:
                        await self._execution.run(tool, request, {}, version)
                case _:
                    await self._execution.run(tool, request, {})
        except (Held, HeldUp):
            self._leave(request.id, request.version, TROUBLE_SECONDS)
        except PolicyMoved:
            await self._judgement.refresh()  # and it is looked at again at once
        except Conflict:
            self._leave(request.id, request.version, SWEEP_SECONDS)
            log.info("request %s was taken by another worker", request.code)
        except StoreError as problem:
            self._leave(request.id, request.version, TROUBLE_SECONDS)
            log.warning("request %s could not be moved: %s", request.code, problem)
        except Exception as problem:  # noqa: BLE001  the function's own error is on record; the worker goes on
            self._leave(request.id, request.version, SWEEP_SECONDS)
            log.info("request %s ended in %s", request.code, type(problem).__name__)
        finally:
            self._busy.discard(request.id)
            wake.set()

    def _leave(self, key: str, version: int, seconds: float) -> None:
        """The request or run is left alone for so long, or until it has changed."""
        now = _now()
        self._later = {key: left for key, left in self._later.items() if left[1] > now}
        self._later[key] = (version, now + seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()
