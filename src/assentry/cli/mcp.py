"""In front of MCP servers: the client starts this instead of the server, and nothing else changes."""

import asyncio
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from typer.core import TyperCommand

from assentry import __version__
from assentry.adapters.mcp_proxy.held import Held, Manner
from assentry.adapters.mcp_proxy.link import Link, linking
from assentry.adapters.mcp_proxy.logins import Logins
from assentry.adapters.mcp_proxy.servers import Server, at, listed
from assentry.adapters.mcp_proxy.several import Several
from assentry.adapters.mcp_proxy.streamable import shown
from assentry.adapters.mcp_proxy.upstream import relayed
from assentry.adapters.mcp_proxy.wire import LONGEST, ToClient
from assentry.assemble import errands_for, keys_for
from assentry.cli.session import settings_of
from assentry.core.text import visible
from assentry.engine.errands import Errands
from assentry.settings import Settings
from assentry.system import told_to_stop

app = typer.Typer(add_completion=False)

AGENT = "mcp"
CLIENT_SECRET = "ASSENTRY_MCP_CLIENT_SECRET"  # noqa: S105  the name of a variable


class Fronting(TyperCommand):
    """Knows where the options of the server's own command belong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as problem:
            is_option = re.match(r"No such option: (-\S*)", problem.format_message())
            if is_option is None or "--" in given or given[0].startswith("-"):
                raise
            says = f"{is_option[0]}; the server's command goes after --, as in: assentry mcp -- {given[0]} …"
            raise typer.BadParameter(visible(says, lines=False)) from None


@app.command(cls=Fronting)
def mcp(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="The server, as the client would start it.")
    ] = None,
    url: Annotated[str, typer.Option(help="A server elsewhere, by streamable HTTP, instead of a command.")] = "",
    header: Annotated[
        list[str] | None,
        typer.Option(help="For --url: 'Name: value', where ${NAME} is a variable of the environment. Repeatable."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help='A file that lists several servers, {"mcpServers": {NAME: …}}: tools are NAME__TOOL.'),
    ] = None,
    name: Annotated[str, typer.Option(help="What the server is called on cards; else after its command.")] = "",
    agent: Annotated[str, typer.Option(help="Whose calls these are, in the policy and on cards.")] = AGENT,
    trusted: Annotated[bool, typer.Option("--trusted", help="Vouch for what the server says of its tools.")] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a held call waits; 0 answers at once, and the same call made again finds the decision. "
            "Else as long as the client waits.", min=0, show_default=False,
        ),
    ] = None,
    held: Annotated[
        Held,
        typer.Option(
            help="What a client hears of a held call: it waits; it gets a ticket at once; it is also shown the card "
            "(elicit), or told to ask again (input), where it can.",
        ),
    ] = Held.WAIT,
    login: Annotated[
        bool,
        typer.Option(
            "--login", help="Log in at --url with a browser, once, and end; whoever is started later is logged in."
        ),
    ] = False,
    logout: Annotated[bool, typer.Option("--logout", help="Forget the login at --url, and end.")] = False,
    client_id: Annotated[
        str,
        typer.Option(
            help=f"For --login where programs are registered by hand: what Assentry is called there. Its secret, if it "
            f"has one, is in {CLIENT_SECRET}."
        ),
    ] = "",
) -> None:  # fmt: skip
    """Stand in front of an MCP server: its tools run when they may.

    Everything is relayed; calls of tools are judged first. With ASSENTRY_SERVER and ASSENTRY_TOKEN a server is asked,
    else the database of this machine.

    Example: assentry mcp -- npx -y @modelcontextprotocol/server-filesystem /srv/files
    """
    settings = settings_of(ctx)
    if client_id and not login:
        raise typer.BadParameter("it says as whom to log in: use it with --login", param_hint="--client-id")
    if login and logout:
        raise typer.BadParameter("say one of --login and --logout")
    if login or logout:
        if not url or command or config or header:
            raise typer.BadParameter("a login is at one address: name it with --url, and nothing else")
        shown(url)
        return _log_out(settings, url) if logout else _log_in(settings, url, client_id)
    if [bool(command), bool(url), config is not None].count(True) != 1:
        raise typer.BadParameter("name one: -- COMMAND..., --url or --config")
    if header and not url:
        raise typer.BadParameter("headers go with --url", param_hint="--header")
    if held is Held.TICKET and wait:
        raise typer.BadParameter(
            "a ticket is given at once, so that nothing waits: leave out --wait", param_hint="--held"
        )
    if held is Held.ELICIT and not settings.server:
        raise typer.BadParameter("there is no card to open without a server; name one (--server)", param_hint="--held")
    manner = Manner("", trusted, wait, held, settings.server)
    if config is not None:
        raise typer.Exit(asyncio.run(_serve_several(settings, listed(config, trusted=trusted), manner, agent)))
    if url:
        server = at(url, header or [], name, trusted=trusted)
    else:
        assert command  # noqa: S101  one of them is there
        server = Server(name or Path(command[0]).name, tuple(command), trusted=trusted, is_named=bool(name))
    raise typer.Exit(asyncio.run(_serve(settings, server, manner, agent)))


def _log_in(settings: Settings, url: str, client_id: str) -> None:
    from assentry.adapters.mcp_proxy.browser_login import log_in
    from assentry.server.desktop import show

    def open_it(link: str) -> None:
        how = "A browser opens. If it does not, open this" if show(link) else "Open this in a browser on this machine"
        typer.echo(f"You log in at {urlsplit(link).netloc}, for {shown(url)}. {how}:\n\n  {link}\n", err=True)

    async def main() -> None:
        given = await log_in(url, open_it, client_id, os.environ.get(CLIENT_SECRET, ""))
        async with logins.alone(url):
            logins.keep(given)

    logins = _logins(settings)
    asyncio.run(main())
    typer.echo(f"Logged in at {shown(url)}. Whatever starts assentry mcp --url with this address is logged in now.")


def _log_out(settings: Settings, url: str) -> None:
    async def main() -> bool:
        async with logins.alone(url):
            return logins.forget(url)

    logins = _logins(settings)
    there = asyncio.run(main())
    says = "Logged out of" if there else "Nobody was logged in at"
    typer.echo(f"{says} {shown(url)}.{' What it was given is forgotten here; end it there as well.' if there else ''}")


def _logins(settings: Settings) -> Logins:
    keys = keys_for(settings)
    return Logins(keys.directory / "mcp", keys)


async def _serve(settings: Settings, server: Server, manner: Manner, agent: str) -> int:
    async with errands_for(settings, agent) as errands:
        made = _linking(settings, errands, agent, manner)
        link = await made(server, await _writer(sys.stdout))
        return await _relayed(link.proxy.from_client, link)


async def _serve_several(settings: Settings, servers: list[Server], manner: Manner, agent: str) -> int:
    async with errands_for(settings, agent) as errands:
        made = _linking(settings, errands, agent, manner)
        front = Several(await _writer(sys.stdout), __version__)
        try:
            for server in servers:
                front.add(server.name, await made(server, front.ear(server.name)))
        except BaseException:
            await front.close()
            raise
        return await _relayed(front.from_client, front)


def _linking(
    settings: Settings, errands: Errands, agent: str, manner: Manner
) -> Callable[[Server, ToClient], Awaitable[Link]]:
    folder = keys_for(settings).directory / "mcp"
    return linking(errands, folder, f"{settings.workspace}\0{agent}", manner, _logins(settings))


async def _relayed(take: ToClient, link: Link | Several) -> int:
    """Both sides were heard until one of them is gone; how the server ended."""
    client = await _reader(sys.stdin)
    ends = [
        asyncio.create_task(relayed(client, take)),
        asyncio.create_task(link.listen()),
    ]
    with told_to_stop(ends[0].cancel):
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not ends[1].done():
                await link.leave()
        finally:
            code = await link.close()
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
    return code


async def _reader(stream: Any) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=LONGEST)
    mode = os.fstat(stream.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()):
        reader.feed_data(await asyncio.to_thread(stream.buffer.read))  # a file has nothing to wait for
        reader.feed_eof()
        return reader
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _copy(stream, "rb"))
    return reader


def _copy(stream: Any, mode: str) -> Any:
    """The same stream, to be closed without the process's own."""
    return os.fdopen(os.dup(stream.fileno()), mode, buffering=0)


async def _writer(stream: Any) -> ToClient:
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):

        async def write(line: bytes) -> None:
            stream.buffer.write(line)
            stream.buffer.flush()

        return write
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, _copy(stream, "wb"))
    return _sender(asyncio.StreamWriter(transport, protocol, None, loop))


def _sender(writer: asyncio.StreamWriter) -> ToClient:
    async def send(line: bytes) -> None:
        writer.write(line)
        await writer.drain()

    return send
