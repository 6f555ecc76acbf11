"""Whose word counts about an action, through the gate: what runs, what waits, and what the card says of it."""

import pytest

import assentry
from assentry.core.action import Declaration
from assentry.engine.errands import Errand, LocalErrands

NO = "can be undone: no, says the code; the policy says yes, not counted"


@pytest.fixture
def sent(house):
    done = []

    @house.gate.guard(reversible=False, reach="service", outside=False)
    async def sync_orders(orders: list[str]) -> int:
        done.append(orders)
        return len(orders)

    house.sync = sync_orders
    return done


@pytest.mark.parametrize("word", ["reversible: true", "risk: safe", "risk: risky", "reversible: true, risk: safe"])
async def test_a_policy_does_not_loosen_what_the_decorator_declares(house, sent, word):
    await house.policy(f"actions: {{sync_orders: {{{word}}}}}\n")
    house.start(house.sync(["a"]))
    (request,) = await house.waiting()
    assert sent == []
    assert not request.candidate.assessment.effect.reversible
    card = await house.inbox.brief(request.id)
    assert any("not counted" in each for each in card.declared)
    assert (NO in card.declared) == ("reversible" in word)


@pytest.mark.parametrize("word", ["reversible: true", "risk: safe"])
async def test_a_policy_loosens_it_in_words_that_say_so(house, sent, word):
    await house.policy(f"actions: {{sync_orders: {{{word}, instead_of_code: true, because: it keeps a journal}}}}\n")
    assert await house.sync(["a"]) == 1
    assert sent == [["a"]]


async def test_a_stricter_word_of_the_policy_stands(house):
    @house.gate.guard(reversible=True, reach="local")
    async def move_files(files: list[str]) -> None:
        raise AssertionError("ran although it waits")

    await house.policy("actions: {move_files: {reversible: false, because: the disk is shared}}\n")
    house.start(move_files(["a"]))
    (request,) = await house.waiting()
    card = await house.inbox.brief(request.id)
    assert card.declared == (
        "can be undone: no, says the policy (the disk is shared); the code says yes, not counted",
        "how far it reaches: local, says the code",
    )


async def test_a_risk_declared_outright_is_the_higher_of_both(house):
    @house.gate.guard(risk="critical")
    async def tidy(note: str) -> None:
        raise AssertionError("ran although it waits")

    await house.policy("actions: {tidy: {risk: safe}}\n")
    house.start(tidy("x"))
    (request,) = await house.waiting()
    assert str(request.candidate.assessment.risk) == "critical"
    assert (await house.inbox.brief(request.id)).declared == (
        "risk level: critical, says the code; the policy says safe, not counted",
    )


async def test_what_the_policy_took_back_no_longer_counts_when_it_is_judged_again(house, sent):
    """The code's word is kept as the code's: an old policy's word does not live on inside a request."""
    await house.policy("actions: {write_note: {reversible: false, reach: organisation}}\n")
    call = await house.gate.propose("write_note", {"text": "x"})
    assert call.request.candidate.assessment.effect.reversible is False
    await house.policy("rules: []\n")
    changed = house.inbox.changed(call.request, {"text": "y"})
    assert changed.assessment.effect.reversible is True


@pytest.mark.parametrize(("trusted", "waits"), [(True, False), (False, True)])
async def test_the_hint_of_a_server_lowers_only_where_the_operator_trusts_it(house, trusted, waits):
    errands = LocalErrands(house.gate.agent("bot"), house.gate._vault)
    hint = Declaration(risk=assentry.Risk.SAFE, reversible=True, outside=False)
    told = await errands.propose(Errand("frobnicate", {}, "frobnicate", trusted=trusted, effect=hint), "one")
    assert (told.state == "pending") is waits


async def test_the_policy_outranks_the_hint_of_a_trusted_server_without_further_words(house):
    errands = LocalErrands(house.gate.agent("bot"), house.gate._vault)
    hint = Declaration(reversible=False)
    await house.policy("actions: {frob: {reversible: true, reach: local}}\n")
    told = await errands.propose(Errand("frob", {}, "frob", trusted=True, effect=hint), "one")
    assert told.state == "approved"
    request = await house.desk.store.request("default", told.id)
    assert (await house.inbox.brief(request.id)).declared[0] == (
        "can be undone: yes, says the policy; whoever offers it says no, not counted"
    )
