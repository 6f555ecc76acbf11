"""Recipients: only what every mail program and browser reads alike is read; all else is unreadable and outside."""

from typing import Any

import pytest

from assentry.core.action import Action
from assentry.core.facts import fact_view, facts_of
from assentry.core.link_text import hosts_in
from assentry.core.recipient_text import addresses_in, is_outside, whom_in
from assentry.core.scope import exceeded, scope_of
from tests.core.values import classified

OURS = ("ours.example",)
EVIL = "x@evil.example"
DECEIVING = [
    f'"\\"" <{EVIL}>, "\\"" <y@ours.example>',
    "https://evil.example/@ours.example",
    "https://evil.example/?q=y@ours.example",
    "https://ours.example\\@evil.example",
    "https://evil.example\\.ours.example/",
    "https://evil.example%2f.ours.example/",
    "https://evil.example;.ours.example",
    "https://ours.example#@evil.example",
    "https://ours.example?@evil.example",
    "https://ours.example@evil.example",
    "https://ours.example:80@evil.example",
    "https:evil.example/@ours.example",
    "http:/\\evil.example/.ours.example",
    "https://" + "a." * 118 + "ours.example" + ".b" * 20 + ".evil.example",
    "https://[::ffff:10.0.0.1]/ours.example",
    "https://ours.example。evil.example",
    "https://оurs.example",
    "//evil.example/@ours.example",
    "x @ evil.example",
    f"({EVIL})y@ours.example",
    f"y@ours.example ({EVIL})",
    "=?utf-8?q?x=40evil.example?= <y@ours.example>",
    "y@оurs.example",
    "y@ours.example。evil.example",
    "y@ours.example:25",
    "y@[10.0.0.1]",
    "y@[IPv6:::1]",
    f"mailto:y@ours.example?cc={EVIL}",
    "mailto:y@ours.example?bcc=x%40evil.example",
    f"team: y@ours.example, {EVIL};",
    "<@evil.example:y@ours.example>",
    "x%evil.example@ours.example",
    "evil.example!x@ours.example",
    f'"{EVIL}"@ours.example',
    f"y@ours.example\r\nBcc: {EVIL}",
    "y@ours.example\u2028x@evil.example",
    "y@ours.example\u200b",
    "y@ours.example\x00@evil.example",
    f"y@ours.example|{EVIL}",
    "-oQ/tmp@ours.example",
    "y@ours.example..",
    "y@@ours.example",
    "all-staff",
    "#general",
    "Bob",
    "+15551234",
    "evil.example",
    "slack://evil",
    f"{EVIL} <y@ours.example>",
    f'"{EVIL}" <y@ours.example>',
    " " * 1_500 + EVIL,
    "y@ours.example, " * 100 + EVIL,
    "y@ours.example " * 600 + EVIL,
]


@pytest.mark.parametrize("to", DECEIVING)
def test_no_recipient_is_taken_for_one_of_ours(to: str) -> None:
    facts = facts_of("send_message", {"to": to}, domains=OURS)
    assert fact_view(facts).get("external") != 0


@pytest.mark.parametrize(
    ("to", "read"),
    [
        ("Y@ours.example", ["y@ours.example"]),
        ("y.o'neil+tag@ours.example.", ["y.o'neil+tag@ours.example"]),
        ("<y@ours.example>", ["y@ours.example"]),
        ("Ann Lee-Doe <y@ours.example>", ["y@ours.example"]),
        ('"Lee, Ann" <y@ours.example>, z@ours.example', ["y@ours.example", "z@ours.example"]),
        ("y@ours.example; z@mail.ours.example\nw@ours.example", ["y@ours.example", "z@mail.ours.example", "w@ours.example"]),
        ("https://hooks.ours.example:8443/@x?y=z@evil.example", ["https://hooks.ours.example:8443/@x?y=z@evil.example"]),
    ],
)  # fmt: skip
def test_what_is_written_plainly_is_read(to: str, read: list[str]) -> None:
    view = fact_view(facts_of("send_message", {"to": to}, domains=OURS))
    assert (view["recipients"], view["external"]) == (read, 0)


def test_every_reading_of_a_recipient_is_shown() -> None:
    (fact,) = [fact for fact in facts_of("send_message", {"to": DECEIVING[0]}) if fact.name == "recipients"]
    assert fact.value == [EVIL, "y@ours.example"]
    assert fact.hurts
    assert fact.says == f"to {EVIL}, y@ours.example, not read for certain"


def test_names_in_quotes_are_not_counted_as_recipients() -> None:
    found = {fact.name: fact for fact in facts_of("send_message", {"to": '"Lee, Ann" <y@ours.example>'})}
    assert "count" not in found


@pytest.mark.parametrize("args", [{"attendees": ["x @ evil.example"]}, {"attendees": ["all-staff"]}])
def test_who_cannot_be_placed_counts_as_outside(args: dict[str, Any]) -> None:
    action = Action("create_event", args, agent="bot")
    assert classified(action, domains=OURS).effect.outside
    assert not classified(action).effect.outside
    assert not classified(Action("create_event", {"attendees": ["y@ours.example"]}), domains=OURS).effect.outside


def test_what_is_acted_on_is_no_recipient() -> None:
    action = Action("archive_channel", {"channel": "#general"}, agent="bot")
    found = classified(action, domains=OURS)
    assert not found.effect.outside
    assert fact_view(found.facts)["external"] == 0


def test_a_recipient_that_cannot_be_read_is_outside_the_scope_of_a_run() -> None:
    scope = scope_of({"recipients": ["@ours.example"]})
    for to, out in (("y@ours.example", False), ("=?utf-8?q?x?= <y@ours.example>", True)):
        action = Action("send_message", {"to": to}, agent="bot")
        assert bool(exceeded(scope, {}, action, classified(action))) is out


@pytest.mark.parametrize(
    "args",
    [
        {"to": "y@ours.example", "dest": "x @ evil.example"},
        {"to": "y@ours.example", "dest": "x@1.2.3.4.5.6.7.8.ours.example.evil.example"},
        {"to": "y@ours.example", "x" * 500 + " x@evil.example": "hello"},
        {"to": "y@ours.example", "dest": "x@evil\u200b.example"},
    ],
)
def test_an_address_elsewhere_in_what_is_sent_is_found(args: dict[str, Any]) -> None:
    assert fact_view(facts_of("send_message", args, domains=OURS)).get("external") != 0


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("see https://evil.example/@ours.example", {"evil.example": False}),
        ("see https://ours.example\\@evil.example", {"ours.example": True, "evil.example": True}),
        ("see https:evil.example/x", {"evil.example": True}),
        ("see http:\\\\evil.example", {"evil.example": True}),
        ("see WWW.evil.example, or https://[::1]:80/", {"www.evil.example": False, "[::1]:80": True}),
        ("[here](https://ours.example/a), https://evil.example)", {"ours.example": False, "evil.example": False}),
        ("https://a.example,https://evil.example", {"a.example,https": True, "evil.example": False}),
        ("ratio https:3 and www.", {"www": False}),
    ],
)
def test_the_hosts_of_every_reading_are_told(text: str, hosts: dict[str, bool]) -> None:
    assert hosts_in(text) == (hosts, True)
    assert fact_view(facts_of("post_note", {"text": text}))["links"] == list(hosts)


def test_more_links_than_are_read_are_unreadable() -> None:
    many = " ".join(f"https://h{number}.example" for number in range(60))
    assert "links" not in fact_view(facts_of("post_note", {"text": many}))


def test_a_link_tells_no_password_to_anybody() -> None:
    for link in ("https://deploy:S3cret/Passw0rd@db.example.com/x", "https://u:S3cretPassw0rd@evil.example"):
        assert "assw0rd" not in str(facts_of("send_message", {"to": link}, domains=OURS))


def test_an_address_of_any_length_is_read_to_its_end() -> None:
    (found,) = addresses_in("mail x@" + "a." * 200 + "ours.example.evil.example now")
    assert is_outside(found, OURS)
    assert whom_in("x@" + "a." * 200 + "ours.example").sure is False
