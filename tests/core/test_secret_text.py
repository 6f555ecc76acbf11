"""Which fields carry secrets, and what a schema may say about them."""

import json

import pytest

from assentry.core import argument_kinds as kinds
from assentry.core.secret_text import (
    holds_any_secret,
    is_secret_key,
    is_secret_name,
    schema_without_secrets,
    secret_texts,
)

LONG = "q7w8e9r0t1y2u3i4"
NAMES = (
    "password", "db_password", "user_password", "dbPassword", "x-api-key", "API Key", "api.key", "access token",
    "Webhook Secret", "aws_secret_access_key", "ssh-private-key", "S3_ACCESS_KEY", "root_passwd",
)  # fmt: skip
ORDINARY = (
    "max_tokens", "tokens", "next_page_token", "page_token", "continuation_token", "nextToken", "sync_token",
    "secretary", "secret_santa_list", "password_hint_shown", "key", "pinned", "spinning", "compass", "keyboard",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_field_for_secrets_is_known_however_it_is_spelled(name: str) -> None:
    assert is_secret_name(name)
    assert kinds.of(name) & kinds.SECRET
    assert secret_texts({name: "short"}) == ("short",)
    assert is_secret_name("of the " * 50 + name)


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_field_is_not_one(name: str) -> None:
    assert not is_secret_name(name)
    assert not is_secret_key(name, LONG)
    assert not kinds.of(name) & kinds.SECRET


@pytest.mark.parametrize("name", ["token", "GITHUB_TOKEN", "bot token", "slackToken"])
def test_a_token_is_a_secret_where_it_is_long(name: str) -> None:
    assert is_secret_key(name, LONG)
    assert not is_secret_key(name, "noun")
    assert not is_secret_key(name, "")


@pytest.mark.parametrize(
    "about",
    [
        {"enum": ["hunter2"]}, {"example": "hunter2"}, {"examples": ["hunter2"]}, {"default": "hunter2"},
        {"const": "hunter2"}, {"description": "normally hunter2"}, {"title": "hunter2"}, {"pattern": "^hunter2$"},
        {"x-usual": "hunter2"}, {"x-usual": ["hunter2"]}, {"anyOf": [{"enum": ["hunter2"]}, {"type": "null"}]},
        {"$comment": "hunter2"}, {"items": {"properties": {"value": {"default": "hunter2"}}}},
        {"properties": {"default": {"const": "hunter2"}}}, {"minimum": 424242, "maximum": 424242},
        {"enum": [424242]}, {"anyOf": [{"enum": [424242]}]}, {"const": 424242}, {"default": {"value": 424242}},
        {"$ref": "#/$defs/usual"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["password", "otp", "pin", "db_password", "foo"])
def test_a_schema_quotes_nothing_of_a_field_for_secrets(name: str, about: dict[str, object]) -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", **about}, "text": {"default": "hi", "description": "what to say"}},
        "$defs": {"usual": {"allOf": [{"$ref": "#/$defs/inner"}]}, "inner": {"enum": ["hunter2", 424242]}}
        if "$ref" in about
        else {},
    }
    clean = schema_without_secrets(schema, {"foo"})
    assert "hunter2" not in json.dumps(clean)
    assert "424242" not in json.dumps(clean)
    assert clean["properties"][name]["type"] == "string"
    assert clean["properties"]["text"] == schema["properties"]["text"]
    assert schema_without_secrets(clean) is clean, "what is stored is read again, and must stay the same"


@pytest.mark.parametrize("word", ["default", "const", "example", "enum", "examples"])
@pytest.mark.parametrize("value", [{"pin": 424242}, {"a": [{"password": "424242"}]}, {"api_key": {"v": 424242}}])
def test_nor_a_secret_inside_the_value_of_an_ordinary_field(word: str, value: object) -> None:
    quoted = [value] if word in ("enum", "examples") else value
    schema = {"properties": {"login": {"type": "object", word: quoted}}}
    assert schema_without_secrets(schema) == {"properties": {"login": {"type": "object"}}}


def test_a_default_that_looks_like_a_secret_is_dropped_and_never_filled_in_as_words_of_ours() -> None:
    schema = {"properties": {"key": {"type": "string", "default": "AKIA" + "ABCDEFGH12345678"}}}
    assert schema_without_secrets(schema) == {"properties": {"key": {"type": "string"}}}


def test_fields_that_are_called_like_words_of_a_schema_stay() -> None:
    fields = {"default": {"type": "string"}, "enum": {"const": 1}, "description": {"type": "string", "default": "x"}}
    schema = {"properties": {"password": {"type": "string"}, **fields}}
    assert schema_without_secrets(schema) is schema


@pytest.mark.parametrize(
    ("args", "found"),
    [({"pin": 4711}, True), ({"a": [{"otp": [1]}]}, True), ({"a": {"pin": True}}, False), ({"pin": None}, False),
     ({"n": 4711}, False), ({"a": "password=hunter2hunter2"}, True), ({"AKIA" + "ABCDEFGH12345678": 1}, True)],
)  # fmt: skip
def test_a_secret_is_found_at_any_depth_numbers_too(args: dict[str, object], found: bool) -> None:
    assert holds_any_secret(args) is found
