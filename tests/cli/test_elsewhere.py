"""A terminal that works on a server: each command is done there, or refused, since only the server's machine can do it."""

from pathlib import Path

import pytest
from typer.core import TyperGroup

from assentry.cli import app as whole
from assentry.errors import StoreElsewhere
from tests.cli.terminal import Assentry

URL = "http://127.0.0.1:1"

THERE: dict[str, tuple[str, ...]] = {
    "pending": (), "show": ("7k",), "approve": ("7k",), "deny": ("7k", "-r", "no"), "modify": ("7k", "--set", "a=1"),
    "choose": ("7k", "1"), "answer": ("7k", "yes"), "revise": ("7k", "shorter"), "undo": ("7k",),
    "reconcile": ("7k", "done"), "review": (), "runs": (), "run show": ("7k",), "run resume": ("7k",),
    "run cancel": ("7k",), "stop": ("--agent", "nobody"), "pause": ("--agent", "nobody"), "go": ("--agent", "nobody"),
    "policy apply": ("p.yaml",), "policy show": (), "policy explain": ("--action", "pay"), "policy history": (),
    "policy proposals": (), "policy confirm": ("c", "--yes"), "policy reject": ("c",), "grants list": (),
    "grants give": ("tidy", "--for", "1h"), "grants revoke": ("0",), "log": (),
}  # fmt: skip
"""The server does these."""

HERE: dict[str, tuple[str, ...]] = {
    "serve": ("--no-browser", "--port", "0"), "link": (), "password": (), "token give": ("cleanup",), "token list": (),
    "token end": ("a",), "audit verify": (), "audit export": ("-o", "out"), "audit seal": (), "audit keys": (),
    "receipt for": ("7k",), "receipt verify": ("p.yaml",), "keys show": (), "keys trust": ("p.yaml",),
    "keys rotate": (), "doctor": (), "backup": ("copy.db",), "restore": ("copy.db",), "purge": (), "worker": (),
}  # fmt: skip
"""These need the database or the keys themselves."""

BY_THEMSELVES = {
    "inbox", "login", "logout", "hook claude-code", "hook install", "hook remove", "mcp", "demo", "policy check",
    "version",
}  # fmt: skip
"""These begin or end a session, have a way of their own to a server, or need none; each has tests of its own."""


def names() -> set[str]:
    """Every command, hidden ones too."""
    found = set()
    for name in whole.COMMANDS:
        command = whole.loaded(name)
        found |= {f"{name} {sub}" for sub in command.commands} if isinstance(command, TyperGroup) else {name}
    return found


def test_of_every_command_it_is_known_where_it_is_done() -> None:
    assert sorted([*THERE, *HERE, *BY_THEMSELVES]) == sorted(names())


@pytest.mark.parametrize(("name", "words"), HERE.items(), ids=HERE)
@pytest.mark.parametrize("said", ["option", "environment", "file"])
def test_what_needs_the_database_or_the_keys_is_refused_and_makes_nothing(
    assentry: Assentry, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.delenv("ASSENTRY_DATABASE")
    monkeypatch.setenv("ASSENTRY_HOME", str(here / "home"))
    (here / "p.yaml").write_text("{}")
    server: tuple[str, ...] = ()
    match said:
        case "option":
            server = ("--server", URL)
        case "environment":
            monkeypatch.setenv("ASSENTRY_SERVER", URL)
        case _:
            (here / "assentry.toml").write_text(f'server = "{URL}"\n')
    done = assentry(*server, *name.split(), *words, code=1)
    assert done.err == f"assentry: {StoreElsewhere()}\n"
    assert done.out == ""
    assert {path.name for path in here.iterdir()} <= {"p.yaml", "assentry.toml"}


@pytest.mark.parametrize(("name", "words"), THERE.items(), ids=THERE)
def test_what_a_server_does_is_asked_of_the_server(
    assentry: Assentry, here: Path, name: str, words: tuple[str, ...]
) -> None:
    (here / "p.yaml").write_text("{}")
    done = assentry("--server", URL, *name.split(), *words, code=4)
    assert f"nobody is logged in to {URL}" in done.err
    assert not (here / "assentry.db").exists()


def test_who_names_a_database_means_it_whatever_server_is_set(
    assentry: Assentry, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENTRY_SERVER", URL)
    assert "PUBLIC KEY" in assentry("--database", str(here / "assentry.db"), "keys", "show").out


def test_an_export_is_verified_with_a_key_alone_whatever_server_is_set(
    assentry: Assentry, agent: object, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pub.pem").write_text(assentry("keys", "show").out)
    assentry("audit", "export", "-o", "out.jsonl")
    monkeypatch.setenv("ASSENTRY_SERVER", URL)
    assert "whole" in assentry("audit", "verify", "out.jsonl", "--key", "pub.pem").out
