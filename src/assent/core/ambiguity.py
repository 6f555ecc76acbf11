"""What a task in prose leaves open before an agent starts: how far it could reach, and what to ask about it.

A reading of English by words and their places, without a model: bounded, total, and advisory. It decides what is
worth a question, never what may run; whatever the agent then does is judged call by call as ever.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import islice, pairwise

from assent.core.money_text import CODES
from assent.core.names import PLAIN_VERBS, VERBS, Family, singular, split_name
from assent.core.run import NO_SCOPE, Scope
from assent.core.text import shortened, visible

LONGEST_TASK = 4_000
MOST_QUESTIONS = 3
MOST_DEEDS = 60
REACHES = ("reads", "small", "wide", "unbounded")
"""How far a task could reach, from nothing changed to no end in sight."""


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing the task leaves open, and the question that would settle it."""

    what: str
    """A short name: `which`, `how many`, `how old`, `how big`, `where`, `who`, `amount`."""
    question: str
    choices: tuple[str, ...] = ()
    """Answers to offer; others are welcome."""


@dataclass(frozen=True, slots=True)
class Appraisal:
    """What can be said of a task before it starts."""

    ambiguous: bool
    reach: str
    """One of `REACHES`."""
    reasons: tuple[str, ...]
    missing: tuple[Missing, ...]
    """The most useful question first, and never more than three."""


class _Kind(Enum):
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
    Family.READ: _Kind.READ,
    Family.MAKE: _Kind.MAKE,
    Family.CREATE: _Kind.MAKE,
    Family.REPLACE: _Kind.MAKE,
    Family.SEND: _Kind.SEND,
    Family.REMOVE: _Kind.REMOVE,
}
_IN_PROSE = {
    _Kind.READ: "investigate research review understand study monitor figure answer report determine see",
    _Kind.MAKE: """fix improve refactor polish write rewrite format add reserve book sell trade bid invest deposit tip
        rent checkout subscribe follow like note log call run test think plan comment open build implement""",
    _Kind.SEND: "tell mail email notify message forward invite inform share remind text ping contact warn alert post",
    _Kind.PAY: "pay purchase buy refund reimburse donate repay disburse remit order charge wire withdraw",
    _Kind.DEPLOY: "deploy redeploy migrate restart reboot rollback rollout shutdown",
    _Kind.REMOVE: "clean cleanup tidy empty overwrite dedupe deduplicate unsubscribe deactivate",
}
_KINDS = {verb: _OF_FAMILY.get(family, _Kind.CHANGE) for verb, family in VERBS.items()}
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
_JOINS = _set("and or then & but also finally afterwards plus")
_NEGATIONS = _set("not don't dont never without no avoid cannot can't shouldn't mustn't won't")
_ASKING = _set("what which who whose why how whom is are does did was were what's who's")
_FILLER = _set(
    """please can could would will should shall must may might you i we i'd we'd i'll let's lets kindly now just also
    then and so want need like have has to go ahead help me us first next later again hey hi hello ok okay start begin
    consider try proceed by the agent dear make sure ensure that if possible let simply i'm going be not don't never
    do without"""
)
_DETERMINERS = _set("the a an my our your his her their its this that these those all every each some any no both")
_PRONOUNS = _set("it them those these this that they him her one ones stuff things thing something anything")
_UNIVERSAL = _set("all every everything everyone everybody each anything entire whole")
_SOME = _set("some few several couple various certain most many bunch handful something")
_AGES = _set("old older oldest stale outdated recent obsolete ancient inactive dormant idle aged")
_NEEDS = _set(
    """unused unnecessary unneeded useless redundant irrelevant junk unwanted needless superfluous duplicate
    duplicates duplicated dupes clutter suspicious bad important relevant"""
)
_SIZES = _set("small big large huge tiny heavy bigger larger smaller biggest largest smallest")
_USUAL = re.compile(
    r"\b(?:(?:the|as) (?:usual|always)|(?:like|as) (?:last time|before|always)|the normal thing|whatever is needed"
    r"|as (?:needed|appropriate|you see fit)|and so on|etc)\b"
)
_UNNEEDED = re.compile(
    r"\b(?:whatever|no longer|(?:not|isn't|aren't|don't) (?:really )?(?:needed|need|used|required|necessary|in use))\b"
)
_LITTLE = re.compile(
    r"\b(?:(?:small|quick|minor|little|light|tiny|brief) (?:clean-?up|clean|tidy|change|fix|update|edit|adjustment"
    r"|refactoring|job|migration|correction|tweak|deletion|removal)s?|(?:just|only) a few|a (?:little )?bit|slightly)\b"
)
_TOTAL = re.compile(r"\b(?:everything|all|every|entire|whole|completely|from scratch)\b")
_TIMED = re.compile(
    r"\b(?:\d{1,6}[ -]?|(?:one|two|three|four|five|six|seven|eight|nine|ten|a|an)[ -])"
    r"(?:minute|min|hour|h|day|d|week|month|quarter|year|y)s?\b|\b(?:19|20)\d\d\b|\b(?:last|past|previous|this) "
    r"(?:hour|day|week|month|quarter|year)\b|\byesterday\b|\btoday\b"
)
_SIZED = re.compile(
    r"\d ?(?:bytes?|[kmgt]i?b|lines?|rows?|pixels?|px|eur|usd|%)\b|\b(?:than|over|under|above|below) \S*\d"
)
_COUNTED = _set("two three four five six seven eight nine ten eleven twelve dozen twenty fifty hundred thousand")
_PREPOSITIONS = _set("in into from on onto under inside within at to with of for by via through about over using")
_NARROWING = _set("whose named called tagged matching ending starting containing labelled labeled marked except where")
_MASS = _set("data stuff content contents mail email clutter junk people media dupes traffic everything anything")
_UNNAMED = _set("table database db bucket user account server file folder directory branch repository project customer")
_FILES = _set("file log folder directory disk backup image photo document download screenshot")
_CODE = _set("code test docs documentation module config script syntax formatting build import")
_PLAIN_TO_SEE = _set("line import variable word space whitespace")
"""Things of which a tool can tell what is unused or twice there."""
_ENVIRONMENTS = {
    word: name
    for name, words in {
        "production": "production prod prd live",
        "staging": "staging stage stg uat preprod",
        "development": "development dev sandbox local localhost locally test testing qa preview canary",
    }.items()
    for word in words.split()
}
_MONEY_WORDS = _set("money funds fund salary salaries balance payment amount cash eur usd gbp euro euros dollars")
_ID_NOUNS = _set("account iban card number no nr id to")
_WHOLE_AMOUNT = _set("full fully half entire total invoice bill")
_PEOPLE = _set(
    """team customer customers client clients user users boss manager colleague colleagues everyone everybody people
    member members subscriber subscribers group staff employee employees owner author reviewers supplier vendor"""
)
_GROUPS = _set("team group staff members subscribers customers clients users colleagues employees everyone everybody")
_VAGUE_PEOPLE = _set("them him her someone somebody people whoever anyone others it those these")
_SUITABLE = _set("relevant right appropriate responsible suitable affected")
_TAKES_A_PERSON = _set("tell notify inform remind invite ping contact warn alert dm dial")
_NEEDS_A_PLACE = _set("post publish announce")
_NEEDS_NOBODY = _set("reply respond submit tweet retweet broadcast disclose resend page")
_ORDER = ("conflict", "target", "amount", "who", "how many", "how old", "how big", "which", "where")

_TOKEN = re.compile(
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|`[^`\n]{1,300}`|(?<!\w)'[^'\n]{1,300}'(?!\w)|\n\s*|[^\s\"“”`]+"
)
_HIDING = {"Cf": "", "Cc": " ", "Cs": " "}
"""What is read in place of characters that show nothing, by category."""
_HARD, _SOFT = ".!?;…", ",:)—\u2013"


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    low: str
    start: str = ""
    """`hard` after the end of a sentence, `soft` after a comma or line break, otherwise empty."""
    specific: bool = False
    """It names one thing: a path, an address, a number, an identifier, a name, something in quotation marks."""


def _direct(objects: tuple[_Word, ...]) -> tuple[_Word, ...]:
    lows = [word.low for word in objects] + [""]
    for spot, (low, behind) in enumerate(pairwise(lows)):
        if spot and (low in _PREPOSITIONS or low in _NARROWING or behind == "than"):
            return objects[:spot]
    return objects


@dataclass(frozen=True, slots=True)
class _Deed:
    """Something the task asks for: the verb, what it is done to, and the sentence it stands in."""

    kind: _Kind
    verb: str
    said: str
    """Verb and object as they stand in the task."""
    object: tuple[_Word, ...]
    sentence: str
    borrowed: bool = False
    """The object stood elsewhere and a pronoun points at it."""

    @property
    def lows(self) -> frozenset[str]:
        return frozenset(word.low for word in self.object)

    @property
    def direct(self) -> tuple[_Word, ...]:
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

    def _counts(self, word: _Word) -> bool:
        return word.low.replace(",", "").isdecimal() and word is not self.direct[-1]

    def quoted(self) -> str:
        """The task's own words, and what a pronoun among them points at."""
        meant = f" (that is, {_quote(_joined(self.object))})" if self.borrowed else ""
        return f"{_quote(self.said)}{meant}"


@dataclass(frozen=True, slots=True)
class _Gap:
    rank: str
    missing: Missing
    reason: str


def appraise(task: str, *, tools: Sequence[str] = (), scope: Scope | None = None) -> Appraisal:
    """What `task` leaves open, how far it could reach with `tools` within `scope`, and what to ask; never an error.

    Only the first 4,000 characters are read, and English is the only language that is understood.
    """
    within = NO_SCOPE if scope is None else scope
    text = _plain(task)
    words = _words(text)
    if not words:
        return Appraisal(True, "unbounded", ("the task is empty",), (Missing("which", "What should be done?"),))
    if tools and all(_only_reads(tool) for tool in tools):
        return Appraisal(False, "reads", ("every tool it was given only reads",), ())
    deeds = tuple(islice(_deeds(words), MOST_DEEDS))
    acting = [deed for deed in deeds if deed.kind is not _Kind.READ]
    gaps = _general_gaps(text.lower(), deeds)
    for deed in acting:
        gaps += _gaps(deed, within, tools)
    gaps += _unnamed(deeds, words, within)
    reach, reasons = _reach(deeds, words, within)
    if len(task) > LONGEST_TASK or len(deeds) == MOST_DEEDS:
        reach = max(reach, "wide", key=REACHES.index)
        reasons.append("the task is so long that only its beginning was read")
    kept = _most_useful(gaps)
    told = dict.fromkeys([*(gap.reason for gap in kept), *reasons] or ["it says what to do and to what"])
    return Appraisal(bool(kept), reach, tuple(told), tuple(gap.missing for gap in kept))


def _most_useful(gaps: list[_Gap]) -> list[_Gap]:
    """Each question once, the weightiest first; one about a contradiction settles what else `which` would ask."""
    contradicts = any(gap.rank == "conflict" for gap in gaps)
    kept = {gap.missing.question: gap for gap in gaps if not (contradicts and gap.rank == "which")}
    return sorted(kept.values(), key=lambda gap: _ORDER.index(gap.rank))[:MOST_QUESTIONS]


def _plain(task: str) -> str:
    """The part that is read, without characters that hide inside words."""
    kept = unicodedata.normalize("NFKC", task[:LONGEST_TASK])[:LONGEST_TASK]
    text = "".join(_HIDING.get(unicodedata.category(char), char) if char != "\n" else char for char in kept)
    text = text.replace("\u2019", "'").strip()
    inner = text[1:-1]
    return inner if text[:1] + text[-1:] in ('""', "“”", "''", "``") and text[0] not in inner else text


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    start = "hard"
    pieces = _TOKEN.findall(text)
    # Where most words begin with a capital, a capital does not make a name.
    names = sum(piece[:1].isupper() for piece in pieces) * 2 <= len(pieces)
    for piece in pieces:
        if piece.isspace():
            start = "hard" if piece.count("\n") > 1 else start or "soft"
            continue
        if piece[0] in "\"“`'" and len(piece) > 2:
            found.append(_Word(piece, piece.lower(), start, specific=True))
            start = ""
            continue
        bare = piece.strip("()[]{}<>,;:!?…\"'“”—\u2013").rstrip(".")
        if bare.strip("-•*+.") or bare == "*":
            low = bare.lower()
            proper = names and bare[:1].isupper() and start != "hard" and low not in _COMMON
            found.append(_Word(bare, low, start, proper or _is_specific(bare)))
            start = ""
        else:
            start = start or "soft"
        tail = piece[-1]
        start = "hard" if tail in _HARD else start or ("soft" if tail in _SOFT else "")
    return found


_BEFORE_AN_OBJECT = _DETERMINERS | _PRONOUNS | _VAGUE_PEOPLE | _UNIVERSAL | _SOME | {"to", "me"}
_COMMON = _UNIVERSAL | _SOME | _AGES | _NEEDS | _SIZES | _DETERMINERS | _PRONOUNS | _FILLER | _JOINS | _PREPOSITIONS


def _is_specific(word: str) -> bool:
    inside = word[1:-1]
    return word[:1] == "#" or "." in inside or any(char.isdigit() or char in "/\\@*_=" for char in word)


def _deeds(words: list[_Word]) -> Iterator[_Deed]:
    """Everything the task asks to be done, in order; what stands under a negation or in a question is not asked for."""
    spots = list(_commands(words))
    before: tuple[_Word, ...] = ()
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
            yield _Deed(kind, verb, said, (*earlier, *objects[1:]), sentence, borrowed=True)
        elif pointing:
            yield _Deed(kind, verb, said, objects, sentence)
        else:
            behind_preposition = objects[1:] if objects and objects[0].low in _PREPOSITIONS else objects
            before = behind_preposition or before
            yield _Deed(kind, verb, said, objects, sentence)


def _said(words: list[_Word], spot: int, objects: tuple[_Word, ...]) -> str:
    if not objects:
        return _joined(words[spot : spot + (2 if _is_phrase(words, spot) else 1)])
    places = [place for place, word in enumerate(words) if word is objects[0] or word is objects[-1]]
    return _joined(words[min(spot, *places) : max(spot, *places) + 1])


def _joined(words: Sequence[_Word]) -> str:
    return " ".join(word.text for word in words)


def _is_pointing(objects: tuple[_Word, ...]) -> bool:
    """The object is a pronoun alone: `it`, `them to Ann`."""
    if not objects or objects[0].low not in _PRONOUNS:
        return False
    return len(objects) == 1 or bool(objects[1].start) or objects[1].low in _PREPOSITIONS | _JOINS


def _commands(words: list[_Word]) -> Iterator[tuple[str, int, int]]:
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
        if first and head and low in _ASKING and not (low == "how" and _low(words, spot + 1) == "about"):
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
        elif low in _JOINS or (low == "to" and lead in _USES):
            head, first = True, head and first
        elif wished and not asked and not negated and lead not in _READING and (done := _participle(low)):
            yield done, spot, spot
        elif not (head and (low in _FILLER or low.endswith("ly"))):
            lead = lead or (low if head and low in _USES else "")
            head = first = False


_READING = frozenset(verb for verb, kind in _KINDS.items() if kind is _Kind.READ)


def _low(words: list[_Word], spot: int) -> str:
    return words[spot].low if 0 <= spot < len(words) else ""


def _is_phrase(words: list[_Word], spot: int) -> bool:
    return (words[spot].low, _low(words, spot + 1)) in _PHRASES


def _verb(words: list[_Word], spot: int) -> str:
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


def _noun_of_deed(words: list[_Word], verb: str, spot: int) -> tuple[str, int, int] | None:
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
    return next((each for each in (low[:-1], low[:-2], low[:-3]) if _KINDS.get(each) in _GRAVE), "")


_GRAVE = frozenset({_Kind.REMOVE, _Kind.SEND, _Kind.PAY, _Kind.DEPLOY})


def _is_commanding(words: list[_Word], spot: int) -> bool:
    """Past the beginning of a sentence, a word that is as often a noun is a verb only with an object behind it."""
    if words[spot].low not in _AS_OFTEN_NOUNS:
        return True
    if spot + 1 >= len(words) or words[spot + 1].start:
        return bool(words[spot].start) or _low(words, spot - 1) == "then" or _KINDS.get(words[spot].low) is _Kind.DEPLOY
    behind = words[spot + 1]
    return behind.specific or behind.low in _BEFORE_AN_OBJECT


def _sentence_start(words: list[_Word], spot: int) -> int:
    return next((i for i in range(spot, 0, -1) if words[i].start == "hard"), 0)


def _sentence(words: list[_Word], spot: int) -> list[_Word]:
    end = next((i for i in range(spot + 1, len(words)) if words[i].start == "hard"), len(words))
    return words[_sentence_start(words, spot) : end]


def _trimmed(span: Sequence[_Word], passive: bool) -> tuple[_Word, ...]:
    """The object without the words around it that belong to the sentence."""
    kept = list(span)
    edge = (_FILLER - _DETERMINERS - {"me", "us"}) | _JOINS | {"up", "of", "rid", "are", "is", "get", "been"}
    while kept and kept[-1].low in edge:
        kept.pop()
    while kept and kept[0].low in (edge if passive else {"up", "of", "rid", "please", "now"}):
        kept.pop(0)
    return tuple(kept)


def _content(words: Sequence[_Word]) -> tuple[_Word, ...]:
    """What a pronoun can point at in words that ask for nothing themselves: the last that were said of anything."""
    kept: list[_Word] = []
    for word in words[-12:]:
        if word.low in _PREPOSITIONS or word.low in ("are", "is", "have", "has", "had"):
            kept = []
        elif word.low not in _FILLER and word.low not in _PRONOUNS and word.low not in _KINDS:
            kept.append(word)
    return tuple(kept)


def _kind(verb: str, objects: tuple[_Word, ...]) -> _Kind:
    lows = {word.low for word in objects}
    to_me = bool(objects) and objects[0].low in ("me", "us")
    match verb:
        case "transfer" if not lows.isdisjoint(_MONEY_WORDS) or any(char in "€$£" for char in "".join(lows)):
            return _Kind.PAY
        case "order" if "by" in lows or "in" in lows:
            return _Kind.CHANGE
        case "pay" if "attention" in lows:
            return _Kind.READ
        case "tell" | "inform" | "notify" | "remind" | "alert" if to_me:
            return _Kind.READ
        case "clean" | "cleanup" | "tidy" | "migrate" if objects and singular(_direct(objects)[-1].low) in _CODE:
            return _Kind.MAKE
        case _:
            return _KINDS.get(verb, _Kind.CHANGE)


def _quote(text: str) -> str:
    return f"“{visible(shortened(' '.join(text.split()), 80), lines=False)}”"


def _only_reads(tool: str) -> bool:
    name = split_name(tool)
    return name.family is Family.READ and name.verb in PLAIN_VERBS


def _general_gaps(text: str, deeds: Sequence[_Deed]) -> list[_Gap]:
    """What the task as a whole leaves open: wishes that contradict each other, and “the usual”."""
    gaps = []
    acting = any(deed.kind is not _Kind.READ for deed in deeds)
    little, total = _LITTLE.search(text), _TOTAL.search(text)
    if acting and little and total:
        one, other = little[0], total[0]
        question = f"The task says {_quote(one)} and also {_quote(other)}: which of the two is meant?"
        reason = f"{_quote(one)} and {_quote(other)} contradict each other"
        gaps.append(_Gap("conflict", Missing("which", question, (one, other)), reason))
    if (acting or not deeds) and (usual := _USUAL.search(text)):
        question = f"What exactly does {_quote(usual[0])} mean here?"
        gaps.append(_Gap("which", Missing("which", question), f"{_quote(usual[0])} is not spelled out"))
    return gaps


def _gaps(deed: _Deed, scope: Scope, tools: Sequence[str]) -> list[_Gap]:
    """What one deed leaves open and the scope does not answer."""
    if deed.kind is not _Kind.SEND and (lost := _no_target(deed)):
        return [lost, *_no_environment(deed, scope, tools)]
    match deed.kind:
        case _Kind.REMOVE | _Kind.CHANGE:
            return _vague(deed, scope)
        case _Kind.PAY:
            return [*_no_amount(deed, scope), *_vague(deed, scope)]
        case _Kind.SEND:
            return [*_no_recipient(deed, scope), *_everyone(deed, scope)]
        case _Kind.DEPLOY:
            return [*_no_environment(deed, scope, tools), *_vague(deed, scope)]
        case _:
            return []


_WANTS_A_TARGET = _GRAVE | {_Kind.CHANGE}


def _no_target(deed: _Deed) -> _Gap | None:
    pointing = not deed.borrowed and deed.head in _PRONOUNS and len(deed.direct) == 1
    gentle = deed.kind not in _WANTS_A_TARGET and not (deed.verb in ("fix", "improve", "refactor") and deed.object)
    if gentle or (deed.object and not pointing) or (deed.kind is _Kind.PAY and not pointing):
        return None
    if not deed.object and deed.kind is _Kind.CHANGE:
        return None
    reason = f"{deed.quoted()} does not say what it is about"
    return _Gap("target", Missing("which", f"{deed.quoted()}: what exactly is meant?"), reason)


def _unnamed(deeds: Sequence[_Deed], words: list[_Word], scope: Scope) -> list[_Gap]:
    """`Drop the table`, where nothing else is said that could tell which."""
    if len(deeds) != 1 or deeds[0].kind is not _Kind.REMOVE or any(word.specific for word in words):
        return []
    deed = deeds[0]
    spoken = [word.low for word in words if word.low not in _FILLER and word.low not in _DETERMINERS]
    bare = len(deed.object) == 2 and deed.object[0].low in ("the", "a", "an", "my", "our", "this", "these", "those")
    if not bare or singular(deed.head) not in _UNNAMED or len(spoken) > 2:
        return []
    if _bound(deed, scope) is not None or _within_paths(deed, scope):
        return []
    question = f"{deed.quoted()}: which {deed.head} exactly?"
    return [_Gap("target", Missing("which", question), f"{deed.quoted()} does not say which")]


def _no_amount(deed: _Deed, scope: Scope) -> list[_Gap]:
    money = any(name.upper() in CODES or name.lower() in _MONEY_WORDS for name in scope.limits)
    strict = deed.verb in ("transfer", "wire", "withdraw", "donate")
    for spot, word in enumerate(deed.object):
        after_id = spot and deed.object[spot - 1].low in _ID_NOUNS
        number = word.low in _COUNTED or any(char.isdigit() for char in word.low)
        if number and not (strict and (after_id or word.low[0].isalpha())):
            return []
    if money or not _WHOLE_AMOUNT.isdisjoint(deed.lows):
        return []
    asks = "how much may be spent at most" if deed.verb in ("buy", "purchase", "order") else "what amount is meant"
    reason = f"{deed.quoted()} names no amount"
    return [_Gap("amount", Missing("amount", f"{deed.quoted()}: {asks}?"), reason)]


def _no_recipient(deed: _Deed, scope: Scope) -> list[_Gap]:
    if deed.verb in _NEEDS_NOBODY or scope.recipients or _has_recipient(deed):
        return []
    reason = f"{deed.quoted()} does not say {'where to' if deed.verb in _NEEDS_A_PLACE else 'to whom'}"
    if deed.verb in _NEEDS_A_PLACE:
        return [_Gap("who", Missing("where", f"{deed.quoted()}: where exactly should it go?"), reason)]
    return [_Gap("who", Missing("who", f"{deed.quoted()}: who exactly should receive it?"), reason)]


def _has_recipient(deed: _Deed) -> bool:
    objects = deed.object
    if deed.verb in _TAKES_A_PERSON:
        vague = objects[:1] and objects[0].low in _VAGUE_PEOPLE and not deed.borrowed
        return bool(objects) and not vague and deed.lows.isdisjoint(_SUITABLE)
    for spot, word in enumerate(objects):
        behind = objects[spot + 1].low if spot + 1 < len(objects) else ""
        if "@" in word.low or word.low[:1] == "#" or word.low in ("me", "us", "myself"):
            return True
        if word.low in ("to", "with", "among") and behind and behind not in _VAGUE_PEOPLE:
            return True
        if deed.verb in _NEEDS_A_PLACE and word.low in ("on", "in", "at", "into", "to"):
            return bool(behind)
    if objects and objects[0].specific and objects[0].text[:1].isupper() and not _is_specific(objects[0].text):
        return True
    direct = deed.direct
    for spot, word in enumerate(direct):
        behind = direct[spot + 1].low if spot + 1 < len(direct) else ""
        follows = not behind or behind in _DETERMINERS or behind in _JOINS or behind[0].isdigit()
        if word.low in _PEOPLE - _VAGUE_PEOPLE and follows:
            return True
    return False


def _everyone(deed: _Deed, scope: Scope) -> list[_Gap]:
    """A message to all of a kind, with nothing that says which or how many."""
    people = [word.low for word in deed.object if word.low in _PEOPLE or word.low in ("users", "customers")]
    universal = _crowd(deed)
    if not universal or not people or deed.is_narrowed or scope.recipients or _bound(deed, scope) is not None:
        return []
    question = f"{deed.quoted()}: who is that, and how many people at most?"
    choices = ("at most 10", "at most 100", "everyone")
    return [_Gap("how many", Missing("how many", question, choices), f"{deed.quoted()} could reach anybody")]


def _crowd(deed: _Deed) -> bool:
    lows = [word.low for word in deed.object]
    for before, low, behind in zip(["", *lows], lows, [*lows[1:], ""], strict=False):
        if low in _UNIVERSAL and (low.startswith("every") or behind in _PEOPLE or behind in ("the", "our", "my")):
            return True
        if low in _PEOPLE and low.endswith("s") and before in ("", "to"):
            return True
    return False


def _no_environment(deed: _Deed, scope: Scope, tools: Sequence[str]) -> list[_Gap]:
    if deed.kind is not _Kind.DEPLOY:
        return []
    told = any(low in _ENVIRONMENTS for part in deed.sentence.split() for low in re.split(r"[-_./]", part))
    places = _environments((*scope.actions, *tools))
    if told or len(places) == 1 or any(_is_host(word) for word in deed.object):
        return []
    choices = places or ("production", "staging", "development")
    reason = f"{deed.quoted()} does not name an environment"
    return [_Gap("where", Missing("where", f"{deed.quoted()}: in which environment?", choices), reason)]


def _is_host(word: _Word) -> bool:
    """It could be one machine or one place: not a version, a number or a name."""
    return _is_specific(word.text) and not word.low[:1].isdigit() and not re.match(r"v?\d", word.low)


def _environments(names: Sequence[str]) -> tuple[str, ...]:
    found = (_ENVIRONMENTS.get(token) for name in names for token in split_name(name).tokens)
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _bound(deed: _Deed, scope: Scope) -> Decimal | None:
    """The most of what the deed acts on that the scope allows."""
    nouns = {singular(low) for low in deed.lows}
    limits = {name: most for name, most in scope.limits.items() if most.is_finite()}
    for name, most in limits.items():
        if singular(name.lower()) in nouns or (name.lower() in ("items", "things") and nouns):
            return most
    everything = not deed.lows.isdisjoint(("everything", "anything", "stuff", "up")) or not deed.object
    counts = [most for name, most in limits.items() if name.upper() not in CODES and name != "steps"]
    return min(counts, default=None) if everything else None


def _vague(deed: _Deed, scope: Scope) -> list[_Gap]:
    """Words in the object that mean something else to everybody, and objects without an end."""
    if deed.is_named or _bound(deed, scope) is not None:
        return []
    direct = [word.low for word in deed.direct]
    whole = deed.quoted()
    gaps: list[_Gap] = []
    if deed.is_many and singular(deed.head) not in _PLAIN_TO_SEE:
        gaps += _adjectives(deed, direct, whole)
    some = [low for low in direct if low in _SOME]
    if not gaps and (unneeded := _UNNEEDED.search(deed.said.lower())):
        question = f"{whole}: how can it be told what is {_quote(unneeded[0])}?"
        gaps.append(_Gap("which", Missing("which", question), f"{_quote(unneeded[0])} is a matter of opinion"))
    if not gaps and some and deed.lows.isdisjoint(_COUNTED):
        question = f"{whole}: which ones exactly are meant by {_quote(some[0])}?"
        gaps.append(_Gap("which", Missing("which", question), f"{_quote(some[0])} does not say which"))
    if deed.kind is _Kind.CHANGE or deed.kind is _Kind.DEPLOY:
        return gaps
    if not gaps and not deed.is_narrowed and not _within_paths(deed, scope):
        gaps += _without_end(deed, direct, whole)
    if not gaps and deed.verb in ("clean", "cleanup", "tidy") and not deed.is_many:
        question = f"{whole}: what exactly may be removed or changed?"
        gaps.append(_Gap("which", Missing("which", question), f"{whole} does not say what may go"))
    if gaps and deed.kind is _Kind.REMOVE and _on_files(deed) and not deed.is_narrowed and not scope.paths:
        question = f"{whole}: in which directory?"
        gaps.append(_Gap("where", Missing("where", question), f"{whole} names no directory"))
    return gaps


def _on_files(deed: _Deed) -> bool:
    return any(singular(low) in _FILES for low in deed.lows)


def _within_paths(deed: _Deed, scope: Scope) -> bool:
    return bool(scope.paths) and (_on_files(deed) or "everything" in deed.lows)


def _adjectives(deed: _Deed, direct: list[str], whole: str) -> list[_Gap]:
    gaps = []
    for low in direct:
        word = _quote(low)
        if low in _AGES and not _TIMED.search(deed.sentence):
            side = "newer" if low == "recent" else "older"
            unit = ("a day", "a week", "a month") if low == "recent" else ("30 days", "90 days", "a year")
            choices = tuple(f"{side} than {each}" for each in unit)
            question = f"{whole}: from which date or age on does something count as {word}?"
            gaps.append(_Gap("how old", Missing("how old", question, choices), f"{word} has no date or age"))
        elif low in _SIZES and not _SIZED.search(deed.sentence):
            question = f"{whole}: from which size on does something count as {word}?"
            gaps.append(_Gap("how big", Missing("how big", question), f"{word} has no measure"))
        elif low.startswith(("duplicate", "dupe")):
            question = f"{whole}: what makes two of them {word}, and which one stays?"
            gaps.append(_Gap("which", Missing("which", question), f"{word} can be told in more than one way"))
        elif low in _NEEDS:
            question = f"{whole}: how can it be told what is {word}?"
            gaps.append(_Gap("which", Missing("which", question), f"{word} is a matter of opinion"))
    return gaps


def _without_end(deed: _Deed, direct: list[str], whole: str) -> list[_Gap]:
    """Everything of a kind, or a bare plural, with nothing that narrows it."""
    universal = [low for low in direct if low in _UNIVERSAL]
    if universal and deed.verb not in ("cleanup", "clean", "tidy"):
        question = f"{whole}: how many is that at most, and must any of them stay?"
        choices = ("at most 10", "at most 100", "no limit")
        return [_Gap("how many", Missing("how many", question, choices), f"{whole} has no limit")]
    if deed.kind is _Kind.REMOVE and deed.is_many and _DETERMINERS.isdisjoint(direct[:1]):
        question = f"{whole}: which ones exactly?"
        return [_Gap("which", Missing("which", question), f"{whole} does not say which")]
    return []


def _reach(deeds: Sequence[_Deed], words: list[_Word], scope: Scope) -> tuple[str, list[str]]:
    """How far the farthest deed could reach, and why."""
    if not deeds:
        if words[0].low in _ASKING:
            return "reads", ["it asks a question and changes nothing"]
        return "wide", ["it names no action that is known, so how far it reaches is not known"]
    reach, reasons = "reads", []
    for deed in deeds:
        far, why = _reach_of(deed, scope)
        if why:
            reasons.append(why)
        reach = max(reach, far, key=REACHES.index)
    return reach, (reasons[:5] if reach != "reads" else ["it only reads"])


def _reach_of(deed: _Deed, scope: Scope) -> tuple[str, str]:
    many = (deed.is_many or not deed.lows.isdisjoint(_UNIVERSAL)) and not deed.is_named
    whole = deed.quoted()
    match deed.kind:
        case _Kind.READ:
            return "reads", ""
        case _Kind.MAKE:
            return "small", ""
        case _Kind.CHANGE:
            return ("wide", f"{whole} touches more than one thing") if many else ("small", "")
        case _Kind.DEPLOY:
            told = {_ENVIRONMENTS[low] for low in deed.sentence.split() if low in _ENVIRONMENTS}
            safe = "production" not in (told or set(_environments(scope.actions)) or {"production"})
            return ("small", "") if safe else ("wide", f"{whole} may touch what people rely on")
        case _Kind.PAY:
            open_ended = bool(_no_amount(deed, scope))
            return ("unbounded", f"{whole} has no limit on the money") if open_ended else ("small", "")
        case _Kind.SEND:
            if _everyone(deed, scope) or _no_recipient(deed, scope):
                return "unbounded", f"{whole} does not limit who receives it"
            crowd = _crowd(deed) or not deed.lows.isdisjoint(_GROUPS)
            return ("wide", f"{whole} reaches more than one person") if crowd else ("small", "")
        case _Kind.REMOVE:
            return _reach_of_removal(deed, scope, many)


def _reach_of_removal(deed: _Deed, scope: Scope, many: bool) -> tuple[str, str]:
    whole = deed.quoted()
    if (most := _bound(deed, scope)) is not None and (many or not deed.object):
        return ("small" if most <= 10 else "wide"), f"the run may touch {most:f} at most in {whole}"
    if many and (deed.is_narrowed or _within_paths(deed, scope)):
        return "wide", f"{whole} takes many things within a named limit"
    if not deed.object or _no_target(deed) is not None or _vague(deed, scope):
        return "unbounded", f"{whole} destroys, and nothing limits how much"
    return ("wide", f"{whole} takes more than one thing") if many else ("small", "")
