"""A graph whose tools are proposed before they are called: its tool nodes, and those of graphs inside it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any

from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

from assent.adapters.langgraph.tools import GatedTools
from assent.core.action import Declaration
from assent.engine.gate import Gate
from assent.errors import GuardError

_DEEP = 8
_ASKS_BY_ITSELF = "HumanInTheLoopMiddleware"


def gated_graph(graph: Pregel[Any, Any, Any, Any], gate: Gate, effects: Mapping[str, Declaration] | None) -> Any:
    """The same graph with the calls of its tools proposed; the one that was given stays as it is."""
    nodes, tools = dict(graph.nodes), GatedTools(gate, effects)
    for name, node in graph.nodes.items():
        if isinstance(node.bound, ToolNode):
            nodes[name] = node.copy({"bound": _gated(node.bound, tools)})
        elif isinstance(node.bound, Pregel):
            inner = gated_graph(node.bound, gate, effects)
            nodes[name] = node.copy({"bound": inner, "subgraphs": [inner]})
    made = copy(graph)
    made.nodes = nodes
    return made


def _gated(node: ToolNode, tools: GatedTools) -> ToolNode:
    theirs, theirs_async = node._wrap_tool_call, node._awrap_tool_call
    for owner in (*_owners(theirs), *_owners(theirs_async)):
        if getattr(owner, "gates_calls", False) or type(owner).__name__ == _ASKS_BY_ITSELF:
            return node  # whoever asks already is not asked twice
    if theirs is not None and theirs_async is None:
        raise GuardError(
            "a tool node of the graph has a wrap_tool_call and no awrap_tool_call; give it **gated(gate) instead, or "
            "attach with tools=False"
        )
    made = copy(node)
    made._wrap_tool_call = tools.call if theirs is None else partial(_around, tools, theirs)
    made._awrap_tool_call = tools.acall if theirs_async is None else partial(_around_async, tools, theirs_async)
    # What a tool node calls is bound to the node that it was made for.
    made.func, made.afunc = made._func, made._afunc
    return made


def _around(tools: GatedTools, theirs: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
    return tools.call(request, lambda changed: theirs(changed, handler))


async def _around_async(tools: GatedTools, theirs: Any, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
    return await tools.acall(request, lambda changed: theirs(changed, handler))


def _owners(wrapper: Any, deep: int = 0) -> Iterator[Any]:
    """The objects whose methods a wrapper is made of: middleware, chained by closures."""
    if wrapper is None or deep > _DEEP:
        return
    if (owner := getattr(wrapper, "__self__", None)) is not None:
        yield owner
    if isinstance(wrapper, partial):
        yield from _owners(wrapper.func, deep + 1)
    for cell in getattr(wrapper, "__closure__", None) or ():
        found = cell.cell_contents
        for each in found if isinstance(found, list | tuple) else [found]:
            if callable(each):
                yield from _owners(each, deep + 1)
