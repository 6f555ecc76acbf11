"""A change made under row locks, in two round trips; and how a commit that was interrupted is cleared up.

A write is known by the token it leaves on the request. After a lost connection the request is locked and looked at:
with our token on it, the write took effect. Otherwise the step is taken again on what is there. That moves the
version on (or takes the id, for a new request), so the lost write, should it still be on its way, finds no ground.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from assent.core.change import Change
from assent.core.grant import Grant
from assent.core.request import Request
from assent.errors import StaleRequest, StoreError
from assent.ports import Step, View
from assent.stores import rows
from assent.stores.postgres.clock import EstimatedClock
from assent.stores.postgres.connect import Connection, Connector, Unreachable, is_lost, translated
from assent.stores.postgres.writes import SQL, Interrupted, change_write, changes_text, when

PATIENCE = 5.0
"""Seconds for which a server that was there a moment ago is waited for."""


@dataclass(slots=True)
class Attempt:
    """One change to be made, and earlier writes of it that may have taken effect, by their token."""

    workspace: str
    request_id: str | None
    step: Step
    grants: Sequence[str] = ()
    lost: dict[str, Change] = field(default_factory=dict)
    made: Change | None = None
    """The last change that was tried."""


async def make(attempt: Attempt, connector: Connector, clock: EstimatedClock) -> tuple[Change | None, dict[str, int]]:
    """The change, committed, and what watchers are to hear of it."""
    end = time.monotonic() + PATIENCE
    interrupted = bool(attempt.lost)
    while True:
        try:
            async with connector.borrowed() as connection:
                return await _or_undone(attempt, connection, clock, connector.where)
        except Interrupted:
            interrupted = True
            failure = unknown(connector.where) if attempt.lost else unreachable(connector.where)
        except psycopg.errors.UniqueViolation:
            # It may be our own lost write that was there first; then its token shows it.
            if not attempt.lost:
                raise
            failure = unknown(connector.where)
        except Unreachable as error:
            if not interrupted:
                raise
            failure = unknown(connector.where) if attempt.lost else error
        if time.monotonic() > end:
            raise failure
        await asyncio.sleep(0.05)


async def _or_undone(
    attempt: Attempt, connection: Connection, clock: EstimatedClock, where: str
) -> tuple[Change | None, dict[str, int]]:
    """As `_make`; whatever it raises, the transaction is over."""
    try:
        return await _make(attempt, connection, clock)
    except psycopg.Error as error:
        if is_lost(error, connection):
            await connection.close()
            raise Interrupted from None
        await _roll_back(connection)
        if isinstance(error, psycopg.errors.UniqueViolation):
            raise
        raise translated(error, where) from None
    except BaseException:
        await _roll_back(connection)
        raise


async def _roll_back(connection: Connection) -> None:
    """Nothing of the transaction remains; if the connection is gone, neither does that."""
    try:
        await connection.execute("ROLLBACK")
    except psycopg.Error:
        await connection.close()


async def _make(
    attempt: Attempt, connection: Connection, clock: EstimatedClock
) -> tuple[Change | None, dict[str, int]]:
    workspace = attempt.workspace
    locked = attempt.request_id or next((lost.request.id for lost in attempt.lost.values() if lost.request), None)
    sent = time.monotonic()
    async with connection.pipeline():
        await connection.execute("BEGIN")
        row_cursor = grant_cursor = None
        if locked is not None:
            key = {"workspace": workspace, "id": locked}
            row_cursor = await connection.execute(SQL["lock_request"], key, prepare=True)
        if attempt.grants:
            names = {"workspace": workspace, "ids": list(attempt.grants)}
            grant_cursor = await connection.execute(SQL["lock_grants"], names, prepare=True)
        # After the locks, in its own statement: a clock read before a wait would be behind.
        clock_cursor = await connection.execute(SQL["clock"], prepare=True)
    row = await row_cursor.fetchone() if row_cursor is not None else None
    held = await grant_cursor.fetchall() if grant_cursor is not None else []
    now = (await clock_cursor.fetchall())[0][0]
    clock.learn(now, sent)
    if row is not None and row[3] in attempt.lost:
        await connection.execute("ROLLBACK")
        change = attempt.lost[row[3]]
        return change, news_of(change)
    current = None
    if row is not None and attempt.request_id is not None:
        current = rows.read_request(rows.read_ask(row[0], row[2]), row[1])
    change_made = attempt.step(View(now, current, _in_order(attempt.grants, held)))
    if change_made is None:
        await connection.execute("ROLLBACK")
        return None, {}
    await _write(attempt, connection, change_made)
    return change_made, news_of(change_made)


async def _write(attempt: Attempt, connection: Connection, change: Change) -> None:
    """The change is committed."""
    attempt.made = change
    write = change_write(attempt.workspace, change)
    attempt.lost[write.token] = change
    try:
        if change.grants:
            await _put_grants(connection, attempt.workspace, change.grants)
        async with connection.pipeline():
            cursor = await connection.execute(SQL["commit"], changes_text([write]), prepare=True)
            # Whether it took effect or not: it is all or nothing, and so is this commit.
            if not change.grants:
                await connection.execute("COMMIT")
        (((effect,), _),) = await cursor.fetchall()
        if not effect:
            raise stale(change.request)
        if change.grants:
            await connection.execute("COMMIT")
    except BaseException as error:
        if not is_lost(error, connection):
            # The server answered: it was rolled back, or had no effect.
            del attempt.lost[write.token]
        elif change.request is None:
            # It leaves no token by which it could be found again.
            raise unknown("the database") from None
        raise


async def _put_grants(connection: Connection, workspace: str, grants: Sequence[Grant]) -> None:
    for grant in grants:
        if grant.workspace != workspace:
            raise StoreError("a grant belongs to another workspace than its change; report this")
        name = "insert_grant" if grant.version == 1 else "update_grant"
        try:
            cursor = await connection.execute(SQL[name], rows.grant_columns(grant, when), prepare=True)
            stale_grant = cursor.rowcount != 1
        except psycopg.errors.UniqueViolation:
            stale_grant = True
        if stale_grant:
            raise StaleRequest(
                f"grant {grant.id} changed since it was read; look at it again", request_id="", code="", state=""
            )
        notice = {"notice": f"{workspace} grant:{grant.id} {grant.version}"}
        await connection.execute(SQL["notify"], notice, prepare=True)


def _in_order(names: Sequence[str], held: list[Any]) -> tuple[Grant, ...]:
    found = {key: rows.read_grant(text, key) for text, key in held}
    return tuple(found[name] for name in names if name in found)


def news_of(change: Change) -> dict[str, int]:
    """What watchers hear of a change."""
    news = {f"grant:{grant.id}": grant.version for grant in change.grants}
    if change.request is not None:
        news[change.request.id] = change.request.version
    return news


def stale(request: Request | None) -> StaleRequest:
    """The request is no longer what the change was made from."""
    code, key, state = (request.code, request.id, str(request.state)) if request is not None else ("", "", "")
    return StaleRequest(
        f"request {code} changed since it was read; look at it again", request_id=key, code=code, state=state
    )


def unknown(where: str) -> StoreError:
    """Nobody can say whether the last commit took effect."""
    return StoreError(
        f"the connection to {where} was lost while committing, and whether it took effect is unknown; "
        "look at the request before doing anything again"
    )


def unreachable(where: str) -> StoreError:
    return StoreError(f"{where} cannot be reached; see that PostgreSQL runs there, then try again")
