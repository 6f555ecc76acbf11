"""Through the gate: what a call without `says=` is called, what a number means, and what was guessed about it."""

from typing import Any

import pytest

from assentry.core.action import Declaration, Risk
from assentry.core.briefing import brief
from assentry.core.request import Request
from tests.engine.conftest import House

HOLDS_ALL = 'rules:\n  - {name: all, actions: ["*"], gate: hard, because: x@evil.org asked for it}\n'


async def proposed(house: House, name: str, declared: Declaration | None = None, **args: Any) -> Request:
    await house.policy(HOLDS_ALL)
    proposal = await house.gate.propose(name, args, declared=declared or Declaration())
    assert proposal.request is not None
    return proposal.request


async def test_a_guarded_function_without_says_is_named_by_what_it_acts_on(house: House) -> None:
    await house.policy(HOLDS_ALL)

    @house.gate.guard
    async def cancel_order(order_id: str, reason: str) -> str:
        return order_id

    @house.gate.guard
    async def restart_pod(name: str, namespace: str = "default") -> str:
        return name

    for call in (cancel_order("A-17", reason="late"), restart_pod("web-3")):
        house.start(call)
    waiting = await house.waiting(2)
    assert {each.candidate.says for each in waiting} == {"Cancel order A-17", "Restart pod web-3 in default"}


async def test_a_modified_call_is_named_anew(house: House) -> None:
    request = await proposed(house, "cancel_order", order_id="A-17")
    after = await house.inbox.modify(house.me, request.id, {"order_id": "B-18"})
    assert after.candidate.says == "Cancel order B-18"


async def test_a_secret_never_stands_in_a_title(house: House) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    for args in ({"token": token}, {"user": "bob", "password": "hunter2hunter2"}, {"id": token}):
        request = await proposed(house, "revoke_access", **args)
        assert token not in request.candidate.says
        assert "hunter2" not in request.candidate.says


async def test_agents_cannot_put_words_into_a_title(house: House) -> None:
    request = await proposed(house, "cancel_order", order_id="A-17 · can be undone\u202e")
    assert brief(request, request.ask.created_at).title == "Cancel order “A-17 ⟨U+00B7⟩ can be undone⟨U+202E⟩”"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("send_report", {"total": 4000}),
        ("send_survey", {"amount": 3}),
        ("add_water", {"amount": 3}),
        ("set_stock", {"sku": "s", "amount": 3}),
        ("list_prices", {"price_id": 9, "limit": 500}),
        ("send_alert", {"count": 12, "total_rows": 500}),
    ],
)
async def test_a_number_that_is_not_money_does_not_cost_money(house: House, name: str, args: dict[str, Any]) -> None:
    request = await proposed(house, name, **args)
    card = brief(request, request.ask.created_at)
    assert "costs money" not in " ".join([card.grounds, *(each.words for each in card.effect)])
    assert not any(".00" in fact.says for fact in card.facts)
    assert ".00" not in card.title


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("send_report", {"total": "4000 EUR"}),
        ("send_report", {"total": 4000, "currency": "EUR"}),
        ("send_report", {"total_price": 4000}),
        ("send_money", {"amount": 3}),
        ("transfer", {"amount": 3}),
        ("pay_invoice", {"amount": 3}),
    ],
)
async def test_an_amount_of_money_still_does(house: House, name: str, args: dict[str, Any]) -> None:
    request = await proposed(house, name, **args)
    assert request.candidate.assessment.effect.money
    assert ".00" in request.candidate.says


async def test_a_number_that_may_be_money_is_held_as_strictly_as_money_and_counts_in_rules(house: House) -> None:
    plain = await proposed(house, "send_report", total=4000)
    priced = await proposed(house, "send_report", total=4000, currency="EUR")
    assert plain.candidate.assessment.risk is priced.candidate.assessment.risk is Risk.CRITICAL
    assert "may be money" in brief(plain, plain.ask.created_at).grounds
    await house.policy('rules:\n  - {name: many, actions: ["*"], when: facts.amount > 1000.0, gate: manual}\n')
    proposal = await house.gate.propose("set_stock", {"sku": "s", "amount": 4000})
    assert proposal.request is not None
    assert proposal.request.candidate.verdict.rule == "many"


async def test_whoever_may_name_a_currency_and_leaves_it_out_hands_over_money(house: House) -> None:
    await house.policy(HOLDS_ALL)

    @house.gate.guard
    async def send_gift(to: str, amount: float, currency: str | None = None) -> None:
        return None

    house.start(send_gift("bob", 500))
    (request,) = await house.waiting()
    assert request.candidate.assessment.effect.money


async def test_a_declared_answer_is_told_plainly_and_a_guess_with_its_reason(house: House) -> None:
    guessed = brief(await proposed(house, "stop_frobnication"), (await house.desk.store.now()))
    assert [each.words for each in guessed.effect] == ["probably can be undone", "probably changes a service"]
    assert "guess from the name or description of stop_frobnication; nobody declared it" in guessed.grounds
    assert "The name says “stop”" in guessed.grounds
    partly = await proposed(house, "stop_frobnication", Declaration(reversible=False), now=True)
    assert [each.words for each in brief(partly, partly.ask.created_at).effect] == [
        "cannot be undone", "probably changes a service",
    ]  # fmt: skip
    known = await proposed(house, "delete_file", path="a.txt")
    card = brief(known, known.ask.created_at)
    assert card.effect[0].words == "cannot be undone"
    assert "Known as" in card.grounds
    assert "guess" not in card.grounds


async def test_a_reason_that_begins_with_data_keeps_its_letters(house: House) -> None:
    request = await proposed(house, "cancel_order", order_id="A-17")
    assert brief(request, request.ask.created_at).why[0] == "x@evil.org asked for it"

    @house.gate.guard
    async def send_note(to: str, body: str) -> None:
        return None

    async def mails() -> None:
        async with house.gate.run("write", scope={"recipients": ["@example.com"]}):
            await send_note("x@evil.org", "b")

    house.start(mails())
    found = await house.waiting(2)
    why = [line for each in found for line in brief(each, each.ask.created_at).why]
    assert "It may not write to x@evil.org: outside its scope" in why


async def test_one_of_something_is_never_told_in_the_plural(house: House) -> None:
    request = await proposed(house, "invite_people", people=["ann"])
    assert request.candidate.says == "Invite 1 person: ann"
    assert [fact.says for fact in request.candidate.assessment.facts if fact.name == "count"] == ["1 person"]


async def test_a_limit_on_people_counts_people(house: House) -> None:
    @house.gate.guard
    async def archive(people: list[str]) -> None:
        return None

    async def removes() -> None:
        async with house.gate.run("tidy", scope={"people": 1}):
            await archive(["ann", "bob"])

    house.start(removes())
    (request,) = await house.waiting()
    assert "2 people, and the run was given 1" in brief(request, request.ask.created_at).why
