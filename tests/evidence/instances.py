"""Two servers on one PostgreSQL, one of them killed again and again: what was acknowledged is there, and once."""

import asyncio
import json
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import assentry
from assentry.assemble import desk
from assentry.settings import load
from tests import postgres
from tests.evidence.crash import placed
from tests.evidence.crowd import book
from tests.evidence.listeners import Ear, told_in
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Child, Say, TookTooLong, answer, fork, listen
from tests.evidence.serving import Served, logged_in, started, way_in
from tests.evidence.world import AGENT, DANGEROUS, Place

LANES = 4
EVENT_SECONDS = 1.0
SECONDS = 1_200.0
TRIES = 200
WORDS = {"approve": "approved", "deny": "denied"}
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    decisions: int
    kills: int
    measured: bool
    """Whether events of the other instance must come within a second; a machine busy with tests may be slower."""


FULL = Size(decisions=2_000, kills=50, measured=True)
SAMPLE = Size(decisions=40, kills=1, measured=False)


def asked(place: Place, count: int, say: Say) -> None:
    """So many requests wait."""
    place.enter()

    async def main() -> None:
        for start in range(0, count, 500):
            gate = assentry.open(place.database, agent=f"{AGENT}-{start}")
            for number in range(start, min(start + 500, count)):
                proposal = await gate.propose(
                    "remove_file", {"path": f"{number}.tmp"}, run="crowd", key=str(number), declared=DANGEROUS
                )
                assert proposal.request is not None
                say("asked", id=proposal.request.id, digest=proposal.request.candidate.permit_digest)
            await gate.close()

    asyncio.run(main())
    say("answer")


class Behind:
    """A client of both instances in turns; one that does not answer is passed over, as a proxy would."""

    def __init__(self, both: list[Served]) -> None:
        self._clients = [one.client() for one in both]
        self._turn = 0
        self.away = 0

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def post(self, path: str, body: dict[str, Any]) -> tuple[httpx.Response, int]:
        """The first answer, and how often it was tried before: then nobody knows whether it took effect."""
        for tried in range(TRIES):
            self._turn += 1
            with suppress(httpx.TransportError):
                return await self._clients[self._turn % 2].post(path, json=body), tried
            self.away += 1
            await asyncio.sleep(0.05)
        raise TookTooLong("neither instance answers")


def decides(both: list[Served], wanted: list[tuple[str, str]], seed: int, say: Say) -> None:
    """Every request is decided, each through whichever instance has its turn, and then once more through the other."""
    rng = random.Random(seed)
    orders = iter([(key, digest, rng.choice(list(WORDS))) for key, digest in wanted])

    async def lane(behind: Behind) -> None:
        for key, digest, word in orders:
            path = f"/api/v1/requests/{key}/decision"
            body = {"word": word, "seen_digest": digest, "reason": "no" if word == "deny" else ""}
            given = time.monotonic()
            reply, tried = await behind.post(path, body)
            say("told", id=key, word=word, status=reply.status_code, tried=tried, given=given, at=time.monotonic())
            other = {**body, "word": "deny" if word == "approve" else "approve", "reason": "no"}
            again, _ = await behind.post(path, other)
            say("again", id=key, status=again.status_code)

    async def main() -> None:
        behind = Behind(both)
        await asyncio.gather(*(lane(behind) for _ in range(LANES)))
        say("answer", away=behind.away)
        await behind.close()

    asyncio.run(main())


def hears(one: Served, orders: Path, say: Say) -> None:
    """An ear at the instance that is left alone: how long after a decision was known its event came."""

    async def main() -> None:
        ear = Ear()
        task = asyncio.ensure_future(ear.listen(await ear.open(one)))
        while not ear.looked:
            await asyncio.sleep(0.01)
        say("ready")
        done = await told_in(orders)
        until = time.monotonic() + 10
        while ear.missed(done) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        for key, (version, _) in done.items():
            if (key, version) in ear.at:
                say("heard", id=key, at=ear.at[key, version])
        wrong = [f"the other instance never told of {len(lost)} decisions"] if (lost := ear.missed(done)) else []
        wrong += ["a stream of an instance that lived on ended"] if task.done() else []
        say("answer", wrong=wrong)

    asyncio.run(main())


def looked_at(place: Place, say: Say) -> None:
    """The winning word of every request and the decisions its log holds; and whether the log verifies."""
    place.enter()

    async def verified() -> list[str]:
        here = await desk(load({"database": place.database}))
        await here.notary.seal()
        return [fault.says for fault in (await here.notary.verify()).faults][:5]

    faults = asyncio.run(verified())
    open_book = book(place)
    for row in open_book.read("SELECT id, state, word, version FROM requests"):
        say("request", id=row["id"], state=row["state"], version=row["version"])
    for row in open_book.read("SELECT subject FROM entries WHERE kind = 'request.decided'"):
        say("entry", id=row["subject"])
    say("answer", faults=faults)


def complaints(told: list[dict[str, Any]], again: list[dict[str, Any]], found: Child) -> list[str]:
    """What does not fit: acknowledged and not there, decided twice, or a late decision that was not turned away."""
    state = {said["id"]: said["state"] for said in found.said("request")}
    logged = Counter(said["id"] for said in found.said("entry"))
    wrong = []
    for said in told:
        key, status = said["id"], said["status"]
        if status == 200 and state[key] != WORDS[said["word"]]:
            wrong.append(f"{key}: {said['word']} was acknowledged, and it is {state[key]}")
        elif status == 409 and not said["tried"]:
            wrong.append(f"{key}: decided by somebody else, and there was nobody else")
        elif status not in (200, 409):
            wrong.append(f"{key}: answered with {status}")
        elif state[key] not in (WORDS[said["word"]], "pending"):
            wrong.append(f"{key}: {said['word']} was all that was said, and it is {state[key]}")
    wrong += [
        f"{said['id']}: a second decision was answered with {said['status']}" for said in again if said["status"] != 409
    ]
    wrong += [f"{key}: its log holds {logged[key]} decisions" for key in state if logged[key] != 1]
    return wrong


class Killed:
    """The instance that is killed and started again, on the same port, with the same people logged in."""

    def __init__(self, place: Place, plant: str) -> None:
        self._place, self._plant = place, plant
        self.process, log = started("second", place, plant=plant)
        self.url, link = way_in(self.process, log)
        self.entered = logged_in(self.url, link)

    def again(self) -> None:
        self.process.signal(signal.SIGKILL)
        self.process.end()
        port = int(self.url.rpartition(":")[2])
        self.process, log = started("second", self._place, port=port, plant=self._plant)
        way_in(self.process, log)


def trial(place: Place, seed: int, size: Size, progress: Progress, plant: str = "") -> tuple[dict[str, Any], list[str]]:
    """Every request decided while one of two instances is killed again and again: figures, and what is wrong."""
    asker = fork("agent", lambda say: asked(place, size.decisions, say))
    answer(asker, within=SECONDS)
    wanted = [(said["id"], said["digest"]) for said in asker.said("asked")]
    orders, rng = Path(place.directory) / "done.json", random.Random(seed)
    first, log = started("first", place, plant=plant)
    second = None
    try:
        url, link = way_in(first, log)
        one = Served("first", place, first, url, *logged_in(url, link))
        second = Killed(place, plant)
        two = Served("second", place, second.process, second.url, *second.entered)
        ear = fork("ear", lambda say: hears(one, orders, say))
        listen([ear], time.monotonic() + 60, lambda: bool(ear.said("ready") or ear.said("crash")))
        client = fork("client", lambda say: decides([one, two], wanted, seed, say))
        kills, until = 0, time.monotonic() + SECONDS
        over = lambda: bool(client.said("answer") or client.said("crash"))  # noqa: E731
        for number in range(size.kills):
            goal = (number + 1) * size.decisions // (size.kills + 1)
            listen([client], until, lambda goal=goal: over() or len(client.said("told")) >= goal)  # type: ignore[misc]
            if over():
                break
            listen([client], time.monotonic() + rng.random() * 0.05)
            progress(f"kill {number + 1}")
            second.again()
            kills += 1
        away = answer(client, within=SECONDS)["away"]
        found = fork("auditor", lambda say: looked_at(place, say))
        faults = list(answer(found, within=300)["faults"])
        versions = {said["id"]: said["version"] for said in found.said("request")}
        acknowledged = [said for said in client.said("told") if said["status"] == 200]
        part = orders.with_suffix(".part")
        part.write_text(json.dumps({said["id"]: (versions[said["id"]], said["at"]) for said in acknowledged}))
        part.rename(orders)
        said = answer(ear, within=60)
    finally:
        first.end()
        if second is not None:
            second.process.end()
    wrong = complaints(client.said("told"), client.said("again"), found) + faults + list(said["wrong"])
    # From when it was given, since an event may be quicker than the answer; what had to be given twice took longer.
    given = {told["id"]: told["given"] for told in acknowledged if not told["tried"]}
    took = sorted(each["at"] - given[each["id"]] for each in ear.said("heard") if each["id"] in given)
    if size.measured and took[-1] > EVENT_SECONDS:
        wrong.append(f"an event of the other instance came after {took[-1]:.2f} s")
    figures = {
        "kills": kills, "decisions acknowledged": len(acknowledged), "calls that got no answer": away,
        "decisions that got no answer and had been taken": sum(s["status"] == 409 for s in client.said("told")),
        "decision given to event on an instance, median ms": round(1e3 * took[len(took) // 2], 1),
        "the same, worst ms": round(1e3 * took[-1], 1),
    }  # fmt: skip
    return figures, wrong


def run(seed: int, size: Size, progress: Progress) -> Outcome:
    """The suite."""
    outcome = Outcome(
        "instances",
        "two servers on one PostgreSQL, in turns: whichever is killed, what was acknowledged is there, and once",
        (),
        seed,
        sizes={"decisions": size.decisions, "kills": size.kills},
        bounds={
            "until the other instance tells of a decision": f"{EVENT_SECONDS:.0f} s",
            "is it checked": size.measured,
        },
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        with placed("postgres", server, root) as place:
            figures, wrong = trial(place, seed, size, progress)
            outcome.figures |= figures
            outcome.take({}, wrong)
        with placed("postgres", server, root) as place:
            _, wrong = trial(place, seed, Size(40, 1, False), progress, "answers_too_early")
            means = "A decision is acknowledged before it is committed."
            outcome.controls.append(Control("early answers", means, bool(wrong), 1 if wrong else None, *wrong[:1]))
    outcome.seconds = time.monotonic() - began
    return outcome
