"""Dialogs: confirm, type to confirm, pick or say why, write a few words, read.

None has a default that allows anything: `enter` never approves, and closing a dialog changes nothing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from assentry.cli.screen.lines import BLANK, DASH, Piece, Row, flow, inert
from assentry.cli.screen.look import PLAIN, Look
from assentry.cli.screen.paper import Draw, Paper, Slab
from assentry.cli.screen.writing import Area, Line, PhraseInput

T = TypeVar("T")

FORCED_WAIT = 3.0
"""Seconds before something critical can be confirmed."""
DWELL = 0.5
"""Seconds something must have been in sight before a key can act on it."""


class Dialog(ModalScreen[T | None], Generic[T]):
    """A frame with a heading, something to read, and a line that says which keys do what."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    danger = False
    _drafts: ClassVar[dict[str, str]] = {}
    """What somebody began to write and left, for this session."""

    def __init__(self, heading: str, look: Look, draft: str = "") -> None:
        super().__init__()
        self._draft = draft
        """Under which name what was begun is kept; empty means not at all."""
        self._heading, self.look = heading, look
        self.complaint = ""
        self.opened_at = time.monotonic()

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="danger" if self.danger else ""):
            yield Slab(self._title, id="heading")
            yield from self.parts()
            yield Slab(self._foot, id="foot")

    def parts(self) -> ComposeResult:
        """What stands between heading and foot."""
        yield from ()

    def keys(self) -> list[Piece]:
        """What the keys do here."""
        return []

    def refoot(self) -> None:
        """The foot says what is true now."""
        self.query_one("#foot", Slab).redraw()

    def complain(self, text: str) -> None:
        """Why it cannot go on like this is in the foot."""
        self.complaint = text
        self.refoot()

    def action_leave(self) -> None:
        """Back, and what was written is there when it is opened again."""
        if self._draft:
            self._drafts[self._draft] = self._written()
        self.dismiss(None)

    def _written(self) -> str:
        return ""

    def _begun_before(self) -> str:
        return self._drafts.get(self._draft, "") if self._draft else ""

    def _title(self, width: int) -> list[Row]:
        return flow([(inert(self._heading)[:400], self.look.strong)], width)

    def _foot(self, width: int) -> list[Row]:
        told = flow([(inert(self.complaint)[:600], self.look.danger)], width) if self.complaint else []
        return [*told, *flow([*self.keys(), (" esc ", self.look.key), (" back", self.look.soft)], width)]

    def key(self, key: str, does: str, *, on: bool = True) -> list[Piece]:
        """A key and what it does."""
        look = self.look
        return [(f" {key} ", look.key if on else look.off), (f" {does}   ", look.ink if on else look.off)]


class Confirm(Dialog[bool]):
    """Shows exactly what would happen; `y` and nothing else says yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", show=False),
        Binding("n", "leave", show=False),
        Binding("e", "open", show=False),
    ]

    def __init__(
        self, heading: str, look: Look, draw: Callable[[int, bool], list[Row]], yes: str, *, hides: str = ""
    ) -> None:
        super().__init__(heading, look)
        self._draw, self._yes, self._hides, self._whole = draw, yes, hides, False

    def parts(self) -> ComposeResult:
        yield Paper(lambda width: self._draw(width, self._whole), id="reading", margin=0, most=200)

    def on_mount(self) -> None:
        self.query_one(Paper).focus()
        self.set_timer(DWELL, self.refoot)

    @property
    def _blocked(self) -> str:
        if self._hides and not self._whole:
            return f"open it first: {self._hides} are folded"
        return ""

    def keys(self) -> list[Piece]:
        opens = self.key("e", "open all of it") if self._blocked else []
        return [*self.key("y", self._yes, on=not self._blocked), *opens]

    def action_open(self) -> None:
        self._whole, self.complaint = True, ""
        self.query_one(Paper).redraw()
        self.refoot()

    def action_yes(self) -> None:
        if time.monotonic() - self.opened_at < DWELL:
            # Whoever types on is writing a sentence, not deciding: the wait begins anew.
            self.opened_at = time.monotonic()
            self.complain("a moment: read it first")
        elif self._blocked:
            self.complain(self._blocked)
        else:
            self.dismiss(True)


class Typed(Dialog[str]):
    """Something critical: it says what will happen, waits, and wants the phrase typed; then `ctrl+y` confirms."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+y", "yes", show=False),
        Binding("up", "scroll(-1)", show=False, priority=True),
        Binding("down", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-10)", show=False, priority=True),
        Binding("pagedown", "scroll(10)", show=False, priority=True),
    ]
    IN_ORDER: ClassVar[dict[str, str]] = {"ctrl+y": "yes"}
    danger = True

    def __init__(self, heading: str, look: Look, draw: Draw, phrase: str) -> None:
        super().__init__(heading, look)
        self._draw, self._phrase, self._ready_at = draw, phrase, time.monotonic() + FORCED_WAIT

    def parts(self) -> ComposeResult:
        yield Paper(self._draw, id="reading", margin=0, most=200)
        yield Slab(self._wanted, id="wanted")
        yield PhraseInput(id="phrase", select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(PhraseInput).focus()
        self.set_interval(0.25, self._tick)

    @property
    def _wait(self) -> int:
        return max(0, int(self._ready_at - time.monotonic() + 0.999))

    @property
    def _matches(self) -> bool:
        return self.query_one(PhraseInput).value.strip() == inert(self._phrase)

    def keys(self) -> list[Piece]:
        if self._wait:
            return [(f" {self._wait} ", self.look.alarm), (" seconds to read it   ", self.look.soft)]
        return self.key("ctrl+y", "confirm", on=self._matches)

    def on_input_changed(self) -> None:
        self.complaint = ""
        self.refoot()

    def on_input_submitted(self) -> None:
        self.complain("enter does not confirm; ctrl+y does, once the words match")

    def action_scroll(self, by: int) -> None:
        self.query_one(Paper).scroll_relative(y=by, animate=False)

    def action_yes(self) -> None:
        if self._wait:
            self.complain(f"this is critical: it can be confirmed in {self._wait} s")
        elif not self._matches:
            self.complain("the words do not match yet; type them exactly")
        else:
            self.dismiss(self._phrase)

    def _tick(self) -> None:
        if time.monotonic() < self._ready_at + 1:
            self.refoot()

    def _wanted(self, width: int) -> list[Row]:
        return [
            BLANK,
            *flow([("Type this to confirm: ", self.look.soft), (inert(self._phrase), self.look.critical)], width),
        ]


@dataclass(frozen=True, slots=True)
class Picked:
    """What was picked: a number (from 0) or words, and whether the switch was on."""

    number: int | None
    text: str = ""
    switched: bool = False


class Pick(Dialog[Picked]):
    """Numbered choices, and a line for one's own words; typing a letter begins it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "write", show=False, priority=True),
        Binding("ctrl+x", "switch", show=False, priority=True),
    ]

    def __init__(
        self,
        heading: str,
        look: Look,
        choices: Sequence[str],
        *,
        own_words: str = "",
        must_pick: bool = False,
        switch: str = "",
        draft: str = "",
    ) -> None:
        super().__init__(heading, look, draft)
        self._choices, self._own, self._must, self._switch, self._on = choices, own_words, must_pick, switch, False
        self._begun = False

    def parts(self) -> ComposeResult:
        yield Paper(self._lines, id="reading", margin=0, most=40)
        if self._own:
            yield Line(self._begun_before(), placeholder=self._own, id="words", select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(Paper).focus()

    def _written(self) -> str:
        return self.query_one(Line).value if self._own else ""

    def keys(self) -> list[Piece]:
        numbers = self.key(f"1{DASH}{min(9, len(self._choices))}", "pick") if self._choices else []
        words = (
            []
            if not self._own
            else self.key("enter" if self._writing else "tab", "send" if self._writing else "own words")
        )
        switch = self.key("ctrl+x", f"{self._switch}: {'yes' if self._on else 'no'}") if self._switch else []
        return [*(numbers if not self._writing else []), *words, *switch]

    @property
    def _writing(self) -> bool:
        return bool(self._own) and self.is_mounted and self.query_one("#words", Input).has_focus

    def on_descendant_focus(self) -> None:
        self.refoot()

    def on_key(self, event: events.Key) -> None:
        if self._writing or not event.character or not event.is_printable:
            return
        if self._begun:
            # The line was asked to take the focus and does not have it yet: nothing typed meanwhile is lost.
            event.stop()
            self.query_one("#words", Input).insert_text_at_cursor(event.character)
        elif event.character.isdigit() and 0 < int(event.character) <= len(self._choices):
            event.stop()
            self._send(int(event.character) - 1)
        elif self._own and event.character.isalpha() and event.character not in "jkgG":
            event.stop()
            self._begun = True
            self.action_write()
            self.query_one("#words", Input).insert_text_at_cursor(event.character)

    def action_write(self) -> None:
        if self._own:
            self._begun = self._begun and not self._writing
            self.query_one(Paper if self._writing else Input).focus()

    def action_switch(self) -> None:
        if self._switch:
            self._on = not self._on
            self.refoot()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self._must:
            self.query_one(Paper).focus()
            self.complain("now pick what you found with its number")
        elif event.value.strip():
            self.dismiss(Picked(None, event.value.strip(), self._on))
        else:
            self.complain("a few words are needed")

    def _send(self, number: int) -> None:
        if time.monotonic() - self.opened_at < DWELL / 2:
            return
        words = self.query_one("#words", Input).value.strip() if self._own else ""
        self.dismiss(Picked(number, words, self._on))

    def _lines(self, width: int) -> list[Row]:
        rows = []
        for number, choice in enumerate(self._choices, 1):
            key = (f" {number} ", self.look.key) if number <= 9 else ("   ", PLAIN)
            rows += flow([(inert(choice)[:300], self.look.ink)], width, key, 4)
        return [*rows, BLANK] if rows else [BLANK]


class Words(Dialog[str]):
    """A few lines for the agent, or an answer. Enter sends them, ctrl+j breaks the line."""

    IN_ORDER: ClassVar[dict[str, str]] = {"enter": "send", "ctrl+j": "break"}

    def __init__(
        self,
        heading: str,
        look: Look,
        told: str,
        *,
        begin: str = "",
        needed: bool = True,
        check: Callable[[str], str] | None = None,
        draft: str = "",
    ) -> None:
        super().__init__(heading, look, draft)
        self._told, self._begin, self._needed, self._check = told, begin, needed, check

    def parts(self) -> ComposeResult:
        yield Slab(lambda width: flow([(inert(self._told)[:600], self.look.soft)], width))
        yield Area(self._begun_before() or self._begin, id="words", soft_wrap=True, show_line_numbers=False)

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def _written(self) -> str:
        return self.query_one(TextArea).text

    def keys(self) -> list[Piece]:
        return [*self.key("enter", "send"), *self.key("ctrl+j", "new line")]

    def action_break(self) -> None:
        self.query_one(TextArea).insert("\n")

    def action_send(self) -> None:
        text = self.query_one(TextArea).text.strip()
        problem = self._check(text) if self._check is not None and text else ""
        if self._needed and not text:
            self.complain("a few words are needed")
        elif problem:
            self.complain(problem)
        else:
            self.dismiss(text)


class Sheet(Dialog[None]):
    """Something to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,enter,question_mark,J,w", "leave", show=False)]

    def __init__(self, heading: str, look: Look, draw: Draw) -> None:
        super().__init__(heading, look)
        self._draw = draw

    def parts(self) -> ComposeResult:
        yield Paper(self._draw, id="reading", margin=0, most=400)

    def on_mount(self) -> None:
        self.query_one(Paper).focus()

    def keys(self) -> list[Piece]:
        return self.key("↑↓ pgup pgdn", "scroll")
