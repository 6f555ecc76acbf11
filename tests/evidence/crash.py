"""Processes killed with SIGKILL at random instants, on a database that goes on being used."""

import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tests import postgres
from tests.evidence import planted, traffic
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Message, Say, TookTooLong, answer, fork, listen
from tests.evidence.recovery import recover
from tests.evidence.world import KINDS, LEASE, Place, Step

CASTS = {"alone": 1, "apart": 3, "rivals": 4}
"""Everybody in one process; an agent, a person and a worker; the same with two workers that compete."""
LONGEST = 20.0
PER_DATABASE = 120
OF_ITS_OWN = 0.15
"""The share of trials that begin with a database that does not exist yet."""
WHILE_OPENING = 0.15
"""The share of trials that are interrupted before everybody is at work; the others, afterwards."""
WHOLE_LOG_EVERY = 20
Typical = dict[str, tuple[float, float]]
"""How long opening and working take, by cast."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One trial, made from the seed alone: who takes part, what is done, and when it ends."""

    number: int
    cast: str
    steps: tuple[Step, ...]
    opening: bool
    """Kill while processes start and open the database, not while they work."""
    instant: float
    """When to kill, as a share of how long that phase takes."""
    near: int
    """If not 0: kill at the so-manieth edge of an effect instead, and `jitter` seconds later."""
    jitter: float
    kill_recovery: float
    """If not 0: the first recovery is killed after so many seconds, and a second one has to do."""
    fresh: bool

    @property
    def run(self) -> str:
        return f"r{self.number}"


def plan(seed: int, number: int, *, near: bool = False, cast: str = "", kinds: Sequence[str] = KINDS) -> Plan:
    rng = random.Random(f"{seed}/{number}")
    chosen = cast or rng.choices(list(CASTS), [5, 2, 3])[0]
    count = rng.randint(4, 7)
    steps = tuple(
        Step(rng.choice(kinds), f"r{number}.{place}", f"w{rng.randrange(1000)}", rng.randint(0, 5), rng.randint(0, 5))
        for place in range(count)
    )
    return Plan(
        number=number,
        cast=chosen,
        steps=steps,
        opening=rng.random() < WHILE_OPENING and not near,
        instant=rng.random(),
        near=rng.randint(1, 2 * count) if near else 0,
        jitter=rng.random() * 0.004,
        kill_recovery=rng.random() * 0.4 if rng.random() < 0.1 else 0.0,
        fresh=rng.random() < OF_ITS_OWN,
    )


@dataclass(frozen=True, slots=True)
class Bug:
    """What is planted, and in whom."""

    plant: planted.Plant = planted.no_bug
    in_recovery: bool = False

    def breaks(self, work: Callable[[Say], None], *, recovery: bool = False) -> Callable[[Say], None]:
        def broken(say: Say) -> None:
            if self.in_recovery is recovery:
                self.plant()
            work(say)

        return broken


def started(place: Place, trial: Plan, bug: Bug) -> list[Child]:
    """The processes of the trial, at work. The first is the agent's."""
    alone = trial.cast == "alone"

    def agent(say: Say) -> None:
        traffic.act(place, trial.run, trial.steps, say, work=alone, decide=alone)

    works: list[tuple[str, Callable[[Say], None]]] = [("agent", agent)]
    if not alone:
        works.append(("person", lambda say: traffic.decide(place, say)))
        works += [("worker", lambda say: traffic.work(place, say))] * (CASTS[trial.cast] - 2)
    return [fork(name, bug.breaks(work)) for name, work in works]


def interrupted(
    place: Place, trial: Plan, typical: tuple[float, float] | None, bug: Bug
) -> tuple[list[Message], dict[str, int], tuple[float, float]]:
    """The processes were killed at the trial's instant: what they had said, and how long each phase took."""
    began = time.monotonic()
    children = started(place, trial, bug)
    agent = children[0]

    def crashed() -> bool:
        return any(child.said("crash") for child in children)

    def ready() -> bool:
        return all(child.said("ready") for child in children) or crashed()

    def over() -> bool:
        if agent.said("end") or crashed():
            return True
        return bool(trial.near) and sum(len(child.said("trace")) for child in children) >= trial.near

    opening = LONGEST if typical is None or not trial.opening else trial.instant * typical[0]
    is_ready = listen(children, began + opening, ready)
    at_work = time.monotonic()
    if is_ready:
        working = LONGEST if typical is None or trial.near else trial.instant * typical[1]
        reached = listen(children, at_work + working, over)
        if reached and trial.near and not agent.said("end"):
            listen(children, time.monotonic() + trial.jitter, lambda: bool(agent.said("end")))
    took = (at_work - began, time.monotonic() - at_work)
    order = random.Random(trial.number).sample(children, len(children))
    for child in order:
        child.signal(signal.SIGKILL)
    heard = [message for child in order for message in child.end()]
    if not agent.said("end") and max(took) >= LONGEST:
        raise TookTooLong(f"trial {trial.number} was not over after {LONGEST:.0f} s; heard {heard[-5:]}")
    ended = bool(agent.said("end"))
    counts = {"trials": 1, "processes killed": len(children), "ended before the instant": int(ended)}
    if not ended:
        counts["killed near an effect" if trial.near else "killed at a random instant"] = 1
        counts[f"killed: {trial.cast}"] = 1
        counts["killed while opening"] = int(not is_ready)
    return heard, counts, took


def tried(place: Place, trial: Plan, typical: tuple[float, float] | None, bug: Bug, *, whole_log: bool) -> Message:
    """One trial: interrupted, recovered, checked."""
    heard, counts, took = interrupted(place, trial, typical, bug)

    def again(say: Say) -> None:
        recover(place, trial.run, trial.steps, heard, say, whole_log=whole_log)

    if trial.kill_recovery:
        first = fork("recovery to be killed", bug.breaks(again, recovery=True))
        listen([first], time.monotonic() + trial.kill_recovery, lambda: bool(first.heard))
        first.end()
        counts["recoveries killed"] = 1
    found = answer(fork("recovery", bug.breaks(again, recovery=True)), within=300)
    for name, number in found["counts"].items():
        counts[name] = counts.get(name, 0) + number
    crashes = [f"a process failed by itself: {one['trace'][-700:]}" for one in heard if one["what"] == "crash"]
    wrong = [f"trial {trial.number} ({trial.cast}): {what}" for what in found["wrong"] + crashes]
    return {"wrong": wrong, "counts": counts, "took": took, "cast": trial.cast}


@contextmanager
def placed(kind: str, server: str, root: str) -> Iterator[Place]:
    """A database that does not exist yet."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=root))
        if kind == "postgres":
            yield Place(stack.enter_context(postgres.database(server)), directory)
        else:
            yield Place(str(Path(directory) / "assentry.db"), directory)


def middle(took: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The median of each phase."""
    return median(opening for opening, _ in took), median(working for _, working in took)


def calm(kind: str, server: str, root: str, seed: int, say: Say) -> None:
    """One trial of each cast that nobody interrupts: how long they take, and that nothing is wrong with them."""
    with placed(kind, server, root) as place:
        for number, cast in enumerate(CASTS):
            trial = replace(plan(seed, 900_000 + number, cast=cast), kill_recovery=0.0)
            say("trial", number=trial.number, **tried(place, trial, None, Bug(), whole_log=True))


def lane(kind: str, server: str, root: str, trials: Sequence[Plan], typical: Typical, bug: Bug, say: Say) -> None:
    """These trials one after the other; each is said as it ends."""
    known = {cast: [took] for cast, took in typical.items()}
    with ExitStack() as stack:
        place, used = None, 0
        for number, trial in enumerate(trials):
            if place is None or used >= PER_DATABASE:
                stack.close()
                place, used = stack.enter_context(placed(kind, server, root)), 0
            expected = middle(known[trial.cast][-9:])
            if trial.fresh:
                with placed(kind, server, root) as own:
                    result = tried(own, trial, expected, bug, whole_log=True)
            else:
                whole = number % WHOLE_LOG_EVERY == WHOLE_LOG_EVERY - 1 or used == PER_DATABASE - 1
                result = tried(place, trial, expected, bug, whole_log=whole)
                used += 1
            if result["counts"]["ended before the instant"]:
                known[trial.cast].append(result["took"])
            say("trial", number=trial.number, **result)


def sequence(works: Sequence[Callable[[Say], None]], most: float, heard: Callable[[Message], bool]) -> None:
    """Lanes of trials side by side; `heard` is told of each trial, and stops everything by answering true."""
    running = [fork(f"lane {number}", work) for number, work in enumerate(works)]
    told: dict[int, int] = {child.pid: 0 for child in running}
    stop = False

    def look() -> bool:
        nonlocal stop
        for child in running:
            results = child.heard[told[child.pid] :]
            told[child.pid] += len(results)
            for message in results:
                if message["what"] == "crash":
                    raise RuntimeError(f"{child.name} failed:\n{message['trace']}")
                stop = heard(message) or stop
        return stop

    try:
        listen(running, time.monotonic() + most, look)
        look()
    finally:
        for child in running:
            child.end()


BLIND = "disk not synced"
"""What no kill can show: the page cache outlives the process. Run to say so; power loss is another suite's matter."""

CONTROLS: dict[str, tuple[Bug, dict[str, Any], bool]] = {
    "intent after the call": (Bug(planted.intent_after_the_call), {}, True),
    "permit not used up": (
        Bug(planted.permit_not_used_up), {"cast": "rivals", "kinds": ("posted", "queued")}, True,
    ),
    "finish acknowledged too early": (Bug(planted.finish_acknowledged_too_early), {}, True),
    "commit acknowledged too early": (Bug(planted.commit_acknowledged_too_early), {}, True),
    "unknown is run again": (Bug(planted.unknown_is_run_again, in_recovery=True), {}, True),
    BLIND: (Bug(planted.disk_not_synced), {}, False),
}  # fmt: skip


@dataclass(slots=True)
class Stage:
    """Where a suite runs: which database, how many lanes, how long trials take here."""

    kind: str
    server: str
    root: str
    seed: int
    lanes: int
    typical: Typical

    def calm(self, heard: Callable[[Message], bool]) -> None:
        """How long trials take is known."""

        def listened(message: Message) -> bool:
            self.typical[message["cast"]] = tuple(message["took"])
            return heard(message)

        sequence([lambda say: calm(self.kind, self.server, self.root, self.seed, say)], 200, listened)

    def trials(self, trials: Sequence[Plan], bug: Bug, heard: Callable[[Message], bool]) -> None:
        def work(mine: Sequence[Plan]) -> Callable[[Say], None]:
            return lambda say: lane(self.kind, self.server, self.root, mine, self.typical, bug, say)

        works = [work(trials[number :: self.lanes]) for number in range(min(self.lanes, len(trials)))]
        sequence(works, 60 + 5 * len(trials), heard)

    def control(self, name: str, most: int) -> Control:
        """The planted bug, and after how many trials it was found."""
        bug, shape, expected = CONTROLS[name]
        seen: list[Message] = []

        def heard(message: Message) -> bool:
            seen.append(message)
            return bool(message["wrong"])

        self.trials([plan(self.seed, 1_000_000 + number, **shape) for number in range(most)], bug, heard)
        found = [message for message in seen if message["wrong"]]
        said = found[0]["wrong"][0] if found else ""
        means = (bug.plant.__doc__ or "").strip()
        return Control(name, means, bool(found), len(seen) if found else None, said, expected)


@dataclass(frozen=True, slots=True)
class Size:
    """How many trials, which planted bugs, and at most how many trials for each."""

    random: int
    near: int
    controls: tuple[str, ...]
    most: int
    lanes: int = 3


FULL = Size(random=1000, near=250, controls=tuple(CONTROLS), most=300)
SAMPLE = Size(random=5, near=3, controls=("intent after the call",), most=100)


def run(kind: str, seed: int, size: Size, progress: Callable[[str], None]) -> Outcome:
    """The suite on one kind of database."""
    outcome = Outcome(
        f"crash-{kind}",
        "processes killed with SIGKILL at random instants: nothing runs twice, nothing acknowledged is lost, "
        "what began without a recorded end is UNKNOWN and is not run again",
        ("I1", "I2", "I4", "I7", "I9", "I17"),
        seed,
        sizes={"kills at random instants": size.random, "kills near an effect": size.near},
        bounds={
            "steps of a trial": "4 to 7 calls, three at once, eight kinds", "lease": f"{LEASE.total_seconds()} s",
            "an effect takes": "0 to 10 ms", "trials on one database": PER_DATABASE,
            "instants": "uniform over the median duration of the phase (15% opening, 85% working) in trials like it",
        },
    )  # fmt: skip
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server()) if kind == "postgres" else ""
        stage = Stage(kind, server, root, seed, size.lanes, {})
        stage.calm(lambda message: outcome.take(message["counts"], message["wrong"]))
        for name, wanted, near in (
            ("killed at a random instant", size.random, False),
            ("killed near an effect", size.near, True),
        ):
            # Some trials end before their instant comes; more than enough are planned, and those needed are taken.
            trials = [plan(seed, number + 100_000 * near, near=near) for number in range(wanted * 3)]

            def heard(message: Message, name: str = name, wanted: int = wanted) -> bool:
                outcome.take(message["counts"], message["wrong"])
                done = outcome.figures.get(name, 0)
                progress(f"{done}/{wanted} {name}, {len(outcome.wrong)} violations")
                return bool(done >= wanted)

            stage.trials(trials, Bug(), heard)
            if outcome.figures.get(name, 0) < wanted:
                outcome.wrong.append(f"only {outcome.figures.get(name, 0)} trials were {name}")
        for name in size.controls:
            if kind == "sqlite" or name != BLIND:
                progress(f"planted: {name}")
                outcome.controls.append(stage.control(name, size.most if name != BLIND else size.most // 5))
    outcome.seconds = time.monotonic() - began
    return outcome
