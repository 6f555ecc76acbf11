"""Vouching for tools from a terminal: with commands, on the card, and on the full screen."""

from pathlib import Path
from typing import Any

import pytest

from assentry.cli.screen.dialogs import Confirm, Words
from assentry.core.request import Request, State
from assentry.core.vouching import is_card
from assentry.engine.agent_calls import Described
from tests.cli.seat import seated, state
from tests.cli.terminal import Agent, Assentry, at_terminal

TOOLS = [Described("get_weather", "Tells the weather."), Described("list_files"), Described("pay_invoice")]


def offers(agent: Agent, *tools: Described) -> Request:
    """The card that lists them."""

    async def work() -> Any:
        await agent.gate.agent("bot").offer(tools or TOOLS)
        found = await agent.gate._store.find("default", "")
        return next(each for each in found if is_card(each))

    return agent._portal.run(work())  # type: ignore[no-any-return]


def states(assentry: Assentry) -> dict[str, str]:
    return {each["name"]: each["state"] for each in assentry("tools", "list", "--json").json["tools"]}


def test_tools_are_listed_vouched_for_and_revoked(assentry: Assentry, agent: Agent) -> None:
    assert assentry("tools", "list").out == "no tools are listed\n"
    card = offers(agent)
    shown = assentry("tools", "list").out
    assert "probably reads" in shown
    assert "agent:bot" in shown
    assert (
        "take it back with `assentry tools revoke agent:bot`"
        in assentry("tools", "vouch", "agent:bot", "get_weather").out
    )
    assert states(assentry) == {"get_weather": "vouched", "list_files": "waiting", "pay_invoice": "waiting"}
    assert "nobody vouches for 1 tool" in assentry("tools", "revoke", "agent:bot").out
    assert "there is nothing to change" in assentry("tools", "revoke", "agent:bot", code=1).err
    assert "offers no tool 'x'" in assentry("tools", "vouch", "agent:bot", "x", code=1).err
    assentry("tools", "vouch", "agent:bot", "--json")
    assert states(assentry) == {"get_weather": "revoked", "list_files": "vouched", "pay_invoice": "vouched"}
    assert agent.now(card).state is State.CANCELLED
    assert "root" in assentry("log").out


def test_the_card_says_what_each_tool_is_and_some_are_vouched_for(assentry: Assentry, agent: Agent) -> None:
    card = offers(agent)
    shown = assentry("show", card.code, "--full").out
    for words in ("get_weather", "Tells the weather.", "our reading (a guess)", "probably reads", "assentry answer"):
        assert words in shown
    assert "the card lists no tool 'get_x'" in assentry("answer", card.code, "get_x", code=1).err
    assert "you vouch for get_weather, list_files" in assentry("answer", card.code, "list_files, get_weather").out
    assert states(assentry) == {"get_weather": "vouched", "list_files": "vouched", "pay_invoice": "refused"}


def test_approving_wants_the_card_to_have_been_shown(assentry: Assentry, agent: Agent) -> None:
    card = offers(agent)
    assert "it lists tools" in assentry("approve", card.code, code=6).err
    assentry("approve", card.code, "--digest", card.shown_digest)
    assert set(states(assentry).values()) == {"vouched"}


def test_at_a_terminal_a_person_is_asked_which(here: Path, agent: Agent, assentry: Assentry) -> None:
    card = offers(agent)
    code, seen = at_terminal(["answer", card.code], [("Which of them do you vouch for?", "list_files\n")])
    assert code == 0, seen
    assert states(assentry)["list_files"] == "vouched"
    assert states(assentry)["get_weather"] == "refused"


@pytest.mark.parametrize("typed", ["all", "get_weather"])
async def test_on_the_full_screen_too(here: Path, agent: Agent, typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.cli.screen.dialogs.DWELL", 0.05)
    monkeypatch.setattr("assentry.cli.screen.inbox.DWELL", 0.05)
    card = offers(agent)
    async with seated(here) as seat:
        await seat.looks_at(card)
        await seat.sees("get_weather", "probably reads")
        await seat.press("a")
        await seat.dialog(Words)
        if typed != "all":
            await seat.press("delete", "delete", "delete", *["underscore" if c == "_" else c for c in typed])
        await seat.press("enter")
        await seat.dialog(Confirm)
        await seat.sees("probably reads")
        await seat.press("y")
        after = await state(agent, card, seat, State.ANSWERED)
        assert after.answer == (["get_weather", "list_files", "pay_invoice"] if typed == "all" else ["get_weather"])
