"""What a server or a client may do wrong, by mistake or on purpose: nothing runs that nobody allowed, and nothing ends."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from assent.adapters.mcp_proxy.servers import Server
from tests.adapters.mcp_place import Place, Wire

ODD = """
import json, sys, threading, time
from pathlib import Path

LEDGER, CODE, WHO = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
TOOLS = [{"name": name, "description": says, "inputSchema": {"type": "object"}} for name, says in (
    ("list_files", "Lists the files in a folder."), ("delete_files", "Deletes files for good."))]

def out(said):
    print(said if isinstance(said, str) else json.dumps(said), flush=True)

def done(number, result):
    out({"jsonrpc": "2.0", "id": number, "result": result})

def called(said):
    done(said["id"], {"content": [{"type": "text", "text": "done"}]})

exec(CODE)
for line in sys.stdin:
    said = json.loads(line)
    if "method" not in said or "id" not in said:
        continue
    match said["method"]:
        case "initialize":
            can = {"tools": {}, "prompts": {}}
            done(said["id"], {"protocolVersion": "2025-11-25", "capabilities": can, "serverInfo": {}})
        case "tools/list":
            done(said["id"], {"tools": TOOLS})
        case "tools/call":
            with LEDGER.open("a") as ledger:
                ledger.write(f"{WHO}{json.dumps(said['params'])}\\n")
            called(said)
        case _:
            done(said["id"], {})
"""


def odd(one: Place, code: str = "", who: str = "", name: str = "files") -> Server:
    """A server that does this as well."""
    return Server(name, (sys.executable, "-c", ODD, str(one.folder / "ledger"), code, who))


@asynccontextmanager
async def started(one: Place, *options: str) -> AsyncIterator[Wire]:
    """The proxy in a process of its own, greeted."""
    process = await asyncio.create_subprocess_exec(
        *one.proxy(*options), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )
    wire, reader, writer = Wire(), process.stdout, process.stdin
    assert reader is not None
    assert writer is not None

    class Far:
        """As a link, for a wire."""

        class proxy:
            @staticmethod
            async def from_client(line: bytes) -> None:
                writer.write(line)
                await writer.drain()

    async def hear() -> None:
        while line := await reader.readline():
            await wire.hear(line)

    wire.link = Far  # type: ignore[assignment]
    hearing = asyncio.create_task(hear())
    try:
        await wire.hello()
        yield wire
        assert process.returncode is None
    finally:
        hearing.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()


def config(one: Place, **servers: Server) -> str:
    file = one.folder / "servers.json"
    said = {name: {"command": each.command[0], "args": list(each.command[1:])} for name, each in servers.items()}
    file.write_text(json.dumps({"mcpServers": said}))
    return str(file)


async def claims(one: Place, request: Any) -> str:
    return str((await one.desk.inbox.brief(request.id)).claims)


async def test_what_was_approved_at_one_server_does_not_run_at_another(one: Place) -> None:
    staging, production = odd(one, who="staging "), odd(one, who="production ")
    async with started(one, "--held", "ticket", "--", *staging.command) as wire:
        await wire.call(1, "delete_files", paths=["/a"])
        await wire.answer(1)
        (request,) = await one.waiting()
        assert "staging" in await claims(one, request)
        await one.approve(request)
    async with started(one, "--held", "ticket", "--", *production.command) as wire:
        await wire.call(1, "delete_files", paths=["/a"])
        assert "waits for a person" in str(await wire.answer(1))
        (other,) = await one.waiting()
        assert other.id != request.id
        assert one.ledger == []
    async with started(one, "--held", "ticket", "--", *staging.command) as wire:
        await wire.call(1, "delete_files", paths=["/a"])
        assert "done" in str(await wire.answer(1))
    assert len(one.ledger) == 1
    assert one.ledger[0].startswith("staging")


async def test_a_card_names_the_server_that_a_file_lists(one: Place) -> None:
    async with started(one, "--held", "ticket", "--config", config(one, crm=odd(one), files=odd(one))) as wire:
        await wire.call(1, "crm__delete_files", paths=["/a"])
        await wire.answer(1)
        (request,) = await one.waiting()
        assert "the MCP server crm" in await claims(one, request)


def test_two_servers_are_the_same_only_if_all_that_makes_them_is() -> None:
    names = {"TENANT": "a"}
    servers = [
        Server("x", ("npx", "a")), Server("x", ("npx", "b")), Server("x", ("npx a",)), Server("y", ("npx", "a")),
        Server("x", ("npx", "a"), env=names), Server("x", url="https://h/a"), Server("x", url="https://h/a?b=1"),
        Server("x", url="https://h/a", headers=names),
    ]  # fmt: skip
    assert len({each.identity for each in servers}) == len(servers)
    assert Server("x", ("npx", "a")).identity == servers[0].identity


def test_what_a_card_shows_of_a_command_is_not_secret() -> None:
    told = Server("x", ("npx", "srv", "--api-key", "hunter2", "--token=hunter3", "--folder", "/srv")).place
    assert "hunter" not in told
    assert "/srv" in told
    assert "hunter" not in Server("x", url="https://hunter2:hunter3@h/a?key=hunter4").place
