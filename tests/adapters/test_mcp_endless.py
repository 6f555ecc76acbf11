"""Huge and endless answers end the call, not the proxy: what came of it is unknown, and the next call runs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from assentry.adapters.mcp_proxy import events, lines, streamable
from assentry.adapters.mcp_proxy.lines import Dropped
from assentry.adapters.mcp_proxy.servers import at
from assentry.core.request import Request, State
from assentry.engine import errands
from assentry.engine.deadlines import sweep
from tests.adapters.mcp_place import KNOWN, Place, Wire
from tests.adapters.test_mcp_faults import config, odd, started
from tests.stage import until

LONG, MOST = 256 * 1024, 1024 * 1024

HUGE = """
def called(said):
    if said["params"]["name"] == "list_files":
        return done(said["id"], {"content": [{"type": "text", "text": "done"}]})
    sys.stdout.write('%s' % json.dumps(said["id"]))
    for _ in range(SIZE):
        sys.stdout.write("a" * 65536)
    out('"}]}}')
"""
FIRST = '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"'
LAST = '{"jsonrpc":"2.0","result":{"content":[{"id":77,"type":"text"}]},"id":%s,"x":[{"y":"'
ENDLESS = """
def called(said):
    if said["params"]["name"] == "list_files":
        return done(said["id"], {"content": [{"type": "text", "text": "done"}]})
    while True:
        sys.stdout.write("a" * 65536)
"""


def huge(size: int, begin: str = FIRST) -> str:
    return HUGE.replace("%s", begin, 1).replace("SIZE", str(size))


@pytest.fixture
async def one(one: Place) -> Place:
    await one.policy(KNOWN)
    return one


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test reaches at once, and a lease that is soon over."""
    for module in (lines, events, streamable):
        monkeypatch.setattr(module, "LONGEST", LONG)
    monkeypatch.setattr(lines, "MOST_DROPPED", MOST)
    monkeypatch.setattr(streamable, "_MOST_STREAMED", MOST)
    monkeypatch.setattr(streamable, "_MOST_EVENTS", 500)
    monkeypatch.setattr(errands, "LEASE", timedelta(milliseconds=100))


async def lost(one: Place, wire: Wire, tool: str = "delete_files") -> tuple[Request, dict[str, Any]]:
    """The call was approved and begun, and this is how it was answered; nobody knows what came of it."""
    await wire.call(1, tool, paths=["/a"])
    (request,) = await one.waiting()
    await one.approve(request)
    answer = await wire.answer(1)
    assert answer["result"]["isError"] is True
    assert "not known" in str(answer)

    async def look() -> bool:
        await sweep(one.desk.store, "default")
        return (await one.now(request)).state is State.UNKNOWN

    await until(look)
    return request, answer


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("begin", [FIRST, LAST], ids=["says whose", "does not say whose"])
async def test_a_huge_answer_ends_its_call(one: Place, begin: str) -> None:
    async with one.link(odd(one, huge(8, begin))) as wire:
        await wire.hello()
        _, answer = await lost(one, wire)
        assert "larger than" in str(answer)
        await wire.call(2, "list_files")
        assert "done" in str(await wire.answer(2))


@pytest.mark.usefixtures("small")
async def test_a_huge_answer_that_says_whose_it_is_ends_no_other_call(one: Place) -> None:
    slow = huge(8) + "\nquick = called\ndef called(said):\n    if said['id'] != 5: quick(said)\n"
    async with one.link(odd(one, slow)) as wire:
        await wire.hello()
        await wire.call(5, "list_files")
        await lost(one, wire)
        assert all(each.get("id") != 5 for each in wire.heard)


@pytest.mark.usefixtures("small")
async def test_a_huge_notification_ends_no_call(one: Place) -> None:
    code = """
def called(said):
    out({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "a" * 600000}})
    done(said["id"], {"content": [{"type": "text", "text": "done"}]})
"""
    async with one.link(odd(one, code)) as wire:
        await wire.hello()
        await wire.call(1, "list_files")
        assert "done" in str(await wire.answer(1))


@pytest.mark.usefixtures("small")
async def test_an_endless_answer_ends_its_server_and_nothing_else(one: Place) -> None:
    async with one.link(odd(one, ENDLESS)) as wire:
        await wire.hello()
        _, answer = await lost(one, wire)
        assert "wrote without end and was ended" in str(answer)
        await wire.call(2, "list_files")
        said = await wire.answer(2)
        assert said["result"]["isError"] is True
        assert "so this did not run" in str(said)
        await wire.say(id=3, method="ping")
        assert "error" in await wire.answer(3)


@pytest.mark.usefixtures("small")
async def test_an_answer_that_has_no_end_in_time_ends_its_server(one: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "DROP_SECONDS", 0.1)
    stuck = huge(8).replace("""out('"}]}}')""", "sys.stdout.flush(); threading.Event().wait()")
    async with one.link(odd(one, stuck)) as wire:
        await wire.hello()
        assert "was ended" in str((await lost(one, wire))[1])


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("code", [huge(70 * 16), ENDLESS], ids=["huge", "endless"])
@pytest.mark.proof
async def test_at_full_size_the_proxy_and_the_other_servers_go_on(one: Place, code: str, several: bool) -> None:
    bad = odd(one, code)
    options = ["--config", config(one, bad=bad, good=odd(one))] if several else ["--", *bad.command]
    before = "bad__" if several else ""
    async with started(one, *options) as wire:
        await wire.call(1, f"{before}delete_files", paths=["/a"])
        (request,) = await one.waiting()
        await one.approve(request)
        assert "not known" in str(await wire.answer(1))
        await one.in_state(request, State.RUNNING, State.UNKNOWN)
        await wire.call(2, f"{before}list_files")
        assert ("done" if code != ENDLESS else "did not run") in str(await wire.answer(2))
        if several:
            await wire.call(3, "good__list_files")
            assert "done" in str(await wire.answer(3))


@pytest.mark.usefixtures("small")
async def test_a_message_of_the_client_that_is_too_long_is_answered(one: Place) -> None:
    async with one.link(odd(one)) as wire:
        assert wire.link is not None
        await wire.link.proxy.not_taken(Dropped(b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"a"'))
        assert "left out" in str(await wire.answer("x"))


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"id":8', {"jsonrpc": "2.0", "id": 7}),
        (b' { "id" : "a\\"b" , "method" : "x", "params": {', {"id": 'a"b', "method": "x"}),
        (b'{"result":{"id":8},"id":7', {}),
        (b'{"result":[{"id":8}', {}),
        (b'[{"id":7,"result":1}', {}),
        (b'{"id":7', {}),
        (b'{"id":{"id":8},', {}),
        (b"aaaa", {}),
        (b"\xff{", {}),
        (b'{"' + b"\\" * 4000, {}),
    ],
)
def test_of_a_long_line_only_what_stands_before_its_parts_is_read(head: bytes, found: dict[str, Any]) -> None:
    assert Dropped(head).members == found


async def read(*chunks: bytes) -> list[bytes | Dropped]:
    reader = asyncio.StreamReader(limit=lines.CHUNK)
    for chunk in chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    return [line async for line in lines.lines(reader)]


@pytest.mark.usefixtures("small")
async def test_lines_are_kept_up_to_their_bound() -> None:
    assert await read(b"a\nb", b"b\n", b"\nc") == [b"a\n", b"bb\n", b"\n", b"c"]
    longest, longer = b"x" * (LONG - 1) + b"\n", b"y" * LONG + b"\n"
    assert await read(longest, longer, b"z\n") == [longest, Dropped(b"y" * 4096), b"z\n"]
    assert await read(longer[:-1], b"y") == [Dropped(b"y" * 4096)]
    with pytest.raises(lines.Endless):
        await read(b"y" * (MOST + 1))


# At an address


def block(number: Any, size: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}' % (
        json.dumps(number).encode(), b"a" * size,
    )  # fmt: skip


def at_once(kind: str, body: bytes) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\nconnection: close\r\n\r\n" % kind.encode(), body]


async def wrong(mode: str, number: Any) -> AsyncIterator[bytes]:
    """How a bad server answers."""
    stream = at_once("text/event-stream", b"")[0]
    note = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n\n'
    match mode:
        case "json":
            for each in at_once("application/json", block(number, 2 * LONG)):
                yield each
        case "an event":
            yield stream
            yield b"data: " + block(number, 2 * LONG) + b"\n\n"
        case "endless":
            yield stream
            yield b"data: "
            while True:
                yield b"a" * 65536
        case "many empty lines":
            yield stream
            while True:
                yield b"data:\n" * 10_000
        case "comments":
            yield stream
            while True:
                yield b": still there\n\n" * 1000
        case "notifications":
            yield stream
            while True:
                yield note * 20
        case _:
            raise AssertionError(mode)


@asynccontextmanager
async def bad(mode: str) -> AsyncIterator[str]:
    """A server that answers one tool like this, and is fine otherwise."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
            said = json.loads(await reader.readexactly(length)) if length else {}
            number, params = said.get("id"), said.get("params") or {}
            match said.get("method"):
                case "initialize":
                    can = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
                    result: Any = can
                case "tools/list":
                    result = {"tools": [{"name": name, "inputSchema": {}} for name in ("list_files", "delete_files")]}
                case "tools/call" if params["name"] == "delete_files":
                    async for each in wrong(mode, number):
                        writer.write(each)
                        await writer.drain()
                    return
                case "tools/call":
                    result = {"content": [{"type": "text", "text": "done"}]}
                case _:
                    writer.write(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    return
            said = {"jsonrpc": "2.0", "id": number, "result": result}
            writer.writelines(at_once("application/json", json.dumps(said).encode()))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mode", ["json", "an event", "endless", "many empty lines", "comments", "notifications"])
async def test_at_an_address_it_ends_its_call_as_well(one: Place, mode: str) -> None:
    async with bad(mode) as url, one.link(at(url, [], "files")) as wire:
        await wire.hello()
        _, answer = await lost(one, wire)
        assert (
            "larger than" if mode in ("json", "an event", "endless", "many empty lines") else "without answering"
        ) in (str(answer))
        assert wire.link.upstream._room.held == 0  # type: ignore[union-attr]
        await wire.call(2, "list_files")
        assert "done" in str(await wire.answer(2))


@pytest.mark.usefixtures("small")
async def test_long_answers_that_come_at_once_are_bounded_together(one: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamable, "_MOST_AT_ONCE", LONG // 2)
    async with bad("endless") as url, one.link(at(url, [], "files")) as wire:
        await wire.hello()
        assert "too many long answers" in str((await lost(one, wire))[1])


async def test_what_goes_wrong_in_the_proxy_is_said_at_its_end(one: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from assentry.cli import mcp

    class Link:
        proxy = None

        async def listen(self) -> None:
            raise ValueError("a bug of ours")

        async def leave(self) -> None: ...

        async def close(self) -> int:
            return 0

    async def reader(_: Any) -> asyncio.StreamReader:
        return asyncio.StreamReader()

    async def take(_: Any) -> None: ...

    monkeypatch.setattr(mcp, "_reader", reader)
    assert await mcp._relayed(take, take, Link()) == 1  # type: ignore[arg-type]
