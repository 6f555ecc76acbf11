"""Kinds of values in words: what something is, and what a schema wants it to be."""

from collections.abc import Mapping
from typing import Any

_KINDS = {
    str: "text", int: "an integer", float: "a number", bool: "true or false", list: "a list", tuple: "a list",
    dict: "a mapping", type(None): "null", bytes: "bytes",
}  # fmt: skip
_WANTED = {
    "string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false", "array": "a list",
    "object": "a mapping", "null": "null",
}  # fmt: skip
_MANY = {
    "string": "texts", "integer": "integers", "number": "numbers", "boolean": "true or false", "array": "lists",
    "object": "mappings",
}  # fmt: skip


def kind_of(value: Any) -> str:
    """What `value` is, without saying what it holds."""
    return _KINDS.get(type(value), type(value).__name__)


def kind_wanted(schema: Any) -> str:
    """What a value that fits has to be; empty where the schema does not say so in a word."""
    if not isinstance(schema, Mapping):
        return ""
    for word in ("anyOf", "oneOf"):
        if isinstance(each := schema.get(word), list):
            return _either([kind_wanted(one) for one in each])
    wanted = schema.get("type")
    if isinstance(wanted, list):
        return _either([kind_wanted({**schema, "type": one}) for one in wanted])
    if not isinstance(wanted, str):
        return ""
    items = schema.get("items")
    of = items.get("type") if wanted == "array" and isinstance(items, Mapping) else None
    many = _MANY.get(of, "") if isinstance(of, str) else ""
    return f"{_WANTED.get(wanted, '')}{f' of {many}' if many else ''}"


def _either(words: list[str]) -> str:
    return " or ".join(dict.fromkeys(words)) if words and all(words) else ""
