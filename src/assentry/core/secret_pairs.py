"""Secrets in texts that hold data: a name in quotes, a colon, a value; in JSON, in JSON inside of it, and the like."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from assentry.core.secret_text import is_secret_key, is_secret_name, is_token_name

_DIGITS = r"[-+]?\d[\d.eExX+-]{0,400}"
_PAIR = re.compile(
    rf"""(?P<quote>(?P<slashes>\\{{0,15}})["']|\\{{1,15}}u0022|&quot;|&\#39;)
        (?P<name>[^"'\\\r\n&]{{1,100}})(?P=quote)
        \s{{0,100}}(?::|=>?)\s{{0,100}}(?:[A-Za-z_][\w.]{{0,60}}\()?[bBuUrR]{{0,2}}
        (?P<value>(?P=quote)|(?P=slashes)["']|{_DIGITS}|[\[{{(])""",
    re.VERBOSE,
)
_COLON = re.compile(r"\s{0,100}:")
_GOES_ON = r"\s{1,1000}"
"""Python writes a long text as several, one after the other."""
_LONGEST = 1_000_000
"""A value that does not end is taken for a secret as far as this."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Where in a text the value stands that its name makes a secret."""

    start: int
    end: int
    secret: str
    """As it is meant, whatever it is written like here."""
    quote: str = ""
    """What a number, which has none of its own, has to be written in to be a text."""
    is_inside: bool = False
    """It is one of many under that name, and may be an ordinary word."""


def secret_pairs(text: str) -> Iterator[Pair]:
    """Every value in `text` whose name says that it is a secret, in their order."""
    if ":" not in text and "=" not in text:
        return
    at = 0
    while found := _PAIR.search(text, at):
        name, quote, value = found["name"], found["quote"], found["value"]
        if value in ("[", "{", "("):
            at = found.end()
            if is_secret_name(name) or (value != "{" and is_token_name(name)):
                pairs, at = _inside(text, found.start("value"), name, quote)
                yield from pairs
        elif value[0].isdigit() or value[0] in "+-":
            at = found.end()
            if is_secret_name(name):
                yield Pair(found.start("value"), found.end(), value, quote)
        else:
            at = found.start("value")
            if is_secret_key(name, text[found.end() : found.end() + 200]):
                for pair in _texts(text, found.end(), value):
                    at = pair.end
                    if is_secret_key(name, pair.secret):
                        yield pair


def _texts(text: str, start: int, quote: str) -> Iterator[Pair]:
    """The text that begins there, and those that only go on with it."""
    goes_on = _next_line(quote)
    while True:
        end = _closing(text, start, quote)
        if raw := text[start:end]:
            yield Pair(start, end, _meant(raw, quote))
        following = goes_on.match(text, end + len(quote))
        if following is None:
            return
        start = following.end()


@lru_cache(maxsize=64)
def _next_line(quote: str) -> re.Pattern[str]:
    return re.compile(_GOES_ON + re.escape(quote))


@lru_cache(maxsize=64)
def _parts(quote: str) -> re.Pattern[str]:
    quotes = {quote, quote[:-1] + ("'" if quote[-1] == '"' else '"')} if quote[-1] in "\"'" else {quote}
    return re.compile(rf"{'|'.join(map(re.escape, sorted(quotes)))}|{_DIGITS}|[\[\]{{}}()]")


def _inside(text: str, start: int, name: str, quote: str) -> tuple[list[Pair], int]:
    """Every secret in the list or object that begins there, in a field of this name; and how far it was read."""
    pairs: list[Pair] = []
    is_all = is_secret_name(name)
    part = _parts(quote)
    depth, at, last = 0, start, min(len(text), start + _LONGEST)
    while found := part.search(text, at, last):
        at, said = found.end(), found[0]
        if said in ("[", "{", "("):
            depth += 1
            if said == "{" and not is_all:  # an object has names of its own
                return pairs, at
        elif said in ("]", "}", ")"):
            depth -= 1
            if depth == 0:
                return pairs, at
        elif said[0].isdigit() or said[0] in "+-":
            if is_all:
                pairs.append(Pair(found.start(), found.end(), said, quote, True))
        else:
            end = _closing(text, at, said)
            begin, at = at, end + len(said)
            raw = text[begin:end]
            if is_secret_key(name, raw) and not _COLON.match(text, at):
                pairs.append(Pair(begin, end, _meant(raw, said), "", True))
    return pairs, max(at, last)


def _closing(text: str, start: int, quote: str) -> int:
    """Where the value ends: at the next quote that is escaped as often as the one before it."""
    last = min(len(text), start + _LONGEST)
    at = start
    if quote[-1] not in "\"'":
        while (at := text.find(quote, at, last)) >= 0:
            if text[at - 1] != "\\" or at == start:
                return at
            at += 1
        return last
    escapes, mark = len(quote) - 1, quote[-1]
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
