"""LangGraph's PostgreSQL checkpointers and Assentry in one database, whichever was there first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from assentry.adapters.langgraph import attach
from assentry.core.request import State
from tests.adapters.contract import House, house_of
from tests.adapters.test_langgraph import LangGraph
from tests.stage import PATIENCE
from tests.stores.logins import owner_login

TASK: Any = {"messages": [("user", "tidy up")]}


class Texts(TypedDict):
    did: Annotated[list[str], lambda old, new: [*old, *new]]


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def asking() -> Any:
    """A graph of one node, which asks by itself."""

    def ask(_: Texts) -> dict[str, Any]:
        return {"did": [str(interrupt("which?"))]}

    builder = StateGraph(Texts)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder


def deleting(did: list[str]) -> Any:
    """A graph of a model and its tool, which deletes a file; for checkpointers with and without asyncio."""

    def delete_file(path: str) -> str:
        """Deletes a file for good."""
        did.append(path)
        return "gone"

    def model(state: MessagesState) -> dict[str, Any]:
        calls = [{"id": "c-1", "name": "delete_file", "args": {"path": "a"}}] if len(state["messages"]) == 1 else []
        return {"messages": [AIMessage("", tool_calls=calls)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([delete_file]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    return builder


# A login called as the product has PostgreSQL look in a schema of that name before `public`.
@pytest.fixture(params=["an_app", "assentry"])
def shared(request: pytest.FixtureRequest, postgres_database: str) -> str:
    """The address of one database for both, with a login that owns it."""
    return owner_login(postgres_database, request.param)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


async def saver_at(stack: AsyncExitStack, url: str, kind: str) -> Any:
    if kind == "async":
        saver: Any = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(url))
        await saver.setup()
    else:
        saver = stack.enter_context(PostgresSaver.from_conn_string(url))
        await asyncio.to_thread(saver.setup)
    return saver


async def said(graph: Any, given: Any, name: str) -> Any:
    """What the graph came back with, without Assentry."""
    if isinstance(graph.checkpointer, AsyncPostgresSaver):
        return await graph.ainvoke(given, thread(name))
    return await asyncio.to_thread(graph.invoke, given, thread(name))


async def messages(graph: Any, name: str) -> Any:
    if isinstance(graph.checkpointer, AsyncPostgresSaver):
        return (await graph.aget_state(thread(name))).values["messages"]
    return (await asyncio.to_thread(graph.get_state, thread(name))).values["messages"]


@pytest.mark.parametrize("first", ["LangGraph", "Assentry"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_both_work_in_one_database_whichever_was_there_first(
    stack: AsyncExitStack, shared: str, kind: str, first: str, tmp_path: Path
) -> None:
    async def opened() -> House:
        return await stack.enter_async_context(house_of(LangGraph(tmp_path / "g.db"), shared, wait=False))

    if first == "LangGraph":
        # A thread waits in LangGraph's tables before any of ours is there.
        saver = await saver_at(stack, shared, kind)
        assert (await said(asking().compile(checkpointer=saver), {"did": []}, "before"))["__interrupt__"]
        house = await opened()
    else:
        house = await opened()
        # A signed checkpoint is in our table of that name before any of theirs is there.
        assert await house.desk.notary.seal() is not None
        saver = await saver_at(stack, shared, kind)
        assert (await said(asking().compile(checkpointer=saver), {"did": []}, "before"))["__interrupt__"]

    # With another connection of each, as in another process later on.
    saver = await saver_at(stack, shared, kind)
    plain = asking().compile(checkpointer=saver)
    assert (await said(plain, Command(resume="this one"), "before"))["did"] == ["this one"]
    gate = await house.opened()
    held = attach(gate, deleting(house.world.did).compile(checkpointer=saver))
    assert (await held.ainvoke(TASK, thread("held")))["__interrupt__"]
    assert (await said(plain, {"did": []}, "beside"))["__interrupt__"]
    async with gate.worker():
        (request,) = await house.waiting()
        await house.approve(request)
        async with asyncio.timeout(PATIENCE):
            await house.ended()
    assert house.world.did == ["a"]
    assert [each.type for each in await messages(held, "held")] == ["human", "ai", "tool", "ai"]
    assert (await said(plain, Command(resume="that one"), "beside"))["did"] == ["that one"]
    assert (await house.desk.store.request("default", request.id)).state is State.DONE  # type: ignore[union-attr]
    assert await house.desk.notary.seal() is not None
    assert (await house.desk.notary.verify()).ok

    with psycopg.connect(shared) as connection:
        found = connection.execute(
            "SELECT schemaname FROM pg_tables WHERE tablename = 'checkpoints' ORDER BY schemaname"
        ).fetchall()
        assert found == [("assentry_data",), ("public",)]
        assert connection.execute("SELECT to_regclass('checkpoints') = 'public.checkpoints'::regclass").fetchone() == (
            True,
        )
