"""The benchmarks run and say what they measured. How fast anything is depends on the machine, so no time is asserted."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.against import Line, interleaved

ROOT = Path(__file__).parent.parent


def line(*ratios: float, at_most: float | None = None) -> Line:
    """A line whose pairs have these ratios."""
    return Line("cycle", "processor", "µs", tuple(ratios), (1.0,) * len(ratios), at_most)


@pytest.mark.proof
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


@pytest.mark.parametrize(
    ("ratios", "interval", "says"),
    [
        ((1.0, 1.0), (1.0, 1.0), "within the noise"),
        ((0.9, 1.2, 0.8, 1.1, 1.3, 0.7), (0.7, 1.3), "within the noise"),
        ((1.2, 1.3), (1.2, 1.3), "too few rounds to tell"),
        ((1.2, 1.22, 1.24, 1.24, 1.26, 1.27), (1.2, 1.27), "24% more"),
        ((0.5,) * 10, (0.5, 0.5), "50% less"),
        ((0.5, *(1.2,) * 8, 9.0), (1.2, 1.2), "20% more"),
        ((1.001,) * 10, (1.001, 1.001), "within the noise"),
    ],
)
def test_a_difference_is_said_only_where_the_pairs_show_one(
    ratios: tuple[float, ...], interval: tuple[float, float], says: str
) -> None:
    found = line(*ratios)
    assert (found.interval, found.says) == (interval, says)


def test_a_limit_is_missed_by_the_median_and_where_there_is_none_nothing_is_said() -> None:
    assert [line(1.0, 1.2, 1.3, at_most=limit).met for limit in (1.1, 1.2, None)] == [False, True, None]


def test_both_sides_take_turns_after_a_warm_up_that_is_not_counted() -> None:
    order: list[int] = []

    def measure(side: int) -> dict[str, float]:
        order.append(side)
        return {"wall": float(len(order))}

    here, there = interleaved(2, measure)
    assert order == [0, 1, *(0, 1, 1, 0) * 2]
    assert [each["wall"] for each in here] == [3.0, 6.0, 7.0, 10.0]
    assert [each["wall"] for each in there] == [4.0, 5.0, 8.0, 9.0]


def git(root: Path, *words: str) -> None:
    names = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The benchmarks and the package in a repository of their own; its first commits are no good for a comparison."""
    root = tmp_path / "copy"
    (root / "src" / "another").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / ".gitignore").write_text("__pycache__/\n.work/\nresults/\n")
    (root / "src" / "another" / "__init__.py").touch()
    git(root, "init", "--quiet", "--initial-branch", "main")
    for message in ("old name", "lacks almost everything", "now"):
        if message == "lacks almost everything":
            (root / "src" / "another").rename(root / "src" / "assentry")
        if message == "now":
            shutil.rmtree(root / "src")
            ignored = shutil.ignore_patterns("__pycache__", ".work", "results", ".peers-venv")
            for folder in ("src", "bench"):
                shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
            (root / "tests").mkdir()
            for name in ("__init__.py", "postgres.py"):
                shutil.copy(ROOT / "tests" / name, root / "tests")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", message)
    return root


def against(root: Path, *words: str) -> subprocess.Popen[str]:
    """`make bench ARGS="--against …"` in this repository."""
    return subprocess.Popen(
        [sys.executable, "bench/run.py", "--no-postgres", "--against", *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("revision", "says"),
    [
        ("no-such-branch", "git knows no revision 'no-such-branch'"),
        ("--output=x", "expected one argument"),
        ("main~2", "it has no package src/assentry"),
    ],
)
def test_a_revision_that_cannot_be_compared_is_refused_with_the_reason(copy: Path, revision: str, says: str) -> None:
    process = against(copy, revision)
    _, said = process.communicate()
    assert process.returncode == 2
    assert says in said
    assert "Traceback" not in said
    assert list((copy / "bench").glob(".work/*")) == []


@pytest.mark.proof
def test_a_revision_beside_itself_shows_no_difference(copy: Path) -> None:
    (copy / "src" / "assentry" / "changed.py").touch()
    process = against(copy, "main", "--only", "allowed", "--only", "startup", "--quick", "--rounds", "3")
    table, said = process.communicate()
    assert process.returncode == 0, said
    found = json.loads((copy / "bench" / "results" / "against.json").read_text())
    assert "uncommitted changes" in found["here"]
    assert found["failed"] == {}
    lines: list[dict[str, Any]] = found["lines"]
    assert {each["time"] for each in lines} == {"wall", "processor"}
    assert len(lines) == 10
    assert all(each["what"] in table for each in lines)
    # One line in twenty may show a difference by chance.
    assert [each["says"] for each in lines].count("within the noise") > len(lines) / 2
    for each in lines:
        assert len(each["here"]) == len(each["there"]) == 6
        assert each["time"] == "wall" or 0.5 < each["ratio"] < 2, each
    assert list((copy / "bench").glob(".work/*")) == []


@pytest.mark.proof
def test_what_the_other_revision_lacks_is_said_and_the_rest_is_compared(copy: Path) -> None:
    process = against(copy, "main~1", "--quick", "--json", str(copy / "found.json"), "--at-most", "0.0001")
    table, said = process.communicate()
    assert process.returncode == 1, said
    found = json.loads((copy / "found.json").read_text())
    assert {"allowed call", "assentry --help", "import assentry.server.app"} <= found["failed"].keys()
    assert "cannot be compared: " in table
    assert {(each["what"], each["met"]) for each in found["lines"]} == {
        ("import assentry", None),
        ("import assentry", False),
    }


@pytest.mark.proof
def test_ctrl_c_leaves_neither_processes_nor_folders(copy: Path) -> None:
    process = against(copy, "main", "--only", "allowed", "--rounds", "1000")
    assert process.stderr is not None
    assert "measuring" in process.stderr.readline()
    ours = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
    assert len(ours) == 2
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not any(Path(f"/proc/{each}").exists() for each in ours)
    assert list((copy / "bench").glob(".work/*")) == []
    assert not (copy / "bench" / "results").exists()
