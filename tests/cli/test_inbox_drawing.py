"""What the inbox draws, without a terminal: inert, within its width, nothing lost, and every key documented."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.segment import Segment

from assentry.cli.screen import bar, card
from assentry.cli.screen.card import Shown
from assentry.cli.screen.edit import Unreadable, fields_of, read
from assentry.cli.screen.fields import fields, folds, pretty, safe_json
from assentry.cli.screen.inbox import InboxScreen
from assentry.cli.screen.keys import HELP
from assentry.cli.screen.lines import Row
from assentry.cli.screen.look import THEMES, WITHOUT_COLOUR, theme_for
from assentry.core.briefing import Briefing, brief
from assentry.core.canonical import restore
from tests.cli.terminal import Agent

LOOK = THEMES["assentry-dark"][1]
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | HOSTILE,
    lambda inner: st.lists(inner, max_size=15) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=15,
)


def text_of(rows: list[Row]) -> str:
    return "\n".join("".join(segment.text for segment in row) for row in rows)


@PATIENT
@given(st.dictionaries(HOSTILE, JSON, max_size=6), st.integers(40, 120), st.booleans())
def test_any_arguments_are_drawn_inert_and_within_their_width(args: dict[str, Any], width: int, whole: bool) -> None:
    for row in fields(args, width, LOOK, whole=whole):
        assert Segment.get_line_length(row) <= width
        assert all(segment.text.isprintable() for segment in row)


@PATIENT
@given(st.lists(st.text("ab \n", max_size=300), max_size=60))
def test_nothing_of_a_value_is_lost_when_it_is_opened(items: list[str]) -> None:
    drawn = text_of(fields({"x": items}, 60, LOOK, whole=True))
    for item in items:
        assert all(word in drawn.replace("\n", " ") for word in item.split() if len(word) < 50)


def test_a_folded_value_shows_its_end() -> None:
    args = {"command": "echo harmless; " * 500 + "rm -rf /", "files": [f"f{n}" for n in range(50)] + ["/etc/shadow"]}
    drawn = text_of(fields(args, 80, LOOK, whole=False))
    assert "rm -rf /" in drawn
    assert "/etc/shadow" in drawn
    assert [fold.name for fold in folds(args)] == ["command", "files"]


@pytest.mark.parametrize("value", ["true", "12", "", " x", "null", '"q"', "{}"])
def test_text_that_looks_like_something_else_is_quoted(value: str) -> None:
    assert f"“{value}”" in text_of(fields({"x": value}, 60, LOOK, whole=False))


@PATIENT
@given(JSON)
def test_json_to_edit_has_nothing_hidden_and_comes_back_the_same(value: Any) -> None:
    text = pretty(value)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert restore(text) == restore(safe_json(text))
    assert pretty(restore(text)) == text


def briefing(agent: Agent, **said: Any) -> Briefing:
    return brief(agent.asks(**said), NOW)


def test_the_order_of_the_card_is_facts_reasons_options_bytes_then_claims(agent: Agent) -> None:
    said = {"why": "because", "goal": "order", "confidence": 0.9, "alternatives": ("none",)}
    found = briefing(agent, if_denied="go home", **said)
    drawn = text_of(card.body(Shown(found), NOW, 90, LOOK))
    places = [
        drawn.index(word) for word in ("! cannot be undone", "Why you are asked", "Exactly this runs", "If you deny")
    ]
    places.append(drawn.index("the agent says — not checked"))
    assert places == sorted(places)
    assert drawn.index("because") > places[-1]


def test_every_risk_looks_different_without_colour(agent: Agent) -> None:
    found = briefing(agent)
    heads = {text_of(card.head(replace(found, risk=risk), NOW, 80, WITHOUT_COLOUR)) for risk in type(found.risk)}
    assert len(heads) == 4


def test_the_bar_never_drops_a_deed(agent: Agent) -> None:
    found = briefing(agent)
    for width in range(30, 140):
        rows, _ = bar.bar(Shown(found, hides="x"), None, width, LOOK)
        assert all(word in text_of(rows) for word in ("Open", "Approve", "Modify", "Send back", "Deny"))
        assert all(Segment.get_line_length(row) <= width for row in rows)


def test_untouched_fields_go_back_exactly_as_they_were() -> None:
    args = {"t": "a\x1bb", "n": 1.5, "l": ["x", ""], "o": {"k": [1]}, "s": "⟨secret 12⟩", "b": True}
    schema = {
        "properties": {
            "t": {"type": "string"},
            "n": {"type": "number"},
            "l": {"type": "array"},
            "b": {"type": "boolean"},
        }
    }
    for field in fields_of(args, schema):
        assert (
            read(field, field.begin if field.kind != "choice" else field.choices.index(field.value)) == args[field.name]
        )
        assert field.begin.replace("\n", "").isprintable()


def test_a_field_that_cannot_be_read_is_named() -> None:
    (field,) = fields_of({"n": 3}, {"properties": {"n": {"type": "integer"}}})
    with pytest.raises(Unreadable, match="n is not a whole number"):
        read(field, "three")


@pytest.mark.parametrize(
    ("told", "theme"), [("15;0", "assentry-dark"), ("0;15", "assentry-light"), ("", "assentry-dark")]
)
def test_the_theme_follows_the_terminal(told: str, theme: str) -> None:
    assert theme_for(told) == theme


def test_every_key_is_in_the_help_and_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inbox-terminal.md").read_text()
    documented = set(re.findall(r"`([^`]+)`", page)) | {str(number) for number in range(1, 10)}
    helped = {key for _, keys in HELP for named, _ in keys for key in named.split()} | documented & set("123456789")
    names = {"slash": "/", "question_mark": "?", "right_square_bracket": "]", "left_square_bracket": "[", "right": "→",
             "left": "←", "escape": "esc", "shift+tab": "tab"}  # fmt: skip
    for binding in InboxScreen.BINDINGS:
        for key in binding.key.split(","):  # type: ignore[union-attr]
            assert names.get(key, key) in documented, f"{key} is not in docs/inbox-terminal.md"
            assert names.get(key, key) in helped | {"esc"}, f"{key} is not in the help"
