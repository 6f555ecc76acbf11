"""What the screen of the inbox hears and does: the store's notices, the passing of time, and every key."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import ClassVar, TypeVar

from textual import events, on
from textual.binding import BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from assentry.cli.screen.beyond import Beyond
from assentry.cli.screen.card import Shown
from assentry.cli.screen.decisions import Decisions
from assentry.cli.screen.dialogs import DWELL, Dialog, Sheet
from assentry.cli.screen.fields import safe_json
from assentry.cli.screen.frame import said
from assentry.cli.screen.keys import BINDINGS, help_lines
from assentry.cli.screen.lines import line, wrapped
from assentry.cli.screen.live import View
from assentry.cli.screen.look import Look, other_theme
from assentry.cli.screen.paper import Paper, Slab
from assentry.cli.screen.queue import Queue
from assentry.core.decision import Opinion
from assentry.core.request import Request, Review, State
from assentry.core.waiting import NOBODY_WAITS
from assentry.errors import AssentryError, StoreError, StoreMissing
from assentry.settings import Settings

T = TypeVar("T")
log = logging.getLogger(__name__)

NARROW, LOW = 100, 28
SWEEP_SECONDS, RETRY_SECONDS = 30, 5
AFTER_A_MISS = 3.0
"""Seconds without decisions after a key that came too early."""


class InboxScreen(Beyond):
    """The inbox, live."""

    BINDINGS: ClassVar[list[BindingType]] = list(BINDINGS)

    class Heard(Message):
        """Something was committed, here or elsewhere."""

        def __init__(self, changed: Mapping[str, int] | None) -> None:
            super().__init__()
            self.changed = changed

    def __init__(self, settings: Settings, look: Callable[[], Look]) -> None:
        super().__init__(settings, look)
        self.decisions = Decisions(self.live, look, self.asked)
        self._since, self._dwell = 0.0, DWELL
        self._pending: set[str] = set()
        self._everything = True
        self._timer: Timer | None = None
        self._seen: set[str] = set()
        self._ticks = 0
        self._reading_more = self._settling = False

    def on_mount(self) -> None:
        self.queue.focus()
        self._fit()
        self.set_interval(1.0, self._tick)
        self.run_worker(self._connect(), group="store", exit_on_error=False)

    async def on_unmount(self) -> None:
        await self.live.close()

    # Reading the store

    async def attempt(self, work: Awaitable[T]) -> T | None:
        """What `work` came to, or nothing and the reason on the screen."""
        try:
            return await work
        except StoreError as problem:
            self._troubled(str(problem), missing=isinstance(problem, StoreMissing))
        except AssentryError as problem:
            self.tell(str(problem), bad=True)
        except Exception as problem:
            log.exception("the inbox met something it did not expect")
            self._troubled(f"something went wrong ({type(problem).__name__})")
        return None

    def _troubled(self, problem: str, *, missing: bool = False) -> None:
        self.trouble, self.missing = problem, missing
        if self.current is None:
            self.query_one("#body", Paper).redraw()
        self.redraw_edges()

    async def _connect(self) -> None:
        await self.attempt(self._connected())

    async def _connected(self) -> None:
        await self.live.connect()
        await self.live.reload()
        self.trouble = ""
        self._redisplay()

    def notice(self, changed: Mapping[str, int] | None) -> None:
        """Called on the store's thread; posting a message is safe from there."""
        self.post_message(self.Heard(changed))

    @on(Heard)
    def _heard(self, message: Heard) -> None:
        self._everything = self._everything or message.changed is None
        self._pending.update(message.changed or ())
        if self._timer is None:
            self._timer = self.set_timer(0.05, self._catch_up)

    def _catch_up(self) -> None:
        self._timer = None
        self.run_worker(self.attempt(self._caught_up()), group="store", exit_on_error=False)

    async def _caught_up(self) -> None:
        changed, everything = self._pending, self._everything
        self._pending, self._everything = set(), False
        if not self.live.is_open:
            return
        if everything or any(":" in key and not key.startswith("run:") for key in changed):
            await self.live.refresh_policy()
            await self.live.reload()
        else:
            await self.live.catch_up(changed)
        newest = None
        if self.current is not None and (everything or self.current.id in changed):
            newest = await self.live.fetch(self.current.id)
        self.trouble = ""
        self._redisplay(newest)
        if everything or self.is_about(changed):
            self.look_beyond(self.current)

    def _tick(self) -> None:
        self._ticks += 1
        self.forget_note()
        self.queue.refresh()
        self.redraw_edges()
        self.query_one("#head", Slab).redraw()
        if (self.trouble or not self.live.is_open) and self._ticks % RETRY_SECONDS == 0:
            self.run_worker(self._connect(), group="store", exclusive=True, exit_on_error=False)
        elif self.live.is_open and not self._settling:
            self._settling = True
            self.run_worker(self.attempt(self._settled()), group="settle", exit_on_error=False)

    async def _settled(self) -> None:
        try:
            if self._ticks % SWEEP_SECONDS == 0:
                await self.live.sweep()
                self._redisplay()
            await self.live.settle()
        finally:
            self._settling = False

    # Showing

    def _redisplay(self, newest: Request | None = None, *, keep: bool = True, top: bool = False) -> None:
        """List and card show what is known now; what is looked at stays where it is, in its newest form."""
        rows = self.live.rows(self.view)
        current = newest if newest and self.current and newest.id == self.current.id else self.current
        self.queue.show(rows, keep=current if keep else None, top=top)
        self._display(self.queue.selected)
        self.redraw_edges()

    @on(Queue.Selected)
    def _selected(self) -> None:
        rows = self.live.rows(self.view)
        selected = self.queue.selected
        gone = self.current is not None and all(row.id != self.current.id for row in rows)
        self._display(selected)
        if gone and selected is not None:
            self.queue.show(rows)

    @on(Queue.NearEnd)
    def _near_end(self) -> None:
        if not self._reading_more and self.live.is_open and self.live.shelf(self.view).has_more:
            self._reading_more = True
            self.run_worker(self.attempt(self._read_more()), group="more", exit_on_error=False)

    async def _read_more(self) -> None:
        try:
            await self.live.shelf(self.view).read(self.live.inbox)
            self._redisplay()
        finally:
            self._reading_more = False

    def _display(self, request: Request | None) -> None:
        was, self.current = self.current, request
        same = was is not None and request is not None and was.id == request.id
        if not same:
            self.whole = False
        if same and was is not None and request is not None:
            self._tell_what_changed(was, request)
        digest = request.candidate.permit_digest if request else ""
        if not same or (was is not None and was.candidate.permit_digest != digest):
            self._since, self._dwell = time.monotonic(), DWELL
            self.set_timer(DWELL, self._mark_seen)
        if not same or was is not request:
            self.look_beyond(request)
            self.query_one("#body", Paper).redraw(top=not same)
        self.query_one("#head", Slab).redraw()
        self.query_one("#bar", Slab).redraw()

    def _tell_what_changed(self, was: Request, now: Request) -> None:
        """Somebody else moved what is being looked at: that is said at once, and a dialog about it is closed."""
        if now.id == self.decisions.committing or was.version == now.version:
            return
        if was.state is State.PENDING and now.state is not State.PENDING:
            self.tell(f"{now.code} was decided elsewhere — {self.live.brief(now).outcome}", bad=True)
            self._close_dialog()
        elif was.candidate.permit_digest != now.candidate.permit_digest:
            by = now.votes[-1].by if now.votes else "somebody"
            self.tell(f"{now.code} was changed by {by}; look again before you decide", bad=True)
            self._close_dialog()

    def _close_dialog(self) -> None:
        top = self.app.screen
        if isinstance(top, Dialog) and not isinstance(top, Sheet):
            top.action_leave()

    def _mark_seen(self) -> None:
        """Whoever may decide it has it before them: soft windows begin."""
        request, person = self.current, self.live.person
        if request is None or person is None or time.monotonic() - self._since < DWELL * 0.9:
            return
        if request.id not in self._seen and request.state is State.PENDING and self.live.why_not(request) is None:
            self._seen.add(request.id)
            self.run_worker(self.attempt(self.live.inbox.seen(person, request.id)), group="seen", exit_on_error=False)

    # Deciding

    async def asked(self, dialog: Dialog[T]) -> T | None:
        dialog.set_class(self.has_class("narrow"), "narrow")
        return await self.app.push_screen_wait(dialog)

    def action_choose(self, number: int) -> None:
        shown = self.shown
        if shown is not None and shown.brief.abandoned_at is not None:
            self.action_decide("choose_from")
        elif shown is not None and (shown.brief.options or shown.brief.question):
            self._start(lambda now: self.decisions.choose(now, number - 1))

    def action_decide(self, what: str) -> None:
        request, shown = self.current, self.shown
        if request is None or shown is None:
            return
        say = self.decisions
        pending, review = request.state is State.PENDING, request.review is Review.OPEN
        match what:
            case "approve" | "modify" | "send_back" | "choose_from" if pending and request.abandoned_at is not None:
                self.tell(f"{NOBODY_WAITS}; d dismisses it", bad=True)
            case "modify" if pending:
                self._start(lambda now: say.modify(now, request))
            case "approve" | "deny" | "send_back" | "choose_from" if pending:
                self._start(getattr(say, what), wait=what != "deny")
            case "approve" if review:
                self._start(lambda now: say.review(now, Opinion.ACCEPTED))
            case "flag" if review:
                self._start(lambda now: say.review(now, Opinion.FLAGGED))
            case "look" if request.state is State.UNKNOWN:
                self._start(say.reconcile)
            case "look" if review:
                self._start(lambda now: say.review(now, None))
            case "undo" if request.state is State.DONE:
                self._start(say.undo)
            case _:
                self.tell(f"that key does nothing here: {request.code} is {request.state}", bad=True)

    def _start(self, say: Callable[[Shown], Awaitable[Request | None]], *, wait: bool = True) -> None:
        shown = self.shown
        if shown is None:
            return
        if shown.why_not and shown.brief.state is State.PENDING:
            self.tell(f"you cannot decide this: {shown.why_not}", bad=True)
        elif not (wait and self._is_too_soon()):
            self.run_worker(self.attempt(self._decide(shown, say)), group="decide", exclusive=True, exit_on_error=False)

    def _is_too_soon(self) -> bool:
        if time.monotonic() - self._since >= self._dwell:
            return False
        # A key that was not taken may be the first of a sentence; its letters must not decide either.
        self._since, self._dwell = time.monotonic(), AFTER_A_MISS
        self.tell("it has only just come up; look at it first", bad=True)
        return True

    def action_hold(self) -> None:
        if self.current is not None and not self._is_too_soon():
            self.hold_or_go()

    async def _decide(self, shown: Shown, say: Callable[[Shown], Awaitable[Request | None]]) -> None:
        try:
            after = await say(shown)
        except AssentryError:
            with suppress(AssentryError):
                newest = await self.live.fetch(shown.brief.id)
                if newest is not None:
                    self.live.put(newest)
                self._redisplay(newest)
            raise
        if after is not None:
            place = self.queue.index
            self.live.put(after)
            self._redisplay(keep=False)
            self.queue.select(place)
            self.tell(said(after))

    # Looking

    def action_open(self) -> None:
        shown = self.shown
        if shown is not None:
            self.whole = not self.whole
            self.opened.add((shown.brief.id, shown.brief.digest))
            self.query_one("#body", Paper).redraw()
            self.redraw_edges()

    def action_raw(self) -> None:
        shown = self.shown
        if shown is not None:
            self.opened.add((shown.brief.id, shown.brief.digest))
            text, look = safe_json(shown.brief.args_text), self.look()
            sheet = Sheet(
                f"{shown.brief.code}: the bytes that run",
                look,
                lambda width: [line((row, look.ink)) for row in wrapped(text, width)],
            )
            self.app.push_screen(sheet)
            self.redraw_edges()

    def action_help(self) -> None:
        look = self.look()
        self.app.push_screen(Sheet("Keys", look, lambda width: help_lines(width, look)))

    def action_to_card(self) -> None:
        if self.current is not None:
            self.query_one("#body", Paper).focus()

    def action_other_side(self) -> None:
        (self.query_one("#body", Paper) if self.queue.has_focus else self.queue).focus()

    def action_view(self, by: int) -> None:
        views = list(View)
        self.show_view(views[(views.index(self.view) + by) % len(views)])

    def show_view(self, view: View) -> None:
        """The list is that of `view`."""
        self.view, self.live.found, self.current = view, None, None
        self._end_search()
        self._redisplay(keep=False, top=True)
        self.query_one("#body", Paper).redraw(top=True)

    def action_search(self) -> None:
        box = self.query_one("#search", Input)
        box.add_class("on")
        box.focus()

    def action_back(self) -> None:
        if self.query_one("#search", Input).has_class("on"):
            self.show_view(self.view)
        else:
            self.queue.focus()

    def _end_search(self) -> None:
        box = self.query_one("#search", Input)
        if box.has_class("on"):
            with box.prevent(Input.Changed):
                box.value = ""
            box.remove_class("on")
            self.queue.focus()

    @on(Input.Changed, "#search")
    def _search(self, event: Input.Changed) -> None:
        self.run_worker(self.attempt(self._searched(event.value)), group="search", exclusive=True, exit_on_error=False)

    async def _searched(self, text: str) -> None:
        await self.live.search(self.view, text)
        self.current = None
        self._redisplay(keep=False, top=True)
        self.query_one("#body", Paper).redraw(top=True)

    @on(Input.Submitted, "#search")
    def _search_done(self) -> None:
        self.queue.focus()

    def action_theme(self) -> None:
        self.app.theme = other_theme(self.app.theme)
        for paper in self.query(Paper):
            paper.redraw()
        self.query_one("#head", Slab).redraw()
        self.redraw_edges()

    def action_again(self) -> None:
        self.run_worker(self._connect(), group="store", exclusive=True, exit_on_error=False)

    def on_resize(self, _: events.Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        width, height = self.size
        self.set_class(width < NARROW, "narrow")
        self.set_class(height < LOW, "low")
        self.queue.compact = width < NARROW
        self.queue.on_resize()
