"""What a suite found, as it is written down: enough to run the same again and to see how sure it makes one."""

import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import apsw

PACKAGES = ("assentry", "apsw", "psycopg", "hypothesis", "msgspec", "pydantic", "cryptography", "uuid_utils")
TOLD = 20


@dataclass(slots=True)
class Control:
    """A bug that was planted. `found_after` counts the trials until the suite complained."""

    bug: str
    means: str
    found: bool
    found_after: int | None
    said: str = ""
    expected: bool = True
    """False for what this kind of trial cannot see; it is run to show just that."""

    @property
    def holds(self) -> bool:
        return self.found == self.expected


@dataclass(slots=True)
class Outcome:
    """One suite, run once."""

    suite: str
    shows: str
    invariants: tuple[str, ...]
    seed: int
    sizes: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    controls: list[Control] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def take(self, counts: dict[str, int], wrong: list[str]) -> bool:
        """Counts are added to the figures, complaints to what is wrong. Never a reason to stop."""
        for name, number in counts.items():
            self.figures[name] = self.figures.get(name, 0) + number
        for what in wrong[: max(0, TOLD - len(self.wrong))]:
            print(f"{self.suite}: VIOLATION {what}", file=sys.stderr, flush=True)
        self.wrong += wrong
        return False

    @property
    def passed(self) -> bool:
        return not self.wrong and all(control.holds for control in self.controls)

    def write(self, directory: Path) -> Path:
        """The file that holds it."""
        document = {
            "suite": self.suite,
            "verdict": "passed" if self.passed else "failed",
            "shows": self.shows,
            "invariants": list(self.invariants),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": self.seed,
            "sizes": self.sizes,
            "bounds": self.bounds,
            "figures": {name: self.figures[name] for name in sorted(self.figures)},
            "violations": len(self.wrong),
            "first violations": self.wrong[:TOLD],
            "planted bugs": [asdict(control) for control in self.controls],
            "seconds": round(self.seconds, 1),
            "versions": versions(),
        }
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"{self.suite}.json"
        file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return file


def versions() -> dict[str, str]:
    """What it ran on, by name and number; nothing that tells which machine it was."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {**found, "sqlite": apsw.sqlite_lib_version()}
