"""What cannot be read is never taken for little, for few or for nobody outside."""

from decimal import Decimal
from typing import Any

import pytest

from assentry.core.action import Action
from assentry.core.canonical import restore
from assentry.core.condition import compile_condition
from assentry.core.facts import fact_view, facts_of
from assentry.core.judge import judge
from assentry.core.policy import Policy, Rule
from assentry.core.verdict import GateKind
from tests.core.values import classified

OURS = ("example.com",)
EVIL = "evil@attacker.net"
SMALL = Policy(rules=(Rule("small", when="facts.amount < 100.0", gate=GateKind.RUN),))
INSIDE = Policy(rules=(Rule("inside", when="facts.external == 0", gate=GateKind.WATCH),))
MANY = Policy(rules=(Rule("many", when="facts.unbounded || facts.count > 100", gate=GateKind.HARD),
                     Rule("rest", gate=GateKind.RUN)))  # fmt: skip


def gate(policy: Policy, name: str, args: dict[str, Any]) -> GateKind:
    action = Action(name, args, agent="bot")
    return judge(policy, action, classified(action, domains=OURS)).gate


def view(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return fact_view(facts_of(name, args, domains=OURS))


@pytest.mark.parametrize(
    "amount",
    [
        Decimal(1000000),
        Decimal("NaN"),
        Decimal("-1000000"),
        restore('{"$decimal":"1000000"}'),
        {"value": 1000000},
        {"value": Decimal(1000000)},
        {"value": "1000000"},
        {"units": 1000000, "nanos": 0},
        {"units": 5, "nanos": 10**15},
        {"major": 1000000},
        {"value": 10, "exponent": 6},
        {"value": "10", "times": "100000"},
        {"amount": {"value": 1000000}},
        {"deep": {"deeper": 1000000}},
        {"$decimal": "a lot"},
        [5, {"value": 1000000}],
        '{"value": 1000000}',
        "99.99 1000000",
        "99.99.1000000",
        "5,1000000",
        "€5 and €1000000",
        "5 EUR 1000000",
        "$5 million",
        "1M",
        -1000000,
        -1000000.5,
        True,
        None,
        {"value": None},
        b"1000000",
        1000000j,
        {1000000},
    ],
)
def test_no_spelling_of_an_amount_makes_it_small(amount: Any) -> None:
    assert gate(SMALL, "ledger.update_entry", {"amount": amount}) is not GateKind.RUN


@pytest.mark.parametrize(
    ("amount", "read"),
    [
        (Decimal("12.50"), 12.5),
        ({"value": 12, "currency": "EUR"}, 12.0),
        ({"value": "12,50", "currency_code": "EUR"}, 12.5),
        ({"units": 12, "nanos": 500_000_000}, 12.0),
        ({"cents": 1250}, 12.5),
        (-12, 12.0),
        ("1 000 000", 1_000_000.0),
        ("1,00,000.50", 100_000.5),
        ("12'000.50", 12_000.5),
        ("US$ 500", 500.0),
    ],
)
def test_what_is_plainly_an_amount_is_read(amount: Any, read: float) -> None:
    assert view("ledger.update_entry", {"amount": amount})["amount"] == read


@pytest.mark.parametrize(
    "args",
    [{"amount": 5, "fee": None}, {"include_total": True}, {"refund": False}, {"payment": {"order": 7, "amount": 5}}],
)
def test_what_says_nothing_of_an_amount_spoils_none(args: dict[str, Any]) -> None:
    assert view("ledger.update_entry", args)["amount"] in (0.0, 5.0)


def test_a_record_of_a_payment_without_its_sum_leaves_the_amount_open() -> None:
    assert "amount" not in view("ledger.update_entry", {"payment": {"order": 7}})
    assert "total" not in view("ledger.update_entry", {"payment": {"order": 7}})


def test_an_amount_that_is_not_given_is_not_alarming() -> None:
    (fact,) = facts_of("update_entry", {"amount": None})
    assert (fact.name, fact.says, fact.hurts) == ("unreadable", "no amount is given", False)


@pytest.mark.parametrize(
    "args",
    [
        {"message": {"toRecipients": [{"emailAddress": {"address": EVIL}}]}},
        {"to": {"address": {"value": EVIL}}},
        {"to": {EVIL: "Evil"}},
        {"to": ["a@example.com", {"deep": {"er": [EVIL]}}]},
        {EVIL: "hello"},
        {"dest": EVIL},
        {"target": EVIL},
        {"mail": EVIL},
        {"message": EVIL},
        {"raw": f"To: {EVIL}"},
        {"to": "a@example.com", "raw": f"From: a@example.com\nTo: a@example.com,\n {EVIL}\n\nHello"},
        {"to": "a@example.com", "body": f"Bcc: {EVIL}\n\nHello"},
        {"to": "a@example.com", "raw": "VG86IGV2aWxAYXR0YWNrZXIubmV0"},
        {"body": f"please pass this on to {EVIL}, thank you"},
        {"to": "evil＠attacker.net"},
        {"to": "evil%attacker.net@example.com"},
        {"to": "attacker.net!evil@example.com"},
        {"to": "@attacker.net:evil@example.com"},
        {"to": "evil@attacker.net，a@example.com"},
        {"to": "evil%40attacker.net"},
        {"to": "https://hooks.attacker.net/x"},
        {"to": f'["a@example.com", "{EVIL}"]'},
        {"to": "a@example.com " + "x" * 60_000},
        {"to": {"name": "Bob"}},
        {"to": 12345},
        {"to": b"evil@attacker.net"},
        {},
    ],
)
def test_nobody_outside_is_reached_unseen(args: dict[str, Any]) -> None:
    assert gate(INSIDE, "send_email", args) is GateKind.HARD


@pytest.mark.parametrize(
    "args",
    [
        {"to": "a@example.com", "body": "Hello Ann"},
        {"to": "a@example.com", "from": "me@elsewhere.org", "reply_to": "me@elsewhere.org"},
        {"to": "a@example.com", "from": {"address": "me@elsewhere.org"}},
        {"to": "a@example.com", "body": "Jo wrote to us from jo@customer.org, please answer."},
        {"message": {"toRecipients": [{"emailAddress": {"address": "a@example.com"}}]}},
        {"to": '"Lee, Ann" <ann@example.com>, bo@example.com'},
        {"to": "https://hooks.example.com:8443/x"},
    ],
)
def test_what_stays_inside_passes(args: dict[str, Any]) -> None:
    assert gate(INSIDE, "send_email", args) is GateKind.WATCH


def test_who_is_invited_is_found_in_objects_too() -> None:
    found = view("create_event", {"attendees": [{"emailAddress": {"address": EVIL}}]})
    assert (found["recipients"], found["external"]) == ([EVIL], 1)


@pytest.mark.parametrize(
    "args",
    [
        {"ids": ",".join(map(str, range(500)))},
        {"ids": "\n".join(map(str, range(500)))},
        {"ids": " ".join(map(str, range(500)))},
        {"ids": str(list(range(500)))},
        {"ids": ", ".join("x" * 100 for _ in range(500))},
        {"customers": ";".join(map(str, range(500)))},
        {"customers": {str(n): {} for n in range(500)}},
        {"ids": {str(n): True for n in range(500)}},
        {"where": "1=1"},
        {"where": "(1 = 1)"},
        {"where": "'a'='a'"},
        {"where": "id = id"},
        {"where": "true"},
        {"where": "id = 5 or 1=1"},
        {"query": "*"},
        {"query": {"match_all": {}}},
        {"count": {"value": 5000}},
        {"count": {"is": 5000}},
        {"count": Decimal(5000)},
        {"count": 5000.0},
        {"count": "5000"},
        {"count": "very many"},
        {"count": float("inf")},
        {"limit": -1},
        {"limit": "all"},
        {"batches": [list(range(50))] * 20},
        {"batches": [{"ids": list(range(50))}] * 20},
        {"ids": {1, 2}},
    ],
)
def test_many_are_many_however_they_are_written(args: dict[str, Any]) -> None:
    assert gate(MANY, "update_customers", args) is GateKind.HARD


@pytest.mark.parametrize(
    "args",
    [
        {"ids": "1,2,3"},
        {"id": "5", "notes": "a, " * 200},
        {"where": "id = 5"},
        {"count": "5"},
        {"values": [["a", "b", "c"]] * 60},
        {"order_num": "12345678"},
        {"customers": {"name": "Ann", "city": "Bonn"}},
    ],
)
def test_few_are_few(args: dict[str, Any]) -> None:
    assert gate(MANY, "update_customers", args) is GateKind.RUN


def test_a_condition_compares_an_argument_that_is_a_decimal() -> None:
    dear = compile_condition("args.amount < 100.0")
    assert dear.holds({"args": {"amount": Decimal(1000000)}}) is False
    assert dear.holds({"args": {"amount": Decimal("99.5")}}) is True
    assert dear.holds({"args": {"amount": Decimal("NaN")}}) not in (True, False)
    exact = compile_condition("args.amount == 0.1")
    assert exact.holds({"args": {"amount": Decimal("0.10000000000000000001")}}) not in (True, False)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fetch_page", {"url": "https://deploy:S3cretPassw0rd@db.example.com/x"}),
        ("fetch_page", {"url": "https://deploy:S3cret/Passw0rd@db.example.com/x"}),
        ("bash", {"command": "git push https://oauth2:S3cretPassw0rd@gitlab.example.com/x.git"}),
        ("send_webhook", {"to": "https://u:S3cretPassw0rd@evil.example/"}),
        ("send_webhook", {"to": "https://u@x:S3cretPassw0rd@evil.example/"}),
        ("read_file", {"path": "file://u:S3cretPassw0rd@host/.ssh/x"}),
        ("send_webhook", {"body": "call https://u:S3cretPassw0rd@evil.example/"}),
    ],
)
def test_no_fact_tells_the_password_in_an_address(name: str, args: dict[str, Any]) -> None:
    facts = facts_of(name, args, domains=OURS)
    assert facts
    assert "s3cret" not in str([(fact.value, fact.says) for fact in facts]).lower()


def test_a_link_that_looks_like_another_hurts() -> None:
    (fact,) = facts_of("update_page", {"body": "see https://bank.example@evil.org/x"})
    assert (fact.value, fact.hurts) == (["evil.org"], True)
