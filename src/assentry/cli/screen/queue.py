"""The list of requests: rows of a fixed height, drawn only where they are in sight, a selection that sticks.

The selection belongs to a request and not to a row. What arrives above moves nothing that is being looked at;
what is decided elsewhere while it is looked at stays until the person moves on.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from assentry.cli.screen.card import is_soon
from assentry.cli.screen.lines import Piece, Row, cut, flow, inert, line, spread
from assentry.cli.screen.look import PLAIN, Look, mark
from assentry.core.briefing import Briefing
from assentry.core.request import Kind, Request, Review, State
from assentry.core.text import left

NEAR_THE_END = 20
"""So many rows before the end of what is loaded, more is asked for."""


class Queue(ScrollView, can_focus=True):
    """Requests, one selected."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Queue { overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
    ]

    class Selected(Message):
        """Another request is looked at."""

    class NearEnd(Message):
        """The person comes to the end of what is loaded."""

    def __init__(
        self,
        brief: Callable[[Request], Briefing],
        now: Callable[[], datetime],
        look: Callable[[], Look],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._brief, self._now, self._look = brief, now, look
        self.rows: list[Request] = []
        self._at: dict[str, int] = {}
        self.selected: Request | None = None
        self.compact = False
        self._base = PLAIN
        self._drawn: dict[int, list[Strip]] = {}

    @property
    def row_height(self) -> int:
        return 1 if self.compact else 4

    @property
    def index(self) -> int:
        """Where the selected request stands."""
        return self._at.get(self.selected.id, 0) if self.selected else 0

    def show(self, rows: Sequence[Request], *, keep: Request | None = None, top: bool = False) -> None:
        """These are the rows now. `keep` is the selected request, if it is still looked at though it left the list."""
        before, offset = self.index, self.index * self.row_height - self.scroll_offset.y
        fresh = list(rows)
        ids = {request.id: number for number, request in enumerate(fresh)}
        if keep is not None and keep.id not in ids:
            fresh.insert(min(before, len(fresh)), keep)
        self.rows = fresh
        self._at = {request.id: number for number, request in enumerate(fresh)}
        was = self.selected
        if was is not None and was.id in self._at and not top:
            self.selected = fresh[self._at[was.id]]
        else:
            self.selected = fresh[0 if top or was is None else min(before, len(fresh) - 1)] if fresh else None
        self._resize()
        if was is not None and self.selected is not None and was.id == self.selected.id and not top:
            self.scroll_to(y=self.index * self.row_height - offset, animate=False)
        else:
            self._into_view()
        self.refresh()
        if (was is None) != (self.selected is None) or (was and self.selected and was.id != self.selected.id):
            self.post_message(self.Selected())

    def select(self, index: int) -> None:
        """The request in that row is selected."""
        if not self.rows:
            return
        index = max(0, min(index, len(self.rows) - 1))
        chosen = self.rows[index]
        if len(self.rows) - index <= NEAR_THE_END:
            self.post_message(self.NearEnd())
        if self.selected is None or chosen.id != self.selected.id:
            self.selected = chosen
            self._into_view()
            self.refresh()
            self.post_message(self.Selected())

    def action_move(self, by: int) -> None:
        self.select(self.index + by)

    def action_page(self, by: int) -> None:
        self.select(self.index + by * max(1, self.size.height // self.row_height - 1))

    def action_first(self) -> None:
        self.select(0)

    def action_last(self) -> None:
        self.select(len(self.rows) - 1)

    def on_click(self, event: events.Click) -> None:
        self.select((event.y + self.scroll_offset.y) // self.row_height)

    def on_resize(self) -> None:
        self._resize()
        self._into_view()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value + 2 * self.size.height >= self.virtual_size.height and new_value > old_value:
            self.post_message(self.NearEnd())

    def _resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.rows) * self.row_height)

    def _into_view(self) -> None:
        top, high = self.index * self.row_height, self.size.height
        if not high:
            return
        at = self.scroll_offset.y
        if top < at:
            self.scroll_to(y=top, animate=False)
        elif top + self.row_height > at + high:
            self.scroll_to(y=top + self.row_height - high, animate=False)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base, self._drawn = self.rich_style, {}
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        number, part = divmod(self.scroll_offset.y + y, self.row_height)
        if number >= len(self.rows):
            return Strip.blank(self.size.width, self._base)
        if number not in self._drawn:
            self._drawn[number] = self._row(self.rows[number])
        return self._drawn[number][part]

    def _row(self, request: Request) -> list[Strip]:
        look, width, now, brief = self._look(), self.size.width, self._now(), self._brief(request)
        chosen = self.selected is not None and request.id == self.selected.id
        rows = [_short(brief, now, width - 3, look)] if self.compact else _tall(brief, now, width - 3, look)
        rail = Segment("▌ " if chosen else "  ", look.accent)
        style = self._base + look.chosen if chosen else self._base
        return [Strip([rail, *row]).crop_extend(0, width, None).apply_style(style) for row in rows]


def _tall(brief: Briefing, now: datetime, width: int, look: Look) -> list[Row]:
    found = mark(brief, look)
    when = _when(brief, now, look)
    agent = cut(inert(brief.agent), width - len(found.word) - len(when[0]) - 5)
    rows = [spread([(f"{found.shape} {found.word}", found.style), (f"  {agent}", look.faint)], [when], width)]
    ended = brief.state not in (State.PENDING, State.UNKNOWN) and brief.review is not Review.OPEN
    style = look.soft if ended else look.strong
    title = flow([(inert(brief.title)[:300], style)], width)
    second = line((cut(_about(brief), width), look.faint))
    if len(title) > 1:
        rest = "".join(part.text for part in title[1]).rstrip()
        second = line((rest if len(title) == 2 else cut(f"{rest}…", width), style))
    return [*rows, title[0], second, line()]


def _short(brief: Briefing, now: datetime, width: int, look: Look) -> Row:
    found = mark(brief, look)
    return spread(
        [(f"{found.shape} ", found.style), (inert(brief.title)[:300], look.strong)], [_when(brief, now, look)], width
    )


def _when(brief: Briefing, now: datetime, look: Look) -> Piece:
    if brief.review is Review.OPEN and brief.state is not State.PENDING:
        return ("look at it", look.risky)
    if brief.state is not State.PENDING:
        return (str(brief.state), look.soft)
    if brief.abandoned_at is not None:
        return ("nobody waits", look.danger)
    if brief.ends_at is None:
        return ("when seen" if brief.starts_when_seen else "paused" if brief.paused else "no limit", look.faint)
    return (left(brief.ends_at - now), look.danger if is_soon(brief, now) else look.soft)


def _about(brief: Briefing) -> str:
    words = []
    if brief.state is not State.PENDING:
        words.append(inert(brief.outcome.removeprefix(f"{brief.state}: ")))
    elif brief.kind is Kind.QUESTION:
        words.append(brief.then)
    else:
        if brief.needs > 1:
            words.append(f"{len(brief.votes)} of {brief.needs} approvals")
        words += [inert(fact.says) for fact in brief.facts if fact.hurts][:2]
        words += [each.words for each in brief.effect[:1] if each.hurts]
    return " · ".join(words)[:300]
