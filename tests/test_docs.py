"""Docs are run: every Python block works, every command exists, and nothing public is undocumented."""

import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command

from assentry import errors
from assentry.assemble import desk
from assentry.cli.app import app
from assentry.core.policy_file import KEYS, load_policy
from assentry.settings import Settings, load
from tests.adapters.model_server import models_of_pages

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*languages: str):
    for page in PAGES:
        found = list(BLOCK.finditer(page.read_text()))
        # A program that is shown with a diff is run with it, by tests/adapters/test_diffs.py.
        shown = next((match for match in found if match.group(1) == "python"), None)
        has_diff = any(match.group(1) == "diff" for match in found)
        for number, match in enumerate(found):
            if match.group(1) in languages and not (has_diff and match is shown):
                yield pytest.param(match.group(2), id=f"{page.stem}-{number}")


class Reviewer(threading.Thread):
    """Somebody in another terminal who approves whatever comes, until told to stop."""

    def __init__(self, database: Path) -> None:
        super().__init__(daemon=True)
        self.database, self.stopped = database, threading.Event()

    def run(self) -> None:
        asyncio.run(self.decide())

    async def decide(self) -> None:
        while not self.database.exists():
            if self.stopped.wait(0.02):
                return
        table = await desk(load({"database": str(self.database)}))
        while not self.stopped.is_set():
            for request in (await table.inbox.page()).requests:
                brief = await table.inbox.brief(request.id)
                if brief.question is None:
                    await table.inbox.approve(table.person(), request.id, confirm=brief.phrase)
            await asyncio.sleep(0.02)
        await table.store.close()


@pytest.mark.proof
@pytest.mark.parametrize("code", list(blocks("python")))
def test_every_python_block_runs(code, tmp_path, assentry_home):
    reviewer = Reviewer(tmp_path / "assentry.db")
    reviewer.start()
    models = models_of_pages(assentry_home) if re.search("anthropic|openai|claude", code) else nullcontext({})
    try:
        with models as found:
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=tmp_path, env={**os.environ, **found, "ASSENTRY_HOME": str(assentry_home)},
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
    finally:
        reviewer.stopped.set()
        reviewer.join(10)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_every_yaml_block_is_a_policy_that_loads(text):
    load_policy(text)


@pytest.mark.parametrize("text", list(blocks("sh", "console", "shell")))
def test_every_make_target_exists(text):
    """The `assentry` lines of these blocks are run by the tests of the terminal's page."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in text.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        assert words[:1] != ["make"] or words[1] in targets


def documented() -> str:
    return "\n".join(page.read_text() for page in PAGES)


def test_every_error_setting_policy_key_and_command_is_documented():
    text = documented()
    raised = [name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, BaseException)]
    settings = [field.name for field in fields(Settings)]
    missing = [name for name in raised if f"`{name}`" not in text]
    missing += [name for name in settings if f"ASSENTRY_{name.upper()}" not in text]
    missing += [f"policy key {key}" for key in _policy_keys() if not re.search(rf"\b{re.escape(key)}\b", text)]
    missing += [f"assentry {path}" for path in _commands(get_command(app)) if f"assentry {path}" not in text]
    assert missing == []


def _policy_keys():
    return sorted({key for group in KEYS.values() for key in group} if isinstance(KEYS, dict) else set(KEYS))


def _commands(command, path=""):
    for name in sorted(command.commands):
        inner = command.get_command(None, name)
        if getattr(inner, "hidden", False):
            continue
        if hasattr(inner, "commands"):
            yield from _commands(inner, f"{path}{name} ")
        else:
            yield f"{path}{name}"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
