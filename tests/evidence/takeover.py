"""Two workers that take up the same run one after the other: where the first one waits to be stopped, and what it did.

Both run the same agent. Nothing here stops, starts or judges them; `fence_runs` does.
"""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import assentry
from assentry.assemble import desk
from assentry.core.request import Request, State
from assentry.core.run import RunState
from assentry.errors import AssentryError, StoreBusy
from assentry.ports import Filter
from assentry.settings import load
from tests.evidence.history import complaints
from tests.evidence.processes import Say
from tests.evidence.world import AGENT, Ledger, Place

STOPPED, OTHER = "stopped", "other"
LEASES = {STOPPED: timedelta(seconds=0.4), OTHER: timedelta(seconds=10)}
"""Short for the one that is stopped; the other one is to keep what it takes."""
STUCK = 5.0
"""After so long it is asked whether the stopped one holds a lock."""
ENDED = (RunState.FINISHED, RunState.FAILED, RunState.STOPPED)
BEFORE, INSIDE = ("host", "record"), ("acting", "acted")
"""In the host function, before the call; where its intent is about to be put on record; in the action, before its
effect and after it."""
ARMED: ContextVar[bool] = ContextVar("armed", default=False)


@dataclass(frozen=True, slots=True)
class Plan:
    number: int
    kind: str
    """watched: the step need not wait. held: a person has allowed it."""
    point: str
    stays: bool = False
    """The other one is still in the run, before the same step, when the stopped one goes on."""
    differs: bool = False
    """The agent does something else when the run is taken again, so that the step of each is one of its own."""

    @property
    def run(self) -> str:
        return f"s{self.number}"

    @property
    def label(self) -> str:
        more = (", the other one stays" if self.stays else "") + (", each its own step" if self.differs else "")
        return f"trial {self.number} ({self.kind}, {self.point}{more})"


def plans(seed: int, points: tuple[str, ...]) -> Iterator[Plan]:
    """Every kind of trial in turn, from somewhere on."""
    variants = [(False, False), (False, True), (True, False), (True, True)] if points == BEFORE else [(False, False)]
    kinds = [
        (kind, point, stays, differs) for kind in ("watched", "held") for point in points for stays, differs in variants
    ]
    random.Random(seed).shuffle(kinds)
    first = 0 if points == BEFORE else 1_000_000
    return (Plan(first + number, *kind) for number, kind in enumerate(itertools.cycle(kinds)))


class Worker:
    """One of the two processes that work on the run. Both run the same agent; they differ in where they wait."""

    def __init__(self, place: Place, trial: Plan, say: Say, name: str, point: str, go: Path) -> None:
        self.place, self.trial, self.say, self.point, self.go = place, trial, say, point, go
        self.name = name if trial.differs else ""
        place.enter()
        self.gate = assentry.open(place.database, agent=AGENT, lease=LEASES[name])
        self.ledger = Ledger(place.ledger)
        self.came = asyncio.Event()
        self._was_there = False
        risks = {"held": "dangerous", "watched": "risky"}
        self.tools: dict[str, Any] = {
            name: self.gate.guard(self.act, name=name, risk=risk, patience=0) for name, risk in risks.items()
        }
        self.gate.host("loop")(self.resume)
        self._transact = self.gate._store.transact
        self.gate._store.transact = self.transact  # type: ignore[method-assign]

    async def act(self, step: str, by: str = "") -> str:
        await self.reach("acting")
        key = self.ledger.append(step, by)
        await self.reach("acted")
        return key

    async def reach(self, point: str) -> None:
        """Waits for the file the first time it comes to its point; told, so that it can be stopped here."""
        if point == self.point and not self._was_there and ARMED.get():
            self._was_there = True
            self.say("there")
            while not self.go.exists():
                await asyncio.sleep(0.002)

    async def transact(self, workspace: str, request_id: str | None, step: Any, **more: Any) -> Any:
        """What need not wait is asked for and begun in one change; what was allowed is begun by a change of its own."""
        if ARMED.get() and (request_id is not None) == (self.trial.kind == "held"):
            await self.reach("record")
        return await self._transact(workspace, request_id, step, **more)

    async def work(self, run: str) -> str:
        await self.tools["held"](f"{run}.0")
        # What an earlier trial may have left is worked on like any other run, and nobody waits for it.
        armed = ARMED.set(run == self.trial.run)
        await self.reach("host")
        try:
            await self.tools[self.trial.kind](f"{run}.1", self.name)
        except BaseException as problem:
            self.told(type(problem).__name__)
            raise
        else:
            self.told("")
        finally:
            ARMED.reset(armed)
        await self.tools["watched"](f"{run}.2")
        return "done"

    def told(self, error: str) -> None:
        if self._was_there and ARMED.get():
            self.say("came", error=error)
            self.came.set()

    async def resume(self, _: Any, resumption: Any) -> str:
        if resumption.run.key == self.trial.run:
            self.say("entered", worker=resumption.run.worker)
        return await self.work(resumption.run.key)

    async def approve(self) -> None:
        here = await desk(load({"database": self.place.database}))
        while True:
            with suppress(AssentryError):
                for request in (await here.inbox.page()).requests:
                    await here.inbox.approve(here.person(), request.id)
            await asyncio.sleep(0.005)


def stopped_one(place: Place, trial: Plan, go: Path, say: Say) -> None:
    """Begins the run, parks it, resumes it, and is stopped; says what came of its step when it went on."""
    it = Worker(place, trial, say, STOPPED, trial.point, go)

    async def main() -> None:
        with suppress(assentry.Parked):
            async with it.gate.run("Three steps", host="loop", key=trial.run) as run:
                run.outcome = await it.work(trial.run)
        approving = asyncio.create_task(it.approve())
        worker = it.gate.worker()
        await worker.__aenter__()
        await it.came.wait()
        approving.cancel()
        await worker.stop()
        say("end")

    asyncio.run(main())


def other_one(place: Place, trial: Plan, go: Path, say: Say) -> None:
    """Takes the run up once the lease is over, and works on it until it has ended."""
    it: Worker | None = None
    while it is None:
        try:
            it = Worker(place, trial, say, OTHER, "host" if trial.stays else "", go)
        except StoreBusy as busy:
            say("blocked", why=str(busy))

    async def main(it: Worker) -> None:
        store = it.gate._store
        run = await store.run_by_key("default", AGENT, trial.run)
        approving = asyncio.create_task(it.approve())
        until, waits = time.monotonic() + STUCK, False
        async with it.gate.worker():
            while True:
                record = await store.run("default", run.id)
                if record.state in ENDED:
                    break
                if record.state is RunState.PARKED and not waits:
                    states = _states((await store.requests("default", Filter(run=run.id), limit=10)).requests)
                    if waits := states.get("1") == str(State.UNKNOWN):
                        say("waits", steps=states)
                if time.monotonic() > until:
                    until = time.monotonic() + STUCK
                    try:
                        await it._transact("default", None, lambda _: None, run=run.id)
                    except StoreBusy as busy:
                        say("blocked", why=str(busy))
                await asyncio.sleep(0.005)
        approving.cancel()
        requests = (await store.requests("default", Filter(run=run.id), limit=10)).requests
        say("ended", state=str(record.state), error=record.error, steps=_states(requests))

    asyncio.run(main(it))


def _states(requests: tuple[Request, ...]) -> dict[str, str]:
    return {_step(request): str(request.state) for request in requests}


def _step(request: Request) -> str:
    """Its number; where each one took a step of its own, that of the stopped one is named so."""
    args = json.loads(request.candidate.args_text)
    return str(args["step"]).partition(".")[2] + (" of the stopped one" if args["by"] == STOPPED else "")


def afterwards(place: Place, trial: Plan, say: Say) -> None:
    """How everything stands when both have ended."""
    place.enter()

    async def main() -> None:
        here = await desk(load({"database": place.database}))
        run = await here.store.run_by_key("default", AGENT, trial.run)
        await here.store.sequence("default")
        requests = (await here.store.requests("default", Filter(run=run.id), limit=10)).requests
        wrong, ran, kinds = [], {}, {}
        for request in requests:
            entries = await here.store.entries("default", subject=request.id)
            wrong += [f"step {_step(request)}: {what}" for what in complaints(request, entries)]
            told = [json.loads(entry.text) for entry in entries]
            kinds[_step(request)] = [entry["kind"] for entry in told]
            ran[_step(request)] = [entry["actor"] for entry in told if entry["kind"] == "execution.began"]
        own = [json.loads(entry.text) for entry in await here.store.entries("default", subject=run.id)]
        taken_up = sum(entry["kind"] == "run.entered" for entry in own)
        say(
            "answer",
            wrong=wrong, ran=ran, kinds=kinds, steps=_states(requests), state=str(run.state), error=run.error,
            outcome=run.outcome, taken_up=taken_up,
        )  # fmt: skip

    asyncio.run(main())
