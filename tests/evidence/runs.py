"""A run of ten steps whose processes are killed again and again: every step's effect happens at most once.

Whoever comes next is a worker that resumes what its host can resume, and a person who approves what waits, and
looks into what nobody knows the outcome of.
"""

import asyncio
import random
import signal
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import assentry
from assentry.assemble import desk
from assentry.core.decision import Finding
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.engine.runs import ActiveRun
from assentry.errors import AssentryError, RunStopped
from assentry.ports import Filter
from assentry.settings import load
from tests import postgres
from tests.evidence import planted
from tests.evidence.crash import placed
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Message, Say, fork, listen
from tests.evidence.world import AGENT, DATABASES, Ledger, Place, guarded

STEPS = 10
SECONDS = 45.0
ENDED = (RunState.FINISHED, RunState.FAILED, RunState.STOPPED)


@dataclass(frozen=True, slots=True)
class Plan:
    number: int
    kinds: tuple[str, ...]
    delays: tuple[tuple[int, int], ...]
    kills: tuple[float, ...]
    """After so many seconds each."""
    rivals: int

    @property
    def run(self) -> str:
        return f"n{self.number}"


def plan(seed: int, number: int, kills: int = 3) -> Plan:
    rng = random.Random(f"{seed}/run/{number}")
    kinds = tuple(rng.choice(("watched", "watched", "held")) for _ in range(STEPS))
    delays = tuple((rng.randint(0, 6), rng.randint(0, 6)) for _ in range(STEPS))
    return Plan(number, kinds, delays, tuple(rng.uniform(0.02, 0.45) for _ in range(kills)), rng.randint(1, 2))


def steps_forgotten() -> None:
    """A run that is taken again does not know its steps, and takes them all once more."""

    def key_for(self: ActiveRun, name: str, _: Any) -> str:
        return f"{name}:{random.random()}"

    planted.swap(ActiveRun, "key_for", key_for)


def nothing() -> None:
    """No bug."""


def actor(place: Place, trial: Plan, say: Say, plant: Any = nothing) -> None:
    """Begins the run if nobody has, works, approves what waits, and says how the run ended."""
    place.enter()
    plant()
    gate = place.gate()
    tools = guarded(gate, Ledger(place.ledger))

    async def work() -> str:
        for number, (kind, (before, after)) in enumerate(zip(trial.kinds, trial.delays, strict=True)):
            await tools[kind](f"{trial.run}.{number}", f"w{number}", before, after)
        return "done"

    @gate.host("loop")
    async def resume(_: Any, __: Any) -> str:
        return await work()

    async def approve() -> None:
        here = await desk(load({"database": place.database}))
        while True:
            with suppress(AssentryError):
                for request in (await here.inbox.page()).requests:
                    await here.inbox.approve(here.person(), request.id)
                for request in (await here.inbox.page(Filter(states=(State.UNKNOWN,)))).requests:
                    # Whoever looks at the world sees whether it happened.
                    happened = request.id in Ledger(place.ledger).lines(trial.run)
                    finding = Finding.DONE if happened else Finding.FAILED
                    await here.inbox.reconcile(here.person(), request.id, finding)
            await asyncio.sleep(0.01)

    async def main() -> None:
        approving = asyncio.create_task(approve())
        if await gate._store.run_by_key("default", AGENT, trial.run) is None:
            with suppress(assentry.Parked, RunStopped, AssentryError):
                async with gate.run("Ten steps", host="loop", key=trial.run) as run:
                    run.outcome = await work()
        async with gate.worker():
            while True:
                record = await gate._store.run_by_key("default", AGENT, trial.run)
                if record is not None and record.state in ENDED:
                    break
                await asyncio.sleep(0.01)
        approving.cancel()
        page = await gate._store.requests("default", Filter(run=record.id), limit=100)
        states = [str(request.state) for request in page.requests]
        looked = sum(request.state is State.DONE and not request.result_text for request in page.requests)
        told = {"state": str(record.state), "outcome": record.outcome, "error": record.error}
        say("end", **told, states=states, looked=looked)

    asyncio.run(main())


def tried(place: Place, trial: Plan, plant: Any = nothing, within: float = SECONDS) -> tuple[list[str], dict[str, int]]:
    """The run, killed as planned and then left alone; what is wrong with what came of it."""
    counts = {"trials": 1}
    ended: Message | None = None
    for after in trial.kills:
        children = [fork("actor", lambda say: actor(place, trial, say, plant)) for _ in range(trial.rivals)]
        finished = listen(children, time.monotonic() + after, partial(_any_ended, children))
        for child in children:
            child.signal(signal.SIGKILL)
        heard = [message for child in children for message in child.end()]
        if finished:
            ended = next((message for message in heard if message["what"] == "end"), None)
            break
        counts["kills"] = counts.get("kills", 0) + 1
    if ended is None:
        last = fork("actor", lambda say: actor(place, trial, say, plant))
        listen([last], time.monotonic() + within, lambda: bool(last.said("end") or last.said("crash")))
        ended = next((message for message in last.end() if message["what"] in ("end", "crash")), None)
    return judged(place, trial, ended, counts), counts


def _any_ended(children: list[Child]) -> bool:
    return any(child.said("end") for child in children)


def judged(place: Place, trial: Plan, ended: Message | None, counts: dict[str, int]) -> list[str]:
    where = f"run {trial.number}"
    if ended is None:
        return [f"{where}: it neither ended nor awaits anybody"]
    if ended["what"] == "crash":
        return [f"{where}: {ended['trace'][-600:]}"]
    counts[f"ended {ended['state']}"] = counts.get(f"ended {ended['state']}", 0) + 1
    effects: dict[str, int] = {}
    for lines in Ledger(place.ledger).lines(trial.run).values():
        for line in lines:
            effects[line.step] = effects.get(line.step, 0) + 1
    wrong = [f"{where}: {step} happened {many} times" for step, many in effects.items() if many > 1]
    lost = ended["states"].count(str(State.FAILED))
    counts["steps that never happened"] = counts.get("steps that never happened", 0) + lost
    counts["steps somebody had to look into"] = counts.get("steps somebody had to look into", 0) + ended["looked"]
    if ended["state"] == str(RunState.FINISHED) and len(effects) != STEPS:
        wrong.append(f"{where}: it finished, and {STEPS - len(effects)} of its steps never happened")
    if ended["state"] != str(RunState.FINISHED) and not lost:
        wrong.append(f"{where}: it is {ended['state']} ({ended['error']}), and no step of it was lost")
    return wrong


@dataclass(frozen=True, slots=True)
class Size:
    kills: int
    control: int
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""


FULL = Size(kills=1000, control=20)
SAMPLE = Size(kills=6, control=5, kinds=("postgres",))


def run(seed: int, size: Size, progress: Any) -> Outcome:
    outcome = Outcome(
        "crash-runs",
        "a run of ten steps whose processes are killed at random instants goes on elsewhere: each step's effect happens "
        "at most once, and each run ends, after somebody has looked into what nobody knew the outcome of",
        ("I1", "I2"),
        seed,
        sizes={"kills on each database": size.kills},
        bounds={"steps": STEPS, "killed": "up to three times, 20 to 450 ms after each start", "processes": "1 or 2"},
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in size.kinds:
            with placed(kind, server, root) as place:
                number = 0
                while outcome.figures.get(f"{kind}: kills", 0) < size.kills:
                    wrong, counts = tried(place, plan(seed, number))
                    outcome.take({f"{kind}: {what}": many for what, many in counts.items()}, wrong)
                    number += 1
                    progress(
                        f"{kind} {outcome.figures.get(f'{kind}: kills', 0)}/{size.kills}, {len(outcome.wrong)} wrong"
                    )
            outcome.controls.append(_control(kind, server, root, seed, size.control))
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(kind: str, server: str, root: str, seed: int, most: int) -> Control:
    name, means = f"steps forgotten, {kind}", (steps_forgotten.__doc__ or "").strip()
    with placed(kind, server, root) as place:
        for number in range(most):
            wrong, _ = tried(place, plan(seed, 1_000_000 + number), steps_forgotten, within=6)
            if wrong:
                return Control(name, means, True, number + 1, wrong[0])
    return Control(name, means, False, None)
