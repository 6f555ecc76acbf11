"""The inbox in a real pseudo-terminal: real keys in, every byte that comes out looked at."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyte
import pytest

from assentry.core.request import State
from tests.cli.terminal import Agent

pytestmark = pytest.mark.proof

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07click\x1b]8;;\x07 \x1b]0;title\x07 \x1b[2J\x1bc \x9b31m \x07\x08\r "
    "[red]markup[/red] [@click=app.quit]quit[/] [link=http://evil]x[/link] \u202egnp.exe\u202c zero\u200bwidth \u2066iso"
)
_COMMAND = "import sys; from assentry.cli.inbox import run; from assentry.settings import load; sys.exit(run(load()))"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;:?<>=!]*[ -/]*[@-~]|[()][0AB]|[=>78M]|P[^\x1b]*\x1b\\|\]22;[a-z-]*\x07)")
"""What Textual itself sends: cursor, colours, modes, and the shape of the mouse pointer (OSC 22)."""


class Terminal:
    """A terminal emulator with the inbox in it."""

    def __init__(self, handle: int, columns: int, lines: int) -> None:
        self._handle, self.seen = handle, b""
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def type(self, keys: str, wait: float = 0.6) -> None:
        """Types after the time a person needs to look."""
        self._read(wait)
        os.write(self._handle, keys.encode())

    def sees(self, *words: str, seconds: float = 60) -> None:
        self._until(lambda: all(word in self.text for word in words), f"{words} never came", seconds)

    def loses(self, word: str, seconds: float = 60) -> None:
        self._until(lambda: word not in self.text, f"{word} never went", seconds)

    def _until(self, is_so: Callable[[], bool], complaint: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, f"{complaint}; the screen says:\n{self.text}"
            self._read(0.1)

    def _read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self._handle], [], [], left)
            if not ready:
                return
            try:
                data = os.read(self._handle, 65536)
            except OSError:
                return
            self.seen += data
            # pyte knows no such sequences of private modes; they carry no text.
            self._stream.feed(re.sub(rb"\x1b\[[<>=][0-9;]*[a-z]|\x1b\[\?[0-9;]*\$p", b"", data))

    @property
    def stray(self) -> list[str]:
        """Every place outside Textual's own sequences where a character could act or hide."""
        text = _SEQUENCE.sub("", self.seen.decode("utf-8", "replace"))
        text = re.sub(r"\x1b(?:\[[0-9;:?]*)?\Z", "", text)  # a sequence of which only the beginning has been read
        wrong = (spot for spot, char in enumerate(text) if not char.isprintable() and char not in "\n\r")
        return [repr(text[max(0, spot - 20) : spot + 20]) for spot in wrong]


@contextmanager
def inbox(columns: int = 110, lines: int = 36, **environment: str) -> Iterator[Terminal]:
    pid, handle = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        # Not os.environ alone: the readline of this process has put its own size where execv would find it.
        wanted = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        os.execve(sys.executable, [sys.executable, "-c", _COMMAND], wanted)
    terminal = Terminal(handle, columns, lines)
    try:
        yield terminal
    finally:
        for key in ("\x1b", "\x1b", "q"):
            with suppress(OSError):
                terminal.type(key, 0.3)
        end = time.monotonic() + 60
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                break
            with suppress(OSError):
                if select.select([handle], [], [], 0.05)[0]:
                    os.read(handle, 65536)
        os.close(handle)


@pytest.fixture(autouse=True)
def no_colour_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_person_approves_what_an_agent_in_another_process_asks(agent: Agent) -> None:
    with inbox() as terminal:
        terminal.sees("nothing waits for you", "@gate.guard")
        request = agent.asks(says="Delete {files.count} files in {root}")
        terminal.sees("1 waits for you", "Delete 2 files in ~/projects", "▲ Dangerous", "1 h left, then denied")
        terminal.type("\r")
        terminal.type("a")
        terminal.sees("Approve this?", "yes, run exactly this")
        terminal.type("\r")
        assert agent.now(request).state is State.PENDING
        terminal.type("y")
        terminal.sees("approved", "nothing waits for you")
        assert agent.now(request).state is State.APPROVED


def test_no_byte_of_hostile_text_acts_on_the_terminal(agent: Agent) -> None:
    said = {"why": HOSTILE, "goal": HOSTILE, "alternatives": (HOSTILE,), "agent": "a\x1b[31mb"}
    agent.asks(f"evil{HOSTILE}", {HOSTILE: HOSTILE, "list": [HOSTILE] * 3}, says="Do {list}", **said)
    agent.asks("send", {"body": HOSTILE * 1_000, "to": [f"{HOSTILE}{n}" for n in range(800)]})
    agent.wonders(HOSTILE, choices=[HOSTILE, "no"])
    agent.asks("bulk", {"items": list(range(10_000))})
    agent.asks("big", {"text": "x" * 1_000_000})
    with inbox() as terminal:
        terminal.sees("5 wait for you", "⟨U+001B⟩[31m")
        for _ in range(5):
            for keys in ("e", "\t", "\x1b[6~", "G", "\t"):
                terminal.type(keys, 0.2)
            for key, word in (("J", "the bytes that run"), ("d", "own words")):
                terminal.type(key)
                terminal.sees(word)
                terminal.type("\x1b")
                terminal.loses(word)
            terminal.type("m")
            terminal.sees("ctrl+s" if "a  Approve" in terminal.text else "nothing to modify")
            terminal.type("\x1b")
            terminal.loses("ctrl+s")
            terminal.type("j")
        terminal.type("/", 2)
        terminal.type("evil")
        terminal.sees("links to evil.example⟨U+0007⟩click⟨U+001B⟩")
        assert terminal.stray == []
        assert set(re.findall(rb"\x1b\][^;]*", terminal.seen)) <= {b"\x1b]22"}, "no link, no title, no clipboard"
        assert b"[@click=app.quit]" in terminal.seen, "markup is text"


def test_no_color_means_none(agent: Agent) -> None:
    agent.pays()
    with inbox(NO_COLOR="1") as terminal:
        terminal.sees("◆ Critical", "1 waits for you")
        terminal.type("j")
        terminal.sees("critical: approving wants typed words")
        codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", terminal.seen) for code in found.split(b";")}
        assert not codes & {b"38", b"48", *(str(n).encode() for n in (*range(30, 38), *range(40, 48), *range(90, 108)))}


def test_the_persons_own_editor_changes_arguments_and_opens_again_on_an_error(agent: Agent, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import json, pathlib, sys\n"
        "mark, file = pathlib.Path(__file__).with_suffix('.ran'), pathlib.Path(sys.argv[1])\n"
        "if not mark.exists():\n"
        "    mark.touch(); file.write_text('{broken')\n"
        "else:\n"
        "    file.write_text(json.dumps({'files': ['only.tmp'], 'root': '~'}))\n"
    )
    request = agent.asks()
    with inbox(EDITOR=f"{sys.executable} {editor}", VISUAL="") as terminal:
        terminal.sees("1 waits for you")
        terminal.type("m")
        terminal.sees("check and show what changes")
        terminal.type("\x05")
        terminal.sees("Press enter to edit again")
        terminal.type("\r")
        terminal.sees("Run this instead?", "only.tmp")
        terminal.type("y")
        terminal.sees("approved with changes")
        assert agent.now(request).candidate.action.args == {"files": ["only.tmp"], "root": "~"}


def test_without_a_terminal_it_says_what_to_use_instead(capfd: pytest.CaptureFixture[str]) -> None:
    from assentry.cli.inbox import run
    from assentry.settings import load

    assert run(load()) == 2
    assert "assentry pending" in capfd.readouterr().err
