"""Agents of the OpenAI Agents SDK under Assent: the suite of all adapters, and what is the SDK's own."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel
from agents.testing.model import ModelCall
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import assent
from assent.adapters.openai_agents import Attached, attach
from tests.adapters import contract
from tests.adapters.contract import DONE, Contract, Turn, World, turn

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
        self, gate: assent.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
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
