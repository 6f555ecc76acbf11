"""The working tree beside another revision: the same work in turns, in wall time and in processor time.

The revision is unpacked into a temporary folder, which git knows nothing of, so whatever ends us leaves no worktree
behind. Both run with this interpreter and the packages that are installed here; only `src` differs.
"""

import statistics
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from math import comb
from pathlib import Path
from typing import Any

from bench import processes
from bench.subject import ROOT, Failed, Subject, environment
from tests import postgres

PARTS = ("allowed", "cycles", "startup")
MICRO, MILLI = ("µs", 1e6), ("ms", 1e3)
ENOUGH = 6
"""So many pairs can hold an interval of 95 %."""

Taken = dict[str, float]


class NotComparable(RuntimeError):
    """There is nothing to compare with; the message says why."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared."""

    name: str
    root: Path

    @property
    def source(self) -> Path:
        return self.root / "src"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing in one kind of time: what each side took, pair by pair, in the unit."""

    what: str
    time: str
    unit: str
    here: tuple[float, ...]
    there: tuple[float, ...]
    at_most: float | None = None

    @property
    def ratios(self) -> list[float]:
        """Here by there, of each pair that was measured one right after the other."""
        return sorted(here / there for here, there in zip(self.here, self.there, strict=True) if there)

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the median ratio lies with at least 95 %, by the order of the pairs; all of them if they are few."""
        ratios = self.ratios
        if not ratios:
            return None
        number, cut = len(ratios), 0
        while 2 * sum(comb(number, each) for each in range(cut + 1)) <= 0.05 * 2**number:
            cut += 1
        cut = max(cut, 1)
        return ratios[cut - 1], ratios[number - cut]

    @property
    def says(self) -> str:
        """Whether there is a difference, in words."""
        ratio, interval = self.ratio, self.interval
        if ratio is None or interval is None:
            return "too little to measure"
        if interval[0] <= 1 <= interval[1] or abs(ratio - 1) < 0.01:
            return "within the noise"
        if len(self.ratios) < ENOUGH:
            return "too few rounds to tell"
        return f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'}"

    @property
    def met(self) -> bool | None:
        """Whether the working tree takes as little as it must; nothing where nothing was demanded."""
        return None if self.at_most is None or self.ratio is None else self.ratio <= self.at_most

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what, "time": self.time, "unit": self.unit,
            "here": self.here, "there": self.there, "ratio": self.ratio, "interval": self.interval,
            "says": self.says, "at_most": self.at_most, "met": self.met,
        }  # fmt: skip


@dataclass(slots=True)
class Found:
    """What came out of a comparison."""

    here: str
    there: str
    rounds: int
    notes: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def missed(self) -> list[Line]:
        return [line for line in self.lines if line.met is False]

    def table(self) -> str:
        """It, to be read on a terminal or as Markdown."""
        rows = [["what", "time", "here", "there", "ratio", "95 %", ""]]
        for line in self.lines:
            ratio, interval = line.ratio, line.interval
            demanded = {True: f", ≤ {line.at_most} met", False: f", ≤ {line.at_most} MISSED", None: ""}[line.met]
            rows.append([
                line.what,
                line.time,
                f"{statistics.median(line.here):,.0f} {line.unit}",
                f"{statistics.median(line.there):,.0f} {line.unit}",
                "" if ratio is None else f"{ratio:.2f}",
                "" if interval is None else f"{interval[0]:.2f}-{interval[1]:.2f}",
                line.says + demanded,
            ])  # fmt: skip
        rows += [[what, "", "", "", "", "", f"cannot be compared: {why}"] for what, why in self.failed.items()]
        wide = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        rule = ["-" * wide[0], "-" * wide[1], *("-" * (size - 1) + ":" for size in wide[2:6]), "-" * wide[6]]
        right = (False, False, True, True, True, True, False)
        shown = [
            [
                cell.rjust(size) if to_right else cell.ljust(size)
                for cell, size, to_right in zip(row, wide, right, strict=True)
            ]
            for row in rows
        ]
        lines = ["| " + " | ".join(row) + " |" for row in (shown[0], rule, *shown[1:])]
        head = (
            f"here:  {self.here}\nthere: {self.there}\n{self.rounds} rounds of here, there, there, here. "
            "A ratio is here by there, the median of the pairs: above 1, what is here takes more."
        )
        return "\n".join(["", head, *self.notes, "", *lines, ""])

    def as_json(self) -> dict[str, Any]:
        return {
            "here": self.here, "there": self.there, "rounds": self.rounds, "notes": self.notes,
            "lines": [line.as_json() for line in self.lines], "failed": self.failed,
        }  # fmt: skip


def compared(
    revision: str, directory: Path, *,
    parts: Sequence[str], rounds: int, size: float, with_postgres: bool, at_most: float | None,
) -> Found:  # fmt: skip
    """The working tree was compared with `revision`."""
    here, there = working_tree(), unpacked(revision, directory / "there")
    found = Found(here.name, there.name, rounds, list(differences(here, there)))
    with ExitStack() as stack:
        cluster = stack.enter_context(postgres.cluster()) if with_postgres and "cycles" in parts else None
        bases = [
            (
                callers,
                each,
                kind,
                [_database(kind, directory / f"{name}-{callers}.db", cluster, stack) for name in "AB"],
            )
            for kind in (("SQLite", "PostgreSQL") if cluster is not None else ("SQLite",))
            for callers, each in ((1, 200), (50, 20))
            if "cycles" in parts
        ]
        pair = [stack.enter_context(standing(side, directory / name)) for name, side in (("A", here), ("B", there))]
        for what, unit, measure in _todo(pair, (here, there), directory, bases, cluster, parts, size):
            print(f"measuring {what}…", file=sys.stderr)
            try:
                taken = interleaved(rounds, measure)
            except (Failed, processes.Failed) as problem:
                found.failed[what] = str(problem)
                continue
            for time in taken[0][0]:
                limit = at_most if time == "processor" else None
                ours, theirs = (tuple(each[time] * unit[1] for each in side) for side in taken)
                found.lines.append(Line(what, time, unit[0], ours, theirs, limit))
    return found


def interleaved(rounds: int, measure: Callable[[int], Taken]) -> tuple[list[Taken], list[Taken]]:
    """What each side took, in pairs: here, there, there, here; after both have done it once to warm up."""
    taken: tuple[list[Taken], list[Taken]] = ([], [])
    for side in (0, 1):
        measure(side)
    for _ in range(rounds):
        for side in (0, 1, 1, 0):
            taken[side].append(measure(side))
    return taken


Todo = tuple[str, tuple[str, float], Callable[[int], Taken]]


def _todo(
    pair: Sequence[Subject], sides: Sequence[Side], directory: Path, bases: Sequence[tuple[int, int, str, list[str]]],
    cluster: postgres.Cluster | None, parts: Sequence[str], size: float,
) -> Iterator[Todo]:  # fmt: skip
    def times(number: int) -> int:
        return max(2, round(number * size))

    if "allowed" in parts:
        yield "allowed call", MICRO, lambda side: pair[side].ask("allowed", calls=times(5000))
    for callers, each, kind, both in bases:
        counted = cluster if kind == "PostgreSQL" else None
        what = f"held cycle, {kind}, {callers} caller{'s' if callers > 1 else ''}"
        yield what, MICRO, partial(_cycle, pair, both, counted, callers, times(each))
    if "startup" not in parts:
        return
    places = [directory / name for name in "AB"]

    def help_(side: int) -> Taken:
        return _started(sides[side], places[side], _entry(sides[side]), "--help")

    def pending(side: int) -> Taken:
        if not (places[side] / "assentry.db").exists():
            pair[side].ask("seeded", number=5)
        return _started(sides[side], places[side], _entry(sides[side]), "pending")

    def imported(module: str, side: int) -> Taken:
        return _started(sides[side], places[side], f"import {module}")

    yield "assentry --help", MILLI, help_
    yield "assentry pending, 5 requests", MILLI, pending
    for module in ("assentry", "assentry.server.app"):
        yield f"import {module}", MILLI, partial(imported, module)


def _database(kind: str, path: Path, cluster: postgres.Cluster | None, stack: ExitStack) -> str:
    """A fresh database of this kind, gone when the stack is left."""
    if kind == "SQLite" or cluster is None:
        return str(path)
    return stack.enter_context(postgres.database(cluster.url))


def _cycle(
    pair: Sequence[Subject], bases: Sequence[str], cluster: postgres.Cluster | None, callers: int, each: int, side: int
) -> Taken:
    before = processes.spent_by(cluster.pid) if cluster is not None else 0.0
    taken: Taken = pair[side].ask("cycles", database=bases[side], callers=callers, each=each)
    if cluster is not None:
        taken["PostgreSQL's processor"] = (processes.spent_by(cluster.pid) - before) / (callers * each)
    return taken


def _started(side: Side, directory: Path, program: str, *words: str) -> Taken:
    env = {**environment(directory), "PYTHONPATH": str(side.source)}
    return processes.command([sys.executable, "-c", program, *words], env, directory)


def _entry(side: Side) -> str:
    """A program that is the command `assentry` of this side."""
    entry = _project(side).get("scripts", {}).get("assentry")
    if entry is None:
        raise Failed(f"{side.name} has no command assentry")
    module, _, name = entry.partition(":")
    return f"import sys\nfrom {module} import {name}\nsys.argv[0] = 'assentry'\nsys.exit({name}())"


@contextmanager
def standing(side: Side, directory: Path) -> Iterator[Subject]:
    """A measuring process with the package of this side, gone afterwards; killed if anything went wrong."""
    directory.mkdir()
    subject = Subject("ours_compared", sys.executable, directory, side.source)
    try:
        try:
            imported = Path(subject.ask("which"))
        except Failed as problem:
            raise NotComparable(f"{side.name}: its package cannot be imported here: {problem}") from problem
        if not imported.is_relative_to(side.source):
            raise NotComparable(f"{side.name}: assentry was imported from {imported}, not from {side.source}")
        yield subject
    except BaseException:
        subject.stop()
        raise
    subject.end()


def working_tree() -> Side:
    """What is here, committed or not."""
    try:
        commit, changed = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        raise NotComparable("revisions can be compared in a git checkout only, and with git installed") from None
    return Side(f"working tree, {commit}{' with uncommitted changes in src' if changed else ''}", ROOT)


def unpacked(revision: str, folder: Path) -> Side:
    """The revision, in this folder."""
    try:
        commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        raise NotComparable(
            f"git knows no revision {revision!r}. Name a branch, a tag or a commit, such as main or HEAD~1; "
            "`git log --oneline` lists commits, and a shallow clone has only the latest (`git fetch --unshallow`)."
        ) from None
    files = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
    short = _git("rev-parse", "--short", commit)
    if not (folder / "src" / "assentry").is_dir():
        raise NotComparable(
            f"{revision} ({short}) cannot be compared: it has no package src/assentry. Name a later revision."
        )
    return Side(short if commit.startswith(revision) else f"{revision}, {short}", folder)


def differences(here: Side, there: Side) -> Iterator[str]:
    """What differs besides the source, for whoever reads the ratios."""
    mine, theirs = (
        {
            "base": sorted(_project(side).get("dependencies", ())),
            **{name: sorted(each) for name, each in _project(side).get("optional-dependencies", {}).items()},
        }
        for side in (here, there)
    )
    names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    if names:
        yield f"Their requirements differ ({', '.join(names)}); both run with the packages that are installed here."


def _project(side: Side) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((side.root / "pyproject.toml").read_text())["project"]
    return found


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
