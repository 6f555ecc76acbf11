"""Rounds of drafts: what was sent back with which words, and how each draft differs from the one before.

Texts are compared as they are stored and shown inert. That a request revises another is the agent's claim; what
became of the other is not.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from assentry.core.action import Json
from assentry.core.canonical import restore
from assentry.core.decision import Candidate
from assentry.core.request import Request, State
from assentry.core.text import ago, counted
from assentry.engine.chronicle import Drafts
from assentry.telling.plain import as_json
from assentry.telling.run_words import cut, decided_words
from assentry.telling.told import Part, Told, Tone, told

_MOST_LINES, _MOST_CHARACTERS = 2_000, 100_000
_FOLDED_LINES, _FOLDED_ITEMS = 30, 10
_CONTEXT_WORDS = 8
_LONG_LINE, _LONGEST_LINE = 200, 1_000
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


def rounds(request: Request, drafts: Drafts, now: datetime, how: str, *, whole: bool, history: bool) -> list[Part]:
    """The section of a draft: what it revises, what was said of that, what is different now, and `how` to see more."""
    if not request.ask.draft_of:
        return []
    number = len(drafts.before) + 1
    if not drafts.before:
        text = f"revises {drafts.missing[:60]}, which is not on record" if drafts.missing else "says it revises itself"
        return [Part("Draft", (told(f"The agent says that this {text}.", Tone.WARN),))]
    last = drafts.before[-1]
    title = f"Draft {number}{' or later' if drafts.cut else ''}, revises {last.code}"
    lines = [*_said(last, request, now, whole=whole)]
    if history:
        return [Part(title, tuple(lines)), *_history(request, drafts, now, whole=whole)]
    lines += between(last.candidate, request.ask.candidate, whole=whole)
    if earlier := drafts.before[:-1]:
        lines += [_round(each, place, now, whole=whole) for place, each in enumerate(earlier, 1)]
        lines.append(told(how, Tone.SOFT))
    return [Part(title, tuple(lines))]


def _said(last: Request, request: Request, now: datetime, *, whole: bool) -> Iterator[Told]:
    """What became of the draft before; the truth where the agent's claim and the record differ."""
    if last.state is State.REVISED:
        when = f" {ago(now - last.decided_at)}" if last.decided_at is not None else ""
        yield Told(
            ((f"sent back by {last.decided_by}{when} with: ", Tone.PLAIN), (f"“{_words(last, whole)}”", Tone.STRONG))
        )
    else:
        yield told(f"! {last.code} was not sent back: it is {last.state}", Tone.WARN)
    if last.ask.agent != request.ask.agent:
        yield told(f"! {last.code} was asked by another agent, {last.ask.agent}", Tone.WARN)
    if last.candidate.action.name != request.ask.candidate.action.name:
        yield told(f"! {last.code} was for another action, {last.candidate.action.name}", Tone.WARN)


def _words(request: Request, whole: bool) -> str:
    notes = [vote.note for vote in request.votes if vote.word == "revise"]
    return cut(notes[-1] if notes else request.reason, whole, 1_000)


def _round(request: Request, number: int, now: datetime, *, whole: bool) -> Told:
    text, tone = decided_words(request, now)
    return Told(((f"{request.code}  ", Tone.STRONG), (cut(text, whole), tone)), f"draft {number}", margin=10)


def _history(request: Request, drafts: Drafts, now: datetime, *, whole: bool) -> Iterator[Part]:
    """Every round, oldest first."""
    chain = (*drafts.before, request)
    if drafts.cut:
        yield Part("Earlier drafts", (told("there are more rounds than are shown here", Tone.SOFT),))
    for number, each in enumerate(chain, 1):
        text, tone = decided_words(each, now)
        lines = [Told(((cut(each.candidate.says, whole), Tone.STRONG),))]
        lines.append(told(cut(text, whole, 1_000), tone))
        if number > 1:
            lines += between(chain[number - 2].candidate, each.ask.candidate, whole=whole)
        yield Part(f"Round {number}: {each.code}", tuple(lines))


def between(before: Candidate, after: Candidate, *, whole: bool) -> list[Told]:
    """What is different in the arguments, by name: texts by line and word, lists by item."""
    if not before.args_text or not after.args_text:
        return [told("the arguments can no longer be compared: they were purged", Tone.SOFT)]
    old, new = restore(before.args_text), restore(after.args_text)
    lines: list[Told] = []
    for name in dict.fromkeys((*old, *new)):
        if name not in old or name not in new or old[name] != new[name]:
            lines += _argument(name, old, new, whole=whole)
    return lines or [told("nothing in the arguments is different from the draft before", Tone.WARN)]


def _argument(name: str, old: Mapping[str, Json], new: Mapping[str, Json], *, whole: bool) -> Iterator[Told]:
    yield told(cut(name, False, 80), Tone.SOFT)
    was, now = old.get(name), new.get(name)
    if isinstance(was, str) and isinstance(now, str):
        found = list(_text(was, now))
    elif isinstance(was, list) and isinstance(now, list):
        found = list(_items(was, now))
    else:
        found = [_line("-", ((_plain(old, name), Tone.GONE),)), _line("+", ((_plain(new, name), Tone.ADDED),))]
    yield from found if whole else map(_capped, found[:_FOLDED_LINES])
    if not whole and len(found) > _FOLDED_LINES:
        yield told(f"… {counted(len(found) - _FOLDED_LINES, 'more line')}: --full", Tone.SOFT, depth=2)


def _capped(line: Told) -> Told:
    """The line without what is too long for one look."""
    left, kept = _LONGEST_LINE, []
    for text, tone in line.pieces:
        kept.append((cut(text, False, max(0, left)), tone))
        left -= len(text)
        if left < 0:
            break
    return Told(tuple(kept), line.lead, line.lead_tone, depth=line.depth)


def _plain(args: Mapping[str, Json], name: str) -> str:
    if name not in args:
        return "(not given)"
    value = args[name]
    return cut(value if isinstance(value, str) else as_json(value), False, 600)


def _items(was: list[Json], now: list[Json]) -> Iterator[Told]:
    """What went and what came; the same things in another order or number are said to be that."""
    old, new = [as_json(item) for item in was], [as_json(item) for item in now]
    gone, came = set(old) - set(new), set(new) - set(old)
    for sign, tone, items, left in (("-", Tone.GONE, was, gone), ("+", Tone.ADDED, now, came)):
        shown = [item for item in items if as_json(item) in left]
        for item in shown[:_FOLDED_ITEMS]:
            yield _line(sign, ((cut(item if isinstance(item, str) else as_json(item), False), tone),))
        if len(shown) > _FOLDED_ITEMS:
            yield _line(sign, ((f"… {len(shown) - _FOLDED_ITEMS:,} more", tone),))
    if not gone and not came:
        yield told(f"the same items in another order or number: {len(was):,} before, {len(now):,} now", depth=2)


def _text(was: str, now: str) -> Iterator[Told]:
    """Lines that went and came, with the words that are different standing out; long unchanged stretches left out."""
    if unicodedata.normalize("NFC", was).split() == unicodedata.normalize("NFC", now).split():
        yield told("it reads the same: only spaces or the way letters are written differ", Tone.WARN, depth=2)
    old, new = was.split("\n"), now.split("\n")
    if max(len(old), len(new)) > _MOST_LINES or max(len(was), len(now)) > _MOST_CHARACTERS:
        yield told(f"too long to compare: {len(was):,} characters before, {len(now):,} now", Tone.WARN, depth=2)
        return
    for verb, a, b, c, d in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if verb == "equal":
            yield from _kept(old[a:b], first=a == 0, last=b == len(old))
        elif verb == "replace" and b - a == d - c:
            for one, other in zip(old[a:b], new[c:d], strict=True):
                gone, came = _worded(one, other)
                yield _line("-", gone)
                yield _line("+", came)
        else:
            yield from (_line("-", ((line, Tone.GONE),)) for line in old[a:b])
            yield from (_line("+", ((line, Tone.ADDED),)) for line in new[c:d])


def _kept(lines: Sequence[str], *, first: bool, last: bool) -> Iterator[Told]:
    """One line of context beside each change."""
    beside = [*([] if first else lines[:1]), *([] if last else lines[-1:])] if len(lines) > 2 else lines
    for line in filter(str.strip, beside):
        yield _line(" ", ((cut(line, False, 160), Tone.SOFT),))


def _worded(was: str, now: str) -> tuple[tuple[tuple[str, Tone], ...], tuple[tuple[str, Tone], ...]]:
    """Two lines with the words in which they differ marked."""
    old, new = _WORDS.findall(was), _WORDS.findall(now)
    if max(len(old), len(new)) > 4_000:
        return ((cut(was, False, 1_000), Tone.GONE),), ((cut(now, False, 1_000), Tone.ADDED),)
    matched = difflib.SequenceMatcher(None, old, new)
    if matched.ratio() < 0.4:
        return ((was, Tone.GONE),), ((now, Tone.ADDED),)
    gone: list[tuple[str, Tone]] = []
    came: list[tuple[str, Tone]] = []
    codes = matched.get_opcodes()
    for place, (verb, a, b, c, d) in enumerate(codes):
        if verb == "equal":
            kept = _elided(old[a:b], len(was), first=place == 0, last=place == len(codes) - 1)
            gone.append((kept, Tone.GONE))
            came.append((kept, Tone.ADDED))
        else:
            gone.append(("".join(old[a:b]), Tone.GONE_WORD))
            came.append(("".join(new[c:d]), Tone.ADDED_WORD))
    return tuple(piece for piece in gone if piece[0]), tuple(piece for piece in came if piece[0])


def _elided(words: Sequence[str], length: int, *, first: bool, last: bool) -> str:
    """Unchanged words; of a long stretch in a long line only those beside a change."""
    near = 2 * _CONTEXT_WORDS
    if length <= _LONG_LINE or len(words) <= 2 * near:
        return "".join(words)
    return f"{'' if first else ''.join(words[:near])} … {'' if last else ''.join(words[-near:])}"


def _line(sign: str, pieces: tuple[tuple[str, Tone], ...]) -> Told:
    tone = {"-": Tone.GONE, "+": Tone.ADDED}.get(sign, Tone.SOFT)
    return Told(pieces, f"{sign} ", tone, depth=2)


def chain_document(request: Request, drafts: Drafts) -> list[dict[str, Json]]:
    """Every round for scripts, oldest first; empty where there is but one."""
    if not request.ask.draft_of:
        return []
    return [
        {
            "number": number, "id": each.id, "code": each.code, "state": str(each.state), "agent": each.ask.agent,
            "action": each.ask.candidate.action.name, "asked_at": each.ask.created_at,
            "args": restore(each.candidate.args_text) if each.candidate.args_text else None,
            "decided_by": each.decided_by, "decided_at": each.decided_at, "word": each.word,
            "instructions": _words(each, True) if each.state is State.REVISED else "",
        }
        for number, each in enumerate((*drafts.before, request), 1)
    ]  # fmt: skip
