"""One byte string for one value, and nothing lost on the way."""

import json
import struct
from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    _written_at_once,
    _written_with_care,
    canonical,
    digest,
    restore,
)
from assentry.errors import InvalidArguments

text = st.text(st.characters(exclude_categories=("Cs",)))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=20
)


@given(values)
def test_what_is_written_can_be_read_back_and_writes_the_same_again(value):
    once = canonical(value)
    assert canonical(restore(once)) == once


@given(values)
def test_the_short_way_writes_what_the_careful_way_writes(value):
    assert _written_at_once(value) in ("", _written_with_care(value))


def test_every_character_is_written_alike_on_both_ways():
    everything = {"text": "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000)]))}
    assert _written_at_once(everything) == _written_with_care(everything)


@given(values)
def test_the_text_is_json_that_any_parser_reads(value):
    json.loads(canonical(value))


@given(st.dictionaries(text, st.integers(), min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value):
    turned = dict(reversed(value.items()))
    assert canonical(turned) == canonical(value)


@given(st.binary(min_size=8, max_size=8))
def test_floats_are_written_as_ecmascript_would_and_read_back_exactly(data):
    (number,) = struct.unpack("<d", data)
    if number != number or abs(number) == float("inf"):
        with pytest.raises(InvalidArguments):
            canonical(number)
    else:
        assert restore(canonical(number)) == number


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1.0, "1"), (-0.0, "0"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-6, "0.000001"),
        (1e-7, "1e-7"), (333333333.33333329, "333333333.3333333"), (4.50, "4.5"), (2e-3, "0.002"),
        (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"), (-1.5e-9, "-1.5e-9"),
    ],
)  # fmt: skip
def test_numbers_of_rfc_8785(number, written):
    assert canonical(number) == written


def test_keys_are_sorted_by_utf_16_units():
    assert canonical({"\U0001f600": 1, "\uffee": 2}) == '{"\U0001f600":1,"\uffee":2}'


def test_big_integers_and_decimals_travel_as_tagged_strings():
    value = {"id": 10**30, "price": Decimal("1.20")}
    assert canonical(value) == '{"id":{"$int":"1000000000000000000000000000000"},"price":{"$decimal":"1.20"}}'
    assert restore(canonical(value)) == value


def test_an_argument_cannot_pretend_to_be_a_tag():
    forged = {"amount": {"$int": "5"}}
    assert restore(canonical(forged)) == forged
    assert canonical(forged) != canonical({"amount": 5})


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def test_enumerations_and_tuples_are_written_as_what_they_hold():
    assert canonical({"c": Colour.RED, "l": Level.HIGH, "t": (1, 2)}) == '{"c":"red","l":3,"t":[1,2]}'


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), object(), {1: 2}, b"bytes", {"a": {1, 2}}, "\ud800", {"\udfff": 1}, Decimal("NaN")],
    ids=str.split("nan infinity object number-key bytes set half-pair half-pair-key no-decimal"),
)
def test_what_json_cannot_carry_is_refused_with_a_remedy(value):
    with pytest.raises(InvalidArguments, match=r"pass|use"):
        canonical(value)


def test_depth_and_size_are_bounded():
    deep: list = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(InvalidArguments, match="deeper"):
        canonical(deep)
    with pytest.raises(InvalidArguments, match="larger"):
        canonical("x" * (MAX_BYTES + 1))
    canonical("x" * (MAX_BYTES - 10))


def test_parts_of_a_digest_cannot_be_shifted_into_one_another():
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
