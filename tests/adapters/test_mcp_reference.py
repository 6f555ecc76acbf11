"""The official reference server for files, behind the proxy, driven by the official client and by another one."""

import asyncio
import os
import shutil
import subprocess
from typing import Any

import pytest
from fastmcp import Client as OtherClient
from fastmcp.client.transports import StdioTransport
from mcp import Client

from assentry.core.request import State
from tests.adapters.mcp_place import Place, text

PACKAGE = "@modelcontextprotocol/server-filesystem@2026.8.31"


@pytest.fixture(scope="session")
def files_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The server's own script, from the registry of packages; nothing of it stays."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("the reference server needs node and npm, which are not here")
    home = tmp_path_factory.mktemp("npm")
    command = [
        npm,
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        str(home),
        PACKAGE,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the registry of packages does not answer")
    if done.returncode:
        pytest.skip(f"the reference server could not be installed: {done.stderr.strip()[-200:]}")
    return str(home / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")


@pytest.mark.proof
@pytest.mark.parametrize("who", ["the official client", "fastmcp's client"])
async def test_the_reference_server_works_behind_the_proxy(one: Place, files_server: str, who: str) -> None:
    folder = one.folder / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    command = one.proxy("--name", "files", "--trusted", "--", "node", files_server, str(folder))
    if who == "the official client":
        client: Any = Client(one.stdio(command))
    else:
        transport = StdioTransport(command[0], command[1:], dict(os.environ), str(one.folder), keep_alive=False)
        client = OtherClient(transport)
    async with client:
        listed = await client.list_tools()
        tools = {tool.name: tool for tool in getattr(listed, "tools", listed)}
        gates = {name: (tool.meta or {}).get("assentry/gate") for name, tool in tools.items()}
        assert (gates["read_text_file"], gates["list_directory"]) == ("run", "run")
        assert gates["write_file"] == "hard"
        assert "hello" in text(await client.call_tool("read_text_file", {"path": str(folder / "a.txt")}))
        assert "a.txt" in text(await client.call_tool("list_directory", {"path": str(folder)}))

        new = folder / "b.txt"
        call = asyncio.create_task(client.call_tool("write_file", {"path": str(new), "content": "from the agent"}))
        (request,) = await one.waiting()
        assert not new.exists()
        await one.approve(request)
        assert "b.txt" in text(await call)
        assert new.read_text() == "from the agent"
        await one.in_state(request, State.DONE)

        call = asyncio.create_task(_told(client, "write_file", {"path": str(new), "content": "worse"}))
        (request,) = await one.waiting()
        await one.desk.inbox.deny(one.desk.person(), request.id, "leave it as it is")
        assert "leave it as it is" in await call
        assert new.read_text() == "from the agent"


async def _told(client: Any, name: str, args: dict[str, Any]) -> str:
    """What the model is told; one of the clients raises it."""
    try:
        return text(await client.call_tool(name, args))
    except Exception as problem:
        return str(problem)
