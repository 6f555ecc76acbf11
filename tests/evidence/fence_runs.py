"""A worker is stopped inside a run until another one has taken the run up, and then it goes on: too late.

Stopped before the intent of its next step is on record, it does not take the step any more. Stopped inside the action,
its outcome is unknown and nobody runs it again; the run waits, until its late result is taken because its token still
holds.
"""

import itertools
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from assentry.core.request import State
from assentry.core.run import RunState
from tests import postgres
from tests.evidence import planted
from tests.evidence.crash import placed
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Message, Say, TookTooLong, answer, fork, listen
from tests.evidence.takeover import (
    BEFORE,
    INSIDE,
    LEASES,
    OTHER,
    STOPPED,
    Plan,
    afterwards,
    other_one,
    plans,
    stopped_one,
)
from tests.evidence.world import DATABASES, Ledger, Place

SECONDS = 30.0


def happened(place: Place, trial: Plan) -> dict[str, int]:
    """How often each step had its effect."""
    counts = dict.fromkeys(("0", "1", "2"), 0)
    for lines in Ledger(place.ledger).lines(trial.run).values():
        for line in lines:
            counts[line.step.partition(".")[2]] += 1
    return counts


def most_often(place: Place, trial: Plan) -> int:
    """How often one step had its effect. Stopped in the middle of its commit, the worker held the run when it took the
    step; where the other one has a step of its own, it takes that afterwards, and each of them happens once."""
    if not trial.differs:
        return max(happened(place, trial).values())
    return max((len(lines) for lines in Ledger(place.ledger).lines(trial.run).values()), default=0)


def tried(
    place: Place, trial: Plan, plant: planted.Plant = planted.no_bug, *, in_other: bool = False
) -> tuple[list[str], dict[str, int]]:
    """One worker stopped inside the run, another one in its place, and the first one let go on."""
    go, later = (Path(place.directory) / f"{trial.run}.{name}" for name in ("go", "later"))

    def first(say: Say) -> None:
        (planted.no_bug if in_other else plant)()
        stopped_one(place, trial, go, say)

    def second(say: Say) -> None:
        (plant if in_other else planted.no_bug)()
        other_one(place, trial, later, say)

    a = fork(STOPPED, first)
    if not heard(a, "there"):
        raise TookTooLong(f"{trial.label}: it did not come to its step: {a.heard[-3:]}")
    a.signal(signal.SIGSTOP)
    b = fork(OTHER, second)
    heard(b, "there" if trial.stays else "ended", "waits", "blocked")
    blocked = bool(b.said("blocked"))
    meanwhile = happened(place, trial)
    go.touch()
    a.signal(signal.SIGCONT)
    heard(a, "came")
    later.touch()
    ended = heard(b, "ended") and heard(a, "end")
    wrong = [
        f"{child.name}: {one['trace'][-700:]}" for child in (a, b) for one in [*child.end()] if one["what"] == "crash"
    ]
    if not ended:
        wrong.append(f"it did not end: {[(child.name, child.heard[-2:]) for child in (a, b)]}")
    counts = {"trials": 1, "stopped while it held a lock": int(blocked)}
    if blocked and most_often(place, trial) > 1:
        wrong.append(f"the steps happened so often: {happened(place, trial)}")
    if not blocked and ended and not wrong:
        found = answer(fork("afterwards", lambda say: afterwards(place, trial, say)), within=SECONDS)
        judge = judged_before if trial.point in BEFORE else judged_inside
        wrong += found["wrong"] + judge(trial, a, b, meanwhile, happened(place, trial), found)
        came = a.said("came")[-1]["error"] or "nothing: it got a result"
        counts[f"stopped {'before the intent' if trial.point in BEFORE else 'in the action'}"] = 1
        counts[f"{'before the intent' if trial.point in BEFORE else 'in the action'}: it was told {came}"] = 1
        counts["most often that one run was taken up"] = found["taken_up"]
    return [f"{trial.label}: {what}" for what in wrong], counts


def heard(child: Child, *whats: str) -> bool:
    whats = (*whats, "crash")
    listen([child], time.monotonic() + SECONDS, lambda: any(child.said(what) for what in whats))
    return any(child.said(what) for what in whats[:-1])


def judged_before(
    trial: Plan, a: Child, b: Child, meanwhile: dict[str, int], effects: dict[str, int], found: Message
) -> list[str]:
    """It did not take the step, and the other one did everything there was to do, once."""
    wrong = []
    if meanwhile["1"] != int(not trial.stays):
        wrong.append(f"while it was stopped, the step had happened {meanwhile['1']} times")
    if effects != {"0": 1, "1": 1, "2": 1}:
        wrong.append(f"the steps happened so often: {effects}")
    if found["state"] != str(RunState.FINISHED) or found["outcome"] != "done":
        wrong.append(f"the run is {found['state']}: {found['error']}")
    name = b.said("entered")[-1]["worker"]
    ran = {step: found["ran"].get(step) for step in ("1", "2")}
    wrong += [f"step {step} was run by {by}, and {name} held the run" for step, by in ran.items() if by != [name]]
    own = found["steps"].get("1 of the stopped one", str(State.FAILED))
    if own not in (str(State.APPROVED), str(State.FAILED)):
        wrong.append(f"a step of its own is {own}")
    if a.said("came")[-1]["error"] not in ("LeaseLost", "Conflict", ""):
        wrong.append(f"it was told {a.said('came')[-1]['error']}")
    return wrong


def judged_inside(
    trial: Plan, a: Child, b: Child, meanwhile: dict[str, int], effects: dict[str, int], found: Message
) -> list[str]:
    """The outcome was unknown, nobody tried again, and the run waited; the late result counts, and the run goes on."""
    wrong = []
    if meanwhile["1"] != int(trial.point == "acted"):
        wrong.append(f"while it was stopped, the step had happened {meanwhile['1']} times")
    if effects != {"0": 1, "1": 1, "2": 1}:
        wrong.append(f"the steps happened so often: {effects}")
    if not b.said("waits"):
        wrong.append("the other one did not wait for somebody who knows")
    if found["state"] != str(RunState.FINISHED) or found["outcome"] != "done":
        wrong.append(f"the run is {found['state']}: {found['error']}")
    if found["steps"].get("1") != str(State.DONE) or found["kinds"]["1"][-2:] != [
        "execution.unknown",
        "execution.finished",
    ]:
        wrong.append(f"its token was good, and the step is {found['steps'].get('1')}: {found['kinds'].get('1')}")
    if a.said("came")[-1]["error"]:
        wrong.append(f"it was told {a.said('came')[-1]['error']}")
    return wrong


@dataclass(frozen=True, slots=True)
class Size:
    trials: int
    """Of each case, on each database."""
    control: int
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""


FULL = Size(trials=100, control=8)
SAMPLE = Size(trials=2, control=8, kinds=("postgres",))
CASES = {"before the intent": BEFORE, "in the action": INSIDE}
"""Where it is stopped."""


def run(seed: int, size: Size, progress: Callable[[str], None]) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "fence-runs",
        "a worker stopped inside a run past its lease loses the run to another one: stopped before the intent of its next "
        "step it does not take it any more; stopped in the action, the outcome is unknown, nobody runs it again, and the run "
        "waits until its late result counts; never two effects of one step",
        ("I1", "I7"),
        seed,
        sizes={"trials of each case on each database": size.trials},
        bounds={
            "lease": f"{LEASES[STOPPED].total_seconds()} s",
            "steps": 3,
            "cases": {name: list(CASES[name]) for name in CASES},
        },
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in size.kinds:
            with placed(kind, server, root) as place:
                for case, points in CASES.items():
                    name = f"{kind}: stopped {case}"
                    for trial in itertools.islice(plans(seed, points), 2 * size.trials + 4):
                        _take(outcome, kind, *tried(place, trial))
                        progress(
                            f"{kind}, {case}: {outcome.figures.get(name, 0)}/{size.trials}, {len(outcome.wrong)} wrong"
                        )
                        if outcome.figures.get(name, 0) >= size.trials:
                            break
                    else:
                        outcome.wrong.append(f"{kind}: too few could be stopped {case}")
            outcome.controls.append(_control(kind, server, root, seed, size.control, BEFORE, planted.run_not_asked))
            outcome.controls.append(
                _control(kind, server, root, seed, size.control, INSIDE, planted.unknown_is_run_again)
            )
    outcome.seconds = time.monotonic() - began
    return outcome


def _take(outcome: Outcome, kind: str, wrong: list[str], counts: dict[str, int]) -> None:
    most = f"{kind}: most often that one run was taken up"
    highest = max(outcome.figures.get(most, 0), counts.pop("most often that one run was taken up", 0))
    outcome.take({f"{kind}: {what}": many for what, many in counts.items()}, wrong)
    outcome.figures[most] = highest


def _control(
    kind: str, server: str, root: str, seed: int, most: int, points: tuple[str, ...], plant: planted.Plant
) -> Control:
    name = f"{plant.__name__.replace('_', ' ')}, {kind}"
    means = (plant.__doc__ or "").strip()
    with placed(kind, server, root) as place:
        telling = (trial for trial in plans(seed + 1, points) if trial.differs or points == INSIDE)
        for number, trial in enumerate(itertools.islice(telling, most), 1):
            wrong, _ = tried(place, trial, plant, in_other=points == INSIDE)
            if wrong:
                return Control(name, means, True, number, wrong[0])
    return Control(name, means, False, None)
