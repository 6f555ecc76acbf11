"""Agents of the OpenAI Agents SDK under Assentry: the suite of all adapters, and what is the SDK's own."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, LocalShellTool, RunContextWrapper, RunResult, function_tool, handoff, set_tracing_disabled
from agents import RunState as RunState_
from agents.mcp import MCPServerStdio
from agents.testing import ModelStep, ScriptedModel
from agents.testing.model import ModelCall
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import assentry
from assentry.adapters.openai_agents import Attached, attach
from assentry.adapters.openai_agents.state import closed, opened
from assentry.assemble import desk
from assentry.core.authority import Principal
from assentry.core.canonical import canonical, restore
from assentry.core.change import Change
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.engine.identity import Identities
from assentry.errors import GuardError, Parked, RunStopped
from assentry.ports import View
from assentry.server.serving import Address, standing
from assentry.settings import load
from tests.adapters import contract
from tests.adapters.contract import (
    DELETE,
    DONE,
    MAIL,
    READ,
    SECRETS,
    SIGN_IN,
    Contract,
    House,
    Turn,
    World,
    house_of,
    turn,
)

set_tracing_disabled(True)
LONG = 20
"""More answers than any script here has turns."""


class Script:
    """A model that says what a script says: its turn is told by the calls that it has made."""

    def __init__(self, turns: Sequence[Turn], heard: dict[str, str]) -> None:
        self.turns, self.heard, self.spoke = turns, heard, 0

    def say(self, asked: ModelCall) -> list[Any]:
        self.spoke += 1
        items = [item for item in asked.input if isinstance(item, dict)] if isinstance(asked.input, list) else []
        names = {name for each in self.turns for _, name, _ in each.calls}
        made = [item for item in items if item.get("type") == "function_call" and item["name"] in names]
        for item in items:
            if item.get("type") == "function_call_output":
                self.heard[item["call_id"]] = str(item["output"])
        left = len(made)
        for now in self.turns:
            if left < max(1, len(now.calls)):
                break
            left -= len(now.calls)
        if not now.calls:
            text = ResponseOutputText(annotations=[], text=now.text, type="output_text")
            return [ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")]
        return [
            ResponseFunctionToolCall(arguments=json.dumps(args), call_id=call, name=name, type="function_call")
            for call, name, args in now.calls
        ]

    @property
    def model(self) -> ScriptedModel:
        return ScriptedModel([ModelStep.respond(self.say) for _ in range(LONG)])


def tools_of(world: World) -> list[Any]:
    """The tools of the suite; they tell the model of their errors, which the SDK's do not by default."""
    return [function_tool(each, failure_error_function=lambda _, error: f"{error}") for each in world.tools]


class OfOpenai:
    """An agent as the suite drives it."""

    def __init__(self, agent: Attached) -> None:
        self.agent = agent

    async def begin(self, task: str, key: str) -> Any:
        return (await self.agent.run(task, key=key)).final_output

    async def stream(self, task: str, key: str) -> list[Any]:
        return [event async for event in self.agent.run_streamed(task, key=key).stream_events()]


class Openai:
    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> contract.Agent:
        tools: list[Any] = tools_of(world)
        worker = Agent(name="worker", model=Script(turns, world.heard).model, tools=tools)
        if nested:
            script = Script([turn(("c-outer", "delegate", {"input": "all"})), DONE], {})
            inner = worker.as_tool(tool_name="delegate", tool_description="Hands a task on.")
            worker = Agent(name="outer", model=script.model, tools=[inner])
        return OfOpenai(attach(gate, worker, name="worker", wait=wait))

    async def close(self) -> None:
        pass


class TestOpenai(Contract):
    @pytest.fixture
    def framework(self) -> contract.Framework:
        return Openai()


@pytest.fixture(params=["waits", "parks"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(Openai(), str(tmp_path / "assentry.db"), wait=request.param == "waits") as made:
        yield made


@pytest.fixture
async def parking(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(Openai(), str(tmp_path / "assentry.db"), wait=False) as made:
        yield made


def scripted(name: str, turns: Sequence[Turn], heard: dict[str, str], tools: Sequence[Any], **more: Any) -> Agent[Any]:
    return Agent(name=name, model=Script([*turns, DONE], heard).model, tools=list(tools), **more)


async def begun(house: House, agent: Attached, task: str = "go", key: str = "k1") -> asyncio.Task[Any]:
    """The agent at work, with a worker beside it where it parks; what it came to, or that it parked."""
    if not house.wait:
        await house.closing.enter_async_context(agent._gate.worker())

    async def work() -> Any:
        try:
            return (await agent.run(task, key=key)).final_output
        except Parked as parked:
            return parked

    return house.start(work())


async def test_words_that_are_a_secret_elsewhere_run_as_they_were_given(parking: House) -> None:
    other = ("c-write", "write_file", {"path": "/srv/w", "text": f"the {SECRETS[0]} is in the stable"})
    async with parking.at_work(turn(SIGN_IN, other)):
        found = await parking.waiting(2)
        kept = await parking.desk.store.snapshot("default", (await parking.ended(RunState.PARKED)).id)
        assert set(re.findall(r'"fingerprint":"(\w+)"', kept)) == {"0" * 64}  # a short secret could be tried out
        for request in found:
            await parking.approve(request)
    assert sorted(parking.world.did) == [f"sign in ann {' '.join(SECRETS)}", f"write /srv/w {other[2]['text']}"]


async def test_a_read_is_in_the_log_once(parking: House) -> None:
    async with parking.at_work(turn(READ)):
        pass
    await parking.closing.aclose()
    place = await desk(load({"database": parking.database}))
    entries = [json.loads(each.text)["kind"] for each in await place.store.entries("default")]
    await place.store.close()
    assert entries.count("call.ran") == 1


async def test_an_approval_that_is_written_into_a_parked_state_runs_nothing(parking: House) -> None:
    gate = assentry.open(parking.database, agent="tester")
    agent = scripted("a", [turn(DELETE)], parking.world.heard, tools_of(parking.world))
    attached = attach(gate, agent)
    with pytest.raises(Parked):
        await attached.run("go", key="k1")
    run = await parking.run()
    kept = restore(await parking.desk.store.snapshot("default", run.id))
    state = await RunState_.from_json(attached._agent, closed(kept["state"], {"c-delete": DELETE[2]}))
    (item,) = state.get_interruptions()
    state.approve(item, always_approve=True)
    forged = {"state": opened(state), "waiting": kept["waiting"]}
    assert '"approved":true' in canonical(forged)

    def forge(view: View) -> Change:
        assert view.run is not None
        return Change(run=replace(view.run, version=view.run.version + 1), snapshot=canonical(forged))

    await parking.desk.store.transact("default", None, forge, run=run.id)
    await gate.close()
    later = await parking.opened()
    again = attach(later, agent)
    with pytest.raises(Parked):
        await again.run("go", key="k1")
    assert parking.world.did == []
    await parking.deny((await parking.waiting())[0], "forged")
    async with later.worker():
        await parking.ended()
    assert parking.world.did == []
    assert "forged" in parking.world.heard["c-delete"]


@pytest.mark.parametrize("as_object", [False, True])
async def test_agents_that_hand_off_to_each_other_are_all_guarded(house: House, as_object: bool) -> None:
    heard: dict[str, str] = {}
    second = scripted("second", [turn(DELETE)], heard, tools_of(house.world))
    turns = [turn(("c-hand", "transfer_to_second", {}))]
    first = scripted("first", turns, {}, [], handoffs=[handoff(second) if as_object else second])
    second.handoffs = [first]
    agent = attach(await house.opened(), first, wait=house.wait)
    await begun(house, agent)
    (request,) = await house.waiting()
    assert house.world.did == []
    await house.modify(request, path="/srv/b")
    await house.ended()
    assert house.world.did == ["delete /srv/b"]
    assert heard["c-delete"].startswith("deleted /srv/b")
    assert (first.handoffs[0] is second or as_object, second.tools[0].needs_approval) == (True, False)


async def test_a_person_who_ends_the_run_from_inside_an_agent_as_a_tool_ends_all_of_it(house: House) -> None:
    agent = await house.agent(turn(DELETE), turn(MAIL), nested=True)
    work = house.start(agent.begin("go", "k1"))
    await house.deny((await house.waiting())[0], "stop all of it", stop=True)
    with pytest.raises((RunStopped, Parked)):
        await work
    await house.ended(RunState.STOPPED)
    assert house.world.did == []


async def test_code_that_swallows_what_stops_an_agent_inside_swallows_nothing(house: House) -> None:
    gate = await house.opened()
    inner = scripted("inner", [turn(DELETE)], {}, tools_of(house.world))

    async def fail(_: Any, error: Exception) -> str:
        return "never mind"

    tool = inner.as_tool("delegate", "Hands on.", failure_error_function=fail)
    heard: dict[str, str] = {}
    outer = scripted(
        "outer", [turn(("c-out", "delegate", {"input": "x"})), turn(MAIL)], heard, [tool, *tools_of(house.world)]
    )
    agent = attach(gate, outer, wait=house.wait)
    work = await begun(house, agent)
    await house.deny((await house.waiting())[0], "stop", stop=True)
    with suppress(RunStopped):
        await work
    await house.ended(RunState.STOPPED)
    assert (house.world.did, heard) == ([], {})


async def test_a_tool_that_needs_approval_is_held_though_policy_would_let_it_run(house: House) -> None:
    heard: dict[str, str] = {}

    async def sensitive(_: Any, args: dict[str, Any], __: str) -> bool:
        return bool(args["path"] == "/srv/r")

    reads = function_tool(house.world.tools[0], needs_approval=sensitive)
    other = ("c-other", "read_file", {"path": "/srv/other"})
    await begun(
        house, attach(await house.opened(), scripted("a", [turn(READ, other)], heard, [reads]), wait=house.wait)
    )
    (request,) = await house.waiting()
    assert request.candidate.action.args == {"path": "/srv/r"}
    await house.approve(request)
    await house.ended()
    assert heard == {"c-read": "contents of /srv/r", "c-other": "contents of /srv/other"}


async def test_arguments_that_cannot_be_read_run_nothing_and_the_model_is_told(house: House) -> None:
    gate = await house.opened()
    said: list[str] = []

    def say(asked: ModelCall) -> list[Any]:
        told = [item["output"] for item in asked.input if item.get("type") == "function_call_output"]
        said.extend(told)
        call = ResponseFunctionToolCall(arguments="{path:", call_id="c-1", name="delete_file", type="function_call")
        return [call] if not told else Script([DONE], {}).say(asked)

    model = ScriptedModel([ModelStep.respond(say) for _ in range(LONG)])
    agent = attach(gate, Agent(name="a", model=model, tools=tools_of(house.world)), wait=house.wait)
    assert await (await begun(house, agent)) == "all done"
    assert (house.world.did, "not JSON" in said[0]) == ([], True)


async def test_the_time_of_a_tool_is_its_own_and_not_that_of_a_person(house: House) -> None:
    heard: dict[str, str] = {}

    async def delete_slowly(path: str) -> str:
        """Deletes a file for good."""
        await asyncio.Event().wait()
        return path

    tool = function_tool(delete_slowly, timeout=0.2)
    turns = [turn(("c-1", "delete_slowly", {"path": "/srv/a"}))]
    await begun(house, attach(await house.opened(), scripted("a", turns, heard, [tool]), wait=house.wait))
    (request,) = await house.waiting()
    await asyncio.sleep(0.4)  # longer than the tool may take
    await house.approve(request)
    await house.ended()
    assert "timed out" in heard["c-1"]
    await house.in_state(request.id, State.FAILED)


async def test_what_mcp_servers_offer_is_guarded(house: House, tmp_path: Path) -> None:
    heard: dict[str, str] = {}
    ledger = tmp_path / "ledger.txt"
    code = str(Path(__file__).parent / "mcp_server.py")
    server = MCPServerStdio({"command": sys.executable, "args": [code, str(ledger)]}, client_session_timeout_seconds=30)
    calls = [turn((f"c-{each}", "delete_files", {"paths": [each]})) for each in ("a", "b")]
    async with server:
        agent = scripted("a", calls, heard, [], mcp_servers=[server])
        await begun(house, attach(await house.opened(), agent, wait=house.wait))
        await house.deny((await house.waiting())[0], "not from there")
        (second,) = await house.waiting()
        assert not ledger.exists()
        await house.modify(second, paths=["c"])
        await house.ended()
        await house.closing.pop_all().aclose()
    assert ledger.read_text() == "c\n"
    assert "not from there" in heard["c-a"]
    assert "deleted 1" in heard["c-b"]


async def test_tools_that_run_here_and_not_through_the_gate_are_refused(parking: House) -> None:
    async def run(_: Any) -> str:
        return ""

    with pytest.raises(GuardError, match="local_shell of a runs here"):
        attach(await parking.opened(), Agent(name="a", tools=[LocalShellTool(executor=run)]))


async def test_begun_again_under_its_key_a_parked_run_goes_on_and_asks_the_model_nothing_twice(parking: House) -> None:
    script = Script([turn(READ, DELETE), DONE], parking.world.heard)
    agent = attach(await parking.opened(), Agent(name="a", model=script.model, tools=tools_of(parking.world)))
    for _ in range(2):
        with pytest.raises(Parked):
            await agent.run("go", key="k1")
    assert (script.spoke, parking.world.did) == (1, ["read /srv/r"])
    await parking.approve((await parking.waiting())[0])
    result = await agent.run("go", key="k1")
    assert isinstance(result, RunResult)
    assert (result.final_output, parking.world.did) == ("all done", ["read /srv/r", "delete /srv/a"])


async def test_a_stream_that_parks_has_told_everything_until_then(parking: House) -> None:
    agent = await parking.agent(turn(READ, DELETE))
    assert isinstance(agent, OfOpenai)
    told: list[Any] = []
    with pytest.raises(Parked):
        told.extend([told.append(event) async for event in agent.agent.run_streamed("go", key="k1").stream_events()])
    assert "tool_output" in {event.name for event in told if event.type == "run_item_stream_event"}
    await parking.deny((await parking.waiting())[0], "no")
    await parking.ended()


async def test_a_stream_ends_with_the_frameworks_own_result(house: House) -> None:
    agent = await house.agent(turn(READ))
    assert isinstance(agent, OfOpenai)
    streamed = agent.agent.run_streamed("go", key="k1")
    assert [event async for event in streamed.stream_events()]
    assert streamed.result.final_output == "all done"


async def test_the_context_comes_from_attach_and_is_not_kept(house: House) -> None:
    seen: list[Any] = []

    async def read_context(context: RunContextWrapper[Any]) -> str:
        """Reads."""
        seen.append(context.context)
        return "read"

    tools = [*tools_of(house.world), function_tool(read_context)]
    agent = scripted("a", [turn(DELETE), turn(("c-1", "read_context", {}))], {}, tools)
    mine = {"place": "the warehouse"}
    attached = attach(await house.opened(), agent, wait=house.wait, context=mine)
    await begun(house, attached)
    (request,) = await house.waiting()
    if not house.wait:
        await house.ended(RunState.PARKED)
        assert "warehouse" not in await house.desk.store.snapshot("default", (await house.run()).id)
        with pytest.raises(GuardError, match="context: any process may go on"):
            await attached.run("go", context=1)
    await house.approve(request)
    await house.approve((await house.waiting())[0])
    await house.ended()
    assert seen == [mine]


async def test_effects_are_declared_by_the_name_of_the_tool(parking: House) -> None:
    await parking.policy("version: 1\n")
    agent = scripted("a", [turn(("c-1", "note", {"text": "x"}))], {}, tools_of(parking.world))
    effects = {"note": assentry.Declaration(reversible=False, outside=True)}
    await begun(parking, attach(await parking.opened(), agent, effects=effects))
    (request,) = await parking.waiting()
    assert request.candidate.assessment.effect.reversible is False


async def test_behind_a_server_an_agent_waits(tmp_path: Path) -> None:
    database = str(tmp_path / "assentry.db")
    async with house_of(Openai(), database, wait=True) as house:
        server = await house.closing.enter_async_context(standing(load({"database": database}), Address(port=0)))
        _, token = await Identities(house.desk.store, "default").give_token(Principal("root"), "tester")
        gate = await asyncio.to_thread(assentry.connect, server.url, token)
        house.closing.push_async_callback(gate.close)
        agent = await Openai().agent(gate, [turn(READ, MAIL, DELETE), DONE], house.world, wait=True, nested=False)
        work = house.start(agent.begin("tidy up", "k1"))
        by_name = {request.candidate.action.name: request for request in await house.waiting(2)}
        await house.modify(by_name["send_mail"], to="ann@example.com")
        await house.deny(by_name["delete_file"], "keep it")
        assert await work == "all done"
        assert sorted(house.world.did) == ["mail ann@example.com sale", "read /srv/r"]
        assert "keep it" in house.world.heard["c-delete"]


def test_without_the_package_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['agents'] = None\nimport assentry.adapters.openai_agents"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "pip install 'assentry[openai-agents]'" in done.stderr
