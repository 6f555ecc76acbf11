"""LangGraph under Assentry: what waits for a person is an interrupt of the graph, and a request in the inbox.

`attach(gate, graph)` makes every thread of a graph a run. `gated(gate)` has a `ToolNode` propose each call. What a
graph asks by itself with `interrupt(...)` becomes a request too, and its answer goes back by the interrupt's id.
"""

from assentry.extras import needs

with needs("langgraph", __name__):
    from assentry.adapters.langgraph.graphs import AttachedGraph, attach
    from assentry.adapters.langgraph.tools import GatedTools, gated

__all__ = ["AttachedGraph", "GatedTools", "attach", "gated"]
