"""What is written is what is read: every request, whatever is in it, survives the way through its row."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assentry.core.action import Action, Assessment, Basis, Effect, Fact, Reach, Risk
from assentry.core.canonical import canonical
from assentry.core.decision import Candidate, Vote
from assentry.core.grant import Grant
from assentry.core.request import Ask, Executor, Kind, Option, Permit, Question, Request, Review, State
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum, Rung, Trigger, Verdict
from assentry.errors import InvalidArguments, StoreError
from assentry.stores import rows
from assentry.stores.retention import purged
from assentry.testing.store_values import asked, candidate, everything, grant, pending

TEXT = st.text(max_size=12)
WHOLE = st.integers(-(2**70), 2**70)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))
SPANS = st.timedeltas()
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=3,
)
EXACT = st.recursive(
    st.none() | WHOLE | TEXT | st.decimals(allow_nan=False, allow_infinity=False, places=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=3,
)
ARGS = st.dictionaries(TEXT, JSON | EXACT, max_size=4)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=2).map(tuple)


EFFECTS = st.builds(Effect, st.booleans(), st.sampled_from(Reach), st.booleans(), st.booleans())
ACTIONS = st.builds(
    Action, TEXT, ARGS, agent=TEXT, description=TEXT, schema=st.none() | st.dictionaries(TEXT, JSON, max_size=2),
    trusted=st.booleans(), why=TEXT, goal=TEXT, confidence=st.none() | NUMBERS, cost=st.none() | NUMBERS,
    alternatives=tuples(TEXT),
)  # fmt: skip
RUNGS = st.builds(Rung, SPANS, st.booleans(), tuples(TEXT), tuples(TEXT))
VERDICTS = st.builds(
    Verdict, st.sampled_from(GateKind), TEXT, TEXT,
    triggers=tuples(st.builds(Trigger, TEXT, TEXT, st.sampled_from(GateKind))),
    reviewers=tuples(TEXT),
    quorum=st.builds(Quorum, st.integers(1, 9), tuples(TEXT)),
    ladder=st.builds(Ladder, tuples(RUNGS), st.integers(0, 9), st.none() | SPANS, st.sampled_from(AtEnd)),
    undo_window=SPANS, review_after=st.booleans(), observed=st.none() | st.sampled_from(GateKind),
    grant=st.none() | TEXT, policy_version=st.integers(0, 2**31),
)  # fmt: skip
ASSESSMENTS = st.builds(
    Assessment, EFFECTS, st.sampled_from(Risk), st.sampled_from(Basis), tuples(TEXT),
    tuples(st.builds(Fact, TEXT, JSON, TEXT, st.booleans(), st.booleans())),
)  # fmt: skip


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    action = draw(ACTIONS)
    return Candidate(
        action, canonical(action.args), draw(TEXT), draw(TEXT), draw(ASSESSMENTS), draw(VERDICTS), draw(TEXT)
    )


QUESTIONS = st.builds(
    Question, TEXT, tuples(TEXT), st.none() | st.dictionaries(TEXT, JSON, max_size=2), JSON, st.booleans()
)
ASKS = st.builds(
    Ask, TEXT, TEXT, TEXT, st.sampled_from(Kind), TEXT, TEXT, TIMES, candidates(), run=TEXT, step=TEXT,
    executor=st.sampled_from(Executor), options=tuples(st.builds(Option, TEXT, TEXT, st.none() | candidates())),
    question=st.none() | QUESTIONS, if_denied=TEXT, needed_by=st.none() | TIMES, can_undo=st.booleans(),
    can_verify=st.booleans(), idempotent=st.booleans(), claims=st.dictionaries(TEXT, JSON, max_size=3), draft_of=TEXT,
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    ask = draw(ASKS)
    return Request(
        ask, draw(st.sampled_from(State)), draw(st.integers(1, 2**40)), draw(TIMES),
        draw(st.just(ask.candidate) | candidates()), draw(st.none() | TIMES), draw(st.none() | TIMES),
        draw(st.integers(0, 99)), draw(tuples(TEXT)), draw(st.none() | TIMES),
        draw(tuples(st.builds(Vote, TEXT, TEXT, TIMES, TEXT, tuples(TEXT), TEXT, TEXT))),
        draw(TEXT), draw(st.none() | TIMES), draw(TEXT), draw(TEXT), draw(JSON), draw(st.none() | st.integers(0, 9)),
        draw(st.booleans()),
        draw(st.none() | st.builds(Permit, TEXT, st.integers(0, 99), TIMES, st.none() | TIMES, st.none() | TIMES)),
        draw(st.integers(0, 99)), draw(TEXT), review=draw(st.sampled_from(Review)),
        sealed=draw(st.dictionaries(TEXT, TEXT, max_size=2)), purged=draw(st.booleans()),
    )  # fmt: skip


def through_its_row(request: Request) -> Request:
    row = rows.all_columns(request, rows.micros)
    return rows.read_request(rows.read_ask(row["ask"], request.id), row["body"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests())
def test_any_request_comes_back_as_it_was(request: Request) -> None:
    back = through_its_row(request)
    assert back == request
    assert canonical(back.candidate.action.args) == request.candidate.args_text


def test_a_request_with_everything_set_comes_back_as_it_was() -> None:
    request = everything()
    assert through_its_row(request) == request
    defaults = pending(request.ask)
    unset = [f.name for f in fields(Request) if getattr(request, f.name) == getattr(defaults, f.name)]
    # A field that is added to Request and not to `everything` would go untested.
    assert set(unset) <= {"ask", "version", "purged", "undoing"}


def test_what_stays_as_asked_is_not_written_again() -> None:
    request = pending(asked(1))
    assert "delete_files" not in rows.moving_text(request)
    assert "other" in rows.moving_text(replace(request, candidate=candidate("other")))
    assert len(rows.moving_text(request)) < 120


def test_arguments_are_written_once_and_only_as_canonical_text() -> None:
    shown = candidate("pay", {"amount": Decimal("12.30"), "word": "MARKER"})
    text = rows.ask_text(asked(1, shown=shown))
    assert text.count("MARKER") == 1
    assert rows.read_ask(text, "1").candidate.action.args == {"amount": Decimal("12.30"), "word": "MARKER"}
    hidden = replace(shown, action=replace(shown.action, args={"word": "SECRET"}))
    assert "SECRET" not in rows.ask_text(asked(1, shown=hidden))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        "{}",
        '{"state":"pending"}',
        '{"state":"pending","version":"1"}',
        '{"version":1}',
        "\0",
        "9",
    ],
)
def test_garbage_is_named_in_one_line_and_its_content_is_not_repeated(text: str) -> None:
    ask = asked(1)
    for read in (lambda: rows.read_request(ask, text), lambda: rows.read_ask(text, ask.id)):
        with pytest.raises(StoreError) as caught:
            read()
        assert ask.id in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(StoreError):
        rows.read_grant(text, "g")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_text_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    request = everything()
    row = rows.all_columns(request, rows.micros)
    name = data.draw(st.sampled_from(["ask", "body"]))
    text = row[name]
    place = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:place] + data.draw(st.characters()) + text[place + data.draw(st.integers(0, 5)) :]
    try:
        if name == "ask":
            rows.read_ask(damaged, request.id)
        else:
            rows.read_request(request.ask, damaged)
    except StoreError:
        pass


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff"]}, object(), {1, 2}.__iter__(), 1j])
def test_what_json_cannot_carry_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        rows.moving_text(pending(asked(1), answer=value))


def test_arguments_that_are_no_object_are_refused() -> None:
    for text in ("[1]", "nonsense", '"x"', "{"):
        with pytest.raises(InvalidArguments):
            rows.ask_text(asked(1, shown=replace(candidate(), args_text=text)))


@given(st.text(), st.text())
def test_columns_keep_different_texts_different_and_storable(one: str, other: str) -> None:
    assert (rows.column(one) == rows.column(other)) == (one == other)
    assert "\0" not in rows.column(one)
    rows.column(one).encode()


def test_columns_of_halves_of_surrogates_are_storable() -> None:
    assert rows.column("\ud800") != rows.column("\udfff")
    rows.column("\ud800").encode()


@given(TIMES)
def test_times_keep_their_microseconds(at: datetime) -> None:
    assert rows.moment(rows.micros(at)) == at


def test_no_time_is_later_than_every_time() -> None:
    assert rows.micros(None) > rows.micros(datetime.max.replace(tzinfo=UTC))
    assert rows.moment(rows.micros(None)) is None


def test_a_grant_comes_back_as_it_was() -> None:
    full = grant(
        1, agents=("a", "b*"), condition="facts.count < 5", max_risk=Risk.CRITICAL, limit=5, used=2,
        budget=Decimal("100.00"), currency="EUR", spent=Decimal("12.30"), reason="why",
        revoked_at=datetime(2025, 1, 1, tzinfo=UTC), version=3,
    )  # fmt: skip
    for each in (full, grant(2)):
        back = rows.read_grant(rows.grant_columns(each, rows.micros)["body"], each.id)
        assert back == each
        assert type(back) is Grant


def test_a_purged_request_holds_no_payload() -> None:
    request = everything()
    text = json.dumps(rows.all_columns(purged(request), rows.micros))
    for word in (
        "12.5",
        "a goal",
        "over budget",
        "it leaves us",
        "Pay",
        "less",
        "cheaper",
        "sealed",
        "Which?",
        "try later",
        "half",
    ):
        assert word not in text, word
    assert "p" * 64 in text
    assert through_its_row(purged(request)).purged
