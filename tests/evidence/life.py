"""The state machine of `tests/core/test_life.py`, for as many steps as wanted, from one seed."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from assentry.core import running
from assentry.core.request import Request
from tests.core.test_life import Life
from tests.evidence import planted
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, fork, listen

EXAMPLES = 100
STEPS = 40
LANES = 2


class Counted(Life):
    """Counts the steps it takes; what it checks is inherited."""

    steps = 0

    @invariant()
    def counts(self) -> None:
        Counted.steps += 1


def lived(first: int, wanted: int, say: Say, plant: Callable[[], None] = lambda: None) -> None:
    """Batches, each with a seed of its own, until so many steps were taken; says how far it is, and what broke."""
    plant()
    batch = 0
    how = settings(
        max_examples=min(EXAMPLES, max(10, wanted // STEPS)), stateful_step_count=STEPS, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    while Counted.steps < wanted:
        machine: Any = seed(first * 1_000_003 + batch)(Counted)
        try:
            run_state_machine_as_test(machine, settings=how)
        except Exception as broken:
            say("broke", text=f"batch {batch}: {type(broken).__name__}: {broken}"[:600], steps=Counted.steps)
            return
        batch += 1
        say("batch", steps=Counted.steps, batch=batch)


def token_ignored() -> None:
    """A result is taken under any token."""
    running.hold_lease = lambda *_: None


def digest_ignored() -> None:
    """Other bytes than those approved may begin."""
    begun = running.begun

    def careless(request: Request, event: Any, now: Any) -> Any:
        return begun(request, replace(event, digest=request.candidate.permit_digest), now)

    planted.swap(running, "begun", careless)


def unknown_begins() -> None:
    """An unknown outcome is begun again whether the action is idempotent or not."""
    planted.swap(Request, "is_idempotent", property(lambda _: True))


PLANTED = (token_ignored, digest_ignored, unknown_begins)


def run(
    first: int, wanted: int, progress: Callable[[str], None], planted: tuple[Callable[[], None], ...] = PLANTED
) -> Outcome:
    outcome = Outcome(
        "life",
        "whatever happens to a request in whatever order, with clock jumps and stale digests: at most one effect per "
        "approval, no approval without its quorum, nothing dangerous on silence, what ended stays ended",
        ("I1", "I2", "I3", "I5", "I6", "I7", "I8", "I17"),
        first,
        sizes={"steps": wanted},
        bounds={"steps of a life": STEPS, "lives of a batch": EXAMPLES, "seeds": "(seed + lane) * 1000003 + batch"},
    )
    began = time.monotonic()
    share = -(-wanted // LANES)
    lanes = [
        fork(f"lane {lane}", lambda say, lane=lane: lived(first + lane, share, say))  # type: ignore[misc]
        for lane in range(LANES)
    ]

    def look() -> bool:
        taken = sum(lane.said("batch")[-1]["steps"] for lane in lanes if lane.said("batch"))
        progress(f"{taken}/{wanted} steps")
        return any(lane.said("broke") or lane.said("crash") for lane in lanes)

    listen(lanes, time.monotonic() + 60 + wanted / 100, look)
    for lane in lanes:
        heard = lane.end()
        done = lane.said("batch")
        outcome.take({"steps": done[-1]["steps"] if done else 0, "batches": len(done)}, [])
        outcome.take({}, [one.get("text") or one["trace"] for one in heard if one["what"] in ("broke", "crash")])
    if outcome.figures["steps"] < wanted and not outcome.wrong:
        outcome.wrong.append("it did not come to its end in time")
    outcome.controls = [_control(first, plant) for plant in planted]
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(first: int, plant: Callable[[], None]) -> Control:
    child = fork("life", lambda say: lived(first, 60_000, say, plant))
    listen([child], time.monotonic() + 300, lambda: bool(child.said("broke") or child.said("crash")))
    child.end()
    broke = child.said("broke")
    steps = broke[0]["steps"] if broke else None
    name, means = plant.__name__.replace("_", " "), (plant.__doc__ or "").strip()
    return Control(name, f"{means} (counted in steps)", bool(broke), steps, broke[0]["text"][:200] if broke else "")
