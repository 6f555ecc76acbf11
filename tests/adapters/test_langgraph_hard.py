"""What goes wrong with graphs that wait: resumes without an id, swallowed pauses, replayed nodes, changed code."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import assentry
from assentry.adapters.langgraph import attach, gated
from assentry.core.briefing import brief
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.errors import GuardError, InvalidDecision
from tests.adapters.contract import DELETE, DONE, House, house_of, turn
from tests.adapters.test_langgraph import LangGraph, graph_of
from tests.stage import PATIENCE

CONFIG: Any = {"configurable": {"thread_id": "t1"}}


class Texts(TypedDict):
    did: Annotated[list[str], lambda old, new: [*old, *new]]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(LangGraph(tmp_path / "g.db"), str(tmp_path / "assentry.db"), wait=False) as made:
        yield made
        await made.rest()


def graph(*nodes: Callable[..., Any]) -> Any:
    """These nodes, one after the other."""
    builder = StateGraph(Texts)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    return builder.compile(checkpointer=InMemorySaver(), name="tester")


async def test_what_a_program_resumes_with_decides_nothing(house: House) -> None:
    gate = await house.opened()
    made = attach(gate, graph_of([turn(DELETE), DONE], house.world).compile(checkpointer=InMemorySaver()))
    await made.ainvoke({"messages": [("user", "go")]}, CONFIG)
    for resume in ("approve", {"decisions": [{"type": "approve"}]}, True, "approved"):
        result = await made.ainvoke(Command(resume=resume), CONFIG)
        assert result["__interrupt__"]
        assert house.world.did == []
    (request,) = await house.requests()
    await house.approve(request)
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.ended()
    assert house.world.did == ["delete /srv/a"]


async def test_nor_does_what_it_resumes_the_bare_graph_with(house: House) -> None:
    gate = await house.opened()
    made = attach(gate, graph_of([turn(DELETE), DONE], house.world).compile(checkpointer=InMemorySaver()))
    await made.ainvoke({"messages": [("user", "go")]}, CONFIG)
    with pytest.raises(GuardError, match="called past it"):
        await made._graph.ainvoke(Command(resume="approve"), CONFIG)
    assert house.world.did == []


async def test_a_resume_without_an_id_is_taken_only_where_one_interrupt_waits(house: House) -> None:
    def a(_: Texts) -> dict[str, Any]:
        return {"did": [f"a {interrupt('a?')}"]}

    def b(_: Texts) -> dict[str, Any]:
        return {"did": [f"b {interrupt('b?')}"]}

    builder = StateGraph(Texts)
    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")
    gate = await house.opened()
    made = attach(gate, builder.compile(checkpointer=InMemorySaver()))
    result = await made.ainvoke({"did": []}, CONFIG)
    with pytest.raises(GuardError, match="without an id"):
        await made.ainvoke(Command(resume="x"), CONFIG)
    first = result["__interrupt__"][0]
    await made.ainvoke(Command(resume={first.id: "by id"}), CONFIG)
    (left,) = [each for each in await house.requests() if each.state is State.PENDING]
    withdrawn = [each for each in await house.requests() if each.state is State.CANCELLED]
    assert [each.candidate.says for each in withdrawn] == [first.value]
    result = await made.ainvoke(Command(resume="the last"), CONFIG)
    assert sorted(result["did"]) == sorted([f"{first.value[0]} by id", f"{left.candidate.says[0]} the last"])


async def test_a_swallowed_pause_is_caught(house: House) -> None:
    gate = await house.opened()

    async def careless(_: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        tools = ToolNode(house.world.tools, **gated(gate))
        call = {"id": "c-1", "name": "delete_file", "args": {"path": "/srv/a"}, "type": "tool_call"}
        try:
            return dict(await tools.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, config))
        except Exception:
            return {"messages": [AIMessage("gone on regardless")]}

    builder = StateGraph(MessagesState)
    builder.add_node("careless", careless)
    builder.add_edge(START, "careless")
    made = attach(gate, builder.compile(checkpointer=InMemorySaver()))
    with pytest.raises(GuardError, match="swallowed"):
        await made.ainvoke({"messages": [("user", "go")]}, CONFIG)
    (request,) = await house.requests()
    assert request.state is State.CANCELLED
    assert (await house.run()).state is RunState.FAILED
    assert house.world.did == []


async def test_a_replayed_node_repeats_nothing_that_was_guarded(house: House) -> None:
    gate = await house.opened()
    did: list[str] = []

    @gate.guard(reversible=True, reach="local")
    async def note(text: str) -> str:
        did.append(f"note {text}")
        return text

    @gate.guard(reversible=False)
    async def delete_files(path: str) -> str:
        did.append(f"delete {path}")
        return path

    async def first(_: Texts) -> dict[str, Any]:
        await note("x")
        return {"did": [await delete_files("a")]}

    async def second(_: Texts) -> dict[str, Any]:
        await note("x")
        said = interrupt("sure?")
        # The same call as in the node before, and another one all the same.
        return {"did": [await delete_files("a"), str(said)]}

    made = attach(gate, graph(first, second))
    with pytest.raises(assentry.Parked):
        await made.ainvoke({"did": []}, CONFIG)
    async with gate.worker():
        await house.approve((await house.waiting())[0])
        (question,) = await house.waiting()
        assert question.candidate.says == "sure?"
        await house.answer(question, "quite")
        await house.approve((await house.waiting())[0])
        async with asyncio.timeout(PATIENCE):
            await house.ended()
    assert did == ["note x", "delete a", "note x", "delete a"]
    assert (await made.aget_state(CONFIG)).values["did"] == ["a", "a", "quite"]


async def test_the_agent_inboxs_shape_is_a_card_and_gets_its_own_answers(house: House) -> None:
    def human(action: str, path: str) -> dict[str, Any]:
        config = {"allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True}
        return {"action_request": {"action": action, "args": {"path": path}}, "config": config, "description": "# Look"}

    def ask(_: Texts) -> dict[str, Any]:
        found = [interrupt([human("delete_file", name)])[0] for name in ("a", "b", "c")]
        return {"did": [json.dumps(each, sort_keys=True) for each in found]}

    gate = await house.opened()
    made = attach(gate, graph(ask))
    await made.ainvoke({"did": []}, CONFIG)
    async with gate.worker():
        (first,) = await house.waiting()
        assert (first.candidate.action.name, first.candidate.action.args) == ("delete_file", {"path": "a"})
        assert first.ask.claims == {"why": "# Look"}
        await house.approve(first)
        await house.modify((await house.waiting())[0], path="z")
        await house.deny((await house.waiting())[0], "keep c")
        async with asyncio.timeout(PATIENCE):
            await house.ended()
    said = [json.loads(each) for each in (await made.aget_state(CONFIG)).values["did"]]
    assert said[0] == {"type": "accept", "args": None}
    assert said[1] == {"type": "edit", "args": {"action": "delete_file", "args": {"path": "z"}}}
    assert said[2]["type"] == "response"
    assert "keep c" in said[2]["args"]


async def test_what_the_agent_inbox_does_not_allow_is_not_offered(house: House) -> None:
    def ask(_: Texts) -> dict[str, Any]:
        config = {"allow_accept": True, "allow_edit": False, "allow_respond": False, "allow_ignore": True}
        asked = {"action_request": {"action": "delete_file", "args": {"path": "a"}}, "config": config}
        return {"did": [json.dumps(interrupt([asked])[0])]}

    gate = await house.opened()
    made = attach(gate, graph(ask))
    await made.ainvoke({"did": []}, CONFIG)
    async with gate.worker():
        (request,) = await house.waiting()
        card = brief(request, datetime.now(UTC))
        assert (card.editable, card.can_send_back) == (False, False)
        assert any("no words" in each for each in card.why)
        with pytest.raises(InvalidDecision, match="allows no changes"):
            await house.modify(request, path="z")
        with pytest.raises(InvalidDecision, match="hears no words"):
            await house.inbox.revise(house.me, request.id, "another one", seen_digest=request.shown_digest)
        await house.deny(request, "keep it")
        async with asyncio.timeout(PATIENCE):
            await house.ended()
    assert (await made.aget_state(CONFIG)).values["did"] == ['{"type": "ignore", "args": null}']


async def test_a_tool_that_asks_inside_starts_again_and_is_asked_about_once(house: House) -> None:
    gate = await house.opened()
    did: list[str] = []

    def note(text: str) -> str:
        """Adds a line to a list."""
        did.append(f"{text} {interrupt('Which list?')}")
        return "noted"

    def model(state: MessagesState) -> dict[str, Any]:
        calls = [{"id": "c-1", "name": "note", "args": {"text": "milk"}}] if len(state["messages"]) == 1 else []
        return {"messages": [AIMessage("", tool_calls=calls)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([note], **gated(gate)))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    made = attach(gate, builder.compile(checkpointer=InMemorySaver()))
    await made.ainvoke({"messages": [("user", "go")]}, CONFIG)
    async with gate.worker():
        (question,) = await house.waiting()
        await house.answer(question, "shopping")
        async with asyncio.timeout(PATIENCE):
            await house.ended()
    assert did == ["milk shopping"]
    assert len(await house.requests()) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "async postgres"])
async def test_checkpointers_with_and_without_asyncio(
    house: House, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def ask(_: Texts) -> dict[str, Any]:
        return {"did": [str(interrupt("which?"))]}

    gate, builder = await house.opened(), graph(ask).builder
    if kind == "async postgres":
        url = request.getfixturevalue("postgres_database")
        saver: Any = await house.closing.enter_async_context(AsyncPostgresSaver.from_conn_string(url))
        await saver.setup()
    else:
        address = tmp_path / "sync.db" if kind == "sqlite" else request.getfixturevalue("postgres_database")
        opened: Any = SqliteSaver if kind == "sqlite" else PostgresSaver
        saver = house.closing.enter_context(opened.from_conn_string(str(address)))
        await asyncio.to_thread(saver.setup)
    made = attach(gate, builder.compile(checkpointer=saver))
    result = await made.ainvoke({"did": []}, CONFIG)
    assert result["__interrupt__"]
    async with gate.worker():
        await house.answer((await house.waiting())[0], "this one")
        async with asyncio.timeout(PATIENCE):
            run = await house.ended()
    assert run.outcome == {"did": ["this one"]}


async def test_without_asyncio(house: House, tmp_path: Path) -> None:
    gate = await house.opened()

    def delete_file(path: str) -> str:
        """Deletes a file for good."""
        house.world.did.append(f"delete {path}")
        return "gone"

    def model(state: MessagesState) -> dict[str, Any]:
        calls = [{"id": "c-1", "name": "delete_file", "args": {"path": "a"}}] if len(state["messages"]) == 1 else []
        return {"messages": [AIMessage("", tool_calls=calls)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([delete_file], **gated(gate)))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    saver = house.closing.enter_context(SqliteSaver.from_conn_string(str(tmp_path / "sync.db")))
    made = attach(gate, builder.compile(checkpointer=saver), wait=True)
    work = house.start(asyncio.to_thread(lambda: list(made.stream({"messages": [("user", "go")]}, CONFIG))))
    await house.approve((await house.waiting())[0])
    assert any("tools" in chunk for chunk in await work)
    assert house.world.did == ["delete a"]


async def test_a_killed_process_loses_nothing(house: House, tmp_path: Path) -> None:
    words = [sys.executable, str(Path(__file__).with_name("langgraph_process.py")), house.database, str(tmp_path)]
    first = await asyncio.create_subprocess_exec(*words, "begin", stdout=asyncio.subprocess.PIPE)
    assert first.stdout is not None
    assert await first.stdout.readline() == b"parked\n"
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await house.approve((await house.waiting())[0])
    second = await asyncio.create_subprocess_exec(*words, "work", stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(PATIENCE):
            run = await house.ended()
    finally:
        second.kill()
        await second.wait()
    assert (tmp_path / "did").read_text() == "note first\nmail everyone\n"
    assert run.outcome is not None


async def test_a_thread_that_waits_takes_no_other_input_and_a_graph_needs_a_checkpointer(house: House) -> None:
    def ask(_: Texts) -> dict[str, Any]:
        return {"did": [str(interrupt("which?"))]}

    gate, compiled = await house.opened(), graph(ask)
    made = attach(gate, compiled)
    await made.ainvoke({"did": []}, CONFIG)
    with pytest.raises(GuardError, match="waits for a person"):
        await made.ainvoke({"did": ["other"]}, CONFIG)
    with pytest.raises(GuardError, match="thread_id"):
        await made.ainvoke({"did": []})
    with pytest.raises(GuardError, match="checkpointer"):
        attach(gate, compiled.builder.compile(), name="other")
