"""Fixtures that every test may ask for. What they start is real, and gone when they end."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres

BOTH = "ASSENT_TEST_BOTH"
"""Environment variable that has every test run on both databases."""
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
WAITING = ("of_several_at_once", "ends_the_run", "the_scenario")
"""What agents of frameworks do that wait in their process; all of the contract is run with those that park."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Surfaces run on one of the two databases, and agents in one of two ways, unless somebody wants both."""
    if os.environ.get(BOTH):
        return
    here = Path(__file__).parent
    away = [
        item
        for item in items
        if (str(item.path.relative_to(here).with_suffix("")) in SURFACES and "[postgres" in item.name)
        or (
            isinstance(item.parent, pytest.Class)
            and "[waits]" in item.name
            and not any(w in item.name for w in WAITING)
        )
    ]
    config.hook.pytest_deselected(items=away)
    items[:] = [item for item in items if item not in set(away)]


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
