"""Figures: repeated measurements, what they are compared with, and what was promised."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Measurement = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Series:
    """One thing, measured several times."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """How far apart the slowest and the fastest are, as a part of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ours, a peer's, and their ratio, held against a target if there is one."""

    what: str
    unit: str
    ours: Series
    against: str = ""
    theirs: Series | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours by theirs. Rounds were interleaved, so it is the median of the ratios of each round."""
        if self.theirs is None:
            return None
        return statistics.median(mine / other for mine, other in zip(self.ours.values, self.theirs.values, strict=True))

    @property
    def met(self) -> bool | None:
        """Whether the target was met; nothing where there is none."""
        ratio = self.ratio
        if ratio is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)

    def as_json(self) -> dict[str, Any]:
        found = {**asdict(self), "ratio": self.ratio, "met": self.met}
        found["ours"] = {"median": self.ours.median, "spread": self.ours.spread, "values": self.ours.values}
        if self.theirs is not None:
            found["theirs"] = {"median": self.theirs.median, "spread": self.theirs.spread, "values": self.theirs.values}
        return found


@dataclass(slots=True)
class Figure:
    """One question, the lines that answer it, and what a reader must know of how it was measured."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, unit: str, ours: Series, **more: Any) -> None:
        self.rows.append(Row(what, unit, ours, **more))

    def as_json(self) -> dict[str, Any]:
        return {"title": self.title, "rows": [row.as_json() for row in self.rows], "notes": self.notes}


def interleaved(rounds: int, measurements: Mapping[str, Measurement]) -> dict[str, Series]:
    """Each measurement once per round, in turn, so that a busy moment of the machine meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in measurements}
    for number in range(rounds):
        names = list(measurements)
        # Forwards and backwards by turns: nobody always comes right after the same neighbour.
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(measurements[name]())
    return {name: Series(tuple(values)) for name, values in found.items()}
