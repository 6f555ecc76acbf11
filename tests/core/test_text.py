"""Agent text is inert: nothing hides, nothing is interpreted."""

import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import Fact
from assentry.core.text import default_line, lookalikes, render, shortened, span, template_fields, visible
from assentry.errors import GuardError


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


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_a_long_value_cannot_push_the_end_out_of_sight(name, args):
    assert len(default_line(name[:50], ())) <= 50 * 8 + 2
    assert len(shortened("x" * 500, 120)) == 120


def test_a_line_about_a_command_shows_it_inert_and_cut():
    known = [Fact("environment", "production", "in production")]
    assert (
        default_line("run_command", (), {"command": " rm -rf /srv\n", "description": "x"}) == "Run command: rm -rf /srv"
    )
    assert default_line("run_command", known, {"cmd": "ls\x1b[2J\u202e"}) == (
        "Run command (in production): ls⟨U+001B⟩[2J⟨U+202E⟩"
    )
    assert default_line("exec", (), {"argv": ["rm", "-rf"]}) == "Exec: rm -rf"
    assert default_line("exec", (), {"command": "a" * 500}) == f"Exec: {'a' * 119}…"
    assert default_line("exec", (), {"command": {"a": 1}, "argv": [1], "cmd": ""}) == "Exec"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (40, "40 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 days")]
)
def test_spans_are_said_as_people_say_them(seconds, said):
    assert span(timedelta(seconds=seconds)) == said


def test_a_pile_of_marks_is_spelled_out_and_a_language_is_not() -> None:
    assert visible("Zoe\u0308 a\u0323\u0302\u0301") == "Zoe\u0308 a\u0323\u0302\u0301"
    assert visible("a" + "\u0301" * 5) == "a" + "\u0301" * 3 + "⟨U+0301⟩⟨U+0301⟩"
