"""A place for tests of what stands in front of MCP servers: servers, clients, and the desk of whoever decides."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp_types
from mcp import Client, StdioServerParameters
from mcp.shared.message import SessionMessage

from assentry.adapters.mcp_proxy.held import Manner
from assentry.adapters.mcp_proxy.link import Link, linked
from assentry.adapters.mcp_proxy.logins import Logins
from assentry.adapters.mcp_proxy.servers import Server
from assentry.assemble import errands_for, keys_for
from assentry.engine.errands import Notebook
from assentry.settings import load
from tests.stage import PATIENCE, Stage

SERVER, PLAIN = (Path(__file__).parent / name for name in ("mcp_server.py", "mcp_plain.py"))


@dataclass
class Place(Stage):
    """A server behind the proxy, its ledger, and the desk of whoever decides."""

    folder: Path = Path()

    @property
    def ledger(self) -> list[str]:
        file = self.folder / "ledger"
        return file.read_text().splitlines() if file.exists() else []

    def command(self, words: str = "Deletes files for good.", *more: str) -> list[str]:
        """The small server, as a client would start it."""
        return [sys.executable, str(SERVER), str(self.folder / "ledger"), words, *more]

    def plain(self, name: str = "files") -> Server:
        """One that is there at once."""
        return Server(name, (sys.executable, str(PLAIN), str(self.folder / "ledger")))

    def proxy(self, *options: str) -> list[str]:
        """`assentry mcp` with these options, as a client would start it."""
        return [sys.executable, "-m", "assentry", "--database", self.database, "mcp", *options]

    def stdio(self, command: list[str], **env: str) -> StdioServerParameters:
        return StdioServerParameters(
            command=command[0], args=command[1:], env={**os.environ, **env}, cwd=str(self.folder)
        )

    @asynccontextmanager
    async def client(
        self, *options: str, words: str = "Deletes files for good.", mode: str = "auto"
    ) -> AsyncIterator[Client]:
        """The official client, which has started the proxy in a process of its own."""
        command = self.proxy("--name", "files", *options, "--", *self.command(words))
        async with Client(self.stdio(command), mode=mode) as made:  # type: ignore[arg-type]
            yield made

    @asynccontextmanager
    async def link(self, server: Server, manner: Manner | None = None, far: str = "") -> AsyncIterator["Wire"]:
        """The proxy in this process, spoken to in messages; `far` is where it proposes, if not on the database."""
        settings, wire = load({"database": self.database, **({"server": far} if far else {})}), Wire()
        async with errands_for(settings, "mcp") as errands:
            notebook = Notebook(keys_for(settings).directory / "mcp", f"default\0mcp\0{server.name}")
            manner = manner or Manner(server.name, server.trusted)
            logins = Logins(keys_for(settings).directory / "mcp", keys_for(settings))
            link = wire.link = await linked(server, errands, notebook, manner, wire.hear, logins)
            listening = asyncio.create_task(link.listen())
            try:
                yield wire
                await link.leave()
            finally:
                await link.close()
                listening.cancel()

    @asynccontextmanager
    async def inside(
        self, server: Server, manner: Manner | None = None, mode: str = "auto", far: str = "", **more: Any
    ) -> AsyncIterator[Client]:
        """The official client, with the proxy in this process."""
        async with self.link(server, manner, far) as wire, Client(wire.transport(), mode=mode, **more) as made:  # type: ignore[arg-type]
            yield made


@dataclass
class Wire:
    """What a client says and hears, message by message."""

    heard: list[dict[str, Any]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    link: Link | None = None

    async def hear(self, line: bytes) -> None:
        self.heard.append(json.loads(line))
        self.news.set()

    async def say(self, **message: Any) -> None:
        assert self.link is not None
        await self.link.proxy.from_client(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def answer(self, number: Any) -> dict[str, Any]:
        """The answer to the message with this id."""
        return await self.until(lambda each: each.get("id") == number and "method" not in each)

    async def until(self, fits: Any) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                self.news.clear()
                for each in self.heard:
                    if fits(each):
                        return each
                await self.news.wait()

    async def hello(self, **capabilities: Any) -> None:
        """Hands are shaken, as before 2026-07-28."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
        await self.say(id="hello", method="initialize", params=params)
        assert "result" in await self.answer("hello")
        await self.say(method="notifications/initialized")

    async def call(self, number: Any, tool: str, **args: Any) -> None:
        await self.say(id=number, method="tools/call", params={"name": tool, "arguments": args})

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """For the official client: its streams end here."""
        to_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](100)
        write, from_client = anyio.create_memory_object_stream[SessionMessage](100)
        assert self.link is not None

        async def out() -> None:
            async for said in from_client:
                text = said.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self.link.proxy.from_client(text.encode())  # type: ignore[union-attr]

        async def hear(line: bytes) -> None:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            await to_client.send(SessionMessage(message))

        self.link.proxy._to_client = hear
        task = asyncio.create_task(out())
        try:
            yield read, write
        finally:
            task.cancel()
            for stream in (to_client, read, write, from_client):
                stream.close()


@asynccontextmanager
async def serving(place: Place, *more: str, port: int = 0) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The small server at an address, in a process of its own."""
    port = port or free_port()
    command = place.command("Deletes files for good.", str(port), *more)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
            while True:
                try:
                    await client.get(url)
                    break
                except httpx.TransportError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
        yield url, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def text(result: Any) -> str:
    return "\n".join(part.text for part in result.content)
