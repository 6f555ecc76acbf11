"""LangChain's agents under Assentry: the middleware that takes the place of theirs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolErrorMiddleware
from langchain.tools import tool as as_tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import assentry
from assentry.adapters.langchain import AssentryMiddleware, attach
from assentry.core.briefing import brief
from assentry.core.canonical import canonical
from assentry.errors import GuardError, InvalidDecision
from tests.adapters.contract import DELETE, MAIL, Contract, Framework, House, Turn, World, house_of
from tests.adapters.test_langgraph import Thread

CONFIG: Any = {"configurable": {"thread_id": "t1"}}


class Scripted(GenericFakeChatModel):
    """A model that says the next turn of the script, by what it has said so far."""

    turns: list[Any]
    world: Any

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        for message in messages:
            if isinstance(message, ToolMessage):
                self.world.heard[message.tool_call_id] = str(message.content)
        now = self.turns[sum(isinstance(message, AIMessage) for message in messages)]
        calls = [{"id": each, "name": name, "args": args} for each, name, args in now.calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(now.text, tool_calls=calls))])

    def _stream(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def model(turns: Sequence[Turn], world: World) -> Scripted:
    return Scripted(messages=iter([]), turns=list(turns), world=world)


class LangChain:
    """Agents as `create_agent` makes them."""

    def __init__(self, file: Path) -> None:
        self._file, self._stack = file, AsyncExitStack()

    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> Thread:
        saver = await self._stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(self._file)))
        middleware = [AssentryMiddleware(gate), ToolErrorMiddleware(lambda problem, _: str(problem))]
        if not nested:
            made = create_agent(
                model(turns, world), world.tools, middleware=middleware, checkpointer=saver, name="tester"
            )
            return Thread(attach(gate, made, wait=wait))
        inner = create_agent(model(turns, world), world.tools, middleware=middleware, name="inner")

        @as_tool
        async def hand_on(task: str) -> str:
            """Has the inner agent look."""
            return str((await inner.ainvoke({"messages": [("user", task)]}))["messages"][-1].content)

        script = [Turn((("o-1", "hand_on", {"task": "go"}),)), Turn(text="all done")]
        outer = create_agent(model(script, World()), [hand_on], checkpointer=saver, name="tester")
        return Thread(attach(gate, outer, wait=wait))

    async def close(self) -> None:
        await self._stack.aclose()


class TestLangChain(Contract):
    @pytest.fixture
    def framework(self, tmp_path: Path) -> Framework:
        return LangChain(tmp_path / "graph.db")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(LangChain(tmp_path / "graph.db"), str(tmp_path / "assentry.db"), wait=True) as made:
        yield made


async def test_it_takes_the_configuration_of_the_one_it_replaces(house: House) -> None:
    gate = await house.opened()
    note = Turn((("c-1", "note", {"text": "small"}), ("c-2", "note", {"text": "large"})))
    interrupt_on = {
        "note": {
            "allowed_decisions": ["approve", "reject"],
            "description": "notes are read by customers",
            "when": lambda request: request.tool_call["args"]["text"] == "large",
        },
        "read_file": False,
    }
    agent = create_agent(
        model([note, Turn(text="all done")], house.world), house.world.tools,
        middleware=[AssentryMiddleware(gate, interrupt_on)], checkpointer=InMemorySaver(),
    )  # fmt: skip
    work = house.start(attach(gate, agent, wait=True).ainvoke({"messages": [("user", "go")]}, CONFIG))
    (request,) = await house.waiting()
    assert request.candidate.action.args == {"text": "large"}
    assert any("notes are read by customers" in each.says for each in request.candidate.verdict.triggers)
    await house.approve(request)
    await work
    assert sorted(house.world.did) == ["note large", "note small"]


@pytest.mark.parametrize("wrong", [{"note": {}}, {"note": {"allowed_decision": ["approve"]}}, {"note": "yes"}])
async def test_a_configuration_that_would_silently_ask_nobody_is_refused(house: House, wrong: Any) -> None:
    with pytest.raises(GuardError, match="note"):
        AssentryMiddleware(await house.opened(), wrong)


def asking(mode: Any, *tools: str) -> HumanInTheLoopMiddleware[Any, Any]:
    """LangChain's own middleware; older ones know one mode only."""
    if "interrupt_mode" in signature(HumanInTheLoopMiddleware.__init__).parameters:
        return HumanInTheLoopMiddleware(dict.fromkeys(tools, True), interrupt_mode=mode)
    if mode != "batched":
        pytest.skip("this version of LangChain does not know it")
    return HumanInTheLoopMiddleware(dict.fromkeys(tools, True))


async def test_what_langchains_own_middleware_says_is_told_and_what_it_does_not_allow_is_not_offered(
    house: House,
) -> None:
    gate = await house.opened()
    config: Any = {"allowed_decisions": ["approve", "reject"], "description": "customers read it"}
    agent = create_agent(
        model([Turn((MAIL,)), Turn(text="all done")], house.world), house.world.tools,
        middleware=[HumanInTheLoopMiddleware({"send_mail": config})], checkpointer=InMemorySaver(),
    )  # fmt: skip
    work = house.start(attach(gate, agent, wait=True).ainvoke({"messages": [("user", "go")]}, CONFIG))
    (request,) = await house.waiting()
    card = brief(request, datetime.now(UTC))
    assert card.claims == {"why": "customers read it"}
    # What is said with a refusal reaches the model, so that it can be asked for another draft.
    assert (card.editable, card.can_send_back) == (False, True)
    with pytest.raises(InvalidDecision, match="allows no changes"):
        await house.modify(request, to="ann@example.com")
    await house.approve(request)
    await work


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_agents_with_langchains_own_middleware_show_up_unchanged(house: House, mode: Any) -> None:
    gate = await house.opened()
    theirs = asking(mode, "delete_file", "send_mail")
    calls = Turn((DELETE, MAIL, ("c-b", "delete_file", {"path": "/srv/b"})))
    agent = create_agent(
        model([calls, Turn(text="all done")], house.world), house.world.tools, middleware=[theirs],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    work = house.start(attach(gate, agent, wait=True).ainvoke({"messages": [("user", "go")]}, CONFIG))
    found = {canonical(each.candidate.action.args): each for each in await house.waiting(3)}
    await house.approve(found[canonical({"path": "/srv/b"})])
    await house.deny(found[canonical(DELETE[2])], "keep a")
    await house.modify(found[canonical(MAIL[2])], to="ann@example.com")
    await work
    assert sorted(house.world.did) == ["delete /srv/b", "mail ann@example.com sale"]
    assert "keep a" in house.world.heard["c-delete"]
    assert "ann@example.com" in house.world.heard["c-mail"]
