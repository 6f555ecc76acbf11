"""Whatever an agent writes, a terminal obeys none of it: every byte that commands print is scanned."""

import re
import unicodedata
from typing import Any

import pyte
import pytest

from assentry import option
from tests.cli.terminal import Agent, Assentry, at_terminal, spawned
from tests.stage import GONE

HOSTILE = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear": "\x1b[2J\x1b[H safe",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "c1": "\x9b31mred\x9d0;owned\x9c",
    "return": "delete everything\rread one file  ",
    "backspace": "rm -rf\x08\x08\x08\x08\x08\x08ls",
    "bell": "\x07\x0b\x0c\x00\x7f",
    "bidi": "\u202egpj.exe\u2066\u2069\u200f",
    "hidden": "pay\u200b\u200d\ufeff\u2060\u00ad100",
    "tags": "\U000e0041\U000e0042\ufe0f\u3164",
    "lines": "one\u2028two\u2029three\u0085four",
    "markup": "[red]safe[/red] [link=http://evil.example]x[/link] :warning: [/]",
    "heading": "x\n\nWhy you are asked\n  -  Nothing to see\n\nOutcome",
}
ALL = " ".join(HOSTILE.values())
_OURS = re.compile(rb"\x1b\[[0-9;]*m")
"""The only sequences that we send: colours and bold."""


def scan(data: bytes, *, terminal: bool = False) -> None:
    """No character in `data` is one that a terminal obeys or a person cannot see."""
    if terminal:
        data = _OURS.sub(b"", data).replace(b"\r\n", b"\n")
    for char in data.decode():
        category = unicodedata.category(char)
        assert char == "\n" or category not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), (
            f"U+{ord(char):04X} in {data!r}"
        )


def ask(agent: Agent, text: str) -> Any:
    return agent.asks(
        "delete_files", {"root": text, "files": [text, "b"], "nested": {text: {"deep": [text]}}},
        says=f"Delete in {{root}} {text.replace('{', '').replace('}', '')}", why=text, goal=text, alternatives=(text,),
        if_denied=text, description=text, agent=f"agent {text}", run=text, key="1", declared=GONE,
        options=[option(f"Only {text}", text, {"root": f"{text}!"}), option(text, text)],
    )  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_command_prints_what_a_terminal_would_obey(assentry: Assentry, agent: Agent, kind: str) -> None:
    text = HOSTILE[kind]
    request = ask(agent, text)
    code = request.code
    agent.wonders(text, choices=[text, f"{text}2"], best_guess=text)
    commands = [
        ["pending"], ["pending", "--json"], ["show", code], ["show", code, "--full"], ["show", code, "--json"],
        ["pending", "--text", text], ["show", text], ["approve", text, "--json"], ["answer", code, text],
        ["modify", code, "--set", f"{text}=1"], ["policy", "explain", "--action", f"drop{text}", "--agent", text],
        ["deny", code, "--reason", text], ["log"], ["log", "--json"], ["show", code], ["log", "--agent", text],
        ["grants", "give", "x", "--for", "1h", "--reason", text, "--agent", text], ["grants", "list"], [text],
    ]  # fmt: skip
    for command in commands:
        done = assentry(*command, code=None)
        scan(done.out.encode())
        scan(done.err.encode())


def test_on_a_real_terminal_the_screen_shows_the_text_and_nothing_else_happens(agent: Agent) -> None:
    request = ask(agent, ALL)
    for command in (["pending"], ["show", request.code, "--full"], ["log"]):
        code, seen = at_terminal(command)
        assert code == 0
        scan(seen, terminal=True)
        screen = pyte.Screen(100, 400)
        stream = pyte.ByteStream(screen)
        stream.feed(seen)
        assert screen.title == ""
        assert "[red]safe[/red]" in "\n".join(screen.display) or command == ["log"]
        assert b"\x1b]" not in seen


def test_the_prompt_for_a_critical_action_shows_hostile_text_inert(agent: Agent) -> None:
    request = agent.pays(why=ALL, says=f"Pay {ALL}".replace("{", "").replace("}", ""))
    _, seen = at_terminal(["approve", request.code], [("> ", "\n")])
    scan(seen, terminal=True)


def test_nothing_an_agent_writes_begins_a_line_of_the_card(assentry: Assentry, agent: Agent) -> None:
    """Only our headings, the head line and the box stand in the first column, so no text can pass for one."""
    request = ask(agent, f"{HOSTILE['heading']} {'wide ' * 60}\nTime\n  no limit")
    ours = (
        "▲ dangerous",
        "Why you are asked",
        "What you can do",
        "Time",
        "What was asked",
        "Declared for this action",
        "╭",
        "╎",
        "╰",
        "assentry ",
    )
    lines = [line for line in assentry("show", request.code, "--full").out.splitlines() if line[:1].strip()]
    assert all(line.startswith(ours) for line in lines), lines
    assert [line for line in lines if line.startswith(("Why", "Time", "Outcome"))] == ["Why you are asked", "Time"]


def test_a_value_that_looks_like_another_type_is_quoted(assentry: Assentry, agent: Agent) -> None:
    request = agent.asks(args={"a": "5", "b": 5, "c": "true", "d": True, "e": "nothing", "f": None, "g": ""})
    out = assentry("show", request.code).out
    for line in ('a  "5"', "b  5", 'c  "true"', "d  true", 'e  "nothing"', "f  nothing", "g  (empty text)"):
        assert line in out


def test_raw_proofs_are_not_printed_to_a_terminal(agent: Agent) -> None:
    agent.asks(action="delete\x9bfiles")
    code, seen = at_terminal(["audit", "export"])
    assert code == 2
    scan(seen, terminal=True)
    assert spawned("audit", "export").returncode == 0
