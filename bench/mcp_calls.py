"""Calls of a tool that only reads, by the official client: straight to a server, and through what stands before it."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from bench.tasks import serve

HERE = str(Path(__file__).absolute())
SERVER = [sys.executable, HERE, "server"]


def server() -> None:
    """A server with one tool, on standard input and output."""
    made = MCPServer("weather")

    @made.tool(annotations=ToolAnnotations(read_only_hint=True))
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return city

    made.run("stdio")


async def fastmcp(shared: bool) -> None:
    """What fastmcp has to stand before it: with a session for each call, as it does by itself, or with one for all."""
    from fastmcp import Client as TheirClient
    from fastmcp.client.transports import StdioTransport
    from fastmcp.server import create_proxy

    target = StdioTransport(SERVER[0], SERVER[1:], env=dict(os.environ))
    if not shared:
        return await create_proxy(target, name="weather").run_async("stdio", show_banner=False)
    async with TheirClient(target) as client:
        return await create_proxy(client, name="weather").run_async("stdio", show_banner=False)


def command(way: str) -> list[str]:
    match way:
        case "direct":
            return SERVER
        case "ours":
            assentry = [
                sys.executable,
                "-m",
                "assentry",
                "--database",
                "mcp.db",
                "mcp",
                "--name",
                "weather",
                "--trusted",
            ]
            return [*assentry, "--", *SERVER]
        case _:
            return [sys.executable, HERE, way]


class Ways:
    """A client for each way, opened once."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clients: dict[str, Client] = {}
        self.leave = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def opened(self, way: str) -> Client:
        if way not in self.clients:
            ready = asyncio.Event()

            async def stay() -> None:
                made = command(way)
                where = StdioServerParameters(command=made[0], args=made[1:], env=dict(os.environ))
                async with Client(where) as client:
                    await client.list_tools()
                    self.clients[way] = client
                    ready.set()
                    await self.leave.wait()

            self.tasks.append(asyncio.create_task(stay()))
            await ready.wait()
        return self.clients[way]

    def one_by_one(self, way: str, calls: int) -> float:
        """Seconds per call, one after the other."""

        async def measured() -> float:
            client = await self.opened(way)
            for number in range(20):
                await called(client, number)
            start = time.perf_counter()
            for number in range(calls):
                await called(client, number)
            return (time.perf_counter() - start) / calls

        return self.loop.run_until_complete(measured())

    def beside(self, way: str, calls: int, callers: int = 20) -> float:
        """Calls a second, so many at a time; every answer is that of its own call."""

        async def measured() -> float:
            client = await self.opened(way)
            numbers = iter(range(calls))

            async def caller() -> None:
                for number in numbers:
                    await called(client, number)

            start = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(callers)))
            return calls / (time.perf_counter() - start)

        return self.loop.run_until_complete(measured())

    def end(self) -> None:
        self.leave.set()
        self.loop.run_until_complete(asyncio.gather(*self.tasks, return_exceptions=True))


async def called(client: Client, number: int) -> None:
    result: Any = await client.call_tool("get_weather", {"city": f"city {number}"})
    if result.is_error or result.content[0].text != f"city {number}":
        raise AssertionError(f"call {number} was answered with {result.content[0].text}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server"]:
            server()
        case [("fastmcp" | "fastmcp shared") as way]:
            asyncio.run(fastmcp("shared" in way))
        case _:
            ways = Ways()
            serve({"one_by_one": ways.one_by_one, "beside": ways.beside})
            ways.end()
