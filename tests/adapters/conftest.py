"""Fixtures of the tests of what stands in front of MCP servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.mcp_place import Place
from tests.stage import stage


@pytest.fixture
async def place(database: str, tmp_path: Path) -> AsyncIterator[Place]:
    """On both databases."""
    async with stage(database, Place, folder=tmp_path) as made:
        yield made


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Place]:
    """On one of them."""
    async with stage(str(tmp_path / "assentry.db"), Place, folder=tmp_path) as made:
        yield made
