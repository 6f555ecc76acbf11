"""Whether a word of a shell command may name a file that holds credentials, however the word is quoted or globbed.

Files themselves are known by name (place_text.py). A pattern names whatever bash could make of it.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product

from assentry.core.place_text import (
    CREDENTIAL_ENDINGS,
    CREDENTIAL_PAIRS,
    CREDENTIAL_SEGMENTS,
    CREDENTIAL_WORDS,
    DATA_ENDINGS,
    credentials_in_command,
    names_credentials,
)
from assentry.core.shell_grammar import ANYTHING

_ANY = frozenset("*" + ANYTHING)
_SIGNS = re.compile(rf"[*?{ANYTHING}]")
_BRACKET = re.compile(r"\[[!^]?\]?(?:\[[:.=][^\]]*[:.=]\]|[^\]])*\]")
_WIDEST_BRACKET = re.compile(r"\[.*\]", re.S)
_BETWEEN = re.compile(r"[\s=@;|&<>()`,:]+")
"""What stands between an option, a revision or the like and a path in the same word."""
_SAYS_NOTHING = re.compile(rf"[*{ANYTHING}]+(?:\.[*{ANYTHING}]+)*")
_ONE_ENDING = re.compile(rf"[*{ANYTHING}]+\.([^*?{ANYTHING}.]+)")
_HELD_OPENLY = {"etc": "shadow", "proc": "environ"}
"""Directories in which files without a leading dot are credentials, so that even a lone `*` names them."""
_DOTTED = (".env", ".env.local", ".env.production", ".env.development", ".env.staging", ".env.test")
_NAMED = frozenset(
    f"{word}{more}.{ending}" for word, more, ending in product(CREDENTIAL_WORDS, ("", "s"), sorted(DATA_ENDINGS))
)
_NAMES = tuple(
    dict.fromkeys((".env", ".ssh", "id_rsa", "credentials", *sorted(CREDENTIAL_SEGMENTS), *_DOTTED, *sorted(_NAMED)))
)
"""The best known ones first: one of them is shown."""
_ENDINGS = (*sorted(CREDENTIAL_ENDINGS), "env")
_TOKEN = re.compile(r"\\(.)|(.)", re.S)
_SHOWN = 100


def credentials_named(text: str, patterns: Iterable[str], goes: Iterable[str] = ()) -> tuple[str, ...]:
    """What in a command leads to where credentials are kept, or could.

    `patterns`: its words without their quotes, with a backslash before each quoted sign of a pattern. `goes`: where it
    changes to, in order.
    """
    found = dict.fromkeys(credentials_in_command(text))
    words = list(dict.fromkeys(patterns))
    base = "/".join(goes)
    openly = next(filter(None, map(_held_openly, words)), "")
    for word in words:
        shown = _literal(word).replace(ANYTHING, "…")[:_SHOWN]
        for each in (word, f"{base}/{word}") if base else (word,):
            named = could_name_credentials(each, openly=openly)
            if named and not any(shown == other or (named == shown and named in other) for other in found):
                found[shown if named == shown else f"{shown} (may be {named})"] = None
                break
    return tuple(found)


def could_name_credentials(pattern: str, *, openly: str = "") -> str:
    """Where credentials are kept that `pattern` may name; empty if it names none.

    `openly`: what a lone `*` may be, where it counts too. Elsewhere it is not taken to mean credentials, nor are `*.py`
    and its like: whoever lists a directory asks for no file of it.
    """
    for reading in dict.fromkeys((_without_brackets(pattern, _BRACKET), _without_brackets(pattern, _WIDEST_BRACKET))):
        for part in _BETWEEN.split(reading):
            if part and (named := _named_by(part, openly=openly)):
                return named
    return ""


def _named_by(path: str, *, openly: str) -> str:
    if not _SIGNS.search(_signs(path)):
        plain = _literal(path)
        return plain if names_credentials(plain) else ""
    segments = path.lower().split("/")
    if segments[-1].endswith(".pub"):
        return ""
    before = ""
    for segment in segments:
        for directory, name in CREDENTIAL_PAIRS:
            if _matches(before, directory) and _matches(segment, name):
                return f"{directory}/{name}"
        if named := _segment_named(segment, is_last=segment is segments[-1], openly=openly):
            return named
        before = segment
    return ""


@lru_cache(maxsize=512)
def _segment_named(segment: str, *, is_last: bool, openly: str) -> str:
    if not _SIGNS.search(_signs(segment)):
        plain = _literal(segment)
        return plain if plain in CREDENTIAL_SEGMENTS or (is_last and names_credentials(plain)) else ""
    if _SAYS_NOTHING.fullmatch(segment):
        return openly
    if (only := _ONE_ENDING.fullmatch(segment)) and only[1] not in _ENDINGS:
        return ""
    for name in _NAMES:
        if _matches(segment, name):
            return name
    if is_last:
        stem, dot, ending = segment.rpartition(".")
        if dot and not _SAYS_NOTHING.fullmatch(ending):
            return next((f"{'*' if stem else ''}.{each}" for each in _ENDINGS if _matches(ending, each)), "")
    return ""


def _held_openly(word: str) -> str:
    segments = [segment for segment in word.lower().split("/") if segment and not _SAYS_NOTHING.fullmatch(segment)]
    return next((name for at, name in _HELD_OPENLY.items() for part in segments if _matches(part, at)), "")


def _without_brackets(pattern: str, bracket: re.Pattern[str]) -> str:
    """A bracket may stand for any letter, and for more than one: never for fewer files than it does."""
    if "[" not in pattern:
        return pattern
    return "/".join(bracket.sub(ANYTHING, segment) for segment in pattern.split("/"))


def _signs(pattern: str) -> str:
    """What of `pattern` may be a sign: nothing after a backslash is."""
    return re.sub(r"\\.", "", pattern)


def _literal(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern)


@lru_cache(maxsize=512)
def _tokens(pattern: str) -> tuple[tuple[str, bool], ...]:
    signs = (found.groups() for found in _TOKEN.finditer(pattern))
    return tuple(
        (plain, plain in _ANY or plain == "?") if escaped is None else (escaped, False) for escaped, plain in signs
    )


def _matches(pattern: str, name: str) -> bool:
    """Whether `pattern` could be `name`. Its time is the product of their lengths, whatever they are."""
    tokens = _tokens(pattern)
    if not tokens or (tokens[0] == ("*", True) and name[:1] == "."):
        return not name  # bash leaves hidden files out
    if not (tokens[0][1] or name[:1] == tokens[0][0]) or not (tokens[-1][1] or name[-1:] == tokens[-1][0]):
        return False
    reached = {0}
    for sign, is_pattern in tokens:
        if is_pattern and sign in _ANY:
            reached = set(range(min(reached), len(name) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(name) and (is_pattern or name[at] == sign)}
        if not reached:
            return False
    return len(name) in reached
