"""How long each test took, in seconds and in processor time, written to `artefacts/` at the end of every run.

Processor time is that of the process which ran the test and of the processes that it waited for: it tells more than
seconds do where something else uses the machine.
"""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "artefacts" / "durations"
_BEGAN = pytest.StashKey[float]()


def processor_seconds() -> float:
    """Processor time that this process and its ended children have used so far."""
    return sum(os.times()[:4])


class Durations:
    """Notes what every test took; where tests are distributed, workers measure and the controller writes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began, self._at = time.monotonic(), datetime.now(UTC)
        self._tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_BEGAN] = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
        if call.when == "teardown":
            item.user_properties.append(("processor", round(processor_seconds() - item.stash[_BEGAN], 3)))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(report.nodeid, {"seconds": 0.0, "outcome": "passed"})
        test["seconds"] = round(test["seconds"] + report.duration, 3)
        if report.outcome != "passed":
            test["outcome"] = report.outcome
        test.update(report.user_properties)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if hasattr(self._config, "workerinput") or not self._tests:
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        slowest = sorted(self._tests.items(), key=lambda each: -each[1]["seconds"])
        outcomes = [test["outcome"] for test in self._tests.values()]
        written = {
            "began": self._at.isoformat(timespec="seconds"),
            "run": self._config.getoption("markexpr") or "everything",
            "seconds": round(time.monotonic() - self._began, 1),
            "exit status": int(exitstatus),
            **{outcome: outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")},
            "tests": dict(slowest),
        }
        file = FOLDER / f"{self._at:%Y%m%dT%H%M%S}-{os.getpid()}.json"
        file.write_text(json.dumps(written, indent=1))
