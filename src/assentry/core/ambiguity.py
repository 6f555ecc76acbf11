"""What a task in prose leaves open before an agent starts: how far it could reach, and what to ask about it.

A reading of English by words and their places, without a model: bounded, total, and advisory. It decides what is
worth a question, never what may run; whatever the agent then does is judged call by call as ever.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

from assentry.core import task_text as prose
from assentry.core.money_text import CODES
from assentry.core.names import PLAIN_VERBS, Family, singular, split_name
from assentry.core.run import NO_SCOPE, Scope

MOST_QUESTIONS = 3
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
    text = prose.plain_task(task)
    words = prose.words_of(text)
    if not words:
        return Appraisal(True, "unbounded", ("the task is empty",), (Missing("which", "What should be done?"),))
    if tools and all(_only_reads(tool) for tool in tools):
        return Appraisal(False, "reads", ("every tool it was given only reads",), ())
    deeds = tuple(islice(prose.deeds_in(words), prose.MOST_DEEDS))
    acting = [deed for deed in deeds if deed.kind is not prose.Kind.READ]
    gaps = _general_gaps(text.lower(), deeds)
    for deed in acting:
        gaps += _gaps(deed, within, tools)
    gaps += _unnamed(deeds, words, within)
    reach, reasons = _reach(deeds, words, within)
    if len(task) > prose.LONGEST_TASK or len(deeds) == prose.MOST_DEEDS:
        reach = max(reach, "wide", key=REACHES.index)
        reasons.append("the task is so long that only its beginning was read")
    kept = _most_useful(gaps)
    told = dict.fromkeys([*(gap.reason for gap in kept), *reasons] or ["it says what to do and to what"])
    return Appraisal(bool(kept), reach, tuple(told), tuple(gap.missing for gap in kept))


def _most_useful(gaps: list[_Gap]) -> list[_Gap]:
    """Each question once, the weightiest first; one about a contradiction settles what else `which` would ask."""
    contradicts = any(gap.rank == "conflict" for gap in gaps)
    kept = {gap.missing.question: gap for gap in gaps if not (contradicts and gap.rank == "which")}
    return sorted(kept.values(), key=lambda gap: prose.ORDER.index(gap.rank))[:MOST_QUESTIONS]


def _only_reads(tool: str) -> bool:
    name = split_name(tool)
    return name.family is Family.READ and name.verb in PLAIN_VERBS


def _general_gaps(text: str, deeds: Sequence[prose.Deed]) -> list[_Gap]:
    """What the task as a whole leaves open: wishes that contradict each other, and “the usual”."""
    gaps = []
    acting = any(deed.kind is not prose.Kind.READ for deed in deeds)
    little, total = prose.LITTLE.search(text), prose.TOTAL.search(text)
    if acting and little and total:
        one, other = little[0], total[0]
        question = f"The task says {prose.quote(one)} and also {prose.quote(other)}: which of the two is meant?"
        reason = f"{prose.quote(one)} and {prose.quote(other)} contradict each other"
        gaps.append(_Gap("conflict", Missing("which", question, (one, other)), reason))
    if (acting or not deeds) and (usual := prose.USUAL.search(text)):
        question = f"What exactly does {prose.quote(usual[0])} mean here?"
        gaps.append(_Gap("which", Missing("which", question), f"{prose.quote(usual[0])} is not spelled out"))
    return gaps


def _gaps(deed: prose.Deed, scope: Scope, tools: Sequence[str]) -> list[_Gap]:
    """What one deed leaves open and the scope does not answer."""
    if deed.kind is not prose.Kind.SEND and (lost := _no_target(deed)):
        return [lost, *_no_environment(deed, scope, tools)]
    match deed.kind:
        case prose.Kind.REMOVE | prose.Kind.CHANGE:
            return _vague(deed, scope)
        case prose.Kind.PAY:
            return [*_no_amount(deed, scope), *_vague(deed, scope)]
        case prose.Kind.SEND:
            return [*_no_recipient(deed, scope), *_everyone(deed, scope)]
        case prose.Kind.DEPLOY:
            return [*_no_environment(deed, scope, tools), *_vague(deed, scope)]
        case _:
            return []


_WANTS_A_TARGET = prose.GRAVE | {prose.Kind.CHANGE}


def _no_target(deed: prose.Deed) -> _Gap | None:
    pointing = not deed.borrowed and deed.head in prose.PRONOUNS and len(deed.direct) == 1
    gentle = deed.kind not in _WANTS_A_TARGET and not (deed.verb in ("fix", "improve", "refactor") and deed.object)
    if gentle or (deed.object and not pointing) or (deed.kind is prose.Kind.PAY and not pointing):
        return None
    if not deed.object and deed.kind is prose.Kind.CHANGE:
        return None
    reason = f"{deed.quoted()} does not say what it is about"
    return _Gap("target", Missing("which", f"{deed.quoted()}: what exactly is meant?"), reason)


def _unnamed(deeds: Sequence[prose.Deed], words: list[prose.Word], scope: Scope) -> list[_Gap]:
    """`Drop the table`, where nothing else is said that could tell which."""
    if len(deeds) != 1 or deeds[0].kind is not prose.Kind.REMOVE or any(word.specific for word in words):
        return []
    deed = deeds[0]
    spoken = [word.low for word in words if word.low not in prose.FILLER and word.low not in prose.DETERMINERS]
    bare = len(deed.object) == 2 and deed.object[0].low in ("the", "a", "an", "my", "our", "this", "these", "those")
    if not bare or singular(deed.head) not in prose.UNNAMED or len(spoken) > 2:
        return []
    if _bound(deed, scope) is not None or _within_paths(deed, scope):
        return []
    question = f"{deed.quoted()}: which {deed.head} exactly?"
    return [_Gap("target", Missing("which", question), f"{deed.quoted()} does not say which")]


def _no_amount(deed: prose.Deed, scope: Scope) -> list[_Gap]:
    money = any(name.upper() in CODES or name.lower() in prose.MONEY_WORDS for name in scope.limits)
    strict = deed.verb in ("transfer", "wire", "withdraw", "donate")
    for spot, word in enumerate(deed.object):
        after_id = spot and deed.object[spot - 1].low in prose.ID_NOUNS
        number = word.low in prose.COUNTED or any(char.isdigit() for char in word.low)
        if number and not (strict and (after_id or word.low[0].isalpha())):
            return []
    if money or not prose.WHOLE_AMOUNT.isdisjoint(deed.lows):
        return []
    asks = "how much may be spent at most" if deed.verb in ("buy", "purchase", "order") else "what amount is meant"
    reason = f"{deed.quoted()} names no amount"
    return [_Gap("amount", Missing("amount", f"{deed.quoted()}: {asks}?"), reason)]


def _no_recipient(deed: prose.Deed, scope: Scope) -> list[_Gap]:
    if deed.verb in prose.NEEDS_NOBODY or scope.recipients or _has_recipient(deed):
        return []
    reason = f"{deed.quoted()} does not say {'where to' if deed.verb in prose.NEEDS_A_PLACE else 'to whom'}"
    if deed.verb in prose.NEEDS_A_PLACE:
        return [_Gap("who", Missing("where", f"{deed.quoted()}: where exactly should it go?"), reason)]
    return [_Gap("who", Missing("who", f"{deed.quoted()}: who exactly should receive it?"), reason)]


def _has_recipient(deed: prose.Deed) -> bool:
    objects = deed.object
    if deed.verb in prose.TAKES_A_PERSON:
        vague = objects[:1] and objects[0].low in prose.VAGUE_PEOPLE and not deed.borrowed
        return bool(objects) and not vague and deed.lows.isdisjoint(prose.SUITABLE)
    for spot, word in enumerate(objects):
        behind = objects[spot + 1].low if spot + 1 < len(objects) else ""
        if "@" in word.low or word.low[:1] == "#" or word.low in ("me", "us", "myself"):
            return True
        if word.low in ("to", "with", "among") and behind and behind not in prose.VAGUE_PEOPLE:
            return True
        if deed.verb in prose.NEEDS_A_PLACE and word.low in ("on", "in", "at", "into", "to"):
            return bool(behind)
    if objects and objects[0].specific and objects[0].text[:1].isupper() and not prose.is_specific(objects[0].text):
        return True
    direct = deed.direct
    for spot, word in enumerate(direct):
        behind = direct[spot + 1].low if spot + 1 < len(direct) else ""
        follows = not behind or behind in prose.DETERMINERS or behind in prose.JOINS or behind[0].isdigit()
        if word.low in prose.PEOPLE - prose.VAGUE_PEOPLE and follows:
            return True
    return False


def _everyone(deed: prose.Deed, scope: Scope) -> list[_Gap]:
    """A message to all of a kind, with nothing that says which or how many."""
    people = [word.low for word in deed.object if word.low in prose.PEOPLE or word.low in ("users", "customers")]
    universal = _crowd(deed)
    if not universal or not people or deed.is_narrowed or scope.recipients or _bound(deed, scope) is not None:
        return []
    question = f"{deed.quoted()}: who is that, and how many people at most?"
    choices = ("at most 10", "at most 100", "everyone")
    return [_Gap("how many", Missing("how many", question, choices), f"{deed.quoted()} could reach anybody")]


def _crowd(deed: prose.Deed) -> bool:
    lows = [word.low for word in deed.object]
    for before, low, behind in zip(["", *lows], lows, [*lows[1:], ""], strict=False):
        if low in prose.UNIVERSAL and (
            low.startswith("every") or behind in prose.PEOPLE or behind in ("the", "our", "my")
        ):
            return True
        if low in prose.PEOPLE and low.endswith("s") and before in ("", "to"):
            return True
    return False


def _no_environment(deed: prose.Deed, scope: Scope, tools: Sequence[str]) -> list[_Gap]:
    if deed.kind is not prose.Kind.DEPLOY:
        return []
    told = any(low in prose.ENVIRONMENTS for part in deed.sentence.split() for low in re.split(r"[-_./]", part))
    places = _environments((*scope.actions, *tools))
    if told or len(places) == 1 or any(_is_host(word) for word in deed.object):
        return []
    choices = places or ("production", "staging", "development")
    reason = f"{deed.quoted()} does not name an environment"
    return [_Gap("where", Missing("where", f"{deed.quoted()}: in which environment?", choices), reason)]


def _is_host(word: prose.Word) -> bool:
    """It could be one machine or one place: not a version, a number or a name."""
    return prose.is_specific(word.text) and not word.low[:1].isdigit() and not re.match(r"v?\d", word.low)


def _environments(names: Sequence[str]) -> tuple[str, ...]:
    found = (prose.ENVIRONMENTS.get(token) for name in names for token in split_name(name).tokens)
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _bound(deed: prose.Deed, scope: Scope) -> Decimal | None:
    """The most of what the deed acts on that the scope allows."""
    nouns = {singular(low) for low in deed.lows}
    limits = {name: most for name, most in scope.limits.items() if most.is_finite()}
    for name, most in limits.items():
        if singular(name.lower()) in nouns or (name.lower() in ("items", "things") and nouns):
            return most
    everything = not deed.lows.isdisjoint(("everything", "anything", "stuff", "up")) or not deed.object
    counts = [most for name, most in limits.items() if name.upper() not in CODES and name != "steps"]
    return min(counts, default=None) if everything else None


def _vague(deed: prose.Deed, scope: Scope) -> list[_Gap]:
    """Words in the object that mean something else to everybody, and objects without an end."""
    if deed.is_named or _bound(deed, scope) is not None:
        return []
    direct = [word.low for word in deed.direct]
    whole = deed.quoted()
    gaps: list[_Gap] = []
    if deed.is_many and singular(deed.head) not in prose.PLAIN_TO_SEE:
        gaps += _adjectives(deed, direct, whole)
    some = [low for low in direct if low in prose.SOME]
    if not gaps and (unneeded := prose.UNNEEDED.search(deed.said.lower())):
        question = f"{whole}: how can it be told what is {prose.quote(unneeded[0])}?"
        gaps.append(_Gap("which", Missing("which", question), f"{prose.quote(unneeded[0])} is a matter of opinion"))
    if not gaps and some and deed.lows.isdisjoint(prose.COUNTED):
        question = f"{whole}: which ones exactly are meant by {prose.quote(some[0])}?"
        gaps.append(_Gap("which", Missing("which", question), f"{prose.quote(some[0])} does not say which"))
    if deed.kind is prose.Kind.CHANGE or deed.kind is prose.Kind.DEPLOY:
        return gaps
    if not gaps and not deed.is_narrowed and not _within_paths(deed, scope):
        gaps += _without_end(deed, direct, whole)
    if not gaps and deed.verb in ("clean", "cleanup", "tidy") and not deed.is_many:
        question = f"{whole}: what exactly may be removed or changed?"
        gaps.append(_Gap("which", Missing("which", question), f"{whole} does not say what may go"))
    if gaps and deed.kind is prose.Kind.REMOVE and _on_files(deed) and not deed.is_narrowed and not scope.paths:
        question = f"{whole}: in which directory?"
        gaps.append(_Gap("where", Missing("where", question), f"{whole} names no directory"))
    return gaps


def _on_files(deed: prose.Deed) -> bool:
    return any(singular(low) in prose.FILES for low in deed.lows)


def _within_paths(deed: prose.Deed, scope: Scope) -> bool:
    return bool(scope.paths) and (_on_files(deed) or "everything" in deed.lows)


def _adjectives(deed: prose.Deed, direct: list[str], whole: str) -> list[_Gap]:
    gaps = []
    for low in direct:
        word = prose.quote(low)
        if low in prose.AGES and not prose.TIMED.search(deed.sentence):
            side = "newer" if low == "recent" else "older"
            unit = ("a day", "a week", "a month") if low == "recent" else ("30 days", "90 days", "a year")
            choices = tuple(f"{side} than {each}" for each in unit)
            question = f"{whole}: from which date or age on does something count as {word}?"
            gaps.append(_Gap("how old", Missing("how old", question, choices), f"{word} has no date or age"))
        elif low in prose.SIZES and not prose.SIZED.search(deed.sentence):
            question = f"{whole}: from which size on does something count as {word}?"
            gaps.append(_Gap("how big", Missing("how big", question), f"{word} has no measure"))
        elif low.startswith(("duplicate", "dupe")):
            question = f"{whole}: what makes two of them {word}, and which one stays?"
            gaps.append(_Gap("which", Missing("which", question), f"{word} can be told in more than one way"))
        elif low in prose.NEEDS:
            question = f"{whole}: how can it be told what is {word}?"
            gaps.append(_Gap("which", Missing("which", question), f"{word} is a matter of opinion"))
    return gaps


def _without_end(deed: prose.Deed, direct: list[str], whole: str) -> list[_Gap]:
    """Everything of a kind, or a bare plural, with nothing that narrows it."""
    universal = [low for low in direct if low in prose.UNIVERSAL]
    if universal and deed.verb not in ("cleanup", "clean", "tidy"):
        question = f"{whole}: how many is that at most, and must any of them stay?"
        choices = ("at most 10", "at most 100", "no limit")
        return [_Gap("how many", Missing("how many", question, choices), f"{whole} has no limit")]
    if deed.kind is prose.Kind.REMOVE and deed.is_many and prose.DETERMINERS.isdisjoint(direct[:1]):
        question = f"{whole}: which ones exactly?"
        return [_Gap("which", Missing("which", question), f"{whole} does not say which")]
    return []


def _reach(deeds: Sequence[prose.Deed], words: list[prose.Word], scope: Scope) -> tuple[str, list[str]]:
    """How far the farthest deed could reach, and why."""
    if not deeds:
        if words[0].low in prose.ASKING:
            return "reads", ["it asks a question and changes nothing"]
        return "wide", ["it names no action that is known, so how far it reaches is not known"]
    reach, reasons = "reads", []
    for deed in deeds:
        far, why = _reach_of(deed, scope)
        if why:
            reasons.append(why)
        reach = max(reach, far, key=REACHES.index)
    return reach, (reasons[:5] if reach != "reads" else ["it only reads"])


def _reach_of(deed: prose.Deed, scope: Scope) -> tuple[str, str]:
    many = (deed.is_many or not deed.lows.isdisjoint(prose.UNIVERSAL)) and not deed.is_named
    whole = deed.quoted()
    match deed.kind:
        case prose.Kind.READ:
            return "reads", ""
        case prose.Kind.MAKE:
            return "small", ""
        case prose.Kind.CHANGE:
            return ("wide", f"{whole} touches more than one thing") if many else ("small", "")
        case prose.Kind.DEPLOY:
            told = {prose.ENVIRONMENTS[low] for low in deed.sentence.split() if low in prose.ENVIRONMENTS}
            safe = "production" not in (told or set(_environments(scope.actions)) or {"production"})
            return ("small", "") if safe else ("wide", f"{whole} may touch what people rely on")
        case prose.Kind.PAY:
            open_ended = bool(_no_amount(deed, scope))
            return ("unbounded", f"{whole} has no limit on the money") if open_ended else ("small", "")
        case prose.Kind.SEND:
            if _everyone(deed, scope) or _no_recipient(deed, scope):
                return "unbounded", f"{whole} does not limit who receives it"
            crowd = _crowd(deed) or not deed.lows.isdisjoint(prose.GROUPS)
            return ("wide", f"{whole} reaches more than one person") if crowd else ("small", "")
        case prose.Kind.REMOVE:
            return _reach_of_removal(deed, scope, many)


def _reach_of_removal(deed: prose.Deed, scope: Scope, many: bool) -> tuple[str, str]:
    whole = deed.quoted()
    if (most := _bound(deed, scope)) is not None and (many or not deed.object):
        return ("small" if most <= 10 else "wide"), f"the run may touch {most:f} at most in {whole}"
    if many and (deed.is_narrowed or _within_paths(deed, scope)):
        return "wide", f"{whole} takes many things within a named limit"
    if not deed.object or _no_target(deed) is not None or _vague(deed, scope):
        return "unbounded", f"{whole} destroys, and nothing limits how much"
    return ("wide", f"{whole} takes more than one thing") if many else ("small", "")
