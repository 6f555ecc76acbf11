"""The application on a real database, and browsers that are nothing but cookies and forms."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx

from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from tests.stage import Application, application

HOST = "assentry.test"
URL = f"https://{HOST}"
PASSWORD = "correct horse battery"
PEOPLE = """
people:
  ada: {roles: [operator], email: ada@example.com}
  ben: {email: Ben@Example.com}
"""


class Browser(httpx.AsyncClient):
    """Cookies, and forms with what our pages put into them."""

    async def fill(self, path: str, page: str = "/prove", **fields: str) -> httpx.Response:
        """A form of one of our pages, sent from it."""
        return await self.post(path, data={"csrf": await self.csrf(page), **fields}, headers={"origin": URL})

    async def csrf(self, page: str = "/prove") -> str:
        found = re.search(r'name="assentry-csrf" content="([0-9a-f]+)"', (await self.get(page)).text)
        return found.group(1) if found else ""

    async def who(self) -> str:
        """Who the server thinks this is; empty: nobody."""
        answer = await self.get("/prove", headers={"accept": "text/html"})
        found = re.search(r"that you are (\S+)</h1>", answer.text)
        return found.group(1) if found else ""

    @property
    def cookie(self) -> str:
        return str(self.cookies.get("__Host-assentry") or "")

    async def log_in(self, name: str, password: str = PASSWORD, **more: str) -> httpx.Response:
        return await self.post("/login", data={"name": name, "password": password, **more}, headers={"origin": URL})

    async def enter(self, link: str) -> httpx.Response:
        return await self.post("/enter", data={"link": link}, headers={"origin": URL})


@dataclass
class Building(Application):
    """What a test of the server works with."""

    def browser(self, url: str = URL, **options: Any) -> Browser:
        made = Browser(transport=httpx.ASGITransport(self.app), base_url=url, **options)
        self.closing.push_async_callback(made.aclose)
        return made

    async def link(self, name: str) -> str:
        return await self.identities.link(Principal("ada"), name)

    async def password(self, name: str, password: str = PASSWORD) -> None:
        await self.identities.set_password(Principal("ada"), name, password)

    async def credentials(self, kind: CredentialKind, holder: str = "") -> tuple[Credential, ...]:
        return await self.premises.store.credentials(self.workspace, kind, holder=holder)

    async def changed(self, credential: Credential, **about: Any) -> Credential:
        """Something else is on record about it, without waiting until it is."""
        made = replace(credential, version=credential.version + 1, **about)
        await self.premises.store.transact(self.workspace, None, lambda _: Change(credentials=(made,)))
        return made

    async def aged(self, kind: CredentialKind, holder: str, by: timedelta) -> None:
        """What somebody has of this kind is older by so much than it was."""
        for each in await self.credentials(kind, holder):
            about = dict(each.about)
            if "proved" in about:
                about["proved"] = (each.made_at - by).isoformat()
            await self.changed(each, made_at=each.made_at - by, about=about)


@asynccontextmanager
async def building(database: str, policy: str = PEOPLE, **settings: str) -> AsyncIterator[Building]:
    """The application answers inside, under an https address."""
    ada, address = Principal("ada"), {"hosts": [HOST], "public": URL}
    async with application(database, Building, policy=policy, by=ada, settings=settings, **address) as made:
        yield made
