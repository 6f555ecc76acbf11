"""The tools of an agent of the OpenAI Agents SDK, each call through a gate."""

import json
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from agents import FunctionTool, RunContextWrapper, ToolOutputText
from agents.exceptions import ToolTimeoutError
from agents.tool import ToolOutputFileContent, ToolOutputImage, invoke_function_tool
from agents.tool import default_tool_timeout_error_message as timeout_words
from agents.tool import maybe_invoke_function_tool_failure_error_function as failure_words
from agents.tool_context import ToolContext

from assentry.adapters.tool_calls import Given, Standing, ToolCall, ToolCalls, for_model, plain_args
from assentry.core.canonical import canonical
from assentry.core.request import State
from assentry.engine.holding import CURRENT, HeldRun
from assentry.errors import AssentryError, Denied, InvalidArguments, RunStopped

OUTPUTS = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
_STANDINGS: WeakKeyDictionary[HeldRun, dict[str, Standing]] = WeakKeyDictionary()
"""How calls stood when the framework asked whether they need approval, until it makes them."""


def guarded_tool(tool: FunctionTool, calls: ToolCalls) -> FunctionTool:
    """A copy of the tool whose calls pass a gate. Outside of a run they wait for as long as it takes."""
    return _Guard(tool, calls).guarded()


class _FailedBefore(Exception):
    """The error that a call ended in is on record; the model is told of it what the tool tells of errors."""


class _Guard:
    """One tool: its original, and a copy that raises what goes wrong instead of telling the model."""

    def __init__(self, tool: FunctionTool, calls: ToolCalls) -> None:
        self._tool, self._calls = tool, calls
        self._bare = copy(tool)
        self._bare._failure_error_function, self._bare._use_default_failure_error_function = None, False
        self._bare.timeout_behavior = "raise_exception"

    def guarded(self) -> FunctionTool:
        made = copy(self._tool)
        made.on_invoke_tool, made.needs_approval = self._invoked, self._is_held
        made.timeout_seconds = None  # the time of the tool itself is watched, not that of a person
        return made

    async def _is_held(self, context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
        """The framework stops for this call. Asked again when it goes on, the answer is the record's."""
        active = CURRENT.get()
        if active is None or active.patience_for(None) != 0:
            return False  # it waits where it is made
        try:
            standing = await self._calls.proposed(await self._call(context, args, call_id))
        except AssentryError as problem:
            for_model(problem)  # told where it is made
            return False
        if not standing.is_held:
            _STANDINGS.setdefault(active, {})[call_id] = standing
        return standing.is_held

    async def _invoked(self, context: ToolContext[Any], text: str) -> Any:
        """What the tool returned for what was approved, or a word for the model."""
        active = CURRENT.get()
        standing = None if active is None else _STANDINGS.get(active, {}).pop(context.tool_call_id, None)
        try:
            call = await self._call(context, _parsed(text), context.tool_call_id)
            standing = standing or await self._calls.proposed(call)
            given = await self._calls.given(call, self._maker(context), standing)
            if given.failed and standing.request is not None and standing.request.state is State.FAILED:
                raise _FailedBefore(given.says)
        except AssentryError as problem:
            if active is not None and isinstance(problem, Denied) and problem.stop:
                # The framework would make an error of its own of it, which code around the agent may swallow.
                raise RunStopped(active.code, problem.by, problem.reason) from problem
            return for_model(problem)
        except Exception as problem:
            told = await self._failed(context, problem)
            if told is None:
                raise
            return told
        return _native(given)

    async def _call(self, context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> ToolCall:
        needs = self._tool.needs_approval
        needed = needs if isinstance(needs, bool) else await needs(context, args, call_id)
        return ToolCall(
            self._tool.name, plain_args(args), call_id, self._tool.description,
            plain_args(self._tool.params_json_schema), insists="the tool needs approval" if needed else "",
        )  # fmt: skip

    def _maker(self, context: ToolContext[Any]) -> Any:
        async def make(args: dict[str, Any]) -> Any:
            text = canonical(args)
            here = copy(context)
            here.tool_arguments = text
            return await invoke_function_tool(function_tool=self._bare, context=here, arguments=text)

        return make

    async def _failed(self, context: ToolContext[Any], problem: Exception) -> Any:
        """What the framework tells the model of an error of this tool; none where it raises it."""
        if isinstance(problem, ToolTimeoutError) and problem.tool_name == self._tool.name:
            if self._tool.timeout_behavior == "raise_exception":
                return None
            if self._tool.timeout_error_function is None:
                return timeout_words(tool_name=problem.tool_name, timeout_seconds=problem.timeout_seconds)
            told = self._tool.timeout_error_function(context, problem)
            return told if isinstance(told, str) else await told
        return await failure_words(function_tool=self._tool, context=context, error=problem)


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        raise InvalidArguments("the arguments are not JSON") from None
    return plain_args(found)


def _native(given: Given) -> Any:
    """What came of a call, as the framework wants to have it."""
    if not given.says:
        return given.value
    value = given.value
    if given.ran and not given.failed:
        parts = value if isinstance(value, list) else [value]
        if parts and all(isinstance(part, OUTPUTS) for part in parts):
            return [*parts, ToolOutputText(text=given.says)]
    return given.text(str(value))
