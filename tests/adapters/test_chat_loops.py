"""Loops written by hand around the clients of Anthropic and OpenAI, with a snapshot as their state."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

import assentry
from assentry.adapters.hosted import Hosted
from assentry.adapters.toolbox import Toolbox
from tests.adapters.contract import Contract, Turn, World, house_of
from tests.adapters.model_server import ModelServer, model_server


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as made:
        yield made


def anthropic_loop(client: AsyncAnthropic, tools: Toolbox) -> Any:
    async def agent(messages: Any, _: Any) -> str:
        while True:
            last = messages[-1]
            if last["role"] == "user":
                reply = await client.messages.create(
                    model="claude", max_tokens=999, messages=messages, tools=tools.anthropic
                )  # fmt: skip
                messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
                assentry.current_run().snapshot(messages)
                continue
            uses = [block for block in last["content"] if block["type"] == "tool_use"]
            if not uses:
                return str(last["content"][0]["text"])
            given = await tools.all((use["name"], use["input"], use["id"]) for use in uses)
            results = [
                {"type": "tool_result", "tool_use_id": use["id"], "content": each.text()}
                for use, each in zip(uses, given, strict=True)
            ]
            messages.append({"role": "user", "content": results})

    return agent


def openai_loop(client: AsyncOpenAI, tools: Toolbox) -> Any:
    async def agent(messages: Any, _: Any) -> str:
        while True:
            last = messages[-1]
            if last["role"] != "assistant":
                reply = await client.chat.completions.create(model="gpt", messages=messages, tools=tools.openai)
                messages.append(reply.choices[0].message.model_dump(exclude_none=True))
                assentry.current_run().snapshot(messages)
                continue
            calls = last.get("tool_calls")
            if not calls:
                return str(last["content"])
            given = await tools.all(
                (call["function"]["name"], call["function"]["arguments"], call["id"]) for call in calls
            )
            for call, each in zip(calls, given, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": each.text()})

    return agent


class Loop:
    """A loop as the contract drives it."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    async def begin(self, task: str, key: str) -> Any:
        return await self._hosted.begin([{"role": "user", "content": task}], goal=task, key=key)

    async def stream(self, task: str, key: str) -> list[Any]:
        return [await self.begin(task, key)]


class Loops:
    """Loops around one of the two clients."""

    def __init__(self, server: ModelServer, which: str) -> None:
        self._server, self._which = server, which

    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> Loop:
        server = self._server
        server.turns, server.heard = turns, world.heard
        if self._which == "anthropic":
            client = AsyncAnthropic(base_url=server.url, api_key="none")
            loop = anthropic_loop(client, Toolbox(gate, world.tools))
        else:
            loop = openai_loop(AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none"), Toolbox(gate, world.tools))
        if not nested:
            return Loop(Hosted(gate, "loop", loop, wait=wait))

        async def outer(messages: Any, told: Any) -> str:
            async with gate.run("inner", key="inner") as inner:
                if inner.is_over:
                    return str(inner.record.outcome)
                inner.outcome = said = await loop(messages, told)
            return str(said)

        return Loop(Hosted(gate, "loop", outer, wait=wait))

    async def close(self) -> None:
        pass


class TestAnthropicLoop(Contract):
    @pytest.fixture
    def framework(self, server: ModelServer) -> Loops:
        return Loops(server, "anthropic")


class TestOpenAILoop(Contract):
    @pytest.fixture
    def framework(self, server: ModelServer) -> Loops:
        return Loops(server, "openai")


async def test_a_function_of_ones_own_that_is_called_ask_person_is_no_question(tmp_path: Path) -> None:
    did: list[str] = []

    async def ask_person(question: str, disk: str) -> str:
        """Wipes a disk."""
        did.append(disk)
        return question

    async with house_of(Loops(ModelServer(), ""), str(tmp_path / "assentry.db"), wait=True) as house:
        tools = Toolbox(await house.opened(), [ask_person])
        task = house.start(tools.call("ask_person", {"question": "Nice weather?", "disk": "a"}, "c-1"))
        (request,) = await house.waiting()
        assert request.ask.question is None
        await house.deny(request, "leave it")
        assert "leave it" in (await task).text()
    assert did == []
