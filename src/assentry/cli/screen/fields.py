"""Argument values as people read them, from the stored bytes: whole where they are short, folded where they are not.

A folded value always shows its beginning and its end, says how much is between, and can be opened in full.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from assentry.cli.screen.lines import Piece, Row, cut, inert, line, wrapped
from assentry.cli.screen.look import PLAIN, Look
from assentry.core.action import Json
from assentry.core.canonical import canonical
from assentry.core.text import counted, visible

MOST_CHARACTERS, MOST_LINES, MOST_ITEMS = 1_000, 12, 12
_HEAD_CHARACTERS, _TAIL_CHARACTERS = 400, 160
_HEAD_ROWS, _TAIL_ROWS = 7, 3
_LONGEST_NAME, _MOST_NAMES = 120, 200
_NAME_CELLS = 18
_LOOKS_OTHERWISE = re.compile(r"|\s.*|.*\s|true|false|null|-?\d[\d.,eE+-]*|\"[^\n]*|[\[{][^\n]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fold:
    """What is not shown of one value: whose, and how much."""

    name: str
    hidden: str


def folds(args: Mapping[str, Json]) -> tuple[Fold, ...]:
    """Which of these values are too long to be shown whole at first sight."""
    found = []
    for name, value in _named(args):
        hidden = _hidden(value)
        if hidden:
            found.append(Fold(inert(name)[:40] or "arguments", hidden))
    return tuple(found)


def fields(args: Mapping[str, Json], width: int, look: Look, *, whole: bool, action: str = "") -> list[Row]:
    """Every value beside its name, after the `action` if one is given; without `whole`, long values are folded."""
    named = [(inert(name), value) for name, value in _named(args)]
    margin = min(_NAME_CELLS, width // 3, max([len("action"), *(cell_len(name) for name, _ in named)])) + 2
    rows: list[Row] = []
    if action:
        parts = wrapped(inert(action), width - margin)
        rows = [line(("action".ljust(margin), look.soft), (next(parts), look.strong))]
        rows += [line((" " * margin, PLAIN), (part, look.strong)) for part in parts]
    for name, value in named:
        values = _value(value, max(8, width - margin), look, whole=whole)
        if cell_len(name) > margin - 2:
            rows += [line((part, look.soft)) for part in wrapped(name, width)]
        else:
            rows.append(line((name, look.soft), (" " * (margin - cell_len(name)), PLAIN), *next(values)))
        rows += [line((" " * margin, PLAIN), *row) for row in values]
    return rows if args else [*rows, line(("no arguments", look.faint))]


def one_line(value: Json, limit: int = 200) -> str:
    """A value in a few words."""
    if isinstance(value, list):
        return f"{counted(len(value), 'item')}: " + inert(", ".join(_short(item) for item in value[:3]))[:limit]
    return inert(_short(value))[:limit]


def pretty(value: Json) -> str:
    """`value` as indented JSON of its canonical form; hostile characters as JSON escapes, so it can be edited too."""
    return safe_json(json.dumps(json.loads(canonical(value)), ensure_ascii=False, indent=2))


def safe_json(text: str) -> str:
    """JSON text in which every character that could hide or act is written as an escape."""
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in set(text) if visible(char) != char})


def _named(args: Mapping[str, Json]) -> list[tuple[str, Json]]:
    """The fields to show, those that fit first; too many or too long names become one value that folds."""
    if len(args) > _MOST_NAMES or any(len(name) > _LONGEST_NAME for name in args):
        return [("", dict(args))]
    return sorted(args.items(), key=lambda item: bool(_hidden(item[1])))


def _hidden(value: Json) -> str:
    """How much of a value a fold leaves out; nothing if it is shown whole."""
    if isinstance(value, str):
        if len(value) > MOST_CHARACTERS:
            return f"{len(value) - _HEAD_CHARACTERS - _TAIL_CHARACTERS:,} of {len(value):,} characters"
        lines = value.count("\n") + 1
        return f"{lines - _HEAD_ROWS - _TAIL_ROWS:,} of {lines:,} lines" if lines > MOST_LINES else ""
    if _is_simple_list(value):
        if len(value) > MOST_ITEMS:
            return f"{len(value) - _HEAD_ROWS - _TAIL_ROWS:,} of {len(value):,} items"
        return "parts of its items" if any(isinstance(item, str) and _hidden(item) for item in value) else ""
    return _hidden(pretty(value)) if isinstance(value, Mapping | list) else ""


def _value(value: Json, width: int, look: Look, *, whole: bool) -> Iterator[list[Piece]]:
    """The lines of one value; always at least one."""
    folded = not whole and bool(_hidden(value))
    if isinstance(value, str):
        yield from _text(value, width, look, look.ink, folded=folded)
    elif _is_simple_list(value):
        yield from _items(value, width, look, folded=folded)
    elif isinstance(value, Mapping | list):
        yield from _text(pretty(value), width, look, look.ink, folded=folded)
    else:
        yield from ([(row, look.accent)] for row in wrapped(inert(_short(value)), width))


def _text(value: str, width: int, look: Look, style: Style, *, folded: bool) -> Iterator[list[Piece]]:
    if folded:
        rows = value.split("\n") if len(value) <= MOST_CHARACTERS else []
        head = "\n".join(rows[:_HEAD_ROWS]) if rows else value[:_HEAD_CHARACTERS]
        tail = "\n".join(rows[-_TAIL_ROWS:]) if rows else value[-_TAIL_CHARACTERS:]
        yield from ([(row, style)] for row in wrapped(inert(head, lines=True), width))
        yield _folded(_hidden(value), width, look)
        yield from ([(row, style)] for row in wrapped(inert(tail, lines=True), width))
        return
    if _LOOKS_OTHERWISE.fullmatch(value) and "\n" not in value:
        value = f"“{value}”"
    yield from ([(row, style)] for row in wrapped(inert(value, lines=True), width))


def _items(value: list[Json], width: int, look: Look, *, folded: bool) -> Iterator[list[Piece]]:
    yield [(counted(len(value), "item"), look.strong)]
    long = folded and len(value) > MOST_ITEMS
    digits = len(str(len(value)))
    for number, item in enumerate(value, 1):
        if long and _HEAD_ROWS < number <= len(value) - _TAIL_ROWS:
            if number == _HEAD_ROWS + 1:
                yield _folded(_hidden(value), width, look)
            continue
        parts = _value(item, max(8, width - digits - 1), look, whole=not folded)
        for row, part in enumerate(parts):
            yield [((f"{number:>{digits}} " if row == 0 else " " * (digits + 1)), look.faint), *part]


def _folded(hidden: str, width: int, look: Look) -> list[Piece]:
    told = f"┄┄ {hidden} folded "
    if len(told) + 12 > width:
        return [(cut(f"┄ {hidden}, e opens", width), look.risky)]
    return [(told, look.risky), (" e ", look.key), (" opens ┄┄", look.risky)]


def _is_simple_list(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and not any(isinstance(item, Mapping | list) for item in value)


def _short(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else pretty(value) if isinstance(value, Mapping | list) else str(value)
