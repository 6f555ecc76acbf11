"""Fixtures of the tests of what stands in front of MCP servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assentry.assemble import desk
from assentry.settings import load
from tests.adapters.mcp_place import Place


@pytest.fixture
async def place(database: str, tmp_path: Path) -> AsyncIterator[Place]:
    """On both databases."""
    made = await desk(load({"database": database}))
    yield Place(tmp_path, made, database)
    await made.store.close()


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Place]:
    """On one of them."""
    database = str(tmp_path / "assentry.db")
    made = await desk(load({"database": database}))
    yield Place(tmp_path, made, database)
    await made.store.close()
