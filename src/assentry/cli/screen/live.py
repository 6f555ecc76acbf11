"""What the screen knows of the store: a desk, who sits at it, and shelves of requests kept current by notices."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from assentry.assemble import Desk, desk
from assentry.core.authority import Principal
from assentry.core.briefing import Briefing, brief
from assentry.core.policy import Mode
from assentry.core.request import Request, Review, State
from assentry.engine.deadlines import settle_overdue
from assentry.engine.inbox import Inbox
from assentry.errors import AssentryError, NotAllowed, NotFound, StoreError, StoreMissing
from assentry.ports import Filter
from assentry.settings import Settings

PAGE = 500
_PAGES_AT_ONCE = 6
_ONE_BY_ONE = 200
_BRIEFINGS_KEPT = 400
_DEEPEST = 2_000
_NEVER = datetime.max.replace(tzinfo=UTC)


class View(Enum):
    """What the list shows."""

    MINE = "Waiting for me"
    WAITING = "All waiting"
    RAN = "Ran"
    UNKNOWN = "Unknown"
    DECIDED = "Decided"


_RAN = (State.RUNNING, State.APPROVED, State.DONE, State.FAILED, State.UNDO_ASKED, State.UNDOING, State.UNDONE)
_DECIDED = tuple(state for state in State if state not in (State.PENDING, State.UNKNOWN, State.RUNNING))
_WANTED: Mapping[View, tuple[Filter, ...]] = {
    View.WAITING: (Filter(states=(State.PENDING,)),),
    View.RAN: (Filter(review_open=True), Filter(states=_RAN)),
    View.UNKNOWN: (Filter(states=(State.UNKNOWN,)),),
    View.DECIDED: (Filter(states=_DECIDED),),
}


class Shelf:
    """The requests of one view, sorted, as far as they were read."""

    def __init__(self, view: View, text: str = "") -> None:
        self.view, self.text = view, text.strip()
        self._known: dict[str, Request] = {}
        self._left = [(replace(wanted, text=self.text), "") for wanted in _WANTED[view]]
        self._sorted: list[Request] | None = None
        self.changes = 0

    @property
    def rows(self) -> list[Request]:
        """What is here, most urgent or newest first."""
        if self._sorted is None:
            self._sorted = sorted(self._known.values(), key=self._key)
        return self._sorted

    @property
    def has_more(self) -> bool:
        return bool(self._left)

    async def read(self, inbox: Inbox, limit: int = PAGE) -> None:
        """The next page is on the shelf."""
        for _ in range(_PAGES_AT_ONCE):
            if not self._left:
                return
            wanted, after = self._left.pop(0)
            page = await inbox.page(wanted, after=after, limit=limit)
            if page.next:
                self._left.insert(0, (wanted, page.next))
            before = len(self._known)
            for request in page.requests:
                self.put(request)
            if len(self._known) > before and page.next:
                return

    def put(self, request: Request) -> None:
        """The request is where it belongs now: here, in its newest form, or gone from here."""
        known = self._known.get(request.id)
        if known is not None and known.version > request.version:
            return
        if self._belongs(request):
            self._known[request.id] = request
        elif known is not None:
            del self._known[request.id]
        else:
            return
        self._sorted = None
        self.changes += 1

    def _belongs(self, request: Request) -> bool:
        if self.text and not _matches(request, self.text):
            return False
        match self.view:
            case View.RAN:
                return request.state in _RAN or request.review is Review.OPEN
            case View.DECIDED:
                return request.state in _DECIDED and request.decided_at is not None
            case View.UNKNOWN:
                return request.state is State.UNKNOWN
            case _:
                return request.state is State.PENDING

    def _key(self, request: Request) -> tuple[object, ...]:
        match self.view:
            case View.RAN | View.UNKNOWN:
                return (request.review is not Review.OPEN, -request.ask.created_at.timestamp(), request.id)
            case View.DECIDED:
                return (-(request.decided_at or request.changed_at).timestamp(), request.id)
            case _:
                return (-request.candidate.assessment.risk.rank, request.due_at or _NEVER, request.id)


class Live:
    """The desk and its shelves. Methods that read or write the store may raise its errors."""

    def __init__(self, settings: Settings, heard: Callable[[Mapping[str, int] | None], None]) -> None:
        self._settings, self._heard = settings, heard
        self._desk: Desk | None = None
        self._stop: Callable[[], None] | None = None
        self._ahead = timedelta(0)
        self._briefs: dict[str, tuple[tuple[int, str, tuple[str, ...]], Briefing]] = {}
        self._settled: dict[str, float] = {}
        self._mine: dict[bool, tuple[object, list[Request]]] = {}
        self.person: Principal | None = None
        self.nobody = ""
        self.shelves: dict[View, Shelf] = {view: Shelf(view) for view in _WANTED}
        self.found: Shelf | None = None

    @property
    def is_open(self) -> bool:
        return self._desk is not None

    @property
    def desk(self) -> Desk:
        if self._desk is None:
            raise StoreError("the database is not open yet; it is tried again")
        return self._desk

    @property
    def inbox(self) -> Inbox:
        return self.desk.inbox

    @property
    def observes(self) -> bool:
        """Nothing is held: the policy only watches."""
        return self._desk is not None and self._desk.judgement.policy.mode is Mode.OBSERVE

    @property
    def held_up(self) -> tuple[str, ...]:
        """Which agents a stop switch holds up, by whom and why."""
        return () if self._desk is None else tuple(switch.says for switch in self._desk.judgement.switches)

    def now(self) -> datetime:
        """The database's clock, as far as we know it."""
        return datetime.now(UTC) + self._ahead

    async def connect(self) -> None:
        """The desk is open and every commit is heard of. A SQLite file that is not there is not made."""
        await self.close()
        settings = self._settings
        _expect_file(settings)
        place = await desk(settings)
        self._ahead = await place.store.now() - datetime.now(UTC)
        self._desk = place
        self._who()
        self._stop = place.store.watch(self._heard)

    async def close(self) -> None:
        """Nothing is held open."""
        place, stop, self._desk, self._stop = self._desk, self._stop, None, None
        if stop is not None:
            stop()
        if place is not None:
            with suppress(AssentryError):
                await place.store.close()

    def _who(self) -> None:
        try:
            self.person, self.nobody = self.desk.person(), ""
        except NotAllowed as problem:
            self.person, self.nobody = None, str(problem)

    async def refresh_policy(self) -> None:
        """Who may decide is what the active policy says."""
        await self.inbox.refresh()
        self._who()

    def why_not(self, request: Request) -> str | None:
        """Why whoever sits here may not decide this; nothing if they may."""
        return self.inbox.may_decide(self.person, request) if self._desk is not None else "the database is not open"

    def rows(self, view: View, *, searched: bool = True) -> list[Request]:
        """What this view lists, of what was read; also what a search found, unless it is not `searched`."""
        shelf = self.shelf(view, searched=searched)
        if view is not View.MINE:
            return shelf.rows
        key = (shelf, shelf.changes, self._desk and self._desk.judgement.policy, self.person)
        known = self._mine.get(searched)
        if known is None or known[0] != key:
            known = self._mine[searched] = (key, [request for request in shelf.rows if self.why_not(request) is None])
        return known[1]

    def shelf(self, view: View, *, searched: bool = True) -> Shelf:
        """Where the requests of a view are."""
        base = View.WAITING if view is View.MINE else view
        found = self.found if searched else None
        return found if found is not None and found.view is base else self.shelves[base]

    async def reload(self) -> None:
        """Every shelf was read anew from its beginning, as far as it had been read before."""
        fresh = {view: Shelf(view) for view in _WANTED}
        for view, shelf in fresh.items():
            deep = min(len(self.shelves[view].rows), _DEEPEST)
            await shelf.read(self.inbox, PAGE if view is View.WAITING else 100)
            while len(shelf.rows) < deep and shelf.has_more:
                await shelf.read(self.inbox)
        self.shelves = fresh

    async def sweep(self) -> None:
        """The beginning of every shelf is current, should a notice have been lost."""
        await self.desk.look_for_the_gone()
        for view in _WANTED:
            first = Shelf(view)
            await first.read(self.inbox, 100)
            for request in first.rows:
                self.put(request)

    async def search(self, view: View, text: str) -> None:
        """The view lists what contains `text`, or bears that code."""
        if not text.strip():
            self.found = None
            return
        shelf = Shelf(View.WAITING if view is View.MINE else view, text)
        await shelf.read(self.inbox)
        with suppress(NotFound):
            shelf.put(await self.inbox.find(text))
        self.found = shelf

    async def catch_up(self, ids: Iterable[str]) -> None:
        """What these ids stand for is current on every shelf."""
        wanted = [key for key in ids if ":" not in key]
        if len(wanted) > _ONE_BY_ONE:
            await self.reload()
            return
        for request_id in wanted:
            request = await self.desk.store.request(self._settings.workspace, request_id)
            if request is not None:
                self.put(request)

    def put(self, request: Request) -> None:
        """The request is current on every shelf."""
        for shelf in (*self.shelves.values(), *([self.found] if self.found else [])):
            shelf.put(request)

    async def fetch(self, request_id: str) -> Request | None:
        """The request as last committed."""
        return await self.desk.store.request(self._settings.workspace, request_id)

    async def settle(self) -> None:
        """What is overdue among the most urgent has moved on, even if no worker runs."""
        now, clock = self.now(), time.monotonic()
        for request in self.shelves[View.WAITING].rows[:PAGE]:
            late = request.due_at is not None and request.due_at <= now
            if late and clock - self._settled.get(request.id, -60.0) >= 30:
                self._settled[request.id] = clock
                self.put(await settle_overdue(self.desk.store, request))

    def brief(self, request: Request) -> Briefing:
        """The briefing of a request, made once per version. Times left are counted from its moments, not its words."""
        beyond = self.inbox.beyond(request) if self._desk is not None else ()
        key = (request.version, request.candidate.permit_digest, beyond)
        known = self._briefs.get(request.id)
        if known is not None and known[0] == key:
            return known[1]
        if len(self._briefs) >= _BRIEFINGS_KEPT:
            self._briefs.clear()
        made = brief(request, self.now(), beyond)
        self._briefs[request.id] = (key, made)
        return made


def _expect_file(settings: Settings) -> None:
    if not settings.server and not settings.is_postgres and not Path(settings.database).exists():
        raise StoreMissing(f"no database at {settings.database} yet; it appears when an agent opens a gate")


def _matches(request: Request, text: str) -> bool:
    text = text.casefold()
    candidate = request.candidate
    places = (candidate.says, candidate.action.name, request.ask.candidate.says)
    return any(text in place.casefold() for place in places) or request.code.startswith(text)
