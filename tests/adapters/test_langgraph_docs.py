"""The human-in-the-loop examples of LangGraph's documentation, retyped, with the inbox attached and nothing changed."""

import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from assentry.adapters.langgraph import AttachedGraph, attach
from assentry.core.run import RunState
from tests.adapters.contract import House, house_of
from tests.adapters.test_langgraph import LangGraph

CONFIG: Any = {"configurable": {"thread_id": "some-id"}}


@pytest.fixture(params=["waits", "parks"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    wait = request.param == "waits"
    async with house_of(LangGraph(tmp_path / "g.db"), str(tmp_path / "assentry.db"), wait=wait) as made:
        yield made
        await made.rest()


async def attached(house: House, graph: Any, **more: Any) -> AttachedGraph:
    gate = await house.opened()
    made = attach(gate, graph, wait=house.wait, **more)
    if not house.wait:
        await house.closing.enter_async_context(gate.worker())
    return made


async def values(house: House, graph: AttachedGraph) -> Any:
    """What the thread came to, once it has ended."""
    await house.ended()
    return (await graph.aget_state(CONFIG)).values


@pytest.mark.parametrize(("typed", "status"), [("yes", "approved"), ("no", "rejected"), ("false", "rejected")])
async def test_approve_or_reject(house: House, typed: str, status: str) -> None:
    class ApprovalState(TypedDict):
        action_details: str
        status: Literal["pending", "approved", "rejected"] | None

    def approval_node(state: ApprovalState) -> Command[Literal["proceed", "cancel"]]:
        decision = interrupt({"question": "Approve this action?", "details": state["action_details"]})
        return Command(goto="proceed" if decision else "cancel")

    builder = StateGraph(ApprovalState)
    builder.add_node("approval", approval_node)
    builder.add_node("proceed", lambda _: {"status": "approved"})
    builder.add_node("cancel", lambda _: {"status": "rejected"})
    builder.add_edge(START, "approval")
    builder.add_edge("proceed", END)
    builder.add_edge("cancel", END)
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver()))
    house.start(graph.ainvoke({"action_details": "Transfer $500", "status": "pending"}, CONFIG))
    (request,) = await house.waiting()
    assert request.candidate.says == "Approve this action?"
    card = await house.inbox.brief(request.id)
    assert "Transfer $500" in card.shown["details"]
    await house.answer(request, typed)
    assert (await values(house, graph))["status"] == status


async def test_a_question_that_is_denied_is_answered_with_false(house: House) -> None:
    class State(TypedDict):
        status: str

    builder = StateGraph(State)
    builder.add_node("ask", lambda _: {"status": "went on" if interrupt("Go on?") else "stayed"})
    builder.add_edge(START, "ask")
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver()))
    house.start(graph.ainvoke({"status": ""}, CONFIG))
    await house.deny((await house.waiting())[0], "not now")
    assert (await values(house, graph))["status"] == "stayed"


async def test_review_and_edit_state(house: House) -> None:
    class ReviewState(TypedDict):
        generated_text: str

    def review_node(state: ReviewState) -> dict[str, str]:
        updated = interrupt({"instruction": "Review and edit this content", "content": state["generated_text"]})
        return {"generated_text": updated}

    builder = StateGraph(ReviewState)
    builder.add_node("review", review_node)
    builder.add_edge(START, "review")
    builder.add_edge("review", END)
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver()))
    house.start(graph.ainvoke({"generated_text": "Initial draft"}, CONFIG))
    (request,) = await house.waiting()
    assert request.candidate.says == "Review and edit this content"
    await house.answer(request, "Improved draft after review")
    assert (await values(house, graph))["generated_text"] == "Improved draft after review"


async def test_interrupts_in_tools(house: House) -> None:
    sent: list[str] = []

    @tool
    def send_email(to: str, subject: str, body: str) -> str:
        """Send an email to a recipient."""
        response = interrupt(
            {
                "action": "send_email",
                "to": to,
                "subject": subject,
                "body": body,
                "message": "Approve sending this email?",
            }
        )
        if response.get("action") == "approve":
            sent.append(response.get("to", to))
            return f"Email sent to {response.get('to', to)}"
        return "Email cancelled by user"

    def agent_node(state: MessagesState) -> dict[str, Any]:
        if len(state["messages"]) > 1:
            return {"messages": [AIMessage("done")]}
        call = {"id": "1", "name": "send_email", "args": {"to": "alice@example.com", "subject": "Hi", "body": "Hello"}}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent_node)
    builder.add_node("tools", ToolNode([send_email]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "agent")
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver()), tools=False)
    house.start(graph.ainvoke({"messages": [("user", "Mail Alice")]}, CONFIG))
    (request,) = await house.waiting()
    assert request.candidate.says == "Approve sending this email?"
    await house.answer(request, '{"action": "approve", "to": "bob@example.com"}')
    assert (await values(house, graph))["messages"][-2].content == "Email sent to bob@example.com"
    assert sent == ["bob@example.com"]


async def test_validating_human_input(house: House) -> None:
    class FormState(TypedDict):
        age: int | None

    def get_age_node(_: FormState) -> dict[str, int]:
        prompt = "What is your age?"
        while True:
            answer = interrupt(prompt)
            if isinstance(answer, int) and answer > 0:
                return {"age": answer}
            prompt = f"'{answer}' is not a valid age. Please enter a positive number."

    builder = StateGraph(FormState)
    builder.add_node("collect_age", get_age_node)
    builder.add_edge(START, "collect_age")
    builder.add_edge("collect_age", END)
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver()))
    house.start(graph.ainvoke({"age": None}, CONFIG))
    await house.answer((await house.waiting())[0], "thirty")
    (request,) = await house.waiting()
    assert request.candidate.says.startswith("'thirty' is not a valid age")
    await house.answer(request, "30")
    assert (await values(house, graph))["age"] == 30


async def test_parallel_interrupts_are_answered_by_id(house: House) -> None:
    class State(TypedDict):
        vals: Annotated[list[str], operator.add]

    builder = StateGraph(State)
    builder.add_node("a", lambda _: {"vals": [f"a:{interrupt('question_a')}"]})
    builder.add_node("b", lambda _: {"vals": [f"b:{interrupt('question_b')}"]})
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver()))
    house.start(graph.ainvoke({"vals": []}, CONFIG))
    found = {each.candidate.says: each for each in await house.waiting(2)}
    await house.answer(found["question_b"], "second")
    await house.answer(found["question_a"], "first")
    assert sorted((await values(house, graph))["vals"]) == ["a:first", "b:second"]


@pytest.mark.parametrize("late", [False, True])
async def test_static_breakpoints(house: House, late: bool) -> None:
    class State(TypedDict):
        input: str

    did: list[str] = []
    builder = StateGraph(State)
    for name in ("step_1", "step_2", "step_3"):
        builder.add_node(name, lambda _, name=name: did.append(name))
    builder.add_edge(START, "step_1")
    builder.add_edge("step_1", "step_2")
    builder.add_edge("step_2", "step_3")
    stops: Any = {"interrupt_before": ["step_3"]}
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver(), **({} if late else stops)))
    house.start(graph.ainvoke({"input": "hello"}, CONFIG, **(stops if late else {})))
    (request,) = await house.waiting()
    assert request.candidate.says == "Checkpoint: before step_3"
    assert did == ["step_1", "step_2"]
    await house.approve(request)
    await house.ended()
    assert did == ["step_1", "step_2", "step_3"]


async def test_a_breakpoint_that_is_denied_goes_no_further(house: House) -> None:
    class State(TypedDict):
        input: str

    did: list[str] = []
    builder = StateGraph(State)
    builder.add_node("one", lambda _: did.append("one"))
    builder.add_node("two", lambda _: did.append("two"))
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    graph = await attached(house, builder.compile(checkpointer=InMemorySaver(), interrupt_after=["one"]))
    house.start(graph.ainvoke({"input": "hello"}, CONFIG))
    await house.deny((await house.waiting())[0], "no further")
    await house.ended(RunState.FAILED)
    assert did == ["one"]


async def test_the_functional_api(house: House) -> None:
    did: list[str] = []

    @task
    def step_1(text: str) -> str:
        did.append("step_1")
        return f"{text} bar"

    @task
    def human_feedback(text: str) -> str:
        return f"{text} {interrupt(f'Please provide feedback: {text}')}"

    @entrypoint(checkpointer=InMemorySaver())
    def graph(text: str) -> str:
        return human_feedback(step_1(text).result()).result()

    made = await attached(house, graph)
    work = house.start(made.ainvoke("foo", CONFIG))
    (request,) = await house.waiting()
    assert request.candidate.says == "Please provide feedback: foo bar"
    await house.answer(request, "baz")
    run = await house.ended()
    assert did == ["step_1"]  # what was done is not done again
    assert run.outcome == "foo bar baz"
    if house.wait:
        assert await work == "foo bar baz"
