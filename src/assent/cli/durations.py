"""Stretches of time on the command line, spelled as in policy files."""

from datetime import timedelta

from assent.core.policy_text import Complaints, Node, Reader
from assent.errors import InvalidArguments


def duration(text: str, what: str) -> timedelta:
    """The stretch of time that `text` spells: 90s, 15m, 8h, 2d or 1w."""
    found = Reader(Complaints("")).duration(Node(text.strip(), 0), what)
    if found is None:
        raise InvalidArguments(f"{what} is a stretch of time such as 90s, 15m, 8h, 2d or 1w")
    return found
