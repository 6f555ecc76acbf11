"""One agent in a loop proposes ten thousand times: it is turned away beyond its limit, and the others are served."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from assentry.assemble import desk
from assentry.core.authority import Principal
from assentry.core.policy import Limits
from assentry.core.request import State
from assentry.engine.policies import apply_policy
from assentry.engine.pressure import Throttle
from assentry.errors import Limited
from assentry.ports import Filter
from assentry.settings import load
from tests import postgres
from tests.evidence import planted
from tests.evidence.crash import placed
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, answer, fork, listen
from tests.evidence.world import DATABASES, UNHURRIED, Place

LIMIT = 200
SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Size:
    proposals: int
    calls: int
    """How many calls of another agent are decided meanwhile, and how many before."""
    kinds: tuple[str, ...] = DATABASES
    """The databases it is tried on."""


FULL = Size(proposals=10_000, calls=50)
SAMPLE = Size(proposals=600, calls=5, kinds=("sqlite",))


def unlimited() -> None:
    """Nobody looks at how much an agent asks."""

    @asynccontextmanager
    async def admitted(
        self: Throttle, agent: str, limits: Limits, run: str = "", step: str = ""
    ) -> AsyncIterator[None]:
        yield

    planted.swap(Throttle, "admitted", admitted)


def nothing() -> None:
    """No bug."""


def prepared(place: Place, say: Say) -> None:
    place.enter()

    async def main() -> None:
        here = await desk(load({"database": place.database}))
        await apply_policy(here.store, "default", f"limits: {{pending: {LIMIT}}}", Principal("root"))
        await here.store.close()

    asyncio.run(main())
    say("answer")


def looper(place: Place, proposals: int, plant: Any, say: Say) -> None:
    """Proposes without end and without waiting, whatever it is told."""
    plant()
    place.enter()
    gate = place.gate(UNHURRIED)

    async def main() -> None:
        taken = refused = 0
        say("began")
        for number in range(proposals):
            try:
                await gate.propose("transfer_money", {"amount": float(number)}, agent="looper")
                taken += 1
            except Limited:
                refused += 1
                await asyncio.sleep(0)
        say("answer", taken=taken, refused=refused)
        await gate.close()

    asyncio.run(main())


def served(place: Place, calls: int, first: int, say: Say) -> None:
    """Another agent's calls, one after the other; how long each took from the call to its result, decided at once."""
    place.enter()
    gate = place.gate(UNHURRIED)

    @gate.guard(reversible=False)
    async def discard(number: int) -> int:
        return number

    async def main() -> None:
        here = await desk(load({"database": place.database}))
        took = []
        for number in range(first, first + calls):
            began = time.monotonic()
            call = asyncio.create_task(discard(number))
            while not (found := (await here.inbox.page(Filter(states=(State.PENDING,), action="discard"))).requests):
                await asyncio.sleep(0.002)
            await here.inbox.approve(here.person(), found[0].id)
            await call
            took.append(1000 * (time.monotonic() - began))
        say("answer", took=took)
        await here.store.close()
        await gate.close()

    asyncio.run(main())


def tried(place: Place, size: Size, plant: Any = nothing) -> tuple[dict[str, Any], list[str]]:
    """The figures, and what is wrong with them."""
    answer(fork("prepare", lambda say: prepared(place, say)), within=SECONDS)
    alone = answer(fork("alone", lambda say: served(place, size.calls, 0, say)), within=SECONDS)["took"]
    child = fork("looper", lambda say: looper(place, size.proposals, plant, say))
    listen([child], time.monotonic() + SECONDS, lambda: bool(child.said("began")))
    beside = answer(fork("beside", lambda say: served(place, size.calls, size.calls, say)), within=SECONDS)["took"]
    loop = answer(child, within=SECONDS)
    figures = {
        "proposals taken": loop["taken"],
        "proposals turned away": loop["refused"],
        "call of another agent alone, median ms": round(median(alone), 1),
        "call of another agent beside the loop, median ms": round(median(beside), 1),
        "call of another agent beside the loop, longest ms": round(max(beside), 1),
    }
    wrong = []
    if loop["taken"] > LIMIT:
        wrong.append(f"{loop['taken']} requests of one agent wait, and {LIMIT} may")
    if loop["taken"] + loop["refused"] != size.proposals:
        wrong.append("some proposals were neither taken nor turned away")
    if len(beside) != size.calls:
        wrong.append(f"{size.calls - len(beside)} calls of another agent were not served")
    return figures, wrong


def run(seed: int, size: Size, progress: Any) -> Outcome:
    outcome = Outcome(
        "looping",
        "an agent that proposes in a loop is turned away beyond its limit, and what other agents ask still appears and "
        "is decided",
        ("I13",),
        seed,
        sizes={"proposals": size.proposals, "calls of another agent": size.calls},
        bounds={"limit": LIMIT},
    )
    began = time.monotonic()
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-evidence-"))
        server = stack.enter_context(postgres.server())
        for kind in size.kinds:
            progress(kind)
            with placed(kind, server, root) as place:
                figures, wrong = tried(place, size)
            outcome.figures.update({f"{kind}: {name}": figure for name, figure in figures.items()})
            outcome.take({}, [f"{kind}: {each}" for each in wrong])
            with placed(kind, server, root) as place:
                _, wrong = tried(place, Size(LIMIT + 50, 1), unlimited)
            means = (unlimited.__doc__ or "").strip()
            outcome.controls.append(Control(f"unlimited, {kind}", means, bool(wrong), 1 if wrong else None, *wrong[:1]))
    outcome.seconds = time.monotonic() - began
    return outcome
