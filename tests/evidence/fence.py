"""A worker is stopped past its lease, others clear up without it, and then it goes on: its token decides."""

import asyncio
import json
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import assentry
from assentry.assemble import desk, keys_for
from assentry.core.decision import Finding
from assentry.core.request import Request, State
from assentry.engine.gate import Gate
from assentry.errors import StoreBusy
from assentry.settings import load
from assentry.stores.postgres import PostgresStore
from assentry.stores.sqlite import SqliteStore
from tests import postgres
from tests.evidence import planted
from tests.evidence.crash import placed
from tests.evidence.history import complaints
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Message, Say, TookTooLong, answer, fork, listen
from tests.evidence.traffic import perform
from tests.evidence.world import AGENT, LEASE, Ledger, Place, Step, guarded

SECONDS = 30.0
BUSY = 1.0
"""For how long the others try to write while the stopped one may hold the database's lock."""
MEANWHILE = ("wait", "wait", "done", "failed", "retry")
"""What a person does about an unknown outcome before the worker goes on. `retry` asks again, and they approve."""


@dataclass(frozen=True, slots=True)
class Plan:
    number: int
    steps: tuple[Step, ...]
    edge: int
    """It is stopped after so many edges (begun, acted) of its three executions..."""
    instant: float
    """...and so many seconds more."""
    meanwhile: str

    @property
    def run(self) -> str:
        return f"f{self.number}"


def plan(seed: int, number: int, meanwhile: tuple[str, ...] = MEANWHILE) -> Plan:
    rng = random.Random(f"{seed}/{number}")
    steps = tuple(
        Step("queued", f"f{number}.{place}", f"w{place}", rng.randint(0, 40), rng.randint(0, 40)) for place in range(3)
    )
    return Plan(number, steps, rng.randint(1, 6), rng.random() * 0.04, rng.choice(meanwhile))


def quick_gate(place: Place) -> assentry.Gate:
    """As `place.gate()`, but told soon when somebody holds the database's lock."""
    url = place.database
    store: Any = PostgresStore(url, busy_seconds=BUSY) if "://" in url else SqliteStore(url, busy_seconds=BUSY)
    return Gate(store, keys_for(load({"database": url})), agent=AGENT, lease=LEASE)


def stopped_one(place: Place, trial: Plan, say: Say) -> None:
    """Submits its steps and runs them itself, as a worker; says when its last job has ended."""
    place.enter()
    gate = place.gate()
    ledger = Ledger(place.ledger)
    tools = guarded(gate, ledger, lambda at: say("trace", at=at))

    async def main() -> None:
        worker = gate.worker()
        await worker.__aenter__()
        await asyncio.gather(*(perform(gate, tools, ledger, trial.run, step, say) for step in trial.steps))
        await worker.stop()
        say("end")

    asyncio.run(main())


def others(place: Place, trial: Plan, say: Say) -> None:
    """Another worker sweeps; a person says what they think of what is unknown; the states are said."""
    place.enter()

    async def main() -> None:
        gate = quick_gate(place)
        try:
            await gate.start()
            guarded(gate, Ledger(place.ledger))
            here = await desk(load({"database": place.database}))
            await gate.worker().__aenter__()
            requests = await quiet(here, trial)
            unknown = [request for request in requests if request.state is State.UNKNOWN]
            if trial.meanwhile != "wait":
                for request in unknown:
                    await here.inbox.reconcile(here.person(), request.id, Finding(trial.meanwhile), "looked")
                    if trial.meanwhile == "retry":
                        await here.inbox.approve(here.person(), request.id)
            requests = await quiet(here, trial)
        except (StoreBusy, TookTooLong) as busy:
            # Only while the stopped one holds a lock: nobody can write then, and everybody is told so.
            say("answer", blocked=str(busy), unknown=[], states={})
            return
        states = {request.ask.step: str(request.state) for request in requests}
        say("answer", blocked="", unknown=[request.ask.step for request in unknown], states=states)

    asyncio.run(main())


async def quiet(here: Any, trial: Plan) -> list[Request]:
    """The requests once none runs or waits for a worker."""
    until = time.monotonic() + 5
    while True:
        made = [await here.store.by_step("default", trial.run, step.key) for step in trial.steps]
        requests = [request for request in made if request is not None]
        if all(request.state not in (State.RUNNING, State.APPROVED) for request in requests):
            return requests
        if time.monotonic() > until:
            raise TookTooLong("nothing moves while the worker is stopped")
        await asyncio.sleep(0.01)


def afterwards(place: Place, trial: Plan, before: Message, say: Say) -> None:
    """Checked once the stopped one has gone on and ended."""
    place.enter()

    async def main() -> None:
        gate = quick_gate(place)
        await gate.start()
        guarded(gate, Ledger(place.ledger))
        here = await desk(load({"database": place.database}))
        async with gate.worker():
            requests = await quiet(here, trial)
        effects = Ledger(place.ledger).lines(trial.run)
        await here.store.sequence("default")
        wrong: list[str] = []
        counts: dict[str, int] = {}
        for request in requests:
            entries = await here.store.entries("default", subject=request.id)
            kinds = [json.loads(entry.text)["kind"] for entry in entries]
            found = checked(trial, request, before, len(effects.get(request.id, [])), kinds)
            wrong += [f"{request.ask.step}: {what}" for what in found + complaints(request, entries)]
            name = "late result kept as evidence" if "execution.late" in kinds else "late result taken"
            if request.ask.step in before["unknown"]:
                counts[name] = counts.get(name, 0) + 1
        say("answer", wrong=wrong, counts=counts)

    asyncio.run(main())


def checked(trial: Plan, request: Request, before: Message, effects: int, kinds: list[str]) -> list[str]:
    """What is wrong with a request whose worker was stopped."""
    step, wrong = request.ask.step, []
    approvals = 1
    if step in before["unknown"]:
        late = "execution.late" in kinds
        match trial.meanwhile:
            case "wait":
                if request.state is not State.DONE or late:
                    wrong.append(f"its token was good and its result is not on record: it is {request.state}")
            case "retry":
                approvals = 2
                # The lease is so short that the second execution may outlive its own on a busy machine.
                if request.state not in (State.DONE, State.UNKNOWN) or not late:
                    wrong.append(f"it was allowed again; it is {request.state}, late result kept: {late}")
            case found:
                if request.state is not State(found) or not late:
                    wrong.append(f"a person found it {found}; it is {request.state}, late result kept: {late}")
    elif request.state not in (State.DONE, State.UNKNOWN):
        wrong.append(f"it is {request.state}")
    if effects > approvals:
        wrong.append(f"{effects} effects on {approvals} approvals")
    if request.state is State.DONE and not effects:
        wrong.append("it is done without an effect")
    return wrong


def tried(place: Place, trial: Plan, plant: planted.Plant = planted.no_bug) -> tuple[list[str], dict[str, int]]:
    """One worker stopped, and let go on."""

    def work(say: Say) -> None:
        plant()
        stopped_one(place, trial, say)

    child = fork("worker", work)
    if not listen([child], time.monotonic() + SECONDS, lambda: len(child.said("trace")) >= trial.edge):
        raise TookTooLong(f"the worker did not come to work: {child.heard[-3:]}")
    listen([child], time.monotonic() + trial.instant, lambda: bool(child.said("end")))
    child.signal(signal.SIGSTOP)
    before = answer(fork("others", lambda say: others(place, trial, say)), within=2 * SECONDS)
    child.signal(signal.SIGCONT)
    ended = listen([child], time.monotonic() + SECONDS, lambda: bool(child.said("end") or child.said("crash")))
    heard = child.end()
    after = answer(fork("afterwards", lambda say: afterwards(place, trial, before, say)), within=2 * SECONDS)
    wrong = [f"trial {trial.number} ({trial.meanwhile}): {what}" for what in after["wrong"]]
    wrong += [f"trial {trial.number}: {one['trace'][-500:]}" for one in heard if one["what"] == "crash"]
    if not ended:
        wrong.append(f"trial {trial.number}: the worker did not end after it was let go on")
    counts = {"trials": 1, **after["counts"]}
    counts["stopped while it held a lock"] = int(bool(before["blocked"]))
    counts["executions stopped past their lease"] = len(before["unknown"])
    counts["trials with an execution stopped past its lease"] = int(bool(before["unknown"]))
    return wrong, counts


@dataclass(frozen=True, slots=True)
class Size:
    wanted: int
    """On each database, trials in which an execution was stopped past its lease."""
    control: int


FULL = Size(wanted=200, control=60)
SAMPLE = Size(wanted=5, control=40)


def run(seed: int, size: Size, progress: Callable[[str], None]) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "fence",
        "a worker stopped past its lease becomes UNKNOWN and is not run again by others; when it goes on, its result is "
        "taken if its token still holds and kept as evidence otherwise; never two effects for one approval",
        ("I1", "I7"),
        seed,
        sizes={"on each database, trials with an execution stopped past its lease": size.wanted},
        bounds={
            "lease": f"{LEASE.total_seconds()} s",
            "executions of a trial": 3,
            "an effect takes": "0 to 80 ms",
            "stopped": "up to 40 ms after one of the six edges of its executions",
        },
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in ("sqlite", "postgres"):
            name = f"{kind}: trials with an execution stopped past its lease"
            with placed(kind, server, root) as place:
                for number in range(size.wanted * 4):
                    wrong, counts = tried(place, plan(seed, number))
                    outcome.take({f"{kind}: {what}": many for what, many in counts.items()}, wrong)
                    progress(f"{kind} {outcome.figures[name]}/{size.wanted}, {len(outcome.wrong)} violations")
                    if outcome.figures[name] >= size.wanted:
                        break
                else:
                    outcome.wrong.append(f"{kind}: too few executions could be stopped past their lease")
            outcome.controls.append(_control(kind, server, root, seed, size.control))
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(kind: str, server: str, root: str, seed: int, most: int) -> Control:
    plant = planted.token_not_checked
    name, means = f"token not checked, {kind}", (plant.__doc__ or "").strip()
    with placed(kind, server, root) as place:
        for number in range(most):
            wrong, _ = tried(place, plan(seed, 1_000_000 + number, ("failed", "retry")), plant)
            if wrong:
                return Control(name, means, True, number + 1, wrong[0])
    return Control(name, means, False, None)
