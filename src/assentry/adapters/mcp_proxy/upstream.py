"""What every way to a server has in common, and the way to one that is a process of ours."""

import asyncio
import logging
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from assentry.adapters.mcp_proxy.wire import LONGEST, Message, written
from assentry.errors import SettingsError

log = logging.getLogger("assentry.mcp")

LEAVE_SECONDS = 5.0
"""How long a server whose client has left may take to end what is under way."""


class Hears(Protocol):
    """Whoever is told what a server says."""

    async def hear(self, message: Any, line: bytes) -> None: ...
    async def from_server(self, line: bytes) -> None: ...
    async def lost(self, message: Message, says: str, *, sent: bool) -> None: ...
    async def learn(self) -> None: ...


class Upstream(Protocol):
    """The way to one server."""

    async def send(self, message: Message) -> None:
        """The message is on its way."""

    async def listen(self, ear: Hears) -> None:
        """What the server says was told, until it is gone."""

    async def leave(self) -> None:
        """The client is gone; what is under way had its time to end."""

    async def close(self) -> int:
        """Nothing is left of it; how it ended, where it is a process."""


class ProcessServer:
    """A server on the standard input and output of a process that ends with us."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None  # noqa: S101  they were asked for
        assert process.stdout is not None  # noqa: S101
        self._process, self._in, self._out = process, process.stdin, process.stdout
        self._ended = asyncio.Event()

    @classmethod
    async def started(cls, name: str, command: Sequence[str], env: Mapping[str, str]) -> "ProcessServer":
        """The process runs; the error says which server does not."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, limit=LONGEST, env={**os.environ, **env}
            )
        except OSError as problem:
            raise SettingsError(f"the MCP server {name!r} could not be started: {problem}") from None
        return cls(process)

    async def send(self, message: Message) -> None:
        self._in.write(written(message))
        with suppress(ConnectionError):  # whoever listens to it hears that it has ended
            await self._in.drain()

    async def listen(self, ear: Hears) -> None:
        try:
            await relayed(self._out, ear.from_server)
        finally:
            self._ended.set()

    async def leave(self) -> None:
        self._in.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._ended.wait()

    async def close(self) -> int:
        with suppress(ProcessLookupError):
            self._process.terminate()
        return max(await self._process.wait(), 0)


async def relayed(reader: asyncio.StreamReader, take: Callable[[bytes], Awaitable[None]]) -> None:
    """Each line was taken, until there are no more."""
    while line := await reader.readline():
        if line.strip():
            try:
                await take(line if line.endswith(b"\n") else line + b"\n")
            except ConnectionError:
                raise  # whoever is to hear it is gone
            except Exception:
                log.exception("a message could not be passed on; it was left out")
