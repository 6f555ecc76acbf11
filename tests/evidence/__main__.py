"""`python -m tests.evidence`: the suites, one after the other, each into a file of its own."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.evidence import (
    crash,
    crowded,
    deciders,
    disk,
    facts,
    fence,
    fence_runs,
    hostile,
    instances,
    life,
    listeners,
    looping,
    parked,
    restart,
    runs,
    tampering,
)
from tests.evidence.outcome import Outcome
from tests.evidence.processes import end_all, warmed
from tests.evidence.world import warm

SEED = 20260102
STEPS = {True: 1_000, False: 1_000_000}
CASES = {True: 300, False: 100_000}
Progress = Callable[[str], None]
Suite = Callable[[int, float, bool, Progress], Outcome]


def scaled(number: int, scale: float) -> int:
    return max(1, round(number * scale))


def _crash(kind: str) -> Suite:
    def run(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
        size = crash.SAMPLE if sample else crash.FULL
        size = replace(size, random=scaled(size.random, scale), near=scaled(size.near, scale))
        return crash.run(kind, seed, size, progress)

    return run


def _deciders(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = deciders.SAMPLE if sample else deciders.FULL
    return deciders.run(seed, replace(size, rounds=scaled(size.rounds, scale)), progress)


def _fence(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = fence.SAMPLE if sample else fence.FULL
    return fence.run(seed, replace(size, wanted=scaled(size.wanted, scale)), progress)


def _restart(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = restart.SAMPLE if sample else restart.FULL
    return restart.run(seed, replace(size, restarts=scaled(size.restarts, scale)), progress)


def _disk(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = disk.SAMPLE if sample else disk.FULL
    return disk.run(seed, replace(size, trials=scaled(size.trials, scale)), progress)


def _runs(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = runs.SAMPLE if sample else runs.FULL
    return runs.run(seed, replace(size, kills=scaled(size.kills, scale)), progress)


def _fence_runs(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = fence_runs.SAMPLE if sample else fence_runs.FULL
    return fence_runs.run(seed, replace(size, trials=scaled(size.trials, scale)), progress)


def _parked(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = parked.SAMPLE if sample else parked.FULL
    return parked.run(seed, replace(size, many=max(2 * size.few, scaled(size.many, scale))), progress)


def _crowded(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = crowded.SAMPLE if sample else crowded.FULL
    return crowded.run(seed, replace(size, many=max(2 * size.few, scaled(size.many, scale))), progress)


def _listeners(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = listeners.SAMPLE if sample else listeners.FULL
    return listeners.run(seed, replace(size, requests=scaled(size.requests, scale)), progress)


def _instances(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = instances.SAMPLE if sample else instances.FULL
    size = replace(size, kills=scaled(size.kills, scale), decisions=scaled(size.decisions, scale))
    return instances.run(seed, size, progress)


def _looping(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = looping.SAMPLE if sample else looping.FULL
    return looping.run(seed, replace(size, proposals=scaled(size.proposals, scale)), progress)


def _hostile(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    size = hostile.SAMPLE if sample else hostile.FULL
    return hostile.run(seed, replace(size, payloads=scaled(size.payloads, scale)), progress)


def _life(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    plants = life.PLANTED[1:2] if sample else life.PLANTED
    return life.run(seed, scaled(STEPS[sample], scale), progress, plants)


def _tamper(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    return tampering.run(seed, scaled(CASES[sample], scale), progress)


def _facts(seed: int, scale: float, sample: bool, progress: Progress) -> Outcome:
    return facts.run(seed, scaled(CASES[sample], scale), progress)


SUITES: dict[str, Suite] = {
    "crash-sqlite": _crash("sqlite"),
    "crash-postgres": _crash("postgres"),
    "crash-runs": _runs,
    "fence-runs": _fence_runs,
    "parked": _parked,
    "crowded": _crowded,
    "listeners": _listeners,
    "instances": _instances,
    "looping": _looping,
    "deciders": _deciders,
    "fence": _fence,
    "postgres-restart": _restart,
    "disk-full": _disk,
    "life": _life,
    "tamper": _tamper,
    "facts": _facts,
    "hostile": _hostile,
}


def shown(name: str) -> Progress:
    """Prints how far a suite is: a line that is rewritten on a terminal, now and then a new one elsewhere."""
    began = last = time.monotonic()
    on_terminal = sys.stderr.isatty()

    def progress(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if on_terminal:
            print(f"\r\x1b[K{name}: {text}", end="", file=sys.stderr, flush=True)
        elif now - last > 15:
            last = now
            print(f"{name}: {text} ({now - began:.0f} s)", file=sys.stderr, flush=True)

    return progress


def told(outcome: Outcome) -> dict[str, object]:
    """The suite in a few lines, printed and for the summary."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    verdict = "passed" if outcome.passed else "failed"
    print(f"{clear}{verdict}  {outcome.suite}  ({outcome.seconds:.0f} s, seed {outcome.seed})")
    for name, number in sorted(outcome.figures.items()):
        print(f"        {number:>8}  {name}")
    for wrong in outcome.wrong[:20]:
        print(f"        WRONG  {wrong}")
    for control in outcome.controls:
        found = f"found after {control.found_after}: {control.said}" if control.found else "not found"
        print(f"        planted: {control.bug}: {found}" + ("" if control.expected else " (as expected)"))
    sys.stdout.flush()
    return {
        "verdict": verdict,
        "violations": len(outcome.wrong),
        "seconds": round(outcome.seconds, 1),
        "sizes": outcome.sizes,
        "planted bugs found": f"{sum(c.found for c in outcome.controls)} of {sum(c.expected for c in outcome.controls)}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence", description=__doc__)
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="only this one; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the sizes")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", type=Path, default=Path("evidence"), help="where to write (default: evidence/)")
    parser.add_argument("--sample", action="store_true", help="small sizes, as `make test` runs them")
    given = parser.parse_args()
    # So that everything started here is ended and removed, also when somebody ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside (SIGTERM); nothing more was found out"))
    warm()
    warmed()
    summary = {}
    try:
        for name in given.suite or SUITES:
            outcome = SUITES[name](given.seed, given.scale, given.sample, shown(name))
            outcome.write(given.json)
            summary[name] = told(outcome)
    finally:
        end_all()
    (given.json / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    return 0 if all(one["verdict"] == "passed" for one in summary.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
