"""Tools of agents that nobody trusts: one card for each source, and what people say of it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from assentry.core.action import Declaration, Reach
from assentry.core.authority import Principal
from assentry.core.request import Request, State
from assentry.core.verdict import GateKind
from assentry.core.vouching import on_card
from assentry.engine.agent_calls import AgentCalls, Described
from assentry.engine.judgement import Context
from assentry.errors import (
    AlreadyDecided,
    InvalidArguments,
    InvalidDecision,
    Limited,
    NotAllowed,
    NotFound,
    StaleRequest,
)
from tests.engine.conftest import House

WEATHER = Described("get_weather", "Tells the weather.", {"type": "object"})
FILES = Described("list_files", "Lists files.")
PAY = Described("pay_invoice", "Pays.")
SOURCE = "agent:bot"


async def proposed(agent: AgentCalls, said: Described, **args: Any) -> Request | None:
    made, _ = agent.described(said)
    return await agent.propose(made, args, Context(agent=agent.agent))


async def gate_of(agent: AgentCalls, said: Described) -> GateKind | None:
    """Also what the agent is told that it would be."""
    await agent._judgement.refresh()
    request = await proposed(agent, said, at=object.__hash__(said))
    foreseen = agent.foreseen_as(said)
    held = request is not None and request.state is State.PENDING
    assert foreseen is not None
    assert foreseen.holds is held
    return request.candidate.verdict.gate if request is not None else GateKind.RUN


@pytest.fixture
def bot(house: House) -> AgentCalls:
    found: AgentCalls = house.gate.agent("bot")
    return found


async def test_a_new_tool_waits_and_is_on_the_one_card_of_its_source(house: House, bot: AgentCalls) -> None:
    first = await proposed(bot, WEATHER)
    assert first is not None
    assert (first.state, first.candidate.verdict.gate) == (State.PENDING, GateKind.HARD)
    await asyncio.gather(*(proposed(bot, said) for said in (FILES, PAY)))
    assert await bot.offer([WEATHER, FILES, PAY]) == ["waiting"] * 3
    card = await house.card()
    assert on_card(card)[0]["name"] == "get_weather"
    assert {each["name"]: each["reading"].split(",")[0] for each in on_card(card)} == {
        "get_weather": "probably reads", "list_files": "probably reads", "pay_invoice": "probably changes a service",
    }  # fmt: skip
    assert len([each for each in await house.found() if each.ask.kind is card.ask.kind]) == 1
    assert len(await house.waiting(3)) == 3
    shown = await house.inbox.brief(card.id)
    assert shown.shown["get_weather"]["description"] == "Tells the weather."
    await house.approve(first)  # each can be decided alone
    assert (await house.now(first)).state is State.APPROVED


async def test_a_person_vouches_for_some_and_the_others_wait(house: House, bot: AgentCalls) -> None:
    await bot.offer([WEATHER, FILES, PAY])
    card = await house.card()
    after = await house.inbox.answer(house.me, card.id, ["get_weather", "pay_invoice"], seen_digest=card.shown_digest)
    assert (after.state, after.answer) == (State.ANSWERED, ["get_weather", "pay_invoice"])
    assert await gate_of(bot, WEATHER) is GateKind.WATCH
    assert await gate_of(bot, FILES) is GateKind.HARD
    assert await gate_of(bot, PAY) is GateKind.MANUAL  # known now, and judged as what it is
    assert await bot.offer([WEATHER, FILES]) == ["vouched", "refused"]
    kinds = await house.kinds(SOURCE)
    assert kinds == ["tools.offered", "tools.vouched", "tools.refused"]
    # Nobody is asked again about what was refused.
    assert not [each for each in await house.found() if each.ask.kind is card.ask.kind]


@pytest.mark.parametrize("approves", [True, False])
async def test_approving_vouches_for_all_and_denying_for_none(house: House, bot: AgentCalls, *, approves: bool) -> None:
    await bot.offer([WEATHER, FILES])
    card = await house.card()
    await (house.approve(card) if approves else house.deny(card))
    gates = [await gate_of(bot, said) for said in (WEATHER, FILES)]
    assert gates == [GateKind.WATCH if approves else GateKind.HARD] * 2


@pytest.mark.parametrize(
    "other",
    [
        Described("get_weather", "Tells the weather of today.", {"type": "object"}),
        Described("get_weather", "Tells the weather.", {"type": "object", "properties": {"notes": {}}}),
        Described("get_weather", "Tells the weather.", {"type": "object"}, about={"annotations": {"title": "x"}}),
        Described("get_weather", "Tells the weather.", {"type": "object"}, server="elsewhere"),
    ],
)
async def test_a_changed_definition_is_unknown_at_once_and_on_a_new_card(
    house: House, bot: AgentCalls, other: Described
) -> None:
    await bot.offer([WEATHER])
    await house.approve(await house.card())
    assert await gate_of(bot, WEATHER) is GateKind.WATCH
    assert await gate_of(bot, other) is GateKind.HARD
    card = await house.card()
    (listed,) = on_card(card)
    assert ("changed" in listed) is not other.server
    assert await gate_of(bot, WEATHER) is GateKind.WATCH
    await house.approve(card)
    assert await gate_of(bot, other) is GateKind.WATCH


async def test_another_agent_with_the_same_tool_is_another_source(house: House, bot: AgentCalls) -> None:
    await bot.offer([WEATHER])
    await house.approve(await house.card())
    assert await gate_of(house.gate.agent("bot2"), WEATHER) is GateKind.HARD
    assert on_card(await house.card("agent:bot2"))
    # In this process, too, a name that nobody vouches for is no more than a name.
    proposal = await house.gate.propose("get_weather", {}, trusted=False)
    assert proposal.request is not None
    assert proposal.request.state is State.PENDING


async def test_what_is_revoked_waits_again_also_what_was_approved_without_anybody(
    house: House, bot: AgentCalls
) -> None:
    await bot.offer([WEATHER, FILES])
    await house.approve(await house.card())
    await bot._judgement.refresh()
    ready = await proposed(bot, WEATHER, city="Graz")
    assert ready is not None
    assert ready.state is State.APPROVED
    made = await house.desk.rules.revoke(house.me, SOURCE, ["get_weather"])
    assert [(each.name, str(each.state)) for each in made] == [("get_weather", "revoked")]
    assert await gate_of(bot, WEATHER) is GateKind.HARD
    assert await gate_of(bot, FILES) is GateKind.WATCH
    with pytest.raises(Exception, match="nobody vouches for this tool"):
        await bot.begin(ready.id, attempt="a")
    await house.desk.rules.vouch(house.me, SOURCE, ["get_weather"])
    assert await gate_of(bot, WEATHER) is GateKind.WATCH
    with pytest.raises(NotFound):
        await house.desk.rules.vouch(house.me, SOURCE, ["get_news"])
    with pytest.raises(NotFound):
        await house.desk.rules.vouch(house.me, "agent:nobody")


async def test_what_is_vouched_for_beside_the_card_leaves_it(house: House, bot: AgentCalls) -> None:
    await bot.offer([WEATHER, FILES])
    card = await house.card()
    await house.desk.rules.vouch(house.me, SOURCE, ["get_weather"])
    with pytest.raises(StaleRequest):
        await house.inbox.approve(house.me, card.id, seen_digest=card.shown_digest)
    left = await house.card()
    assert (left.id, [each["name"] for each in on_card(left)]) == (card.id, ["list_files"])
    await house.desk.rules.vouch(house.me, SOURCE)
    assert (await house.now(card)).state is State.CANCELLED
    assert await gate_of(bot, WEATHER) is GateKind.WATCH


async def test_whoever_was_shown_the_card_before_it_grew_looks_again(house: House, bot: AgentCalls) -> None:
    await bot.offer([WEATHER])
    seen = await house.card()
    await bot.offer([WEATHER, PAY])
    with pytest.raises(StaleRequest):
        await house.inbox.approve(house.me, seen.id, seen_digest=seen.shown_digest)
    grown = await house.card()
    assert (grown.id, len(on_card(grown))) == (seen.id, 2)
    await house.inbox.approve(house.me, grown.id, seen_digest=grown.shown_digest)
    with pytest.raises(AlreadyDecided):
        await house.approve(grown)


async def test_only_who_may_change_the_policy_may_vouch(house: House, bot: AgentCalls) -> None:
    await house.policy("people: {ana: {roles: [operator]}, ben: {}, bot: {}}\n")
    await bot.offer([WEATHER])
    card = await house.card()
    for name in ("ben", "bot", "carl"):
        with pytest.raises(NotAllowed):
            await house.inbox.approve(Principal(name), card.id)
        with pytest.raises(NotAllowed):
            await house.inbox.answer(Principal(name), card.id, ["get_weather"])
        with pytest.raises(NotAllowed):
            await house.desk.rules.vouch(Principal(name), SOURCE)
        with pytest.raises(NotAllowed):
            await house.desk.rules.revoke(Principal(name), SOURCE)
    assert house.inbox.may_decide(Principal("ana"), card) is None
    await house.inbox.approve(Principal("ana"), card.id)


async def test_a_card_is_answered_with_tools_that_it_lists(house: House, bot: AgentCalls) -> None:
    await bot.offer([WEATHER])
    card = await house.card()
    for value in (["get_news"], [], ["get_weather", "x"]):
        with pytest.raises(InvalidDecision):
            await house.answer(card, value)
    with pytest.raises(InvalidDecision):
        await house.answer(card, "get_weather")
    with pytest.raises(InvalidDecision):
        await house.inbox.revise(house.me, card.id, "others")
    assert (await house.now(card)).state is State.PENDING


async def test_the_agent_itself_neither_sees_nor_decides_its_card(house: House, bot: AgentCalls) -> None:
    await bot.offer([WEATHER])
    card = await house.card()
    for look in (bot.request(card.id), bot.cancel(card.id), bot.begin(card.id, attempt="a")):
        with pytest.raises(NotFound):
            await look
    with pytest.raises(NotAllowed):
        await house.inbox.approve(Principal("bot"), card.id)


async def test_a_trusted_agent_needs_nobodys_word(house: House, bot: AgentCalls) -> None:
    await house.policy("agents: {bot: {}}\n")
    assert await bot.offer([WEATHER, PAY]) == ["known", "known"]
    assert await gate_of(bot, WEATHER) is GateKind.RUN
    assert not await house.found()
    # Of an MCP server that it uses nobody has said anything.
    assert await gate_of(bot, replace(WEATHER, server="weather")) is GateKind.HARD
    assert await bot.offer([replace(PAY, server="weather")], "weather") == ["waiting"]


async def test_a_registered_tool_is_judged_by_what_trusted_code_says_of_it(house: House, bot: AgentCalls) -> None:
    @house.gate.guard(name="deploy_site", reversible=False, reach="organisation", outside=True, money=False)
    async def deploy(place: str) -> None: ...

    @house.gate.guard(name="read_note")
    async def read(name: str) -> str:
        return name

    mild = Declaration(True, Reach.NOTHING, False, False)
    request = await proposed(bot, Described("deploy_site", "Reads.", {"type": "object"}, declared=mild), place="x")
    assert request is not None
    assert request.candidate.assessment.effect.outside
    assert not request.candidate.assessment.effect.reversible
    assert await proposed(bot, Described("read_note"), name="x") is None
    grave = Declaration(False, Reach.SERVICE, True, True)
    raised = await proposed(bot, Described("read_note", declared=grave), name="x")
    assert raised is not None
    assert (raised.state, raised.candidate.assessment.effect.money) == (State.PENDING, True)
    await house.approve(raised)
    assert (await bot.begin(raised.id, attempt="a")).state is State.RUNNING
    for args in ({}, {"name": 1}, {"name": "x", "more": 2}):
        with pytest.raises(InvalidArguments):
            await proposed(bot, Described("read_note", schema={"type": "object"}), **args)
    assert await bot.offer([Described("read_note")]) == ["known"]


async def test_the_operators_word_in_the_policy_is_enough(house: House, bot: AgentCalls) -> None:
    await house.policy(
        "actions:\n  get_weather: {reversible: true, reach: nothing, outside: false, money: false}\n"
        "rules:\n  - name: files\n    actions: list_files\n    gate: watch\n"
    )
    assert await bot.offer([WEATHER]) == ["known"]
    assert await gate_of(bot, WEATHER) is GateKind.RUN
    assert await gate_of(bot, FILES) is GateKind.HARD  # a rule says what happens to a name, not what it is
    assert [each["name"] for each in on_card(await house.card())] == ["list_files"]


async def test_what_one_source_may_list_has_bounds(house: House, bot: AgentCalls) -> None:
    with pytest.raises(InvalidArguments):
        await bot.offer([Described(f"get_{number}") for number in range(201)])
    large = [Described(f"get_{number}", "x" * 19_000) for number in range(60)]
    with pytest.raises(Limited):
        await bot.offer(large)
    # A call waits all the same, whether its tool is on a card or not.
    assert await gate_of(bot, large[0]) is GateKind.HARD


async def test_a_secret_in_a_definition_is_shown_to_nobody(house: House, bot: AgentCalls) -> None:
    token = "ghp_" + "a1B2" * 9
    await bot.offer([Described("get_x", f"Use {token}.", about={"note": token})])
    card = await house.card()
    assert token not in card.candidate.args_text
    assert all(token not in str(each.body) for each in await house.store.tools("default"))
    await house.approve(card)
    assert await gate_of(bot, Described("get_x", f"Use {token}.", about={"note": token})) is GateKind.WATCH
