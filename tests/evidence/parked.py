"""A worker with 100,000 parked runs beside one with ten: as large, as idle, and as quick when somebody decides."""

import asyncio
import importlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

from assentry.assemble import desk
from assentry.core.run import RunState
from assentry.settings import load
from tests import postgres
from tests.evidence import serving
from tests.evidence.crowd import book, multiplied, pair
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Say, TookTooLong, answer, fork
from tests.evidence.world import DATABASES, Place

ROOT = Path(__file__).parent.parent.parent
SERVED = "tests.evidence.parked_host:gate"
MADE = 100
"""So many runs are made by an agent; beyond that they are copied."""
AT_ONCE = 8
LOOKS = 5
"""So often each page is looked at, so that what a server keeps of it is there."""
MEGABYTES = 5.0
SHARE = 0.01
MILLISECONDS = 5.0
START_SECONDS = 60.0
RESUME_SECONDS = 60.0
Progress = Callable[[str], None]
Aim = tuple[str, str]
"""A run and the request that it waits for."""


@dataclass(frozen=True, slots=True)
class Size:
    few: int
    many: int
    decisions: int
    settle: float
    idle: float
    """Seconds before, and for which, the workers are watched doing nothing."""
    measured: bool
    """Whether the bounds hold for this; on a machine that is busy with tests only what happens is looked at."""
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""


FULL = Size(few=10, many=100_000, decisions=50, settle=20.0, idle=65.0, measured=True)
"""A worker looks after itself twice a minute and seals the log once; both are within the time it is watched."""
SAMPLE = Size(few=10, many=200, decisions=4, settle=0.0, idle=0.5, measured=False, kinds=("sqlite",))


@dataclass(slots=True)
class Served:
    """A database, the worker on it, and the pipe through which its host function speaks."""

    name: str
    place: Place
    worker: Child
    pipe: int

    @property
    def megabytes(self) -> float:
        return psutil.Process(self.worker.pid).memory_info().rss / 2**20

    @property
    def cpu_seconds(self) -> float:
        spent = psutil.Process(self.worker.pid).cpu_times()
        return spent.user + spent.system


@contextmanager
def served(name: str, place: Place, *, planted: bool = False) -> Iterator[Served]:
    """A real `assentry worker`, at work."""
    reader, writer = os.pipe()
    log = Path(place.directory) / f"{name}.log"

    def work(_: Say) -> None:
        place.enter()
        os.set_inheritable(writer, True)
        os.environ |= {"ASSENTRY_DATABASE": place.database, "ASSENTRY_TEST_PIPE": str(writer)}
        os.environ |= {"ASSENTRY_TEST_PLANTED": "1"} if planted else {}
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.execv(sys.executable, [sys.executable, "-m", "assentry", "worker", SERVED])

    worker = fork(name, work)
    os.close(writer)
    try:
        until = time.monotonic() + START_SECONDS
        while "working for" not in (said := log.read_text() if log.exists() else ""):
            if time.monotonic() > until:
                raise TookTooLong(f"the worker did not begin to work:\n{said[-2000:]}")
            time.sleep(0.02)
        yield Served(name, place, worker, reader)
    finally:
        worker.end()
        os.close(reader)


def made(place: Place, count: int, size: int, say: Say) -> None:
    """So many runs more, parked by an agent; and then, if that is not yet `size`, copies of what is there."""
    place.enter()
    # One agent may have only so many requests wait, so those that come later are another's.
    os.environ |= {"ASSENTRY_DATABASE": place.database, "ASSENTRY_TEST_AGENT": "first" if size else "second"}
    host = importlib.import_module("tests.evidence.parked_host")

    async def main() -> None:
        numbers = iter(range(count))

        async def lane() -> None:
            for number in numbers:
                await host.park(f"old/{number}.tmp")

        await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
        if size > count:
            await host.gate._store.flush()
            await host.gate._store.sequence("default")
            await asyncio.to_thread(multiplied, book(place), size)
        await host.gate.close()  # which seals the log

    asyncio.run(main())
    say("answer")


def crowded(place: Place, count: int, size: int = 0) -> None:
    """The same in a process of its own."""
    answer(fork("agent", lambda say: made(place, count, size, say)), within=900)


class Ear:
    """What the host functions of one worker say."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.lines: list[dict[str, Any]] = []

    async def open(self) -> "Ear":
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(os.dup(self._pipe)))
        return self

    async def entered(self, run: str) -> int:
        """When the host function was entered for this run."""
        while True:
            line = json.loads(await self._reader.readline())
            self.lines.append(line)
            if line["what"] == "entered" and line["run"] == run:
                return int(line["at"])


async def resumed(ear: Ear, here: Any, aim: Aim, within: float) -> tuple[float, float]:
    """Somebody allowed it and the run finished: milliseconds from giving the decision, and from its acknowledgement,
    until the host function was entered."""
    run, request = aim
    async with asyncio.timeout(within):
        given = time.monotonic_ns()
        await here.inbox.approve(here.person(), request)
        known = time.monotonic_ns()
        at = await ear.entered(run)
        while (record := await here.store.run("default", run)).state is not RunState.FINISHED:
            if not record.state.is_open:
                raise TookTooLong(f"it is {record.state}: {record.error}")
            await asyncio.sleep(0.002)
    return (at - given) / 1e6, (at - known) / 1e6


def drawn(place: Place, seed: int, number: int) -> list[Aim]:
    """So many of those that wait, whether an agent parked them or they are copies."""
    waiting = book(place).read("SELECT run, request FROM waits ORDER BY run")
    return [(wait["run"], wait["request"]) for wait in random.Random(seed).sample(waiting, number)]


def decided(both: list[Served], seed: int, decisions: int, within: float, say: Say) -> None:
    """A person allows one run here and one run there, in turns, each after the one before has finished."""
    both[0].place.enter()
    aims = {one.name: drawn(one.place, seed, decisions) for one in both}

    async def main() -> None:
        ears = {one.name: await Ear(one.pipe).open() for one in both}
        desks = {one.name: await desk(load({"database": one.place.database})) for one in both}
        wrong = []
        for number in range(decisions):
            for one in both if number % 2 else reversed(both):
                aim = aims[one.name][number]
                try:
                    given, known = await resumed(ears[one.name], desks[one.name], aim, within)
                except (TimeoutError, TookTooLong) as late:
                    wrong.append(f"{one.name}: run {aim[0]} was decided and did not go on. {late}")
                else:
                    say("resumed", name=one.name, given=given, known=known)
        for name, ear in ears.items():
            wrong += [f"{name}: a run got the state of another" for line in ear.lines if not line.get("own", True)]
        say("answer", wrong=wrong)
        os._exit(0)

    asyncio.run(main())


def looked_at(place: Place, expected: dict[str, int], say: Say) -> None:
    """Everything else is as it was: so many runs in each state, one effect for each that finished, a log that holds."""
    place.enter()
    open_book = book(place)
    found = {
        row["state"]: row["many"] for row in open_book.read("SELECT state, count(*) AS many FROM runs GROUP BY state")
    }
    wrong = [] if found == expected else [f"the runs are {found}, and should be {expected}"]
    waiting = open_book.read("SELECT count(*) AS many FROM requests WHERE state = 'pending'")[0]["many"]
    if waiting != expected[str(RunState.PARKED)]:
        wrong.append(f"{waiting} requests wait")
    double = open_book.read(
        "SELECT subject FROM entries WHERE kind IN ('execution.began', 'run.entered') GROUP BY subject HAVING count(*) > 1"
    )
    wrong += [f"{row['subject']} went on twice" for row in double]

    async def verified() -> list[str]:
        here = await desk(load({"database": place.database}))
        await here.notary.seal()
        return [fault.says for fault in (await here.notary.verify()).faults]

    say("answer", wrong=wrong + asyncio.run(verified())[:5])


def watched(both: list[Served], size: Size, progress: Progress) -> dict[str, float]:
    """How large they are when they have settled, and what they cost while nothing happens."""
    progress("settling")
    time.sleep(size.settle)
    began, before = time.monotonic(), [one.cpu_seconds for one in both]
    progress("idle")
    time.sleep(size.idle)
    spent = time.monotonic() - began
    figures = {}
    for one, cpu in zip(both, before, strict=True):
        figures[f"{one.name}: idle, % of a core"] = round(100 * (one.cpu_seconds - cpu) / spent, 3)
        figures[f"{one.name}: idle, MB"] = round(one.megabytes, 1)
    return figures


def at_the_servers(places: dict[str, Place], size: Size) -> dict[str, float]:
    """How large a server of each is when it has settled; and, without a bound, when its pages were looked at, which
    fills what the database keeps of its own file."""
    figures = {}

    def measured(when: str) -> None:
        time.sleep(size.settle)
        for name, one in servers.items():
            figures[f"{name}: {when}, MB"] = round(psutil.Process(one.process.pid).memory_info().rss / 2**20, 1)

    with ExitStack() as stack:
        servers = {name: stack.enter_context(serving.served("server", place)) for name, place in places.items()}
        measured("the server")
        for one in servers.values():
            with httpx.Client(base_url=one.url, headers=one.headers, timeout=60) as client:
                for path in ("/", "/runs", "/log", "/policy") * LOOKS:
                    client.get(path, headers={"accept": "text/html"}).raise_for_status()
        measured("the server, its pages looked at")
    return figures


def compared(places: dict[str, Place], seed: int, size: Size, progress: Progress) -> tuple[dict[str, float], list[str]]:
    """The two databases with a worker each: figures, and what is wrong."""
    counts = dict(zip(places, (size.few, size.many), strict=True))
    figures: dict[str, float] = {}
    for name, place in places.items():
        progress(f"parking {counts[name]} runs")
        began = time.monotonic()
        crowded(place, min(MADE, counts[name]), counts[name])
        figures[f"{name}: seconds to park them"] = round(time.monotonic() - began, 1)
    with ExitStack() as stack:
        both = [stack.enter_context(served(name, place)) for name, place in places.items()]
        figures |= watched(both, size, progress)
        progress("looking at pages")
        figures |= at_the_servers(places, size)
        progress("deciding")
        for place in places.values():
            crowded(place, size.decisions)  # so that as many are left as there were
        child = fork("person", lambda say: decided(both, seed, size.decisions, RESUME_SECONDS, say))
        wrong = list(answer(child, within=RESUME_SECONDS * size.decisions)["wrong"])
        for one in both:
            figures |= told(one.name, [said for said in child.said("resumed") if said["name"] == one.name])
            figures[f"{one.name}: afterwards, MB"] = round(one.megabytes, 1)
    progress("checking")
    for name, place in places.items():
        expected = {str(RunState.PARKED): counts[name], str(RunState.FINISHED): size.decisions}
        checked = fork("auditor", lambda say, place=place, expected=expected: looked_at(place, expected, say))  # type: ignore[misc]
        wrong += [f"{name}: {what}" for what in answer(checked, within=600)["wrong"]]
    return figures, wrong


def told(name: str, resumptions: list[dict[str, Any]]) -> dict[str, float]:
    """How long the host functions were in coming."""
    figures: dict[str, float] = {}
    for what, says in (("given", "decision given to host entered"), ("known", "decision acknowledged to host entered")):
        took = sorted(said[what] for said in resumptions)
        if took:
            figures[f"{name}: {says}, median ms"] = round(median(took), 1)
            figures[f"{name}: {says}, 95% ms"] = round(took[min(len(took) - 1, int(0.95 * len(took)))], 1)
    return figures


def too_much(figures: dict[str, float], few: str, many: str) -> list[str]:
    """The bounds that are broken."""
    wrong = []
    for when in ("idle", "afterwards", "the server"):
        small, large = figures.get(f"{few}: {when}, MB", 0.0), figures.get(f"{many}: {when}, MB", 0.0)
        if abs(large - small) > MEGABYTES:
            wrong.append(f"{many}: there are {large} MB ({when}), and {small} in that of {few}")
    shares = {name: figures.get(f"{name}: idle, % of a core", 0.0) for name in (few, many)}
    wrong += [f"{name}: idle, it takes {share} % of a core" for name, share in shares.items() if share >= 100 * SHARE]
    name = "decision given to host entered, median ms"
    small, large = figures.get(f"{few}: {name}", 0.0), figures.get(f"{many}: {name}", 0.0)
    if large > small + MILLISECONDS:
        wrong.append(f"{many}: a decision resumes its run after {large} ms, and in that of {few} after {small}")
    return wrong


def run(seed: int, size: Size, progress: Progress) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "parked",
        "parked runs are rows: a worker with very many of them is as large and as idle as one with ten, and a decision "
        "resumes its run as quickly",
        (),
        seed,
        sizes={"parked runs": [size.few, size.many], "decisions on each database": size.decisions},
        bounds={
            "difference of the workers' and of the servers' resident memory": f"{MEGABYTES} MB",
            "a worker's share of a core while nothing happens": f"{SHARE:.0%}",
            "watched doing nothing for": f"{size.idle} s",
            "more until the host function is entered, in the median": f"{MILLISECONDS} ms",
            "are these bounds checked": size.measured,
        },
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in size.kinds:
            with pair(kind, server, root, (size.few, size.many), "parked") as places:
                figures, wrong = compared(places, seed, size, lambda text, kind=kind: progress(f"{kind}: {text}"))  # type: ignore[misc]
                few, many = places
                outcome.take({}, wrong + (too_much(figures, few, many) if size.measured else []))
                outcome.figures |= figures
                if size.measured:
                    outcome.controls.append(_kept(kind, few, many, places[many], figures, size))
                outcome.controls.append(_asleep(kind, few, places[few]))
    outcome.seconds = time.monotonic() - began
    return outcome


def _kept(kind: str, few: str, many: str, place: Place, figures: dict[str, float], size: Size) -> Control:
    with served(many, place, planted=True) as one:
        time.sleep(size.settle)
        name = f"{few}: idle, MB"
        wrong = too_much({name: figures[name], f"{many}: idle, MB": round(one.megabytes, 1)}, few, many)
    means = "Whenever the worker looks, it reads every parked run, and keeps them."
    return Control(f"parked runs kept in memory, {kind}", means, bool(wrong), 1 if wrong else None, *wrong[:1])


def _asleep(kind: str, name: str, place: Place) -> Control:
    on = " ON requests" if kind == "postgres" else ""
    with served(name, place) as one:
        answer(fork("vandal", lambda say: _drop(place, on, say)), within=60)
        wrong = answer(fork("person", lambda say: decided([one], 0, 1, 3.0, say)), within=60)["wrong"]
    means = "A decision wakes nobody: the run that waits for it stays parked."
    return Control(f"decisions wake no run, {kind}", means, bool(wrong), 1 if wrong else None, *wrong[:1])


def _drop(place: Place, on: str, say: Say) -> None:
    book(place).run(f"DROP TRIGGER decisions_wake_runs{on}")
    say("answer")
