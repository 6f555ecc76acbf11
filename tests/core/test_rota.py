"""Rotas: who is on duty when, and that nobody else decides for them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.authority import EVERYTHING, Principal, duties, eligible, may_decide, selects
from assentry.core.policy_document import to_document
from assentry.core.policy_file import load_policy
from assentry.core.rota import Rota, Turn
from assentry.errors import PolicyError

MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
WEEK, HOUR = timedelta(weeks=1), timedelta(hours=1)
TEXT = """
people: {ada: {}, ben: {}, cyd: {roles: [operator]}}
rotas:
  nights: {weekly: [ada, ben], from: "2026-01-05T09:00:00+00:00"}
  feast:
    turns:
      - {person: cyd, from: "2026-01-06T00:00:00+01:00", to: "2026-01-07T00:00:00+01:00"}
rules:
  - {name: r, actions: [x], gate: hard, reviewers: ["rota:nights", "rota:feast"]}
"""


@pytest.mark.parametrize(
    ("after", "who"),
    [
        (-timedelta(microseconds=1), ()),
        (timedelta(0), ("ada",)),
        (WEEK - timedelta(microseconds=1), ("ada",)),
        (WEEK, ("ben",)),
        (2 * WEEK, ("cyd",)),
        (3 * WEEK, ("ada",)),
        (300 * WEEK + HOUR, ("ada",)),
    ],
)
def test_weeks_go_round(after: timedelta, who: tuple[str, ...]) -> None:
    assert Rota("r", weekly=("ada", "ben", "cyd"), begins=MONDAY).on_duty(MONDAY + after) == who


@pytest.mark.parametrize(
    ("after", "who"),
    [(-HOUR, ()), (0 * HOUR, ("ada",)), (1 * HOUR, ("ada", "ben")), (2 * HOUR, ("ben",)), (3 * HOUR, ())],
)
def test_turns_begin_and_end_when_they_say(after: timedelta, who: tuple[str, ...]) -> None:
    turns = (Turn("ada", MONDAY, MONDAY + 2 * HOUR), Turn("ben", MONDAY + HOUR, MONDAY + 3 * HOUR))
    assert Rota("r", turns).on_duty(MONDAY + after) == who


moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=5), moments, moments)
def test_by_the_week_one_member_is_on_duty_at_every_moment_wherever_it_is_read(
    order: list[str], begins: datetime, now: datetime
) -> None:
    rota = Rota("r", weekly=tuple(order), begins=begins)
    found = rota.on_duty(now)
    assert len(found) == (1 if now >= begins else 0)
    assert set(found) <= set(rota.members)
    assert rota.on_duty(now.astimezone(timezone(timedelta(hours=9)))) == found
    if now >= begins and now.year < 2099:
        assert rota.on_duty(now + WEEK * len(order)) == found


def test_a_rota_means_who_is_on_duty_when_they_decide() -> None:
    policy = load_policy(TEXT)
    reviewers = policy.rules[0].reviewers
    ada, ben, cyd = (Principal(name) for name in ("ada", "ben", "cyd"))

    def who(now: datetime | None) -> list[str]:
        return [each.name for each in (ada, ben, cyd) if may_decide(policy, each, reviewers, "agent", now=now) is None]

    assert who(MONDAY) == ["ada"]
    assert who(MONDAY + timedelta(hours=24)) == ["ada", "cyd"]
    assert who(MONDAY + WEEK) == ["ben"]
    assert who(MONDAY - HOUR) == [], "where nobody is on duty nobody decides"
    assert who(None) == [], "without a time nobody is on duty"
    assert [each.name for each in eligible(policy, reviewers, MONDAY)] == ["ada"]
    assert [each.name for each in eligible(policy, reviewers)] == ["ada", "ben", "cyd"]


def test_a_rota_selects_by_duty_alone() -> None:
    duty = {"nights": ("ada",)}
    assert selects("rota:nights", Principal("ada"), duty)
    assert not selects("rota:nights", Principal("ada"))
    assert not selects("rota:days", Principal("ada"), duty)
    assert not selects("rota:nights", Principal("ben", roles=("nights", "rota:nights")), duty)
    assert selects("rota:nights", Principal("me", roles=(EVERYTHING,)))
    assert duties(load_policy(TEXT), None) == {}


def test_a_rota_survives_a_round_trip() -> None:
    import yaml

    policy = load_policy(TEXT)
    assert load_policy(yaml.safe_dump(to_document(policy), sort_keys=False)) == policy


@pytest.mark.parametrize(
    ("rota", "says"),
    [
        ("{}", "empty"),
        ("{weekly: [ada]}", "needs weekly: and from:"),
        ('{from: "2026-01-05T09:00:00Z", turns: []}', "needs weekly: and from:"),
        ('{weekly: [eve], from: "2026-01-05T09:00:00Z"}', 'unknown person "eve"'),
        ('{weekly: [ada], from: "2026-01-05T09:00:00"}', "UTC offset"),
        ("{weekly: [ada], from: 2026-01-05}", "UTC offset"),
        ('{weekly: [ada], from: "soon"}', "UTC offset"),
        ("{turns: [{person: ada}]}", "needs from, to"),
        ('{turns: [{person: ada, from: "2026-01-05T09:00:00Z", to: "2026-01-05T09:00:00Z"}]}', "ends before"),
        ("{turn: []}", "unknown key"),
        ("3", "write lines of the form"),
    ],
)
def test_what_is_wrong_with_a_rota_is_said(rota: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(f"people: {{ada: {{}}}}\nrotas: {{nights: {rota}}}")
    assert says in str(caught.value)


def test_a_rota_that_is_not_there_is_no_reviewer() -> None:
    with pytest.raises(PolicyError, match="rota:days"):
        load_policy(TEXT.replace('"rota:nights"', '"rota:days"'))
