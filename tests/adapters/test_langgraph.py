"""LangGraph under Assentry: interrupts of graphs are requests, threads are runs, and answers go back by id."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

import assentry
from assentry.adapters.langgraph import AttachedGraph, attach
from assentry.errors import Parked
from tests.adapters.contract import Contract, Framework, Turn, World


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def scripted(turns: Sequence[Turn], world: World) -> Any:
    """A model that says the next turn of the script, by what it has said so far."""

    async def model(state: State) -> dict[str, Any]:
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                world.heard[message.tool_call_id] = str(message.content)
        said = sum(isinstance(message, AIMessage) for message in state["messages"])
        now = turns[said]
        calls = [{"id": each, "name": name, "args": args} for each, name, args in now.calls]
        return {"messages": [AIMessage(now.text, tool_calls=calls)]}

    return model


def graph_of(turns: Sequence[Turn], world: World) -> StateGraph[Any]:
    graph = StateGraph(State)
    graph.add_node("model", scripted(turns, world))
    graph.add_node("tools", ToolNode(world.tools, handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
    )
    graph.add_edge("tools", "model")
    return graph


class Thread:
    """A graph as the contract drives it."""

    def __init__(self, graph: AttachedGraph) -> None:
        self.graph = graph

    async def begin(self, task: str, key: str) -> Any:
        made = await self.graph.ainvoke({"messages": [("user", task)]}, {"configurable": {"thread_id": key}})
        if made.get("__interrupt__"):
            raise Parked("", "")
        return made["messages"][-1].content

    async def stream(self, task: str, key: str) -> list[Any]:
        config = {"configurable": {"thread_id": key}}
        return [chunk async for chunk in self.graph.astream({"messages": [("user", task)]}, config)]


class LangGraph:
    """Graphs of a model and its tools, on LangGraph's own SQLite checkpointer."""

    def __init__(self, file: Path) -> None:
        self._file, self._stack = file, AsyncExitStack()

    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> Thread:
        saver = await self._stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(self._file)))
        graph = graph_of(turns, world)
        if nested:
            inner = graph.compile(name="inner")
            graph = StateGraph(State)
            graph.add_node("inner", inner)
            graph.add_edge(START, "inner")
        return Thread(attach(gate, graph.compile(checkpointer=saver, name="tester"), wait=wait))

    async def close(self) -> None:
        await self._stack.aclose()


class TestLangGraph(Contract):
    @pytest.fixture
    def framework(self, tmp_path: Path) -> Framework:
        return LangGraph(tmp_path / "graph.db")
