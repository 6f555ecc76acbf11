"""A server with a million requests that wait beside one with a thousand: lists, cards, searches and decisions."""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median

import httpx

import assentry
from tests import postgres
from tests.evidence.crowd import book, pair, waiting
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, answer, fork
from tests.evidence.serving import Served, served
from tests.evidence.world import AGENT, DANGEROUS, DATABASES, Place

MADE = 100
"""So many requests are made by an agent; beyond that they are copied."""
TIMES = 2.0
SECONDS = 3_600.0
ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
SOUGHT = 37
"""The file of the requests that the search of one in a hundred finds: they are left waiting."""
MORE_HITS = "a search that one in a hundred fits"
"""It finds ten among a thousand and ten thousand among a million, so that the two cannot be compared; it is told."""
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    few: int
    many: int
    rounds: int
    measured: bool
    """Whether the bound is checked; on a machine that is busy with tests only what is answered is looked at."""
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""
    warm: int = 3
    """Rounds that are not counted."""


FULL = Size(few=1_000, many=1_000_000, rounds=30, measured=True)
SAMPLE = Size(few=120, many=400, rounds=2, measured=False, kinds=("postgres",), warm=0)


def crowded(place: Place, wanted: int, say: Say) -> None:
    """So many requests wait: some asked for by an agent, the others copies."""
    place.enter()

    async def main() -> None:
        gate = assentry.open(place.database, agent=AGENT)
        for number in range(min(MADE, wanted)):
            await gate.propose(
                "remove_file", {"path": f"old/{number}.tmp"}, run="crowd", key=str(number), declared=DANGEROUS
            )
        await gate._store.flush()
        await gate._store.sequence("default")
        await gate.close()

    asyncio.run(main())
    waiting(book(place), wanted)
    say("answer")


@dataclass(frozen=True, slots=True)
class Aim:
    """A request that waits."""

    id: str
    code: str


def drawn(place: Place, seed: int, number: int) -> list[Aim]:
    """So many of those that wait, anywhere among them, and none that is searched for."""
    rng, open_book = random.Random(seed), book(place)
    found: dict[str, Aim] = {}
    while len(found) < number:
        start = "".join(rng.choices(ALPHABET, k=4))
        rows = open_book.read(
            "SELECT id, code FROM requests WHERE workspace = 'default' AND state = 'pending' "
            f"AND code >= '{start}' AND body NOT LIKE '%old/{SOUGHT}.tmp%' ORDER BY code LIMIT 3"
        )
        found |= {row["id"]: Aim(row["id"], row["code"]) for row in rows}
    return list(found.values())[:number]


class Visit:
    """Everything that is timed, on one server."""

    def __init__(self, client: httpx.AsyncClient, say: Callable[[str, float], None]) -> None:
        self._client, self._say = client, say
        self.wrong: list[str] = []

    async def around(self, aim: Aim) -> None:
        await self._get("the list", "/", "remove")
        await self._get("a card", f"/r/{aim.code}", aim.code)
        await self._get("the list, by API", "/api/v1/requests", "remove")
        await self._get("the list, of an agent", f"/?agent={AGENT}", "remove")
        await self._get("a search that all fit", "/?text=remo", "remove")
        # Ten of them, so that it shows as much here as there.
        await self._get(MORE_HITS, f"/api/v1/requests?limit=10&text=file+old+{SOUGHT}", "remove")
        await self._get("a search that one fits", f"/?text={aim.code}", aim.code)
        await self._get("a search that none fits", "/?text=zebra", "")
        await self._decide(aim)

    async def _get(self, what: str, path: str, expected: str) -> None:
        began = time.perf_counter()
        answer = await self._client.get(path)
        self._say(what, time.perf_counter() - began)
        if answer.status_code != 200 or expected not in answer.text:
            self.wrong.append(f"{what}: {answer.status_code}, without {expected!r}")

    async def _decide(self, aim: Aim) -> None:
        card = (await self._client.get(f"/api/v1/requests/{aim.id}")).json()["request"]
        began = time.perf_counter()
        answer = await self._client.post(
            f"/api/v1/requests/{aim.id}/decision", json={"word": "approve", "seen_digest": card["digest"]}
        )
        self._say("a decision", time.perf_counter() - began)
        if answer.status_code != 200 or answer.json()["request"]["state"] != "approved":
            self.wrong.append(f"a decision: {answer.status_code} {answer.text[:200]}")


def visited(both: list[Served], seed: int, size: Size, say: Say) -> None:
    """The same on both servers in turns, each after the one before was answered."""
    rounds = size.warm + size.rounds
    aims = [drawn(one.place, seed, rounds) for one in both]

    async def main() -> None:
        wrong: list[str] = []
        async with both[0].client() as first, both[1].client() as second:
            for number in range(rounds):
                for at in (0, 1) if number % 2 else (1, 0):
                    name = both[at].name

                    def note(what: str, seconds: float, name: str = name, counts: bool = number >= size.warm) -> None:
                        if counts:
                            say("took", name=name, did=what, ms=seconds * 1e3)

                    visit = Visit((first, second)[at], note)
                    await visit.around(aims[at][number])
                    wrong += [f"{name}: {each}" for each in visit.wrong]
        say("answer", wrong=wrong[:10])

    asyncio.run(main())


def compared(
    places: dict[str, Place], seed: int, size: Size, progress: Progress, plant: str = ""
) -> tuple[dict[str, float], list[str]]:
    """Medians on both servers, and what was answered wrongly."""
    with ExitStack() as stack:
        both = [
            stack.enter_context(served(f"server{n}", place, plant=plant)) for n, place in enumerate(places.values())
        ]
        both = [replace(one, name=name) for name, one in zip(places, both, strict=True)]
        progress("visiting")
        child = fork("visitor", lambda say: visited(both, seed, size, say))
        wrong = list(answer(child, within=SECONDS)["wrong"])
    took: dict[str, list[float]] = {}
    for said in child.said("took"):
        took.setdefault(f"{said['name']}: {said['did']}, median ms", []).append(said["ms"])
    return {name: round(median(each), 2) for name, each in took.items()}, wrong


def too_slow(figures: dict[str, float], few: str, many: str) -> list[str]:
    """Where the larger crowd takes more than twice as long."""
    wrong = []
    for name, large in figures.items():
        if name.startswith(f"{many}: ") and name.endswith("median ms"):
            what = name.removeprefix(f"{many}: ").removesuffix(", median ms")
            small = figures[f"{few}: {what}, median ms"]
            if large > TIMES * small and what != MORE_HITS:
                wrong.append(f"{what}: {large} ms with {many}, and {small} ms with {few}")
    return wrong


def run(seed: int, size: Size, progress: Progress) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "crowded",
        "lists, cards, searches and decisions take at most twice as long with very many requests that wait",
        (),
        seed,
        sizes={"requests that wait": [size.few, size.many], "rounds on each server": size.rounds},
        bounds={"times as long": TIMES, "is this bound checked": size.measured},
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in size.kinds:
            with pair(kind, server, root, (size.few, size.many), "waiting") as places:
                _both(outcome, places, seed, size, lambda text, kind=kind: progress(f"{kind}: {text}"))  # type: ignore[misc]
    outcome.seconds = time.monotonic() - began
    return outcome


def _both(outcome: Outcome, places: dict[str, Place], seed: int, size: Size, progress: Progress) -> None:
    few, many = places
    for (name, place), count in zip(places.items(), (size.few, size.many), strict=True):
        progress(f"{count} requests begin to wait")
        start = time.monotonic()
        answer(fork("agent", lambda say, place=place, count=count: crowded(place, count, say)), within=SECONDS)  # type: ignore[misc]
        outcome.figures[f"{name}: seconds to set it up"] = round(time.monotonic() - start, 1)
    figures, wrong = compared(places, seed, size, progress)
    outcome.figures |= figures
    outcome.take({}, wrong + (too_slow(figures, few, many) if size.measured else []))
    if size.measured:
        slower, _ = compared(places, seed + 1, Size(size.few, size.many, 5, True), progress, "counts_everything")
        found = [said for said in too_slow(slower, few, many) if said.startswith("the list:")]
        means = "The list counts what waits by reading it."
        outcome.controls.append(
            Control(f"counting by reading, {few}", means, bool(found), 1 if found else None, *found[:1])
        )
