"""The screen as far as it looks beyond one request: the run it belongs to, its drafts, and pausing that run."""

from collections.abc import Awaitable
from typing import TypeVar

from assentry.cli.screen.dialogs import Confirm, Dialog, Sheet
from assentry.cli.screen.frame import Frame
from assentry.cli.screen.lines import Row, flow, inert
from assentry.cli.screen.paper import Paper, Slab
from assentry.cli.screen.tones import paint
from assentry.cli.sections import rows_of
from assentry.core.request import Request
from assentry.core.run import Run, RunState
from assentry.engine.chronicle import Chronicle
from assentry.engine.oversight import Oversight
from assentry.telling.background import Background, background
from assentry.telling.run_words import standing
from assentry.telling.timeline import timeline

T = TypeVar("T")

_TIMELINE_STEPS = 300


class Beyond(Frame):
    """A frame that knows what stands behind the request that is looked at."""

    _looks = 0

    async def attempt(self, work: Awaitable[T]) -> T | None:
        """What `work` came to, or nothing and the reason on the screen."""
        raise NotImplementedError

    async def asked(self, dialog: Dialog[T]) -> T | None:
        """What the person said in a dialog."""
        raise NotImplementedError

    def look_beyond(self, request: Request | None) -> None:
        """The card will say what is known beyond this request, as soon as that is read."""
        if request is None:
            self.about = None
        elif not (request.ask.run or request.ask.draft_of):
            self.about = Background(request)
        elif self.live.is_open:
            self._looks += 1
            self.run_worker(self.attempt(self._look(request, self._looks)), group="beyond", exit_on_error=False)

    async def _look(self, request: Request, number: int) -> None:
        """Of several looks the last one counts, whichever was answered first."""
        if number != self._looks:
            return
        found = await background(self._story, request)
        if number == self._looks and found != self.about:
            self.about = found
            self.query_one("#body", Paper).redraw()
            self.query_one("#bar", Slab).redraw()

    @property
    def _story(self) -> Chronicle:
        return self.live.desk.chronicle

    def is_about(self, changed: set[str]) -> bool:
        """Among what changed is the run of what is looked at."""
        return self.current is not None and f"run:{self.current.ask.run}" in changed

    def hold_or_go(self) -> None:
        """The run is paused, or goes on once the person has said so; by what is shown, and not by what came since."""
        run = self._run()
        if run is None:
            return
        if run.state is RunState.PAUSED:
            self._act(self._gone_on(run))
        elif run.state in (RunState.RUNNING, RunState.PARKED, RunState.ORPHANED):
            self._act(self._paused(run))
        else:
            self.tell(f"run {run.code} is {run.state}: there is nothing to pause", bad=True)

    def _act(self, work: Awaitable[None]) -> None:
        self.run_worker(self.attempt(work), group="decide", exclusive=True, exit_on_error=False)

    def _run(self) -> Run | None:
        """The run of what is looked at; where there is none, that is said."""
        about = self.about
        if about is None or self.current is None or about.request.id != self.current.id or about.run is None:
            self.tell("this request belongs to no run", bad=True)
            return None
        return about.run

    async def _paused(self, run: Run) -> None:
        if self.live.person is None:
            return self.tell(self.live.nobody, bad=True)
        await self._oversight.pause(self.live.person, run)
        self.tell(f"✓ run {run.code} is paused, and time stands still for what it asked; p lets it go on")
        return self.look_beyond(self.current)

    async def _gone_on(self, run: Run) -> None:
        if self.live.person is None:
            return self.tell(self.live.nobody, bad=True)
        look = self.look()

        def draw(width: int, _: bool) -> list[Row]:
            told = f"Run {run.code} of {inert(run.agent)} is {standing(run, self.live.now())}"
            return flow([(inert(told)[:600], look.ink)], width)

        if await self.asked(Confirm("Let the run go on?", look, draw, "yes, it may go on")):
            await self._oversight.go(self.live.person, run)
            self.tell(f"✓ run {run.code} goes on")
            self.look_beyond(self.current)
        return None

    @property
    def _oversight(self) -> Oversight:
        return self.live.desk.oversight

    def action_timeline(self) -> None:
        run = self._run()
        if run is not None:
            self.run_worker(self.attempt(self._told(run)), group="timeline", exclusive=True, exit_on_error=False)

    async def _told(self, run: Run) -> None:
        newest = await self._story.run(run.id) or run
        tree = await self._story.tree(newest, most=_TIMELINE_STEPS)
        parent = await self._story.run(newest.parent) if newest.parent else None
        look, parts = self.look(), timeline(tree, parent, self.live.now(), whole=False)
        sheet = Sheet("What the run did so far", look, lambda width: rows_of(parts, width, paint(look))[1:])
        sheet.set_class(self.has_class("narrow"), "narrow")
        self.app.push_screen(sheet)
