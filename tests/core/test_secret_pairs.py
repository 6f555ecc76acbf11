"""Names and values in texts: found as they are meant, however often they are escaped."""

import json

from hypothesis import given
from hypothesis import strategies as st

from assentry.core.secret_pairs import secret_pairs

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


@given(st.lists(texts, min_size=1, max_size=4), st.integers(-99, 99), st.integers(0, 3))
def test_in_a_list_or_an_object_every_value_is_found_and_no_name(secrets: list[str], pin: int, depth: int) -> None:
    said = {"credentials": "x", "password": [*secrets, {"old": secrets[0], "pin": [pin, None, True]}], "note": ["free"]}
    text = json.dumps(said)
    for _ in range(depth):
        text = json.dumps({"arguments": text})
    assert [pair.secret for pair in secret_pairs(text)][-len(secrets) - 2 :] == [*secrets, secrets[0], str(pin)]


def test_a_list_of_tokens_and_what_is_counted_in_tokens() -> None:
    long = "a1" * 20
    text = json.dumps({"device_token": [long, "no", 5, {"password": "q"}], "items": [{"password": "p"}, 3]})
    assert [pair.secret for pair in secret_pairs(text)] == [long, "q", "p"]


@given(st.text(st.sampled_from(list("\"'\\:{}[], \n\tpasword1-e.")), max_size=300))
def test_whatever_is_written_they_come_in_order_and_apart(text: str) -> None:
    at = 0
    for pair in secret_pairs(text):
        assert at <= pair.start <= pair.end <= len(text)
        at = pair.end
