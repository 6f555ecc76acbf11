"""A fresh process after the fault: it waits out the lease, lets a worker clear up, and checks everything.

Then the agent's host comes back and takes every step again, under the same keys; and everything is checked again.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import assentry
from assentry.assemble import Desk, desk
from assentry.core.canonical import restore
from assentry.core.request import Executor, Request, State
from assentry.settings import load
from tests.evidence.history import LATER, complaints
from tests.evidence.processes import Message, Say, TookTooLong
from tests.evidence.traffic import decided, perform
from tests.evidence.world import Ledger, Line, Place, Step, guarded

SECONDS = 90.0
"""The longest that clearing up may take."""
LATE = 20.0
"""Longer than this is told: a starved machine, or a wake-up that was lost and made up for by the slow sweep."""


@dataclass(slots=True)
class Findings:
    """What was found wrong, and counts of what was found."""

    wrong: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number


class Recovery:
    """One trial, looked at afterwards."""

    def __init__(self, place: Place, run: str, steps: Sequence[Step], acks: Sequence[Message]) -> None:
        self.place, self.run, self.steps, self.acks = place, run, {step.key: step for step in steps}, acks
        self.ledger = Ledger(place.ledger)
        self.findings = Findings()

    async def done(self, *, whole_log: bool) -> Findings:
        """Recovered, replayed and checked."""
        began = time.monotonic()
        gate = await asyncio.to_thread(self.place.gate)
        here = await desk(load({"database": self.place.database}))
        tools = guarded(gate, self.ledger)
        async with gate.worker():
            await self.settled(here)
        # Read when the worker has stopped: what it had begun may have outlived its short lease and ended late.
        first = await self.found(here)
        effects = self.ledger.lines(self.run)
        self.check_acknowledged(first)
        self.check_first(first, effects)
        async with gate.worker():
            await self.replay(gate, here, tools)
            await self.settled(here, ended=True)
        second = await self.found(here)
        self.findings.count(f"clearing up took more than {LATE:.0f} s", int(time.monotonic() - began > LATE))
        self.check_second(first, second, effects, self.ledger.lines(self.run))
        await self.check_log(here, second, whole=whole_log)
        await gate.close()
        await here.store.close()
        return self.findings

    async def found(self, here: Desk) -> dict[str, Request]:
        """The requests that the steps have made, by step."""
        made = [await here.store.by_step("default", self.run, key) for key in self.steps]
        return {request.ask.step: request for request in made if request is not None}

    async def settled(self, here: Desk, *, ended: bool = False) -> dict[str, Request]:
        """The requests once nothing runs or waits for a worker (or, `ended`, once nothing is left to do)."""
        until = time.monotonic() + SECONDS
        while True:
            requests = await self.found(here)
            busy = [request for request in requests.values() if self.busy(request, ended)]
            if not busy:
                return requests
            if time.monotonic() > until:
                told = ", ".join(f"{one.ask.step} {one.ask.candidate.action.name} {one.state}" for one in busy)
                raise TookTooLong(f"after {SECONDS:.0f} s with a worker these are not settled: {told}")
            await asyncio.sleep(0.01)

    def busy(self, request: Request, ended: bool) -> bool:
        match request.state:
            case State.RUNNING:
                return True
            case State.APPROVED:
                return ended or request.ask.executor is Executor.WORKER
            case State.PENDING:
                return ended
            case State.UNKNOWN:
                return self.steps[request.ask.step].kind in ("verified", "repeatable")
            case _:
                return False

    async def replay(self, gate: assentry.Gate, here: Desk, tools: dict[str, Any]) -> None:
        """The host takes every step again, as one does after a crash; a person decides what still waits."""
        said: list[Message] = []

        def say(what: str, **more: Any) -> None:
            said.append({"what": what, **more})

        calls = [
            asyncio.create_task(perform(gate, tools, self.ledger, self.run, step, say)) for step in self.steps.values()
        ]
        until = time.monotonic() + SECONDS
        while not all(call.done() for call in calls):
            for request in (await here.inbox.page()).requests:
                await decided(here, request, say, "approve")
            await asyncio.wait(calls, timeout=0.01)
            if time.monotonic() > until:
                raise TookTooLong(f"the replay did not end: {await self.where(here, calls)}")
        for call in calls:
            call.result()
        for message in said:
            if message["what"] in ("trouble", "conflict") and self.steps[message["step"]].kind != "proposed":
                self.wrong(message["step"], f"taken again, it met {message}")

    async def where(self, here: Desk, calls: Sequence["asyncio.Task[None]"]) -> str:
        """Where the calls hang that did not end."""
        now = await here.store.now()
        requests = await self.found(here)
        told = []
        for step, call in zip(self.steps.values(), calls, strict=True):
            if not call.done():
                request = requests.get(step.key)
                due = request and request.due_at and f"due in {(request.due_at - now).total_seconds():.1f} s"
                state = f"{request.state} version {request.version} token {request.fence}" if request else "no request"
                told.append(f"{step.kind} {step.key}: {state}, {due}")
        for task in asyncio.all_tasks():
            frames = [f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" for frame in task.get_stack()]
            told.append(f"task {task.get_coro()!r}"[:80] + f" at {frames}")
        return "; ".join(told)

    def wrong(self, step: str, what: str) -> None:
        self.findings.wrong.append(f"{step} ({self.steps[step].kind if step in self.steps else '?'}): {what}")

    def check_acknowledged(self, requests: dict[str, Request]) -> None:
        """Nothing acknowledged is lost."""
        for ack in self.acks:
            what, step = ack["what"], ack.get("step", "")
            if what == "lost":
                self.wrong(step, f"acknowledged, and gone: {ack['text']}")
            if what not in ("submitted", "decided", "finished", "denied"):
                continue
            self.findings.count(f"acknowledged: {what}")
            request = requests.get(step)
            if request is None or request.id != ack["id"]:
                self.wrong(step, f"acknowledged as {what}, and gone")
                continue
            if what == "decided":
                self.check_decision(ack, request)
            if what == "denied" and request.state is not State.DENIED:
                self.wrong(step, f"its caller was told that it is denied, and it is {request.state}")
            if what == "finished" and (request.state is not State.DONE or restore(request.result_text) != ack["key"]):
                self.wrong(step, f"acknowledged as finished, and it is {request.state}")

    def check_decision(self, ack: Message, request: Request) -> None:
        step = request.ask.step
        if request.state not in LATER[State(ack["state"])]:
            self.wrong(step, f"acknowledged as {ack['state']}, and it is {request.state}")
        if request.decided_by != ack["by"] or request.word != ack["word"]:
            self.wrong(step, f"{ack['by']}'s {ack['word']} was acknowledged; it says {request.word!r}")
        if restore(request.candidate.args_text)["word"] != ack["runs"]:
            self.wrong(step, "what would run is not what was decided on")

    def check_first(self, requests: dict[str, Request], effects: dict[str, list[Line]]) -> None:
        """After clearing up: an effect is DONE or UNKNOWN, what began has a result or is UNKNOWN."""
        known = {request.id for request in requests.values()}
        for request_id, lines in effects.items():
            if request_id not in known:
                self.wrong(lines[0].step, "an effect without a request")
        for step, request in requests.items():
            lines = effects.get(request.id, [])
            self.findings.count(f"found {request.state}" + (" with effect" if lines else ""))
            self.check_effects(step, request, lines)
            if request.fence and request.state not in (State.DONE, State.UNKNOWN, State.FAILED):
                self.wrong(step, f"it began and is {request.state}")
            if not request.fence and request.state not in (State.PENDING, State.APPROVED, State.DENIED):
                self.wrong(step, f"it never began and is {request.state}")

    def check_effects(self, step: str, request: Request, lines: list[Line]) -> None:
        kind = self.steps[step].kind
        if len(lines) > 1 and kind != "repeatable":
            self.wrong(step, f"it ran {len(lines)} times")
        if len({line.key for line in lines}) > 1:
            self.wrong(step, "it ran under two idempotency keys")
        if lines and request.state not in (State.DONE, State.UNKNOWN):
            self.wrong(step, f"it has an effect and is {request.state}")
        if lines and not request.fence:
            self.wrong(step, "it has an effect and its intent is not on record")
        if request.state is State.DONE and not lines:
            self.wrong(step, "it is done without an effect")
        if request.state is State.FAILED and kind != "verified":
            self.wrong(step, f"it failed: {request.error}")
        if lines and lines[0].word != restore(request.candidate.args_text)["word"]:
            self.wrong(step, "what ran is not what was approved")

    def check_second(
        self,
        first: dict[str, Request],
        second: dict[str, Request],
        before: dict[str, list[Line]],
        after: dict[str, list[Line]],
    ) -> None:
        """After the replay: unknown stayed unknown, everything else ended, nothing ran twice under any request."""
        for step, request in first.items():
            if request.state not in (State.PENDING, State.APPROVED):
                now = second[step]
                if (now.id, now.state) != (request.id, request.state):
                    self.wrong(step, f"it was {request.state}, and taken again it is {now.state}")
                if before.get(request.id, []) != after.get(request.id, []):
                    self.wrong(step, f"it was {request.state}, was taken again, and ran again")
        by_step: dict[str, set[str]] = {}
        for request_id, lines in after.items():
            by_step.setdefault(lines[0].step, set()).add(request_id)
        for step, ids in by_step.items():
            if len(ids) > 1:
                self.wrong(step, f"{len(ids)} requests of one step ran")
        for step in self.steps:
            request = second.get(step)
            if request is None:
                self.wrong(step, "taken again, it made no request")
                continue
            self.check_effects(step, request, after.get(request.id, []))
            if request.state not in (State.DONE, State.DENIED, State.UNKNOWN, State.FAILED):
                self.wrong(step, f"when faults stopped it came to no end: {request.state}")

    async def check_log(self, here: Desk, requests: dict[str, Request], *, whole: bool) -> None:
        """State and entries agree; the log can be sealed, and what was sealed is what there is."""
        await here.notary.seal()
        for step, request in requests.items():
            entries = await here.store.entries("default", subject=request.id)
            for complaint in complaints(request, entries):
                self.wrong(step, complaint)
            self.findings.count("histories checked")
        if whole:
            report = await here.notary.verify()
            self.findings.count("whole logs verified")
            if not report.ok:
                self.findings.wrong.append(f"the audit log does not verify: {report.faults[0]}")


def recover(
    place: Place, run: str, steps: Sequence[Step], acks: Sequence[Message], say: Say, *, whole_log: bool
) -> None:
    """As a process of its own: says what it found."""
    place.enter()
    try:
        findings = asyncio.run(Recovery(place, run, steps, acks).done(whole_log=whole_log))
    except TookTooLong as late:
        findings = Findings([str(late)])
    say("answer", wrong=findings.wrong[:20], counts=findings.counts)
