"""Which code a graph is: its nodes, how they follow each other, and the source of whatever they are made of.

What a node refers to counts as well where it is plain to see: graphs, tasks, tools, and functions of its own module.
Nothing here depends on the process: no addresses, no module names (`__main__` has another in a worker), no order of
sets.
"""

import inspect
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any

from langchain_core.runnables import Runnable, RunnableParallel, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from langgraph.func import _TaskFunction
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel


def version_of(graph: Pregel[Any, Any, Any, Any]) -> str:
    """The same for the same code; a thread that was parked goes on only with that."""
    return sha256(_Telling().graph(graph).encode()).hexdigest()[:16]


class _Telling:
    """What everything comes to in words. What was told once is only counted again, so that circles end."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, Any]] = {}  # the things too: an id is free again once its thing is gone

    def graph(self, graph: Pregel[Any, Any, Any, Any]) -> str:
        nodes = {str(name): self._node(node) for name, node in sorted(graph.nodes.items())}
        builder = getattr(graph, "builder", None)
        edges = sorted(map(str, getattr(builder, "edges", ())))
        joins = sorted(str((sorted(begins), end)) for begins, end in getattr(builder, "waiting_edges", ()))
        branches = [
            (str(start), str(name), self.thing(branch.path), sorted(map(str, (branch.ends or {}).items())))
            for start, found in sorted(getattr(builder, "branches", {}).items())
            for name, branch in sorted(found.items())
        ]
        return repr((nodes, edges, joins, branches))

    def _node(self, node: Any) -> str:
        return repr((self.thing(node.bound), self._all(node.subgraphs or ())))

    def thing(self, thing: Any) -> str:
        if told := self._told.get(id(thing)):
            return f"again {told[0]}"
        self._told[id(thing)] = len(self._told), thing
        if isinstance(thing, Pregel):
            return self.graph(thing)
        parts = list(_parts(thing))
        if parts:
            return repr((type(thing).__qualname__, [self.thing(each) for each in parts]))
        function = inspect.unwrap(getattr(thing, "__func__", thing))
        seen = self._all(_referred(function)) if isinstance(function, FunctionType) else []
        owner = getattr(getattr(thing, "__self__", None), "__dict__", {})
        held = self._all(each for _, found in sorted(owner.items()) for each in _code_in(found))
        return repr((_text(function), seen, held))

    def _all(self, things: Iterable[Any]) -> list[str]:
        return [self.thing(each) for each in things]


def _parts(thing: Any) -> Iterator[Any]:
    """What a runnable, a tool or a task is made of, in an order that is always the same."""
    match thing:
        case ToolNode():
            yield from (tool for _, tool in sorted(thing.tools_by_name.items()))
        case RunnableBindingBase():
            yield thing.bound
        case RunnableWithFallbacks():
            yield from (thing.runnable, *thing.fallbacks)
        case RunnableParallel():
            yield from (step for _, step in sorted(thing.steps__.items()))
        case partial() | _TaskFunction():
            yield thing.func
        case BaseTool() | Runnable():
            if isinstance(steps := getattr(thing, "steps", None), list):
                yield from steps
            first, *others = (getattr(thing, name, None) for name in ("func", "afunc", "coroutine"))
            # A `partial` beside a function only calls it in a thread.
            found = (first, *(each for each in others if not (first and isinstance(each, partial))))
            yield from filter(callable, found)


def _referred(function: FunctionType) -> Iterator[Any]:
    """What the function closes over or names that is code of the graph, by name."""
    named = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    for name in sorted({*named, *_names(function.__code__)}):
        if name in named:
            try:
                found = named[name].cell_contents
            except ValueError:  # nothing is there yet
                continue
        else:
            found = function.__globals__.get(name)
        yield from _code_in(found, function.__module__)


def _code_in(found: Any, module: str = "") -> Iterator[Any]:
    """What of it, or of what it holds, is code of the graph."""
    several = found.values() if isinstance(found, dict) else found if isinstance(found, list | tuple) else (found,)
    for each in several:
        own = isinstance(each, FunctionType) and each.__module__ == module
        if own or isinstance(each, Pregel | _TaskFunction | ToolNode | BaseTool):
            yield each


def _names(code: CodeType) -> Iterator[str]:
    """The names that the code uses, also inside of what it defines."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _text(thing: Any) -> str:
    """The source, of the function or of the class of the thing that is called; else what it is called."""
    for each in (thing, type(thing)):
        try:
            return inspect.getsource(each)
        except (TypeError, OSError):
            continue
    return type(thing).__qualname__
