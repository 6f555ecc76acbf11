"""A database with an agent that asks, and the command `assent` called on it as a person would."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Agent, Assent


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own, where `assent.db` is the database."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    for name in [name for name in os.environ if name.startswith("ASSENT_") and name != "ASSENT_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSENT_DATABASE", str(place / "assent.db"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return place


@pytest.fixture
def assent(capfd: pytest.CaptureFixture[str]) -> Assent:
    """The command, called in this process: what it wrote and its exit code."""
    return Assent(capfd)


@pytest.fixture
def agent(here: Path) -> Iterator[Agent]:
    """An agent on the database that the environment names."""
    made = Agent(os.environ["ASSENT_DATABASE"])
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, here: Path) -> Iterator[Agent]:
    """An agent on each kind of database in turn."""
    if request.param == "postgresql":
        monkeypatch.setenv("ASSENT_DATABASE", request.getfixturevalue("postgres_database"))
    made = Agent(os.environ["ASSENT_DATABASE"])
    yield made
    made.close()
