"""What a run was given, how much a call uses up of it, and what lies outside."""

from decimal import Decimal
from typing import Any

import pytest

from assentry.core.action import Action
from assentry.core.scope import exceeded, scope_of, uses
from assentry.errors import InvalidArguments
from tests.core.values import classified


def call(name: str, **args: Any) -> tuple[Action, Any]:
    action = Action(name, args, "cleanup")
    return action, classified(action)


@pytest.mark.parametrize("amount", [100, -100, -100.0])
def test_an_amount_below_zero_gives_nothing_back(amount: float) -> None:
    action, assessment = call("transfer_money", amount=amount, currency="EUR")
    assert uses(action, assessment)["EUR"] == 100
    assert exceeded(scope_of({"EUR": 50}), {}, action, assessment)
    assert exceeded(scope_of({"EUR": 150}), {"EUR": Decimal(60)}, action, assessment)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/srv/reports/a.txt", True),
        ("/srv/reports/100%.txt", True),
        ("/srv/reports/a%20b.txt", True),
        ("/srv/reports/a..b.txt", True),
        ("/srv/other/a.txt", False),
        ("/srv/reports/../a.txt", False),
        ("/srv/reports/%2e%2e/a.txt", False),
        ("/srv/reports/%2E./a.txt", False),
        ("/srv/reports/..%2fa.txt", False),
        ("/srv/reports/%252e%252e/a.txt", False),
        ("/srv/reports/%25252525252e%25252525252e/a.txt", False),
        ("/srv/reports/..\\a.txt", False),
        ("/srv/reports/%2e%2e%5ca.txt", False),
        ("/srv/reports/" + "a/" * 150 + "../" * 170 + "etc/passwd", False),
    ],
)
def test_what_climbs_out_is_outside_however_it_is_written(path: str, inside: bool) -> None:
    action, assessment = call("delete_file", path=path)
    assert any(fact.name == "paths" for fact in assessment.facts)
    assert (exceeded(scope_of({"paths": ["/srv/reports"]}), {}, action, assessment) == []) is inside


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["delete_*"], "a scope is a mapping"),
        ({"action": ["delete_*"]}, "actions, recipients, paths.*'action' is none.*list.*did you mean 'actions'"),
        ({"recipient": "@a.org"}, "did you mean 'recipients'"),
        ({"colour": "red"}, "'colour' is none of the three, and it is given str, not a number$"),
        ({"actions": 3}, "actions of a scope are texts, such as"),
        ({"files": True}, "'files' is none"),
        ({"files": -1}, "not negative"),
        ({"files": float("nan")}, "not negative"),
        ({"EUR": float("inf")}, "not negative"),
    ],
)
def test_a_scope_that_cannot_be_meant_says_what_one_has(given: Any, says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        scope_of(given)


@pytest.mark.parametrize("amount", ["2 million", ["60 EUR", "1 USD"], "€5 USD"])
def test_an_amount_that_cannot_be_read_is_not_within_a_limit(amount: Any) -> None:
    action = Action("pay_bill", {"amount": amount, "currency": "EUR"}, agent="bot")
    assert exceeded(scope_of({"EUR": 50}), {}, action, classified(action))
