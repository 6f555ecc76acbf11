"""Padding changes nothing: what hides behind much that says nothing is judged as if it stood alone, or more strictly."""

import pytest

from assentry.core.classify import classify, profile
from assentry.core.declared import Said
from tests.evidence.padding import CASES, LENGTHS, Pad, risk


@pytest.mark.parametrize(("action", "key", "text", "pad"), CASES, ids=[f"{c[1]}-{c[2][:9]}-{c[3][0]}" for c in CASES])
def test_what_is_padded_is_judged_no_more_kindly(action: str, key: str, text: str, pad: tuple[str, Pad]) -> None:
    for trusted in (True, False):
        plain = risk(action, key, text, trusted)
        for length in LENGTHS:
            assert risk(action, key, pad[1](length, text), trusted) >= plain, (length, trusted)


@pytest.mark.parametrize("filler", [{"a": "x" * 130_000}, {f"a{n}": "x" * 39_000 for n in range(5)}])
def test_long_texts_beside_it_hide_nothing(filler: dict[str, str]) -> None:
    for action, key, text, _ in CASES[::4]:
        kind = profile(action, "", None, Said(trusted=True))
        plain = classify(kind, {key: text}).risk
        assert classify(kind, {**filler, key: text}).risk >= plain, (action, text)
        assert classify(kind, {key: text, **filler}).risk >= plain, (action, text)


def test_what_is_long_and_harmless_stays_so() -> None:
    kind = profile("write_file", "", None, Said(trusted=True))
    filler = {f"a{n}": "x" * 39_000 for n in range(5)}
    plain = classify(kind, {"path": "notes/a.txt", "content": "x"}).risk
    assert classify(kind, {**filler, "path": "notes/a.txt", "content": "x" * 300_000}).risk is plain
    assert classify(kind, {"path": " " * 90_000 + "notes/a.txt", "content": "x" * 300_000}).risk is plain
    assert classify(kind, {"path": "./" * 50_000 + "notes/a.txt", "content": "x"}).risk is plain
