"""The base as a stranger installs it: `pip install .` in a fresh environment, without extras and without this checkout."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

ABSENT = (
    *("fastapi", "starlette", "uvicorn", "jinja2", "authlib", "joserfc", "webauthn", "argon2", "prometheus_client"),
    *("multipart", "psycopg", "textual", "aiosmtpd", "langchain", "langgraph", "agents", "pydantic_ai", "dbos"),
)
PROGRAM = """
import assentry

gate = assentry.open()

@gate.guard(reversible=False, outside=True)
def send(to: str) -> str:
    return f"sent to {to}"

print(send("ann@example.com"))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the environment's programs."""
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", ROOT], check=True, env=outside())
    return venv / "bin"


def outside() -> dict[str, str]:
    """An environment in which nothing of this checkout is imported."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def ran(program: Path, *words: str, here: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, cwd=here, env=outside(), timeout=60,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_function_is_guarded_and_approved_with_the_base_alone(installed: Path, tmp_path: Path) -> None:
    agent = subprocess.Popen(
        [installed / "python", "-c", PROGRAM], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=outside()
    )
    try:
        waiting: list[dict[str, str]] = []
        end = time.monotonic() + 60
        while not waiting and agent.poll() is None and time.monotonic() < end:
            told = ran(installed / "assentry", "pending", "--json", here=tmp_path)
            waiting = json.loads(told.stdout).get("requests", [])
        [request] = waiting
        done = ran(installed / "assentry", "approve", request["code"], "--digest", request["digest"], here=tmp_path)
        assert done.returncode == 0, done.stderr
        out, _ = agent.communicate(timeout=60)
    finally:
        agent.kill()
        agent.wait()
    assert out == "sent to ann@example.com\n"


def test_what_only_extras_need_is_not_there(installed: Path, tmp_path: Path) -> None:
    program = f"from importlib.util import find_spec\nprint(*(n for n in {ABSENT!r} if find_spec(n)), end='')"
    assert ran(installed / "python", "-c", program, here=tmp_path).stdout == ""


@pytest.mark.parametrize(
    ("words", "extra"),
    [(["serve"], "server"), (["password", "ann"], "server"), (["inbox"], "tui"), (["demo", "--script"], "demo")],
)
def test_a_command_says_which_extra_it_needs(installed: Path, tmp_path: Path, words: list[str], extra: str) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = ran(installed / "assentry", *words, here=here)
    sentence = f"assentry {words[0]} needs the {extra} extra: pip install 'assentry[{extra}]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"assentry: {sentence}")
    assert list(here.iterdir()) == []


def test_a_login_says_which_extra_it_needs_before_anybody_is_asked(installed: Path, tmp_path: Path) -> None:
    done = ran(installed / "assentry", "mcp", "--url", "http://127.0.0.1:9/mcp", "--login", here=tmp_path)
    sentence = "logging in to an MCP server needs the mcp extra: pip install 'assentry[mcp]'\n"
    assert (done.returncode, done.stderr) == (2, f"assentry: {sentence}")


def test_help_lists_and_explains_every_command_without_extras(installed: Path, tmp_path: Path) -> None:
    out = ran(installed / "assentry", "--help", here=tmp_path).stdout
    assert all(f"\n  {name} " in out for name in ("serve", "inbox", "demo", "approve", "password"))
    for name in ("serve", "inbox", "demo", "hook"):
        done = ran(installed / "assentry", name, "--help", here=tmp_path)
        assert (done.returncode, "Usage: " in done.stdout) == (0, True), done.stderr


def test_a_postgresql_address_says_which_extra_it_needs(installed: Path, tmp_path: Path) -> None:
    sentence = "a PostgreSQL address needs the postgres extra: pip install 'assentry[postgres]'"
    done = ran(installed / "assentry", "--database", "postgresql://localhost/x", "pending", here=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"assentry: {sentence}\n")
    program = (
        "import assentry, assentry.errors as e\n"
        "try: assentry.open('postgresql://localhost/x')\n"
        "except e.SettingsError as problem: print(problem)"
    )
    assert ran(installed / "python", "-c", program, here=tmp_path).stdout == f"{sentence}\n"


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("langchain", "langchain"), ("langgraph", "langgraph"), ("openai_agents", "openai-agents"),
        ("pydantic_ai", "pydantic-ai"), ("claude_agent", "claude"), ("dbos", "dbos"),
    ],
)  # fmt: skip
def test_an_adapter_says_which_extra_it_needs(installed: Path, tmp_path: Path, module: str, extra: str) -> None:
    program = f"try: import assentry.adapters.{module}\nexcept ImportError as problem: print(problem)"
    sentence = f"assentry.adapters.{module} needs the {extra} extra: pip install 'assentry[{extra}]'\n"
    assert ran(installed / "python", "-c", program, here=tmp_path).stdout == sentence
