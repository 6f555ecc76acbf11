"""Fixtures that every test may ask for. What they start is real, and gone when they end."""

import asyncio
import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest
from argon2 import PasswordHasher

from assentry.engine import identity
from assentry.stores.postgres import PostgresStore
from tests import postgres

QUICK = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
BOTH = "ASSENTRY_TEST_BOTH"
"""Environment variable that has every test run on both databases."""
KINDS = ("sqlite", "postgres")
SURFACES = (
    "adapters/test_claude_code", "adapters/test_mcp", "cli/test_run_card", "cli/test_runs", "cli/test_timeline",
    "engine/test_attacks_by_text", "engine/test_attacks_with_secrets", "engine/test_secrets_in_facts",
    "remote/test_broken_line", "remote/test_docs", "remote/test_terminal", "server/test_agents_api",
    "server/test_agents_runs_api", "server/test_alike", "server/test_api", "server/test_card_pages",
    "server/test_costly_schemas", "server/test_door", "server/test_first_start", "server/test_matrix",
    "server/test_odd_calls", "server/test_passkeys", "server/test_repeats", "server/test_sheets", "server/test_sso",
    "server/test_step_up",
)  # fmt: skip
"""Pages, words and proofs of identity: what they keep is kept by stores that pass the same contract."""
RACING = ("cleanup", "pipeline")
"""The examples whose workers race; what they race for is the same in all."""
WAITING = ("of_several_at_once", "ends_the_run", "the_scenario")
"""What agents of frameworks do that wait in their process; all of the contract is run with those that park."""


HALVED = ("adapters", "engine", "examples", "remote")
"""Where each test is run on one of the two databases, drawn by its name; but what attacks is run on both."""


gc.disable()  # while everything is imported


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Surfaces run on one of the two databases, and agents in one of two ways, unless somebody wants both.

    What takes long begins first, so that no worker is left alone with it at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if os.environ.get(BOTH):
        return
    here = Path(__file__).parent

    def is_away(item: pytest.Item) -> bool:
        place = item.path.relative_to(here)
        if str(place.with_suffix("")) in SURFACES:
            return "[postgres" in item.name
        if "two_workers_race" in item.name:
            return not any(each in item.name for each in RACING)
        kind = _database_of(item)
        if kind in KINDS and place.parts[0] in HALVED and "attack" not in place.name:
            return kind != KINDS[crc32(item.nodeid.replace(kind, "").encode()) % 2]
        waits = isinstance(item.parent, pytest.Class) and "[waits]" in item.name
        return waits and not any(each in item.name for each in WAITING)

    config.hook.pytest_deselected(items=[item for item in items if is_away(item)])
    items[:] = [item for item in items if not is_away(item)]


def pytest_collection_finish() -> None:
    """From now on there may be garbage, but not in what was imported, which stays."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _database_of(item: pytest.Item) -> str:
    return str(item.callspec.params.get("database", "")) if hasattr(item, "callspec") else ""


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


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with nothing in it; whoever asks for it is run on both kinds."""
    if request.param == "sqlite":
        return str(tmp_path / "assentry.db")
    return str(request.getfixturevalue("postgres_emptied"))
