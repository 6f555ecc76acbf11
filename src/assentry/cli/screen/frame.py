"""What the screen of the inbox draws, and the state that it draws: list, card, edges."""

import time
from collections.abc import Callable, Mapping

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import Screen
from textual.widgets import Input

from assentry.cli.screen import bar, card
from assentry.cli.screen.card import Shown
from assentry.cli.screen.lines import Piece, Row, inert
from assentry.cli.screen.live import Live, View
from assentry.cli.screen.look import Look
from assentry.cli.screen.paper import Paper, Slab
from assentry.cli.screen.queue import Queue
from assentry.core.request import Request, Review, State
from assentry.core.text import shortened
from assentry.settings import Settings
from assentry.telling.background import Background

NOTE_SECONDS = 8


class Frame(Screen[None]):
    """What waits on one side, what it is on the other, what can be done about it below."""

    def __init__(self, settings: Settings, look: Callable[[], Look]) -> None:
        super().__init__()
        self._place, self.look = settings.database, look
        self.live = Live(settings, self.notice)
        self.view = View.MINE
        self.current: Request | None = None
        self.whole = False
        self.about: Background | None = None
        self.opened: set[tuple[str, str]] = set()
        self.trouble = ""
        self.missing = False
        """The trouble is that there is no database yet."""
        self._note: Piece | None = None
        self._note_until = 0.0
        self._hides: dict[tuple[str, str], str] = {}

    def notice(self, changed: Mapping[str, int] | None) -> None:
        """Something was committed, here or elsewhere; called on the store's thread."""
        raise NotImplementedError

    def show_view(self, view: View) -> None:
        """The list is that of `view`."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield Slab(self._header, id="header")
        yield Tabs(self._tabs, id="tabs")
        yield Slab(self._banner, id="banner")
        yield Input(placeholder="search: words, an action, or a code; esc ends it", id="search")
        with Container(id="main"):
            yield Queue(self.live.brief, self.live.now, self.look, id="queue")
            with Vertical(id="side"):
                yield Slab(self._head, id="head")
                yield Paper(self._body, id="body")
        yield Slab(self._bar, id="bar")

    @property
    def queue(self) -> Queue:
        return self.query_one(Queue)

    @property
    def shown(self) -> Shown | None:
        """What is before the person, as they see it."""
        if self.current is None:
            return None
        brief = self.live.brief(self.current)
        key = (brief.id, brief.digest)
        if key not in self._hides:
            self._hides = {key: card.hidden(brief)}
        hides = "" if key in self.opened else self._hides[key]
        about = self.about if self.about is not None and self.about.request.id == brief.id else None
        return Shown(brief, self.live.why_not(self.current), self.whole, hides, about)

    def tell(self, text: str, *, bad: bool = False) -> None:
        """The bar says it, for a while."""
        self._note = (inert(text), self.look().danger if bad else self.look().ok)
        self._note_until = time.monotonic() + NOTE_SECONDS
        self.query_one("#bar", Slab).redraw()

    def forget_note(self) -> None:
        """What the bar said goes when its time is over."""
        if self._note is not None and time.monotonic() > self._note_until:
            self._note = None

    def redraw_edges(self) -> None:
        """Header, views, banner and bar say what is true now."""
        banner = self.query_one("#banner", Slab)
        banner.set_class(bool(self.trouble or self.live.observes or self.live.nobody or self.live.held_up), "on")
        for slab in (
            self.query_one("#header", Slab),
            self.query_one("#tabs", Slab),
            banner,
            self.query_one("#bar", Slab),
        ):
            slab.redraw()

    def _count(self, view: View) -> str:
        if not self.live.is_open:
            return ""
        rows = self.live.rows(view, searched=False)
        if view is View.RAN:
            rows = [request for request in rows if request.review is Review.OPEN]
        more = self.live.shelf(view, searched=False).has_more and view in (View.MINE, View.WAITING)
        return f"{len(rows):,}{'+' if more else ''}"

    def counts(self) -> list[tuple[View, str]]:
        """Each view and how much is in it."""
        found = [(view, "" if view is View.DECIDED else self._count(view)) for view in View]
        return [(view, "" if count == "0" and view in (View.RAN, View.UNKNOWN) else count) for view, count in found]

    def _header(self, width: int) -> list[Row]:
        person = self.live.person
        up = self.live.is_open and not self.trouble
        return bar.header(
            self._count(View.MINE),
            inert(self._place),
            inert(person.name if person else "nobody"),
            up,
            width,
            self.look(),
        )

    def _tabs(self, width: int) -> list[Row]:
        return bar.tabs(self.counts(), self.view, width, self.look())

    def _banner(self, width: int) -> list[Row]:
        return bar.banners(
            self.trouble, self.missing, self.live.observes, self.live.nobody, self.live.held_up, width, self.look()
        )

    def _head(self, width: int) -> list[Row]:
        if self.current is None:
            return []
        return card.head(self.live.brief(self.current), self.live.now(), width, self.look())

    def _body(self, width: int) -> list[Row]:
        shown = self.shown
        if shown is None:
            text = self.query_one("#search", Input).value
            elsewhere = len(self.live.rows(View.WAITING))
            return bar.empty(self.view, self._place, text, self.trouble, elsewhere, width, self.look())
        return card.body(shown, self.live.now(), min(width, 110), self.look())

    def _bar(self, width: int) -> list[Row]:
        rows, spots = bar.bar(self.shown, self._note, width, self.look())
        self.query_one("#bar", Slab).spots = [(y + 1, start + 1, end + 1, key) for y, start, end, key in spots]
        return rows


class Tabs(Slab):
    """The views; a click on one shows it."""

    def on_click(self, event: events.Click) -> None:
        screen = self.screen
        if isinstance(screen, Frame):
            for start, end, view in bar.tab_spots(screen.counts(), self.size.width):
                if start <= event.x < end:
                    screen.show_view(view)


def said(request: Request) -> str:
    """What a decision came to, in a line."""
    title = inert(shortened(request.candidate.says, 80))
    if request.state is State.PENDING:
        needs = request.candidate.verdict.quorum.count
        given = len(request.votes)
        who = ", ".join(request.candidate.verdict.reviewers)
        told = f"{given} of {needs} approvals" if given else "changed; it now waits for " + (who or "somebody else")
        return f"○ {request.code}: {told} — {title}"
    word = {"approve": "approved", "modify": "approved with changes", "choose": "chosen", "deny": "denied",
            "revise": "sent back", "answer": "answered"}.get(request.word, str(request.state))  # fmt: skip
    if request.review in (Review.ACCEPTED, Review.FLAGGED):
        word = request.review.value
    elif request.state in (State.UNDO_ASKED, State.FAILED, State.DONE):
        word = f"recorded as {request.state}"
    return f"✓ {request.code} {word} — {title}"
