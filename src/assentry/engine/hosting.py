"""How runs are taken up: begun, entered again, resumed by a host once a person has decided, and given up."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from uuid_utils.compat import uuid7

from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.core.change import Change
from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.core.run_life import RUN_LEGAL, Enter, Lapse, advance_run, begun
from assentry.core.scope import scope_of
from assentry.core.text import span
from assentry.engine.holding import CURRENT, HeldRun
from assentry.engine.office import Office
from assentry.engine.outcomes import failed_with
from assentry.engine.runs import ActiveRun
from assentry.engine.sealing import redacted
from assentry.engine.threads import in_thread
from assentry.engine.tool import resolved
from assentry.errors import ActionFailed, Conflict, Denied, GuardError, Interrupt, Parked, RunStopped, StaleRequest
from assentry.ports import View


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a host is told when a run goes on."""

    run: Run
    requests: tuple[Request, ...]
    """What it waited for, as decided."""
    waited: timedelta

    @property
    def chosen(self) -> str:
        """The option that a person chose, where they chose one."""
        found = [each.ask.options[each.chosen].label for each in self.requests if each.chosen is not None]
        return found[0] if found else ""

    @property
    def allowed(self) -> bool:
        """Everything it waited for was allowed."""
        return all(request.permit is not None for request in self.requests)

    @property
    def summary(self) -> str:
        """The interruption in words, for the agent's own context."""
        told = [f"The run “{self.run.goal}” was interrupted for {span(self.waited)} and goes on now."]
        told += [_decided_words(request) for request in self.requests]
        told.append("Steps that were finished before are not run again; continue at the one that waited.")
        return " ".join(told)


def _decided_words(request: Request) -> str:
    """What was decided, by whom, and what it changed."""
    people = tuple(dict.fromkeys(vote.by for vote in request.votes)) or (request.decided_by or "nobody",)
    why = f" ({request.reason})" if request.reason else ""
    told = f"{request.candidate.says}: {request.state} by {' and '.join(people)}{why}."
    if request.state is State.ANSWERED:
        told = f"{request.candidate.says} {canonical(request.answer)}, says {request.decided_by or 'nobody'}{why}."
    if request.word in ("modify", "choose"):
        told += " The arguments were changed."
    if request.changes:
        told += f" Since it was first approved: {'; '.join(request.changes)}."
    return told


HostFunction = Callable[[Json, Resumption | None], Awaitable[Json] | Json]
Fits = Callable[[Run, Json], None]
"""Asked with a run and its state before it is taken up; raises where this code cannot go on with it."""


class Unfit(Exception):
    """The code here cannot go on with the run; that of another worker may."""


@dataclass(frozen=True, slots=True)
class Host:
    """What can go on with a parked run, and how many of them at once."""

    function: HostFunction
    capacity: int = 10
    fits: Fits | None = None


PAUSED_SECONDS = 0.5
"""How often a run is looked at that is paused while the one around it goes on."""


@asynccontextmanager
async def held(
    office: Office, record: Run, patience: float | None, kind: type[ActiveRun] = ActiveRun
) -> AsyncIterator[ActiveRun]:
    """The run while this process works on it. Leaving it always says how it stands; a pause cannot be swallowed."""
    active = kind(office, record, patience)
    before = CURRENT.get()
    CURRENT.set(active)
    await active.begin()
    try:
        yield active
        active.check_outcome()
    except Interrupt as asked:
        try:
            await active.interrupted(asked)
        except BaseException as problem:
            await asyncio.shield(active.end(problem))
            raise
        # Nobody had to be asked: it ended here all the same, and its host goes on with it at once.
        await asyncio.shield(active.end(asked))
        raise RunStopped(active.code, active.record.agent, "it interrupted itself, and goes on in a worker") from None
    except BaseException as problem:
        await asyncio.shield(active.end(problem))
        if isinstance(problem, BaseExceptionGroup) or (isinstance(problem, Denied) and problem.stop):
            active.raise_again()  # a pause comes out of a group as a pause, and so does a whole run denied
        raise
    else:
        await asyncio.shield(active.end(None))
        active.raise_again()
    finally:
        CURRENT.set(before)  # not by a token: code without asyncio enters and leaves in different tasks


async def resumed(office: Office, host: Host, run: Run) -> str:
    """How the run stands, in a word, after it was taken up here and went on to its end or the next time it waits.

    Raises `Unfit` where the host's code cannot go on with it; the run is as it was.
    """
    found = [await office.store.request(office.workspace, request_id) for request_id in run.waits]
    try:
        record = await taken_up(office, run, fits=host.fits)
    except GuardError as problem:
        raise Unfit(str(problem)) from problem
    text = await office.store.snapshot(office.workspace, run.id)
    since = run.parked_at or run.changed_at or run.created_at
    told = Resumption(
        record, tuple(request for request in found if request is not None), await office.store.now() - since
    )
    active: ActiveRun | None = None
    try:
        async with held(office, record, 0) as active:
            state = restore(text) if text else None
            active.outcome = await _by_itself(active, called(host.function, state, told))
    except (Parked, RunStopped):
        pass
    return str(active.record.state) if active is not None else "not taken up"


async def _by_itself(active: ActiveRun, work: Coroutine[Any, Any, Any]) -> Any:
    """What the host's function gave. What ends it and is neither this run's pause nor our own end is its failure."""
    try:
        return await work
    except (Parked, RunStopped, Interrupt) as pause:
        if isinstance(pause, Interrupt) or active.is_ended_by(pause):
            raise
        raise GuardError(f"its host let through what stopped something else: {pause}") from pause
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise GuardError("its host was cancelled from inside") from cancelled
    except (SystemExit, GeneratorExit) as left:
        raise GuardError(f"its host tried to end the process ({type(left).__name__})") from left


async def called(function: HostFunction, state: Json, told: Resumption | None) -> Any:
    """What the function gave: a plain one blocks a thread of its own, and guarded calls in it belong to the run."""
    if inspect.iscoroutinefunction(function):
        return await function(state, told)
    return await resolved(await in_thread(function, state, told))


async def lapsed(office: Office) -> None:
    """Runs whose process did not show that it lives are orphaned, or can be resumed again."""
    for run in await office.store.overdue_runs(office.workspace):
        await office.store.transact(office.workspace, None, _lapse, run=run.id)


def _lapse(view: View) -> Change | None:
    run = view.run
    return None if run is None or Lapse not in RUN_LEGAL[run.state] else advance_run(run, Lapse(), view.now)


async def taken_up(office: Office, run: Run, *, inside: bool = False, fits: Fits | None = None) -> Run:
    """The run, held by this process from now on. `inside` another that it holds, whoever had it has it no more.

    What it had parked on is still told by its `waits`: on record it waits for nothing while it runs.
    """
    await _fitting(office, run, fits)
    parked_on: tuple[str, ...] = ()

    def step(view: View) -> Change | None:
        nonlocal parked_on
        if view.run is None:
            raise GuardError(f"run {run.code} is not on record; begin it again")
        parked_on = view.run.waits
        if fits is not None and view.run.fence != run.fence:
            # What was asked about may be another state by now.
            raise Conflict(
                f"run {run.code} was taken up by another process", request_id=run.id, code=run.code,
                state=str(view.run.state),
            )  # fmt: skip
        return advance_run(view.run, Enter(office.worker, office.lease, inside), view.now)

    change = await office.store.transact(office.workspace, None, step, run=run.id)
    assert change is not None  # noqa: S101  entering always changes something
    assert change.run is not None  # noqa: S101
    return replace(change.run, waits=parked_on)


async def _fitting(office: Office, run: Run, fits: Fits | None) -> None:
    """Whoever is asked has not objected."""
    if fits is not None:
        text = await office.store.snapshot(office.workspace, run.id)
        fits(run, restore(text) if text else None)


async def begin(office: Office, made: Run, fits: Fits | None = None) -> Run:
    """A new run on record, or the open one with the same key, held by this process.

    `fits` is asked about the last run with that key, whether it is open or over.
    """
    while True:
        known = await office.store.run_by_key(office.workspace, made.agent, made.key) if made.key else None
        if known is not None and known.state.is_open:
            if known.state in (RunState.PAUSED, RunState.STOPPING):
                raise RunStopped(known.code, known.by, known.reason)
            return await taken_up(office, known, fits=fits)
        if known is not None:
            await _fitting(office, known, fits)
        try:
            change = await office.store.transact(
                office.workspace, None, lambda view: begun(made, office.worker, office.lease, view.now)
            )
        except StaleRequest:
            if not made.key:
                raise
            continue  # another process began it at the same moment
        assert change is not None  # noqa: S101  beginning always makes a run
        assert change.run is not None  # noqa: S101
        return change.run


async def begin_inside(office: Office, outer: HeldRun, made: Run, fits: Fits | None = None) -> Run:
    """A new run inside another, or what became of it before: one that finished is given back as it is.

    Whoever holds the outer one holds those inside, except where they have hosts of their own.
    """
    while True:
        known = await office.store.run_by_key(office.workspace, made.agent, made.key)
        if known is None:
            return await begin(office, made, fits)
        match known.state:
            case RunState.FINISHED:
                return known
            case RunState.FAILED:
                raise ActionFailed(
                    f"run {known.code} was taken before and {failed_with(known.error)}",
                    request_id=known.id, code=known.code, error=known.error,
                )  # fmt: skip
            case RunState.STOPPING | RunState.STOPPED:
                raise RunStopped(known.code, known.by, known.reason)
            case RunState.PAUSED:
                await asyncio.sleep(PAUSED_SECONDS)
                await outer.until_going(for_sure=True)
            case _:
                return await taken_up(office, known, inside=not known.host, fits=fits)


def new_run(
    office: Office, goal: str, *, agent: str, original: str, scope: Any, host: str, key: str, parent: str
) -> Run:
    """A run as asked for, not yet on record."""
    told = redacted(office.vault, {"goal": goal, "original": original})
    return Run(
        id=str(uuid7()),
        code=office.new_code(),
        workspace=office.workspace,
        agent=agent,
        asked_by=office.asked_by,
        created_at=datetime.now(UTC),
        goal=told["goal"],
        original=told["original"],
        scope=scope_of(scope),
        host=host,
        key=key,
        parent=parent,
    )
