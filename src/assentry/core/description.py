"""What a description admits: the verb it begins with, and signs that contradict a harmless name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from assentry.core.names import EITHER_VERBS, PLAIN_VERBS, VERBS, Family, base_form

LONGEST_DESCRIPTION = 4_000

_FOR_GOOD = re.compile(
    r"\b(permanent(?:ly)?|irreversibl[ey]|irrevocabl[ey]|(?:cannot|can't|can not) be (?:undone|reversed|recovered)"
    r"|destructive|overwrit(?:es?|ing)|not (?:be )?recoverable)\b",
    re.I,
)
_NEGATED = re.compile(r"(?:\bnot|\bnon-?|n't|\bnever|\bwithout|\bno)\s+(?:\w+\s+){0,2}$", re.I)
_ONLY_READS = re.compile(r"\bread[- ]only\b|\bdoes not (?:modify|change|alter|write)\b|\bno side[- ]effects\b", re.I)
_CLAUSE = re.compile(
    r"(?:(?P<sure>^|[.;!\n•]\s*(?:[-*]\s*)?|\b(?:and|then|also|will)\s+(?:also\s+|then\s+)?)"
    r"|:\s+|,\s*(?:or\s+)?|\b(?:or|may|can)\s+(?:also\s+)?)"
    r"(?P<verb>[A-Za-z]{3,14})\b(?!\s*[_(`:'\"-])"
)
_FIRST = re.compile(r"[A-Za-z]+")
_GRAVE = frozenset({Family.REMOVE, Family.SEND, Family.PAY})
_PERSON = re.compile(r"(?:es|s|ies)$")
_GIVES = frozenset("return returns provide provides aggregate aggregates returning collect collects".split())
_SKIPPED = frozenset(
    "a an the this tool use used allows allow lets let you to securely efficiently easily quickly".split()
)


@dataclass(frozen=True, slots=True)
class Signs:
    """What was read between the lines of a description."""

    leading: str | None = None
    """The verb that the description begins with."""
    contrary: tuple[str, ...] = ()
    """The verbs with grave effects that a clause begins with, gravest first."""
    hinted: tuple[str, ...] = ()
    """More of them, where a clause only lists or allows: evidence against a source nobody vouches for."""
    for_good: str = ""
    """The words that say it cannot be undone."""
    only_reads: bool = False


def signs_in(description: str) -> Signs:
    """The signs in `description`, which may raise what a name suggests."""
    text = description[:LONGEST_DESCRIPTION]
    if not text.strip():
        return Signs()
    sure, hinted = _grave_verbs(text)
    return Signs(_leading(text), sure, hinted, _for_good(text), _ONLY_READS.search(text) is not None)


def _leading(text: str) -> str | None:
    for found in _FIRST.findall(text[:120])[:6]:
        word = found.lower()
        if word in _SKIPPED:
            continue
        verb = "get" if word in _GIVES else base_form(word)
        if verb is not None and not (word.endswith("ing") and verb in EITHER_VERBS):
            return verb
        if not word.endswith("ly"):
            return None
    return None


def _grave_verbs(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    sure: dict[str, None] = {}
    hinted: dict[str, None] = {}
    for found in _CLAUSE.finditer(text):
        verb = base_form(found["verb"].lower())
        if verb is None or PLAIN_VERBS.get(verb) not in _GRAVE:
            continue
        if not _NEGATED.search(text[max(0, found.start("verb") - 40) : found.start("verb")]):
            (hinted if found["sure"] is None else sure)[verb] = None
    return _gravest_first(sure), _gravest_first(hinted)


def _gravest_first(verbs: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(verbs, key=lambda verb: -VERBS[verb].rank))


def _for_good(text: str) -> str:
    for found in _FOR_GOOD.finditer(text):
        if not _NEGATED.search(text[max(0, found.start() - 40) : found.start()]):
            return found[0].lower()
    return ""
