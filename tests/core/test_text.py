"""Agent text is inert: nothing hides, nothing is interpreted."""

import unicodedata
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import Fact
from assentry.core.text import (
    ago,
    counted,
    left,
    lookalikes,
    render,
    sentence,
    shortened,
    span,
    template_fields,
    visible,
)
from assentry.errors import GuardError

SPANS = [
    (0, "less than 1 s"), (0.4, "less than 1 s"), (1, "1 s"), (40, "40 s"), (59.6, "1 min"), (60, "1 min"), (90, "90 s"),
    (119.4, "119 s"), (120, "2 min"), (3569, "59 min"), (3599, "1 h"), (3600, "1 h"), (5400, "90 min"), (7199, "2 h"),
    (86_399, "1 day"), (90_000, "25 h"), (172_799, "2 days"), (10.6 * 86_400, "11 days"),
]  # fmt: skip
"""Seconds and what is said of them; the page says the same, which tests/browser/test_times.py holds it to."""


@given(st.text())
def test_no_control_format_or_invisible_character_survives(text):
    shown = visible(text)
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "char",
    ["\x1b", "\u202e", "\u200b", "\ufeff", "\u2066", "\x00", "\x9b", "\u2028", "\u3164", "\ufe0f", "\u00a0", "\u00ad"],
)
def test_each_hiding_character_is_spelled_out(char):
    assert visible(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


def test_line_breaks_stay_only_where_lines_are_wanted():
    assert visible("a\nb") == "a\nb"
    assert visible("a\nb", lines=False) == "a⟨U+000A⟩b"


def test_ordinary_text_of_any_language_stays_as_it_is():
    for text in ("Grüße an alle", "日本語のテキスト", "naïve café", "Привет мир", "مرحبا"):
        assert visible(text) == text


def test_words_that_mix_scripts_are_found():
    assert lookalikes('{"to":"p\u0430ypal.com"}') == ("p\u0430ypal",)
    # Every letter is Cyrillic, and none looks it; beside a word that does, it is a language.
    assert lookalikes('{"to":"\u0440\u0430\u0443"}') == ("\u0440\u0430\u0443",)
    assert lookalikes("\u0440\u0430\u0443 Привет") == ()
    assert lookalikes("٣ apples") == ()
    assert lookalikes("Привет plain") == ()


def test_a_template_reads_arguments_counts_and_facts_and_nothing_else():
    args = {"to": ["a@x.io", "b@x.io"], "subject": "Hi \x1b[31m", "meta": {"id": 7}}
    facts = (Fact("count", 2, "2 recipients"),)
    assert render("Mail {to.count} people: {subject}", args) == "Mail 2 people: Hi ⟨U+001B⟩[31m"
    assert render("{to.0} {meta.id} {facts.count}", args, facts) == "a@x.io 7 2 recipients"
    assert render("{subject.__class__} {nothing.here}", args) == "? ?"
    assert render("{to.²} {to.٣} {to.1}", args) == "? ? b@x.io", "other scripts have digits that are no places"


def test_a_broken_template_is_refused_with_a_remedy():
    with pytest.raises(GuardError, match="brace"):
        template_fields("half {open")


def test_what_is_cut_says_so() -> None:
    assert shortened("x" * 500, 120) == "x" * 99 + "… 401 more characters"


@pytest.mark.parametrize(("seconds", "said"), SPANS)
def test_spans_are_rounded_and_said_as_people_say_them(seconds: float, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


def test_what_just_happened_and_what_is_over_have_words() -> None:
    assert [ago(timedelta(seconds=each)) for each in (0, 0.9, 40, 3599)] == [
        "just now",
        "just now",
        "40 s ago",
        "1 h ago",
    ]
    assert [left(timedelta(seconds=each)) for each in (-1, 0, 0.4, 3599)] == [
        "time is up", "time is up", "less than 1 s left", "1 h left",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "files", "1 file"), (2, "file", "2 files"), (1, "people", "1 person"), (2, "person", "2 people"),
        (2, "people", "2 people"), (1, "entries", "1 entry"), (1234, "entry", "1,234 entries"), (2, "branch", "2 branches"),
        (0, "item", "0 items"), (2, "more step", "2 more steps"), (Decimal("1"), "steps", "1 step"),
        (Decimal("12.50"), "EUR", "12.5 EUR"), (2, "child", "2 children"), (3, "data", "3 data"),
    ],
)  # fmt: skip
def test_one_is_counted_in_the_singular_and_everything_else_in_the_plural(number: Any, noun: str, said: str) -> None:
    assert counted(number, noun) == said


def test_a_template_that_counts_one_says_so_in_the_singular() -> None:
    says = "Mail {to.count} people: {subject}"
    assert render(says, {"to": ["a"], "subject": "files"}) == "Mail 1 person: files"
    assert render(says, {"to": ["a", "b"], "subject": "x"}) == "Mail 2 people: x"
    assert render("{n.count} files", {"n": ["a"]}) == "1 file"
    assert render("order {n} files", {"n": 1}) == "order 1 files", "a value is no count"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("more than 100 files wait", "More than 100 files wait"), ("x@evil.org is outside", "x@evil.org is outside"),
        ("delete_files is not named", "delete_files is not named"), ("orders-db", "orders-db"), ("", ""),
    ],
)  # fmt: skip
def test_a_sentence_that_begins_with_data_keeps_its_letters(text: str, said: str) -> None:
    assert sentence(text) == said


def test_a_pile_of_marks_is_spelled_out_and_a_language_is_not() -> None:
    assert visible("Zoe\u0308 a\u0323\u0302\u0301") == "Zoe\u0308 a\u0323\u0302\u0301"
    assert visible("a" + "\u0301" * 5) == "a" + "\u0301" * 3 + "⟨U+0301⟩⟨U+0301⟩"
