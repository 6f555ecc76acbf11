"""The store on PostgreSQL. Every method may be awaited on any event loop, in any thread."""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from assent.core.audit import Entry
from assent.core.change import Change
from assent.core.grant import Grant
from assent.core.request import Request
from assent.errors import AssentError, Conflict, DuplicateStep, StoreError
from assent.ports import Filter, Logged, Page, Signed, Step, StoredPolicy, View
from assent.stores import rows
from assent.stores.listing import Dialect, beyond, listing
from assent.stores.postgres.connect import Connection, Connector, address
from assent.stores.postgres.locked import Attempt, make
from assent.stores.postgres.room import Room
from assent.stores.postgres.writes import (
    FAR,
    LONG_AGO,
    SQL,
    Interrupted,
    change_write,
    changes_text,
    guard_of,
    when,
)
from assent.stores.retention import purged
from assent.stores.rows import NEVER, moment
from assent.stores.statements import script

log = logging.getLogger(__name__)

PURGED_AT_ONCE = 200
CLOSE_SECONDS = 10
Notice = Callable[[Mapping[str, int] | None], None]


def _time(value: int) -> datetime:
    return LONG_AGO if value < 0 else moment(value) or FAR


DIALECT = Dialect(
    bound="%({})s",
    contains="strpos({}, {}) > 0",
    ended="r.ended",
    open="NOT r.ended",
    same="a.workspace = r.workspace AND a.id = r.id",
    newest="requests_pkey",
    hint="",
    when=_time,
)


class PostgresStore:
    """State, entries and wake-ups in the database at `url`."""

    def __init__(self, url: str, *, busy_seconds: float = 5.0, connections: int = 4, writers: int = 2) -> None:
        self._url, self._busy_seconds, self._connections, self._writers = url, busy_seconds, connections, writers
        self._address = address(url)
        self._lock = threading.Lock()
        self._room: Room | None = None
        self._process = 0
        self._notices: tuple[Notice, ...] = ()
        self._closed = False

    @property
    def address(self) -> str:
        return self._address

    async def open(self) -> None:
        self._closed = False
        room = self._entered()
        await room.home.run(room.open).future

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            room, self._room = self._room, None
        if room is not None:
            try:
                await room.home.run(room.close).future
            finally:
                room.home.stop()
                await asyncio.to_thread(room.home.thread.join)

    async def create_roles(self) -> None:
        """The group roles `assent_agent` and `assent_reviewer` exist and may do what their members need."""
        room = self._entered()

        async def work(connection: Connection) -> None:
            await connection.execute(script("postgres", "roles.sql").encode(), prepare=False)

        await room.run(lambda: room.transaction(work)).future

    async def identity(self) -> str:
        return str((await self._fetch("identity", {}))[0][0])

    async def now(self) -> datetime:
        now: datetime = (await self._fetch("clock", {}))[0][0]
        return now

    async def transact(
        self,
        workspace: str,
        request_id: str | None,
        step: Step,
        *,
        grants: Sequence[str] = (),
        hint: Request | None = None,
    ) -> Change | None:
        room = self._entered()
        if not room.opened:
            await room.home.run(room.open).future
        attempt = Attempt(workspace, request_id, step, grants)
        if not grants and (request_id is None or (hint is not None and hint.id == request_id)):
            at_once = await self._at_once(room, attempt, hint if request_id is not None else None)
            if at_once is not None:
                return at_once
        change: Change | None
        try:
            change, news = await room.run(lambda: make(attempt, room.connector, room.clock)).future
        except psycopg.errors.UniqueViolation:
            raise await self._taken(attempt) from None
        if news:
            self._tell(news)
        return change

    async def _at_once(self, room: Room, attempt: Attempt, hint: Request | None) -> Change | None:
        """The change, committed in one round trip; none if that cannot be done and locks have to be taken.

        The step is taken on the request as last seen, at an estimated time. The statement takes effect only if
        that request is current and no deadline lies between the estimate and the database's clock. What the step
        refuses on such grounds may be out of date, so a refusal is never believed here.
        """
        now = room.clock.now()
        if hint is not None and (hint.purged or (hint.due_at is not None and hint.due_at <= now)):
            return None
        try:
            change = attempt.step(View(now, hint))
        except AssentError:
            return None
        if change is None or change.request is None or change.grants or change.new is (hint is not None):
            return None
        guard = (LONG_AGO, FAR) if hint is None else guard_of(hint, now)
        write = change_write(attempt.workspace, change, guard)
        try:
            matched: bool = await room.writers.submit(write).future
        except Interrupted:
            attempt.lost[write.token] = change
            return None
        except psycopg.errors.UniqueViolation:
            attempt.made = change
            raise await self._taken(attempt) from None
        return change if matched else None

    async def _taken(self, attempt: Attempt) -> Exception:
        """What stood in the way of an insert, in our words."""
        request = attempt.made.request if attempt.made is not None else None
        if request is None:
            return StoreError("a row of that name exists already; look before doing anything again")
        ask = request.ask
        found = await self.by_step(attempt.workspace, ask.run, ask.step)
        if found is None:
            return Conflict(
                f"there is a request with the id {ask.id} already; propose again",
                request_id=ask.id, code=ask.code, state=str(request.state),
            )  # fmt: skip
        return DuplicateStep(
            f"this step of this run has request {found.code} already; wait for that one",
            request_id=found.id, code=found.code, state=str(found.state),
        )  # fmt: skip

    async def request(self, workspace: str, request_id: str) -> Request | None:
        found = await self._requests("read_request", {"workspace": workspace, "id": rows.column(request_id)})
        return found[0] if found else None

    async def find(self, workspace: str, prefix: str, limit: int = 10) -> tuple[Request, ...]:
        start = rows.column(prefix)
        values = {"workspace": workspace, "prefix": start, "beyond": beyond(start), "limit": limit}
        return await self._requests("find", values)

    async def by_step(self, workspace: str, run: str, step: str) -> Request | None:
        if not run or not step:
            return None
        values = {"workspace": workspace, "run": rows.column(run), "step": rows.column(step)}
        found = await self._requests("by_step", values)
        return found[0] if found else None

    async def requests(self, workspace: str, wanted: Filter, *, after: str = "", limit: int = 50) -> Page:
        query = listing(workspace, wanted, after, limit, DIALECT)
        return query.page(await self._query(query.sql.encode(), query.values))

    async def due(self, workspace: str, limit: int = 100) -> tuple[Request, ...]:
        return await self._requests("due", {"workspace": workspace, "limit": limit})

    async def next_due(self, workspace: str) -> datetime | None:
        found = await self._fetch("next_due", {"workspace": workspace})
        return found[0][0] if found else None

    async def runnable(self, workspace: str, actions: Sequence[str], limit: int = 10) -> tuple[Request, ...]:
        wanted = [rows.column(action) for action in dict.fromkeys(actions)]
        return await self._requests("runnable", {"workspace": workspace, "actions": wanted, "limit": limit})

    async def policy(self, workspace: str) -> StoredPolicy | None:
        found = await self.policies(workspace, 1)
        return found[0] if found else None

    async def policies(self, workspace: str, limit: int = 20) -> tuple[StoredPolicy, ...]:
        found = await self._fetch("policy", {"workspace": workspace, "limit": limit})
        return tuple(StoredPolicy(*row) for row in found)

    async def apply_policy(
        self, workspace: str, text: str, by: str, entry: Callable[[int, datetime], Entry]
    ) -> StoredPolicy:
        async def work(connection: Connection) -> tuple[StoredPolicy, str]:
            key: dict[str, Any] = {"workspace": workspace, "limit": 1}
            await connection.execute(SQL["lock_policy"], key)
            latest = await (await connection.execute(SQL["policy"], key)).fetchone()
            now = (await (await connection.execute(SQL["clock"])).fetchall())[0][0]
            policy = StoredPolicy(latest[0] + 1 if latest else 1, text, by, now)
            values = {"version": policy.version, "text": text, "applied_by": by, "applied_at": now}
            await connection.execute(SQL["insert_policy"], key | values)
            written = entry(policy.version, now)
            news = rows.notice_key("policy", written.subject)
            await _log(connection, workspace, written)
            await connection.execute(SQL["notify"], {"notice": f"{workspace} {news} {policy.version}"})
            return policy, news

        room = self._entered()
        policy: StoredPolicy
        policy, news = await room.run(lambda: room.transaction(work)).future
        self._tell({news: policy.version})
        return policy

    async def grants(self, workspace: str, *, live_only: bool = True) -> tuple[Grant, ...]:
        found = await self._fetch("live_grants" if live_only else "all_grants", {"workspace": workspace})
        return tuple(rows.read_grant(text, key) for text, key in found)

    def record(self, entry: Callable[[], Entry]) -> None:
        self._entered().recorder.record(entry)

    async def flush(self) -> None:
        room = self._entered()
        await room.run(room.flush).future

    async def sequence(self, workspace: str) -> int:
        key = {"workspace": workspace}

        async def work(connection: Connection) -> None:
            async with connection.pipeline():
                await connection.execute(SQL["lock_sequence"], key, prepare=True)
                await connection.execute(SQL["sequence"], key, prepare=True)

        room = self._entered()
        if (await self._fetch("has_fresh", key))[0][0]:
            await room.run(lambda: room.transaction(work)).future
        return int((await self._fetch("next_index", key))[0][0])

    async def entries(
        self, workspace: str, *, start: int = 0, limit: int = 1000, subject: str = "", newest_first: bool = False
    ) -> tuple[Logged, ...]:
        name = ("entries_of" if subject else "entries") + ("_back" if newest_first else "")
        values: dict[str, Any] = {"workspace": workspace, "limit": limit, "start": start}
        if newest_first and not start:
            values["start"] = NEVER
        if subject:
            values["subject"] = rows.column(subject)
        return tuple(Logged(*row) for row in await self._fetch(name, values))

    async def put_checkpoint(self, signed: Signed) -> None:
        values = {
            "workspace": signed.workspace, "size": signed.size, "text": signed.text, "key_id": signed.key_id,
            "signature": signed.signature,
        }  # fmt: skip

        async def work(connection: Connection) -> None:
            await connection.execute(SQL["put_checkpoint"], values)

        room = self._entered()
        await room.run(lambda: room.transaction(work)).future

    async def checkpoints(self, workspace: str) -> tuple[Signed, ...]:
        return tuple(Signed(*row) for row in await self._fetch("checkpoints", {"workspace": workspace}))

    async def purge(self, workspace: str, ended_before: datetime, entry: Callable[[int, datetime], Entry]) -> int:
        values: dict[str, Any] = {"workspace": workspace, "before": ended_before, "limit": PURGED_AT_ONCE}
        values |= {"changed_at": LONG_AGO, "id": ""}

        async def work(connection: Connection) -> tuple[dict[str, int], bool]:
            now = (await (await connection.execute(SQL["clock"])).fetchall())[0][0]
            found = await (await connection.execute(SQL["purgeable"], values)).fetchall()
            news: dict[str, int] = {}
            for ask, body, key, _ in found:
                request = rows.read_request(rows.read_ask(ask, key), body)
                if request.undo_until is None or request.undo_until <= now:
                    stub = purged(request)
                    await connection.execute(SQL["purge_ask"], rows.all_columns(stub, when))
                    write = change_write(workspace, Change(stub))
                    await connection.execute(SQL["commit"], changes_text([write]), prepare=True)
                    news[stub.id] = stub.version
            if news:
                await _log(connection, workspace, entry(len(news), now))
            if found:
                values["id"], values["changed_at"] = found[-1][2:]
            return news, len(found) == PURGED_AT_ONCE

        room = self._entered()
        total, more = 0, True
        while more:
            news, more = await room.run(lambda: room.transaction(work)).future
            total += len(news)
            if news:
                self._tell(news)
        return total

    def watch(self, notice: Notice) -> Callable[[], None]:
        room = self._entered()
        with self._lock:
            self._notices = (*self._notices, notice)
        room.listen()

        def stop() -> None:
            with self._lock:
                self._notices = tuple(other for other in self._notices if other is not notice)

        return stop

    async def backup(self, target: str) -> None:
        raise StoreError(
            f"a PostgreSQL database is copied with its own tool: `pg_dump -Fc -f {target} <address of the database>`"
        )

    async def _fetch(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        return await self._query(SQL[name], values)

    async def _query(self, sql: bytes, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        room = self._entered()
        found: list[tuple[Any, ...]] = await room.run(lambda: room.fetch(sql, values)).future
        return found

    async def _requests(self, name: str, values: dict[str, Any]) -> tuple[Request, ...]:
        return _read_requests(await self._fetch(name, values))

    def _entered(self) -> Room:
        """The room, made if need be; what it needs of the database is opened on its first errand."""
        room = self._room
        if room is not None and self._process == os.getpid():
            return room
        with self._lock:
            if self._closed:
                raise StoreError(f"the store at {self._address} is closed; open it again before using it")
            if self._room is not None and self._process != os.getpid():
                raise StoreError(
                    f"the store at {self._address} was opened before this process was forked, and connections do "
                    "not survive that; open the store in each process"
                )
            if self._room is None:
                self._process = os.getpid()
                connector = Connector(self._url, self._busy_seconds, self._connections)
                self._room = Room(connector, self._tell, self._writers)
                atexit.register(_finish, weakref.ref(self._room))
            return self._room

    def _tell(self, news: Mapping[str, int] | None) -> None:
        for notice in self._notices:
            try:
                notice(news)
            except Exception:
                log.exception("a watcher of the store failed; it stays")


async def _log(connection: Connection, workspace: str, entry: Entry) -> None:
    write = change_write(workspace, Change(entries=(entry,)))
    await connection.execute(SQL["commit"], changes_text([write]), prepare=True)


def _finish(reference: "weakref.ref[Room]") -> None:
    """What was recorded is written before the interpreter ends."""
    room = reference()
    if room is not None and room.home.thread.is_alive() and room.recorder:
        asyncio.run_coroutine_threadsafe(room.flush(), room.home.loop).result(CLOSE_SECONDS)


def _read_requests(found: list[tuple[Any, ...]]) -> tuple[Request, ...]:
    return tuple(rows.read_request(rows.read_ask(ask, key), body) for ask, body, key in found)
