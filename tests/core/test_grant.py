"""Grants: scoped, counted, budgeted, expiring, revocable."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import Action, Assessment, Basis, Effect, Fact, Reach, Risk
from assentry.core.grant import Grant, covers, revoke, use, why_not
from assentry.errors import GrantSpent, PolicyError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
GRANT = Grant("g1", "w", ("refund_*",), NOW + HOUR, "alice", agents=("shop*",))
BUDGET = replace(GRANT, budget=Decimal(100), currency="EUR")
UNNAMED = replace(GRANT, budget=Decimal(100))


def refund(**facts: Any) -> tuple[Action, Assessment]:
    found = tuple(Fact(name, value, "") for name, value in facts.items())
    effect = Effect(False, Reach.SERVICE)
    return Action("refund_order", {"n": 3}, agent="shop"), Assessment(
        effect, Risk.DANGEROUS, Basis.CATALOGUE, facts=found
    )


@pytest.mark.parametrize(
    ("grant", "facts", "says"),
    [
        (GRANT, {}, None),
        (replace(GRANT, actions=("refund",)), {}, "other actions"),
        (replace(GRANT, agents=("cleanup",)), {}, "other agents"),
        (replace(GRANT, max_risk=Risk.RISKY), {}, "up to risky"),
        (replace(GRANT, max_risk=Risk.CRITICAL), {}, None),
        (replace(GRANT, expires_at=NOW), {}, "expired"),
        (replace(GRANT, revoked_at=NOW), {}, "revoked"),
        (replace(GRANT, limit=2, used=1), {}, None),
        (replace(GRANT, limit=2, used=2), {}, "2 of 2"),
        (replace(GRANT, condition="args.n < 5"), {}, None),
        (replace(GRANT, condition="args.n < 3"), {}, "does not hold"),
        (replace(GRANT, condition="args.missing < 3"), {}, "could not be evaluated"),
        (GRANT, {"amount": 1.0}, "no budget"),
        (GRANT, {"total": 1.0}, "no budget"),
        (GRANT, {"unreadable": ["amount"]}, "no budget"),
        (GRANT, {"unreadable": ["recipients"]}, None),
        (BUDGET, {}, "amount is not known"),
        (BUDGET, {"amount": 100.0, "currency": "EUR"}, None),
        (BUDGET, {"amount": 100.01, "currency": "EUR"}, "not enough"),
        (replace(BUDGET, spent=Decimal("0.01")), {"amount": 100.0, "currency": "EUR"}, "not enough"),
        (BUDGET, {"amount": 1.0, "currency": "USD"}, "in EUR"),
        (BUDGET, {"amount": 1.0}, "in EUR"),
        (UNNAMED, {"amount": 1.0}, None),
        (UNNAMED, {"amount": 1.0, "currency": "BTC"}, "without a currency"),
        (UNNAMED, {"amount": 1.0, "unreadable": ["currency"]}, "without a currency"),
        (BUDGET, {"amount": -1.0, "currency": "EUR"}, "negative"),
        (BUDGET, {"amount": float("nan"), "currency": "EUR"}, "not known"),
        (BUDGET, {"amount": True, "currency": "EUR"}, "not known"),
        (BUDGET, {"amount": 1.0, "currency": "EUR", "unscanned": True}, "not known"),
    ],
)
def test_what_a_grant_covers(grant: Grant, facts: dict[str, Any], says: str | None) -> None:
    reason = why_not(grant, *refund(**facts), NOW)
    assert reason is None if says is None else says in (reason or "")
    assert covers(grant, *refund(**facts), NOW) is (says is None)


def test_without_a_budget_nothing_that_costs_money_is_covered() -> None:
    action, assessment = refund()
    paid = replace(assessment, effect=Effect(False, Reach.SERVICE, money=True))
    assert "no budget" in (why_not(GRANT, action, paid, NOW) or "")


def test_without_a_clock_nothing_is_covered() -> None:
    assert "time is not known" in (why_not(GRANT, *refund(), None) or "")


def test_a_grant_never_lifts_critical_unless_it_says_so() -> None:
    action, assessment = refund()
    assert not covers(GRANT, action, replace(assessment, risk=Risk.CRITICAL), NOW)


def test_a_use_counts_and_spends() -> None:
    used = use(replace(BUDGET, limit=3), 30.1, NOW)
    assert (used.used, used.spent, used.version) == (1, Decimal("30.1"), 2)
    assert use(GRANT, None, NOW).spent == 0


@pytest.mark.parametrize(
    ("grant", "amount"),
    [
        (replace(GRANT, limit=1, used=1), None),
        (replace(GRANT, expires_at=NOW), None),
        (revoke(GRANT, NOW), None),
        (BUDGET, 101),
        (BUDGET, None),
        (BUDGET, "much"),
    ],
)
def test_what_is_used_up_cannot_be_used(grant: Grant, amount: Any) -> None:
    with pytest.raises(GrantSpent) as caught:
        use(grant, amount, NOW)
    assert caught.value.grant_id == "g1"


def test_revoking_twice_changes_nothing() -> None:
    once = revoke(GRANT, NOW)
    assert revoke(once, NOW + HOUR) is once


def test_a_grant_with_a_broken_condition_cannot_be_made() -> None:
    with pytest.raises(PolicyError):
        replace(GRANT, condition="args.n <")


@given(st.lists(st.decimals(min_value=0, max_value=60, places=2), max_size=20), st.integers(1, 5))
def test_uses_never_exceed_count_or_budget(amounts: list[Decimal], limit: int) -> None:
    grant = replace(BUDGET, limit=limit)
    for amount in amounts:
        try:
            grant = use(grant, str(amount), NOW)
        except GrantSpent:
            continue
    assert grant.used <= limit
    assert grant.spent <= Decimal(100)
