"""Code that changes under parked threads: it is noticed wherever it is, said, and nothing is lost by it."""

# ruff: noqa: F811  fixtures that are imported by name

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import assentry
from assentry.adapters.langgraph import attach
from assentry.adapters.langgraph.version import version_of
from assentry.core.run import Run, RunState
from assentry.errors import GuardError
from tests.adapters.contract import House
from tests.adapters.test_langgraph_hard import CONFIG, Texts, house  # noqa: F401  a fixture
from tests.stage import PATIENCE


def ask_old(_: Any) -> dict[str, Any]:
    first = interrupt("first?")
    second = interrupt("second?")
    return {"did": [f"first {first}", f"second {second}"]}


def ask_new(_: Any) -> dict[str, Any]:
    second = interrupt("second?")
    first = interrupt("first?")
    return {"did": [f"first {first}", f"second {second}"]}


def one(node: Any, saver: Any = None, name: str = "tester") -> Any:
    """A graph with one node."""
    builder = StateGraph(Texts)
    builder.add_node("ask", node)
    builder.add_edge(START, "ask")
    return builder.compile(checkpointer=saver, name=name)


def nested(ask: Any, saver: Any) -> Any:
    return one(one(one(ask)), saver)


def called(ask: Any, saver: Any) -> Any:
    inner = one(ask)

    def node(state: Texts) -> Any:
        return inner.invoke(state)

    return one(node, saver)


def kept(ask: Any, saver: Any) -> Any:
    box = SimpleNamespace(inner=one(ask))

    def node(state: Texts) -> Any:
        return box.inner.invoke(state)

    return one(node, saver)


def listed(ask: Any, saver: Any) -> Any:
    """Nobody sees by the node's own code which graph it calls."""
    inner = {"it": one(ask)}

    def node(state: Texts) -> Any:
        return inner["it"].invoke(state)

    return one(node, saver)


def owned(ask: Any, saver: Any) -> Any:
    class Agent:
        def __init__(self) -> None:
            self.inner = one(ask)

        def node(self, state: Texts) -> Any:
            return self.inner.invoke(state)

    return one(Agent().node, saver)


def helped(ask: Any, saver: Any) -> Any:
    def node(state: Texts) -> Any:
        return ask(state)

    return one(node, saver)


def routed(ask: Any, saver: Any) -> Any:
    def route(state: Texts) -> str:
        return "ask" if ask(state) else END

    builder = StateGraph(Texts)
    builder.add_node("ask", lambda _: {"did": []})
    builder.add_conditional_edges(START, route, ["ask", END])
    return builder.compile(checkpointer=saver, name="tester")


def tasked(ask: Any, saver: Any) -> Any:
    made = task(ask)

    @entrypoint(checkpointer=saver)
    def tester(state: Texts) -> Any:
        return made(state).result()

    return tester


MAKERS = (nested, called, kept, listed, owned, helped, routed, tasked)


@pytest.mark.parametrize("make", MAKERS)
def test_changed_code_is_another_version_wherever_it_is(make: Callable[..., Any]) -> None:
    first, again, other = (version_of(make(ask, InMemorySaver())) for ask in (ask_old, ask_old, ask_new))
    assert first == again
    assert first != other


def test_which_of_two_functions_a_third_node_calls_is_told_apart() -> None:
    def made(*asks: Any) -> Any:
        builder = StateGraph(Texts)
        for number, ask in enumerate(asks):
            builder.add_node(str(number), ask)
            builder.add_edge(START, str(number))
        return builder.compile()

    assert version_of(made(ask_old, ask_new, ask_old)) != version_of(made(ask_old, ask_new, ask_new))


@pytest.mark.proof
def test_a_version_is_the_same_in_every_process() -> None:
    words = (
        "from tests.adapters import test_langgraph_versions as t\n"
        "print(*(t.version_of(make(t.ask_old, t.InMemorySaver())) for make in t.MAKERS))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", words], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert said == {" ".join(version_of(make(ask_old, InMemorySaver())) for make in MAKERS) + "\n"}


async def parked(house: House, saver: InMemorySaver) -> Run:
    """A thread that has its first answer and waits for the second, and the process that began it is gone."""
    gate = assentry.open(house.database, agent="tester")
    made = attach(gate, nested(ask_old, saver))
    await made.ainvoke({"did": []}, CONFIG)
    (first,) = await house.waiting()
    await house.answer(first, "1")
    await made.ainvoke(None, CONFIG)
    assert [each.candidate.says for each in await house.waiting()] == ["second?"]
    run = await house.run()
    await gate.close()
    return run


async def test_a_worker_with_other_code_leaves_the_run_to_one_that_fits(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    saver = InMemorySaver()
    run = await parked(house, saver)
    await house.answer((await house.waiting())[0], "2")
    other, later = await house.opened(), await house.opened()
    newer = attach(other, nested(ask_new, saver))
    await newer.ainvoke({"did": []}, {"configurable": {"thread_id": "t2"}})
    (question,) = await house.waiting()
    with caplog.at_level(logging.WARNING, "assentry.worker"):
        async with other.worker(), asyncio.timeout(PATIENCE):
            # It has looked at both by the time it goes on with its own, and at the first one only once.
            await house.answer(question, "3")
            assert [each.candidate.says for each in await house.waiting()] == ["first?"]
    assert "has changed since" in caplog.text
    assert f"assentry run cancel {run.code}" in caplog.text
    assert len(caplog.records) == 1
    assert await house.desk.store.run("default", run.id) == run
    made = attach(later, nested(ask_old, saver))
    async with later.worker(), asyncio.timeout(PATIENCE):
        while (await house.desk.store.run("default", run.id)).state is not RunState.FINISHED:
            await asyncio.sleep(0.02)
    assert (await made.aget_state(CONFIG)).values["did"] == ["first 1", "second 2"]


@pytest.mark.parametrize("call", ["ainvoke", "invoke", "astream", "stream", "resume"])
async def test_whoever_goes_on_with_other_code_is_refused_and_changes_nothing(house: House, call: str) -> None:
    saver = InMemorySaver()
    run = await parked(house, saver)
    gate = await house.opened()
    made = attach(gate, nested(ask_new, saver))

    async def gone_on() -> None:
        match call:
            case "ainvoke":
                await made.ainvoke(None, CONFIG)
            case "invoke":
                await asyncio.to_thread(made.invoke, None, CONFIG)
            case "astream":
                [each async for each in made.astream(None, CONFIG)]
            case "stream":
                await asyncio.to_thread(lambda: list(made.stream(None, CONFIG)))
            case _:
                await made.ainvoke(Command(resume="2"), CONFIG)

    with pytest.raises(GuardError, match="has changed since") as refused:
        await gone_on()
    assert f"assentry run cancel {run.code}" in str(refused.value)
    assert await house.run() == run
    assert len(await house.waiting()) == 1
    # With the version that the refusal names, whoever knows better goes on.
    later = attach(await house.opened(), nested(ask_old, saver))
    assert later.version in str(refused.value)
    assert (await later.ainvoke(Command(resume="2"), CONFIG))["did"] == ["first 1", "second 2"]


async def test_a_cancelled_run_lets_its_thread_begin_anew_and_not_go_on(house: House) -> None:
    saver = InMemorySaver()
    run = await parked(house, saver)
    gate = await house.opened()
    made = attach(gate, nested(ask_new, saver))
    with pytest.raises(GuardError, match=f"waits for a person.*assentry run cancel {run.code}"):
        await made.ainvoke({"did": []}, CONFIG)
    await house.desk.oversight.stop(house.me, run)
    assert (await house.run()).state is RunState.STOPPED
    with pytest.raises(GuardError, match="begins anew"):
        await made.ainvoke(None, CONFIG)
    await made.ainvoke({"did": []}, CONFIG)
    (request,) = await house.waiting()
    assert request.candidate.says == "second?"


async def test_runs_that_other_code_parked_do_not_hide_those_behind_them(house: House) -> None:
    saver, gate = InMemorySaver(), assentry.open(house.database, agent="tester")
    made = attach(gate, nested(ask_old, saver))
    for number in range(3):
        await made.ainvoke({"did": []}, {"configurable": {"thread_id": f"old {number}"}})
    for request in await house.waiting(3):
        await house.answer(request, "1")
    await gate.close()
    later = await house.opened()
    newer = attach(later, nested(ask_new, saver))
    await newer.ainvoke({"did": []}, CONFIG)
    (request,) = await house.waiting()
    await house.answer(request, "2")
    async with later.worker(capacity=1), asyncio.timeout(PATIENCE):
        assert [each.candidate.says for each in await house.waiting()] == ["first?"]
