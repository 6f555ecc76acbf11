"""What a client hears of a held call, for however long, and whatever it answers."""

import asyncio
import os
import signal
import sys
from typing import Any

import httpx
import mcp_types
import pytest
from mcp import Client

from assentry.adapters.mcp_proxy import held
from assentry.adapters.mcp_proxy.held import Held, Manner
from assentry.adapters.mcp_proxy.servers import Server
from assentry.adapters.mcp_proxy.wire import CAPABILITIES, VERSION
from assentry.assemble import keys_for
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.engine.errands import Notebook
from assentry.engine.identity import Identities
from assentry.server.serving import Address, standing
from assentry.settings import load
from tests.adapters.mcp_place import Place, Wire, text
from tests.stage import PATIENCE

CARDS = "https://assentry.example"


def server(one: Place) -> Server:
    return Server("files", tuple(one.command()))


def manner(how: Held, patience: float | None = None, cards: str = CARDS) -> Manner:
    return Manner("files", patience=patience, held=how, cards=cards)


@pytest.mark.parametrize("answer", ["accept", "decline", "cancel"])
async def test_a_client_that_can_is_shown_the_card_and_its_answer_decides_nothing(one: Place, answer: str) -> None:
    async with one.link(one.plain(), manner(Held.ELICIT)) as wire:
        await wire.hello(elicitation={"url": {}})
        await wire.call(1, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        asked = await wire.until(lambda each: each.get("method") == "elicitation/create")
        assert asked["params"]["mode"] == "url"
        assert asked["params"]["url"] == f"{CARDS}/r/{request.code}"
        await wire.say(id=asked["id"], result={"action": answer})
        await wire.say(id=2, method="ping")
        await wire.answer(2)
        assert (await one.in_state(request, State.PENDING)).votes == ()
        assert one.ledger == []
        await one.approve(request)
        assert "deleted 1" in str(await wire.answer(1))
        done = await wire.until(lambda each: each.get("method") == "notifications/elicitation/complete")
        assert done["params"]["elicitationId"] == asked["params"]["elicitationId"]


ECHO = """
import json, sys

for line in sys.stdin:
    said = json.loads(line)
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}, "tools": []}
    answer = {"id": said.get("id"), "result": result} if "method" in said else {"method": "heard", "params": said}
    if "id" in said:
        print(json.dumps({"jsonrpc": "2.0", **answer}), flush=True)
"""


async def test_what_a_client_answers_to_us_does_not_reach_the_server(one: Place) -> None:
    async with one.link(Server("echo", (sys.executable, "-c", ECHO)), manner(Held.ELICIT)) as wire:
        await wire.hello(elicitation={"url": {}})
        await wire.call(1, "delete_files", paths=["/a"])
        asked = await wire.until(lambda each: each.get("method") == "elicitation/create")
        await wire.say(id=asked["id"], result={"action": "accept"})
        await wire.say(id=7, result={"roots": []})  # what the server asked itself does
        heard = await wire.until(lambda each: each.get("method") == "heard")
        assert heard["params"]["id"] == 7


@pytest.mark.parametrize(("can", "cards"), [({}, CARDS), ({"form": {}}, CARDS), ({"url": {}}, "")])
async def test_a_client_that_cannot_is_asked_nothing_and_waits(one: Place, can: Any, cards: str) -> None:
    async with one.link(one.plain(), manner(Held.ELICIT, cards=cards)) as wire:
        await wire.hello(elicitation=can)
        await wire.call(1, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
        await one.approve(request)
        assert "deleted 1" in str(await wire.answer(1))
        assert not [each for each in wire.heard if "elicitation" in each.get("method", "")]


async def test_a_client_that_makes_calls_again_itself_is_told_what_is_missing(one: Place) -> None:
    opened: list[str] = []

    async def shown(_: Any, params: mcp_types.ElicitRequestURLParams) -> mcp_types.ElicitResult:
        opened.append(params.url)
        (request,) = await one.waiting()
        assert request.code in params.url
        assert one.ledger == []
        task.append(asyncio.create_task(one.approve(request)))
        return mcp_types.ElicitResult(action="accept")

    task: list[asyncio.Task[None]] = []
    more: dict[str, Any] = {"elicitation_callback": shown, "input_required_max_rounds": 1}
    async with one.inside(server(one), manner(Held.INPUT), **more) as client:
        assert text(await client.call_tool("delete_files", {"paths": ["/a"]})) == "deleted 1"
        await task[0]
    assert len(opened) == 1
    assert one.ledger == ["/a"]


async def test_the_call_that_it_makes_again_waits(one: Place) -> None:
    async with one.link(Server("echo", (sys.executable, "-c", ECHO)), manner(Held.INPUT)) as wire:
        meta = {VERSION: "2026-07-28", CAPABILITIES: {}, "progressToken": "p"}
        params = {"name": "delete_files", "arguments": {"paths": ["/a"]}, "_meta": meta}
        await wire.say(id=1, method="tools/call", params=params)
        first = (await wire.answer(1))["result"]
        assert first["resultType"] == "input_required"
        assert "inputRequests" not in first  # it did not say that it can show a card
        await wire.say(id=2, method="tools/call", params={**params, "requestState": first["requestState"]})
        await wire.until(lambda each: each.get("method") == "notifications/progress")
        (request,) = await one.waiting()
        await one.approve(request)
        assert (await wire.answer(2))["result"]["protocolVersion"]  # whatever is asked, it says the same


async def test_told_what_is_missing_it_may_ask_as_often_as_it_likes_and_the_state_decides_nothing(one: Place) -> None:
    async with one.inside(server(one), manner(Held.INPUT, 0)) as client:

        async def ask(state: str | None) -> Any:
            return await client.session.call_tool(
                "delete_files", {"paths": ["/a"]}, request_state=state, allow_input_required=True
            )

        first = await ask(None)
        (request,) = await one.waiting()
        assert first.result_type == "input_required"
        for state in (first.request_state, "assentry:approved", f"assentry:{request.id}"):
            assert (await ask(state)).result_type == "input_required"
        assert len(await one.waiting()) == 1
        assert one.ledger == []
        await one.approve(request)
        assert text(await ask(first.request_state)) == "deleted 1"
    assert one.ledger == ["/a"]


async def test_a_call_that_is_held_for_ten_minutes_completes(one: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, ahead, real = asyncio.get_running_loop(), 0.0, asyncio.get_running_loop().time
    monkeypatch.setattr(loop, "time", lambda: real() + ahead)
    async with one.link(one.plain()) as wire:
        await wire.hello()
        params = {"name": "delete_files", "arguments": {"paths": ["/a"]}, "_meta": {"progressToken": "p"}}
        await wire.say(id=1, method="tools/call", params=params)
        (request,) = await one.waiting()

        def progress() -> list[Any]:
            return [each["params"]["progress"] for each in wire.heard if "progress" in each.get("method", "")]

        while ahead < 600:
            heard = len(progress())
            ahead += held.PROGRESS_SECONDS
            await _until(wire, lambda heard=heard: len(progress()) > heard)
        assert len(progress()) >= 600 / held.PROGRESS_SECONDS
        assert progress() == sorted(set(progress()))
        await one.approve(request)
        assert "deleted 1" in str(await wire.answer(1))
    assert one.ledger == ["/a"]


async def _until(wire: Wire, holds: Any) -> None:
    while not holds():
        wire.news.clear()
        await wire.news.wait()


async def test_the_proxy_is_killed_while_it_holds_and_the_next_one_finds_the_request(place: Place) -> None:
    pids: list[int] = []
    command = place.proxy("--name", "files", "--", *place.command())
    told = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(place.folder / "pid"), *command]
    with pytest.raises(Exception) as ended:  # noqa: PT012  the client's own end is what breaks
        async with Client(place.stdio(told)) as client:
            call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
            (request,) = await place.waiting()
            pids.append(int((place.folder / "pid").read_text()))
            os.kill(pids[0], signal.SIGKILL)
            await call
    assert ended.value
    await place.in_state(request, State.PENDING)
    assert place.ledger == []
    async with place.client() as client:
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
        await place.approve(request)
        assert text(await call) == "deleted 1"
        await place.in_state(request, State.DONE)
        again = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
        (other,) = await place.waiting()  # what was approved has been used up
        assert other.id != request.id
        await place.desk.inbox.deny(place.desk.person(), other.id, "once is enough")
        assert "once is enough" in text(await again)
    assert place.ledger == ["/a"]


@pytest.mark.parametrize("noted", [True, False])
async def test_a_client_that_leaves_and_comes_back_finds_its_request(one: Place, noted: bool) -> None:
    async with one.link(one.plain()) as wire:
        await wire.hello()
        await wire.call(1, "delete_files", paths=["/a"])
        (request,) = await one.waiting()
    if not noted:  # as when it was killed before it could note down what it had asked
        with Notebook(keys_for(load()).directory / "mcp", "default\0mcp\0files").opened() as book:
            assert book.asked.pop(next(iter(book.asked)))
    await one.approve(request)
    assert one.ledger == []
    async with one.link(one.plain()) as wire:
        await wire.hello()
        await wire.call(1, "delete_files", paths=["/a"])
        assert "deleted 1" in str(await wire.answer(1))
    await one.in_state(request, State.DONE)
    assert one.ledger == ["/a"]


async def test_with_a_server_the_card_that_is_shown_is_there_and_the_decision_there_counts(one: Place) -> None:
    settings, opened = load({"database": one.database}), []

    async def shown(_: Any, params: mcp_types.ElicitRequestURLParams) -> mcp_types.ElicitResult:
        opened.append(params.url)
        return mcp_types.ElicitResult(action="accept")

    async with standing(settings, Address(port=0)) as place:
        _, token = await Identities(one.desk.store, "default").give_token(Principal("root"), "mcp")
        words = ["--server", place.url, "mcp", "--name", "files", "--held", "elicit", "--", *one.command()]
        where = one.stdio([sys.executable, "-m", "assentry", *words], ASSENTRY_TOKEN=token)
        async with Client(where, mode="legacy", elicitation_callback=shown) as client:
            gates = {tool.name: (tool.meta or {})["assentry/gate"] for tool in (await client.list_tools()).tools}
            assert gates["list_files"] == "watch"  # nobody vouches for the server
            assert gates["delete_files"] == "hard"
            assert "a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))
            call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
            (request,) = await one.waiting()
            async with asyncio.timeout(PATIENCE):
                while not opened:
                    await asyncio.sleep(0.02)
            assert opened == [f"{place.url}/r/{request.code}"]
            async with httpx.AsyncClient() as browser:  # nobody is logged in: it leads to the door
                assert (await browser.get(opened[0])).status_code in (200, 303)
            assert one.ledger == []
            await one.approve(request)
            assert text(await call) == "deleted 1"
        await one.in_state(request, State.DONE)
    assert one.ledger == ["/a"]


CURIOUS = """
import json, sys

for line in sys.stdin:
    said = json.loads(line)
    params = said.get("params", {})
    if said["method"] == "tools/list":
        result = {"tools": [{"name": "delete", "inputSchema": {"type": "object"}}]}
    elif "inputResponses" not in params:
        result = {"resultType": "input_required", "requestState": "s1", "inputRequests": {"sure": {}}}
    else:
        result = {"resultType": "complete", "content": [{"type": "text", "text": str(params["inputResponses"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


async def test_a_server_that_wants_to_know_more_goes_on_with_the_call_that_was_allowed_once(one: Place) -> None:
    async with one.link(Server("curious", (sys.executable, "-c", CURIOUS))) as wire:
        params = {"name": "delete", "arguments": {"path": "/a"}, "_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}}
        await wire.say(id=1, method="tools/call", params=params)
        (request,) = await one.waiting()
        await one.approve(request)
        assert (await wire.answer(1))["result"]["requestState"] == "s1"
        await one.in_state(request, State.RUNNING)
        more = {**params, "requestState": "s1", "inputResponses": {"sure": {"action": "accept"}}}
        other = {**more, "arguments": {"path": "/b"}}
        await wire.say(id=2, method="tools/call", params=other)  # another call does not go on with it
        (held_back,) = await one.waiting()
        assert held_back.id != request.id
        await wire.say(id=3, method="tools/call", params=more)
        assert "accept" in str(await wire.answer(3))
        await one.in_state(request, State.DONE)
        await wire.say(id=4, method="tools/call", params=more)  # nor does it go on twice
        assert len(await one.waiting(2)) == 2
