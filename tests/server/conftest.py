"""Every test of the server runs on both databases."""

from collections.abc import AsyncIterator

import pytest

from tests.server.building import Building, building
from tests.server.reception import Reception, reception


@pytest.fixture
async def house(database: str) -> AsyncIterator[Building]:
    async with building(database) as made:
        yield made


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Reception]:
    async with reception(database) as made:
        yield made
