"""Argument values for people: as fields and lists with counts, never as raw JSON; long ones folded, saying so."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from assentry.cli.print import grid, inert
from assentry.core.action import Json
from assentry.core.briefing import Difference
from assentry.core.text import counted
from assentry.telling.plain import as_json

LONGEST_TEXT = 600
MOST_LINES = 12
MOST_ITEMS = 10
_DEEPEST = 4
_LOOKS_LIKE_ANOTHER_TYPE = re.compile(r"\s.*|.*\s|true|false|null|nothing|-?\d[\d.eE+-]*|\".*|\(.*", re.DOTALL)


@dataclass(slots=True)
class Folding:
    """Whether long values are folded, how the rest can be seen, and whether anything was folded."""

    whole: bool
    see: str = "--full"
    folded: bool = False

    def note(self, number: int, what: str) -> Text:
        self.folded = True
        return Text(f"… {counted(number, what)} more: {self.see}", style="italic dim")


def fields(values: Mapping[str, Json], folding: Folding) -> RenderableType:
    """Every value beside its name."""
    if not values:
        return Text("(no arguments)", style="dim")
    return grid((inert(name, "bold"), shown(value, folding)) for name, value in values.items())


def shown(value: Json, folding: Folding, depth: int = 0) -> RenderableType:
    """One value as it would be told to a person."""
    match value:
        case None:
            return Text("nothing", style="dim")
        case bool():
            return Text("true" if value else "false")
        case str():
            return _text(value, folding)
        case Mapping() if depth < _DEEPEST:
            return _mapping(value, folding, depth)
        case list() | tuple() if depth < _DEEPEST:
            return _items(list(value), folding, depth)
        case Mapping() | list() | tuple():
            return _deep(value, folding)
        case _:
            return inert(value)


def differences(found: tuple[Difference, ...], folding: Folding) -> RenderableType:
    """What was asked and what it is now, side by side by name."""
    rows: list[tuple[RenderableType, ...]] = []
    for each in found:
        name = inert(each.name, "bold")
        if isinstance(each.before, list) and isinstance(each.after, list):
            rows.append((name, _list_difference(each.before, each.after, folding)))
        else:
            rows.append((name, grid([
                (Text("was", style="dim"), shown(each.before, folding)),
                (Text("now", style="bold"), shown(each.after, folding)),
            ])))  # fmt: skip
    return grid(rows)


def _list_difference(before: list[Json], after: list[Json], folding: Folding) -> RenderableType:
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    rows: list[tuple[RenderableType, ...]] = [(Text("was"), Text(counted(len(before), "item")))]
    rows.append((Text("now", style="bold"), Text(counted(len(after), "item"))))
    if gone:
        rows.append((Text("gone", style="red"), _items(gone, folding, 1)))
    if new:
        rows.append((Text("new", style="green"), _items(new, folding, 1)))
    if not gone and not new:
        rows.append((Text(""), Text("the same items in another order or number", style="dim")))
    return grid(rows)


def _text(value: str, folding: Folding) -> RenderableType:
    if not value:
        return Text("(empty text)", style="dim")
    if _LOOKS_LIKE_ANOTHER_TYPE.fullmatch(value) and "\n" not in value:
        return inert(f'"{value}"')
    lines = value.split("\n")
    kept = value if folding.whole else "\n".join(lines[:MOST_LINES])[:LONGEST_TEXT]
    body = inert(kept, lines=True)
    if len(kept) == len(value):
        return body
    return Group(body, folding.note(len(value) - len(kept), "character"))


def _mapping(value: Mapping[str, Json], folding: Folding, depth: int) -> RenderableType:
    if not value:
        return Text("(empty)", style="dim")
    names = list(value)
    kept = names if folding.whole else names[: MOST_ITEMS * 2]
    rows: list[tuple[RenderableType, ...]] = [
        (inert(name, "bold"), shown(value[name], folding, depth + 1)) for name in kept
    ]
    table = grid(rows)
    rest = len(names) - len(kept)
    return Group(table, folding.note(rest, "field")) if rest else table


def _items(items: list[Json], folding: Folding, depth: int) -> RenderableType:
    if not items:
        return Text("(empty list)", style="dim")
    kept = items if folding.whole else items[:MOST_ITEMS]
    rows = [(Text(f"{number}", style="dim"), shown(item, folding, depth + 1)) for number, item in enumerate(kept, 1)]
    parts: list[RenderableType] = [Text(counted(len(items), "item")), grid(rows)]
    rest = len(items) - len(kept)
    return Group(*parts, folding.note(rest, "item")) if rest else Group(*parts)


def _deep(value: Json, folding: Folding) -> RenderableType:
    """Too deep for columns: written out, still inert."""
    return _text(as_json(value), folding)
