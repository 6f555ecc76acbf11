"""Sections in a terminal, for the plain commands and for the full screen.

Every piece of text is made inert here, whoever wrote it; what an agent says stands in a dashed box of its own.
"""

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style

from assentry.cli.screen.lines import BLANK, Piece, Row, boxed, flow, inert, line
from assentry.telling.told import Part, Told, Tone

Paint = Callable[[Tone], Style]

_COLOURS = {
    Tone.SAFE: "green", Tone.RISKY: "yellow", Tone.DANGEROUS: "red", Tone.CRITICAL: "bold magenta", Tone.ASKED: "cyan",
    Tone.CLAIM: "", Tone.BOX: "cyan", Tone.ADDED: "green", Tone.GONE: "red", Tone.ADDED_WORD: "bold underline green",
    Tone.GONE_WORD: "bold underline red",
}  # fmt: skip
_STYLES = {tone: Style.parse(_COLOURS.get(tone, tone.value)) for tone in Tone}


def rows_of(parts: Sequence[Part], width: int, paint: Paint, *, indent: int = 2) -> list[Row]:
    """The sections as lines of a terminal. Headings alone stand in the first column."""
    rows: list[Row] = []
    space = [Segment(" " * indent)]
    room = width - indent
    for part in parts:
        rows += [BLANK, line((inert(part.title), paint(Tone.STRONG)))]
        rows += [[*space, *row] for each in part.lines for row in _paragraph(each, room, paint)]
        if part.claims:
            inner = [row for each in part.claims for row in _paragraph(each, room - 4, _as_claim(paint))]
            title = [(part.says, paint(Tone.CLAIM))]
            rows += [[*space, *row] for row in boxed(inner, room, paint(Tone.BOX), title, dashed=True)]
        rows += [[*space, *row] for each in part.after for row in _paragraph(each, room, paint)]
    return rows


def _as_claim(paint: Paint) -> Paint:
    return lambda tone: paint(Tone.CLAIM if tone is Tone.PLAIN else tone)


def _paragraph(each: Told, width: int, paint: Paint) -> list[Row]:
    pieces: list[Piece] = [(inert(text, lines=each.breaks), paint(tone)) for text, tone in each.pieces]
    lead = inert(each.lead).ljust(each.margin)
    depth = min(each.depth, max(0, width - 40))
    rows = flow(pieces, width - depth, (lead, paint(each.lead_tone))) if lead else flow(pieces, width - depth)
    return [[Segment(" " * depth), *row] for row in rows] if depth else rows


class Sections:
    """Sections as a part of whatever Rich prints."""

    def __init__(self, parts: Sequence[Part], *, alone: bool = False) -> None:
        self._parts, self._alone = parts, alone

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = rows_of(self._parts, options.max_width, _STYLES.__getitem__)
        # Standing alone, the first section needs no blank line before it.
        for row in rows[self._alone :]:
            yield Segments([*row, Segment.line()])
