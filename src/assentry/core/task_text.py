"""A task in English taken apart: words, the deeds they command, and what each deed is about.

Bounded and total on any text. What it leaves open is asked elsewhere.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from assentry.core.names import PLAIN_VERBS, VERBS, Family, singular
from assentry.core.text import shortened, visible

LONGEST_TASK = 4_000
MOST_DEEDS = 60


def quote(text: str) -> str:
    """Words of the task, shortened and made visible."""
    return f"“{visible(shortened(' '.join(text.split()), 80), lines=False)}”"


class Kind(Enum):
    READ = "read"
    MAKE = "make"
    CHANGE = "change"
    DEPLOY = "deploy"
    SEND = "send"
    PAY = "pay"
    REMOVE = "remove"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OF_FAMILY = {
    Family.READ: Kind.READ,
    Family.MAKE: Kind.MAKE,
    Family.CREATE: Kind.MAKE,
    Family.REPLACE: Kind.MAKE,
    Family.SEND: Kind.SEND,
    Family.REMOVE: Kind.REMOVE,
}
_IN_PROSE = {
    Kind.READ: "investigate research review understand study monitor figure answer report determine see",
    Kind.MAKE: """fix improve refactor polish write rewrite format add reserve book sell trade bid invest deposit tip
        rent checkout subscribe follow like note log call run test think plan comment open build implement""",
    Kind.SEND: "tell mail email notify message forward invite inform share remind text ping contact warn alert post",
    Kind.PAY: "pay purchase buy refund reimburse donate repay disburse remit order charge wire withdraw",
    Kind.DEPLOY: "deploy redeploy migrate restart reboot rollback rollout shutdown",
    Kind.REMOVE: "clean cleanup tidy empty overwrite dedupe deduplicate unsubscribe deactivate",
}
_KINDS = {verb: _OF_FAMILY.get(family, Kind.CHANGE) for verb, family in VERBS.items()}
_KINDS |= {verb: kind for kind, verbs in _IN_PROSE.items() for verb in verbs.split()}
_PHRASES = {
    ("clean", "up"): "cleanup",
    ("tidy", "up"): "tidy",
    ("clear", "out"): "cleanup",
    ("clear", "up"): "cleanup",
    ("trim", "down"): "cleanup",
    ("get", "rid"): "remove",
    ("throw", "away"): "remove",
    ("throw", "out"): "remove",
    ("roll", "back"): "rollback",
    ("roll", "out"): "rollout",
    ("shut", "down"): "shutdown",
}
_NOUNS_OF_DEEDS = {
    "cleanup": "cleanup", "clean-up": "cleanup", "purge": "purge", "wipe": "wipe", "deletion": "delete",
    "removal": "remove", "refund": "refund", "payment": "pay", "purchase": "buy", "deployment": "deploy",
    "deploy": "deploy", "migration": "migrate", "restart": "restart", "rollback": "rollback",
}  # fmt: skip
_LIGHT_VERBS = _set("do make perform run start give issue trigger execute process initiate carry")
_AS_OFTEN_NOUNS = (VERBS.keys() - PLAIN_VERBS.keys()) | _set("text ping refund purchase transfer share report empty")
_USES = _set("use using run execute go log login ssh connect open call try")
JOINS = _set("and or then & but also finally afterwards plus")
_NEGATIONS = _set("not don't dont never without no avoid cannot can't shouldn't mustn't won't")
ASKING = _set("what which who whose why how whom is are does did was were what's who's")
FILLER = _set(
    """please can could would will should shall must may might you i we i'd we'd i'll let's lets kindly now just also
    then and so want need like have has to go ahead help me us first next later again hey hi hello ok okay start begin
    consider try proceed by the agent dear make sure ensure that if possible let simply i'm going be not don't never
    do without"""
)
DETERMINERS = _set("the a an my our your his her their its this that these those all every each some any no both")
PRONOUNS = _set("it them those these this that they him her one ones stuff things thing something anything")
UNIVERSAL = _set("all every everything everyone everybody each anything entire whole")
SOME = _set("some few several couple various certain most many bunch handful something")
AGES = _set("old older oldest stale outdated recent obsolete ancient inactive dormant idle aged")
NEEDS = _set(
    """unused unnecessary unneeded useless redundant irrelevant junk unwanted needless superfluous duplicate
    duplicates duplicated dupes clutter suspicious bad important relevant"""
)
SIZES = _set("small big large huge tiny heavy bigger larger smaller biggest largest smallest")
USUAL = re.compile(
    r"\b(?:(?:the|as) (?:usual|always)|(?:like|as) (?:last time|before|always)|the normal thing|whatever is needed"
    r"|as (?:needed|appropriate|you see fit)|and so on|etc)\b"
)
UNNEEDED = re.compile(
    r"\b(?:whatever|no longer|(?:not|isn't|aren't|don't) (?:really )?(?:needed|need|used|required|necessary|in use))\b"
)
LITTLE = re.compile(
    r"\b(?:(?:small|quick|minor|little|light|tiny|brief) (?:clean-?up|clean|tidy|change|fix|update|edit|adjustment"
    r"|refactoring|job|migration|correction|tweak|deletion|removal)s?|(?:just|only) a few|a (?:little )?bit|slightly)\b"
)
TOTAL = re.compile(r"\b(?:everything|all|every|entire|whole|completely|from scratch)\b")
TIMED = re.compile(
    r"\b(?:\d{1,6}[ -]?|(?:one|two|three|four|five|six|seven|eight|nine|ten|a|an)[ -])"
    r"(?:minute|min|hour|h|day|d|week|month|quarter|year|y)s?\b|\b(?:19|20)\d\d\b|\b(?:last|past|previous|this) "
    r"(?:hour|day|week|month|quarter|year)\b|\byesterday\b|\btoday\b"
)
SIZED = re.compile(
    r"\d ?(?:bytes?|[kmgt]i?b|lines?|rows?|pixels?|px|eur|usd|%)\b|\b(?:than|over|under|above|below) \S*\d"
)
COUNTED = _set("two three four five six seven eight nine ten eleven twelve dozen twenty fifty hundred thousand")
_PREPOSITIONS = _set("in into from on onto under inside within at to with of for by via through about over using")
_NARROWING = _set("whose named called tagged matching ending starting containing labelled labeled marked except where")
_MASS = _set("data stuff content contents mail email clutter junk people media dupes traffic everything anything")
UNNAMED = _set("table database db bucket user account server file folder directory branch repository project customer")
FILES = _set("file log folder directory disk backup image photo document download screenshot")
_CODE = _set("code test docs documentation module config script syntax formatting build import")
PLAIN_TO_SEE = _set("line import variable word space whitespace")
"""Things of which a tool can tell what is unused or twice there."""
ENVIRONMENTS = {
    word: name
    for name, words in {
        "production": "production prod prd live",
        "staging": "staging stage stg uat preprod",
        "development": "development dev sandbox local localhost locally test testing qa preview canary",
    }.items()
    for word in words.split()
}
MONEY_WORDS = _set("money funds fund salary salaries balance payment amount cash eur usd gbp euro euros dollars")
ID_NOUNS = _set("account iban card number no nr id to")
WHOLE_AMOUNT = _set("full fully half entire total invoice bill")
PEOPLE = _set(
    """team customer customers client clients user users boss manager colleague colleagues everyone everybody people
    member members subscriber subscribers group staff employee employees owner author reviewers supplier vendor"""
)
GROUPS = _set("team group staff members subscribers customers clients users colleagues employees everyone everybody")
VAGUE_PEOPLE = _set("them him her someone somebody people whoever anyone others it those these")
SUITABLE = _set("relevant right appropriate responsible suitable affected")
TAKES_A_PERSON = _set("tell notify inform remind invite ping contact warn alert dm dial")
NEEDS_A_PLACE = _set("post publish announce")
NEEDS_NOBODY = _set("reply respond submit tweet retweet broadcast disclose resend page")
ORDER = ("conflict", "target", "amount", "who", "how many", "how old", "how big", "which", "where")

_TOKEN = re.compile(
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|`[^`\n]{1,300}`|(?<!\w)'[^'\n]{1,300}'(?!\w)|\n\s*|[^\s\"“”`]+"
)
_HIDING = {"Cf": "", "Cc": " ", "Cs": " "}
"""What is read in place of characters that show nothing, by category."""
_HARD, _SOFT = ".!?;…", ",:)—\u2013"


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    low: str
    start: str = ""
    """`hard` after the end of a sentence, `soft` after a comma or line break, otherwise empty."""
    specific: bool = False
    """It names one thing: a path, an address, a number, an identifier, a name, something in quotation marks."""


def _direct(objects: tuple[Word, ...]) -> tuple[Word, ...]:
    lows = [word.low for word in objects] + [""]
    for spot, (low, behind) in enumerate(pairwise(lows)):
        if spot and (low in _PREPOSITIONS or low in _NARROWING or behind == "than"):
            return objects[:spot]
    return objects


@dataclass(frozen=True, slots=True)
class Deed:
    """Something the task asks for: the verb, what it is done to, and the sentence it stands in."""

    kind: Kind
    verb: str
    said: str
    """Verb and object as they stand in the task."""
    object: tuple[Word, ...]
    sentence: str
    borrowed: bool = False
    """The object stood elsewhere and a pronoun points at it."""

    @property
    def lows(self) -> frozenset[str]:
        return frozenset(word.low for word in self.object)

    @property
    def direct(self) -> tuple[Word, ...]:
        """The object as far as the first preposition."""
        return _direct(self.object)

    @property
    def head(self) -> str:
        """The noun that the verb acts on."""
        return self.direct[-1].low if self.direct else ""

    @property
    def is_many(self) -> bool:
        plural = singular(self.head) != self.head and not self.direct[-1].specific
        return self.head in _MASS or plural or any("*" in word.text for word in self.direct)

    @property
    def is_named(self) -> bool:
        """The thing itself is named, not just its number, its pattern or the place it lies in."""
        return any(word.specific and "*" not in word.text and not self._counts(word) for word in self.direct)

    @property
    def is_narrowed(self) -> bool:
        named = any(word.specific and not (word in self.direct and self._counts(word)) for word in self.object)
        return named or not _NARROWING.isdisjoint(self.lows)

    def _counts(self, word: Word) -> bool:
        return word.low.replace(",", "").isdecimal() and word is not self.direct[-1]

    def quoted(self) -> str:
        """The task's own words, and what a pronoun among them points at."""
        meant = f" (that is, {quote(_joined(self.object))})" if self.borrowed else ""
        return f"{quote(self.said)}{meant}"


def plain_task(task: str) -> str:
    """The part that is read, without characters that hide inside words."""
    kept = unicodedata.normalize("NFKC", task[:LONGEST_TASK])[:LONGEST_TASK]
    text = "".join(_HIDING.get(unicodedata.category(char), char) if char != "\n" else char for char in kept)
    text = text.replace("\u2019", "'").strip()
    inner = text[1:-1]
    return inner if text[:1] + text[-1:] in ('""', "“”", "''", "``") and text[0] not in inner else text


def words_of(text: str) -> list[Word]:
    found: list[Word] = []
    start = "hard"
    pieces = _TOKEN.findall(text)
    # Where most words begin with a capital, a capital does not make a name.
    names = sum(piece[:1].isupper() for piece in pieces) * 2 <= len(pieces)
    for piece in pieces:
        if piece.isspace():
            start = "hard" if piece.count("\n") > 1 else start or "soft"
            continue
        if piece[0] in "\"“`'" and len(piece) > 2:
            found.append(Word(piece, piece.lower(), start, specific=True))
            start = ""
            continue
        bare = piece.strip("()[]{}<>,;:!?…\"'“”—\u2013").rstrip(".")
        if bare.strip("-•*+.") or bare == "*":
            low = bare.lower()
            proper = names and bare[:1].isupper() and start != "hard" and low not in _COMMON
            found.append(Word(bare, low, start, proper or is_specific(bare)))
            start = ""
        else:
            start = start or "soft"
        tail = piece[-1]
        start = "hard" if tail in _HARD else start or ("soft" if tail in _SOFT else "")
    return found


_BEFORE_AN_OBJECT = DETERMINERS | PRONOUNS | VAGUE_PEOPLE | UNIVERSAL | SOME | {"to", "me"}
_COMMON = UNIVERSAL | SOME | AGES | NEEDS | SIZES | DETERMINERS | PRONOUNS | FILLER | JOINS | _PREPOSITIONS


def is_specific(word: str) -> bool:
    inside = word[1:-1]
    return word[:1] == "#" or "." in inside or any(char.isdigit() or char in "/\\@*_=" for char in word)


def deeds_in(words: list[Word]) -> Iterator[Deed]:
    """Everything the task asks to be done, in order; what stands under a negation or in a question is not asked for."""
    spots = list(_commands(words))
    before: tuple[Word, ...] = ()
    for place, (verb, spot, end) in enumerate(spots):
        stop = spots[place + 1][1] if place + 1 < len(spots) else len(words)
        passive = end <= spot
        span = words[_sentence_start(words, spot) : spot] if passive else words[end:stop]
        if not passive:
            span = span[: next((i for i, word in enumerate(span) if word.start == "hard"), len(span))]
        objects = _trimmed(span, passive)
        said = _said(words, spot, objects)
        sentence = " ".join(word.low for word in _sentence(words, spot))
        kind = _kind(verb, objects)
        pointing = _is_pointing(objects)
        earlier = before or _content(words[:spot])
        if pointing and earlier:
            yield Deed(kind, verb, said, (*earlier, *objects[1:]), sentence, borrowed=True)
        elif pointing:
            yield Deed(kind, verb, said, objects, sentence)
        else:
            behind_preposition = objects[1:] if objects and objects[0].low in _PREPOSITIONS else objects
            before = behind_preposition or before
            yield Deed(kind, verb, said, objects, sentence)


def _said(words: list[Word], spot: int, objects: tuple[Word, ...]) -> str:
    if not objects:
        return _joined(words[spot : spot + (2 if _is_phrase(words, spot) else 1)])
    places = [place for place, word in enumerate(words) if word is objects[0] or word is objects[-1]]
    return _joined(words[min(spot, *places) : max(spot, *places) + 1])


def _joined(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


def _is_pointing(objects: tuple[Word, ...]) -> bool:
    """The object is a pronoun alone: `it`, `them to Ann`."""
    if not objects or objects[0].low not in PRONOUNS:
        return False
    return len(objects) == 1 or bool(objects[1].start) or objects[1].low in _PREPOSITIONS | JOINS


def _commands(words: list[Word]) -> Iterator[tuple[str, int, int]]:
    """Each verb that is a command: its plain form, where it stands, and where its object begins.

    The object of a passive stands before it, and then the third number is not larger than the second.
    """
    head, first, asked, negated, lead, wished = True, True, False, False, "", False
    for spot, word in enumerate(words):
        low = word.low
        if word.start:
            head, first, asked = True, word.start == "hard", False
            # In `do not delete, move or rename` the negation goes on; in `do not delete it, list it` it has ended.
            negated = negated and not first and _low(words, spot - 1) in _KINDS
            if first:
                lead, wished = "", False
        if first and head and low in ASKING and not (low == "how" and _low(words, spot + 1) == "about"):
            asked = True
        wished = wished or low in ("ensure", "sure", "want", "need", "needs", "have", "get", "be")
        if low in _NEGATIONS:
            negated = True
        elif low in ("and", "then", "but"):
            negated = negated and low == "and" and _low(words, spot - 1) in _KINDS
        verb = _verb(words, spot)
        if verb and head and not asked and (first or _is_commanding(words, spot)):
            if not negated:
                yield _noun_of_deed(words, verb, spot) or (verb, spot, spot + (2 if _is_phrase(words, spot) else 1))
                lead = lead or verb
            head = first = False
        elif low in JOINS or (low == "to" and lead in _USES):
            head, first = True, head and first
        elif wished and not asked and not negated and lead not in _READING and (done := _participle(low)):
            yield done, spot, spot
        elif not (head and (low in FILLER or low.endswith("ly"))):
            lead = lead or (low if head and low in _USES else "")
            head = first = False


_READING = frozenset(verb for verb, kind in _KINDS.items() if kind is Kind.READ)


def _low(words: list[Word], spot: int) -> str:
    return words[spot].low if 0 <= spot < len(words) else ""


def _is_phrase(words: list[Word], spot: int) -> bool:
    return (words[spot].low, _low(words, spot + 1)) in _PHRASES


def _verb(words: list[Word], spot: int) -> str:
    word = words[spot]
    if word.low in ("like", "have", "go", "help", "start", "try", "be", "is", "has", "make"):
        return word.low if word.low in ("start", "make") and _noun_of_deed(words, word.low, spot) else ""
    if word.low == "let" and "know" in (_low(words, place) for place in range(spot + 1, spot + 8)):
        return "tell"
    if word.low == "get" and any(_participle(_low(words, place)) for place in range(spot + 1, spot + 12)):
        return ""
    if phrase := _PHRASES.get((word.low, _low(words, spot + 1))):
        return phrase
    if word.low in _KINDS or word.low in _LIGHT_VERBS:
        return word.low if word.low in _KINDS or _noun_of_deed(words, word.low, spot) else ""
    if word.low.endswith("ing") and len(word.low) > 5:
        stem = word.low[:-3]
        return next((each for each in (stem, f"{stem}e", stem[:-1]) if each in _KINDS), "")
    return ""


def _noun_of_deed(words: list[Word], verb: str, spot: int) -> tuple[str, int, int] | None:
    """The deed in `do a small cleanup`."""
    if verb in _LIGHT_VERBS:
        for place in range(spot + 1, min(spot + 5, len(words))):
            if words[place].start:
                return None
            if deed := _NOUNS_OF_DEEDS.get(words[place].low):
                return deed, spot, place + 1
    return None


def _participle(low: str) -> str:
    if low in ("gone", "sent", "paid"):
        return {"gone": "remove", "sent": "send", "paid": "pay"}[low]
    if not low.endswith("ed") or len(low) < 5:
        return ""
    return next((each for each in (low[:-1], low[:-2], low[:-3]) if _KINDS.get(each) in GRAVE), "")


GRAVE = frozenset({Kind.REMOVE, Kind.SEND, Kind.PAY, Kind.DEPLOY})


def _is_commanding(words: list[Word], spot: int) -> bool:
    """Past the beginning of a sentence, a word that is as often a noun is a verb only with an object behind it."""
    if words[spot].low not in _AS_OFTEN_NOUNS:
        return True
    if spot + 1 >= len(words) or words[spot + 1].start:
        return bool(words[spot].start) or _low(words, spot - 1) == "then" or _KINDS.get(words[spot].low) is Kind.DEPLOY
    behind = words[spot + 1]
    return behind.specific or behind.low in _BEFORE_AN_OBJECT


def _sentence_start(words: list[Word], spot: int) -> int:
    return next((i for i in range(spot, 0, -1) if words[i].start == "hard"), 0)


def _sentence(words: list[Word], spot: int) -> list[Word]:
    end = next((i for i in range(spot + 1, len(words)) if words[i].start == "hard"), len(words))
    return words[_sentence_start(words, spot) : end]


def _trimmed(span: Sequence[Word], passive: bool) -> tuple[Word, ...]:
    """The object without the words around it that belong to the sentence."""
    kept = list(span)
    edge = (FILLER - DETERMINERS - {"me", "us"}) | JOINS | {"up", "of", "rid", "are", "is", "get", "been"}
    while kept and kept[-1].low in edge:
        kept.pop()
    while kept and kept[0].low in (edge if passive else {"up", "of", "rid", "please", "now"}):
        kept.pop(0)
    return tuple(kept)


def _content(words: Sequence[Word]) -> tuple[Word, ...]:
    """What a pronoun can point at in words that ask for nothing themselves: the last that were said of anything."""
    kept: list[Word] = []
    for word in words[-12:]:
        if word.low in _PREPOSITIONS or word.low in ("are", "is", "have", "has", "had"):
            kept = []
        elif word.low not in FILLER and word.low not in PRONOUNS and word.low not in _KINDS:
            kept.append(word)
    return tuple(kept)


def _kind(verb: str, objects: tuple[Word, ...]) -> Kind:
    lows = {word.low for word in objects}
    to_me = bool(objects) and objects[0].low in ("me", "us")
    match verb:
        case "transfer" if not lows.isdisjoint(MONEY_WORDS) or any(char in "€$£" for char in "".join(lows)):
            return Kind.PAY
        case "order" if "by" in lows or "in" in lows:
            return Kind.CHANGE
        case "pay" if "attention" in lows:
            return Kind.READ
        case "tell" | "inform" | "notify" | "remind" | "alert" if to_me:
            return Kind.READ
        case "clean" | "cleanup" | "tidy" | "migrate" if objects and singular(_direct(objects)[-1].low) in _CODE:
            return Kind.MAKE
        case _:
            return _KINDS.get(verb, Kind.CHANGE)
