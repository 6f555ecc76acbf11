"""A real server in this process, on a real database, with agents that have tokens and a person at another desk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from assentry.assemble import desk
from assentry.core.authority import Principal
from assentry.core.request import Request
from assentry.engine.identity import Identities
from assentry.server.serving import Address, Standing, standing
from assentry.settings import load
from tests.at_desk import AtDesk


@dataclass
class Place(AtDesk):
    """What a test of agents elsewhere works with."""

    server: Standing

    @property
    def url(self) -> str:
        return self.server.url

    async def token(self, agent: str, workspace: str = "default") -> str:
        _, secret = await Identities(self.desk.store, workspace).give_token(Principal("root"), agent)
        return secret

    @asynccontextmanager
    async def agent(self, name: str = "cleanup") -> AsyncIterator[httpx.AsyncClient]:
        """A plain HTTP client with this agent's token."""
        headers = {"Authorization": f"Bearer {await self.token(name)}"}
        async with httpx.AsyncClient(base_url=f"{self.url}/api/v1/agent", headers=headers, timeout=70) as client:
            yield client

    async def policy(self, text: str) -> None:
        """This policy is active, at the server and at the desk."""
        await super().policy(text)
        gate = self.server.premises.gate
        assert gate is not None
        await gate._judgement.refresh()

    async def approve(self, request: Request | str) -> Request:
        request_id = request if isinstance(request, str) else request.id
        phrase = (await self.inbox.brief(request_id)).phrase
        return await self.inbox.approve(self.me, request_id, confirm=phrase)

    async def deny(self, request: Request | str, reason: str = "not today") -> Request:
        return await self.inbox.deny(self.me, request if isinstance(request, str) else request.id, reason)


@pytest.fixture
async def place(database: str) -> AsyncIterator[Place]:
    settings = load({"database": database})
    async with standing(settings, Address(port=0)) as server:
        made = Place(database, await desk(settings), server)
        yield made
        await made.rest()
        await made.desk.store.close()
