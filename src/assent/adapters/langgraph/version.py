"""Which code a graph is: its nodes, how they follow each other, and the source of what they call."""

import inspect
from hashlib import sha256
from typing import Any


def version_of(graph: Any) -> str:
    """The same for the same code; a thread that was parked goes on only with that."""
    nodes = sorted((str(name), _source(getattr(node, "bound", node))) for name, node in graph.nodes.items())
    builder = getattr(graph, "builder", None)
    edges = sorted(map(str, getattr(builder, "edges", ())))
    return sha256(repr((nodes, edges)).encode()).hexdigest()[:16]


def _source(bound: Any) -> str:
    """The source of what a node calls, as far as it can be had; of a tool node, of its tools."""
    if isinstance(tools := getattr(bound, "tools_by_name", None), dict):
        return "; ".join(f"{name} {_text(_function(each))}" for name, each in sorted(tools.items()))
    if steps := getattr(bound, "steps", None):
        return "; ".join(_source(each) for each in steps)
    return _text(_function(bound))


def _function(thing: Any) -> Any:
    for name in ("func", "afunc", "coroutine", "function"):
        if callable(found := getattr(thing, name, None)):
            return found
    return thing


def _text(function: Any) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (TypeError, OSError):
        return type(function).__qualname__
