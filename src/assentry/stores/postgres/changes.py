"""Changes made without locks where that can be done: on the request as last seen, committed only if that was right.

Two round trips (look, commit), or one if the caller has looked already. Where others are quicker time and again, and
where grants are used, locks are taken.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from assentry.core.change import Change
from assentry.core.request import Request
from assentry.errors import Conflict, DuplicateStep
from assentry.ports import View
from assentry.stores import rows
from assentry.stores.handoff import Ticket
from assentry.stores.hands import Hands
from assentry.stores.postgres.connect import Connector, Deadlocked, Interrupted, Link, unknown
from assentry.stores.postgres.locked import Attempt, make
from assentry.stores.postgres.writers import Writers
from assentry.stores.postgres.writes import FAR, LONG_AGO, SQL, Write, change_write, guard_of, news_of

TRIES = 3
"""How often a change is tried without locks."""


class NeedsLocks(Exception):
    """It cannot be done without."""


class Outdated(Exception):
    """What was seen is not what there is, or may not be."""


@dataclass(frozen=True, slots=True)
class Made:
    """A change made of a view, and the statement that commits it."""

    change: Change
    view: View
    write: Write


class Changes:
    """Takes steps and commits what they make of the current state."""

    def __init__(
        self, connector: Connector, hands: Hands[Link], writers: Writers, tell: Callable[[Mapping[str, int]], None]
    ) -> None:
        self._connector, self._hands, self._writers, self._tell = connector, hands, writers, tell

    async def make(self, attempt: Attempt, hint: Request | None) -> Change | None:
        """The change, committed. The server undoes the whole of what ends a deadlock, so that is simply made again."""
        for _ in range(TRIES):
            with suppress(Deadlocked):
                return await self._made(attempt, hint)
        return await self._made(attempt, None)

    async def _made(self, attempt: Attempt, hint: Request | None) -> Change | None:
        try:
            if not attempt.grants and attempt.run is None:
                return await self._unlocked(attempt, hint)
        except NeedsLocks:
            pass
        try:
            made: Change | None = await self._hands.submit(lambda link: make(attempt, link)).future
        except psycopg.errors.UniqueViolation:
            raise await self._taken(attempt) from None
        if made is not None:
            self._tell(news_of(made))
        return made

    async def _unlocked(self, attempt: Attempt, hint: Request | None) -> Change | None:
        if attempt.request_id is None:
            return await self._committed(attempt, View(self._connector.clock.now(), None), trusted=True)
        now = self._connector.clock.now()
        fits = hint is not None and hint.id == attempt.request_id and not hint.purged
        if hint is not None and fits and (hint.due_at is None or now < hint.due_at):
            try:
                return await self._committed(attempt, View(now, hint), trusted=False)
            except Outdated:
                pass
        for _ in range(TRIES):
            try:
                if self._writers.idle:
                    return await self._at_once(attempt)
                view: View = await self._hands.submit(lambda link: look(attempt, link)).future
                return await self._committed(attempt, view, trusted=True)
            except Outdated:
                continue
        raise NeedsLocks

    async def _committed(self, attempt: Attempt, view: View, *, trusted: bool) -> Change | None:
        """The change that the step makes of `view`, if that is still how things are."""
        made = prepared(attempt, view, trusted=trusted)
        if made is None:
            return None
        ticket = self._writers.submit(made.write)
        with suppress(Exception):
            await ticket.future
        return await self._effect(attempt, made, ticket)

    async def _at_once(self, attempt: Attempt) -> Change | None:
        """The same with looking before it, all on one thread: where nobody shares the commit, the quickest way."""
        ticket = Ticket()

        def errand(link: Link) -> Made | None:
            made = prepared(attempt, look(attempt, link), trusted=True)
            if made is not None:
                made.write.ticket = ticket
                if news := self._writers.commit(link, [made.write]):
                    self._tell(news)
            return made

        made: Made | None = await self._hands.submit(errand).future
        return None if made is None else await self._effect(attempt, made, ticket)

    async def _effect(self, attempt: Attempt, made: Made, ticket: Ticket) -> Change:
        """The change, if the statement took effect."""
        change, view = made.change, made.view
        match ticket.error:
            case None:
                pass
            case Interrupted():
                if change.request is None:
                    raise unknown(self._connector.where)
                attempt.lost[made.write.token] = change
                raise NeedsLocks
            case psycopg.errors.UniqueViolation():
                raise await self._taken(attempt)
            case error:
                raise error
        if not ticket.value:
            # A change that no view can lead to is refused for good where the row is locked.
            raise Outdated if change.request is not None and view.request is not None else NeedsLocks
        return change

    async def _taken(self, attempt: Attempt) -> Exception:
        """What stood in the way of an insert, in our words."""
        assert attempt.made is not None  # noqa: S101  something was tried, or nothing could have been in its way
        request = attempt.made.request
        assert request is not None  # noqa: S101  only requests have ids and steps of their own
        ask = request.ask
        if not attempt.made.new:
            return rows.asked_already(request)
        name, key = (
            "by_step",
            {"workspace": attempt.workspace, "run": rows.column(ask.run), "step": rows.column(ask.step)},
        )
        if not ask.run and not ask.step:
            name, key = "by_content", {"workspace": attempt.workspace, "agent": rows.column(ask.agent)}
            key["step"] = rows.step_of(ask)
        found = await self._hands.submit(lambda link: link.fetch(SQL[name], key)).future
        if not found:
            return Conflict(
                f"there is a request with the id {ask.id} already, or the one that asked for the same was decided just "
                "now; propose again",
                request_id=ask.id, code=ask.code, state=str(request.state),
            )  # fmt: skip
        text, body, other = found[0]
        first = rows.read_request(rows.read_ask(text, other), body)
        return DuplicateStep(
            f"request {first.code} asks for this already; wait for that one",
            request_id=first.id, code=first.code, state=str(first.state),
        )  # fmt: skip


def prepared(attempt: Attempt, view: View, *, trusted: bool) -> Made | None:
    """What the step makes of `view`, ready to be committed if that is still how things are.

    The statement takes effect only on the version that was seen, and only if no deadline lies between the view's
    clock and the database's. Nobody has looked at the switches, so the statement does. What a step refuses on a view
    that was not read just now may be out of date, so such a refusal is never believed.
    """
    try:
        change = attempt.step(view)
    except BaseException:
        if trusted:
            raise
        raise Outdated from None
    if change is None:
        if trusted:
            return None
        raise Outdated
    if change.grants or change.run is not None or change.switch is not None or change.credentials or change.proposal:
        raise NeedsLocks
    guard = (LONG_AGO, FAR) if view.request is None else guard_of(view.request, view.now)
    attempt.made = change
    return Made(change, view, change_write(attempt.workspace, change, guard, attempt.agent, attempt.policy))


def look(attempt: Attempt, link: Link) -> View:
    """The request as it is, with the database's clock."""
    sent = time.monotonic()
    key = {"workspace": attempt.workspace, "id": rows.column(attempt.request_id or "")}
    found = link.fetch(SQL["look"], key)
    link.connector.clock.learn(found[0][3], sent)
    text, body, key_found, now = found[0]
    request = None if key_found is None else rows.read_request(rows.read_ask(text, key_found), body)
    return View(now, request)
