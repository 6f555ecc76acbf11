"""Pydantic AI agents under Assentry: the suite of all adapters, and what is Pydantic AI's own."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, AgentRunResult, FunctionToolset, RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

import assentry
from assentry.adapters.pydantic_ai import Attached, attach
from assentry.core.authority import Principal
from assentry.core.canonical import canonical
from assentry.core.change import Change
from assentry.engine.identity import Identities
from assentry.errors import GuardError, Parked
from assentry.ports import View
from assentry.server.serving import Address, standing
from assentry.settings import load
from tests.adapters import contract
from tests.adapters.contract import DELETE, DONE, MAIL, READ, Contract, House, Turn, World, house_of, turn


class Script:
    """A model that says what a script says: its turn is the number of times that it has spoken."""

    def __init__(self, turns: Sequence[Turn], heard: dict[str, str]) -> None:
        self.turns, self.heard = turns, heard

    def next(self, messages: Sequence[ModelMessage]) -> Turn:
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    self.heard[part.tool_call_id] = part.model_response_str()
        return self.turns[sum(isinstance(message, ModelResponse) for message in messages)]

    async def say(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        now = self.next(messages)
        calls = [ToolCallPart(name, canonical(args), tool_call_id=call) for call, name, args in now.calls]
        return ModelResponse(parts=calls or [TextPart(now.text)])

    async def stream(self, messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        now = self.next(messages)
        if now.text:
            yield now.text
        for index, (call, name, args) in enumerate(now.calls):
            yield {index: DeltaToolCall(name=name, json_args=canonical(args), tool_call_id=call)}

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.say, stream_function=self.stream)


class OfPydantic:
    """An agent as the suite drives it."""

    def __init__(self, agent: Attached) -> None:
        self.agent = agent

    async def begin(self, task: str, key: str) -> Any:
        return (await self.agent.run(task, key=key)).output

    async def stream(self, task: str, key: str) -> list[Any]:
        async with self.agent.run_stream_events(task, key=key) as events:
            return [event async for event in events]


class Pydantic:
    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> contract.Agent:
        worker = Agent(Script(turns, world.heard).model, toolsets=[FunctionToolset(world.tools)])
        if not nested:
            return OfPydantic(attach(gate, worker, name="worker", wait=wait))
        inner = attach(gate, worker, name="inner", wait=wait)
        outer = Agent(Script([turn(("c-outer", "delegate", {"task": "all"})), DONE], {}).model)

        @outer.tool_plain
        async def delegate(task: str) -> str:
            """Hands a task on."""
            return str((await inner.run(task)).output)

        return OfPydantic(attach(gate, outer, name="outer", wait=wait, delegates=["delegate"]))

    async def close(self) -> None:
        pass


class TestPydantic(Contract):
    @pytest.fixture
    def framework(self) -> contract.Framework:
        return Pydantic()


@pytest.fixture(params=["waits", "parks"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(Pydantic(), str(tmp_path / "assentry.db"), wait=request.param == "waits") as made:
        yield made


@pytest.fixture
async def parking(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(Pydantic(), str(tmp_path / "assentry.db"), wait=False) as made:
        yield made


class Tools:
    """Tools of other shapes than those of the suite."""

    def __init__(self) -> None:
        self.did: list[Any] = []

    async def read_plan(self, ctx: RunContext[Any], day: date) -> dict[str, Any]:
        """Reads what is planned."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        self.did.append(day)
        return {"day": day, "plan": "nothing"}


async def begun(house: House, agent: Attached, task: str = "go", key: str = "k1") -> asyncio.Task[Any]:
    """The agent at work, with a worker beside it where it parks; what it came to, or that it parked."""
    gate = agent._gate
    if not house.wait:
        await house.closing.enter_async_context(gate.worker())

    async def work() -> Any:
        try:
            return (await agent.run(task, key=key)).output
        except Parked as parked:
            return parked

    return house.start(work())


def scripted(turns: Sequence[Turn], heard: dict[str, str], tools: Sequence[Any], **more: Any) -> Agent[Any, Any]:
    return Agent(Script([*turns, DONE], heard).model, tools=tools, **more)


async def test_what_is_altered_in_a_parked_history_does_not_run(parking: House) -> None:
    gate = assentry.open(parking.database, agent="tester")
    turns = [turn(DELETE, MAIL), DONE]
    agent = await Pydantic().agent(gate, turns, parking.world, wait=False, nested=False)
    with pytest.raises(Parked):
        await agent.begin("tidy up", "k1")
    await gate.close()
    first, second = await parking.waiting(2)
    run = await parking.run()
    kept = await parking.desk.store.snapshot("default", run.id)
    altered = kept.replace("/srv/a", "/srv/everything").replace("c-mail", "c-other")
    assert altered != kept

    def alter(view: View) -> Change:
        assert view.run is not None
        return Change(run=replace(view.run, version=view.run.version + 1), snapshot=altered)

    await parking.desk.store.transact("default", None, alter, run=run.id)
    await parking.approve(first if first.candidate.action.name == "delete_file" else second)
    await parking.approve(second if first.candidate.action.name == "delete_file" else first)
    later = await parking.opened()
    await Pydantic().agent(later, turns, parking.world, wait=False, nested=False)
    async with later.worker():
        (third,) = await parking.waiting()
    assert parking.world.did == ["delete /srv/a"]
    assert third.ask.step == "c-other"


async def test_a_reused_id_with_other_arguments_runs_nothing_and_the_model_is_told(house: House) -> None:
    async with house.at_work(turn(("c-1", "note", {"text": "one"})), turn(("c-1", "note", {"text": "two"}))):
        pass
    assert house.world.did == ["note one"]
    assert "did not run" in house.world.heard["c-1"]


async def test_the_mark_of_a_secret_is_not_passed_on_in_its_place(house: House) -> None:
    async with house.at_work(turn(("c-1", "read_file", {"path": "⟨secret 0123456789ab, 13 characters⟩"}))):
        pass
    assert house.world.did == []
    assert "mark of a secret" in house.world.heard["c-1"]


async def test_a_question_under_a_used_id_gets_no_old_answer(house: House) -> None:
    asks = [turn(("c-1", "ask_person", {"question": each})) for each in ("Which folder?", "Delete all of it?")]
    async with house.at_work(*asks):
        await house.answer((await house.waiting())[0], "old")
    assert "did not run" in house.world.heard["c-1"]


async def test_a_tool_that_requires_approval_is_held_though_policy_would_let_it_run(house: House) -> None:
    heard: dict[str, str] = {}
    agent = scripted([turn(READ)], heard, [Tool(house.world.tools[0], requires_approval=True)])
    await begun(house, attach(await house.opened(), agent, name="a", wait=house.wait))
    (request,) = await house.waiting()
    assert "requires approval" in " ".join(each.says for each in request.candidate.verdict.triggers)
    assert house.world.did == []
    await house.approve(request)
    await house.ended()
    assert heard["c-read"] == "contents of /srv/r"


async def test_a_tool_that_asks_for_approval_itself_is_held_and_gets_typed_values(house: House) -> None:
    heard: dict[str, str] = {}
    tools = Tools()
    agent = scripted([turn(("c-1", "read_plan", {"day": "2026-03-01"}))], heard, [Tool(tools.read_plan)])
    await begun(house, attach(await house.opened(), agent, name="a", wait=house.wait))
    (request,) = await house.waiting()
    assert tools.did == []
    await house.modify(request, day="2026-03-02")
    await house.ended()
    assert tools.did == [date(2026, 3, 2)]
    assert heard["c-1"].startswith('{"day":"2026-03-02"')
    assert "A person changed the input" in heard["c-1"]


async def test_code_that_swallows_the_pause_of_an_agent_inside_swallows_nothing(parking: House) -> None:
    gate = await parking.opened()
    inner = attach(gate, scripted([turn(DELETE)], parking.world.heard, parking.world.tools), name="inner")
    heard: dict[str, str] = {}

    async def delegate() -> str:
        """Hands on, whatever happens."""
        try:
            return str((await inner.run("tidy up")).output)
        except BaseException:
            return "it seems to be done"

    outer = attach(
        gate, scripted([turn(("c-out", "delegate", {}))], heard, [delegate]), name="o", delegates=["delegate"]
    )
    assert isinstance(await (await begun(parking, outer)), Parked)
    assert heard == {}
    await parking.approve((await parking.waiting())[0])
    await parking.ended()
    assert (parking.world.did, heard) == (["delete /srv/a"], {"c-out": "all done"})


async def test_begun_again_under_its_key_a_parked_run_goes_on_and_asks_the_model_nothing_twice(parking: House) -> None:
    gate = await parking.opened()
    spoken: list[int] = []

    async def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        spoken.append(len(messages))
        return await Script([turn(DELETE), DONE], parking.world.heard).say(messages, info)

    agent = attach(gate, Agent(FunctionModel(say), tools=parking.world.tools), name="a")
    for _ in range(2):
        with pytest.raises(Parked):
            await agent.run("tidy up", key="k1")
    assert len(spoken) == 1
    await parking.approve((await parking.waiting())[0])
    result = await agent.run("tidy up", key="k1")
    assert (result.output, parking.world.did) == ("all done", ["delete /srv/a"])
    assert result.usage.requests == 2
    assert isinstance(result, AgentRunResult)


async def test_a_stream_that_parks_has_told_everything_until_then(parking: House) -> None:
    agent = await parking.agent(turn(READ, DELETE))
    assert isinstance(agent, OfPydantic)
    told: list[Any] = []
    async with agent.agent.run_stream_events("tidy up", key="k1") as events:
        with pytest.raises(Parked):
            told.extend([told.append(event) async for event in events])
    assert {"function_tool_call", "function_tool_result"} <= {event.event_kind for event in told}
    await parking.deny((await parking.waiting())[0], "no")
    await parking.ended()


async def test_the_agent_itself_is_left_as_it_was_and_options_are_for_every_process(parking: House) -> None:
    gate = await parking.opened()
    original = scripted([turn(DELETE)], {}, parking.world.tools)
    agent = attach(gate, original, name="a")
    await original.run("without a gate")
    assert parking.world.did == ["delete /srv/a"]
    with pytest.raises(GuardError, match="deps: any process may go on"):
        await agent.run("go", deps=1)
    with pytest.raises(GuardError, match="needs a name"):
        attach(gate, scripted([], {}, []))


async def test_what_depends_on_the_run_comes_from_attach(house: House) -> None:
    seen: list[Any] = []

    async def read_deps(ctx: RunContext[str]) -> str:
        """Reads."""
        seen.append(ctx.deps)
        return ctx.deps

    agent = scripted(
        [turn(DELETE), turn(("c-1", "read_deps", {}))], {}, [*house.world.tools, Tool(read_deps)], deps_type=str
    )
    await begun(house, attach(await house.opened(), agent, name="a", wait=house.wait, deps="the warehouse"))
    await house.approve((await house.waiting())[0])
    await house.approve((await house.waiting())[0])
    await house.ended()
    assert seen == ["the warehouse"]


async def test_output_validators_want_the_deferral_in_the_agents_own_output(parking: House) -> None:
    gate = await parking.opened()
    agent = scripted([], {}, [])
    agent.output_validator(lambda text: text)
    with pytest.raises(GuardError, match="DeferredToolRequests"):
        attach(gate, agent, name="a")
    attach(gate, agent, name="b", wait=True)


async def test_effects_are_declared_by_the_name_of_the_tool(tmp_path: Path) -> None:
    async with house_of(Pydantic(), str(tmp_path / "assentry.db"), wait=False) as house:
        await house.policy("version: 1\n")
        agent = scripted([turn(("c-1", "note", {"text": "x"}))], {}, house.world.tools)
        effects = {"note": assentry.Declaration(reversible=False, outside=True)}
        await begun(house, attach(await house.opened(), agent, name="a", effects=effects))
        (request,) = await house.waiting()
        assert request.candidate.assessment.effect.reversible is False
        with pytest.raises(GuardError, match="Declaration"):
            attach(await house.opened(), agent, name="b", effects={"note": False})  # type: ignore[dict-item]


async def test_behind_a_server_an_agent_waits(tmp_path: Path) -> None:
    database = str(tmp_path / "assentry.db")
    async with house_of(Pydantic(), database, wait=True) as house:
        server = await house.closing.enter_async_context(standing(load({"database": database}), Address(port=0)))
        _, token = await Identities(house.desk.store, "default").give_token(Principal("root"), "tester")
        gate = await asyncio.to_thread(assentry.connect, server.url, token)
        house.closing.push_async_callback(gate.close)
        agent = await Pydantic().agent(gate, [turn(READ, MAIL, DELETE), DONE], house.world, wait=True, nested=False)
        work = house.start(agent.begin("tidy up", "k1"))
        by_name = {request.candidate.action.name: request for request in await house.waiting(2)}
        await house.modify(by_name["send_mail"], to="ann@example.com")
        await house.deny(by_name["delete_file"], "keep it")
        assert await work == "all done"
        assert sorted(house.world.did) == ["mail ann@example.com sale", "read /srv/r"]
        assert "keep it" in house.world.heard["c-delete"]
        with pytest.raises(GuardError, match="host"):
            attach(gate, scripted([], {}, []), name="parks")


def test_without_the_package_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None\nimport assentry.adapters.pydantic_ai"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "pip install 'assentry[pydantic-ai]'" in done.stderr
