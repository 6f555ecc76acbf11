"""Fixtures that every test may ask for. What they start is real, and gone when they end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres


@pytest.fixture(autouse=True)
def assent_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `ASSENT_HOME` for this test, so that no test sees the keys or settings of its user."""
    home = tmp_path / "assent-home"
    home.mkdir()
    monkeypatch.setenv("ASSENT_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The base URL of this session's PostgreSQL.

    Each xdist worker has a server of its own: starting one takes about a second, and no lock or count
    shared between processes can then be left behind by one that was killed.
    """
    with postgres.server() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database that only this test uses."""
    with postgres.database(postgres_url) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database; whoever asks for it is run on both kinds."""
    if request.param == "sqlite":
        return str(tmp_path / "assent.db")
    return str(request.getfixturevalue("postgres_database"))
