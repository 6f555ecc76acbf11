"""Fifty processes decide one request at the same moment: one wins, the others are told who was faster, it runs once."""

import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from assentry.assemble import Desk, desk
from assentry.core.authority import Principal
from assentry.core.canonical import restore
from assentry.core.request import Request, State
from assentry.errors import AlreadyDecided, AssentryError, NotAllowed, Parked
from assentry.settings import load
from tests import postgres
from tests.evidence import planted, traffic
from tests.evidence.crash import placed
from tests.evidence.history import complaints
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Say, TookTooLong, answer, fork, listen
from tests.evidence.world import Ledger, Place, guarded

PEOPLE = 50
WORDS = ("approve", "deny", "modify")
HEAD_START = 0.02
"""Seconds between the last preparation and the common moment."""
SECONDS = 120.0
TRIES = 5


@dataclass(slots=True)
class Round:
    """What fifty processes were told."""

    request: str
    won: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def person(place: Place, number: int, orders: int, plant: planted.Plant, say: Say) -> None:
    """One of the deciders: told which request and when, it decides then, and says what it was told."""
    plant()
    place.enter()

    async def main() -> None:
        here = await desk(load({"database": place.database}))
        say("ready")
        with os.fdopen(orders) as lines:
            while line := await asyncio.to_thread(lines.readline):
                request_id, at, word = json.loads(line)
                request = await here.store.request("default", request_id)
                assert request is not None
                # Busy waiting at the end: all are to act in the same moment, not when the kernel wakes them.
                await asyncio.sleep(max(0.0, at - time.monotonic() - 0.002))
                while time.monotonic() < at:
                    pass
                say("told", **await insisted(here, f"person{number}", request, word))

    asyncio.run(main())


async def insisted(here: Desk, name: str, request: Request, word: str) -> dict[str, Any]:
    """As `spoken`; who is told that the database is busy and to try again, does."""
    busy = 0
    while True:
        told = await spoken(here, name, request, word)
        if told["how"] != "StoreBusy" or busy == TRIES:
            return {**told, "busy": busy}
        busy += 1


async def spoken(here: Desk, name: str, request: Request, word: str) -> dict[str, Any]:
    """The decision, and what came of it."""
    me = Principal(name, roles=("*",), teams=("*",))
    shown = {"seen_digest": request.candidate.permit_digest}
    try:
        match word:
            case "approve":
                after = await here.inbox.approve(me, request.id, **shown)
            case "modify":
                args = restore(request.candidate.args_text)
                after = await here.inbox.modify(me, request.id, {**args, "word": name}, **shown)
            case _:
                after = await here.inbox.deny(me, request.id, f"{name} says no", **shown)
    except AlreadyDecided as late:
        return {"how": "already decided", "by": late.by, "at": str(late.at), "text": str(late)}
    except NotAllowed as refused:
        return {"how": "not allowed", "text": str(refused)}
    except AssentryError as other:
        return {"how": type(other).__name__, "text": str(other)}
    return {"how": "won", "by": name, "word": word, "state": str(after.state)}


def ask(place: Place, run: str, say: Say) -> None:
    """A request waits for somebody, to be run by whichever worker is first."""
    place.enter()
    gate = place.gate()
    tools = guarded(gate, Ledger(place.ledger))
    try:
        tools["posted"].with_(run=run, key=f"{run}.0")(f"{run}.0", "as asked", 0, 0)
    except Parked as parked:
        say("answer", id=parked.request_id)


def looked_at(place: Place, run: str, request_id: str, say: Say) -> None:
    """What became of it, once it has ended."""
    place.enter()

    async def main() -> None:
        here = await desk(load({"database": place.database}))
        until = time.monotonic() + SECONDS
        while True:
            request = await here.store.request("default", request_id)
            assert request is not None
            if not request.state.is_open or request.state is State.PENDING or time.monotonic() > until:
                break
            await asyncio.sleep(0.01)
        await here.store.sequence("default")
        story = complaints(request, await here.store.entries("default", subject=request_id))
        effects = [line.word for line in Ledger(place.ledger).lines(run).get(request_id, [])]
        say(
            "answer", state=str(request.state), word=request.word, by=request.decided_by, effects=effects, story=story,
            runs=restore(request.candidate.args_text)["word"],
        )  # fmt: skip

    asyncio.run(main())


class Crowd:
    """Fifty people and two workers, alive for as many rounds as wanted."""

    def __init__(self, place: Place, people: int, seed: int, plant: planted.Plant = planted.no_bug) -> None:
        self.place, self.seed, self.plant = place, seed, plant
        self.orders: list[int] = []
        self.people: list[Child] = []
        # The database exists before fifty processes open it.
        answer(fork("first", self._broken(self._first)), within=SECONDS)
        for number in range(people):
            reader, writer = os.pipe()
            self.people.append(fork(f"person {number}", self._person(number, reader)))
            os.close(reader)
            self.orders.append(writer)
        self.workers = [fork("worker", self._broken(lambda say: traffic.work(place, say))) for _ in range(2)]
        everybody = [*self.people, *self.workers]
        if not listen(everybody, time.monotonic() + SECONDS, lambda: all(one.said("ready") for one in everybody)):
            raise TookTooLong("fifty processes did not get ready")

    def _first(self, say: Say) -> None:
        self.place.enter()
        self.place.gate()
        say("answer")

    def _person(self, number: int, orders: int) -> Callable[[Say], None]:
        return lambda say: person(self.place, number, orders, self.plant, say)

    def _broken(self, work: Callable[[Say], None]) -> Callable[[Say], None]:
        def broken(say: Say) -> None:
            self.plant()
            work(say)

        return broken

    def round(self, number: int) -> Round:
        """One request, decided by everybody at once."""
        rng = random.Random(f"{self.seed}/{number}")
        run = f"d{number}"
        request_id = answer(fork("agent", lambda say: ask(self.place, run, say)), within=SECONDS)["id"]
        told = [len(child.said("told")) for child in self.people]
        at = time.monotonic() + HEAD_START + 0.001 * len(self.people)
        for order in self.orders:
            os.write(order, json.dumps([request_id, at, rng.choice(WORDS)]).encode() + b"\n")

        def all_told() -> bool:
            return all(len(child.said("told")) > before for child, before in zip(self.people, told, strict=True))

        if not listen(self.people, time.monotonic() + SECONDS, all_told):
            raise TookTooLong(f"round {number}: not everybody was told what came of it")
        answers = [child.said("told")[-1] for child in self.people]
        after = answer(fork("look", lambda say: looked_at(self.place, run, request_id, say)), within=2 * SECONDS)
        return judged(request_id, answers, after)

    def end(self) -> None:
        for order in self.orders:
            os.close(order)
        for child in (*self.people, *self.workers):
            child.end()


def judged(request_id: str, answers: list[dict[str, Any]], after: dict[str, Any]) -> Round:
    """One won, everybody else was told who and when, and what ran is what the winner said."""
    found = Round(request_id, [one for one in answers if one["how"] == "won"], list(after["story"]))
    for one in answers:
        name = f"told: {one['how']}"
        found.counts[name] = found.counts.get(name, 0) + 1
        if one["busy"]:
            found.counts["told first: busy, try again"] = found.counts.get("told first: busy, try again", 0) + 1
    if len(found.won) != 1:
        found.wrong.append(f"{len(found.won)} of {len(answers)} were told that they decided it")
        return found
    winner = found.won[0]
    found.counts[f"won: {winner['word']}"] = 1
    for one in answers:
        if one["how"] == "already decided":
            if one["by"] != winner["by"] or one["at"] == "None" or one["by"] not in one["text"]:
                found.wrong.append(f"{winner['by']} won, and somebody was told {one['text']!r}")
        elif one["how"] != "won":
            found.wrong.append(f"{one['how']} is no clear conflict: {one['text']}")
    if (after["by"], after["word"]) != (winner["by"], winner["word"]):
        found.wrong.append(f"{winner['by']} was told that their {winner['word']} won; on record is {after['by']}")
    expected = {"approve": ["as asked"], "modify": [winner["by"]], "deny": []}[winner["word"]]
    state = "denied" if winner["word"] == "deny" else "done"
    if after["effects"] != expected or after["state"] != state:
        found.wrong.append(f"{winner['word']} won, and it is {after['state']} after {len(after['effects'])} effects")
    return found


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    control: int
    in_control: int = PEOPLE
    people: int = PEOPLE


FULL = Size(rounds=200, control=20)
SAMPLE = Size(rounds=2, control=6, in_control=8, people=16)


def run(seed: int, size: Size, progress: Callable[[str], None]) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "deciders",
        "many processes decide one request at the same moment: one wins, every other is told who was faster and when, "
        "and exactly what the winner allowed runs, once",
        ("I1", "I6"),
        seed,
        sizes={"rounds on each database": size.rounds, "processes": size.people},
        bounds={"workers that compete to run it": 2, "decisions": "approve, deny, modify, drawn for each"},
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in ("sqlite", "postgres"):
            with placed(kind, server, root) as place:
                crowd = Crowd(place, size.people, seed)
                for number in range(size.rounds):
                    found = crowd.round(number)
                    counts = {f"{kind}: {name}": many for name, many in found.counts.items()}
                    wrong = [f"{kind} round {number}: {what}" for what in found.wrong]
                    outcome.take({f"{kind}: rounds": 1, **counts}, wrong)
                    progress(f"{kind} {number + 1}/{size.rounds}, {len(outcome.wrong)} violations")
                crowd.end()
            outcome.controls.append(_control(kind, server, root, seed, size))
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(kind: str, server: str, root: str, seed: int, size: Size) -> Control:
    plant = planted.lock_and_version_ignored
    means = f"{kind}: {(plant.__doc__ or '').strip()}"
    with placed(kind, server, root) as place:
        crowd = Crowd(place, size.in_control, seed, plant)
        try:
            for number in range(size.control):
                found = crowd.round(1_000_000 + number)
                if found.wrong:
                    return Control(f"lock and version ignored, {kind}", means, True, number + 1, found.wrong[0])
        finally:
            crowd.end()
    return Control(f"lock and version ignored, {kind}", means, False, None)
