"""Tools of an agent loop that is written by hand: their descriptions for the model, and their calls through a gate."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assentry.adapters.tool_calls import Given, Standing, ToolCall, ToolCalls, ask_person, for_model, plain_args
from assentry.core.action import NOTHING_DECLARED, Declaration, Json
from assentry.engine.describing import described
from assentry.engine.gate import Gate
from assentry.engine.sealing import holds_marks
from assentry.engine.threads import in_thread
from assentry.engine.tool import Tool, resolved
from assentry.errors import AssentryError, GuardError, InvalidArguments


class Toolbox:
    """Plain functions that a model may call. `effects` declares what they do, by name."""

    def __init__(
        self, gate: Gate, functions: Iterable[Callable[..., Any]], effects: Mapping[str, Declaration] | None = None
    ) -> None:
        self._calls = ToolCalls(gate, effects)
        self._tools: dict[str, Tool] = {}
        for function in functions:
            made = described(
                function, "", NOTHING_DECLARED, options=(), needed_by=None, facts=None, refresh=False, inject={},
                detached=False,
            )  # fmt: skip
            if made.name in self._tools:
                raise GuardError(f"two tools are called {made.name}; rename one of them")
            self._tools[made.name] = made

    @property
    def anthropic(self) -> list[dict[str, Any]]:
        """The tools as Anthropic's `messages.create(tools=…)` takes them."""
        return [
            {"name": each.name, "description": each.description, "input_schema": dict(each.schema or {})}
            for each in self._tools.values()
        ]

    @property
    def openai(self) -> list[dict[str, Any]]:
        """The tools as OpenAI's `chat.completions.create(tools=…)` takes them."""
        return [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.description, "parameters": dict(each.schema or {})},
            }
            for each in self._tools.values()
        ]

    async def call(self, name: str, args: Any, call_id: str) -> Given:
        """What came of one call of the model, under the id that the model gave it. Raises `Parked` where it waits.

        Whatever goes wrong is told to the model; nothing of that runs. `args` may be JSON as a text.
        """
        (given,) = await self.all([(name, args, call_id)])
        return given

    async def all(self, calls: Iterable[tuple[str, Any, str]]) -> list[Given]:
        """What came of several calls (name, arguments, id) of one turn, made side by side, in their order.

        Those that may run have ended before a run parks on those that wait.
        """
        calls = list(calls)
        same = [calls.index(each) for each in calls]  # one that a model repeats word for word, id and all, is one
        once = sorted(set(same))
        asked = dict(zip(once, await asyncio.gather(*(self._asked(*calls[index]) for index in once)), strict=True))
        made: dict[int, Given] = {}
        for held in (False, True):
            turn = [index for index in once if asked[index].is_held is held]
            made |= dict(zip(turn, await asyncio.gather(*(asked[index].made() for index in turn)), strict=True))
        return [made[index] for index in same]

    async def _asked(self, name: str, args: Any, call_id: str) -> "_Asked":
        tool = self._tools.get(name)
        if tool is None:
            told = f"There is no tool called {name}; there are {', '.join(self._tools)}."
            return _Asked(lambda: _said(Given(says=told, ran=False)))
        try:
            call = ToolCall(
                name, _plain(tool, args), call_id, tool.description, tool.schema,
                is_question=tool.function is ask_person,
            )  # fmt: skip
            standing = await self._calls.proposed(call)
        except AssentryError as problem:
            told = for_model(problem)
            return _Asked(lambda: _said(Given(says=told, ran=False)))
        return _Asked(lambda: self._given(tool, call, standing), standing.is_held)

    async def _given(self, tool: Tool, call: ToolCall, standing: Standing) -> Given:
        try:
            return await self._calls.given(call, lambda allowed: _called(tool, allowed), standing)
        except AssentryError as problem:
            return Given(says=for_model(problem), ran=False)
        except Exception as problem:  # noqa: BLE001  a tool that failed is the model's to deal with
            return Given(says=f"{call.name} failed: {type(problem).__name__}: {problem}", failed=True)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that is on record, if it has to be: how it is made, and whether that waits for somebody."""

    made: Callable[[], Coroutine[Any, Any, Given]]
    is_held: bool = False


async def _said(given: Given) -> Given:
    return given


def _plain(tool: Tool, args: Any) -> dict[str, Json]:
    try:
        given = plain_args(json.loads(args) if isinstance(args, str) else args)
    except ValueError as problem:
        raise InvalidArguments(f"the arguments are no JSON ({problem})") from None
    if tool.function is ask_person:
        return given
    assert tool.signature is not None  # noqa: S101  a function has one
    try:
        return tool.signature.bind((), given)[0]
    except InvalidArguments:
        if holds_marks(given):
            return given  # a secret number, out of a snapshot; what is on record of this call is what runs
        raise


async def _called(tool: Tool, args: Mapping[str, Json]) -> Any:
    assert tool.signature is not None  # noqa: S101
    values = tool.signature.values(args)
    return await (tool.call(values, {}) if tool.is_async else resolved(await in_thread(tool.call, values, {})))
