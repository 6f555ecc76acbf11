"""A real server in this process, on a real database, with agents that have tokens and a person at another desk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from tests.stage import Stage, stage


@dataclass
class Place(Stage):
    """What a test of agents elsewhere works with."""

    @asynccontextmanager
    async def agent(self, name: str = "cleanup") -> AsyncIterator[httpx.AsyncClient]:
        """A plain HTTP client with this agent's token."""
        headers = {"Authorization": f"Bearer {await self.token(name)}"}
        async with httpx.AsyncClient(base_url=f"{self.url}/api/v1/agent", headers=headers, timeout=70) as client:
            yield client


@pytest.fixture
async def place(database: str) -> AsyncIterator[Place]:
    async with stage(database, Place, serves=True) as made:
        yield made
