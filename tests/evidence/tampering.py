"""The damaged logs of `tests/tamper.py` at full size, in a few processes, each with a seed of its own."""

import time
from collections.abc import Callable

from assentry.core import audit
from assentry.core.signing import PublicKeys
from tests import tamper
from tests.evidence import planted
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, answer, fork, listen

BATCH = 2_500
LANES = 2


def damaged(seed: int, batches: range, cases: int, say: Say, plant: Callable[[], None] = lambda: None) -> None:
    """Batches one after the other; what was found in each is said."""
    plant()
    for batch in batches:
        found = tamper.run(cases, seed + batch)
        say("batch", missed=found["missed"], first=found["first_missed"], cases=found["cases"], kinds=found["by_kind"])
    say("answer")


def roots_not_compared() -> None:
    """The tree of the entries is not held against the root that was signed."""
    planted.swap(audit.Walk, "_matches", lambda *_: True)


def signatures_not_checked() -> None:
    """Whatever stands where a signature should be is taken for one."""
    planted.swap(PublicKeys, "check", lambda *_: True)


def run(seed: int, cases: int, progress: Callable[[str], None]) -> Outcome:
    outcome = Outcome(
        "tamper",
        "logs, receipts, exports and proofs, each damaged in one way: every damage is told and named",
        ("I9",),
        seed,
        sizes={"cases": cases},
        bounds={"cases of a batch": min(BATCH, cases), "seed of batch n": "seed + n"},
    )
    began = time.monotonic()
    count = max(1, cases // BATCH)
    size = min(BATCH, cases)
    lanes = [
        fork(f"lane {lane}", lambda say, lane=lane: damaged(seed, range(lane, count, LANES), size, say))  # type: ignore[misc]
        for lane in range(min(LANES, count))
    ]

    def look() -> bool:
        done = sum(one["cases"] for lane in lanes for one in lane.said("batch"))
        progress(f"{done}/{cases} damaged")
        return any(lane.said("crash") for lane in lanes)

    listen(lanes, time.monotonic() + 120 + cases / 20, look)
    for lane in lanes:
        for one in lane.end():
            if one["what"] == "batch":
                outcome.take({"cases": one["cases"], "missed": one["missed"]}, one["first"])
                for kind, counts in one["kinds"].items():
                    outcome.take({f"damage: {kind}": counts["cases"]}, [])
            elif one["what"] == "crash":
                outcome.wrong.append(one["trace"])
    if outcome.figures.get("cases", 0) < count * size and not outcome.wrong:
        outcome.wrong.append("it did not come to its end in time")
    for plant in (roots_not_compared, signatures_not_checked):
        outcome.controls.append(_control(seed, plant))
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(seed: int, plant: Callable[[], None]) -> Control:
    name, means = plant.__name__.replace("_", " "), (plant.__doc__ or "").strip()
    child = fork("control", lambda say: damaged(seed, range(1), 300, say, plant))
    answer(child, within=300)
    found = child.said("batch")[0]
    first = found["first"][0] if found["first"] else ""
    after = int(first.split()[1].rstrip(":")) + 1 if first else None
    return Control(name, means, bool(found["missed"]), after, first)
