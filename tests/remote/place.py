"""A real server in this process, on a real database, with agents that have tokens and a person at another desk."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from assent.assemble import Desk, desk
from assent.core.authority import Principal
from assent.core.request import Request, State
from assent.engine.identity import Identities
from assent.engine.policies import apply_policy
from assent.ports import Filter
from assent.server.serving import Address, Standing, standing
from assent.settings import load


@dataclass
class Place:
    """What a test of agents elsewhere works with."""

    database: str
    server: Standing
    desk: Desk
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def inbox(self) -> Any:
        return self.desk.inbox

    @property
    def me(self) -> Principal:
        return self.desk.person()

    async def token(self, agent: str, workspace: str = "default") -> str:
        _, secret = await Identities(self.desk.store, workspace).give_token(Principal("root"), agent)
        return secret

    @asynccontextmanager
    async def agent(self, name: str = "cleanup") -> AsyncIterator[httpx.AsyncClient]:
        """A plain HTTP client with this agent's token."""
        headers = {"Authorization": f"Bearer {await self.token(name)}"}
        async with httpx.AsyncClient(base_url=f"{self.url}/api/v1/agent", headers=headers, timeout=70) as client:
            yield client

    def start(self, call: Any) -> asyncio.Task[Any]:
        """The call goes on by itself."""

        async def run() -> Any:
            return await call

        task = asyncio.create_task(run())
        self.tasks.append(task)
        return task

    async def policy(self, text: str) -> None:
        """This policy is active, at the server and at the desk."""
        await apply_policy(self.desk.store, "default", text, Principal("root"))
        await self.inbox.refresh()
        gate = self.server.premises.gate
        assert gate is not None
        await gate._judgement.refresh()

    async def waiting(self, number: int = 1) -> list[Request]:
        """The requests that wait, once there are as many."""
        return await self.until(lambda found: len(found) >= number, Filter(states=(State.PENDING,)))

    async def until(self, enough: Callable[[list[Request]], bool], wanted: Filter) -> list[Request]:
        async with asyncio.timeout(20):
            while True:
                found = list((await self.inbox.page(wanted)).requests)
                if enough(found):
                    return found
                await asyncio.sleep(0.01)

    async def in_state(self, request_id: str, *states: State) -> Request:
        """The request, once it is in one of these states."""
        async with asyncio.timeout(20):
            while True:
                request = await self.desk.store.request("default", request_id)
                assert request is not None
                if request.state in states:
                    return request
                await asyncio.sleep(0.01)

    async def approve(self, request: Request | str) -> Request:
        request_id = request if isinstance(request, str) else request.id
        phrase = (await self.inbox.brief(request_id)).phrase
        made: Request = await self.inbox.approve(self.me, request_id, confirm=phrase)
        return made

    async def deny(self, request: Request | str, reason: str = "not today") -> Request:
        made: Request = await self.inbox.deny(self.me, request if isinstance(request, str) else request.id, reason)
        return made


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "assent.db")
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
async def place(database: str) -> AsyncIterator[Place]:
    settings = load({"database": database})
    async with standing(settings, Address(port=0)) as server:
        made = Place(database, server, await desk(settings))
        yield made
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await made.desk.store.close()
