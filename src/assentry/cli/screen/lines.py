"""Lines for a terminal out of inert text: wrapped by cells, cut, padded, boxed. Nothing is read as markup."""

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from assentry.core.text import visible

Piece = tuple[str, Style]
Row = list[Segment]
"""One line, light enough for tens of thousands; it becomes a strip only where it is in sight."""

_CONSOLE = Console(file=io.StringIO(), width=200, color_system=None, legacy_windows=False)
_PROSE = 4_000
"""Longer lines are cut at the edge instead of between words: quick for any size, and nothing is lost."""

BLANK: Row = []
DASH = "\u2013"


def inert(text: object, *, lines: bool = False) -> str:
    """`text` with everything hidden spelled out, and tabs as spaces, so that it takes the room it seems to take."""
    return visible(str(text), lines=lines).expandtabs(4)


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, saying so if something is missing."""
    if len(text) <= width and cell_len(text) <= width:
        return text
    head = text[: max(0, width) + 1]
    return set_cell_size(head, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def line(*pieces: Piece) -> Row:
    """One line."""
    return [Segment(text, style) for text, style in pieces if text]


def fitted(row: Row, width: int) -> Row:
    """The line cut or padded to exactly `width` cells."""
    return Segment.adjust_line_length(row, width)


def spread(left: Sequence[Piece], right: Sequence[Piece], width: int) -> Row:
    """One line with something at either end; the left gives way."""
    taken = sum(cell_len(text) for text, _ in right)
    return [*fitted(fitted(line(*left), max(0, width - taken - 1)), max(0, width - taken)), *line(*right)]


def flow(pieces: Iterable[Piece], width: int, first: Piece | None = None, indent: int = 0) -> list[Row]:
    """The pieces as prose, wrapped between words; `first` stands before the first line, the rest is indented."""
    made = list(pieces)
    margin = max(indent, cell_len(first[0]) if first else 0)
    room = max(8, width - margin)
    rows: list[Row]
    if sum(len(text) for text, _ in made) > _PROSE:
        rows = [line((part, made[0][1])) for part in wrapped("".join(text for text, _ in made), room)]
    else:
        text = Text.assemble(*made, overflow="fold", end="")
        rows = [list(each.render(_CONSOLE)) for each in text.wrap(_CONSOLE, room)]
    lead, space = fitted(line(first or ("", Style())), margin), line((" " * margin, Style()))
    return [[*(space if number else lead), *row] for number, row in enumerate(rows or [[]])]


def wrapped(text: str, width: int) -> Iterator[str]:
    """Every line of `text` in pieces of at most `width` cells; nothing is dropped but the break itself."""
    for row in text.split("\n"):
        if len(row) <= width and row.isascii():
            yield row
        elif len(row) > _PROSE:
            yield from _chopped(row, width)
        else:
            yield from (each.plain for each in Text(row, overflow="fold").wrap(_CONSOLE, width)) if row else ("",)


def _chopped(text: str, width: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        part = text[at : at + width]
        if not part.isascii() and cell_len(part) > width:
            part = chop_cells(part, width)[0]
        at += len(part)
        yield part


def boxed(
    rows: Iterable[Row], width: int, style: Style, title: Sequence[Piece] = (), *, dashed: bool = False
) -> list[Row]:
    """The lines in a frame, with a title in its upper edge."""
    flat, upright = ("╌", "╎") if dashed else ("─", "│")
    inner = max(1, width - 4)
    head = [("╭" + flat, style), *((f" {text} " if text else "", paint) for text, paint in title)]
    taken = sum(cell_len(text) for text, _ in head)
    side, end = Segment(f"{upright} ", style), Segment(f" {upright}", style)
    made = [line(*head, (flat * max(0, width - taken - 1), style), ("╮", style))]
    made += [[side, *fitted(row, inner), end] for row in rows]
    made.append(line(("╰" + flat * max(0, width - 2) + "╯", style)))
    return made


def chips(labels: Iterable[Piece], width: int, indent: int = 0) -> list[Row]:
    """Small labels beside each other, as many to a line as fit."""
    rows: list[list[Piece]] = [[(" " * indent, Style())]]
    used = indent
    for text, style in labels:
        label = f" {cut(text, width - indent - 2)} "
        if used > indent and used + cell_len(label) > width:
            rows.append([(" " * indent, Style())])
            used = indent
        rows[-1] += [(label, style), (" ", Style())]
        used += cell_len(label) + 1
    return [line(*row) for row in rows]
