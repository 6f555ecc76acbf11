"""What a server or a client may do wrong, by mistake or on purpose: nothing runs that nobody allowed, and nothing ends."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from assentry.adapters.mcp_proxy.held import Held, Manner
from assentry.adapters.mcp_proxy.servers import Server
from assentry.core.request import State
from assentry.ports import Filter
from tests.adapters.mcp_place import Place, Wire
from tests.stage import PATIENCE

pytestmark = pytest.mark.proof

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


ODD_ANSWERS = {
    "nan": '{"isError": true, "content": [], "x": NaN}',
    "half a pair, wrong": '{"isError": true, "content": [{"type": "text", "text": "\\ud800"}]}',
    "half a pair": '{"content": [{"type": "text", "text": "\\ud800"}]}',
    "infinite": '{"content": [], "x": 1e999}',
}


@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
async def test_an_answer_that_cannot_be_kept_ends_its_request_and_nothing_else(one: Place, answer: str) -> None:
    said = f'{{"jsonrpc": "2.0", "id": 1, "result": {answer}}}'
    file = config(one, bad=odd(one, f"def called(_): out({said!r})"), good=odd(one))
    async with started(one, "--config", file) as wire:
        await wire.call(1, "bad__delete_files", paths=["/a"])
        (request,) = await one.waiting()
        await one.approve(request)
        assert "result" in await wire.answer(1)
        await one.in_state(request, State.FAILED if "isError" in answer else State.DONE)
        await wire.call(2, "good__list_files")
        assert "done" in str(await wire.answer(2))


@pytest.mark.parametrize(
    "code",
    [
        'TOOLS[1]["description"] = "Deletes \\ud800 files"',
        'out(\'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\\\\ud800"}}\')',
        'TOOLS[1]["inputSchema"] = {"type": 5, "$ref": "http://x.invalid/", "properties": [1], "x": "\\ud800"}',
        "out('[]'); out('7'); out('[[1]]')",
    ],
)
async def test_whatever_a_server_says_the_others_go_on(one: Place, code: str) -> None:
    async with started(one, "--held", "ticket", "--config", config(one, bad=odd(one, code), good=odd(one))) as wire:
        await wire.say(id="list", method="tools/list", params={})
        assert "good__delete_files" in str(await wire.answer("list"))
        await wire.call(1, "bad__delete_files", paths=["/a"])
        await wire.answer(1)
        await wire.call(2, "good__list_files")
        assert "done" in str(await wire.answer(2))


@pytest.mark.parametrize("several", [True, False])
async def test_half_a_pair_of_the_client_ends_nothing(one: Place, several: bool) -> None:
    options = ["--config", config(one, good=odd(one))] if several else ["--", *odd(one).command]
    before = "good__" if several else ""
    async with started(one, *options) as wire:
        params = {"name": f"{before}x", "arguments": {"a": "\ud800"}}
        await wire.say(id=1, method="prompts/get", params=params)
        await wire.answer(1)
        await wire.call(2, f"{before}delete_files", paths=["\ud800"])
        assert "did not run" in str(await wire.answer(2))
        await wire.say(id="\ud800", method="tools/call", params=[])
        await wire.call(3, f"{before}list_files")
        assert "done" in str(await wire.answer(3))


async def test_a_call_that_cannot_be_sent_is_on_record_as_failed(one: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with one.link(odd(one)) as wire:
        await wire.hello()
        await wire.call(1, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        assert wire.link is not None
        proxy = wire.link.proxy

        async def fails(_: Any) -> None:
            raise ValueError

        monkeypatch.setattr(proxy, "_to_server", fails)
        await one.approve(request)
        assert "did not run" in str(await wire.answer(1))
        await one.in_state(request, State.FAILED)
        async with asyncio.timeout(PATIENCE):
            while proxy._tasks:  # nothing is renewed
                await asyncio.sleep(0.02)
    assert one.ledger == []


async def test_a_second_call_with_the_same_id_is_refused(one: Place) -> None:
    async with one.link(odd(one, "def called(_): pass")) as wire:
        await wire.hello()
        await wire.call(1, "delete_files", paths=["/a"])
        await wire.call(1, "delete_files", paths=["/b"])
        assert "another call" in str(await wire.answer(1))
        (request,) = await one.waiting()
        await one.approve(request)
        await one.in_state(request, State.RUNNING)
        await wire.call(1.0, "delete_files", paths=["/c"])
        await asyncio.sleep(0.2)
        assert len([each for each in wire.heard if "another call" in str(each)]) == 2
        assert not (await one.desk.inbox.page(Filter(states=(State.PENDING,)))).requests


FORGER = """
def forged():
    time.sleep(1)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "forged"}]}}
    for said in ([answer], [[answer]], {**answer, "id": 1.0}, {**answer, "id": "1"}, {**answer, "id": True},
                 {**answer, "method": "x"}):
        out(said)
    out({"jsonrpc": "2.0", "method": "over"})
    out([{"jsonrpc": "2.0", "method": "in a list"}])
threading.Thread(target=forged, daemon=True).start()
"""


@pytest.mark.parametrize("several", [True, False])
async def test_no_server_answers_a_call_that_it_was_not_sent(one: Place, several: bool) -> None:
    bad = odd(one, FORGER)
    options = ["--config", config(one, bad=bad, good=odd(one))] if several else ["--", *bad.command]
    async with started(one, *options) as wire:
        await wire.call(1, "good__delete_files" if several else "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        await wire.until(lambda each: each.get("method") == "in a list")
        assert "forged" not in str(wire.heard)
        await one.approve(request)
        assert "done" in str(await wire.answer(1))


async def test_a_tool_that_is_no_longer_listed_is_held(one: Place) -> None:
    code = """
def called(said):
    TOOLS[:] = TOOLS[1:]
    out({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    done(said["id"], {"content": [{"type": "text", "text": "done"}]})
"""
    async with one.link(odd(one, code), Manner("files", held=Held.TICKET)) as wire:
        await wire.hello()
        await wire.call(1, "list_files")
        assert "done" in str(await wire.answer(1))
        await wire.say(id=2, method="ping")
        await wire.answer(2)
        await wire.call(3, "list_files")
        assert "waits for a person" in str(await wire.answer(3))
    assert len(one.ledger) == 1


async def test_what_was_not_shown_does_not_reach_the_server(one: Place) -> None:
    async with one.link(odd(one)) as wire:
        await wire.hello()
        kept = {"name": "delete_files", "arguments": {"paths": ["/a"]}}
        more = {"force": True, "requestState": "s", "inputResponses": {"x": 1}}
        await wire.say(
            id=1, method="tools/call", params={**kept, **more, "_meta": {"tenant": "production", "progressToken": 5}}
        )
        (request,) = await one.waiting()
        await one.approve(request)
        await wire.answer(1)
    assert json.loads(one.ledger[0]) == {**kept, "_meta": {"progressToken": 5}}


def asks(result: str) -> str:
    return f"def called(said): done(said['id'], {{'resultType': 'input_required', **{result}}})"


ROUND = {"name": "delete_files", "arguments": {"paths": ["/a"]}, "requestState": "s"}


async def test_a_server_that_always_wants_to_know_more_is_asked_a_few_times(one: Place) -> None:
    async with one.link(odd(one, asks("{'requestState': 's', 'inputRequests': {'sure': {}}}"))) as wire:
        await wire.hello()
        await wire.call(0, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        await one.approve(request)
        await wire.answer(0)
        for number in range(1, 6):
            await wire.say(
                id=number, method="tools/call", params={**ROUND, "inputResponses": {"sure": {"action": "accept"}}}
            )
            answer = await wire.answer(number)
        assert "too often" in str(answer)
        await one.in_state(request, State.FAILED)
    assert len(one.ledger) == 6


async def test_without_a_state_a_call_does_not_go_on(one: Place) -> None:
    async with one.link(odd(one, asks("{'inputRequests': {}}"))) as wire:
        await wire.hello()
        await wire.call(0, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        await one.approve(request)
        assert "without a state" in str(await wire.answer(0))
        await one.in_state(request, State.FAILED)


@pytest.mark.parametrize(
    "answers", [{"sure": {"action": "accept", "content": {"also": "/b"}}}, {"other": {"action": "accept"}}]
)
async def test_answers_that_say_something_new_are_seen_by_a_person(one: Place, answers: Any) -> None:
    server = odd(one, asks("{'requestState': 's', 'inputRequests': {'sure': {}}}"))
    async with one.link(server, Manner("files", held=Held.TICKET)) as wire:
        await wire.hello()
        await wire.call(0, "delete_files", paths=["/a"])
        await wire.answer(0)
        (request,) = await one.waiting()
        await one.approve(request)
        await wire.call(1, "delete_files", paths=["/a"])
        await wire.answer(1)
        params = {**ROUND, "inputResponses": answers}
        await wire.say(id=2, method="tools/call", params=params)
        assert "waits for a person" in str(await wire.answer(2))
        (other,) = await one.waiting()
        assert other.candidate.action.args["inputResponses"] == answers
        await one.approve(other)
        await wire.say(id=3, method="tools/call", params=params)
        assert "input_required" in str(await wire.answer(3))
        await one.in_state(request, State.DONE)
    assert len(one.ledger) == 2
    assert json.loads(one.ledger[1]) == params
