"""Fixtures that every test may ask for. What they start is real, and gone when they end."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from assentry.engine import identity
from assentry.stores.postgres import PostgresStore
from tests import postgres
from tests.durations import Durations

QUICK = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
BOTH = "ASSENTRY_TEST_BOTH"
"""Environment variable that has every test run on both databases, and agents of frameworks in both ways."""


gc.disable()  # while everything is imported


def pytest_configure(config: pytest.Config) -> None:
    """What each test takes is written down, and what tests start can be interrupted, also where they run in the background."""
    config.pluginmanager.register(Durations(config))
    # A shell without job control has what it starts with `&` ignore interrupts, and so would the children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests run on SQLite; stores, attacks, and what agents do through a gate or the API, on PostgreSQL as well.

    Those carry the mark `both_databases`. Agents of frameworks park; what is marked `both_ways` also runs with agents that
    wait in their process.
    """
    for name, kinds, mark in (
        ("database", ("sqlite", "postgres"), "both_databases"),
        ("way", ("parks", "waits"), "both_ways"),
    ):
        if name in metafunc.fixturenames:
            both = metafunc.definition.get_closest_marker(mark) or os.environ.get(BOTH)
            metafunc.parametrize(name, kinds if both else kinds[:1], indirect=name == "database")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("proof") is None)


def pytest_collection_finish() -> None:
    """From now on there may be garbage, but not in what was imported, which stays."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def assentry_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `ASSENTRY_HOME` for this test, so that no test sees the keys or settings of its user."""
    home = tmp_path / "assentry-home"
    home.mkdir()
    monkeypatch.setenv("ASSENTRY_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes passwords slow to try out is not what most tests are about; `test_identity.py` looks at the cost."""
    monkeypatch.setattr(identity, "_hasher", lambda: QUICK)
    identity._nobodys_proof.cache_clear()


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


@pytest.fixture(scope="session")
def postgres_reused(postgres_url: str) -> Iterator[postgres.Reused]:
    """A database with our tables that is emptied for each test; a new one takes several times as long."""

    def migrated(url: str) -> None:
        async def opened() -> None:
            store = PostgresStore(url)
            await store.open()
            await store.close()

        with ThreadPoolExecutor(1) as aside:
            aside.submit(asyncio.run, opened()).result()

    reused = postgres.Reused(postgres_url, migrated)
    yield reused
    reused.remove()


@pytest.fixture
def postgres_emptied(postgres_reused: postgres.Reused) -> str:
    """The URL of a database with our tables and nothing in them."""
    return postgres_reused.fresh()


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with nothing in it; `pytest_generate_tests` says of which kind."""
    if request.param == "sqlite":
        return str(tmp_path / "assentry.db")
    return str(request.getfixturevalue("postgres_emptied"))
