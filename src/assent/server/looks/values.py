"""Argument values for people: mail as a mail, SQL and commands as code, differences as such, lists with counts.

Every text was made inert here. What is long is folded, and a folded part has to be opened before it is approved.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assent.core.action import Json
from assent.core.text import visible
from assent.telling.plain import as_json

LONG_TEXT, LONG_LINES, LONG_LIST = 1_200, 24, 12
"""What is longer is folded."""
_DEEPEST = 5
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


def arguments(args: Mapping[str, Json], sources: Sources = NO_SOURCES) -> tuple[Look, ...]:
    """Every argument; those of a mail as one mail, first."""
    mail = _mail(args, sources)
    taken = {part.name for part in mail.parts} if mail is not None else set()
    rest = [_named(name, value, sources) for name, value in args.items() if visible(name, lines=False) not in taken]
    return (mail, *rest) if mail is not None else tuple(rest)


def any_folded(looks: Sequence[Look]) -> bool:
    """Something in it is not seen at once."""
    return any((look.folded and not look.opened) or any_folded(look.parts) for look in looks)


def opened(looks: Sequence[Look]) -> tuple[Look, ...]:
    """The same with nothing left to be opened."""
    return tuple(replace(look, opened=True, parts=opened(look.parts)) for look in looks)


def value_look(value: Json, name: str = "", sources: Sources = NO_SOURCES, depth: int = 0) -> Look:
    """One value."""
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
            return _fields(value, sources, depth)
        case list() | tuple() if depth < _DEEPEST:
            return _items(list(value), name, sources, depth)
        case Mapping() | list() | tuple():
            return _long("raw", visible(as_json(value)))
        case _:
            return Look("number", visible(str(value), lines=False))


def _named(name: str, value: Json, sources: Sources) -> Look:
    return _with(value_look(value, name, sources), visible(name, lines=False))


def _with(look: Look, name: str) -> Look:
    return replace(look, name=name)


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


def _fields(value: Mapping[str, Json], sources: Sources, depth: int) -> Look:
    parts = tuple(
        _with(value_look(item, name, sources, depth + 1), visible(name, lines=False)) for name, item in value.items()
    )
    folded = len(parts) > LONG_LIST * 2
    first = ", ".join(part.name for part in parts[:5]) if folded else ""
    return Look("fields", parts=parts, folded=folded, first=first, count=len(parts))


def _items(items: list[Json], name: str, sources: Sources, depth: int) -> Look:
    parts = tuple(value_look(item, name, sources, depth + 1) for item in items)
    folded = len(parts) > LONG_LIST
    first = ", ".join(part.text[:60] or part.form for part in parts[:3]) if folded else ""
    return Look("list", parts=parts, folded=folded, first=first, count=len(parts))


def _mail(args: Mapping[str, Json], sources: Sources) -> Look | None:
    """The arguments that make a mail, as one: to whom, about what, and the text."""
    by_name = {name.lower(): name for name in args}
    to = next((by_name[name] for name in _TO if name in by_name), None)
    subject = next((by_name[name] for name in _SUBJECT if name in by_name), None)
    body = next((by_name[name] for name in _BODY if name in by_name and name != subject), None)
    if to is None or subject is None or body is None or not isinstance(args[body], str):
        return None
    heads = [by_name[name] for name in ("from", "sender", "cc", "bcc", "reply_to", "attachments") if name in by_name]
    order = [to, *heads, subject, body]
    return Look("mail", parts=tuple(_named(name, args[name], sources) for name in dict.fromkeys(order)))


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
