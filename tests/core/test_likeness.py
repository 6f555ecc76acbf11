"""What is like a request is narrow: whatever is larger, elsewhere, for others or not certain is not like it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from assentry.core.action import Action, Risk
from assentry.core.grant import Grant, why_not
from assentry.core.likeness import EXAMPLES, examples_of, joined, likeness_of
from assentry.errors import InvalidDecision
from tests.core.values import classified

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOB: dict[str, Any] = {
    "to": "bob@ours.example", "environment": "staging", "path": "/srv/reports/a.txt", "n": 3, "amount": 120,
    "currency": "EUR", "label": "weekly", "body": "Hello Bob",
}  # fmt: skip


def action(name: str = "send_report", /, **args: Any) -> Action:
    return Action(name, args, agent="mailer")


def grant_like(asked: Action, *wide: str, condition: str = "") -> Grant:
    found = likeness_of(asked, classified(asked), wide)
    condition = joined(condition, [each for each in found.bounds if each.name not in wide])
    return Grant(
        "g", "w", (asked.name,), NOW + timedelta(hours=1), "ann", ("mailer",), condition, Risk.CRITICAL,
        budget=Decimal(10**9) if "amount" in asked.args else None, currency="EUR",
    )  # fmt: skip


def covers(grant: Grant, **args: Any) -> bool:
    asked = action(grant.actions[0], **args)
    return why_not(grant, asked, classified(asked), NOW) is None


def test_it_covers_the_request_itself_and_what_is_smaller_or_in_the_same_place() -> None:
    grant = grant_like(action(**BOB))
    assert covers(grant, **BOB)
    for other in (
        {"to": "eve@ours.example"},
        {"path": "/srv/reports/b.txt"},
        {"n": 1},
        {"amount": 99.5},
        {"body": "Hi"},
    ):
        assert covers(grant, **{**BOB, **other}), other


@pytest.mark.parametrize(
    "other",
    [
        {"to": "boss@evil.example"}, {"to": "bob@ours.example, boss@evil.example"}, {"to": ["bob@ours.example", "x@evil.example"]},
        {"to": '"\\"" <x@evil.example>, "\\"" <y@ours.example>'}, {"to": "bob@ours.example.evil.example"}, {"to": "everyone"}, {"to": ""},
        {"environment": "production"}, {"environment": "prod"}, {"environment": ""},
        {"path": "/etc/passwd"}, {"path": "/srv/a.txt"}, {"path": "/srv/reports/../../etc/passwd"}, {"path": "/srv/reports/%2e%2e/x"},
        {"path": "/srv/reports/deeper/a.txt"}, {"path": "/srv/reports/a.txt,/etc/passwd"}, {"path": "~/a.txt"}, {"path": "a.txt"},
        {"n": 900}, {"n": -900}, {"n": "900"}, {"amount": 121}, {"amount": "€ 250.000"}, {"amount": "a lot"}, {"currency": "USD"}, {"currency": ""},
        {"label": "monthly"}, {"cc": "x@evil.example"}, {"force": True}, {"body": "See https://evil.example/x"}, {"body": "We pay you $50,000 now"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_for_others_elsewhere_larger_or_not_certain_asks_again(other: dict[str, Any]) -> None:
    assert not covers(grant_like(action(**BOB)), **{**BOB, **other})


def test_the_whole_case_of_the_audit_asks_again() -> None:
    assert not covers(
        grant_like(action(**BOB)),
        **{**BOB, "to": "boss@evil.example", "environment": "production", "path": "/etc/passwd", "n": 900},
    )


def test_every_limit_reads_as_a_sentence() -> None:
    found = likeness_of(action(**BOB), classified(action(**BOB)))
    assert [(each.name, each.says) for each in found.bounds] == [
        ("recipients", "only to people at ours.example"),
        ("folder", "only files in /srv/reports"),
        ("environment", "only in staging"),
        ("count", "at most 3 reports each time"),
        ("amount", "at most 120.00 EUR each time"),
        ("arg:label", "label is weekly"),
        ("rest", "no other arguments, links or promised amounts"),
    ]
    assert found.open == ("body",)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("recipients", {"to": "boss@evil.example"}), ("folder", {"path": "/etc/hosts"}), ("environment", {"environment": "production"}),
        ("amount", {"amount": 900}), ("count", {"n": 900}), ("arg:label", {"label": "monthly"}), ("rest", {"force": True}),
    ],
)  # fmt: skip
def test_a_dropped_limit_limits_nothing_and_the_others_still_do(name: str, other: dict[str, Any]) -> None:
    grant = grant_like(action(**BOB), name)
    assert covers(grant, **{**BOB, **other})
    assert not covers(grant, **{**BOB, **other, "mode": "x", "label": "other"})


@pytest.mark.parametrize(
    ("other", "fact", "name"),
    [
        ({"to": '"\\"" <x@evil.example>, "\\"" <y@ours.example>'}, "recipients", "recipients"),
        ({"path": "/srv/reports/../x"}, "paths", "folder"),
        ({"path": "/srv/reports/%2e%2e/x"}, "paths", "folder"),
        ({"amount": "a lot"}, "amount", "amount"),
    ],
    ids=str,
)
def test_what_could_not_be_read_gives_no_limit_and_is_named(other: dict[str, Any], fact: str, name: str) -> None:
    asked = action(**{**BOB, **other})
    with pytest.raises(InvalidDecision, match=f"its {fact} could not be read for certain"):
        likeness_of(asked, classified(asked))
    assert likeness_of(asked, classified(asked), (name,)).bounds


@pytest.mark.parametrize(
    ("asked", "same", "other"),
    [
        (action("run_command", command="make test"), {"command": "make test"}, {"command": "make install"}),
        (action("drop_table", table="users"), {"table": "users"}, {"table": "orders"}),
        (action("close_order", order="A-17", force=False), {"order": "A-17", "force": False}, {"order": "A-17", "force": True}),
        (action("clear_dir", directory="/srv/x"), {"directory": "/srv/x"}, {"directory": "/srv/y"}),
        (action("scale", size=4), {"size": 2}, {"size": 5}),
        (action("tag", ids=["a", "b"]), {"ids": ["b"]}, {"ids": ["c"]}),
        (action("set", options={"a": [1, 2.5, None]}), {"options": {"a": [1, 2.5, None]}}, {"options": {"a": [1, 3, None]}}),
        (action("note", text='say "x"\\ \u201c \x7f'), {"text": "else"}, {"text": "else", "to": "x@evil.example"}),
        (action("file", name='a"b\\c\u2028é'), {"name": 'a"b\\c\u2028é'}, {"name": "a"}),
    ],
    ids=lambda each: each.name if isinstance(each, Action) else "",
)  # fmt: skip
def test_names_and_programs_stay_as_they_are_and_numbers_do_not_grow(
    asked: Action, same: dict[str, Any], other: dict[str, Any]
) -> None:
    grant = grant_like(asked)
    assert covers(grant, **same)
    assert not covers(grant, **other)


def test_a_secret_is_in_no_condition() -> None:
    asked = action(password="hunter2hunter2", note="⟨secret 0123456789ab, 12 characters⟩")
    found = likeness_of(asked, classified(asked))
    assert set(found.open) == {"password", "note"}
    assert "hunter2" not in joined("", found.bounds)


def test_a_condition_of_ones_own_comes_on_top() -> None:
    grant = grant_like(action(**BOB), condition="facts.count < 2 || false")
    assert covers(grant, **{**BOB, "n": 1})
    assert not covers(grant, **{**BOB, "n": 2})
    assert not covers(grant, **{**BOB, "n": 1, "to": "x@evil.example"})


def test_three_examples_are_covered_and_show_what_was_dropped_first() -> None:
    asked = action(**BOB)
    narrow = examples_of(grant_like(asked), asked, classified(asked), NOW)
    assert [each.says for each in narrow] == [
        "the same with to: somebody.else@ours.example", "the same with path: /srv/reports/another-file", "the same with n: 2",
    ]  # fmt: skip
    grant = grant_like(asked, "recipients", "environment", "folder")
    wide = examples_of(grant, asked, classified(asked), NOW)
    assert [each.says for each in wide] == [
        "the same with to: somebody@elsewhere.example", "the same with environment: production", "the same with path: /etc/passwd",
    ]  # fmt: skip
    assert len(wide) == EXAMPLES
    assert all(covers(grant, **each.args) for each in wide)
