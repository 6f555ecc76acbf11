"""A server with people before it: agents ask on the same database, each person has a browser of their own."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

import assentry
from assentry.core.action import Declaration, Reach
from assentry.core.authority import Principal
from assentry.core.request import Request, State
from assentry.engine.gate import Gate
from assentry.engine.identity import Identities
from assentry.engine.policies import apply_policy
from assentry.server.serving import Address, Standing, standing
from assentry.settings import Settings

GONE = Declaration(reversible=False, reach=Reach.LOCAL)
PAID = Declaration(reversible=False, reach=Reach.ORGANISATION, outside=True, money=True)
MILD = Declaration(reversible=True, reach=Reach.LOCAL)
BOSS = Principal("root", roles=("*",), teams=("*",))

PEOPLE = """
people:
  alice: {roles: [manager], teams: [platform]}
  bob: {roles: [manager], teams: [platform]}
reviewers: [team:platform]
"""
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ARTEFACTS = Path(__file__).parent.parent.parent / "artefacts"
SECONDS = 20.0
WAIT = SECONDS * 1000


@dataclass
class House:
    """A server, and an agent's gate on its database."""

    server: Standing
    gate: Gate
    browser: Browser
    _guests: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def url(self) -> str:
        return self.server.url

    async def asks(self, action: str = "delete_files", args: Any = None, **said: Any) -> Request:
        """The request for this call, which waits."""
        given = {"files": ["a.tmp", "b.tmp"], "root": "~/projects"} if args is None else args
        said.setdefault("declared", GONE)
        proposal = await self.gate.propose(action, given, **said)
        assert proposal.request is not None
        return proposal.request

    async def pays(self, amount: float = 12400.0, **said: Any) -> Request:
        return await self.asks(
            "pay", {"to": "Nordwind", "amount": amount, "currency": "EUR"}, declared=PAID, says="Pay {to}", **said
        )

    async def wonders(self, question: str, **more: Any) -> str:
        """The code of a question that waits."""
        try:
            await self.gate.ask(question, patience=0, **more)
        except assentry.Parked as parked:
            return parked.code
        raise AssertionError("the question did not wait")

    async def now(self, request: Request) -> Request:
        found = await self.gate.store.request(self.gate.workspace, request.id)
        assert found is not None
        return found

    async def becomes(self, request: Request, *states: State) -> Request:
        """The request, once it is in one of these states."""

        async def is_so() -> bool:
            return (await self.now(request)).state in states

        await until(is_so)
        return await self.now(request)

    async def law(self, text: str) -> None:
        """This policy is the active one, here and at the server."""
        await apply_policy(self.gate.store, self.gate.workspace, text, BOSS, "test")
        await self.gate._judgement.refresh()
        room = await self.server.premises.room(self.gate.workspace)
        await room.desk.judgement.refresh()

    async def link(self, person: str) -> str:
        secret = await Identities(self.gate.store, self.gate.workspace).link(BOSS, person)
        return f"{self.url}/enter?link={secret}"

    async def context(self, **settings: Any) -> BrowserContext:
        """Another browser, as far as cookies and storage go; gone with the house."""
        settings.setdefault("viewport", DESK)
        made = await self.browser.new_context(**settings)
        made.set_default_timeout(WAIT)
        made.set_default_navigation_timeout(3 * WAIT)
        self._guests.push_async_callback(made.close)
        return made

    async def guest(self, person: str = "alice", **settings: Any) -> "Guest":
        """Somebody who has come in through a link, in a browser of their own."""
        context = await self.context(**settings)
        page = await context.new_page()
        guest = Guest(self, page)
        await page.goto(await self.link(person))
        await page.get_by_role("button", name="Come in").click()
        await page.wait_for_url(f"{self.url}/")
        return guest

    async def clear(self) -> None:
        await self._guests.aclose()


@dataclass
class Guest:
    """A person before a page."""

    house: House
    page: Page
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda problem: self.said.append(str(problem)))
        self.page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)

    def at(self, selector: str) -> Locator:
        return self.page.locator(selector)

    async def sees(self, *words: str, within: str = "body") -> None:
        for each in words:
            await expect(self.at(within)).to_contain_text(each)

    async def is_live(self) -> None:
        await expect(self.at("#live")).to_have_class("live on")

    async def opens(self, request: Request | str, query: str = "") -> None:
        code = request if isinstance(request, str) else request.code
        await self.page.goto(f"{self.house.url}/r/{code}{query}")

    async def shows(self, request: Request | str) -> None:
        """The card is that of this request, and has been there for long enough to take a key."""
        code = request if isinstance(request, str) else request.code
        await expect(self.at(f'#card[data-code="{code}"]:not([inert]):not([data-fresh])')).to_be_visible()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)

    async def pictured(self, name: str) -> None:
        ARTEFACTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=ARTEFACTS / f"{name}.png")


async def until(is_so: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
    """It came to that; the test fails if it does not."""
    end = time.monotonic() + seconds
    while not await is_so():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def built(browser: Browser, database: str, policy: str = PEOPLE) -> AsyncIterator[House]:
    """A server on this database under this policy, and an agent beside it."""
    gate = assentry.open(database, agent="cleanup")
    try:
        await apply_policy(gate.store, gate.workspace, policy, BOSS, "test")
        await gate._judgement.refresh()
        async with standing(Settings(database=database), Address(port=0)) as server:
            house = House(server, gate, browser)
            try:
                yield house
            finally:
                await house.clear()
    finally:
        await gate.close()
