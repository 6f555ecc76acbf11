"""What scripts read on standard output; needs no library, so that every command can begin with it."""

from assentry.core.action import Json
from assentry.telling.plain import as_json


def print_json(value: Json) -> None:
    """One document in plain ASCII: every other character is an escape, so a terminal obeys none of it."""
    print(as_json(value, indent=2))
