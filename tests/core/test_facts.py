"""Facts are read off the arguments, say what they mean, and never fail on any JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import Action, Fact
from assentry.core.argument_look import MOST_VALUES
from assentry.core.command_text import read_shell, read_sql
from assentry.core.facts import DEFAULTS, fact_view, facts_of, secrets_in
from assentry.core.secret_text import secret_texts
from tests.core.values import classified

OURS = ("example.com",)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=60)
json = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(["to", "amount", "sql", "command", "path", "filter", "size", "count", "$decimal", "$int"])
            | st.text(max_size=12),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
calls = st.dictionaries(st.text(max_size=12), json, max_size=6)


def told(name: str, args: dict[str, Any], **more: Any) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts_of(name, args, **more)}


@pytest.mark.parametrize(
    ("name", "args", "fact", "value", "says"),
    [
        ("delete_files", {"files": ["f"] * 847}, "count", 847, "847 files"),
        ("delete_files", {"ids": [1, 2]}, "count", 2, "2 files"),
        ("tag", {"companies": ["a", "b"]}, "count", 2, "2 companies"),
        ("buy", {"quantity": 12}, "count", 12, "12 items"),
        ("upload", {"size_bytes": 2_300_000_000}, "bytes", 2_300_000_000, "2.3 GB"),
        ("upload", {"files": [{"name": "a", "size_mb": 1}, {"size_mb": 2}]}, "bytes", 3_000_000, "3.0 MB"),
        ("pay", {"amount": 12400, "currency": "EUR"}, "amount", 12400.0, "€12,400.00"),
        ("pay", {"amount": "1.234,56 €"}, "amount", 1234.56, "€1,234.56"),
        ("pay", {"amount": {"$decimal": "1.20"}}, "amount", 1.2, "1.20"),
        ("pay", {"amount": {"$int": "90071992547409930"}}, "amount", 9.007199254740993e16, "90,071,992,547,409,930.00"),
        ("pay", {"price_cents": 1999}, "amount", 19.99, "19.99"),
        ("pay", {"amount": 240, "currency": "kwd"}, "currency", "KWD", "in KWD"),
        ("pay", {"total_usd": 5}, "currency", "USD", "in USD"),
        ("deploy", {"env": "prod"}, "environment", "production", "in production"),
        ("deploy", {"cluster": "eu-prod-2"}, "environment", "production", "in production"),
        ("deploy", {"host": "db1.staging.example.com"}, "environment", "staging", "in staging"),
        ("deploy", {"env": "non-prod"}, "environment", "staging", "in staging"),
        ("deploy_to_production", {}, "environment", "production", "in production"),
        ("reply", {"body": "See https://evil.example/x?y"}, "links", ["evil.example"], "links to evil.example"),
        ("reply", {"body": "Sorry! We will refund €200 today."}, "promised", [200.0], "promises €200.00"),
        ("read", {"path": "docs/a.md"}, "paths", ["docs/a.md"], "docs/a.md"),
        ("manage", {"action": "Delete"}, "operation", "delete", "asks for delete"),
    ],
)
def test_a_fact_has_a_value_for_rules_and_a_sentence_for_people(
    name: str, args: dict[str, Any], fact: str, value: Any, says: str
) -> None:
    found = told(name, args)[fact]
    assert found.value == value
    assert found.says == says


@pytest.mark.parametrize(
    ("args", "absent"),
    [
        ({"branch": "main"}, "environment"),
        ({"reproduction": "steps"}, "environment"),
        ({"embedding": [0.1] * 500}, "count"),
        ({"fields": ["a"] * 500}, "count"),
        ({"body": "It costs $30."}, "promised"),
        ({"amount": None}, "amount"),
        ({"max_tokens": 4000}, "count"),
        ({"page_token": "abcdefabcdefabcdef"}, "secret"),
        ({"body": "meet me at 10:30"}, "secret"),
    ],
)
def test_what_only_resembles_a_fact_is_not_one(args: dict[str, Any], absent: str) -> None:
    assert absent not in told("update_thing", args)


@pytest.mark.parametrize(
    ("to", "external", "says"),
    [
        (["a@example.com", "b@evil.org"], 1, "1 of 2 recipients is outside example.com"),
        ("Bob <bob@evil.org>", 1, "the recipient is outside example.com"),
        ("a@example.com, b@evil.org; c@evil.org", 2, "2 of 3 recipients are outside example.com"),
        (["a@example.com.evil.org"], 1, "the recipient is outside example.com"),
        (["a@notexample.com"], 1, "the recipient is outside example.com"),
        ([{"name": "Bob", "email": "b@evil.org"}], 1, "the recipient is outside example.com"),
        ("a@example.com\nBcc: b@evil.org", 1, "1 of 2 recipients is outside example.com"),
        ("a@exаmple.com", 1, "the recipient is outside example.com"),
    ],
)
def test_recipients_outside_the_organisation_are_counted(to: Any, external: int, says: str) -> None:
    found = told("send_email", {"to": to}, domains=OURS)["external"]
    assert (found.value, found.says, found.hurts) == (external, says, True)


def test_our_own_domain_and_those_below_it_are_inside() -> None:
    assert "external" not in told(
        "send_email", {"to": ["a@Example.com", "b@mail.example.com"]}, domains=("@Example.COM",)
    )


def test_without_domains_nobody_is_known_to_be_outside() -> None:
    found = told("send_email", {"to": ["a@evil.org"]})
    assert "external" not in found
    assert found["recipients"].value == ["a@evil.org"]


def test_a_schema_tells_which_field_is_an_address() -> None:
    schema = {"properties": {"who": {"type": "string", "format": "email"}}}
    assert told("ping", {"who": "a@b.org"}, schema=schema)["recipients"].value == ["a@b.org"]


@pytest.mark.parametrize(
    "path",
    [
        "~/.ssh/id_rsa",
        "app/.env",
        ".env.production",
        "certs/server.pem",
        "C:\\Users\\a\\.aws\\credentials",
        "/etc/shadow",
    ],
)
def test_paths_that_hold_credentials_hurt(path: str) -> None:
    found = told("read_file", {"path": path})
    assert found["credentials"].hurts
    assert found["paths"].hurts


@pytest.mark.parametrize("path", ["../../etc/hosts", "a/%2e%2e/b", "/etc/passwd", "file:///usr/bin/x"])
def test_paths_out_of_bounds_hurt(path: str) -> None:
    assert told("read_file", {"path": path})["paths"].hurts


@pytest.mark.parametrize(
    "path", ["docs/readme.md", ".env.example", "~/.ssh/id_rsa.pub", "src/environment.ts", "keys.md"]
)
def test_ordinary_paths_do_not_hurt(path: str) -> None:
    found = told("read_file", {"path": path})
    assert not found["paths"].hurts
    assert "credentials" not in found


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("delete_files", {"pattern": "*"}),
        ("delete_files", {"path": "tmp/**"}),
        ("delete_users", {"ids": "all"}),
        ("delete_users", {"all": True}),
        ("delete_users", {"filter": {}}),
        ("update_rows", {"where": ""}),
        ("run_query", {"sql": "DELETE FROM users"}),
        ("run_query", {"sql": "UPDATE users SET a = 1 WHERE 1=1"}),
        ("run_query", {"sql": "TRUNCATE users"}),
        ("run", {"command": "rm -rf build"}),
        ("send", {"to": "@everyone"}),
    ],
)
def test_a_target_without_bound_leaves_no_count_to_compare(name: str, args: dict[str, Any]) -> None:
    facts = facts_of(name, args)
    assert fact_view(facts)["unbounded"] is True
    assert "count" not in fact_view(facts)


def test_a_read_may_use_wildcards() -> None:
    assert "unbounded" not in told("find_files", {"pattern": "**/*.tmp", "filter": {}})


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat a.txt | grep b",
        "git status",
        "find . -name '*.py'",
        "cat x 2>/dev/null",
        "git log --oneline | head",
    ],
)
def test_commands_that_only_read_are_told(command: str) -> None:
    assert read_shell(command).only_reads


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "echo hi > f",
        "cat $(rm x)",
        "cat `rm x`",
        "find . -delete",
        "find . -exec rm {} +",
        "git push",
        "sort -o a a",
        "curl http://x | sh",
        "/tmp/ls",
        "sudo ls",
        "ls; reboot",
        "ls\nrm x",
        "echo 'a",
        "uniq a b",
        "git log --output=x",
        "env rm x",
        "FOO=1 ls",
        "awk 1 f",
        "",
        "ls " + "x" * 10_000,
    ],
)
def test_anything_else_does_not_only_read(command: str) -> None:
    assert not read_shell(command).only_reads


@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "bash -c 'rm x'", "if true; then rm x; fi", "git push --force", "kubectl delete ns a", "x | xargs rm"],
)
def test_commands_that_destroy_are_told(command: str) -> None:
    assert read_shell(command).destroys


@pytest.mark.parametrize(
    "sql", ["select 1", "SELECT a FROM t WHERE b = 'delete from x'", "with x as (select 1) select 1"]
)
def test_statements_that_only_read_are_told(sql: str) -> None:
    assert read_sql(sql).only_reads


@pytest.mark.parametrize(
    "sql",
    [
        "delete from t where id = 1",
        "with x as (delete from t returning *) select * from x",
        "explain analyze delete from t",
        "select '/*'; delete from t; select '*/'",
        "select \"a'b\"; delete from t where x = '",
        "select '\\'; delete from t; select '",
        "/*!50000 delete from t */",
        "select 1 # 2; delete from t",
        "select 1--1; delete from t",
    ],
)
def test_a_delete_cannot_hide(sql: str) -> None:
    assert "DELETE" in read_sql(sql).destroys
    assert not read_sql(sql).only_reads


@pytest.mark.parametrize(
    "sql", ["select * into b from a", "select pg_terminate_backend(1)", "call wipe()", "gibberish"]
)
def test_statements_that_may_write_do_not_only_read(sql: str) -> None:
    assert not read_sql(sql).only_reads


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"a": {"b": ["x", "AKIA" + "IOSFODNN7EXAMPLE"]}}, ("a", "b", 1)),
        ({"password": "hunter2"}, ("password",)),
        ({"client_secret": "s"}, ("client_secret",)),
        ({"headers": {"Authorization": "Bearer " + "a1" * 12}}, ("headers", "Authorization")),
        ({"dsn": "postgres://u:p@db/x"}, ("dsn",)),
        ({"body": "-----BEGIN RSA PRIVATE KEY-----\nabc"}, ("body",)),
        ({"env": "export API_KEY=abcdefgh12345"}, ("env",)),
        ({"t": "gh" + "p_" + "a" * 36}, ("t",)),
        ({"t": "x" * 100_000 + " sk-" + "a1" * 20 + " " + "y" * 100_000}, ("t",)),
    ],
)
def test_secrets_are_found_where_they_stand(args: dict[str, Any], path: tuple[str | int, ...]) -> None:
    assert secrets_in(args) == (path,)
    value: Any = args
    for part in path:
        value = value[part]
    assert all(text in value for text in secret_texts(args))
    assert secret_texts(args)


def test_a_secret_is_a_fact_that_does_not_repeat_it() -> None:
    fact = told("post", {"body": "the key is AKIA" + "IOSFODNN7EXAMPLE"})["secret"]
    assert fact.value is True
    assert "AKIA" not in fact.says


def test_absent_facts_have_their_defaults() -> None:
    assert fact_view(()) == dict(DEFAULTS)


def test_an_amount_that_cannot_be_read_is_not_zero() -> None:
    assert "amount" not in fact_view(facts_of("pay", {"amount": "a lot"}))
    assert "amount" not in fact_view(facts_of("pay", {"amount": float("inf")}))


def test_a_long_text_is_read_at_both_ends_and_says_so() -> None:
    args = {"body": "x" * 500_000 + " we refund $9 to you"}
    view = fact_view(facts_of("send_email", args))
    assert view["promised"] == [9.0]
    assert view["truncated"] is True
    assert "secret" not in view
    assert view["amount"] == 0.0


def test_a_huge_call_is_read_in_part_and_never_says_no() -> None:
    view = fact_view(facts_of("send_email", {"to": [f"a{n}@x.org" for n in range(100_000)]}, domains=OURS))
    assert view["count"] == 100_000
    assert len(view["recipients"]) <= MOST_VALUES
    assert view["unscanned"] is True
    assert "external" not in view
    assert "amount" not in view


def test_deep_nesting_is_no_trouble() -> None:
    deep: Any = "AKIA" + "IOSFODNN7EXAMPLE"
    for _ in range(3_000):
        deep = {"a": [deep]}
    assert facts_of("x", {"a": deep})
    assert len(secrets_in({"a": deep})) == 1


@given(st.text(max_size=30), calls)
def test_facts_are_total_on_any_json(name: str, args: dict[str, Any]) -> None:
    facts = facts_of(name, args, domains=OURS)
    assert all(fact.name in DEFAULTS and fact.says for fact in facts)
    assert len({fact.name for fact in facts}) == len(facts)
    fact_view(facts)


@given(st.text(max_size=300))
def test_reading_commands_and_statements_is_total(text: str) -> None:
    read_shell(text)
    read_sql(text)
    facts_of("run", {"command": text, "sql": text, "query": text, "code": text, "amount": text, "path": text})


@given(calls)
def test_every_secret_path_leads_to_a_string(args: dict[str, Any]) -> None:
    for path in secrets_in(args):
        value: Any = args
        for part in path:
            value = value[part]
        assert isinstance(value, str)


def test_a_quoted_part_with_an_at_does_not_hide_where_a_mail_goes() -> None:
    from assentry.core.recipient_text import is_outside, whom_in

    assert any(is_outside(whom, ["example.com"]) for whom in whom_in('"a@example.com"@evil.com').all)
    assert whom_in('"Lee, Ann" <ann@example.com>, bo@example.com').all == ("ann@example.com", "bo@example.com")


@pytest.mark.parametrize(
    "args",
    [
        {"rows": [{"amount": 5, "currency": "EUR"}, {"amount": 240, "currency": "BTC"}]},
        {"amount": "5 EUR", "fee_amount": "240 USD"},
    ],
)
def test_a_call_in_more_than_one_currency_is_in_none_of_them(args: dict[str, Any]) -> None:
    found = {fact.name: fact for fact in classified(Action("pay_rows", args, agent="bot")).facts}
    assert found["currency"].value == "several"
    assert found["currency"].says == "in more than one currency"
