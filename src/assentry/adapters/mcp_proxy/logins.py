"""Logins at MCP servers: kept sealed, put on every request, and renewed before they end."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from time import monotonic, time

import httpx

from assentry.adapters.mcp_proxy.oauth import Client, Login, renewed
from assentry.errors import AssentryError, SettingsError, StoreBusy
from assentry.ports import Vault
from assentry.system import locked

log = logging.getLogger("assentry.mcp")

ALONE_SECONDS = 30.0
"""Longer than asking a provider takes."""
PAUSE_SECONDS = 10.0
"""After a token could not be renewed nobody tries again for so long."""
LAST_SECONDS = 5.0


class Logins:
    """A folder with what was given for each server, readable by nobody else and sealed besides."""

    def __init__(self, folder: Path, vault: Vault) -> None:
        self._folder, self._vault = folder, vault

    def find(self, url: str) -> Login | None:
        """What was given for the server at this address; none where nobody logged in, or it cannot be opened."""
        try:
            said = json.loads(self._vault.unseal(_context(url), self._file(url).read_text(encoding="utf-8")))
            return Login(**{**said, "client": Client(**said["client"])})
        except (OSError, ValueError, TypeError, KeyError, AssentryError):
            return None

    def keep(self, login: Login) -> None:
        """It is used from now on."""
        file = self._made(login.url)
        fresh = file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(self._vault.seal(_context(login.url), json.dumps(asdict(login))), encoding="utf-8")
        fresh.replace(file)

    def forget(self, url: str) -> bool:
        """It is gone from this machine; whether there was one."""
        there = self._file(url).exists()
        self._file(url).unlink(missing_ok=True)
        return there

    @asynccontextmanager
    async def alone(self, url: str) -> AsyncIterator[None]:
        """No other process renews, begins or ends it meanwhile."""
        until = monotonic() + ALONE_SECONDS
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(locked(self._made(url).with_suffix(".lock"), 0))
                    break
                except StoreBusy:
                    if monotonic() > until:
                        raise SettingsError("another process is busy with this login; try again later") from None
                await asyncio.sleep(0.05)
            yield

    def _made(self, url: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._file(url)

    def _file(self, url: str) -> Path:
        return self._folder / f"{sha256(url.encode()).hexdigest()[:32]}.login"


def _context(url: str) -> str:
    return f"mcp login {url}"


class LoggedIn(httpx.Auth):
    """Every request with the token of one login, and of no other that somebody begins meanwhile."""

    def __init__(self, logins: Logins, login: Login) -> None:
        self._logins, self._login = logins, login
        self._renewal: asyncio.Task[bool] | None = None
        self._not_before = 0.0

    @property
    def token(self) -> str:
        """What is sent now."""
        return self._login.access

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """The request with a token that lasts, if there is one. Whatever is answered, it is sent once."""
        if self._login.is_over(time()):
            await self.renewed(self.token)
        request.headers["authorization"] = f"Bearer {self.token}"
        yield request

    async def renewed(self, used: str) -> bool:
        """There is another token than this one. Whoever asks meanwhile hears the same, also if the first one leaves."""
        if self.token != used:
            return True
        if self._renewal is None or self._renewal.done():
            if not self._login.refresh or monotonic() < self._not_before:
                return False
            self._renewal = asyncio.create_task(self._renew(self._login))
        return await asyncio.shield(self._renewal)

    async def close(self) -> None:
        """What is being renewed is kept first: many a provider takes each refresh token once."""
        if self._renewal is not None:
            await asyncio.wait({self._renewal}, timeout=LAST_SECONDS)

    async def _renew(self, used: Login) -> bool:
        try:
            async with self._logins.alone(used.url):
                kept = self._logins.find(used.url)
                if kept is None or kept.id != used.id:
                    return False  # somebody logged out, or in as somebody else
                self._login = kept if kept.access != used.access else await renewed(kept)
                if self._login is not kept:
                    self._logins.keep(self._login)
        except (AssentryError, OSError, ValueError) as problem:
            log.warning("the login at the MCP server could not be renewed or kept: %s", type(problem).__name__)
        if self.token == used.access:
            self._not_before = monotonic() + PAUSE_SECONDS
        return self.token != used.access
