"""Two hundred open streams on one server while others ask and decide: nobody misses how anything ended."""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import assentry
from assentry.assemble import desk
from assentry.settings import load
from tests import postgres
from tests.evidence.crash import placed
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Say, TookTooLong, answer, fork, listen
from tests.evidence.serving import Served, served
from tests.evidence.world import AGENT, DANGEROUS, DATABASES, Place

AGENTS = 3
READY_SECONDS = 60.0
WORK_SECONDS = 300.0
HEAR_SECONDS = 30.0
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    streams: int
    requests: int
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""


FULL = Size(streams=200, requests=600)
SAMPLE = Size(streams=25, requests=30, kinds=("postgres",))


@dataclass(slots=True)
class Ear:
    """One open stream: the newest version it heard of each request, when, and when it was last told to look."""

    heard: dict[str, int] = field(default_factory=dict)
    at: dict[tuple[str, int], float] = field(default_factory=dict)
    looked: list[float] = field(default_factory=list)
    writer: asyncio.StreamWriter | None = None
    """Kept, or the stream would be closed."""

    async def open(self, one: Served) -> asyncio.StreamReader:
        where = urlsplit(one.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
        self.writer = writer
        head = [f"GET /api/v1/events HTTP/1.1\r\nhost: {where.netloc}\r\naccept: text/event-stream\r\n"]
        head += [f"{name}: {value}\r\n" for name, value in one.headers.items()]
        writer.write("".join([*head, "\r\n"]).encode())
        await writer.drain()
        if not (status := await reader.readline()).startswith(b"HTTP/1.1 200"):
            raise TookTooLong(f"a stream was refused: {status!r}")
        return reader

    async def listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"data: "):
                event, now = json.loads(line[6:]), time.monotonic()
                if event["about"] == "look":
                    self.looked.append(now)
                elif event["about"] == "request":
                    for version in range(self.heard.get(event["id"], 0) + 1, event["version"] + 1):
                        self.at[event["id"], version] = now
                    self.heard[event["id"]] = max(event["version"], self.heard.get(event["id"], 0))

    def missed(self, done: dict[str, tuple[int, float]]) -> list[str]:
        """What it does not know the end of: neither heard of that version, nor told to look afterwards."""
        last = max(self.looked, default=0.0)
        return [key for key, (version, at) in done.items() if self.heard.get(key, 0) < version and last < at]


def read_if_there(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def told_in(orders: Path) -> dict[str, tuple[int, float]]:
    """What was done, once it is written there: for each request its last version, and when that was known."""
    while not (text := read_if_there(orders)):
        await asyncio.sleep(0.05)
    return {key: (version, at) for key, (version, at) in json.loads(text).items()}


def listeners(one: Served, size: Size, orders: Path, patience: float, say: Say) -> None:
    """All the streams, in one process. Told what was done in the end, it says what they missed."""

    async def main() -> None:
        ears = [Ear() for _ in range(size.streams)]
        tasks = [asyncio.ensure_future(ear.listen(await ear.open(one))) for ear in ears]
        while not all(ear.looked for ear in ears):
            await asyncio.sleep(0.01)
        began = time.monotonic()
        say("ready")
        done = await told_in(orders)
        until = time.monotonic() + patience
        while time.monotonic() < until and any(ear.missed(done) for ear in ears):
            await asyncio.sleep(0.05)
        took = [
            1e3 * (ear.at[key, version] - at)
            for ear in ears
            for key, (version, at) in done.items()
            if (key, version) in ear.at
        ]
        missed = [f"stream {n} missed {len(lost)}" for n, ear in enumerate(ears) if (lost := ear.missed(done))]
        missed += [f"{sum(task.done() for task in tasks)} streams ended"] if any(task.done() for task in tasks) else []
        figures = {"times somebody was told to look": sum(at > began for ear in ears for at in ear.looked)}
        if took:
            took.sort()
            figures |= {"commit known to event, median ms": round(median(took), 1), "worst ms": round(took[-1], 1)}
        say("answer", wrong=missed[:10], figures=figures)

    asyncio.run(main())


def agent(place: Place, number: int, count: int, say: Say) -> None:
    """Asks, and then somebody decides each; the last version of each is told with when it was known."""
    place.enter()

    async def main() -> None:
        gate = assentry.open(place.database, agent=f"{AGENT}-{number}")
        here = await desk(load({"database": place.database}))
        me = here.person()
        for each in range(count):
            proposal = await gate.propose("remove_file", {"path": f"{number}/{each}.tmp"}, declared=DANGEROUS)
            card = proposal.request
            assert card is not None
            if each % 3:
                after = await here.inbox.approve(me, card.id, seen_digest=card.candidate.permit_digest)
            else:
                after = await here.inbox.deny(me, card.id, "no")
            say("did", id=after.id, version=after.version, at=time.monotonic())
        say("finished")
        await gate.close()

    asyncio.run(main())


def heard(
    place: Place, size: Size, progress: Progress, plant: str = "", patience: float = HEAR_SECONDS
) -> tuple[dict[str, Any], list[str]]:
    """What the streams of one server heard of what other processes did."""
    orders = Path(place.directory) / f"done{plant}.json"
    with served("server", place, plant=plant) as one:
        progress(f"{size.streams} streams")
        ears = fork("listeners", lambda say: listeners(one, size, orders, patience, say))
        if not listen([ears], time.monotonic() + READY_SECONDS, lambda: bool(ears.said("ready") or ears.said("crash"))):
            raise TookTooLong("the streams did not open")
        progress(f"{size.requests} requests")
        work = [
            fork(f"agent{n}", lambda say, n=n: agent(place, n, size.requests // AGENTS, say)) for n in range(AGENTS)
        ]  # type: ignore[misc]
        done = _done(work)
        part = orders.with_suffix(".part")
        part.write_text(json.dumps(done))
        part.rename(orders)
        said = answer(ears, within=HEAR_SECONDS + 60)
    return {**said["figures"], "requests decided": len(done)}, list(said["wrong"])


def _done(work: list[Child]) -> dict[str, tuple[int, float]]:
    until = time.monotonic() + WORK_SECONDS
    if not listen(work, until, lambda: all(child.said("finished") or child.said("crash") for child in work)):
        raise TookTooLong("asking and deciding took too long")
    crashed = [said["trace"] for child in work for said in child.said("crash")]
    if crashed:
        raise RuntimeError(crashed[0])
    found = {said["id"]: (said["version"], said["at"]) for child in work for said in child.said("did")}
    for child in work:
        child.end()
    return found


def run(seed: int, size: Size, progress: Progress) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "listeners",
        "every open stream of a server learns how every request ended, whichever process decided it",
        (),
        seed,
        sizes={"open streams": size.streams, "requests": size.requests, "processes that ask and decide": AGENTS},
        bounds={"until everybody knows": f"{HEAR_SECONDS:.0f} s"},
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in size.kinds:
            with placed(kind, server, root) as place:
                figures, wrong = heard(place, size, lambda text, kind=kind: progress(f"{kind}: {text}"))  # type: ignore[misc]
                outcome.figures |= {f"{kind}: {name}": value for name, value in figures.items()}
                outcome.take({}, [f"{kind}: {each}" for each in wrong])
        with placed("sqlite", server, root) as place:
            _, wrong = heard(place, Size(5, 30), progress, "hears_badly", patience=2.0)
            means = "One notice in ten is not passed on."
            outcome.controls.append(Control("bad hearing", means, bool(wrong), 1 if wrong else None, *wrong[:1]))
    outcome.seconds = time.monotonic() - began
    return outcome
