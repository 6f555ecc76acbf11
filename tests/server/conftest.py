"""Every test of the server runs on both databases."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.server.building import Building, building
from tests.server.reception import Reception, reception


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "assent.db")
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
async def house(database: str) -> AsyncIterator[Building]:
    async with building(database) as made:
        yield made


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Reception]:
    async with reception(database) as made:
        yield made
