"""Every way that LangGraph offers to begin, to go on and to go back meets the request as it stands."""

import asyncio
import operator
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.runnables import Runnable
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt
from typing_extensions import TypedDict

from assentry.adapters.hosted import Ungated
from assentry.adapters.langgraph import AttachedGraph, attach
from assentry.adapters.langgraph.graphs import INSTEAD, READS
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.errors import Denied, GuardError, Parked
from tests.adapters.contract import House, house_of
from tests.adapters.test_langgraph import LangGraph
from tests.stage import PATIENCE

CONFIG: Any = {"configurable": {"thread_id": "t1"}}
GATED = {
    "invoke", "ainvoke", "stream", "astream", "update_state", "aupdate_state", "bulk_update_state",
    "abulk_update_state",
}  # fmt: skip
"""What passes the gate."""
MADE = {"version", "get_graph", "aget_graph"}
"""What is made without anything that runs."""


class Steps(TypedDict):
    did: Annotated[list[str], operator.add]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(LangGraph(tmp_path / "g.db"), str(tmp_path / "assentry.db"), wait=False) as made:
        yield made
        await made.rest()


def three(did: list[str], saver: Any = None, **stops: Any) -> Any:
    """One, two, three; what they do is counted."""
    builder = StateGraph(Steps)
    for name in ("one", "two", "three"):
        builder.add_node(name, lambda _, name=name: (did.append(name), {"did": [name]})[1])
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", "three")
    return builder.compile(checkpointer=saver or InMemorySaver(), name="tester", **stops)


def single(node: Any, **more: Any) -> Any:
    """One node, behind a breakpoint."""
    builder = StateGraph(Steps)
    builder.add_node("node", node, **more)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver(), interrupt_before=["node"], name="tester")


async def pending(house: House) -> list[str]:
    return [each.candidate.says for each in await house.requests() if each.state is State.PENDING]


# Its surface


def test_everything_that_langgraph_offers_is_gated_harmless_or_refused() -> None:
    """A new version of LangGraph with another method fails here: say on which list that is."""

    @entrypoint(checkpointer=InMemorySaver())
    def functional(text: str) -> str:
        return text

    for graph in (three([]), functional):
        offered = {name for name in dir(graph) if not name.startswith("_")}
        assert offered - READS - set(INSTEAD) - GATED - MADE == set()
    assert not READS & set(INSTEAD)
    own = {name for name in dir(AttachedGraph) if not name.startswith("_")}
    assert own | {"version"} == GATED | MADE


async def test_what_is_refused_says_what_to_use_instead(house: House) -> None:
    did: list[str] = []
    made = attach(await house.opened(), three(did))
    for name in INSTEAD:
        with pytest.raises(Ungated, match=r"would not pass the gate; .*(attach|call)"):
            getattr(made, name)
        assert not hasattr(made, name)
    for combined in (lambda: made | (lambda said: said), lambda: made.__ror__(lambda said: said)):
        with pytest.raises(Ungated, match="would not pass"):
            combined()
    with pytest.raises(TypeError):
        StateGraph(Steps).add_node("inner", made)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="has no"):
        made.something_new  # noqa: B018
    assert did == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_what_reads_hands_out_nothing_that_runs(house: House) -> None:
    did: list[str] = []
    made = attach(await house.opened(), three(did, cache=InMemoryCache()))
    await made.ainvoke({"did": []}, CONFIG)
    did.clear()
    for name in READS - {"aget_state", "aget_state_history", "clear_cache", "aclear_cache"}:
        found = getattr(made, name)
        if callable(found) and name.startswith("get_state"):
            found = found(CONFIG)
            found = list(found) if name.endswith("history") else found
        elif callable(found) and name.startswith(("get_", "config_schema")):
            found = found()
        assert not isinstance(found, Runnable), name
    made.clear_cache()
    await made.aclear_cache()
    assert (await made.aget_state(CONFIG)).values == {"did": ["one", "two", "three"]}
    assert [each async for each in made.aget_state_history(CONFIG)]
    drawn = [made.get_graph(), made.get_graph(xray=True), await made.aget_graph()]
    assert all("two" in each.draw_mermaid() for each in drawn)
    assert not [node for each in drawn for node in each.nodes.values() if node.data is not None]
    assert did == []


async def test_the_graph_inside_takes_no_step_past_the_gate(house: House) -> None:
    did: list[str] = []
    made = attach(await house.opened(), three(did), tools=False)
    inner = made._graph
    for call in (
        lambda: inner.invoke({"did": []}, CONFIG),
        lambda: inner.with_config(tags=["x"]).invoke({"did": []}, CONFIG),
        lambda: inner.batch([{"did": []}], CONFIG),
        lambda: list(inner.stream({"did": []}, CONFIG)),
        lambda: (inner | (lambda said: said)).invoke({"did": []}, CONFIG),
    ):
        with pytest.raises(GuardError, match="called past it"):
            call()
    assert did == []


# Breakpoints


@pytest.mark.parametrize("denied", [False, True])
@pytest.mark.parametrize("how", ["resume", "by id", "none", "goto", "jump", "update", "stream", "sync"])
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("late", [False, True])
async def test_no_way_of_going_on_passes_a_breakpoint(
    house: House, late: bool, where: str, how: str, denied: bool
) -> None:
    gate, did = await house.opened(), list[str]()
    stops: Any = {"interrupt_before": ["two"]} if where == "before" else {"interrupt_after": ["one"]}
    made = attach(gate, three(did, **({} if late else stops)))
    result = await made.ainvoke({"did": []}, CONFIG, **(stops if late else {}))
    (request,) = await house.waiting()
    if denied:
        await house.deny(request, "no further")
    inputs = {
        "resume": Command(resume=True), "by id": Command(resume={result["__interrupt__"][0].id: True}), "none": None,
        "goto": Command(goto="two"), "jump": Command(goto="three"), "update": Command(update={"did": ["x"]}),
    }  # fmt: skip
    for again in (False, True):  # in the run that waits, and once more after a denial has ended that
        if again and denied:
            with pytest.raises(Denied, match="no further"):
                await made.ainvoke(None, CONFIG)
        try:
            if how == "stream":
                assert [chunk async for chunk in made.astream(None, CONFIG)] == []
            elif how == "sync":
                await asyncio.to_thread(made.invoke, Command(resume=True), CONFIG)
            else:
                await made.ainvoke(inputs[how], CONFIG)
            assert not denied
        except (Parked, GuardError, Denied) as problem:
            assert denied or not isinstance(problem, Denied)  # noqa: PT017  either way, nothing ran
        assert did == ["one"]
    # An update would set the thread past its request, so there is none either.
    for update in (made.update_state, lambda *given: made.bulk_update_state(CONFIG, [])):
        with pytest.raises(GuardError, match="past that"):
            update(CONFIG, {"did": ["two"]}, "two")
    with pytest.raises(GuardError, match="past that"):
        await made.aupdate_state(CONFIG, {"did": ["two"]}, "two")
    with pytest.raises(GuardError, match="past that"):
        await made.abulk_update_state(CONFIG, [])
    if denied:
        assert await pending(house) == []
        return
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve(request)
        await house.ended()
    assert did == ["one", "two", "three"]
    assert await pending(house) == []


async def test_a_breakpoint_of_another_call_replaces_none(house: House) -> None:
    did: list[str] = []
    made = attach(await house.opened(), three(did, interrupt_before=["two"]))
    await made.ainvoke({"did": []}, CONFIG, interrupt_before=["three"])
    assert await pending(house) == ["Checkpoint: before two"]
    assert did == ["one"]


async def test_breakpoints_of_a_call_hold_for_calls_that_go_on_from_there(house: House) -> None:
    gate, did = await house.opened(), list[str]()
    made = attach(gate, three(did))
    await made.ainvoke({"did": []}, CONFIG, interrupt_before=["two", "three"])
    await _begun(made, None)
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        (request,) = await house.waiting()
        assert (request.candidate.says, did) == ("Checkpoint: before three", ["one", "two"])
        await house.deny(request, "no further")
        await house.ended(RunState.FAILED)
    assert did == ["one", "two"]


@pytest.mark.parametrize("where", ["before", "after"])
async def test_each_step_back_asks_anew_and_one_approval_takes_the_step_once(house: House, where: str) -> None:
    gate, did = await house.opened(), list[str]()
    stops: Any = {"interrupt_before": ["two"]} if where == "before" else {"interrupt_after": ["one"]}
    made = attach(gate, three(did, **stops))
    await made.ainvoke({"did": []}, CONFIG)
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        await house.ended()
    assert did == ["one", "two", "three"]
    older = next(each for each in made.get_state_history(CONFIG) if each.next == ("two",))
    for number in range(1, 3):
        await made.ainvoke(None, older.config)
        assert did.count("two") == number
        (request,) = await house.waiting()
        async with gate.worker(), asyncio.timeout(PATIENCE):
            await house.approve(request)
            await house.in_state(request.id, State.DONE)
            while (await made.aget_state(CONFIG)).next:
                await asyncio.sleep(0.02)
        assert did.count("two") == did.count("three") == number + 1
    assert await pending(house) == []
    # A fork that an update made stands at the breakpoint as well, as often as it is taken.
    forked = await made.aupdate_state(older.config, {"did": ["x"]}, "one")
    for _ in range(2):
        await made.ainvoke(None, forked)
        (request,) = await house.waiting()
        assert did.count("two") == 3
        await house.deny(request, "no")
        with pytest.raises(Denied):
            await made.ainvoke(None, CONFIG)
    assert did.count("two") == 3


@pytest.mark.parametrize("inside", ["question", "guarded"])
async def test_a_step_that_waits_inside_is_asked_about_once_and_hears_its_own_answer(house: House, inside: str) -> None:
    gate, did = await house.opened(), list[str]()

    @gate.guard(reversible=False)
    async def delete(path: str) -> str:
        did.append(f"delete {path}")
        return "gone"

    async def node(_: Steps) -> Any:
        did.append(f"heard {interrupt('sure?') if inside == 'question' else await delete('/x')}")

    made = attach(gate, single(node))
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await _begun(made, {"did": []})
        await house.approve((await house.waiting())[0])
        (request,) = await house.waiting()
        assert "checkpoint" not in request.candidate.says.lower()
        if inside == "question":
            await house.answer(request, "quite")
        else:
            await house.approve(request)
        await house.ended()
    assert did == (["heard quite"] if inside == "question" else ["delete /x", "heard gone"])
    assert len(await house.requests()) == 2


@pytest.mark.parametrize("by", ["policy", "program"])
async def test_a_step_that_failed_is_not_tried_again_under_the_same_approval(house: House, by: str) -> None:
    gate, did = await house.opened(), list[str]()

    def node(_: Steps) -> Any:
        did.append("tried")
        raise OSError("the disk is full")

    retry = {"retry_policy": RetryPolicy(max_attempts=3, initial_interval=0.01, retry_on=OSError)}
    made = attach(gate, single(node, **(retry if by == "policy" else {})))
    await _begun(made, {"did": []})
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        if by == "program":
            await house.ended(RunState.FAILED)
            await _begun(made, None)
        (request,) = await house.waiting()
        assert did == ["tried"]
        await house.deny(request, "that will do")
        await house.ended(RunState.FAILED)
    assert did == ["tried"]


async def test_breakpoints_of_graphs_inside_are_requests_too(house: House) -> None:
    gate, did = await house.opened(), list[str]()
    inner = three(did, None, interrupt_before=["two"])
    inner.checkpointer = None
    builder = StateGraph(Steps)
    builder.add_node("inner", inner)
    builder.add_node("last", lambda _: did.append("last"))
    builder.add_edge(START, "inner")
    builder.add_edge("inner", "last")
    made = attach(gate, builder.compile(checkpointer=InMemorySaver()))
    await made.ainvoke({"did": []}, CONFIG)
    assert await pending(house) == ["Checkpoint: before two"]
    await made.ainvoke(Command(resume=True), CONFIG)
    assert did == ["one"]
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        await house.ended()
    assert did == ["one", "two", "three", "last"]


async def test_breakpoints_that_cannot_be_held_are_refused(house: House) -> None:
    inner = three([], None, interrupt_before=["two"])

    async def node(state: Steps) -> Any:
        return await inner.ainvoke(state)

    builder = StateGraph(Steps)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    with pytest.raises(GuardError, match="breakpoints by itself"):
        attach(await house.opened(), builder.compile(checkpointer=InMemorySaver()), tools=False)


async def test_tasks_of_one_step_share_its_checkpoint(house: House) -> None:
    gate, did = await house.opened(), list[str]()
    builder = StateGraph(Steps)
    builder.add_node("plan", lambda _: did.append("plan"))
    builder.add_node("work", lambda said: did.append(f"work {said['did'][0]}"))
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda _: [Send("work", {"did": [each]}) for each in "abc"], ["work"])
    made = attach(gate, builder.compile(checkpointer=InMemorySaver(), interrupt_after=["plan"]))
    await made.ainvoke({"did": []}, CONFIG)
    assert await pending(house) == ["Checkpoint: after plan"]
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        await house.ended()
    assert sorted(did) == ["plan", "work a", "work b", "work c"]


async def test_without_asyncio_it_is_the_same(house: House, tmp_path: Path) -> None:
    gate, did = await house.opened(), list[str]()
    saver = house.closing.enter_context(SqliteSaver.from_conn_string(str(tmp_path / "sync.db")))
    made = attach(gate, three(did, saver, interrupt_before=["two"]))
    await made.ainvoke({"did": []}, CONFIG)
    await made.ainvoke(Command(resume=True), CONFIG)
    assert did == ["one"]
    async with gate.worker(), asyncio.timeout(PATIENCE):
        await house.approve((await house.waiting())[0])
        await house.ended()
    assert did == ["one", "two", "three"]


async def test_an_answer_to_nothing_is_no_answer_to_what_comes(house: House) -> None:
    def node(_: Steps) -> Any:
        return {"did": [str(interrupt("sure?"))]}

    builder = StateGraph(Steps)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    made = attach(await house.opened(), builder.compile(checkpointer=InMemorySaver()))
    with pytest.raises(GuardError, match="asks nothing now"):
        await made.ainvoke(Command(resume=True, goto="node"), CONFIG)


async def test_a_run_that_failed_leaves_nothing_pending(house: House) -> None:
    def fails(_: Steps) -> Any:
        raise OSError("the disk is full")

    builder = StateGraph(Steps)
    builder.add_node("fails", fails)
    builder.add_node("gated", lambda _: None)
    builder.add_edge(START, "fails")
    builder.add_edge(START, "gated")
    made = attach(await house.opened(), builder.compile(checkpointer=InMemorySaver(), interrupt_before=["gated"]))
    with pytest.raises(OSError, match="full"):
        await made.ainvoke({"did": []}, CONFIG)
    assert await pending(house) == []


async def _begun(made: AttachedGraph, input: Any) -> None:
    with suppress(Parked):
        await made.ainvoke(input, CONFIG)
