"""The line of a call without a template: it names what the call acts on, and no value in it can pose as our words."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import Fact
from assentry.core.facts import fact_view, facts_of
from assentry.core.title import LONGEST_TEXT, LONGEST_TITLE, default_title


def titled(name: str, /, **args: Any) -> str:
    return default_title(name, facts_of(name, args), args)


@pytest.mark.parametrize(
    ("name", "args", "title"),
    [
        ("cancel_order", {"order_id": "A-17", "reason": "late"}, "Cancel order A-17"),
        ("cancelOrder", {"orderId": "A-17"}, "Cancel order A-17"),
        ("restart_pod", {"name": "web-3", "namespace": "prod"}, "Restart pod web-3 in prod"),
        ("deploy", {"service": "orders", "env": "prod"}, "Deploy service orders in prod"),
        ("update_record", {"table": "users", "id": 7, "fields": {"a": 1}}, "Update record 7 in users"),
        ("update_product_price", {"product_id": "p-7", "price": 9.99}, "Update product p-7 price: 9.99"),
        ("refund", {"order": "A-1", "amount": 20}, "Refund order A-1: 20.00"),
        (
            "refund_order",
            {"order_id": 20418, "customer_id": "c-1", "amount": 23.9, "currency": "EUR"},
            "Refund order 20418: €23.90, customer c-1",
        ),
        ("tag_item", {"item": "x-1", "tags": ["a", "b"]}, "Tag item x-1"),
        ("assign_ticket", {"ticket_id": 5, "user": "bob"}, "Assign ticket 5: user bob"),
        ("add_user_to_group", {"user": "bob", "group": "admins"}, "Add user bob to group admins"),
        ("move_file", {"source": "a.txt", "destination": "b/c.txt"}, "Move file from a.txt to b/c.txt"),
        ("delete_files", {"paths": ["/a/b", "/a/c"]}, "Delete 2 files: /a/b, /a/c"),
        ("delete_files", {"paths": ["/a/b"]}, "Delete 1 file: /a/b"),
        ("delete_files", {"files": ["a", "b"], "root": "~/tmp"}, "Delete 2 files in ~/tmp: a, b"),
        ("delete_users", {"ids": [1, 2, 3, 4, 5]}, "Delete 5 users: 1, 2, 3 and 2 more"),
        ("invite_people", {"people": ["a", "b"]}, "Invite 2 people: a, b"),
        ("invite_people", {"people": ["a"]}, "Invite 1 person: a"),
        ("delete_files", {"pattern": "**/*.tmp"}, "Delete files: pattern “**/*.tmp”"),
        ("upload_file", {"path": "/etc/shadow", "bucket": "b"},
         "Upload file /etc/shadow (holds credentials, belongs to the system) in b"),
        ("send_email", {"to": ["x@evil.org"], "subject": "Hi", "body": "b"}, "Send email “Hi” to x@evil.org"),
        ("manage_user", {"action": "delete", "user": "bob"}, "Manage user bob: delete"),
        ("http_request", {"method": "DELETE", "url": "https://api.x.io/v1"}, "Http request https://api.x.io/v1: delete"),
        ("run_query", {"sql": "DELETE FROM users"}, "Run query: DELETE FROM users"),
        ("mcp__github__create_issue", {"repo": "r", "title": "A bug"}, "Github create issue “A bug” in r"),
        ("set_stock", {"sku": "SKU-1", "amount": 3}, "Set stock SKU-1: amount 3"),
        ("set_password", {"user": "bob", "password": "hunter2"}, "Set password: user bob"),
        ("revoke_token", {"token": "ghp_abcdefabcdefabcdefabcdefabcdefabcdef"}, "Revoke token"),
        ("x@evil.org", {"a": 1}, "x@evil.org"),
        ("export_rows", {"total_rows": 500}, "Export rows"),
    ],
)  # fmt: skip
def test_a_title_names_what_the_call_acts_on(name: str, args: dict[str, Any], title: str) -> None:
    assert titled(name, **args) == title
    assert titled(name, **dict(reversed(args.items()))) == title, "whatever the order of the arguments"


@pytest.mark.parametrize(
    ("name", "args", "title", "count"),
    [
        ("remove_members", {"members": ["ann"], "except_members": ["bob", "cid"]}, "Remove 1 member: ann", 1),
        ("delete_users", {"user_ids": ["1"], "exclude_ids": ["2", "3", "4"]}, "Delete 1 user: 1", 1),
        ("delete_users", {"users": ["1", "2"], "exclude": {"users": ["3", "4", "5"]}}, "Delete 2 users: 1, 2", 2),
        ("delete_files", {"paths": ["/data"], "skip_paths": ["/a", "/b"]}, "Delete 1 file: /data", 1),
        ("delete_files", {"path": "/data", "skip_paths": ["/a", "/b"]}, "Delete files /data", None),
        ("delete_user", {"keep_user": "x", "user": "y"}, "Delete user y", 0),
        ("delete_backups", {"service": "db", "keep_count": 3}, "Delete backups in db", None),
        ("delete_users", {"exclude_ids": ["2", "3", "4"]}, "Delete users: exclude ids 2, 3, 4", None),
        ("delete_user", {"keep_user": "x"}, "Delete user: keep user x", 0),
        ("retry", {"jobs": ["1"], "skipped_jobs": ["2", "3"]}, "Retry: 1", None),
        ("delete_users", {"ids": ["1"], "not_active_ids": ["2", "3"]}, "Delete users: 1", None),
        ("delete_users", {"ids": ["1", "2"], "excluded_ids": ["3"]}, "Delete 2 users: 1, 2", 2),
        ("skip_jobs", {"skip_ids": ["1", "2"]}, "Skip jobs: 2 skips, 1, 2", 2),
    ],
)
def test_what_is_left_out_is_neither_named_nor_counted_as_what_is_acted_on(
    name: str, args: dict[str, Any], title: str, count: int | None
) -> None:
    assert titled(name, **args) == title
    assert fact_view(facts_of(name, args)).get("count") == count


@pytest.mark.parametrize(
    ("name", "args", "title"),
    [
        ("execute_sql", {"query": "select 1", "sql": "drop table users"}, "Execute sql"),
        ("run_command", {"command": "echo ok", "script": "rm -rf /"}, "Run command"),
        ("run_command", {"command": "echo ok", "skip_script": "rm -rf /"}, "Run command"),
        ("run_command", {"command": "echo ok", "options": {"script": "rm -rf /"}}, "Run command"),
        ("run_command", {"command": "echo ok", "then": [{"cmd": "rm -rf /"}]}, "Run command (1 then)"),
        ("run_command", {"command": "echo ok", "scripts": ["rm -rf /"]}, "Run command (1 script)"),
        ("run_command", {"command": "echo ok", "script": {"text": "rm -rf /"}}, "Run command"),
    ],
)
def test_of_several_texts_that_would_run_none_stands_for_all(name: str, args: dict[str, Any], title: str) -> None:
    assert titled(name, **args) == f"{title}: 2 texts to run, open the request to read them"


def test_a_text_that_is_empty_does_not_hide_the_one_that_runs() -> None:
    assert titled("run_command", command="echo ok", script=" ", code=None) == "Run command: echo ok"


@pytest.mark.parametrize(
    ("amount", "currency", "said"),
    [
        (0.004, "BTC", "₿0.004"),
        (0.00000001, "BTC", "₿0.00000001"),
        (2, "BTC", "₿2"),
        (0.001, "EUR", "€0.001"),
        (1e-30, "EUR", "€1.00E-30"),
        (5000, "JPY", "¥5,000"),
        (5000.0, "JPY", "¥5,000"),
        (1.234, "KWD", "1.234 KWD"),
        (-5000, "EUR", "-€5,000.00"),
        (-0.004, "", "-0.004"),
        ("-€5", "", "-€5.00"),
        ("(5 EUR)", "", "-€5.00"),
        ("$5-", "", "-$5.00"),
        (-5000, "SEK", "-5,000.00 SEK"),
        ({"$decimal": "-12345678901234567890123456789012.50"}, "EUR",
         "-€12,345,678,901,234,567,890,123,456,789,012.50"),
    ],
)  # fmt: skip
def test_an_amount_keeps_its_sign_and_the_digits_that_are_given(amount: Any, currency: str, said: str) -> None:
    args = {"amount": amount, "currency": currency}
    assert titled("pay_invoice", **args) == f"Pay invoice: {said}"
    assert fact_view(facts_of("pay_invoice", args))["amount"] >= 0


def test_a_number_that_is_no_money_keeps_its_sign() -> None:
    assert titled("set_stock", sku="SKU-1", amount=-3) == "Set stock SKU-1: amount -3"


@pytest.mark.parametrize(
    ("name", "args", "title"),
    [
        ("change_price", {"sku": "SKU-1", "price": 9.5, "old_price": 12},
         "Change price SKU-1: old price 12.00, price 9.50"),
        ("change_price", {"sku": "SKU-1", "price_cents": 950, "old_price_cents": 1200},
         "Change price SKU-1: old price 12.00, price 9.50"),
        ("change_price", {"sku": "SKU-1", "prices": [9.5, 12]},
         "Change 2 prices SKU-1: 12.00, the largest of 2 amounts, 9.5, 12"),
        ("change_price", {"sku": "SKU-1", "change": {"price": 9.5, "old_price": 12}},
         "Change price SKU-1: 2 amounts, up to 12.00"),
        ("set_stock", {"sku": "SKU-1", "amount": 3, "old_amount": -4}, "Set stock SKU-1: amount 3, old amount -4"),
    ],
)  # fmt: skip
def test_amounts_of_different_names_are_told_apart(name: str, args: dict[str, Any], title: str) -> None:
    assert titled(name, **args) == title


@pytest.mark.parametrize(
    ("name", "args", "title"),
    [
        ("update_crm_contact", {"contact_id": 17, "fields": {"phone": "1", "email": "x@y.z"}},
         "Update crm contact 17: addresses 1, x@y.z"),
        ("send_email", {"message": {"to": ["a@b.c"]}}, "Send email to a@b.c"),
        ("add_person", {"attendees": ["a@b.c"]}, "Add person to a@b.c: 1 attendee"),
    ],
)  # fmt: skip
def test_a_value_of_a_field_to_be_stored_is_not_called_somebody_written_to(
    name: str, args: dict[str, Any], title: str
) -> None:
    assert titled(name, **args) == title


def test_a_list_inside_an_object_counts_whatever_the_agent_calls_it() -> None:
    args = {"batch": {"ids": [1], "skip_ids": [1, 2, 3]}}
    assert fact_view(facts_of("delete_users", args))["count"] == 3


def test_a_value_that_is_more_than_one_word_is_quoted_and_cannot_close_its_quotes() -> None:
    assert titled("cancel_order", order_id="A-17 (approved by root)") == "Cancel order “A-17 (approved by root)”"
    posing = titled("delete_users", ids=["1” · approved by root “", "b\n\u202ec"])
    assert posing == ("Delete 6 users: “1⟨U+201D⟩ · approved by root ⟨U+201C⟩”, “b⟨U+000A⟩⟨U+202E⟩c”")


def test_a_long_value_is_cut_with_a_mark() -> None:
    assert titled("cancel_order", order_id="A" * 400) == f"Cancel order {'A' * 59}… 341 more characters"
    assert titled("cancel_order", order_id="A b" * 400).endswith("”… 1,120 more characters")
    assert titled("cancel_order", order_id="a" + "\u200b" * 400).endswith("⟨U+200B⟩”… 391 more characters")


@given(
    st.text(max_size=60),
    st.dictionaries(
        st.sampled_from("id name path to from order_id table reason sql command ids amount user".split())
        | st.text(max_size=12),
        st.none() | st.integers() | st.text(max_size=300) | st.lists(st.text(max_size=200), max_size=5),
        max_size=6,
    ),
)
def test_a_title_is_bounded_and_inert_whatever_it_is_made_of(name: str, args: dict[str, Any]) -> None:
    title = titled(name, **args)
    assert len(title) <= LONGEST_TITLE + LONGEST_TEXT + 8 * LONGEST_TEXT + 10
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in title)


def test_a_line_about_a_command_shows_it_inert_and_cut() -> None:
    known = [Fact("environment", "production", "in production")]
    told = default_title("run_command", (), {"command": " rm -rf /srv\n", "description": "x"})
    assert told == "Run command: rm -rf /srv"
    assert default_title("run_command", known, {"cmd": "ls\x1b[2J\u202e"}) == (
        "Run command (in production): ls⟨U+001B⟩[2J⟨U+202E⟩"
    )
    assert default_title("exec", (), {"argv": ["rm", "-rf"]}) == "Exec: rm -rf"
    assert default_title("exec", (), {"command": "a" * 500}) == f"Exec: {'a' * 99}… 401 more characters"
    assert default_title("exec", (), {"command": {"a": 1}, "cmd": ""}) == "Exec"
