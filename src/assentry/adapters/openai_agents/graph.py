"""Copies of agents with guarded tools: those they hand off to and those they use as tools are copied with them."""

import weakref
from copy import copy
from types import CellType, FunctionType
from typing import Any

from agents import Agent, ApplyPatchTool, ComputerTool, FunctionTool, Handoff, LocalShellTool, RunContextWrapper
from agents import CustomTool as FreeTool
from agents import ShellTool as Shell
from agents.tool import Tool, _FailureHandlingFunctionToolInvoker

from assentry.adapters.openai_agents.tools import guarded_tool
from assentry.adapters.tool_calls import ToolCalls
from assentry.errors import GuardError


class Graph:
    """The guarded copies of agents that belong together, one of each."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls
        self._copies: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        """By the identity of the original, which is kept so that nothing else gets it."""

    def guarded(self, agent: Agent[Any]) -> Agent[Any]:
        """The copy of this agent."""
        if id(agent) in self._copies:
            return self._copies[id(agent)][1]
        if any(agent is made for _, made in self._copies.values()):
            return agent
        made = agent.clone(tools=[], handoffs=[])
        made.__class__ = self._kind(type(agent))
        self._copies[id(agent)] = (agent, made)
        made.tools = [self._tool(agent, tool) for tool in agent.tools]
        made.handoffs = [self._handoff(each) for each in agent.handoffs]
        return made

    def _kind(self, kind: type[Agent[Any]]) -> type[Agent[Any]]:
        """The same kind of agent; what its MCP servers offer at the time is guarded too."""
        guard = self._guarded_function

        async def get_mcp_tools(agent: Any, run_context: RunContextWrapper[Any]) -> list[Tool]:
            found = await kind.get_mcp_tools(agent, run_context)
            return [guard(tool) if isinstance(tool, FunctionTool) else tool for tool in found]

        return type(kind.__name__, (kind,), {"get_mcp_tools": get_mcp_tools, "__module__": kind.__module__})

    def _tool(self, agent: Agent[Any], tool: Tool) -> Tool:
        if isinstance(tool, FunctionTool):
            return self._guarded_function(tool)
        is_here = isinstance(tool, LocalShellTool | ApplyPatchTool | ComputerTool | FreeTool)
        if is_here or (isinstance(tool, Shell) and tool.executor is not None):
            raise GuardError(
                f"the tool {tool.name} of {agent.name} runs here and not through the gate; "
                "make it a function_tool, or leave it out"
            )
        return tool

    def _guarded_function(self, tool: FunctionTool) -> FunctionTool:
        if not tool._is_agent_tool:
            return guarded_tool(tool, self._calls)
        made = self._agent_tool(tool)
        return made if tool.needs_approval is False else guarded_tool(made, self._calls)

    def _agent_tool(self, tool: FunctionTool) -> FunctionTool:
        """An agent as a tool: what it does is asked about, not that it is called."""
        inner, invoker = tool._agent_instance, tool.on_invoke_tool
        if not isinstance(invoker, _FailureHandlingFunctionToolInvoker):
            raise GuardError(f"the agent behind the tool {tool.name} cannot be found; {_KNOWN}")
        made = copy(tool)
        made._agent_instance = self.guarded(inner)
        made.on_invoke_tool = _FailureHandlingFunctionToolInvoker(
            _rebound(invoker._invoke_tool_impl, inner, made._agent_instance), invoker._on_handled_error,
            function_tool=made,
        )  # fmt: skip
        return made

    def _handoff(self, handoff: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(handoff, Agent):
            return self.guarded(handoff)
        made, before = copy(handoff), handoff.on_invoke_handoff

        async def handed(context: RunContextWrapper[Any], text: str) -> Any:
            return self.guarded(await before(context, text))

        made.on_invoke_handoff = handed
        target = handoff._agent_ref() if handoff._agent_ref is not None else None
        if isinstance(target, Agent):
            made._agent_ref = weakref.ref(self.guarded(target))
        return made


_KNOWN = "a version that Assentry knows comes with `pip install 'assentry[openai-agents]'`"


def _rebound(function: Any, before: Any, after: Any) -> Any:
    """The same function with another agent in place of the one that it was made for."""
    cells = getattr(function, "__closure__", None) or ()
    made = tuple(CellType(after) if _content(cell) is before else cell for cell in cells)
    if not any(_content(cell) is after for cell in made):
        raise GuardError(f"the agent behind {before.name} as a tool cannot be replaced; {_KNOWN}")
    again = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, made)
    again.__kwdefaults__, again.__annotations__ = function.__kwdefaults__, function.__annotations__
    return again


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing in it yet
        return None
