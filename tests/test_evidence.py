"""The evidence suites on samples: the same code as `make evidence`, in a process of its own that forks others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evidence.history import complaints
from tests.evidence.outcome import Control, Outcome

ROOT = Path(__file__).parent.parent
SUITES = (
    "crash-sqlite",
    "crash-postgres",
    "crash-runs",
    "fence-runs",
    "parked",
    "crowded",
    "listeners",
    "instances",
    "looping",
    "deciders",
    "fence",
    "postgres-restart",
    "disk-full",
    "life",
    "facts",
    "hostile",
)
"""All but `tamper`, whose sample `test_tamper.py` runs."""


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("suite", SUITES)
def test_a_sample_shows_no_violation_and_finds_every_planted_bug(suite: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.evidence", "--sample", "--suite", suite, "--json", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / f"{suite}.json").read_text())
    assert found["verdict"] == "passed"
    assert found["violations"] == 0
    assert found["seed"]
    assert found["figures"]
    assert all(bug["found"] for bug in found["planted bugs"])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary[suite]["verdict"] == "passed"


def test_an_outcome_with_a_violation_or_an_unseen_bug_has_failed() -> None:
    assert Outcome("s", "", (), 1).passed
    assert not Outcome("s", "", (), 1, wrong=["ran twice"]).passed
    assert not Outcome("s", "", (), 1, controls=[Control("bug", "", found=False, found_after=None)]).passed
    assert Outcome("s", "", (), 1, controls=[Control("b", "", found=False, found_after=None, expected=False)]).passed


def test_a_request_without_entries_is_complained_about() -> None:
    assert complaints(None, ()) == ["its log does not begin with the asking: []"]  # type: ignore[arg-type]
