"""How commands write: inert text, width-aware tables, and colour only on a terminal.

Whatever an agent may have written passes through `visible` here and becomes a `Text`, which Rich never reads
as markup; links, emoji codes and highlighting are off for everything.
"""

import os
import sys
from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assentry.core.action import Risk
from assentry.core.briefing import Briefing
from assentry.core.policy import Mode, Policy
from assentry.core.request import Kind
from assentry.core.switch import Switch
from assentry.core.text import visible
from assentry.telling.told import SHAPES

PIPED_WIDTH = 100
"""How wide a card is where no terminal says; tables are then as wide as they need to be."""
_TABLE_WIDTH = 20_000
_LEAST_WIDTH, _NARROW_WIDTH, _WIDEST_COLUMN = 16, 20, 60

_COLOURS = {Risk.SAFE: "green", Risk.RISKY: "yellow", Risk.DANGEROUS: "red", Risk.CRITICAL: "bold magenta"}
_QUESTION = ("?", "question", "cyan")


def is_piped() -> bool:
    """Something other than a terminal reads standard output."""
    return not sys.stdout.isatty()


def console(*, errors: bool = False, table: bool = False) -> Console:
    """A console on standard output or standard error, in colour only if that is a terminal.

    In a pipe a table is as wide as its content, whatever the environment says of some terminal's width.
    """
    file = sys.stderr if errors else sys.stdout
    width, piped = None, not file.isatty()
    if piped and (table or not os.environ.get("COLUMNS", "").isdigit()):
        width = _TABLE_WIDTH if table else PIPED_WIDTH
    return Console(file=file, width=width, force_terminal=not piped, highlight=False, markup=False, emoji=False)


def inert(value: object, style: str = "", *, lines: bool = False) -> Text:
    """`value` as text that does nothing but show."""
    return Text(visible(str(value), lines=lines).expandtabs(4), style=style, overflow="fold")


def say(*parts: str | Text, style: str = "") -> None:
    """One sentence on standard output, not broken where nobody asked for it."""
    line = Text(style=style)
    for part in parts:
        line.append_text(part if isinstance(part, Text) else inert(part))
    console().print(line, soft_wrap=True)


def warn(message: str) -> None:
    """One loud line on standard error."""
    console(errors=True).print(inert(f"WARNING: {message}", "bold yellow"), soft_wrap=True)


def banner(policy: Policy, switches: Iterable[Switch] = ()) -> None:
    """Whoever looks at requests knows when nothing is held, and when somebody is held up."""
    for switch in switches:
        console(errors=True).print(Text(f" {visible(switch.says, lines=False)} ", style="bold yellow"), soft_wrap=True)
    if policy.mode is Mode.OBSERVE:
        text = "OBSERVE MODE: nothing is held. What would wait runs at once; `mode: enforce` in the policy ends this."
        console(errors=True).print(Text(f" {text} ", style="bold black on yellow"), soft_wrap=True)


def risk_mark(risk: Risk | None, kind: Kind = Kind.ACTION) -> Text:
    """Shape and word, so that colour is never needed."""
    if kind is Kind.QUESTION or risk is None:
        shape, word, colour = _QUESTION
        return Text(f"{shape} {word}", style=colour)
    return Text(f"{SHAPES[risk]} {risk}", style=_COLOURS[risk])


def mark_of(card: Briefing) -> Text:
    return risk_mark(card.risk, card.kind)


def heading(text: str) -> Text:
    """The name of a section. Only these stand in the first column, so nothing an agent wrote can pass for one."""
    return Text(text, style="bold")


def section(title: str, *content: RenderableType) -> Group:
    """A heading and what belongs to it, indented."""
    return Group(Text(), heading(title), *(Padding(each, (0, 0, 0, 2)) for each in content))


def grid(rows: Iterable[Sequence[RenderableType]], columns: int = 2, *, widest_name: int = 28) -> Table:
    """Rows whose text stays inside its own column, however it wraps."""
    table = Table.grid(padding=(0, 2))
    for number in range(columns - 1):
        table.add_column(overflow="fold", max_width=widest_name if number == 0 else None)
    table.add_column(overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*row)
    return table


def listing(
    names: Sequence[str], rows: Sequence[Sequence[Text]], *, flexible: int, narrow: Collection[int] = ()
) -> None:
    """A table. On a terminal the column `flexible` and the last one wrap, `narrow` ones are cut, and the rest, such as
    codes, keep their width: no text can push another column out of sight. In a pipe every row is one line, and nothing
    in it is cut or coloured."""
    if is_piped():
        return _lines([names, *([cell.plain for cell in row] for row in rows)])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for number, name in enumerate(names):
        wraps = number == flexible or (number == len(names) - 1 and number not in narrow)
        least = None if wraps or number in narrow else max(cell_len(name), *(row[number].cell_len for row in rows))
        table.add_column(
            name,
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            min_width=_LEAST_WIDTH if number == flexible else least,
            max_width=_NARROW_WIDTH if number in narrow else None,
        )
    for row in rows:
        table.add_row(*row)
    return block(table)


def _lines(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their content; one very long cell pushes only the rest of its own row."""
    widths = [min(_WIDEST_COLUMN, max(map(cell_len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def block(content: RenderableType, out: Console | None = None) -> None:
    """The content on standard output; in a pipe without the spaces that only fill lines up."""
    out = out or console()
    if out.is_terminal:
        return out.print(content)
    with out.capture() as captured:
        out.print(content)
    out.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
    return None
