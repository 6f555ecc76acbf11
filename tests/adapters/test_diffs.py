"""An agent of about forty lines and the diff of at most three that brings it under Assentry, as each page shows them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assentry.assemble import desk
from assentry.core.request import State
from assentry.ports import Filter
from assentry.settings import load
from tests.adapters.model_server import models_of_pages
from tests.test_docs import BLOCK, ROOT, Reviewer

pytestmark = pytest.mark.proof

PAGES = ("langgraph", "langchain", "claude-agent", "openai-agents", "pydantic-ai")


def applied(code: str, diff: str) -> str:
    """The program with the diff applied: what goes is replaced by what comes after it, and a lone addition goes first."""
    added, lines = 0, code.splitlines()
    hunks = re.findall(r"((?:^-.*\n)*)((?:^\+.*\n)+)", diff, re.MULTILINE)
    for gone, come in hunks:
        old, new = ([line[1:] for line in part.splitlines()] for part in (gone, come))
        added += len(new)
        at = lines.index(old[0]) if old else 0
        assert lines[at : at + len(old)] == old
        lines[at : at + len(old)] = new
    assert 1 <= added <= 3, f"{added} lines are added"
    return "\n".join(lines)


def run(code: str, folder: Path, home: Path) -> str:
    with models_of_pages(home) as models:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env={**os.environ, **models, "ASSENTRY_HOME": str(home)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
async def test_three_lines_bring_an_agent_under_assentry(page: str, tmp_path: Path, assentry_home: Path) -> None:
    found = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())
    code = next(text for language, text in found if language == "python")
    diff = next(text for language, text in found if language == "diff")
    assert 20 <= len([line for line in code.splitlines() if line.strip()]) <= 50
    reviewer = Reviewer(tmp_path / "assentry.db")
    reviewer.start()
    try:
        out = run(applied(code, diff), tmp_path, assentry_home)
    finally:
        reviewer.stopped.set()
        reviewer.join(10)
    assert out == "mailed 2 people: Sale\nDone.\n"
    place = await desk(load({"database": str(tmp_path / "assentry.db")}))
    requests = (await place.inbox.page(Filter(states=tuple(State)))).requests
    await place.store.close()
    held = [each for each in requests if each.candidate.verdict.gate.holds]
    assert [(each.candidate.action.name, each.state) for each in held] == [("send_mail", State.DONE)]


@pytest.mark.parametrize("page", ["langgraph", "langchain"])
def test_whoever_imports_the_program_begins_nothing(page: str, tmp_path: Path, assentry_home: Path) -> None:
    """A worker imports it to go on with what is parked."""
    found = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())
    code, diff = (next(text for language, text in found if language == wanted) for wanted in ("python", "diff"))
    (tmp_path / "after.py").write_text(applied(code, diff).replace("wait=True", "wait=False"))
    assert run("import after", tmp_path, assentry_home) == ""
