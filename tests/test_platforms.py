"""Other systems than Linux, as far as that can be known on it: everything that only POSIX has is hidden.

`tests/posixless/sitecustomize.py` hides it from every process that these tests start.
"""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LEFT_TO_LIBRARIES = ("assentry.adapters.claude_agent", "assentry.adapters.openai_agents", "assentry.cli.screen")
"""What they import chooses by `sys.platform`, which is Linux here all the same."""
SECONDS = 60

AGENT = """
import sys
import assentry

gate = assentry.open()

@gate.guard(reversible=False, reach="service", says="Delete {name}")
def delete(name: str) -> str:
    return f"{name} is deleted"

for name in ("one", "two"):
    try:
        print(delete(name), flush=True)
    except assentry.Denied as problem:
        print(f"denied: {problem.reason}", flush=True)
"""


class Elsewhere:
    """A directory in which processes run without POSIX."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = (ROOT / "tests" / "posixless", ROOT / "src", ROOT)
        self.env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "ASSENTRY_HOME": str(folder / "home"),
            "PYTHONWARNDEFAULTENCODING": "1",
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *words], cwd=self.folder, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def done(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, problem = process.communicate(timeout=SECONDS)
        assert process.returncode == code, problem
        assert not re.search(r"src/assentry/.*EncodingWarning", problem)
        return out + problem

    def assentry(self, *words: str, code: int = 0) -> str:
        return self.done("-m", "assentry", *words, code=code)

    def waiting(self, count: int) -> list[dict[str, Any]]:
        """What waits, once there is so much."""
        while len(found := json.loads(self.assentry("pending", "--json"))["requests"]) < count:
            pass
        return found


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path)


@pytest.mark.proof
def test_what_only_posix_has_is_hidden_from_these_processes(elsewhere: Elsewhere) -> None:
    looks = "import os, signal; print(hasattr(os, 'getuid'), hasattr(signal, 'SIGHUP'))"
    assert elsewhere.done("-c", looks).split() == ["False", "False"]
    for name in ("pwd", "fcntl", "termios", "inotify_simple"):
        assert f"No module named '{name}'" in elsewhere.done("-c", f"import {name}", code=1)


@pytest.mark.proof
def test_every_module_can_be_imported(elsewhere: Elsewhere) -> None:
    files = sorted((ROOT / "src" / "assentry").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    wanted = [name for name in names if not name.startswith(LEFT_TO_LIBRARIES)]
    assert len(wanted) > 300
    elsewhere.done("-c", f"from importlib import import_module\nfor name in {wanted!r}:\n    import_module(name)")


@pytest.mark.proof
def test_a_call_is_held_and_decided_from_another_process(elsewhere: Elsewhere) -> None:
    (elsewhere.folder / "agent.py").write_text(AGENT)
    (elsewhere.folder / "assentry.yaml").write_text(
        "people: {ada: {roles: [operator], os_users: [ada]}}\nself_review: allow\n"
    )
    assert "assentry.yaml: " in elsewhere.assentry("policy", "check", "assentry.yaml")
    elsewhere.assentry("policy", "apply", "assentry.yaml")
    agent = elsewhere.start("agent.py")
    try:
        assert agent.stdout is not None
        (first,) = elsewhere.waiting(1)
        card = json.loads(elsewhere.assentry("show", first["code"], "--json"))["request"]
        elsewhere.assentry("approve", first["code"], "--digest", card["digest"])
        assert agent.stdout.readline() == "one is deleted\n"
        (second,) = elsewhere.waiting(1)
        assert "Delete two" in elsewhere.assentry("show", second["code"])
        elsewhere.assentry("deny", second["code"], "--reason", "not this one")
        assert agent.stdout.readline() == "denied: not this one\n"
        _, problem = agent.communicate(timeout=SECONDS)
        assert agent.returncode == 0, problem
    finally:
        agent.terminate()
    log = elsewhere.assentry("log")
    assert "approved by ada" in log
    assert "denied by ada" in log
    doctor = " ".join(elsewhere.assentry("doctor").split())
    assert "access lists are not checked" in doctor
    assert "nothing is wrong" in doctor


@pytest.mark.proof
def test_the_sqlite_store_keeps_its_whole_contract(elsewhere: Elsewhere) -> None:
    elsewhere.env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider")
    config = ("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "--noconftest")
    told = elsewhere.done("-m", "pytest", *plugins, *config, str(ROOT / "tests" / "posixless" / "contract.py"))
    assert "100%" in told


@pytest.mark.proof
def test_keys_are_used_where_files_have_no_modes(elsewhere: Elsewhere) -> None:
    (elsewhere.folder / "assentry.yaml").write_text("{}")
    elsewhere.assentry("policy", "apply", "assentry.yaml")
    elsewhere.assentry("audit", "seal")
    for file in (elsewhere.folder / "home").rglob("*"):
        file.chmod(0o777)  # what Windows says of every file
    elsewhere.assentry("policy", "apply", "assentry.yaml")
    elsewhere.assentry("audit", "seal")
    elsewhere.assentry("audit", "verify")


@pytest.mark.proof
@pytest.mark.parametrize("words", [("worker", "agent:gate"), ("serve", "--port", "0", "--no-browser")])
def test_what_runs_until_it_is_told_to_stop_ends_gracefully(elsewhere: Elsewhere, words: tuple[str, ...]) -> None:
    (elsewhere.folder / "agent.py").write_text("import assentry\ngate = assentry.open()\n")
    process = elsewhere.start("-m", "assentry", *words)
    try:
        assert process.stderr is not None
        assert any("Ctrl-C" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, problem = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, problem
        assert "what was begun ends first" in problem
    finally:
        process.terminate()


def test_every_text_file_is_read_and_written_as_what_it_is() -> None:
    """Without a word about it, Windows takes the code page of its user's country."""
    silent = []
    for file in sorted((ROOT / "src" / "assentry").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or any(each.arg == "encoding" for each in node.keywords):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            is_text = called in ("open", "fdopen") and any(re.fullmatch(r"[rwax]\+?", mode) for mode in modes)
            if called in ("read_text", "write_text") or (is_text and "devnull" not in ast.unparse(node)):
                silent.append(f"{file.name}:{node.lineno}: {ast.unparse(node)}")
    assert silent == []
