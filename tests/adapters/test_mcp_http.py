"""In front of a real MCP server at an address: as in front of a process, and when the line or the session breaks."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from assentry.adapters.mcp_proxy.servers import Server, at
from assentry.core.request import State
from tests.adapters.mcp_place import Place, free_port, serving, text
from tests.stage import PATIENCE


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("answers", ["stream", "json"])
async def test_calls_run_and_are_held_as_in_front_of_a_process(one: Place, mode: str, answers: str) -> None:
    async with serving(one, answers) as (url, _), one.inside(at(url, [], "files"), mode=mode) as client:
        assert client.session.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert "delete_files" in {tool.name for tool in (await client.list_tools()).tools}
        assert "/srv/a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))
        assert "quiet" in str(await client.read_resource("notes://today"))
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/ä"]}))
        (request,) = await one.waiting()
        assert one.ledger == []
        await one.approve(request)
        assert text(await call) == "deleted 1"
        await one.in_state(request, State.DONE)
    assert one.ledger == ["/ä"]


async def test_the_command_passes_headers_on_and_never_shows_them(
    one: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOOR", "let-me-in")
    told = tmp_path / "stderr"
    async with serving(one, "token") as (url, _):
        shell = ["sh", "-c", 'exec "$@" 2>>"$0"', str(told), *one.proxy("--url", url)]
        header = ["--header", "Authorization: Bearer ${DOOR}"]
        async with Client(one.stdio([*shell, *header]), mode="legacy") as client:
            assert "/srv/a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))
        with pytest.raises(Exception) as problem:
            async with Client(one.stdio(shell), mode="legacy"):
                pass
        assert "answered 401 (log in with assentry mcp --url … --login, or pass --header" in _all(problem.value)
    assert "let-me-in" not in told.read_text()


def _all(problem: BaseException) -> str:
    inner = problem.exceptions if isinstance(problem, BaseExceptionGroup) else ()
    return f"{problem}" + "".join(_all(each) for each in inner)


async def test_what_the_server_says_by_itself_arrives(one: Place) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(type(message).__name__)

    async with (
        serving(one) as (url, _),
        one.inside(at(url, [], "files"), mode="legacy", message_handler=hear) as client,
    ):
        async with asyncio.timeout(PATIENCE):
            while "ToolListChangedNotification" not in heard:
                assert text(await client.call_tool("list_news", {})) == "nothing"


async def test_a_server_that_has_forgotten_the_session_is_greeted_anew_and_no_call_is_repeated(one: Place) -> None:
    port = free_port()
    async with serving(one, port=port) as (url, process), one.link(at(url, [], "files")) as wire:
        await wire.hello()
        await wire.call(1, "list_files", folder="/srv")
        assert "a.txt" in str(await wire.answer(1))
        await wire.call(2, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        process.kill()
        await process.wait()
        async with serving(one, port=port):
            await one.approve(request)
            said = str(await wire.answer(2))
            assert "had ended its session, so this did not run. There is a new one" in said
            assert (await one.in_state(request, State.FAILED)).error
            await wire.say(id=3, method="tools/list")
            assert "delete_files" in str(await wire.answer(3))
            await wire.call(4, "list_files", folder="/srv")
            assert "a.txt" in str(await wire.answer(4))
    assert one.ledger == []


async def test_a_server_that_is_not_there_is_told_to_the_model(one: Place) -> None:
    async with serving(one) as (url, process), one.link(at(url, [], "files")) as wire:
        await wire.hello()
        await wire.call(1, "list_files", folder="/srv")
        await wire.answer(1)
        await wire.call(2, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        process.kill()
        await process.wait()
        await one.approve(request)
        result = (await wire.answer(2))["result"]
        assert result["isError"]
        assert "could not be reached" in str(result)
        assert "so this did not run" in str(result)
        await one.in_state(request, State.FAILED)


async def test_a_server_that_dies_in_the_middle_leaves_an_outcome_that_nobody_knows(one: Place) -> None:
    async with serving(one) as (url, process), one.link(at(url, [], "files")) as wire:
        await wire.hello()
        await wire.call(1, "delete_slowly", path="/a")
        (request,) = await one.waiting()
        await one.approve(request)
        async with asyncio.timeout(PATIENCE):
            while one.ledger != ["/a"]:
                await asyncio.sleep(0.02)
        process.kill()
        result = (await wire.answer(1))["result"]
        assert result["isError"]
        assert "Whether this was carried out is not known" in str(result)
        assert request.code in str(result)
        await one.in_state(request, State.RUNNING)  # until its lease is over: then unknown


class Breaking:
    """A server that breaks off in the middle of its answer, and may go on with it when it is asked to."""

    def __init__(self, goes_on: bool) -> None:
        self.goes_on, self.calls = goes_on, 0
        self.server: asyncio.Server | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(re.findall(r"content-length: (\d+)", head)[0]) if "content-length" in head else 0
        said = json.loads(await reader.readexactly(length)) if length else {}
        tool = {"name": "delete", "inputSchema": {"type": "object"}}
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": [tool]},
        }
        kind, body = "application/json", ""
        if (method := said.get("method")) in results:
            body = json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": results[method]})
        elif method == "tools/call":
            self.calls += 1
            self.number = said["id"]
            kind, body = "text/event-stream", "id: 7\nretry: 1\ndata:\n\ndata: {half"
            if not self.goes_on and self.server is not None:
                self.server.close()
        elif "last-event-id: 7" in head:
            result = {"content": [{"type": "text", "text": "went on"}]}
            answer = json.dumps({"jsonrpc": "2.0", "id": self.number, "result": result}, indent=1)
            lines = "".join(f"data: {line}\r\n" for line in answer.splitlines())
            kind, body = "text/event-stream", f"event: message\r\n{lines}\r\n"
        status = "200 OK" if body else "405 No" if head.startswith("get") else "202 Accepted"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()


@pytest.mark.parametrize("goes_on", [True, False])
async def test_an_answer_that_breaks_off_is_asked_for_again_and_else_nobody_knows(one: Place, goes_on: bool) -> None:
    far = Breaking(goes_on)
    far.server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{far.server.sockets[0].getsockname()[1]}/mcp"
    async with one.link(at(url, [], "files")) as wire:
        await wire.hello()
        await wire.call(1, "delete", path="/a")
        (request,) = await one.waiting()
        await one.approve(request)
        said = str(await wire.answer(1))
        assert ("went on" in said) is goes_on
        assert ("is not known" in said) is not goes_on
        await one.in_state(request, State.DONE if goes_on else State.RUNNING)
    assert far.calls == 1
    far.server.close()


@pytest.mark.parametrize(("status", "ran"), [(303, None), (400, None), (409, None), (429, None), (403, False)])
async def test_a_status_after_which_the_server_may_have_acted_leaves_the_outcome_open(
    one: Place, status: int, ran: bool | None
) -> None:
    class Turning(Breaking):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            write = writer.write
            if self.calls == 0:
                writer.write = lambda data: write(  # type: ignore[method-assign]
                    f"HTTP/1.1 {status} No\r\nConnection: close\r\n\r\n".encode() if self.calls else data
                )
            await super().serve(reader, writer)

    far = Turning(goes_on=True)
    far.server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{far.server.sockets[0].getsockname()[1]}/mcp"
    async with one.link(at(url, [], "files")) as wire:
        await wire.hello()
        await wire.call(1, "delete", path="/a")
        (request,) = await one.waiting()
        await one.approve(request)
        said = str(await wire.answer(1))
        assert str(status) in said
        assert ("is not known" in said) is (ran is None)
        assert ("did not run" in said) is (ran is False)
        await one.in_state(request, State.RUNNING if ran is None else State.FAILED)
    far.server.close()


def test_an_address_or_header_that_cannot_be_used_is_told_without_what_is_secret_in_it() -> None:
    for url, headers in (
        ("ftp://host/mcp", []),
        ("nonsense", []),
        ("https://host/mcp", ["Authorization"]),
        ("https://host/mcp", ["Authorization: Bearer s3cret\u2028x"]),
        ("https://host/mcp", ["Authorization: ${NOT_SET_HERE}"]),
    ):
        with pytest.raises(Exception, match=r"address|header|NOT_SET_HERE") as told:
            at(url, headers)
        assert "s3cret" not in str(told.value)
    assert "s3cret" not in repr(Server("a", ("run", "s3cret"), {"A": "s3cret"}, "https://u:s3cret@h/", {"B": "s3cret"}))
