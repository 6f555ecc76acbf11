"""Real logins of a PostgreSQL, and what happens to a request seen from one of them."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from assentry.core.action import Effect, Reach
from assentry.core.advance import advance, opened
from assentry.core.change import Change
from assentry.core.request import Ask, Request
from assentry.core.verdict import GateKind, Ladder
from assentry.ports import View
from assentry.stores.postgres import PostgresStore
from assentry.testing.store_values import WORKSPACE, asked, candidate

LEASE = timedelta(minutes=1)


def ask_for(number: int, gate: GateKind = GateKind.HARD, *, ladder: Ladder | None = None, **more: Any) -> Ask:
    shown = candidate(gate=gate)
    verdict = replace(shown.verdict, ladder=ladder or Ladder(), review_after=True)
    reversible = Effect(reversible=True, reach=Reach.LOCAL)
    shown = replace(shown, verdict=verdict, assessment=replace(shown.assessment, effect=reversible))
    return asked(number, shown=shown, can_undo=True, idempotent=True, **more)


async def propose(store: PostgresStore, ask: Ask) -> Request:
    def step(view: View) -> Change:
        return opened(replace(ask, created_at=view.now), view.now, worker="w", lease=LEASE)

    change = await store.transact(WORKSPACE, None, step)
    assert change is not None
    assert change.request is not None
    return change.request


async def happen(store: PostgresStore, request: Request, event: Any, *, later: timedelta = timedelta()) -> Request:
    """`event` happened to the request, seen from `store`; `later` moves the clock the step is shown."""

    def step(view: View) -> Change | None:
        assert view.request is not None
        return advance(view.request, event, view.now + later)

    change = await store.transact(WORKSPACE, request.id, step)
    assert change is not None
    assert change.request is not None
    return change.request


def owner_login(url: str, name: str) -> str:
    """The address of the same database for a login that owns it and may do nothing elsewhere."""
    with psycopg.connect(url, autocommit=True) as connection:
        with suppress(psycopg.errors.DuplicateObject):
            connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute(f"ALTER DATABASE {urlsplit(url).path[1:]} OWNER TO {name}")
    return as_login(url, name)


def as_login(url: str, name: str) -> str:
    """The address of the same database for another login."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
