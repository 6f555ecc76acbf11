"""In front of an MCP server: the client starts this instead of the server, and nothing else changes."""

import asyncio
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.adapters.mcp_proxy import Manner, Proxy, Send
from assent.assemble import errands_for, keys_for
from assent.cli.session import settings_of
from assent.engine.errands import Notebook
from assent.errors import SettingsError
from assent.settings import Settings

app = typer.Typer(rich_markup_mode="rich")

AGENT = "mcp"
_LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""
_LEAVE_SECONDS = 5.0
"""How long a server whose client has left may take to end what is under way."""


@app.command()
def mcp(
    ctx: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The server, as the client would start it.")
    ],
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
) -> None:  # fmt: skip
    """Stand in front of an MCP server: its tools run when they may.

    Everything is relayed; calls of tools are judged first. With ASSENT_SERVER and ASSENT_TOKEN a server is asked, else
    the database of this machine.

    Example: assent mcp -- npx -y @modelcontextprotocol/server-filesystem /srv/files
    """
    settings = settings_of(ctx)
    manner = Manner(name or Path(command[0]).name, trusted, wait)
    raise typer.Exit(asyncio.run(_serve(settings, manner, agent, command)))


async def _serve(settings: Settings, manner: Manner, agent: str, command: list[str]) -> int:
    async with errands_for(settings, agent) as errands:
        try:
            server = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=_LONGEST)
        except OSError as problem:
            raise SettingsError(f"the MCP server could not be started: {problem}") from None
        assert server.stdin is not None  # noqa: S101  they were asked for
        assert server.stdout is not None  # noqa: S101
        notebook = Notebook(keys_for(settings).directory / "mcp", f"{settings.workspace}\0{agent}\0{manner.server}")
        proxy = Proxy(errands, notebook, manner, await _writer(sys.stdout), _sender(server.stdin))
        client = await _reader(sys.stdin)
        loop = asyncio.get_running_loop()
        ends = [
            asyncio.create_task(_relayed(client, proxy.from_client)),
            asyncio.create_task(_relayed(server.stdout, proxy.from_server)),
        ]
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ends[0].cancel)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not ends[1].done():
                await _left(server, proxy, ends[1])
        finally:
            await proxy.close()
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            with suppress(ProcessLookupError):
                server.terminate()
            code = await server.wait()
    return max(code, 0)


async def _left(server: Process, proxy: Proxy, rest: asyncio.Task[None]) -> None:
    """The client is gone: what is held does not run, and what is under way may end, so that it is on record."""
    await proxy.close()
    assert server.stdin is not None  # noqa: S101
    server.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEAVE_SECONDS):
            await asyncio.shield(rest)


async def _relayed(reader: asyncio.StreamReader, take: Callable[[bytes], Awaitable[None]]) -> None:
    while line := await reader.readline():
        if line.strip():
            await take(line if line.endswith(b"\n") else line + b"\n")


async def _reader(stream: Any) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=_LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _copy(stream, "rb"))
    return reader


def _copy(stream: Any, mode: str) -> Any:
    """The same stream, to be closed without the process's own."""
    return os.fdopen(os.dup(stream.fileno()), mode, buffering=0)


async def _writer(stream: Any) -> Send:
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):

        async def write(line: bytes) -> None:
            stream.buffer.write(line)
            stream.buffer.flush()

        return write
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, _copy(stream, "wb"))
    return _sender(asyncio.StreamWriter(transport, protocol, None, loop))


def _sender(writer: asyncio.StreamWriter) -> Send:
    async def send(line: bytes) -> None:
        writer.write(line)
        await writer.drain()

    return send
