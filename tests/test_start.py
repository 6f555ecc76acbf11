"""What a start costs, said by what is imported: neighbours on the machine cannot change that, as they change times.

The times are in docs/benchmarks.md.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import assentry

GATE = {"assentry.engine.gate", "assentry.engine.signature", "assentry.engine.agent_calls"}
SERVER = {"fastapi", "starlette", "uvicorn", "jinja2", "prometheus_client", "assentry.server.app"}
PEOPLE = {"webauthn", "authlib", "joserfc", "argon2", "OpenSSL"}
CONDITIONS = {"cel_expr_python", "yaml", "assentry.core.policy_file"}
OTHERS = {"textual", "psycopg", "aiosmtpd", "httpx", "jsonschema", "litellm", "langchain_core", "opentelemetry"}
GRAMMAR = {"tree_sitter", "tree_sitter_bash"}


def imported(program: str, **environment: str) -> set[str]:
    """Every module that a new interpreter has after `program`."""
    told = f"{program}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return set(done.stderr.splitlines()[-1].split())


def command(*words: str) -> str:
    return f"import sys\nsys.argv = {['assentry', *words]!r}\nfrom assentry.cli import main\ntry: main()\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import assentry", {"typer", "rich", "pydantic", "msgspec", "apsw", "asyncio", "assentry.assemble"}),
        (command("--version"), {"typer", "rich", "asyncio", "assentry.cli.app", "assentry.assemble"}),
        (command("--help"), {"rich", "pydantic", "msgspec", "asyncio", "assentry.assemble", "assentry.cli.deciding"}),
        (command("pending", "--help"), {"rich.markdown", *GATE, *CONDITIONS}),
    ],
)  # fmt: skip
def test_what_says_something_of_itself_imports_next_to_nothing(program: str, absent: set[str]) -> None:
    there = imported(program)
    assert not (absent | SERVER | PEOPLE | OTHERS | GRAMMAR | {"cryptography", "cel_expr_python"}) & there


async def test_looking_at_a_small_database_imports_neither_gate_nor_server(tmp_path: Path) -> None:
    database = tmp_path / "small.db"
    gate = await asyncio.to_thread(assentry.open, database)
    try:
        await gate.propose("delete_file", {"path": "a.tmp"})
    finally:
        await gate.close()
    there = imported(command("--database", str(database), "pending"))
    assert "assentry.stores.sqlite.store" in there
    assert not (GATE | SERVER | PEOPLE | CONDITIONS | OTHERS | GRAMMAR | {"cryptography", "rich.markdown"}) & there


def test_a_server_imports_what_few_use_when_it_is_used() -> None:
    there = imported("import assentry.server.app, assentry.server.serving")
    assert {"fastapi", "uvicorn"} <= there
    assert (
        not (PEOPLE | GRAMMAR | {"cryptography", "cel_expr_python", "textual", "psycopg", "aiosmtpd", "assentry.demo"})
        & there
    )


def test_a_gate_without_conditions_and_secrets_imports_neither_their_evaluator_nor_a_server(tmp_path: Path) -> None:
    program = (
        f"import assentry\ngate = assentry.open({str(tmp_path / 'a.db')!r})\n"
        "@gate.guard(reversible=True, reach='local')\ndef add(a: int, b: int) -> int: return a + b\n"
        "assert add(1, 2) == 3"
    )
    there = imported(program)
    assert not (SERVER | PEOPLE | CONDITIONS | GRAMMAR | (OTHERS - {"opentelemetry"}) | {"typer", "rich"}) & there


def test_the_grammar_of_commands_is_imported_with_the_first_command_that_is_read() -> None:
    program = "from assentry.core.command_text import read_shell\nassert read_shell('ls').only_reads"
    assert imported(program) >= GRAMMAR
    assert not GRAMMAR & imported(program.split("\n")[0])
