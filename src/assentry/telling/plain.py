"""Text and JSON that do nothing but show."""

import dataclasses
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from assentry.core.action import Json
from assentry.core.text import visible


def one_line(message: str) -> str:
    """`message` as one line without anything hidden in it."""
    return visible(" ".join(message.split("\n")), lines=False)


def as_json(value: Json, indent: int | None = None) -> str:
    """`value` as JSON in plain ASCII."""
    text = json.dumps(value, indent=indent, default=_plain, ensure_ascii=True)
    return text.replace("\x7f", "\\u007f")


def _plain(value: Any) -> Json:
    match value:
        case datetime():
            return value.isoformat()
        case Enum():
            return value.value
        case Decimal():
            return str(value)
        case Mapping():
            return dict(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.repr}
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


def plain_json(value: Json) -> Json:
    """`value` with nothing in it but what JSON has."""
    return json.loads(json.dumps(value, default=_plain))
