"""Logins at MCP servers: kept sealed, put on every request, and renewed before they end."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from time import time

import httpx

from assent.adapters.mcp_proxy.oauth import Client, Login, renewed
from assent.errors import AssentError
from assent.ports import Vault


class Logins:
    """A folder with what was given for each server, readable by nobody else and sealed besides."""

    def __init__(self, folder: Path, vault: Vault) -> None:
        self._folder, self._vault = folder, vault

    def find(self, url: str) -> Login | None:
        """What was given for the server at this address; none where nobody logged in, or it cannot be opened."""
        try:
            said = json.loads(self._vault.unseal(_context(url), self._file(url).read_text()))
            return Login(**{**said, "client": Client(**said["client"])})
        except (OSError, ValueError, TypeError, KeyError, AssentError):
            return None

    def keep(self, login: Login) -> None:
        """It is used from now on."""
        file = self._made(login.url)
        fresh = file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(self._vault.seal(_context(login.url), json.dumps(asdict(login))))
        fresh.replace(file)

    def forget(self, url: str) -> bool:
        """It is gone from this machine; whether there was one."""
        there = self._file(url).exists()
        self._file(url).unlink(missing_ok=True)
        return there

    @asynccontextmanager
    async def alone(self, url: str) -> AsyncIterator[None]:
        """No other process renews it meanwhile: many a provider takes each refresh token once."""
        with self._made(url).with_suffix(".lock").open("w") as file:
            await asyncio.to_thread(flock, file, LOCK_EX)
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
        self._renewing = asyncio.Lock()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """A request that is answered with 401 was not taken, so that it may be sent again with a new token."""
        used = self._login
        if used.is_over(time()):
            used = await self._renewed(used)
        request.headers["authorization"] = f"Bearer {used.access}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            new = await self._renewed(used)
            if new.access != used.access:
                request.headers["authorization"] = f"Bearer {new.access}"
                yield request

    async def _renewed(self, used: Login) -> Login:
        """With another token, if there is one to be had."""
        async with self._renewing:
            if self._login.access != used.access or not used.refresh:
                return self._login
            async with self._logins.alone(used.url):
                kept = self._logins.find(used.url)
                if kept is None or kept.id != used.id:
                    return used  # somebody logged out, or in as somebody else
                if kept.access == used.access:
                    try:
                        kept = await renewed(kept)
                    except AssentError:
                        return used  # the server says what it thinks of it
                    self._logins.keep(kept)
            self._login = kept
            return kept
