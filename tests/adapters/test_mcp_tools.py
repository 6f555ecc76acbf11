"""What a client is told of a server's tools: the gate of each, and nothing of what the server says is lost."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from mcp import Client

from assentry.adapters.mcp_proxy.held import Manner
from assentry.adapters.mcp_proxy.servers import Server
from assentry.adapters.mcp_proxy.toolbox import Toolbox
from assentry.assemble import TOKEN
from assentry.core.authority import Principal
from assentry.core.verdict import GateKind
from assentry.core.vouching import on_card, source_on
from assentry.engine.errands import Errand
from assentry.engine.identity import Identities
from assentry.engine.policies import apply_policy
from assentry.server.serving import Address, standing
from assentry.settings import load
from tests.adapters.mcp_place import Place, text
from tests.stage import until

RULES = """
rules:
  - {name: never, actions: [fail_to_delete], gate: forbid, because: it only fails}
  - {name: read, actions: [list_files], gate: run}
"""


async def test_each_tool_is_listed_with_the_gate_that_it_has(one: Place) -> None:
    await apply_policy(one.desk.store, "default", RULES, one.desk.person())
    async with one.inside(Server("files", tuple(one.command()), trusted=True)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {name: (tool.meta or {}).get("assentry/gate") for name, tool in tools.items()} == {
            "list_files": "run", "list_news": "run", "delete_files": "hard", "delete_slowly": "hard",
            "fail_to_delete": "forbid",
        }  # fmt: skip
        assert tools["delete_files"].description == "Deletes files for good.\n\nAssentry: a call waits for a person."
        assert tools["list_files"].description == (
            "Lists the files in a folder.\n\nAssentry: a call runs at once, unless its arguments say otherwise."
        )
        assert tools["delete_files"].input_schema["required"] == ["paths"]
        # Nobody was asked, and what was added is not held against the server.
        assert not (await one.desk.inbox.page()).requests
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
        (request,) = await one.waiting()
        assert not any("has changed" in why for why in (await one.desk.inbox.brief(request.id)).why)
        assert request.candidate.action.description == "Deletes files for good."
        await one.approve(request)
        assert text(await call) == "deleted 1"


@pytest.mark.parametrize("is_far", [False, True])
async def test_tools_are_held_until_somebody_vouches_for_them_and_again_once_one_has_changed(
    one: Place, monkeypatch: pytest.MonkeyPatch, *, is_far: bool
) -> None:
    rules = RULES.replace("actions: [list_files]", "actions: [delete_files]")
    await apply_policy(one.desk.store, "default", rules, one.desk.person())
    async with AsyncExitStack() as stack:
        far = ""
        if is_far:
            far = (await stack.enter_async_context(standing(load({"database": one.database}), Address(port=0)))).url
            _, token = await Identities(one.desk.store, "default").give_token(Principal("root"), "mcp")
            monkeypatch.setenv(TOKEN, token)

        async def gate(client: Client) -> GateKind:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            return GateKind((tools["delete_files"].meta or {})["assentry/gate"])

        async def once(client: Client, wanted: GateKind) -> bool:
            async def so() -> bool:
                return await gate(client) is wanted

            return await until(so, f"it never was {wanted}")

        async with one.inside(Server("files", tuple(one.command())), far=far) as client:
            assert await gate(client) is GateKind.HARD
            call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
            (request,) = await one.waiting()
            card = await one.card()
            assert source_on(card).startswith("agent:mcp/mcp:files#")
            listed = {each["name"]: each for each in on_card(card)}
            assert set(listed) == {"list_files", "list_news", "delete_files", "delete_slowly", "fail_to_delete"}
            assert listed["delete_files"]["description"] == "Deletes files for good."
            await one.answer(card, ["delete_files"])  # what waits goes on waiting, and can be decided alone
            assert one.ledger == []
            await one.approve(request)
            assert text(await call) == "deleted 1"
            assert await once(client, GateKind.WATCH)
            assert text(await client.call_tool("delete_files", {"paths": ["/b"]})) == "deleted 1"
        async with one.inside(Server("files", tuple(one.command()), {"WORDS": "Does nothing."}), far=far) as client:
            assert await gate(client) is GateKind.HARD
            card = await one.card()
            (changed,) = (each for each in on_card(card) if each["name"] == "delete_files")
            told = changed["changed"]["description"]
            assert told == {"before": "Deletes files for good.", "now": "Does nothing."}
    assert one.ledger == ["/a", "/b"]


async def test_while_the_server_cannot_be_reached_tools_are_listed_as_they_are(
    one: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assentry.remote.errands._SOON", 0.2)
    monkeypatch.setenv(TOKEN, "aat_x.default")
    async with one.inside(Server("files", tuple(one.command())), far="http://127.0.0.1:9") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "delete_files" in tools
        assert not any((tool.meta or {}).get("assentry/gate") for tool in tools.values())


@pytest.mark.parametrize("known", [True, False])
async def test_a_gate_that_the_server_tells_of_itself_is_not_passed_on(one: Place, known: bool) -> None:
    class Knowing:
        async def gates(self, errands: list[Errand]) -> list[GateKind | None]:
            return [GateKind.HARD if known else None for _ in errands]

    box = Toolbox(Manner("files"))
    tool = {"name": "a", "_meta": {"assentry/gate": "run", "other": 1}}
    said = {"id": 1, "result": {"tools": [tool, {"name": ["odd"]}, "odder"]}}
    told = await box.annotated(Knowing(), said)  # type: ignore[arg-type]
    assert told is not None
    assert told["result"]["tools"][0]["_meta"] == {"other": 1, **({"assentry/gate": "hard"} if known else {})}
    assert told["result"]["tools"][1:] == [{"name": ["odd"]}, "odder"]
