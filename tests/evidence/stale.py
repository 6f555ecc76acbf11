"""Instances that hear nothing, while people change the rules: nobody begins, decides or simply runs by what was taken away.

What begins and what is decided is held against the log: between its entry and the one of the policy, the switch or the
grant that takes it away lies the commit. What simply runs leaves no commit; the last look at the clock before it may not be
later than `known_for` after it was acknowledged that it is forbidden.
"""

import asyncio
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from assentry.assemble import Desk, desk
from assentry.core.action import Declaration, Reach
from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.grant import Terms
from assentry.core.switch import Setting
from assentry.engine.asking import Asking, Prepared
from assentry.engine.grants import give, take_back
from assentry.engine.judgement import Judgement
from assentry.engine.policies import apply_policy
from assentry.errors import AssentryError, Parked, RunStopped
from assentry.ports import Step, StoredPolicy, View
from assentry.settings import load
from assentry.stores.postgres import PostgresStore
from assentry.stores.sqlite import SqliteStore
from assentry.system import clock
from tests import postgres
from tests.evidence import planted
from tests.evidence.crash import placed
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, answer, fork
from tests.evidence.world import AGENT, DATABASES, UNHURRIED, Place

KNOWN = 0.2
"""Seconds for which an instance may go on with what it read."""
BOSS = Principal("root", roles=("operator",))
PEOPLE = (Principal("ann"), Principal("bob"))
GONE = Declaration(reversible=False, reach=Reach.LOCAL)
SECONDS = 1_800.0
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    tries: int
    instances: int = 3
    changes: int = 0
    """How often the rules change at least."""
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""


FULL = Size(tries=10_000, changes=100)
SAMPLE = Size(tries=300, changes=15)
ROUNDS = 10
"""How often a planted bug is looked for, each time with other dice: some show only where two meet."""
BUGGY = Size(tries=300, changes=40)


def policy(who: str, *, allowed: bool) -> str:
    """One of the policies that replace each other: who decides, and whether anything is allowed at all."""
    gates = ("run", "watch", "hard") if allowed else ("forbid",) * 3
    return (
        f"limits: {{known_for: {round(KNOWN * 1000)}ms, denials: unlimited, pending: unlimited}}\n"
        "people: {root: {roles: [operator]}, ann: {}, bob: {}}\n"
        "rules:\n"
        f"  - {{name: reading, actions: [read_*], gate: {gates[0]}}}\n"
        f"  - {{name: writing, actions: [write_note], gate: {gates[1]}}}\n"
        f"  - {{name: deleting, actions: [delete_files, clear_cache], gate: {gates[2]}"
        + (f", reviewers: [{who}]" if allowed else "")
        + "}\n"
    )


class World:
    """The rules as they were acknowledged, and what ran although they had long forbidden it."""

    def __init__(self) -> None:
        self.allowed, self.stopped, self.since = True, False, clock()
        self.looked: dict[int, float] = {}
        """When each thread last looked whether a call may still run, from before it looked."""
        self.ran = 0
        self.late: list[str] = []

    def acknowledged(self, *, allowed: bool | None = None, stopped: bool | None = None) -> None:
        """It holds from now on; somebody was told so."""
        before = self.forbids
        self.allowed = self.allowed if allowed is None else allowed
        self.stopped = self.stopped if stopped is None else stopped
        if self.forbids and not before:
            self.since = clock()

    @property
    def forbids(self) -> bool:
        return self.stopped or not self.allowed

    def effect(self) -> None:
        """A call has run."""
        since, forbids, looked = self.since, self.forbids, self.looked.pop(threading.get_ident(), None)
        if looked is None:
            return  # it was put on record, and is held against the log
        self.ran += 1
        if forbids and looked - since > KNOWN:
            self.late.append(f"a call ran {looked - since:.3f} s after it was acknowledged that it is forbidden")


def lapse_not_looked_at() -> None:
    """What was read once is good for ever."""

    def holds(self: Judgement, until: float) -> bool:
        return True

    planted.swap(Judgement, "holds", holds)
    planted.swap(Judgement, "is_current", property(lambda self: True))


def _without(name: str) -> None:
    """Stores do not hear of this argument of a transaction."""
    for store in (SqliteStore, PostgresStore):
        sound = store.transact

        async def transact(self: Any, *args: Any, sound: Any = sound, **named: Any) -> Any:
            named.pop(name, None)
            if named.get("grants") and named.get("agent"):
                args = (*args[:-1], _slowly(args[-1]))
            return await sound(self, *args, **named)

        planted.swap(store, "transact", transact)


def _slowly(step: Step) -> Step:
    def slow(view: View) -> Change | None:
        time.sleep(5 * planted.DELAY)
        return step(view)

    return slow


def versions_not_compared() -> None:
    """A commit does not look which policy is active."""
    _without("policy")


def stop_without_the_lock() -> None:
    """Whoever stops an agent or revokes a grant does not wait for what was begun before."""
    _without("exclusive")


def nothing() -> None:
    """No bug."""


PLANTED = (lapse_not_looked_at, versions_not_compared, stop_without_the_lock)


class Instance:
    """A gate and a desk that hear of nothing by themselves."""

    def __init__(self, place: Place, world: World) -> None:
        self.gate = place.gate(UNHURRIED)
        self.world = world
        self.desk: Desk

        @self.gate.guard(patience=0)
        async def read_notes() -> None:
            world.effect()

        @self.gate.guard(name="read_notes_again", patience=0)
        def read_again() -> None:
            world.effect()

        @self.gate.guard(patience=0)
        async def write_note() -> None:
            pass

        self.read, self.read_again, self.write = read_notes, read_again, write_note

    async def open(self, place: Place) -> None:
        deafened(self.gate._store)
        self.gate._hub.stop()
        self.desk = await desk(load({"database": place.database}))

    async def close(self) -> None:
        await self.desk.store.close()
        await self.gate.close()

    async def tries(self, draw: random.Random, others: list["Instance"], *, only_reads: bool) -> None:
        """One call, of any kind or one that needs no record, by which an instance would hear; raises where it may not."""
        match draw.randrange(2 if only_reads else 6):
            case 0:
                await self.read()
            case 1:
                await asyncio.to_thread(self.read_again)
            case 2:
                await self.write()
            case 3 | 4:
                proposal = await self.gate.propose("clear_cache", {"of": draw.random()}, declared=GONE)
                async with proposal.execution(patience=0):
                    pass
            case _:
                proposal = await self.gate.propose("delete_files", {"files": [str(draw.random())]}, declared=GONE)
                if proposal.request is None:
                    return
                inbox = draw.choice(others).desk.inbox
                for person in draw.sample(PEOPLE, 2):
                    with suppress(AssentryError):
                        await inbox.approve(person, proposal.request.id)
                await asyncio.sleep(draw.choice((0, 0, 0.05)))
                async with proposal.execution(patience=0):
                    pass


def deafened(store: Any) -> None:
    """Nobody is told anything by this store any more."""
    store.watch = lambda _: lambda: None


class Rules:
    """People who change the rules, at an instance that hears."""

    def __init__(self, here: Desk, world: World) -> None:
        self.here, self.world = here, world
        self.versions: dict[int, tuple[str, bool]] = {}
        self.grant: Any = None
        self.changes = 0

    async def apply(self, who: str, *, allowed: bool) -> None:
        """This policy is active and acknowledged. What allows counts from before it is applied."""
        if allowed:
            self.world.acknowledged(allowed=True)
        made = await apply_policy(self.here.store, "default", policy(who, allowed=allowed), BOSS)
        assert isinstance(made, StoredPolicy)
        self.versions[made.version] = (who, allowed)
        self.world.acknowledged(allowed=allowed)

    async def turn(self, *, stopped: bool) -> None:
        """The agent is stopped, or goes on."""
        if not stopped:
            self.world.acknowledged(stopped=False)
            async for _ in self.here.oversight.release(BOSS, AGENT):
                pass
            return
        async for _ in self.here.oversight.hold(BOSS, AGENT, Setting.STOP):
            pass
        self.world.acknowledged(stopped=True)

    async def regrant(self) -> None:
        """The grant is revoked, and after a while another one given."""
        if self.grant is not None:
            await take_back(self.here.store, "default", BOSS, self.grant)
            self.grant = None
        else:
            self.grant = await give(self.here.store, "default", BOSS, Terms(("clear_cache",), timedelta(days=1)))

    async def change(self, draw: random.Random) -> None:
        """Something else holds, for longer than an instance may go on with what it read, or only for a moment."""
        eased = draw.random() < 0.7  # what forbids everything does so long enough to be noticed, and no longer
        match draw.randrange(4):
            case _ if eased and self.world.stopped:
                await self.turn(stopped=False)
            case _ if eased and not self.world.allowed:
                await self.apply(draw.choice(PEOPLE).name, allowed=True)
            case 0 | 1:
                await self.apply(draw.choice(PEOPLE).name, allowed=not self.world.allowed or draw.random() < 0.4)
            case 2:
                await self.turn(stopped=not self.world.stopped)
            case _:
                await self.regrant()
        self.changes += 1
        await asyncio.sleep(draw.uniform(1.2, 2.0) * KNOWN if draw.random() < 0.5 else draw.uniform(0, 0.2) * KNOWN)


def tried(place: Place, size: Size, seed: int, plant: Callable[[], None], say: Say) -> None:
    """As many tries as wanted, while the rules change; what was wrong is said."""
    plant()
    place.enter()
    world, sound = World(), Asking.may_run_now

    def may_run_now(self: Asking, prepared: Prepared) -> bool:
        world.looked[threading.get_ident()] = clock()
        return sound(self, prepared)

    planted.swap(Asking, "may_run_now", may_run_now)

    async def main() -> None:
        here = await desk(load({"database": place.database}))
        rules = Rules(here, world)
        await rules.apply("ann", allowed=True)
        instances = [Instance(place, world) for _ in range(size.instances)]
        for each in instances:
            await each.open(place)
        left, refused = size.tries, 0

        async def try_on(one: Instance, number: int) -> None:
            nonlocal left, refused
            draw = random.Random(f"{seed} {number}")
            while left > 0 or rules.changes < size.changes:
                left -= 1
                try:
                    await one.tries(draw, instances, only_reads=number == 0)
                    await asyncio.sleep(0.01 if number == 0 else 0)
                except (AssentryError, Parked, RunStopped):
                    refused += 1
                    await asyncio.sleep(0.01)

        work = [asyncio.create_task(try_on(one, number)) for number, one in enumerate(instances)]
        draw = random.Random(seed)
        while not all(task.done() for task in work):
            await rules.change(draw)
        for task in work:
            task.result()
        counts, wrong = await looked_through(here, rules)
        counts |= {"tries": size.tries - left, "refused": refused, "ran without approval": world.ran}
        counts["changes of the rules"] = rules.changes
        for each in instances:
            await each.close()
        await here.store.close()
        say("answer", counts=counts, wrong=wrong + world.late)

    asyncio.run(main())


async def looked_through(here: Desk, rules: Rules) -> tuple[dict[str, int], list[str]]:
    """What the log says was begun and decided, held against what it says was in force at that very place."""
    counts, wrong = {"begun": 0, "decided": 0, "begun by a grant": 0}, []
    who, allowed, stopped = "", True, False
    live: set[str] = set()
    decided: dict[str, str] = {}
    await here.store.sequence("default")
    start = 0
    while page := await here.store.entries("default", start=start, limit=1000):
        start = page[-1].index + 1
        for told in (json.loads(entry.text) for entry in page):
            kind, subject, body, by = told["kind"], told["subject"], told["body"], told["actor"]
            forbids = "" if allowed and not stopped else "the agent is stopped" if stopped else "the policy forbids it"
            match kind:
                case "policy.applied":
                    who, allowed = rules.versions[body["version"]]
                case "switch.stopped" | "switch.released":
                    stopped = kind == "switch.stopped"
                case "grant.given":
                    live.add(subject)
                case "grant.revoked":
                    live.discard(subject)
                case "grant.used":
                    counts["begun by a grant"] += 1
                    if subject not in live:
                        wrong.append(f"a call was allowed by grant {subject}, which was revoked before")
                    if forbids:
                        wrong.append(f"a call was allowed by a grant although {forbids}")
                case "request.decided" if by in ("ann", "bob"):
                    counts["decided"] += 1
                    decided[subject] = by
                    if not allowed or by != who:
                        wrong.append(f"{by} decided {subject} although the policy asks {who if allowed else 'nobody'}")
                case "execution.began":
                    counts["begun"] += 1
                    if forbids:
                        wrong.append(f"{subject} began although {forbids}")
                    elif decided.get(subject, who) != who:
                        wrong.append(
                            f"{subject} began on the word of {decided[subject]}, whom the policy no longer asks"
                        )
    return counts, wrong


def run(seed: int, size: Size, progress: Progress) -> Outcome:
    """The suite, on both kinds of database."""
    outcome = Outcome(
        "stale",
        "an instance that hears nothing begins and decides nothing that the acknowledged policy, switches and grants "
        "forbid, and after its time is up runs nothing by what it read",
        ("I19", "I20"),
        seed,
        sizes={"tries on each database": size.tries, "instances": size.instances},
        bounds={"known for": f"{KNOWN} s"},
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())

        def result(
            kind: str, wanted: Size, plant: Callable[[], None] = nothing, dice: int = seed
        ) -> tuple[dict[str, int], list[str]]:
            with placed(kind, server, root) as place:
                made = answer(fork("stale", lambda say: tried(place, wanted, dice, plant, say)), within=SECONDS)
            return made["counts"], made["wrong"]

        for kind in size.kinds:
            progress(kind)
            counts, wrong = result(kind, size)
            outcome.figures |= {f"{kind}: {name}": number for name, number in counts.items()}
            outcome.take({}, [f"{kind}: {each}" for each in wrong])
        for plant in PLANTED:
            kind = "postgres" if plant is stop_without_the_lock else "sqlite"
            progress(f"{plant.__name__}, {kind}")
            wrong: list[str] = []
            rounds = 0
            while not wrong and rounds < ROUNDS:
                _, wrong = result(kind, BUGGY, plant, seed + rounds)
                rounds += 1
            means = (plant.__doc__ or "").strip()
            name = f"{plant.__name__.replace('_', ' ')}, {kind}"
            outcome.controls.append(Control(name, means, bool(wrong), rounds if wrong else None, *wrong[:1]))
    outcome.seconds = time.monotonic() - began
    return outcome
