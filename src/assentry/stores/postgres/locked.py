"""A change made under row locks; and how a commit that was interrupted is cleared up.

A write is known by the token it leaves on the request. After a lost connection the request is locked and looked at:
with our token on it, the write took effect. Otherwise the step is taken again on what is there. That moves the
version on (or takes the id, for a new request), so the lost write, should it still be on its way, finds no ground.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from assentry.core.change import Change
from assentry.core.grant import Grant
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.request import Request
from assentry.core.run import Run, RunState
from assentry.core.switch import EVERYTHING
from assentry.errors import PolicyMoved, StaleRequest, StoreError
from assentry.ports import Step, View
from assentry.stores import rows
from assentry.stores.postgres.connect import (
    Connection,
    Interrupted,
    Link,
    Unreachable,
    is_lost,
    translated,
    unknown,
    unreachable,
)
from assentry.stores.postgres.writes import SQL, change_write, changes_text, when

PATIENCE = 5.0
"""Seconds for which a server that was there a moment ago is waited for."""


@dataclass(slots=True)
class Attempt:
    """One change to be made, and earlier writes of it that may have taken effect, by their token."""

    workspace: str
    request_id: str | None
    step: Step
    grants: Sequence[str] = ()
    run: str | None = None
    awaiting: Sequence[str] = ()
    agent: str = ""
    policy: int | None = None
    lost: dict[str, Change] = field(default_factory=dict)
    made: Change | None = None
    """The last change that was tried."""


def make(attempt: Attempt, link: Link) -> Change | None:
    """The change, committed."""
    where = link.connector.where
    end = time.monotonic() + PATIENCE
    interrupted = bool(attempt.lost)
    while True:
        try:
            return _or_undone(attempt, link)
        except Interrupted:
            interrupted = True
            failure = unknown(where) if attempt.lost else unreachable(where)
        except psycopg.errors.UniqueViolation:
            # It may be our own lost write that was there first; then its token shows it.
            if not attempt.lost:
                raise
            failure = unknown(where)
        except Unreachable as error:
            if not interrupted:
                raise
            failure = unknown(where) if attempt.lost else error
        if time.monotonic() > end:
            raise failure
        time.sleep(0.05)


def _or_undone(attempt: Attempt, link: Link) -> Change | None:
    """As `_make`; whatever it raises, the transaction is over."""
    connection = link.connection()
    try:
        return _make(attempt, link, connection)
    except psycopg.Error as error:
        if is_lost(error, connection):
            link.drop()
            raise Interrupted from None
        _roll_back(link, connection)
        if isinstance(error, psycopg.errors.UniqueViolation):
            raise
        raise translated(error, link.connector.where) from None
    except BaseException:
        _roll_back(link, connection)
        raise


def _roll_back(link: Link, connection: Connection) -> None:
    """Nothing of the transaction remains; if the connection is gone, neither does that."""
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        link.drop()


def _make(attempt: Attempt, link: Link, connection: Connection) -> Change | None:
    workspace = attempt.workspace
    locked = attempt.request_id or next((lost.request.id for lost in attempt.lost.values() if lost.request), None)
    row, held = None, []
    connection.execute("BEGIN")
    if attempt.policy is not None:
        # Before any row is locked, so that nobody who changes the policy waits for a row that somebody behind it has.
        shared = {"workspace": workspace}
        ((version,),) = connection.execute(SQL["share_policy"], shared, prepare=True).fetchall()
        if version != attempt.policy and not attempt.lost:
            raise PolicyMoved(attempt.policy)
    if locked is not None:
        key = {"workspace": workspace, "id": locked}
        row = connection.execute(SQL["lock_request"], key, prepare=True).fetchone()
    if attempt.grants:
        names = {"workspace": workspace, "ids": list(attempt.grants)}
        held = connection.execute(SQL["lock_grants"], names, prepare=True).fetchall()
    if attempt.awaiting:
        # Before the run, as whoever decides one of them takes them: first the request, then its run.
        held_still = {"workspace": workspace, "requests": list(attempt.awaiting)}
        connection.execute(SQL["hold_still"], held_still, prepare=True)
    run = _locked_run(attempt, connection)
    # After the locks, in its own statement: a clock read before a wait would be behind.
    sent = time.monotonic()
    who = {"workspace": workspace, "agents": [rows.column(attempt.agent), EVERYTHING] if attempt.agent else []}
    ((now, found),) = connection.execute(SQL["clock_and_switches"], who, prepare=True).fetchall()
    link.connector.clock.learn(now, sent)
    if row is not None and row[3] in attempt.lost:
        connection.execute("ROLLBACK")
        return attempt.lost[row[3]]
    current = None
    if row is not None and attempt.request_id is not None:
        current = rows.read_request(rows.read_ask(row[0], row[2]), row[1])
    switches = tuple(switch for text in found if (switch := rows.read_switch(text, attempt.agent)).is_held)
    change = attempt.step(View(now, current, _in_order(attempt.grants, held), run, switches))
    if change is None:
        connection.execute("ROLLBACK")
    else:
        _write(attempt, connection, change)
    return change


def _write(attempt: Attempt, connection: Connection, change: Change) -> None:
    """The change is committed."""
    attempt.made = change
    write = change_write(attempt.workspace, change, policy=attempt.policy)
    _put_grants(connection, attempt.workspace, change.grants)
    _put_run(connection, attempt.workspace, change)
    _put_switch(connection, change)
    _put_credentials(connection, change)
    if change.proposal is not None:
        put_proposal(connection, change.proposal)
    (((effect,), _),) = connection.execute(SQL["commit"], changes_text(write), prepare=True).fetchall()
    if not effect:
        raise stale(change.request)
    # Until here a lost connection means that nothing happened; from here on nobody knows.
    attempt.lost[write.token] = change
    try:
        connection.execute("COMMIT")
    except psycopg.Error as error:
        if not is_lost(error, connection):
            del attempt.lost[write.token]
        elif change.request is None:
            # It leaves no token by which it could be found again.
            raise unknown("the database") from None
        raise


def _locked_run(attempt: Attempt, connection: Connection) -> Run | None:
    if attempt.run is None:
        return None
    key = {"workspace": attempt.workspace, "id": rows.column(attempt.run)}
    row = connection.execute(SQL["lock_run"], key, prepare=True).fetchone()
    return None if row is None else rows.read_run(*row)


def _put_run(connection: Connection, workspace: str, change: Change) -> None:
    run = change.run
    if run is None:
        return
    if run.workspace != workspace:
        raise StoreError("a change belongs to another workspace than the one it was made in; report this")
    row = rows.run_columns(run, when)
    key = {"workspace": workspace, "id": run.id}
    if run.waits and run.state is RunState.PARKED:
        wanted = {"workspace": workspace, "requests": list(run.waits), "wanted": len(set(run.waits))}
        ((row["wakeable"],),) = connection.execute(SQL["is_decided"], wanted, prepare=True).fetchall()
    try:
        name = "insert_run" if change.new_run else "update_run"
        stale_run = connection.execute(SQL[name], row, prepare=True).rowcount != 1
    except psycopg.errors.UniqueViolation:
        stale_run = True
    if stale_run:
        raise StaleRequest(
            f"run {run.code} changed since it was read; look at it again",
            request_id=run.id, code=run.code, state=str(run.state),
        )  # fmt: skip
    if not change.new_run:
        connection.execute(SQL["forget_waits"], key, prepare=True)
    for request in run.waits:
        connection.execute(SQL["wait_for"], {**key, "request": request}, prepare=True)
    if change.snapshot is not None:
        connection.execute(SQL["put_snapshot"], {**key, "text": change.snapshot}, prepare=True)
    connection.execute(SQL["notify"], {"notice": f"{workspace} run:{run.id} {run.version}"}, prepare=True)


def _put_switch(connection: Connection, change: Change) -> None:
    switch = change.switch
    if switch is None:
        return
    if connection.execute(SQL["put_switch"], rows.switch_columns(switch), prepare=True).rowcount != 1:
        raise StaleRequest("the switch was set by somebody else just now", request_id="", code="", state="")
    notice = {"notice": f"{switch.workspace} switch:set {switch.version}"}
    connection.execute(SQL["notify"], notice, prepare=True)


def _put_credentials(connection: Connection, change: Change) -> None:
    for credential in change.credentials:
        name = "insert_credential" if credential.version == 1 else "update_credential"
        if connection.execute(SQL[name], rows.credential_columns(credential, when), prepare=True).rowcount != 1:
            raise rows.stale_credential(credential)
        if credential.is_proof:
            notice = {"notice": f"{credential.workspace} identity:set {credential.version}"}
            connection.execute(SQL["notify"], notice, prepare=True)


def put_proposal(connection: Connection, proposal: PolicyProposal) -> None:
    """It waits, or ends if it did."""
    name, row = rows.proposal_write(proposal)
    if connection.execute(SQL[name], row, prepare=True).rowcount != 1:
        raise rows.stale_proposal(proposal)


def _put_grants(connection: Connection, workspace: str, grants: Sequence[Grant]) -> None:
    for grant in grants:
        if grant.workspace != workspace:
            raise StoreError("a grant belongs to another workspace than its change; report this")
        name = "insert_grant" if grant.version == 1 else "update_grant"
        try:
            cursor = connection.execute(SQL[name], rows.grant_columns(grant, when), prepare=True)
            stale_grant = cursor.rowcount != 1
        except psycopg.errors.UniqueViolation:
            stale_grant = True
        if stale_grant:
            raise StaleRequest(
                f"grant {grant.id} changed since it was read; look at it again", request_id="", code="", state=""
            )
        notice = {"notice": f"{workspace} grant:{grant.id} {grant.version}"}
        connection.execute(SQL["notify"], notice, prepare=True)


def _in_order(names: Sequence[str], held: list[Any]) -> tuple[Grant, ...]:
    found = {key: rows.read_grant(text, key) for text, key in held}
    return tuple(found[name] for name in names if name in found)


def stale(request: Request | None) -> StaleRequest:
    """The request is no longer what the change was made from."""
    code, key, state = (request.code, request.id, str(request.state)) if request is not None else ("", "", "")
    return StaleRequest(
        f"request {code} changed since it was read; look at it again", request_id=key, code=code, state=state
    )
