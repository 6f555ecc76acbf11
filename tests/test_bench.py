"""The benchmarks run and say what they measured. How fast anything is depends on the machine, so no time is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_quick_run_answers_every_question(tmp_path: Path) -> None:
    out = tmp_path / "latest.json"
    command = [sys.executable, "bench/run.py", "--quick", "--no-peers", "--no-postgres", "--out", str(out)]
    places = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    titles = [figure["title"] for figure in found["figures"]]
    assert [title[:2] for title in titles] == ["1.", "2.", "3.", "4.", "5."]
    assert all(title in done.stdout for title in titles)
    for figure in found["figures"]:
        assert figure["rows"]
        for row in figure["rows"]:
            # Whoever waits may wake, in whatever process, before whoever decided has read the clock after the commit.
            overtaken = "process, " in row["what"]
            assert all(overtaken or value > 0 for value in row["ours"]["values"]), row["what"]
