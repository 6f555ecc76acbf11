"""One server with what stands in front of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assentry.adapters.mcp_proxy.held import Manner
from assentry.adapters.mcp_proxy.logins import LoggedIn, Logins
from assentry.adapters.mcp_proxy.proxy import Proxy
from assentry.adapters.mcp_proxy.servers import Server
from assentry.adapters.mcp_proxy.streamable import HttpServer
from assentry.adapters.mcp_proxy.upstream import ProcessServer, Upstream
from assentry.adapters.mcp_proxy.wire import ToClient
from assentry.engine.errands import Errands, Notebook


@dataclass(frozen=True, slots=True)
class Link:
    """A server, and the proxy that judges what goes there."""

    proxy: Proxy
    upstream: Upstream

    async def listen(self) -> None:
        """What the server says was told, until it is gone."""
        await self.upstream.listen(self.proxy)

    async def leave(self) -> None:
        """The client is gone: what is held does not run, and what is under way may end, so that it is on record."""
        await self.proxy.close()
        await self.upstream.leave()

    async def close(self) -> int:
        """Nothing is left of it."""
        await self.proxy.close()
        return await self.upstream.close()


async def linked(
    server: Server,
    errands: Errands,
    notebook: Notebook,
    manner: Manner,
    to_client: ToClient,
    logins: Logins | None = None,
) -> Link:
    """The server is there, and whatever goes there is judged."""
    login = logins.find(server.url) if logins is not None and server.takes_login else None
    logged_in = None
    if login is not None and logins is not None:
        server, logged_in = replace(server, login=login.id), LoggedIn(logins, login)

    def schema(name: str) -> Mapping[str, Any]:
        return proxy.tools.schema(name)

    upstream: Upstream
    if server.url:
        upstream = HttpServer(server.url, server.headers, schema, logged_in)
    else:
        upstream = await ProcessServer.started(server.name, server.command, server.env)
    own = replace(manner, identity=server.identity, place=server.place)
    proxy = Proxy(errands, notebook, own, to_client, upstream.send)
    return Link(proxy, upstream)


def linking(
    errands: Errands, folder: Path, whose: str, manner: Manner, logins: Logins | None = None
) -> Callable[[Server, ToClient], Awaitable[Link]]:
    """Makes links that hold calls alike, each with a notebook of its server in this folder."""

    def made(server: Server, to_client: ToClient) -> Awaitable[Link]:
        own = replace(manner, server=server.name, trusted=server.trusted)
        return linked(server, errands, Notebook(folder, f"{whose}\0{server.notes}"), own, to_client, logins)

    return made
