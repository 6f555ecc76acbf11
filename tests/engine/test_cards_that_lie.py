"""Attacks that once worked: a card that says less money, fewer things, other people or another place than what runs."""

from typing import Any

import pytest

from assentry.core.action import Declaration, Reach
from assentry.core.advance import phrase
from assentry.core.briefing import brief
from assentry.core.request import Request
from assentry.core.verdict import GateKind
from tests.engine.conftest import House

PAID = Declaration(reversible=False, reach=Reach.ORGANISATION, outside=True, money=True)
MILD = Declaration(reversible=True, reach=Reach.LOCAL, outside=False, money=False)
RULES = """
organisation: {domains: [ours.example]}
rules:
  - {name: little, actions: [refund], when: facts.amount < 1000.0, gate: run}
  - {name: inside, actions: [send_*], when: facts.external == 0, gate: run}
  - {name: few, actions: [retag_*], when: facts.count < 5, gate: run}
  - {name: elsewhere, actions: [restart_*], when: 'facts.environment != "production"', gate: run}
  - {name: here, actions: [touch_*], when: '!facts.paths.exists(path, path.startsWith("/etc")) && facts.secret == false', gate: run}
  - {name: rest, actions: ["*"], gate: hard}
"""


async def judged(house: House, name: str, declared: Declaration, **args: Any) -> Request | None:
    """The request, or nothing where the call ran."""
    await house.policy(RULES)
    proposal = await house.gate.propose(name, args, declared=declared)
    return proposal.request


@pytest.mark.parametrize(
    "amount", ["€ 250.000", "250.000", "EUR 250,000", "(250.000)", "٢٥٠٫٠٠٠", ["5 EUR", "400 USD"], "2 million"]
)
async def test_an_amount_that_may_be_large_waits(house: House, amount: Any) -> None:
    request = await judged(house, "refund", MILD, order="A-1", amount=amount)
    assert request is not None
    assert request.candidate.verdict.gate is GateKind.HARD


async def test_the_card_and_the_typed_words_give_the_larger_amount(house: House) -> None:
    request = await judged(house, "refund", PAID, order="A-1", amount="€ 250.000")
    assert request is not None
    assert request.candidate.says == "Refund order A-1: €250,000.00 or €250.00, it can be read in two ways"
    assert phrase(request.candidate) == "refund 250000.00"
    shown = {fact.name: fact for fact in brief(request, request.ask.created_at).facts}
    assert shown["amount"].says == "€250,000.00 or €250.00, it can be read in two ways"


async def test_a_small_amount_of_something_dear_is_typed_in_full(house: House) -> None:
    await house.policy('rules:\n  - {name: all, actions: ["*"], gate: manual}\n')
    proposal = await house.gate.propose("refund", {"order": "A-1", "amount": "0.0049 BTC"}, declared=PAID)
    assert proposal.request is not None
    assert phrase(proposal.request.candidate) == "refund 0.0049"


@pytest.mark.parametrize("amount", [20, "20", "19.99", "€999.50", "1,50"])
async def test_an_ordinary_amount_runs_under_the_rule_for_little(house: House, amount: Any) -> None:
    assert await judged(house, "refund", MILD, order="A-1", amount=amount) is None


@pytest.mark.parametrize(
    "to",
    [
        '"\\"" <x@evil.example>, "\\"" <y@ours.example>', "https://evil.example/@ours.example", "all-staff",
        "https://ours.example\\@evil.example", "=?utf-8?q?x=40evil.example?= <y@ours.example>", "#general",
        "mailto:y@ours.example?bcc=x%40evil.example", "x @ evil.example", "y@ours.example:25",
    ],
)  # fmt: skip
async def test_a_recipient_that_may_be_elsewhere_waits(house: House, to: str) -> None:
    assert await judged(house, "send_note", MILD, to=to, text="Hello") is not None


async def test_a_card_names_everybody_whom_a_list_may_reach(house: House) -> None:
    to = '"\\"" <x@evil.example>, "\\"" <y@ours.example>'
    request = await judged(house, "send_note", MILD, to=to, text="Hello")
    assert request is not None
    assert request.candidate.says == "Send note to x@evil.example, y@ours.example"
    assert "x@evil.example" in str(brief(request, request.ask.created_at).facts)


@pytest.mark.parametrize("to", ["y@ours.example", '"Lee, Ann" <y@ours.example>, z@ours.example'])
async def test_a_plain_recipient_of_ours_is_written_to(house: House, to: str) -> None:
    assert await judged(house, "send_note", MILD, to=to, text="Hello") is None


@pytest.mark.parametrize("ids", [[1.0] + [2] * 9, [None] * 9, ["1,2,3", "4,5,6"], [[], *range(9)], "1\n2\n3\n4\n5"])
async def test_a_list_that_hides_how_long_it_is_waits(house: House, ids: Any) -> None:
    assert await judged(house, "retag_users", MILD, ids=ids) is not None


@pytest.mark.parametrize(
    "env", [" " * 600 + "prod", "\u200b" * 600 + "prod", "ｐｒｏｄ", "x " * 30_000 + "prod" + " x" * 30_000]
)
async def test_production_behind_padding_waits(house: House, env: str) -> None:
    assert await judged(house, "restart_app", MILD, app="shop", env=env) is not None


@pytest.mark.parametrize("path", ["x/" * 200 + "../" * 220 + "etc/passwd", "a.txt,/etc/passwd"])
async def test_a_path_that_is_not_seen_in_full_waits(house: House, path: str) -> None:
    assert await judged(house, "touch_file", MILD, path=path) is not None


async def test_ordinary_lists_and_places_run(house: House) -> None:
    assert await judged(house, "retag_users", MILD, ids=[1, 2]) is None
    assert await judged(house, "restart_app", MILD, app="shop", env="staging") is None
    assert await judged(house, "touch_file", MILD, path="docs/a.md") is None


async def test_a_title_says_how_much_of_a_value_is_left_out(house: House) -> None:
    request = await judged(house, "cancel_order", MILD, order_id="A" * 400)
    assert request is not None
    assert request.candidate.says == f"Cancel order {'A' * 59}… 341 more characters"
