"""The command line as a whole: help that teaches, one line for every error, and a quick start."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from assentry.cli import app as whole
from assentry.cli import outcome
from tests.cli.terminal import COMMAND, Agent, Assentry, spawned

DOCS = Path(__file__).parents[2] / "docs" / "terminal.md"


def commands() -> list[tuple[str, Any]]:
    """Every command with its full name, as loaded from its module."""
    found = []
    for name in whole.COMMANDS:
        command = whole.loaded(name)
        if isinstance(command, TyperGroup):
            found += [(f"{name} {sub}", each) for sub, each in command.commands.items() if not each.hidden]
        else:
            found.append((name, command))
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_teaches_with_an_example_and_is_documented(name: str, command: Any) -> None:
    assert re.search(r"Example: assentry .*\b" + name.split()[0], command.help), name
    shown = name.replace("receipt for", "receipt")
    assert f"assentry {shown}" in DOCS.read_text(), f"docs/terminal.md says nothing of `assentry {shown}`"


@pytest.mark.parametrize("name", whole.COMMANDS)
def test_the_list_of_commands_says_what_each_module_says(name: str) -> None:
    first = whole.loaded(name).help.split("\n")[0]
    assert first.startswith(whole.COMMANDS[name].says.rstrip(".")), name


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_option_says_what_it_is_for(name: str, command: Any) -> None:
    for parameter in command.params:
        assert parameter.param_type_name == "argument" or parameter.help, f"{name}: {parameter.name}"
        assert "completion" not in parameter.name, f"{name} is no command of its own"


def test_every_exit_code_is_documented() -> None:
    codes = [value for name, value in vars(outcome).items() if name.isupper() and isinstance(value, int)]
    assert sorted(codes) == [0, 1, 2, 3, 4, 5, 6, 130]
    for code in codes:
        assert f"| {code} |" in DOCS.read_text()


def test_help_lists_every_command(assentry: Assentry) -> None:
    out = assentry("--help").out
    assert all(f" {name} " in out for name in whole.COMMANDS)
    assert "Ids may be abbreviated" in out


def groups() -> list[list[str]]:
    """The command line as a whole, and every command that holds others."""
    return [[], *([name] for name in whole.COMMANDS if isinstance(whole.loaded(name), TyperGroup))]


@pytest.mark.parametrize("words", groups(), ids=" ".join)
def test_a_group_without_a_command_prints_its_help_laid_out(assentry: Assentry, words: list[str]) -> None:
    bare = assentry(*words, code=2)
    assert bare.out == assentry(*words, "--help").out
    assert bare.out.count("\n") > 5
    assert bare.err == ""


def test_a_mistake_on_the_command_line_is_one_line_and_code_2(assentry: Assentry) -> None:
    done = assentry("pendign", code=2)
    assert done.err == "assentry: No such command 'pendign'. Did you mean 'pending'?\n"
    assert assentry("show", code=2).err.count("\n") == 1
    assert assentry("show", "--json", code=2).json["error"]["exit"] == 2


@pytest.mark.parametrize(
    ("words", "there"),
    [
        (("pending", "--state", "foo"), "'pending', 'approved'"),
        (("runs", "--state", "foo"), "'running', 'parked'"),
        (("pending", "--risk", "foo"), "'safe', 'risky', 'dangerous', 'critical'."),
        (("reconcile", "7k", "foo"), "'done', 'failed', 'retry'."),
    ],
)
def test_a_word_that_is_not_known_is_a_mistake_that_lists_what_there_is(
    assentry: Assentry, words: tuple[str, ...], there: str
) -> None:
    done = assentry(*words, code=2)
    assert f"'foo' is not one of {there}" in done.err
    assert "Value error" not in done.err
    assert done.err.count("\n") == 1


def test_settings_that_cannot_be_used_are_one_line(assentry: Assentry) -> None:
    done = assentry("--database", "mysql://x", "pending", code=1)
    assert "not supported" in done.err
    assert done.err.count("\n") == 1
    assert assentry("--workspace", "a b", "pending", "--json", code=1).json["error"]["kind"] == "SettingsError"


def test_an_unexpected_error_is_one_line_unless_debugging(agent: Agent, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import assentry.engine.inbox as i\n"
        "async def broken(*_, **__): raise ValueError('a secret payload')\n"
        "i.Inbox.page = broken\n"
    )
    path = f"{site}:{os.environ.get('PYTHONPATH', '')}"
    done = spawned("pending", PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert b"unexpected ValueError" in done.stderr
    assert b"secret" not in done.stderr
    assert b"Traceback" in spawned("pending", PYTHONPATH=path, ASSENTRY_DEBUG="1").stderr


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["pending"], ["show", "zz"]])
def test_no_command_for_scripts_loads_what_it_does_not_need(agent: Agent, command: list[str]) -> None:
    heavy = ("textual", "psycopg", "aiosmtpd")
    program = (
        "import sys\nfrom assentry.cli.app import run\n"
        f"run({command!r})\nprint(','.join(m for m in {heavy!r} if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == ""


def test_a_reader_that_has_seen_enough_is_no_error(agent: Agent) -> None:
    for _ in range(40):
        agent.asks(args={"files": ["x" * 3000]}, says="y" * 3000)
    program = f"{sys.executable} -c 'from assentry.cli import main; main()' pending | head -c 10"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("pending > /dev/full", 1, "the output cannot be written: No space left on device"),
        ("pending --json > /dev/full", 1, "the output cannot be written: No space left on device"),
        ("pending <&- >&-", 0, ""),
        ("modify {code} --edit <&-", 1, "--edit asks the person at the terminal"),
        ("deny {code} <&-", 1, "a denial needs a reason"),
    ],
)
def test_streams_that_are_full_or_closed_end_in_one_line(agent: Agent, command: str, code: int, said: str) -> None:
    request = agent.asks()
    line = f"{shlex.join(COMMAND)} {command.format(code=request.code)}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("\n") == (1 if said else 0)
