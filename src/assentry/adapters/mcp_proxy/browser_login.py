"""A person logs in at an MCP server, in their own browser, which comes back to this machine."""

import asyncio
import hmac
from collections.abc import Callable
from secrets import token_urlsafe
from urllib.parse import parse_qs, urlsplit

from assentry.adapters.mcp_proxy.oauth import (
    Login,
    Provider,
    address,
    client_class,
    logged_in,
    named,
    provider_of,
    registered,
)
from assentry.errors import SettingsError

PATIENCE = 300.0
"""Seconds that a person has."""
_LONGEST_LINE = 16_384
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Assentry</title>"
    "<meta name=color-scheme content='light dark'><meta name=viewport content='width=device-width'>"
    "<body style='font:1.1rem system-ui;max-width:30rem;margin:20vh auto;padding:0 1rem'><h1>{title}</h1><p>{text}"
)


async def log_in(url: str, show: Callable[[str], None], client_id: str = "", secret: str = "") -> Login:
    """What the person's browser came back with; `show` has them open an address."""
    client_class()  # before anybody is asked anything: without it there is no way to the end
    provider = await provider_of(url)
    returning = _Returning(token_urlsafe(24), provider)
    server = await asyncio.start_server(returning.visited, "127.0.0.1", 0, limit=_LONGEST_LINE)
    async with server:
        returns = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        client = named(provider, client_id, secret) if client_id else await registered(provider, returns)
        verifier = token_urlsafe(48)
        show(address(provider, client, url, returns, returning.state, verifier))
        try:
            async with asyncio.timeout(PATIENCE):
                code = await returning.code
        except TimeoutError:
            raise SettingsError(f"nobody came back within {PATIENCE / 60:g} minutes; log in again") from None
        return await logged_in(provider, client, url, returns, code, verifier)


class _Returning:
    """Waits for the browser to come back with the code, and with the word that only it was given."""

    def __init__(self, state: str, provider: Provider) -> None:
        self.state, self._provider = state, provider
        self.code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One visit was answered; whoever does not bring that word changes nothing."""
        try:
            async with asyncio.timeout(10):
                line = (await reader.readline()).decode("ascii", "replace").split(" ")
                while (await reader.readline()).strip():
                    pass  # the headers say nothing that is needed
                status, title, text = self._said(line[1] if len(line) == 3 and line[0] == "GET" else "")
                page = _PAGE.format(title=title, text=text).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
                    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                    + page
                )
                await writer.drain()
        except (TimeoutError, ValueError, OSError):
            pass  # it was no browser, or is gone
        finally:
            writer.close()

    def _said(self, target: str) -> tuple[str, str, str]:
        parts = urlsplit(target)
        said = {name: values[0] for name, values in parse_qs(parts.query).items()}
        ours = hmac.compare_digest(said.get("state", "").encode(), self.state.encode())
        issuer = said.get("iss", "" if self._provider.says_issuer else self._provider.issuer)
        if parts.path != "/callback" or not ours or issuer != self._provider.issuer or self.code.done():
            return "404 Not Found", "Nothing here", "This is not where a log-in ends."
        if code := said.get("code", ""):
            self.code.set_result(code)
            return "200 OK", "You are logged in", "You can close this window."
        self.code.set_exception(SettingsError("the log-in was refused there, or left; try again"))
        return "200 OK", "You are not logged in", "The terminal says more. You can close this window."
