"""Argument values for people: mail as a mail, SQL and commands as code, differences as such, lists with counts.

Every text was made inert here. What is long is folded, and a folded part has to be opened before it is approved.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from assentry.core.action import Json
from assentry.core.text import visible
from assentry.telling.plain import as_json

LONG_TEXT, LONG_LINES, LONG_LIST = 1_200, 24, 12
"""What is longer is folded."""
MOST_DRAWN, MOST_ON_A_CARD = 500, 3_000
"""How much of one list or object is drawn piece by piece, and of all of them together; the rest is one folded text."""
_DEEPEST = 5
_ALWAYS_DRAWN = 1
_SHOWN_FIRST = 160
_SQL_NAMES = frozenset("sql query statement statements".split())
_CODE_NAMES = frozenset("command cmd script code shell expression".split())
_TO, _SUBJECT, _BODY = ("to", "recipients", "recipient"), ("subject", "title"), ("body", "text", "message", "html")
_SQL = re.compile(
    r"\s*(select|insert|update|delete|with|create|alter|drop|truncate|grant|revoke|merge|begin|explain)\b",
    re.IGNORECASE,
)
_SQL_TOKENS = re.compile(
    r"(?P<remark>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?)|(?P<number>\b\d[\d.]*\b)"
    r"|(?P<word>\b(?:select|insert|into|update|delete|from|where|and|or|not|in|is|null|like|between|join|left|right|"
    r"inner|outer|full|cross|on|as|set|values|create|alter|drop|truncate|table|index|view|database|schema|column|add|"
    r"grant|revoke|to|with|union|all|distinct|group|order|by|having|limit|offset|returning|exists|case|when|then|else|"
    r"end|begin|commit|rollback|cascade|if|using|merge|explain)\b)",
    re.IGNORECASE | re.DOTALL,
)
_DIFF = re.compile(r"^(diff --git |--- [^\n]*\n\+\+\+ |@@ -\d)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Look:
    """How one value is drawn. `text` is inert; `parts` are what is inside it."""

    form: str
    """nothing, flag, number, text, code, diff, list, fields, mail, raw"""
    text: str = ""
    name: str = ""
    parts: tuple["Look", ...] = ()
    pieces: tuple[tuple[str, str], ...] = ()
    """Text with the class of each piece, for what is highlighted."""
    folded: bool = False
    first: str = ""
    """What stands for it while it is folded."""
    count: int = 0
    came_from: str = ""
    trusted: bool = False
    opened: bool = False
    """It is long, and shown whole from the start."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values may have come from: the person's own words, and what tools returned."""

    original: str = ""
    observed: Sequence[tuple[str, str, bool]] = ()
    _short: int = field(default=4)

    def of(self, text: str) -> tuple[str, bool]:
        """Where this stands word for word, and whether that is to be trusted."""
        if len(text) < self._short:
            return "", False
        if text in self.original:
            return "from your request", True
        for source, said, trusted in self.observed:
            if text in said:
                return f"from what {visible(source, lines=False)[:60]} returned", trusted
        return "", False


NO_SOURCES = Sources()


class _Room:
    """How many pieces may still be drawn on a card."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_ON_A_CARD

    def take(self, wanted: int) -> int:
        """As many of them as are drawn; the first few always are."""
        drawn = min(wanted, MOST_DRAWN, max(self.left, _ALWAYS_DRAWN))
        self.left -= drawn
        return drawn


def arguments(args: Mapping[str, Json], sources: Sources = NO_SOURCES) -> tuple[Look, ...]:
    """Every argument; those of a mail as one mail, first."""
    room = _Room()
    mail = _mail(args, sources, room)
    taken = {part.name for part in mail.parts} if mail is not None else set()
    rest = {name: value for name, value in args.items() if visible(name, lines=False) not in taken}
    looks = _named_looks(rest, sources, room, 0)
    return (mail, *looks) if mail is not None else looks


def any_folded(looks: Sequence[Look]) -> bool:
    """Something in it is not seen at once."""
    return any((look.folded and not look.opened) or any_folded(look.parts) for look in looks)


def opened(looks: Sequence[Look]) -> tuple[Look, ...]:
    """The same with nothing left to be opened."""
    return tuple(replace(look, opened=True, parts=opened(look.parts)) for look in looks)


def value_look(value: Json, name: str = "", sources: Sources = NO_SOURCES) -> Look:
    """One value."""
    return _look(value, name, sources, _Room(), 0)


def _look(value: Json, name: str, sources: Sources, room: _Room, depth: int) -> Look:
    match value:
        case None:
            return Look("nothing", "nothing")
        case bool():
            return Look("flag", "yes" if value else "no")
        case int():
            return Look("number", f"{value:,}" if abs(value) >= 10_000 else str(value))
        case float():
            return Look("number", repr(value))
        case str():
            return _text(value, name, sources)
        case Mapping() if depth < _DEEPEST:
            return _fields(value, sources, room, depth)
        case list() | tuple() if depth < _DEEPEST:
            return _items(list(value), name, sources, room, depth)
        case Mapping() | list() | tuple():
            return _long("raw", visible(as_json(value)))
        case _:
            return Look("number", visible(str(value), lines=False))


def _named(name: str, value: Json, sources: Sources, room: _Room, depth: int = 0) -> Look:
    return replace(_look(value, name, sources, room, depth), name=visible(name, lines=False))


def _named_looks(values: Mapping[str, Json], sources: Sources, room: _Room, depth: int) -> tuple[Look, ...]:
    drawn = room.take(len(values))
    looks = tuple(_named(name, item, sources, room, depth) for name, item in islice(values.items(), drawn))
    left = dict(islice(values.items(), drawn, None))
    return (*looks, replace(_rest(left), name=f"… and {len(left):,} more")) if left else looks


def _rest(left: Mapping[str, Json] | list[Json]) -> Look:
    """What is not drawn piece by piece: all of it as one text, which must be opened like everything that is folded."""
    shown = visible(as_json(left))
    first = f"{len(left):,} more that are not drawn one by one; here and under “As JSON” they stand as JSON"
    return Look("raw", shown, folded=True, first=first, count=len(shown))


def _text(value: str, name: str, sources: Sources) -> Look:
    if not value:
        return Look("nothing", "(empty text)")
    shown = visible(value)
    if _DIFF.search(value):
        return _long("diff", shown, tuple(_diff_lines(shown)))
    if name.lower() in _SQL_NAMES and _SQL.match(value):
        return _long("code", shown, tuple(_sql(shown)))
    if name.lower() in _CODE_NAMES:
        return _long("code", shown)
    came, trusted = sources.of(value)
    return replace(_long("text", shown), came_from=came, trusted=trusted)


def _long(form: str, shown: str, pieces: tuple[tuple[str, str], ...] = ()) -> Look:
    lines = shown.count("\n") + 1
    folded = len(shown) > LONG_TEXT or lines > LONG_LINES
    first = " ".join(shown[:_SHOWN_FIRST].split()) + "…" if folded else ""
    return Look(form, shown, pieces=pieces, folded=folded, first=first, count=len(shown))


def _fields(value: Mapping[str, Json], sources: Sources, room: _Room, depth: int) -> Look:
    parts = _named_looks(value, sources, room, depth + 1)
    folded = len(value) > LONG_LIST * 2
    first = ", ".join(part.name for part in parts[:5]) if folded else ""
    return Look("fields", parts=parts, folded=folded, first=first, count=len(value))


def _items(items: list[Json], name: str, sources: Sources, room: _Room, depth: int) -> Look:
    drawn = room.take(len(items))
    parts = tuple(_look(item, name, sources, room, depth + 1) for item in items[:drawn])
    folded = len(items) > LONG_LIST
    first = ", ".join(part.text[:60] or part.form for part in parts[:3]) if folded else ""
    if drawn < len(items):
        parts = (*parts, _rest(items[drawn:]))
    return Look("list", parts=parts, folded=folded, first=first, count=len(items))


def _mail(args: Mapping[str, Json], sources: Sources, room: _Room) -> Look | None:
    """The arguments that make a mail, as one: to whom, about what, and the text."""
    by_name = {name.lower(): name for name in args}
    to = next((by_name[name] for name in _TO if name in by_name), None)
    subject = next((by_name[name] for name in _SUBJECT if name in by_name), None)
    body = next((by_name[name] for name in _BODY if name in by_name and name != subject), None)
    if to is None or subject is None or body is None or not isinstance(args[body], str):
        return None
    heads = [by_name[name] for name in ("from", "sender", "cc", "bcc", "reply_to", "attachments") if name in by_name]
    order = [to, *heads, subject, body]
    return Look("mail", parts=tuple(_named(name, args[name], sources, room) for name in dict.fromkeys(order)))


def _sql(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for found in _SQL_TOKENS.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], ""
        yield found.group(), str(found.lastgroup)
        at = found.end()
    if at < len(text):
        yield text[at:], ""


def _diff_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines(keepends=True):
        head = line.startswith(("diff ", "index ", "--- ", "+++ ", "@@"))
        form = "head" if head else {"+": "added", "-": "gone"}.get(line[:1], "")
        yield line, form
