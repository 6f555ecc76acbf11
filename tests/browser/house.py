"""A server with people before it: agents ask on the same database, each person has a browser of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Error, Locator, Page, expect

from assentry.core.request import Request
from tests.stage import BOSS, Stage, stage

PEOPLE = """
people:
  alice: {roles: [manager], teams: [platform]}
  bob: {roles: [manager], teams: [platform]}
reviewers: [team:platform]
"""
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ARTEFACTS = Path(__file__).parent.parent.parent / "artefacts"
SECONDS = 60.0
WAIT = SECONDS * 1000


@dataclass
class House(Stage):
    """A server, and an agent's gate on its database."""

    browser: Browser = field(kw_only=True)

    async def link(self, person: str) -> str:
        secret = await self.identities.link(BOSS, person)
        return f"{self.url}/enter?link={secret}"

    async def context(self, **settings: Any) -> BrowserContext:
        """Another browser, as far as cookies and storage go; gone with the house."""
        settings.setdefault("viewport", DESK)
        made = await self.browser.new_context(**settings)
        made.set_default_timeout(WAIT)
        made.set_default_navigation_timeout(3 * WAIT)
        self.closing.push_async_callback(made.close)
        return made

    async def last_seen(self) -> None:
        """What was on every screen is printed, for a test that failed where nobody can look any more."""
        for context in self.browser.contexts:
            for page in context.pages:
                with suppress(Error):
                    print(f"{page.url}\n{(await page.locator('body').inner_text(timeout=2000))[:4000]}")

    async def guest(self, person: str = "alice", **settings: Any) -> "Guest":
        """Somebody who has come in through a link, in a browser of their own."""
        context = await self.context(**settings)
        page = await context.new_page()
        guest = Guest(self, page)
        await page.goto(await self.link(person))
        await page.get_by_role("button", name="Come in").click()
        await page.wait_for_url(f"{self.url}/")
        return guest


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

    async def previews(self) -> None:
        """A preview is there, and has been for long enough to be answered."""
        await expect(self.at("#main[data-preview]:not([data-fresh])")).to_be_visible()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)

    async def pictured(self, name: str) -> None:
        ARTEFACTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=ARTEFACTS / f"{name}.png")


@asynccontextmanager
async def built(browser: Browser, database: str, policy: str = PEOPLE) -> AsyncIterator[House]:
    """A server on this database under this policy, and an agent beside it."""
    async with stage(database, House, agent="cleanup", serves=True, policy=policy, browser=browser) as made:
        yield made
