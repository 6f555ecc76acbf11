"""A run that this process holds: every guarded call inside belongs to it, and it can stop at any of them.

A run that waits for a person either stays (its process waits) or parks: calls beside the one that waits end first and
keep their results, what is needed to go on is committed, and the process is free. Whoever resumes takes the same steps
again; those that are on record give their results back instead of running twice.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.core.change import Change
from assentry.core.decision import Candidate
from assentry.core.request import Request, State
from assentry.core.run import Observation, PlanStep, Run, RunState
from assentry.core.run_life import (
    Failed,
    Finished,
    Live,
    Park,
    Progress,
    RunEvent,
    Stop,
    Stopped,
    advance_run,
)
from assentry.core.situation import Standing
from assentry.engine.flights import Flights
from assentry.engine.office import INSIDE, Held, HeldUp, Office
from assentry.engine.sealing import redacted
from assentry.engine.step_names import StepNames
from assentry.engine.tally import Tally
from assentry.errors import (
    AssentryError,
    Conflict,
    Denied,
    GuardError,
    InvalidArguments,
    Parked,
    PolicyMoved,
    RunStopped,
)
from assentry.ports import View

T = TypeVar("T")

log = logging.getLogger("assentry.runs")

CURRENT: ContextVar["HeldRun | None"] = ContextVar("assentry_run", default=None)
EXCERPT = 500
MOST = Decimal(10**15)
"""What a run can be told to have spent at once; more was never meant."""
SWEEP_SECONDS = 30.0
"""How long a lost notice can keep a run paused that may go on."""


class HeldRun:
    """A run that this process holds: what is put on record of it, the calls inside, and its life here."""

    def __init__(self, office: Office, record: Run, patience: float | None) -> None:
        self._office, self._record, self.patience = office, record, patience
        self.is_over = record.state is RunState.FINISHED
        """It had finished before it was entered: its steps are given back, and nothing is added to it."""
        self._fence = record.fence
        """As it was taken up here. What is heard of later may be somebody else's."""
        self._flights = Flights()
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._put_down = False
        self._names = StepNames(record.id)
        self._tally = Tally(office, record)
        self._keeper: Future[None] | None = None
        self._leave: Callable[[], None] | None = None
        self._lost = False
        self._snapshot: str | None = None
        self.outcome: Json = None
        """What the run came to; on record when it finishes."""

    def patience_for(self, asked: float | None) -> float | None:
        """How long a call waits: as it says itself, else as the run does; inside another call as long as it takes."""
        return None if INSIDE.get() else self.patience if asked is None else asked

    @property
    def record(self) -> Run:
        """The run as last seen."""
        return self._record

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def code(self) -> str:
        return self._record.code

    # What is put on record of it

    def snapshot(self, state: Json) -> None:
        """What `resume` gets back if the run is parked from here on: messages, a task graph, completed steps."""
        self._snapshot = canonical(redacted(self._office.vault, as_json("the state of a run", state)))

    async def keep_snapshot(self) -> None:
        """The state is on record now, and not only once the run parks: its process may die before that."""
        await self._move(lambda fence: Live(fence, self._office.lease), snapshot=self._snapshot)

    async def plan(self, steps: Iterable[str | PlanStep]) -> None:
        """What the agent intends, for people to read."""
        given = [step if isinstance(step, PlanStep) else PlanStep(step) for step in steps]
        made = tuple(PlanStep(str(redacted(self._office.vault, step.says)), step.done) for step in given)
        await self._move(lambda fence: Progress(fence, plan=made))

    async def ticked(self, says: str) -> None:
        """That step of the plan is behind us, whatever came of it; people see it beside every card of the run."""
        plan, wanted = self.record.plan, str(redacted(self._office.vault, says))
        if wanted not in {step.says for step in plan}:
            raise InvalidArguments(f"the plan has no step {wanted!r}; `run.plan` says which steps it has")
        made = tuple(PlanStep(step.says, step.done or step.says == wanted) for step in plan)
        await self._move(lambda fence: Progress(fence, plan=made))

    async def spent(self, amount: float | str | Decimal) -> None:
        """The run has cost so much more."""
        try:
            more = Decimal(str(amount))
        except InvalidOperation:
            raise InvalidArguments("what was spent must be a number") from None
        if not more.is_finite() or not 0 <= more <= MOST:
            raise InvalidArguments(f"what was spent must be a number from 0 to {MOST:g}")
        await self._move(lambda fence: Progress(fence, spend=more))

    async def observed(self, source: str, text: str, *, trusted: bool = False) -> None:
        """Something came back from the world; `trusted` if it cannot carry a stranger's words."""
        clean, name = (str(redacted(self._office.vault, said)) for said in (text, source))
        seen = Observation(name, clean[:EXCERPT], trusted)
        await self._move(lambda fence: Progress(fence, observation=seen))

    async def _checked_in(self) -> None:
        """A person has looked at the run."""
        await self._move(lambda fence: Progress(fence, checked_in=True))

    async def _stop(self, by: str, reason: str) -> None:
        """A person ended the whole run; that somebody was there before changes nothing."""
        try:
            await self._move(lambda _: Stop(by, reason))
        except Conflict:
            await self._look()
            if self._record.state not in (RunState.STOPPING, RunState.STOPPED):
                raise

    # Calls inside

    def key_for(self, name: str, args: Mapping[str, Json]) -> str:
        """The name of the next step that makes this call: the same when the run is taken again from the start."""
        return self._names.step(name, args)

    def steps_within(self, place: Callable[[], str]) -> None:
        """Steps are named by where the agent's framework is when they are taken: it goes on there, not at the start."""
        self._names.place = place

    def taken_again(self) -> None:
        """What waited is taken again from its start, so its steps get the names that they had."""
        self._names.begin_again()

    async def park(self, parked: Sequence[Parked]) -> None:
        """The run ends here until one of these is decided."""
        self._flights.parked.extend(parked[1:])
        await self._flights.park_on(parked[0])
        raise parked[0]

    def key_inside(self, key: str, goal: str) -> str:
        """The name of a run that is entered inside this one: the same when this one is taken again from the start."""
        return self._names.inside(key, goal)

    def entered_inside(self, key: str, inner: "HeldRun") -> None:
        """The run of this name was entered inside this one."""
        self._names.entered(key, lambda: inner.record.state.is_open)

    async def step_on_record(self, key: str) -> Request:
        """The request that this step of a run that had finished made; there is no other."""
        found = await self._office.store.by_step(self._office.workspace, self.id, key)
        if found is None:
            raise GuardError(
                f"run {self.code} had finished, and {key.partition(':')[0]} was not called like this in it; a run "
                "inside another takes the same steps whenever that is resumed, or has a key of its own"
            )
        return found

    def standing(self, now: datetime) -> Standing:
        """Where the run stands, for policy."""
        return self._tally.standing(self._record, now)

    def enter_gate(self, *, flying: bool = False) -> None:
        """A call may be made; raises where the run is parked, stopped, or no longer ours.

        What is `flying` already is waited for by whoever parks the run, so it goes on.
        """
        if self._flights.closed and not flying and not INSIDE.get():
            raise self._flights.parked[0]
        if self._put_down:
            raise RunStopped(self._record.code, self._record.by, self._record.reason)
        if self._lost:
            raise Conflict(
                f"run {self.code} was taken up by another process", request_id=self.id, code=self.code, state="lost"
            )
        if self._record.state in (RunState.STOPPING, RunState.STOPPED):
            raise RunStopped(self._record.code, self._record.by, self._record.reason)

    async def until_going(self, *, for_sure: bool = False, flying: bool = False) -> None:
        """The run may do its next thing. Paused, it waits here; one that has a host puts itself down instead.

        What notices said is believed, unless it must be known `for_sure`: then the record is read.
        """
        if for_sure:
            await self._look()
        self.enter_gate(flying=flying)
        try:
            await self._office.until_go(self._record.agent, self.patience_for(None))
        except RunStopped:
            self._put_down = True
            raise
        while self._record.state is RunState.PAUSED:
            if self.patience_for(None) == 0:
                self._put_down = True
                raise RunStopped(self.code, self._record.by, self._record.reason)
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._changed.wait()
            await self._look()
            self.enter_gate(flying=flying)

    async def once_going(self, make: Callable[[], Awaitable[T]], *, flying: bool = False) -> T:
        """What `make` gave, called while the run goes; paused in that very moment, nothing was put on record."""
        while True:
            await self.until_going(flying=flying)
            # What others spend meanwhile counts: a step is looked at once more in the transaction that records it.
            await self._tally.count_the_day()
            try:
                return await make()
            except Held as held:
                self._saw(held.run)
            except (HeldUp, PolicyMoved):
                await self._office.look_again()

    def run_from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gave, for code without asyncio: it runs where the run lives, and this thread waits."""
        if self._loop is None or self._loop is self._office.portal.loop:
            return self._office.portal.run(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _progress(self, view: View, candidate: Candidate) -> Run | None:
        """The run with one step more, inside the transaction that records the step."""
        return self._tally.progress(view, candidate, self._fence)

    def _begins(self, view: View, request: Request, *, counts: bool = True) -> Run | None:
        """The run when something that was held begins, inside the transaction that records the intent."""
        return self._tally.begins(view, request, self._fence, counts=counts)

    def _read(self) -> None:
        """A call that simply runs was made; it is counted with the next one that is put on record."""
        self._tally.reads += 1

    def _recorded(self, run: Run | None) -> None:
        """A step was put on record, and with it what was counted before."""
        self._tally.reads = 0
        self._saw(run)

    def _saw(self, run: Run | None) -> None:
        """A newer version of the record was committed or heard of."""
        if run is not None and run.version > self._record.version:
            self._record = run
            self._lost = self._lost or run.fence != self._fence
            if self._loop is not None:
                with suppress(RuntimeError):  # a loop that was closed waits for nothing
                    self._loop.call_soon_threadsafe(self._changed.set)

    def in_flight(self) -> AbstractAsyncContextManager[None]:
        """A call is being made; the run does not park before it has ended, or waits for a person itself."""
        return self._flights.flying()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """A call in flight waits for a person: the run may park meanwhile, and then it does not go on."""
        async with self._flights.landed():
            yield
        self.enter_gate()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """What has to wait inside parks the run, and a person who ends more than the one call ends the run."""
        try:
            yield
        except Parked as parked:
            if not INSIDE.get():
                await self._flights.park_on(parked)
            raise
        except Denied as denied:
            if denied.stop:
                await self._stop(denied.by or "a person", denied.reason)
            elif denied.state in (str(State.DENIED), str(State.REVISED)):
                await self._checked_in()
            raise

    # Its life

    async def begin(self) -> None:
        """It is heard and kept alive from now on."""
        self._loop = asyncio.get_running_loop()
        await self._tally.count_the_day()
        if self.is_over:
            return
        self._leave = self._office.hub.listen(self._heard)
        self._keeper = self._office.portal.submit(self._keep())

    def is_ended_by(self, pause: BaseException) -> bool:
        """This very run is what was parked or stopped."""
        if self._put_down or self._record.state in (RunState.STOPPING, RunState.STOPPED):
            return True
        return isinstance(pause, Parked) and pause.request_id in self._flights.waits

    def check_outcome(self) -> None:
        """What the run came to can be kept."""
        as_json("the outcome of a run", self.outcome)

    def raise_again(self) -> None:
        """Whatever the agent's code made of it: what stopped the run stops it still."""
        if self._flights.parked:
            raise self._flights.parked[0]
        if self._record.state is RunState.STOPPED or self._put_down:
            raise RunStopped(self.code, self._record.by, self._record.reason)

    async def end(self, problem: BaseException | None) -> None:
        """The run is parked, stopped, failed or finished, and that is on record."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self._leave is not None:
            self._leave()
        await self._flights.ended()
        waits = self._flights.waits
        if waits and self._record.host:
            self._flights.parked[0].add_note(
                f"run {self.code} is parked: once a person has decided, a worker that has the host "
                f"{self._record.host!r} goes on with it (`assentry worker MODULE:gate`)"
            )
        try:
            await self._move(self._last_event(problem), ends=True, snapshot=self._snapshot, awaiting=waits)
        except Conflict as late:
            log.warning("run %s could not be ended here: %s", self.code, late)

    def _last_event(self, problem: BaseException | None) -> Callable[[int], RunEvent]:
        def event(fence: int) -> RunEvent:
            if self._flights.parked:
                return Park(fence, self._flights.waits)
            if problem is None:
                return Finished(fence, restore(canonical(redacted(self._office.vault, self.outcome))))
            if isinstance(problem, Exception):
                return Failed(fence, self._in_words(problem))
            # Cancelled or interrupted: nothing is known to be wrong with it, so it may be taken up again.
            return Park(fence, ())

        return event

    def _in_words(self, problem: BaseException) -> str:
        """The error as it can be kept, whatever its own words are."""
        try:
            said = str(redacted(self._office.vault, f"{type(problem).__name__}: {problem}"))[:2000]
        except Exception:  # noqa: BLE001  an error that cannot be told is one all the same
            said = type(problem).__name__
        return said.encode(errors="replace").decode()

    def _heard(self, changed: Mapping[str, int] | None) -> None:
        if changed is None or changed.get(f"run:{self.id}", 0) > self._record.version:
            self._office.portal.submit(self._look())

    async def _look(self) -> None:
        try:
            self._saw(await self._office.store.run(self._office.workspace, self.id))
        except AssentryError as problem:
            log.warning("run %s could not be looked at: %s", self.code, problem)

    async def _keep(self) -> None:
        pause = self._office.lease.total_seconds() / 3
        while not self._lost:
            await asyncio.sleep(pause)
            try:
                await self._move(lambda fence: Live(fence, self._office.lease))
            except Conflict:
                self._lost = True
            except AssentryError as problem:
                log.warning("run %s could not show that it lives: %s", self.code, problem)

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

        def step(view: View) -> Change | None:
            if view.run is None:
                raise GuardError(f"run {self.code} is not on record; begin it again")
            stopping = view.run.state is RunState.STOPPING and ends
            made = Stopped(self._fence) if stopping else event(self._fence)
            change = advance_run(view.run, made, view.now)
            return change if change is None else replace(change, snapshot=snapshot)

        office = self._office
        change = await office.store.transact(office.workspace, None, step, run=self.id, awaiting=awaiting)
        self._saw(change.run if change is not None else None)


def as_json(what: str, value: Json) -> Any:
    """`value` as it comes back from JSON; the error says what it is that cannot be kept."""
    try:
        return restore(canonical(value))
    except InvalidArguments as problem:
        raise InvalidArguments(
            f"{what} is kept as JSON: texts, numbers, booleans, None, lists, dicts ({problem})"
        ) from None
