"""Amounts: what can be read in two ways is judged by the larger reading, and both are shown."""

from decimal import Decimal
from typing import Any

import pytest

from assentry.core.action import Fact
from assentry.core.facts import fact_view, facts_of
from assentry.core.money_text import Money, money_of, numbers_in, promised_in, typed
from assentry.core.title import default_title


def told(**args: Any) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts_of("refund", args)}


@pytest.mark.parametrize(
    ("text", "larger", "smaller"),
    [
        ("250.000", "250000", "250.000"),
        ("250,000", "250000", "250.000"),
        ("€ 250.000", "250000", "250.000"),
        ("EUR 1.000", "1000", "1.000"),
        ("1000.000", "1000000", "1000.000"),
        ("0.500", "500", "0.500"),
        (".500", "500", "0.500"),
        ("0,001 BTC", "1", "0.001"),
        ("1.000.", "1000", "1.000"),
        ("1,000.000", "1000000", "1000.000"),
        ("1 234.567", "1234567", "1234.567"),
        ("1'234.567", "1234567", "1234.567"),
        ("-250.000", "-250000", "-250.000"),
        ("(250.000)", "-250000", "-250.000"),
        ("250.000-", "-250000", "-250.000"),
        ("２５０．０００", "250000", "250.000"),
        ("٢٥٠٫٠٠٠", "250000", "250.000"),
        ("€1.000k", "1000000", "1000"),
    ],
)
def test_a_mark_before_three_digits_has_two_readings_and_the_larger_counts(
    text: str, larger: str, smaller: str
) -> None:
    money = money_of(text)
    assert money is not None
    assert (money.amount, money.other) == (Decimal(larger), Decimal(smaller))
    fact = told(amount=text, currency=money.currency or "EUR")["amount"]
    assert fact.value == abs(float(larger))
    assert fact.hurts
    assert fact.says.endswith("it can be read in two ways")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("20", "20"), ("19.99", "19.99"), ("1,000.50", "1000.50"), ("1.000,50", "1000.50"), ("1,234,567", "1234567"),
        ("1.234.567", "1234567"), ("1,00,000", "100000"), ("1'000", "1000"), ("1’000", "1000"), ("1 000", "1000"),
        ("1٬000", "1000"), ("1e6", "1000000"), ("0.0049", "0.0049"), ("12,50", "12.50"), ("1_000", "1000"),
        ("(250.00)", "-250.00"), ("250.00-", "-250.00"), ("−5", "-5"), ("２５０", "250"), ("٢٥٠", "250"),
    ],
)  # fmt: skip
def test_a_plain_number_has_one_reading(text: str, number: str) -> None:
    assert numbers_in(text) == (Decimal(number),)


@pytest.mark.parametrize("text", ["1.2.3", "1,2,3", "0x10", "½", "5²", "1/2", "5%", "--5", "-(5)", "", "-", "1 00"])
def test_what_is_not_one_number_is_not_read(text: str) -> None:
    assert numbers_in(text) == ()


@pytest.mark.parametrize("amount", [12.345, Decimal("12.345"), {"$decimal": "12.345"}])
def test_a_number_that_is_no_text_has_one_reading(amount: Any) -> None:
    assert money_of(amount) == Money(Decimal("12.345"))


@pytest.mark.parametrize(
    ("text", "currency"),
    [("$5", "USD"), ("CA$ 5", "CAD"), ("$5 AUD", "AUD"), ("¥5 CNY", "CNY"), ("5 EUR", "EUR"), ("5 XAU", "XAU")],
)
def test_a_sign_of_many_currencies_is_read_with_what_stands_beside_it(text: str, currency: str) -> None:
    assert money_of(text) == Money(Decimal(5), currency)


@pytest.mark.parametrize("text", ["USD 5 EUR", "€5 USD", "$5 JPY", "€5 and €1000000", "€ 250 000 000x"])
def test_a_sum_with_two_currencies_is_not_read(text: str) -> None:
    assert money_of(text) is None


def test_ordinary_amounts_are_told_without_a_second_reading() -> None:
    for amount, shown in ((20, "€20.00"), ("1,000.50", "€1,000.50"), ("1.000,50", "€1,000.50"), ("19.99", "€19.99")):
        args = {"order": "A-1", "amount": amount, "currency": "EUR"}
        assert default_title("refund", facts_of("refund", args), args) == f"Refund order A-1: {shown}"


def test_the_title_gives_both_readings() -> None:
    args = {"order": "A-1", "amount": "€ 250.000"}
    title = default_title("refund", facts_of("refund", args), args)
    assert title == "Refund order A-1: €250,000.00 or €250.00, it can be read in two ways"


def test_a_total_adds_the_larger_readings() -> None:
    found = told(price="250.000", fee="1.50", currency="EUR")
    assert found["total"].value == 250001.5
    assert "price €250,000.00 or €250.00" in found["amount"].says


def test_a_count_written_in_two_ways_is_the_larger() -> None:
    found = {fact.name: fact for fact in facts_of("delete_rows", {"limit": "1.000"})}
    assert (found["count"].value, found["count"].says) == (1000, "1,000 rows or 1")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"payments": [{"amount": 5000, "currency": "JPY"}, {"amount": 4000, "currency": "BTC"}]}, "¥5,000, ₿4,000"),
        ({"rows": [{"price": 5000, "currency": "JPY"}, {"price": 4000, "currency": "BTC"}]}, "¥5,000, ₿4,000"),
        ({"amounts": ["¥5000", "4000 BTC"]}, "¥5,000, ₿4,000"),
        ({"amount_jpy": 5000, "fee_usd": 4000}, "¥5,000, $4,000.00"),
        ({"amount": "¥5000", "currency": "BTC"}, "¥5,000"),
    ],
)
def test_amounts_in_two_currencies_are_never_compared_or_added_up(args: dict[str, Any], says: str) -> None:
    facts = facts_of("pay", args)
    found = {fact.name: fact for fact in facts}
    view = fact_view(facts)
    assert not {"amount", "total"} & view.keys()
    assert "total" not in found
    assert "amount" in view["unreadable"]
    assert view["currency"] == "several"
    assert found["amount"].says == says


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (0.0049, "BTC", "₿0.0049"),
        (0.0049, "XAU", "0.0049 XAU"),
        (0.0049, "EUR", "€0.0049"),
        ("0.0049", "", "0.0049"),
        (1e-22, "XAU", "1.00E-22 XAU"),
    ],
)
def test_a_small_number_of_something_dear_is_not_shown_as_zero(amount: Any, currency: str, shown: str) -> None:
    assert told(amount=amount, **({"currency": currency} if currency else {}))["amount"].says == shown


def test_what_is_typed_has_every_digit() -> None:
    assert [typed(each) for each in (20.0, 12.345, 0.0049, 250000.0, 1e-7, 1e22)] == [
        "20.00", "12.345", "0.0049", "250000.00", "0.0000001", "10000000000000000000000.00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "promised"),
    [
        ("We refund € 250.000 today.", 250_000),
        ("We refund € 250 000 today.", 250_000),
        ("We will refund you 2 million dollars.", 2_000_000),
        ("We will refund you $5 million.", 5_000_000),
        ("refund 2M EUR", 2_000_000),
        ("We refund " + " " * 500 + "$500.", 500),
        ("We refund " + "you, dear customer, " * 50 + "$500.", 500),
        ("We send you 300 dollars", 300),
    ],
)
def test_a_promise_is_read_however_it_is_written(text: str, promised: float) -> None:
    found = {fact.name: fact for fact in facts_of("reply", {"text": text})}
    assert found["promised"].value == [promised]


@pytest.mark.parametrize("text", ["We refund $1" + "000," * 30 + "000.", "".join(f"We pay ${n}. " for n in range(90))])
def test_promises_that_are_not_all_read_are_unreadable(text: str) -> None:
    assert promised_in(text)[1] is False
    assert "promised" not in fact_view(facts_of("reply", {"text": text}))
