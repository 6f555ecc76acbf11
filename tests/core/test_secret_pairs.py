"""Names and values in texts: found as they are meant, however often they are escaped."""

import json

from hypothesis import given
from hypothesis import strategies as st

from assent.core.secret_pairs import secret_pairs

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(texts, texts, st.integers(0, 3), st.booleans())
def test_a_value_is_found_as_it_is_meant(secret: str, other: str, depth: int, ascii_only: bool) -> None:
    text = json.dumps({"user": other, "password": secret, "note": other}, ensure_ascii=ascii_only)
    for _ in range(depth):
        text = json.dumps({"arguments": text}, ensure_ascii=ascii_only)
    assert [pair.secret for pair in secret_pairs(text)] == [secret]


@given(st.one_of(st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)), st.integers(0, 3))
def test_a_number_is_found_too(number: float, depth: int) -> None:
    text = json.dumps({"pin": number, "count": 3})
    for _ in range(depth):
        text = json.dumps([text])
    (pair,) = secret_pairs(text)
    assert (text[pair.start : pair.end], pair.secret) == (json.dumps(number),) * 2


@given(st.text(st.sampled_from(list("\"'\\:{}[], \n\tpasword1-e.")), max_size=300))
def test_whatever_is_written_they_come_in_order_and_apart(text: str) -> None:
    at = 0
    for pair in secret_pairs(text):
        assert at <= pair.start <= pair.end <= len(text)
        at = pair.end
