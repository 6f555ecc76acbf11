"""What a client is told of a server's tools: the gate of each, and nothing of what the server says is lost."""

import asyncio

import pytest

from assentry.adapters.mcp_proxy.held import Manner
from assentry.adapters.mcp_proxy.servers import Server
from assentry.adapters.mcp_proxy.toolbox import Toolbox
from assentry.assemble import TOKEN
from assentry.core.authority import Principal
from assentry.core.verdict import GateKind
from assentry.engine.errands import Errand, Notebook
from assentry.engine.identity import Identities
from assentry.engine.policies import apply_policy
from assentry.server.serving import Address, standing
from assentry.settings import load
from tests.adapters.mcp_place import Place, text

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


async def test_a_tool_whose_schema_changed_is_listed_as_held(one: Place) -> None:
    await apply_policy(one.desk.store, "default", RULES, one.desk.person())
    for words, gate in (("Deletes files for good.", "watch"), ("Does nothing.", "hard")):
        rules = RULES.replace("actions: [list_files]", "actions: [delete_files]")
        await apply_policy(one.desk.store, "default", rules, one.desk.person())
        async with one.inside(Server("files", tuple(one.command(words)))) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert (tools["delete_files"].meta or {})["assentry/gate"] == gate
            if gate == "watch":
                assert text(await client.call_tool("delete_files", {"paths": ["/a"]})) == "deleted 1"
    assert one.ledger == ["/a"]


async def test_at_a_server_too_a_tool_that_changed_is_held_whatever_the_policy_says(
    one: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = RULES.replace("actions: [list_files]", "actions: [delete_files]")
    await apply_policy(one.desk.store, "default", rules, one.desk.person())
    async with standing(load({"database": one.database}), Address(port=0)) as server:
        _, token = await Identities(one.desk.store, "default").give_token(Principal("root"), "mcp")
        monkeypatch.setenv(TOKEN, token)
        for words, gate in (("Deletes files for good.", "watch"), ("Does nothing.", "hard")):
            async with one.inside(Server("files", tuple(one.command(words))), far=server.url) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                assert (tools["delete_files"].meta or {})["assentry/gate"] == gate
                call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
                if gate == "hard":
                    (request,) = await one.waiting()
                    assert "has changed" in str(request.ask.claims["why"])
                    assert one.ledger == ["/a"]
                    await one.approve(request)
                assert text(await call) == "deleted 1"
    assert one.ledger == ["/a", "/a"]


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

    box = Toolbox(Manner("files"), Notebook(one.folder, "files"))
    tool = {"name": "a", "_meta": {"assentry/gate": "run", "other": 1}}
    said = {"id": 1, "result": {"tools": [tool, {"name": ["odd"]}, "odder"]}}
    told = await box.annotated(Knowing(), said)  # type: ignore[arg-type]
    assert told is not None
    assert told["result"]["tools"][0]["_meta"] == {"other": 1, **({"assentry/gate": "hard"} if known else {})}
    assert told["result"]["tools"][1:] == [{"name": ["odd"]}, "odder"]
