"""Calling `assentry`: in this process, as a subprocess, and at a real pseudo-terminal."""

import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import assentry as package
from assentry.cli.app import run
from assentry.core.request import Request
from tests.stage import asked, asked_to_pay, wondered

COMMAND = [sys.executable, "-c", "from assentry.cli import main; main()"]


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Assentry:
    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured

    def __call__(self, *args: str, code: int | None = 0) -> Done:
        """What the command wrote; its exit code must be `code`."""
        self._captured.readouterr()
        ended = run(list(args))
        out, err = self._captured.readouterr()
        assert code is None or ended == code, f"assentry {' '.join(args)} ended with {ended}:\n{out}\n{err}"
        return Done(ended, out, err)


class Agent:
    """Asks for things, and holds nothing that decides."""

    def __init__(self, database: str, **settings: Any) -> None:
        self.gate = package.open(database, agent="cleanup", **settings)
        self._closed = False

    @property
    def _portal(self) -> Any:
        return self.gate._portal

    def asks(self, action: str = "delete_files", args: Any = None, **said: Any) -> Request:
        """The request for this call, which waits."""
        return self._portal.run(asked(self.gate, action, args, **said))

    def pays(self, amount: float = 12400.0, **said: Any) -> Request:
        return self._portal.run(asked_to_pay(self.gate, amount, **said))

    def wonders(self, question: str = "Which one?", **more: Any) -> str:
        """The code of a question that waits."""
        return self._portal.run(wondered(self.gate, question, **more))

    def now(self, request: Request) -> Request:
        found = self._portal.run(self.gate._store.request(self.gate.workspace, request.id))
        assert found is not None
        return found

    def close(self) -> None:
        """The agent is gone and holds nothing; again does no harm."""
        if not self._closed:
            self._closed = True
            self._portal.run(self.gate.close())


def defenceless(database: sqlite3.Connection) -> None:
    """Whoever may write the file may also drop the triggers that keep entries from being changed."""
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f'DROP TRIGGER "{name}"')


def spawned(*args: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command as its own process, its output in pipes."""
    return subprocess.run(
        [*COMMAND, *args],
        input=stdin.encode() if stdin is not None else None,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


def at_terminal(
    args: Sequence[str], talk: Sequence[tuple[str, str]] = (), *, seconds: float = 60, **environment: str
) -> tuple[int, bytes]:
    """The exit code and every byte that reached the terminal. `talk`: wait for this text, then type that."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "60", **environment})
        os.execv(COMMAND[0], [*COMMAND, *args])
    seen, position = b"", 0
    waiting = list(talk)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if waiting and waiting[0][0].encode() in seen[position:]:
            position = len(seen)
            os.write(terminal, waiting.pop(0)[1].encode())
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                data = b""
            if not data:
                break
            seen += data
    else:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), seen
