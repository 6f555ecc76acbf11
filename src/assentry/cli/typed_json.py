"""JSON that a person or a script typed: strictly what JSON can carry, and nothing that can be read in two ways."""

import json
from typing import Any

from assentry.core.action import Json
from assentry.errors import InvalidArguments


class _Refused(ValueError):
    """Python would read it; others would read something else."""


def parsed(text: str, where: str) -> Json:
    """What `text` says; `where` it was typed is named when it says nothing clear."""
    try:
        value: Json = json.loads(text, parse_constant=_constant, object_pairs_hook=_object)
    except _Refused as problem:
        raise InvalidArguments(f"{where} {problem}") from None
    except json.JSONDecodeError as problem:
        raise InvalidArguments(
            f"{where} is not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}"
        ) from None
    except (ValueError, RecursionError):
        raise InvalidArguments(f"{where} holds what JSON cannot carry") from None
    return value


def mapping(text: str, where: str) -> dict[str, Json]:
    """The same for an object."""
    value = parsed(text, where)
    if not isinstance(value, dict):
        raise InvalidArguments(f"""{where} must be a JSON object, such as '{{"files": ["a", "b"]}}'""")
    return value


def _constant(name: str) -> None:
    raise _Refused(f"holds {name}, which JSON cannot carry; write a number or null")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"names {twice!r} twice; leave one")
    return found
