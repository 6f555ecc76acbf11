"""The demo, played for real: processes, files, mail, decisions from other processes, and the log verified."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from assentry.demo.world import A_YEAR, CI_FILE, OLD_CI, OLD_TESTS, OLDER_THAN_A_YEAR, PATTERN
from tests import forked

ASSENTRY = [sys.executable, "-m", "assentry"]
LONG = 300

pytestmark = pytest.mark.proof


def environment(folder: Path) -> dict[str, str]:
    """The demo makes its folder in `folder`. ASSENTRY_HOME stays set, so that a demo that used it would show."""
    return {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", "TERM": "xterm"}


def played(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The JSON summary and the story of a scripted demo."""
    command = (
        [*ASSENTRY, *options, "demo", "--script", "--json", "--speed", "10"] if options[:1] == ("--database",) else None
    )
    command = command or [*ASSENTRY, "demo", "--script", "--json", "--speed", "10", *options]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


def in_folder(folder: Path, *words: str) -> str:
    """What a command said in the demo's folder, where `assentry.toml` tells it the database and the keys."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("ASSENTRY_")}
    done = forked.assentry(*words, cwd=folder, env=bare)
    assert done.code == 0, done.out + done.problem
    return done.out


def ages(files: list[Path]) -> int:
    """How many of the files are older than a year."""
    return sum(file.stat().st_mtime < time.time() - A_YEAR.total_seconds() for file in files)


def letters(folder: Path) -> list[Any]:
    """The mail that the server really received."""
    return [message_from_bytes(file.read_bytes(), policy=policy.default) for file in sorted(folder.glob("mail/*.eml"))]


def by_step(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {line["step"]: line for line in summary["requests"]}


def test_the_careful_person_stages_denies_changes_and_takes_back(tmp_path: Path, assentry_home: Path) -> None:
    summary, story = played(tmp_path, "--keep", "--seed", "1")
    folder = Path(summary["folder"])

    assert folder.is_relative_to(tmp_path)
    assert list((folder / "projects").rglob(PATTERN)) == []
    staged = list((folder / "staging").rglob(PATTERN))
    assert (len(staged), ages(staged)) == (OLD_TESTS, OLDER_THAN_A_YEAR)
    assert (folder / CI_FILE).read_text() == OLD_CI
    assert (folder / "current").readlink().name == "2026.10.3"

    [letter] = letters(folder)
    assert letter["X-Envelope-To"] == "team@example.org"
    body = letter.get_content()
    assert "847 files moved to staging, none deleted" in body
    assert "skipped: deploy (not on a Friday afternoon)" in body
    assert "skipped: read_file (agents do not read credentials, whoever asks)" in body

    steps = by_step(summary)
    assert summary["reads"] == ["list_dirs", "find_files"]
    assert (steps["tidy"]["asked"], steps["tidy"]["ran"], steps["tidy"]["decided"]) == (
        "delete_files", "move_files", "choose",
    )  # fmt: skip
    assert (steps["ci"]["gate"], steps["ci"]["state"], bool(steps["ci"]["undone_by"])) == ("watch", "undone", True)
    assert (steps["deploy"]["ran"], steps["deploy"]["state"]) == ("", "denied")
    assert (steps["login"]["gate"], steps["login"]["state"]) == ("forbid", "refused")
    assert (steps["mail"]["decided"], steps["mail"]["state"]) == ("modify", "done")

    assert (
        story.index("its process was killed") < story.index("goes on at the same step") < story.index("What happened")
    )
    assert summary["ok"]
    assert summary["seconds_to_first_question"] > 0
    in_folder(folder, "audit", "verify")
    assert list(assentry_home.iterdir()) == []


def test_the_bold_person_deletes_deploys_rolls_back_and_mails_everybody(tmp_path: Path) -> None:
    summary, _ = played(tmp_path, "--keep", "--seed", "2")
    folder = Path(summary["folder"])

    left = list((folder / "projects").rglob(PATTERN))
    assert (len(left), ages(left)) == (OLD_TESTS - OLDER_THAN_A_YEAR, 0)
    assert (folder / CI_FILE).read_text() != OLD_CI
    assert (folder / "current").readlink().name == "2026.10.3"
    [letter] = letters(folder)
    assert letter["X-Envelope-To"] == "team@example.org, host@partner.example"
    assert "2026.11.1-beta deployed to production" in letter.get_content()
    steps = by_step(summary)
    assert (steps["tidy"]["ran"], steps["tidy"]["says"]) == ("delete_files", "Delete 312 files in projects")
    assert (steps["deploy"]["decided"], steps["deploy"]["state"]) == ("approve", "undone")
    in_folder(folder, "audit", "verify")


def test_on_postgresql_it_keeps_to_a_workspace_of_its_own_and_removes_its_folder(
    tmp_path: Path, postgres_database: str
) -> None:
    summary, _ = played(tmp_path, "--database", postgres_database)
    assert summary["ok"]
    assert summary["workspace"].startswith("demo-")
    assert len(summary["mail"]) == 1
    assert list(tmp_path.glob("assentry-demo-*")) == []


def test_deciding_at_a_terminal_where_there_is_none_says_how_to_go_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [*ASSENTRY, "demo", "--terminal"],
        env=environment(tmp_path),
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "assentry demo --script" in done.stdout
    assert list(tmp_path.glob("assentry-demo-*")) == []


class Terminal:
    """The demo in a terminal, as its user has it."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*ASSENTRY, "demo", "--terminal", "--speed", "10"],
            cwd=folder, env=environment(folder) | {"COLUMNS": "100"}, stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def until(self, text: str) -> None:
        """Everything up to `text`, which must come, was read."""
        end = time.monotonic() + LONG
        while text not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not come after:\n{self.seen}"
            try:
                fresh = os.read(self._ours, 65_536)
            except OSError:
                fresh = b""
            assert fresh, f"it ended before {text!r}:\n{self.seen}"
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", fresh.decode(errors="replace"))
            self.seen = re.sub(r"\s+", " ", self.seen + plain)  # where a line is broken does not matter
        self.seen = self.seen[self.seen.index(text) + len(text) :]

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def test_in_a_terminal_enter_decides_nothing_other_terminals_count_and_an_interrupt_is_orderly(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.until("q stop >")
        [folder] = tmp_path.glob("assentry-demo-*")
        terminal.type("\n")
        terminal.until("Enter alone decides nothing")
        terminal.until("q stop >")

        terminal.type("1")  # half typed, for this card and no other
        [card] = json.loads(in_folder(folder, "pending", "--json"))["requests"]
        in_folder(folder, "choose", card["code"], "3", "--digest", card["digest"])
        terminal.until("decided outside this screen")
        terminal.until("2026.11.0")
        terminal.until("q stop >")
        terminal.type("\n")
        terminal.until("Enter alone decides nothing")
        terminal.until("q stop >")
        assert len(list((folder / "staging").rglob(PATTERN))) == OLD_TESTS

        terminal.type("2\n")
        terminal.until("answered: 2026.11.1-beta")
        terminal.until("q stop >")
        terminal.type("d\n")
        terminal.until("why not?")
        terminal.type("not today\n")
        terminal.until("denied it: not today")
        terminal.until("forbidden")
        terminal.until("q stop >")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("still waits; did not run")
        terminal.until("is removed")
        assert terminal.process.wait(30) == 130
        assert list(tmp_path.glob("assentry-demo-*")) == []
    finally:
        terminal.close()
