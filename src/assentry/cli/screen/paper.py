"""Two plain widgets that draw lines: a slab as high as what is on it, and a paper that scrolls.

Both are given a function from their width to lines, so that drawing knows nothing of widgets.
"""

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from assentry.cli.screen.lines import BLANK, Row
from assentry.cli.screen.look import PLAIN
from assentry.core.text import visible

Draw = Callable[[int], list[Row]]


class Inert(LineFilter):
    """The last look at every line before it goes to the terminal: nothing but visible characters may pass.

    Whatever draws has made its text inert already; this holds even for what somebody pastes into a field.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [
            segment if segment.text.isprintable() else Segment(_printable(segment.text), segment.style)
            for segment in segments
        ]


def _printable(text: str) -> str:
    """The same number of characters, those that act or hide replaced."""
    return "".join(char if char.isprintable() and visible(char) == char else "\ufffd" for char in text)


class Slab(Widget):
    """Lines, all of them shown. `spots` are places that act like a key when clicked."""

    DEFAULT_CSS = "Slab { height: auto; width: 1fr; }"
    ALLOW_SELECT = False

    def __init__(self, draw: Draw, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._draw, self._rows, self._width = draw, list[Row](), -1
        self.spots: list[tuple[int, int, int, str]] = []
        self._base = PLAIN

    def redraw(self) -> None:
        """What it shows is current."""
        before, self._width = len(self._rows), -1
        width = self.content_size.width
        if width:
            self._lines(width)
        self.refresh(layout=before != len(self._rows) or not width)

    def _lines(self, width: int) -> list[Row]:
        if width != self._width:
            self._rows, self._width = self._draw(width), width
        return self._rows

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return len(self._lines(width))

    def render(self) -> RenderResult:
        return ""

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        rows = self._lines(width)
        row = rows[y] if y < len(rows) else BLANK
        return Strip(row).crop_extend(0, width, self._base).apply_style(self._base)

    def on_click(self, event: events.Click) -> None:
        for y, start, end, key in self.spots:
            if event.y == y and start <= event.x < end:
                self.app.simulate_key(key)


class Paper(ScrollView, can_focus=True):
    """Lines that scroll, of any number: only those in sight are touched."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Paper { overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", show=False),
        Binding("down,j", "scroll_down", show=False),
        Binding("pageup,ctrl+b", "page_up", show=False),
        Binding("pagedown,space,ctrl+f", "page_down", show=False),
        Binding("home,g", "scroll_home", show=False),
        Binding("end,G", "scroll_end", show=False),
    ]

    def __init__(self, draw: Draw, *, id: str | None = None, margin: int = 1, most: int = 0) -> None:
        super().__init__(id=id)
        self._draw, self._rows, self._width, self._margin, self._most = draw, list[Row](), -1, margin, most
        self._base = PLAIN

    def redraw(self, *, top: bool = False) -> None:
        """What it shows is current; the place in it stays unless `top`."""
        self._width = -1
        if self.size.width:
            self._measure()
        if top:
            self.scroll_to(y=0, animate=False)
        self.refresh(layout=bool(self._most))

    def _measure(self) -> None:
        width = max(10, self._room())
        if width != self._width:
            self._width = width
            self._rows = self._draw(width - 2 * self._margin)
            self.virtual_size = Size(width, len(self._rows))

    def _room(self) -> int:
        """The width to draw for: always less the scroll bar, so that its coming does not move the text."""
        return self.size.width - 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if not self._most:
            return super().get_content_height(container, viewport, width)
        return min(self._most, len(self._draw(max(10, width - 1 - 2 * self._margin))))

    def on_resize(self) -> None:
        self._measure()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._measure()
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        at = self.scroll_offset.y + y
        row = self._rows[at] if 0 <= at < len(self._rows) else BLANK
        strip = Strip([Segment(" " * self._margin), *row])
        return strip.crop_extend(0, self.size.width, self._base).apply_style(self._base)

    def action_scroll_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_scroll_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_page_up(self) -> None:
        self.scroll_relative(y=-max(1, self.size.height - 2), animate=False)

    def action_page_down(self) -> None:
        self.scroll_relative(y=max(1, self.size.height - 2), animate=False)

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        self.scroll_to(y=len(self._rows), animate=False)
