"""What a breaker tried on graphs: each of these once ran something, ran it twice, or lost a decision."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from assentry.adapters.langchain import AssentryMiddleware
from assentry.adapters.langgraph import attach
from assentry.adapters.langgraph.tools import HELD
from assentry.core.request import State
from assentry.errors import GuardError
from tests.adapters.contract import DELETE, DONE, MAIL, House, Turn, house_of, turn
from tests.adapters.test_langchain import asking, model
from tests.adapters.test_langgraph import LangGraph, graph_of, scripted
from tests.stage import PATIENCE, until

CONFIG: Any = {"configurable": {"thread_id": "t1"}}
TASK: Any = {"messages": [("user", "go")]}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(LangGraph(tmp_path / "g.db"), str(tmp_path / "assentry.db"), wait=False) as made:
        yield made
        await made.rest()


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_middleware_that_asks_about_one_tool_switches_no_gate_off_for_others(house: House, mode: Any) -> None:
    gate = await house.opened()
    theirs = asking(mode, "send_mail")
    agent = create_agent(
        model([turn(DELETE), DONE], house.world), house.world.tools, middleware=[theirs], checkpointer=InMemorySaver()
    )
    await attach(gate, agent).ainvoke(TASK, CONFIG)
    (request,) = await house.waiting()
    assert request.candidate.action.name == "delete_file"
    assert house.world.did == []


def wrapped(how: str, node: ToolNode) -> Any:
    match how:
        case "fallbacks":
            return node.with_fallbacks([ToolNode(list(node.tools_by_name.values()))])
        case "config":
            return node.with_config(tags=["x"])
        case "retry":
            return node.with_retry(stop_after_attempt=3)
        case _:
            return node | (lambda said: said)


@pytest.mark.parametrize("how", ["fallbacks", "config", "retry", "sequence"])
async def test_tool_nodes_are_found_however_they_are_wrapped(house: House, how: str) -> None:
    gate = await house.opened()
    graph = StateGraph(MessagesState)
    graph.add_node("model", scripted([turn(DELETE), DONE], house.world))
    graph.add_node("tools", wrapped(how, ToolNode(house.world.tools)))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    made = attach(gate, graph.compile(checkpointer=InMemorySaver()))
    try:
        await made.ainvoke(TASK, CONFIG)
    except GuardError as problem:
        assert "swallowed" in str(problem)  # what falls back or tries again catches pauses as well  # noqa: PT017
    assert house.world.did == []
    assert len(await house.requests()) >= 1


async def test_a_graph_that_a_node_calls_by_itself_is_not_left_ungated(house: House) -> None:
    gate = await house.opened()
    inner = graph_of([turn(DELETE), DONE], house.world).compile()

    async def node(state: MessagesState) -> Any:
        return await inner.ainvoke(state)

    outer = StateGraph(MessagesState)
    outer.add_node("node", node)
    outer.add_edge(START, "node")
    with pytest.raises(GuardError, match="by itself"):
        attach(gate, outer.compile(checkpointer=InMemorySaver()))


@pytest.mark.parametrize("first", [True, False, None])
async def test_one_approval_is_one_attempt_whoever_would_try_again(house: House, first: bool | None) -> None:
    gate = await house.opened()
    retry = ToolRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)
    ours = [] if first is None else [AssentryMiddleware(gate)]
    middleware = [*ours, retry] if first else [retry, *ours]
    broken = Turn((("c-break", "break_down", {"path": "/x"}),))
    agent = create_agent(
        model([broken, DONE], house.world), house.world.tools, middleware=middleware, checkpointer=InMemorySaver()
    )
    work = house.start(attach(gate, agent, wait=True).ainvoke(TASK, CONFIG))
    await house.approve((await house.waiting())[0])
    await work
    assert house.world.did == ["break /x"]
    (request,) = await house.requests()
    assert request.state is State.FAILED


async def test_several_that_wait_in_one_node_are_all_decided_without_asyncio_too(house: House, tmp_path: Path) -> None:
    gate = await house.opened()
    calls = [{"id": f"c-{name}", "name": "delete_file", "args": {"path": name}} for name in "abc"]

    def delete_file(path: str) -> str:
        """Deletes a file for good."""
        house.world.did.append(path)
        return f"deleted {path}"

    def says(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=calls if len(state["messages"]) == 1 else [])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", says)
    graph.add_node("tools", ToolNode([delete_file]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    saver = house.closing.enter_context(SqliteSaver.from_conn_string(str(tmp_path / "sync.db")))
    await attach(gate, graph.compile(checkpointer=saver)).ainvoke(TASK, CONFIG)
    decided: set[str] = set()
    async with gate.worker(), asyncio.timeout(PATIENCE):
        while len(decided) < 3:
            # The pool of threads drops a call that it has not begun when another one stops; that one is asked later.
            for request in await house.waiting():
                path = str(request.candidate.action.args["path"])
                decided.add(path)
                match path:
                    case "a":
                        await house.deny(request, "keep a")
                    case "b":
                        await house.modify(request, path="d")
                    case _:
                        await house.approve(request)
        await house.ended()
    assert sorted(house.world.did) == ["c", "d"]


async def test_a_call_that_is_put_on_record_slowly_is_among_those_that_its_run_waits_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = await house.opened()
    propose, slow = gate.propose, {"send_mail"}

    async def stopped() -> bool:
        return bool(HELD)

    async def ended() -> bool:
        return not HELD

    async def proposed(action: str, *given: Any, **said: Any) -> Any:
        if action in slow:
            await until(stopped, "the call beside it never stopped")
            with suppress(AssertionError):  # the node, if it ends without waiting for this call, has ended by then
                await until(ended, seconds=0.3)
        return await propose(action, *given, **said)

    monkeypatch.setattr(gate, "propose", proposed)
    made = attach(gate, graph_of([turn(DELETE, MAIL), DONE], house.world).compile(checkpointer=InMemorySaver()))
    await made.ainvoke(TASK, CONFIG)
    by_name = {request.candidate.action.name: request for request in await house.waiting(2)}
    assert set((await house.run()).waits) == {request.id for request in by_name.values()}
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve(by_name["send_mail"])
        await house.in_state(by_name["send_mail"], State.DONE)
        slow.clear()
        await house.deny(by_name["delete_file"], "no")
        await house.ended()
    assert house.world.did == ["mail everyone@example.com sale"]


async def test_a_denial_is_not_overridden_by_what_a_program_resumes_with(house: House) -> None:
    gate = await house.opened()
    theirs = asking("batched", "delete_file")
    agent = create_agent(
        model([turn(DELETE), DONE], house.world), house.world.tools, middleware=[theirs], checkpointer=InMemorySaver()
    )
    made = attach(gate, agent)
    await made.ainvoke(TASK, CONFIG)
    await house.deny((await house.waiting())[0], "keep it")
    await made.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert house.world.did == []
    assert "keep it" in house.world.heard["c-delete"]


@pytest.mark.parametrize("id_of", ["another's", "nobody's"])
async def test_a_forged_interrupt_is_a_question_like_any_other(house: House, id_of: str) -> None:
    gate = await house.opened()
    other = await gate.propose("delete_file", {"path": "x"}, key="k")
    assert other.request is not None
    await house.deny(other.request, "no")
    known = other.request.id if id_of == "another's" else "00000000-0000-0000-0000-000000000000"
    did: list[str] = []

    def node(_: MessagesState) -> None:
        if interrupt({"assentry": {"request": known}}):
            did.append("acted")

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    await attach(gate, graph.compile(checkpointer=InMemorySaver())).ainvoke(TASK, CONFIG)
    (question,) = await house.waiting()
    assert question.ask.question is not None
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.answer(question, "no")
        await house.ended()
    assert did == []


async def test_a_step_back_uses_no_approval_twice(house: House) -> None:
    gate = await house.opened()
    theirs = asking("batched", "delete_file", "send_mail")
    agent = create_agent(
        model([turn(DELETE), turn(MAIL), DONE], house.world), house.world.tools, middleware=[theirs],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    made = attach(gate, agent)
    await made.ainvoke(TASK, CONFIG)
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        (mail,) = await house.waiting()
        assert mail.candidate.action.name == "send_mail"
        older = [each async for each in made.aget_state_history(CONFIG)][-2]
        with pytest.raises(GuardError, match="before you go back"):
            await made.ainvoke(None, older.config)
        await house.approve(mail)
        await house.ended()
    assert house.world.did == ["delete /srv/a", "mail everyone@example.com sale"]
    # Over, it is another run: whatever is taken again is asked again.
    await made.ainvoke(None, older.config)
    assert [each.candidate.action.name for each in await house.waiting()] == ["delete_file"]
    assert house.world.did == ["delete /srv/a", "mail everyone@example.com sale"]


async def test_an_id_that_is_used_again_runs_nothing_and_is_told_to_the_model(house: House) -> None:
    gate = await house.opened()
    again = ("c-delete", "delete_file", {"path": "/srv/other"})
    made = attach(gate, graph_of([turn(DELETE), turn(again), DONE], house.world).compile(checkpointer=InMemorySaver()))
    await made.ainvoke(TASK, CONFIG)
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        await house.ended()
    assert house.world.did == ["delete /srv/a"]
    assert "did not run" in house.world.heard["c-delete"]


async def test_what_a_tool_says_that_cannot_be_kept_is_no_failure(house: House) -> None:
    gate = await house.opened()

    async def delete_file(path: str) -> str:
        """Deletes a file for good."""
        house.world.did.append(path)
        return "gone \ud83d"

    graph = StateGraph(MessagesState)
    graph.add_node("model", scripted([turn(DELETE), DONE], house.world))
    graph.add_node("tools", ToolNode([delete_file]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    work = house.start(attach(gate, graph.compile(checkpointer=InMemorySaver()), wait=True).ainvoke(TASK, CONFIG))
    await house.approve((await house.waiting())[0])
    await asyncio.wait([work])
    (request,) = await house.requests()
    assert (request.state, house.world.did) == (State.DONE, ["/srv/a"])


async def test_what_a_worker_needs_of_a_thread_is_on_record_before_it_ever_parks(house: House) -> None:
    gate, started = await house.opened(), asyncio.Event()

    async def slow(_: MessagesState) -> None:
        started.set()
        await asyncio.Event().wait()

    graph = StateGraph(MessagesState)
    graph.add_node("slow", slow)
    graph.add_edge(START, "slow")
    house.start(attach(gate, graph.compile(checkpointer=InMemorySaver())).ainvoke(TASK, CONFIG))
    await started.wait()
    assert "t1" in str(await house.desk.store.snapshot("default", (await house.run()).id))


@pytest.mark.parametrize("awaited", [True, False])
async def test_our_own_errors_out_of_a_tool_are_its_errors(house: House, tmp_path: Path, awaited: bool) -> None:
    """It ran, so the model is not told that it did not."""
    gate = await house.opened()

    def delete_file(path: str) -> str:
        """Deletes a file for good."""
        house.world.did.append(path)
        raise GuardError("the disk is guarded")

    def says(state: MessagesState) -> dict[str, Any]:
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                house.world.heard[message.tool_call_id] = str(message.content)
        calls = [{"id": "c-1", "name": "delete_file", "args": {"path": "a"}}] if len(state["messages"]) == 1 else []
        return {"messages": [AIMessage("", tool_calls=calls)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", says)
    graph.add_node("tools", ToolNode([delete_file]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    sync = house.closing.enter_context(SqliteSaver.from_conn_string(str(tmp_path / "sync.db")))
    made = attach(gate, graph.compile(checkpointer=InMemorySaver() if awaited else sync), wait=True)
    work = house.start(made.ainvoke(TASK, CONFIG))
    await house.approve((await house.waiting())[0])
    await work
    assert house.world.did == ["a"]
    assert "the disk is guarded" in house.world.heard["c-1"]
    assert "did not run" not in house.world.heard["c-1"]
    (request,) = await house.requests()
    assert request.state is State.FAILED
