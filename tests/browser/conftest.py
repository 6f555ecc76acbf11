"""One Chromium for the session; a server, a database and browsers of their own for each test."""

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.chromium import chromium
from tests.browser.house import House, built

expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser lives on one loop, so every test here runs on it."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ASSENTRY_") and name not in KEPT]:
        monkeypatch.delenv(name)


KEPT = ("ASSENTRY_HOME", "ASSENTRY_CHROMIUM", "ASSENTRY_TEST_POSTGRES_BIN")


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest_asyncio.fixture(loop_scope="session")
async def house(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> AsyncIterator[House]:
    """A server on SQLite, with alice and bob among its people."""
    async with built(browser, str(tmp_path / "assentry.db")) as made:
        yield made
        if request.node.stash.get(_FAILED, False):
            await made.last_seen()


@pytest_asyncio.fixture(loop_scope="session", params=["sqlite", "postgresql"])
async def either(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> AsyncIterator[House]:
    """A server on each kind of database in turn."""
    sqlite = request.param == "sqlite"
    database = str(tmp_path / "assentry.db") if sqlite else request.getfixturevalue("postgres_database")
    async with built(browser, database) as made:
        yield made
        if request.node.stash.get(_FAILED, False):
            await made.last_seen()
