"""The life of a run: how it begins, and what each event makes of it. `RUN_LEGAL` is the one transition table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from assentry.core.action import Json
from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.copies import replace
from assentry.core.run import Observation, PlanStep, Run, RunState
from assentry.errors import Conflict, LeaseLost

OBSERVATIONS = 50
"""How many observations a run keeps."""


@dataclass(frozen=True, slots=True)
class Enter:
    """A process takes it up: the one that began it, one that has its key, or a host's worker."""

    worker: str
    lease: timedelta
    inside: bool = False
    """The process holds the run around it, so that whoever had this one has lost it."""


@dataclass(frozen=True, slots=True)
class Live:
    """Its process shows that it lives."""

    fence: int
    lease: timedelta


@dataclass(frozen=True, slots=True)
class Progress:
    """What its process did since the last time."""

    fence: int
    steps: int = 0
    spend: Decimal = Decimal(0)
    used: Mapping[str, Decimal] = field(default_factory=dict)
    plan: tuple[PlanStep, ...] | None = None
    observation: Observation | None = None
    confidence: float | None = None
    checked_in: bool = False


@dataclass(frozen=True, slots=True)
class Charge:
    """Something of it was begun by a process that does not hold it: what that costs and uses up."""

    spend: Decimal = Decimal(0)
    used: Mapping[str, Decimal] = field(default_factory=dict)
    checked_in: bool = False


@dataclass(frozen=True, slots=True)
class Park:
    """Its process ends; `waits` are the requests that wake it."""

    fence: int
    waits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    fence: int
    outcome: Json = None


@dataclass(frozen=True, slots=True)
class Failed:
    fence: int
    error: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Its process has noticed that it was stopped."""

    fence: int


@dataclass(frozen=True, slots=True)
class Pause:
    by: str
    reason: str = ""
    switch: str = ""
    """Whose switch it is; empty where it is about this run alone."""


@dataclass(frozen=True, slots=True)
class Continue:
    by: str


@dataclass(frozen=True, slots=True)
class Stop:
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lapse:
    """Time has passed: its process did not show that it lives."""


RunEvent = Enter | Live | Progress | Charge | Park | Finished | Failed | Stopped | Pause | Continue | Stop | Lapse

RUN_LEGAL: dict[RunState, tuple[type, ...]] = {
    RunState.RUNNING: (Enter, Live, Progress, Charge, Park, Finished, Failed, Pause, Stop, Lapse),
    RunState.PARKED: (Enter, Charge, Pause, Stop),
    RunState.ORPHANED: (Enter, Live, Progress, Charge, Park, Finished, Failed, Pause, Stop),
    RunState.PAUSED: (Live, Progress, Park, Finished, Failed, Continue, Stop, Lapse),
    RunState.STOPPING: (Live, Progress, Park, Finished, Failed, Stopped, Lapse),
    RunState.STOPPED: (),
    RunState.FINISHED: (),
    RunState.FAILED: (),
}


def begun(run: Run, worker: str, lease: timedelta, now: datetime) -> Change:
    """The change that puts a new run on record, held by `worker`."""
    run = replace(run, created_at=now, changed_at=now, checked_at=now, worker=worker, due_at=now + lease)
    return Change(entries=(run_entry(run, now, "run.began", run.agent),), run=run, new_run=True)


def advance_run(run: Run, event: RunEvent, now: datetime) -> Change | None:
    """The change that moves `run` on, none if there is nothing to move, or the error saying why not."""
    if not isinstance(event, RUN_LEGAL[run.state]):
        by, why = f" by {run.by}" if run.by else "", f": {run.reason}" if run.reason else ""
        raise Conflict(
            f"run {run.code} is {run.state}{by}{why}",
            request_id=run.id, code=run.code, state=str(run.state),
        )  # fmt: skip
    fence = getattr(event, "fence", None)
    if fence is not None and fence != run.fence:
        raise LeaseLost(
            f"run {run.code} was taken up by another process; this one has no say in it any more",
            request_id=run.id, code=run.code, state=str(run.state),
        )  # fmt: skip
    match event:
        case Enter(worker, lease, inside):
            return _entered(run, worker, lease, inside, now)
        case Live(lease=lease):
            # An orphan that shows that it lives is none.
            state = RunState.RUNNING if run.state is RunState.ORPHANED else run.state
            return _moved(replace(run, state=state, due_at=now + lease), now)
        case Progress():
            return _progressed(run, event, now)
        case Charge(spend, used, checked_in):
            return _progressed(run, Progress(run.fence, spend=spend, used=used, checked_in=checked_in), now)
        case Park(waits=waits):
            return _parked(run, waits, now)
        case Finished(outcome=outcome):
            return _ended(replace(run, outcome=outcome), RunState.FINISHED, now, "run.finished", run.worker)
        case Failed(error=error):
            return _ended(replace(run, error=error), RunState.FAILED, now, "run.failed", run.worker)
        case Stopped():
            return _ended(run, RunState.STOPPED, now, "run.stopped", run.worker)
        case Pause(by, reason, switch):
            paused = replace(run, state=RunState.PAUSED, paused_from=run.state, by=by, reason=reason, switch=switch)
            return _moved(paused, now, "run.paused", by)
        case Continue(by):
            back = run.paused_from or RunState.RUNNING
            gone = replace(run, state=back, paused_from=None, by="", reason="", switch="")
            return _moved(gone, now, "run.continued", by)
        case Stop(by, reason):
            return _stopped(replace(run, by=by, reason=reason, paused_from=None), run.state, now)
        case Lapse():
            return _lapsed(run, now)


def _entered(run: Run, worker: str, lease: timedelta, inside: bool, now: datetime) -> Change:
    is_kept = run.state is RunState.RUNNING and run.worker != worker and run.due_at is not None and now < run.due_at
    if is_kept and not inside:
        raise Conflict(
            f"run {run.code} is held by {run.worker}; wait until it ends, or stop it",
            request_id=run.id, code=run.code, state=str(run.state),
        )  # fmt: skip
    taken = replace(
        run, state=RunState.RUNNING, worker=worker, fence=run.fence + 1, due_at=now + lease, waits=(), parked_at=None
    )
    return _moved(taken, now, "run.entered", worker, fence=taken.fence)


def _progressed(run: Run, event: Progress, now: datetime) -> Change:
    used = dict(run.used)
    for name, amount in event.used.items():
        used[name] = used.get(name, Decimal(0)) + amount
    new = () if event.observation is None else (replace(event.observation, at=now),)
    seen = (*run.observations, *new)[-OBSERVATIONS:]
    steps = run.steps + event.steps
    run = replace(
        run,
        steps=steps,
        spend=run.spend + event.spend,
        used=used,
        plan=run.plan if event.plan is None else event.plan,
        observations=seen,
        confidence=run.confidence if event.confidence is None else event.confidence,
        checked_at=now if event.checked_in else run.checked_at,
        checked_steps=steps if event.checked_in else run.checked_steps,
    )
    return _moved(run, now)


def _parked(run: Run, waits: tuple[str, ...], now: datetime) -> Change:
    if run.state is RunState.STOPPING:
        return _ended(run, RunState.STOPPED, now, "run.stopped", run.worker)
    parked = replace(run, due_at=None, waits=waits, parked_at=now)
    if run.state is RunState.PAUSED:
        parked = replace(parked, paused_from=RunState.PARKED)
    else:
        parked = replace(parked, state=RunState.PARKED)
    return _moved(parked, now, "run.parked", run.worker, waits=list(waits))


def _stopped(run: Run, before: RunState, now: datetime) -> Change:
    """Whoever holds it notices at its next gate; where nobody does, it has ended."""
    held = before is RunState.RUNNING or (before is RunState.PAUSED and run.due_at is not None)
    if held:
        return _moved(replace(run, state=RunState.STOPPING), now, "run.stopping", run.by)
    return _ended(run, RunState.STOPPED, now, "run.stopped", run.by)


def _lapsed(run: Run, now: datetime) -> Change | None:
    if run.due_at is None or now < run.due_at:
        return None
    if run.state is RunState.STOPPING:
        return _ended(run, RunState.STOPPED, now, "run.stopped", run.by)
    # What a host can resume is parked again, on nothing: it may be taken up at once.
    lost = RunState.PARKED if run.host else RunState.ORPHANED
    if run.state is RunState.PAUSED:
        return _moved(replace(run, due_at=None, paused_from=lost), now, "run.orphaned", "time")
    return _moved(replace(run, state=lost, due_at=None, parked_at=now), now, "run.orphaned", "time")


def _ended(run: Run, state: RunState, now: datetime, kind: str, actor: str) -> Change:
    return _moved(replace(run, state=state, due_at=None, waits=(), paused_from=None), now, kind, actor)


def _moved(run: Run, now: datetime, kind: str = "", actor: str = "", **body: Json) -> Change:
    run = replace(run, version=run.version + 1, changed_at=now)
    entries = (run_entry(run, now, kind, actor, **body),) if kind else ()
    return Change(entries=entries, run=run)


def run_entry(run: Run, now: datetime, kind: str, actor: str, **body: Json) -> Entry:
    """An entry about `run`: names, never payloads."""
    named = {"code": run.code, "agent": run.agent, "state": str(run.state), "steps": run.steps}
    return Entry(kind, now, run.workspace, run.id, actor, {**named, **body})
