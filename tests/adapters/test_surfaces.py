"""What an attached agent offers: each part of it passes the gate, only reads, or is refused with what to use instead.

LangGraph's is in test_langgraph_ways, DBOS's in test_dbos.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenaiAgent
from agents import Runner, handoff
from claude_agent_sdk import ClaudeAgentOptions
from langchain.agents.middleware import AgentMiddleware
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import FunctionToolset

from assentry.adapters import claude_agent, openai_agents, pydantic_ai
from assentry.adapters.hosted import Ungated
from assentry.adapters.langchain import AssentryMiddleware
from assentry.adapters.openai_agents import agent as openai_surface
from assentry.adapters.pydantic_ai import agent as pydantic_surface
from assentry.adapters.toolbox import Toolbox
from assentry.core.request import State
from tests.adapters import test_openai_agents as openai_suite
from tests.adapters import test_pydantic_ai as pydantic_suite
from tests.adapters.contract import DELETE, DONE, House, house_of, turn

GATED = {
    "openai": {"run", "run_streamed"},
    "pydantic": {"run", "run_stream_events"},
    "claude": {"run", "query"},
    "toolbox": {"call", "all"},
    "middleware": {"wrap_tool_call", "awrap_tool_call"},
}
HARMLESS = {
    "toolbox": {"anthropic", "openai"},
    "middleware": {
        "before_agent", "abefore_agent", "before_model", "abefore_model", "after_model", "aafter_model", "after_agent",
        "aafter_agent", "wrap_model_call", "awrap_model_call", "name", "state_schema", "trace_policy", "transformers",
        "gates_calls",
    },
}  # fmt: skip


def offered(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(openai_suite.Openai(), str(tmp_path / "assentry.db"), wait=True) as made:
        yield made
        await made.rest()


def openai_agent(house: House, **more: Any) -> Any:
    script = openai_suite.Script([turn(DELETE), DONE], house.world.heard)
    return OpenaiAgent(name="worker", model=script.model, tools=openai_suite.tools_of(house.world), **more)


def pydantic_agent(house: House) -> Any:
    script = pydantic_suite.Script([turn(DELETE), DONE], house.world.heard)
    return PydanticAgent(script.model, toolsets=[FunctionToolset(house.world.tools)], name="worker")


async def test_a_new_part_of_a_framework_is_put_on_a_list(house: House) -> None:
    """What a new version offers besides fails here: say whether it is gated, harmless or refused."""
    gate = await house.opened()
    for name, surface, agent, attached in (
        ("openai", openai_surface, openai_agent(house), openai_agents.Attached),
        ("pydantic", pydantic_surface, pydantic_agent(house), pydantic_ai.Attached),
    ):
        assert offered(attached) == GATED[name]
        assert offered(agent) - surface.READS - set(surface.INSTEAD) - GATED[name] == set()
        assert not surface.READS & set(surface.INSTEAD)
    assert offered(claude_agent.AttachedClaude) == GATED["claude"]
    assert offered(claude_agent.attach(gate, ClaudeAgentOptions())) == GATED["claude"]
    assert offered(Toolbox(gate, [])) == GATED["toolbox"] | HARMLESS["toolbox"]
    middleware = AssentryMiddleware(gate)
    assert offered(middleware) - {"tools"} == GATED["middleware"] | HARMLESS["middleware"]
    for name in HARMLESS["middleware"] - {"name", "state_schema", "trace_policy", "transformers", "gates_calls"}:
        assert getattr(AssentryMiddleware, name) is getattr(AgentMiddleware, name)  # theirs, which does nothing


@pytest.mark.parametrize("framework", ["openai", "pydantic"])
async def test_what_is_refused_says_what_to_use_instead(house: House, framework: str) -> None:
    gate = await house.opened()
    made: Any
    if framework == "openai":
        made, surface = openai_agents.attach(gate, openai_agent(house), wait=True), openai_surface
    else:
        made, surface = pydantic_ai.attach(gate, pydantic_agent(house), wait=True), pydantic_surface
    for name in surface.INSTEAD:
        with pytest.raises(Ungated, match=r"would not pass the gate; .*attach"):
            getattr(made, name)
        assert not hasattr(made, name)
    for name in surface.READS:
        assert not isinstance(getattr(made, name), OpenaiAgent | PydanticAgent)
    assert house.world.did == []


@pytest.mark.parametrize("by", ["run", "clone", "as_tool", "handoff", "handed on", "streamed"])
async def test_whatever_becomes_of_a_guarded_agent_waits_for_a_person(house: House, by: str) -> None:
    """A result names the guarded copy as its last agent, so that is within reach."""
    made = openai_agents.attach(await house.opened(), openai_agent(house), wait=True)
    guarded = made._agent
    call = ("c-outer", "worker", {"input": "go"})
    to = ("c-outer", "transfer_to_worker", {})
    outer: Any = guarded
    if by == "clone":
        outer = guarded.clone(instructions="otherwise")
    elif by == "as_tool":
        script = openai_suite.Script([turn(call), DONE], {})
        outer = OpenaiAgent(name="outer", model=script.model, tools=[guarded.as_tool("worker", "works")])
    elif by in ("handoff", "handed on"):
        script = openai_suite.Script([turn(to), DONE], {})
        outer = OpenaiAgent(
            name="outer", model=script.model, handoffs=[guarded if by == "handoff" else handoff(guarded)]
        )

    async def work() -> Any:
        if by != "streamed":
            return await Runner.run(outer, "go")
        streamed = Runner.run_streamed(outer, "go")
        return [event async for event in streamed.stream_events()]

    task = house.start(work())
    (request,) = await house.waiting()
    assert house.world.did == []
    await house.deny(request, "keep it")
    await asyncio.wait([task])
    assert house.world.did == []
    assert "keep it" in house.world.heard["c-delete"]


@pytest.mark.parametrize("by", ["toolsets", "tools", "override"])
async def test_tools_that_come_with_a_run_are_gated_like_the_others(house: House, by: str) -> None:
    script = pydantic_suite.Script([turn(DELETE), DONE], house.world.heard)
    agent: Any = PydanticAgent(script.model, name="worker")
    made = pydantic_ai.attach(await house.opened(), agent, wait=True)
    extra = FunctionToolset(house.world.tools)

    async def work() -> Any:
        if by == "toolsets":
            return await made.run("go", toolsets=[extra])
        with agent.override(**({"toolsets": [extra]} if by == "override" else {"tools": house.world.tools})):
            return await made.run("go")

    task = house.start(work())
    (request,) = await house.waiting()
    assert (request.state, house.world.did) == (State.PENDING, [])
    await house.deny(request, "keep it")
    await asyncio.wait([task])
    assert house.world.did == []


@pytest.mark.parametrize("by", ["call", "all"])
async def test_each_call_of_a_toolbox_is_gated(house: House, by: str) -> None:
    tools = Toolbox(await house.opened(), house.world.tools)
    call_id, name, args = DELETE
    task = house.start(tools.call(name, args, call_id) if by == "call" else tools.all([(name, args, call_id)]))
    (request,) = await house.waiting()
    assert house.world.did == []
    await house.deny(request, "keep it")
    given = await task
    assert "keep it" in (given if by == "call" else given[0]).text()
    assert [each["name"] for each in tools.anthropic] == [each["function"]["name"] for each in tools.openai]
    assert house.world.did == []
