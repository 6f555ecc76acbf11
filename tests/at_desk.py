"""A person at a desk on a real database, for tests of whatever works on the other side of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import assentry
from assentry.assemble import Desk
from assentry.core.authority import Principal
from assentry.core.request import Request, State
from assentry.engine.policies import apply_policy
from assentry.ports import Filter

PATIENCE = 60.0
"""How long a test waits for what is bound to happen, such as a worker's slow sweep, which comes after 30 seconds. Only
what is broken takes longer, however busy the machine."""


@dataclass
class AtDesk:
    """What a person sees and sets, and calls that go on meanwhile."""

    database: str
    desk: Desk
    tasks: list[asyncio.Task[Any]] = field(default_factory=list, kw_only=True)

    @property
    def inbox(self) -> assentry.Inbox:
        return self.desk.inbox

    @property
    def me(self) -> Principal:
        return self.desk.person()

    def start(self, call: Any) -> asyncio.Task[Any]:
        """The call goes on by itself."""

        async def run() -> Any:
            return await call

        task = asyncio.create_task(run())
        self.tasks.append(task)
        return task

    async def rest(self) -> None:
        """No call goes on any more."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def policy(self, text: str) -> None:
        """This policy is active."""
        await apply_policy(self.desk.store, "default", text, Principal("root"))
        await self.inbox.refresh()

    async def waiting(self, number: int = 1) -> list[Request]:
        """The requests that wait, once there are as many."""
        return await self.until(lambda found: len(found) >= number, Filter(states=(State.PENDING,)))

    async def until(self, enough: Callable[[list[Request]], bool], wanted: Filter) -> list[Request]:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = list((await self.inbox.page(wanted)).requests)
                if enough(found):
                    return found
                await asyncio.sleep(0.005)

    async def in_state(self, request_id: str, *states: State) -> Request:
        """The request, once it is in one of these states."""
        async with asyncio.timeout(PATIENCE):
            while True:
                request = await self.desk.store.request("default", request_id)
                assert request is not None
                if request.state in states:
                    return request
                await asyncio.sleep(0.005)
