"""Whatever is generated, our reading of a recipient, a link, an amount or a path is never kinder than a standard parser's.

The generators and judges are those of the evidence suite `facts`.
"""

import random
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assentry.core.money_text import money_of, numbers_in
from tests.evidence.facts import EVIL, KINDS, OURS, judged_amount, judged_link, judged_path, judged_recipient

HOSTILE = st.text(st.sampled_from(f" ,;:<>\"'()[]@\\/|%=?#.-0159aeEUR€\n\0\u200b\u3002\uff20{OURS}"), max_size=40)
WORDS = st.sampled_from(
    ["ann@" + OURS, "x@" + EVIL, OURS, EVIL, "https://", "mailto:", "/etc", "../", "%2e", "250.000", "€"]
)
PIECES = st.lists(st.one_of(HOSTILE, WORDS), max_size=5).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True)
@given(st.integers(0, 2**64))
def test_what_the_generators_make_is_never_read_more_kindly(kind: str, seed: int) -> None:
    make, judge = KINDS[kind]
    assert judge(make(random.Random(seed))) == ""


@settings(derandomize=True)  # the suite `facts` looks for new ones, 100,000 of each
@example("/etc/etchttps://")
@example("https://%2e%2e")
@given(PIECES)
def test_what_nobody_thought_of_is_never_read_more_kindly(text: str) -> None:
    assert judged_link(text) == ""
    assert judged_path(text) == ""
    assert [judged_recipient(text), judged_amount(text)] == ["", ""]


@given(st.decimals(0, 10**9, places=2), st.sampled_from([("", "."), (",", "."), (".", ","), (" ", ","), ("'", ".")]))
def test_an_amount_written_with_two_decimals_has_one_reading(number: Decimal, marks: tuple[str, str]) -> None:
    group, point = marks
    whole, _, decimals = f"{number:,.2f}".partition(".")
    assert numbers_in(whole.replace(",", group) + point + decimals) == (number,)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9))
def test_a_number_that_is_no_text_is_exactly_that(number: Decimal) -> None:
    money = money_of(number)
    assert money is not None
    assert (money.amount, money.other) == (number, None)
