"""A graph whose tools are proposed before they are called, and whose steps are taken through a gate.

That goes for its tool nodes and breakpoints, and for those of graphs inside it.

Where a tool node cannot be reached, the graph is refused: a gate that is silently missing is worse than none.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

from assentry.adapters.langgraph.steps import Steps
from assentry.adapters.langgraph.tools import GatedTools
from assentry.core.action import Declaration
from assentry.engine.gate import Gate
from assentry.errors import GuardError

_DEEP = 8
_ASKS_BY_ITSELF = "HumanInTheLoopMiddleware"


def gated_graph(
    graph: Pregel[Any, Any, Any, Any], steps: Steps, gate: Gate, effects: Mapping[str, Declaration] | None, tools: bool
) -> Any:
    """The same graph with its steps, and the calls of its tools, gated; the one that was given stays as it is."""
    return _Gating(GatedTools(gate, effects) if tools else None, steps).graph(graph)


class _Gating:
    def __init__(self, tools: GatedTools | None, steps: Steps) -> None:
        self._tools, self._steps = tools, steps

    def graph(self, graph: Pregel[Any, Any, Any, Any], *, inner: bool = False) -> Any:
        nodes = dict(graph.nodes)
        theirs = [
            owner
            for node in graph.nodes.values()
            for owner in _owners(getattr(node.bound, "__dict__", {}).get("func"))
            if type(owner).__name__ == _ASKS_BY_ITSELF
        ]
        for name, node in graph.nodes.items():
            made = self._runnable(node.bound, theirs)
            if made is not node.bound:
                nodes[name] = node.copy({"bound": made, **({"subgraphs": [made]} if isinstance(made, Pregel) else {})})
            elif self._tools is not None and any(map(_has_bare_tools, node.subgraphs or ())):
                raise GuardError(
                    f"the node {name} calls a graph with tools by itself, and those would not be judged; make that "
                    "graph with ToolNode(tools, **gated(gate)), or attach with tools=False"
                )
            elif any(map(_has_breakpoints, node.subgraphs or ())):
                raise GuardError(
                    f"the node {name} calls a graph with breakpoints by itself, and a resume would pass them; "
                    "add that graph as a node, or ask in it with interrupt(...)"
                )
        return self._steps.watched(graph, nodes, inner=inner)

    def _runnable(self, found: Any, theirs: list[Any]) -> Any:
        """The same with its tool nodes gated, however they are wrapped; the very same where there are none."""
        if isinstance(found, ToolNode):
            return self._node(found, theirs)
        if isinstance(found, Pregel):
            return self.graph(found, inner=True)
        if isinstance(found, RunnableBindingBase):
            made = self._runnable(found.bound, theirs)
            return found if made is found.bound else found.model_copy(update={"bound": made})
        if isinstance(found, RunnableWithFallbacks):
            parts = [self._runnable(each, theirs) for each in (found.runnable, *found.fallbacks)]
            if all(new is old for new, old in zip(parts, (found.runnable, *found.fallbacks), strict=True)):
                return found
            return found.model_copy(update={"runnable": parts[0], "fallbacks": parts[1:]})
        if isinstance(found, RunnableSequence):
            parts = [self._runnable(each, theirs) for each in found.steps]
            if all(new is old for new, old in zip(parts, found.steps, strict=True)):
                return found
            return found.model_copy(update={"first": parts[0], "middle": parts[1:-1], "last": parts[-1]})
        if isinstance(steps := getattr(found, "steps", None), list):
            parts = [self._runnable(each, theirs) for each in steps]
            if all(new is old for new, old in zip(parts, steps, strict=True)):
                return found
            made = copy(found)
            made.steps = parts
            return made
        return found

    def _node(self, node: ToolNode, others: list[Any]) -> ToolNode:
        if self._tools is None:
            return node
        theirs, theirs_async = node._wrap_tool_call, node._awrap_tool_call
        owners = [*_owners(theirs), *_owners(theirs_async)]
        if any(getattr(owner, "gates_calls", False) for owner in owners):
            return node
        if theirs is not None and theirs_async is None:
            raise GuardError(
                "a tool node of the graph has a wrap_tool_call and no awrap_tool_call; give it **gated(gate) instead, "
                "or attach with tools=False"
            )
        asking = [*others, *(owner for owner in owners if type(owner).__name__ == _ASKS_BY_ITSELF)]
        made = copy(node)
        made._wrap_tool_call = partial(_around, self._tools, theirs, asking)
        made._awrap_tool_call = partial(_around_async, self._tools, theirs_async, asking)
        # What a tool node calls is bound to the node that it was made for.
        made.func, made.afunc = made._func, made._afunc
        return made


def _has_bare_tools(graph: Any) -> bool:
    for node in getattr(graph, "nodes", {}).values():
        bound = node.bound
        if isinstance(bound, ToolNode):
            owners = [*_owners(bound._wrap_tool_call), *_owners(bound._awrap_tool_call)]
            if not any(getattr(owner, "gates_calls", False) for owner in owners):
                return True
        if any(map(_has_bare_tools, node.subgraphs or ())):
            return True
    return False


def _has_breakpoints(graph: Any) -> bool:
    if getattr(graph, "interrupt_before_nodes", ()) or getattr(graph, "interrupt_after_nodes", ()):
        return True
    nodes = getattr(graph, "nodes", {}).values()
    return any(_has_breakpoints(each) for node in nodes for each in node.subgraphs or ())


def _is_asked_about(asking: list[Any], request: Any) -> bool:
    """LangChain's own middleware asks a person about this very call, so that they are not asked twice."""
    for middleware in asking:
        config = getattr(middleware, "interrupt_on", {}).get(request.tool_call["name"])
        if config is None:
            continue
        when = config.get("when")
        if when is None or when(request):
            return True
    return False


def _around(tools: GatedTools, theirs: Any, asking: list[Any], request: Any, handler: Callable[[Any], Any]) -> Any:
    inner = handler if theirs is None else lambda changed: theirs(changed, handler)
    return inner(request) if _is_asked_about(asking, request) else tools.call(request, inner)


async def _around_async(
    tools: GatedTools, theirs: Any, asking: list[Any], request: Any, handler: Callable[[Any], Awaitable[Any]]
) -> Any:
    inner = handler if theirs is None else lambda changed: theirs(changed, handler)
    return await (inner(request) if _is_asked_about(asking, request) else tools.acall(request, inner))


def _owners(wrapper: Any, deep: int = 0) -> Iterator[Any]:
    """The objects whose methods a wrapper is made of: middleware, chained by closures."""
    if wrapper is None or deep > _DEEP:
        return
    if (owner := getattr(wrapper, "__self__", None)) is not None:
        yield owner
    if isinstance(wrapper, partial):
        yield from _owners(wrapper.func, deep + 1)
        for each in wrapper.args:
            if callable(each) or hasattr(each, "gates_calls"):
                yield each
                yield from _owners(each, deep + 1)
    for cell in getattr(wrapper, "__closure__", None) or ():
        found = cell.cell_contents
        for each in found if isinstance(found, list | tuple) else [found]:
            if callable(each):
                yield from _owners(each, deep + 1)
