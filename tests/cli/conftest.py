"""A database with an agent that asks, and the command `assentry` called on it as a person would."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Agent, Assentry


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own, where `assentry.db` is the database."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    for name in [name for name in os.environ if name.startswith("ASSENTRY_") and name != "ASSENTRY_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSENTRY_DATABASE", str(place / "assentry.db"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return place


@pytest.fixture
def assentry(capfd: pytest.CaptureFixture[str]) -> Assentry:
    """The command, called in this process: what it wrote and its exit code."""
    return Assentry(capfd)


@pytest.fixture
def agent(here: Path) -> Iterator[Agent]:
    """An agent on the database that the environment names."""
    made = Agent(os.environ["ASSENTRY_DATABASE"])
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, here: Path) -> Iterator[Agent]:
    """An agent on each kind of database in turn."""
    if request.param == "postgresql":
        monkeypatch.setenv("ASSENTRY_DATABASE", request.getfixturevalue("postgres_database"))
    made = Agent(os.environ["ASSENTRY_DATABASE"])
    yield made
    made.close()
