"""Secrets in texts that hold data: a name in quotes, a colon, a value; in JSON, in JSON inside of it, and the like."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from assent.core.secret_text import is_secret_key, is_secret_name, is_token_name

_DIGITS = r"-?\d[\d.eE+-]{0,400}"
_PAIR = re.compile(
    r"""(?P<quote>\\{0,15}["'])(?P<name>[^"'\\\r\n]{1,100})(?P=quote)\s{0,20}:\s{0,20}"""
    rf"""(?P<value>(?P=quote)|{_DIGITS}|[\[{{])"""
)
_COLON = re.compile(r"\s{0,20}:")
_LONGEST = 10_000
"""A value that does not end is taken for a secret as far as this."""
_LONGEST_LIST = 100_000


@dataclass(frozen=True, slots=True)
class Pair:
    """Where in a text the value stands that its name makes a secret."""

    start: int
    end: int
    secret: str
    """As it is meant, whatever it is written like here."""
    quote: str = ""
    """What a number, which has none of its own, has to be written in to be a text."""


def secret_pairs(text: str) -> Iterator[Pair]:
    """Every value in `text` whose name says that it is a secret, in their order."""
    if ":" not in text:
        return
    at = 0
    while found := _PAIR.search(text, at):
        name, quote, value = found["name"], found["quote"], found["value"]
        at = found.end() - len(value) if value == quote else found.end()
        if value in ("[", "{"):
            if is_secret_name(name) or (value == "[" and is_token_name(name)):
                pairs, at = _inside(text, found.start("value"), name, quote)
                yield from pairs
        elif value != quote:
            if is_secret_name(name):
                yield Pair(found.start("value"), found.end(), value, quote)
        elif is_secret_name(name) or is_secret_key(name, text[found.end() : found.end() + 200]):
            end = _closing(text, found.end(), quote)
            raw = text[found.end() : end]
            if is_secret_key(name, raw):
                yield Pair(found.end(), end, _meant(raw, quote))
                at = end


def _inside(text: str, start: int, name: str, quote: str) -> tuple[list[Pair], int]:
    """Every secret in the list or object that begins there, in a field of this name; and how far it was read."""
    pairs: list[Pair] = []
    is_all = is_secret_name(name)
    part = re.compile(rf"{re.escape(quote)}|{_DIGITS}|[\[\]{{}}]")
    depth, at, last = 0, start, min(len(text), start + _LONGEST_LIST)
    while found := part.search(text, at, last):
        at = found.end()
        if found[0] == quote:
            end = _closing(text, at, quote)
            begin, at = at, end + len(quote)
            raw = text[begin:end]
            if is_secret_key(name, raw) and not _COLON.match(text, at):
                pairs.append(Pair(begin, end, _meant(raw, quote)))
        elif found[0] in "[]{}":
            depth += 1 if found[0] in "[{" else -1
            if depth == 0 or (found[0] == "{" and not is_all):  # an object has names of its own
                return pairs, at
        elif is_all:
            pairs.append(Pair(found.start(), found.end(), found[0], quote))
    return pairs, max(at, last)


def _closing(text: str, start: int, quote: str) -> int:
    """Where the value ends: at the next quote that is escaped as often as the one before it."""
    escapes, mark = len(quote) - 1, quote[-1]
    last = min(len(text), start + _LONGEST)
    at = start
    while (at := text.find(mark, at, last)) >= 0:
        begins = at
        while begins > start and text[begins - 1] == "\\":
            begins -= 1
        if (at - begins) % (2 * (escapes + 1)) == escapes:
            return at - escapes
        at += 1
    return last


def _meant(raw: str, quote: str) -> str:
    """The value, as often unescaped as its quotes are escaped and once more."""
    if quote[-1] != '"':
        return raw
    text = raw
    for _ in range(len(quote).bit_length()):
        try:
            read = json.loads(f'"{text}"', strict=False)
        except ValueError:
            return raw
        text = read if isinstance(read, str) else raw
    return text
