"""Who gives out tokens for an MCP server: what does not fit together is not believed, and nobody is waited for long."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from assentry.adapters.mcp_proxy import browser_login
from assentry.adapters.mcp_proxy.oauth import Client, Login, Provider, provider_of, registered, renewed
from assentry.core.addresses import is_safe
from assentry.errors import SettingsError

METADATA = {
    "issuer": "{origin}", "authorization_endpoint": "{origin}/authorize", "token_endpoint": "{origin}/token",
    "code_challenge_methods_supported": ["S256"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "metadata", "says"),
    [
        ({"resource": "https://bank.example/mcp"}, METADATA, "something else than itself"),
        ({"resource": "{origin}/mcp/other"}, METADATA, "something else than itself"),
        ({"resource": "{origin}/mcp"}, {**METADATA, "issuer": "https://bank.example"}, "cannot be found"),
        ({"resource": "{origin}", "authorization_servers": ["http://elsewhere.example"]}, METADATA, "cannot be found"),
        ({"resource": "{origin}", "authorization_servers": ["file:///etc"]}, METADATA, "cannot be found"),
        ({"resource": "{origin}/mcp"}, {**METADATA, "code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"resource": "{origin}/mcp"}, {**METADATA, "token_endpoint": "http://far.example/t"}, "token_endpoint"),
        ({"resource": "{origin}/mcp"}, {**METADATA, "authorization_endpoint": "file:///etc"}, "authorization_endpoint"),
        ({"resource": "{origin}/mcp"}, ["no object"], "cannot be found"),
    ],
)  # fmt: skip
async def test_what_does_not_fit_together_is_not_believed(resource: Any, metadata: Any, says: str) -> None:
    async with told({"oauth-protected-resource": resource, "oauth-authorization-server": metadata}) as url:
        with pytest.raises(SettingsError, match=says):
            await provider_of(url)


async def test_a_provider_that_would_be_given_what_another_one_gives_is_not_believed() -> None:
    async with told({"oauth-authorization-server": METADATA}) as honest:
        hostile = {**METADATA, "authorization_endpoint": honest.removesuffix("/mcp") + "/authorize"}
        async with told({"oauth-authorization-server": hostile}) as url:
            with pytest.raises(SettingsError, match="at one provider and give what comes back to another"):
                await provider_of(url)


async def test_where_a_provider_always_says_its_name_nobody_comes_back_without_it() -> None:
    said = {**METADATA, "authorization_response_iss_parameter_supported": True}
    async with told({"oauth-authorization-server": said}) as url:
        returning = browser_login._Returning("word", await provider_of(url))
        assert returning._said("/callback?state=word&code=1")[0].startswith("404")
        assert returning._said(f"/callback?state=word&code=1&iss={url.removesuffix('/mcp')}")[0] == "200 OK"


async def test_older_servers_are_asked_for_their_provider_themselves() -> None:
    async with told({"oauth-authorization-server": METADATA}) as url:
        assert (await provider_of(url)).issuer == url.removesuffix("/mcp")


async def test_a_server_that_lets_everybody_in_says_so() -> None:
    async with told({}, status="200 OK") as url:
        with pytest.raises(SettingsError, match="lets everybody in"):
            await provider_of(url)


async def test_whoever_answers_drop_by_drop_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.adapters.mcp_proxy.oauth._SECONDS", 0.5)

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.1)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
    with pytest.raises(SettingsError, match="could not be reached"):
        await asyncio.wait_for(renewed(Login("1", "https://a.example", endpoint, Client("us"), "t", "r")), 20)
    server.close()


@asynccontextmanager
async def told(published: dict[str, Any], status: str = "401 Unauthorized") -> AsyncIterator[str]:
    """A server that publishes this under `.well-known`, and turns everybody else away."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).decode().split(" ")[1]
        while (await reader.readline()).strip():
            pass
        name = next((name for name in published if path.startswith(f"/.well-known/{name}")), "")
        body = json.dumps(published[name]).replace("{origin}", origin).encode() if name else b""
        said = "200 OK" if name else status if path == "/mcp" else "404 Not Found"
        writer.write(f"HTTP/1.1 {said}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield f"{origin}/mcp"


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://a.example/x", True), ("http://127.0.0.1:80/x", True), ("http://a.example", False),
        ("https://a.example@evil.example", False), ("javascript:alert(1)", False), ("https://", False),
        ("https://a.example/ x", False), ("https://a.example/\x1b", False), ("https://[", False),
    ],
)  # fmt: skip
def test_only_what_nobody_can_read_on_its_way_is_spoken_to(url: str, fine: bool) -> None:
    assert is_safe(url) is fine


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/x", "https://localhost/x", "http://[::1]/x"])
def test_nobody_elsewhere_sends_us_to_this_machine(url: str) -> None:
    assert (is_safe(url), is_safe(url, local=False)) == (True, False)


@pytest.mark.parametrize("name", ["client_id", "client_secret"])
async def test_what_cannot_be_sent_back_is_refused(name: str) -> None:
    said = {"client_id": "us", "client_secret": "x", name: "\ud800"}
    async with told({"oauth-authorization-server": said}) as url:
        place = url.removesuffix("mcp") + ".well-known/oauth-authorization-server"
        provider = Provider("i", "a", "t", place, ("none",), "")
        with pytest.raises(SettingsError, match="cannot be sent back"):
            await registered(provider, "http://127.0.0.1/callback")
