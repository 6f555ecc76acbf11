"""The store on PostgreSQL. Every method may be awaited on any event loop, in any thread."""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.grant import Grant
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.proposing import fulfilled
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.errors import StoreError
from assentry.ports import Filter, Logged, Page, Signed, Step, StoredPolicy
from assentry.stores import rows
from assentry.stores.hands import Hands
from assentry.stores.listing import Dialect, beyond
from assentry.stores.postgres.changes import Changes
from assentry.stores.postgres.connect import (
    SCHEMA,
    Connection,
    Connector,
    Link,
    address,
    is_lost,
    translated,
    unknown,
    unreachable,
)
from assentry.stores.postgres.listen import Listener
from assentry.stores.postgres.locked import Attempt, put_proposal
from assentry.stores.postgres.recording import Recording
from assentry.stores.postgres.writers import Writers
from assentry.stores.postgres.writes import FAR, LONG_AGO, SQL, change_write, changes_text, when
from assentry.stores.retention import purged
from assentry.stores.rows import NEVER, micros, moment
from assentry.stores.run_lists import Fetch, RunReads
from assentry.stores.searching import page

log = logging.getLogger(__name__)

PURGED_AT_ONCE = 200
CLOSE_SECONDS = 10
Notice = Callable[[Mapping[str, int] | None], None]
T = TypeVar("T")


def _time(value: int) -> datetime:
    return LONG_AGO if value < 0 else moment(value) or FAR


DIALECT = Dialect(
    bound="%({})s",
    contains="strpos({}, {}) > 0",
    found=(
        "WITH a AS MATERIALIZED (SELECT id, title FROM asks WHERE workspace = {workspace} "
        "AND array_to_tsvector(string_to_array(btrim(title), ' ')) @@ {query}::tsquery) "
        # The limit keeps each of them looked up by its key: there are few.
        "SELECT r.id, r.urgency, r.due_at FROM a CROSS JOIN LATERAL "
        "(SELECT * FROM requests WHERE workspace = {workspace} AND id = a.id LIMIT 1) r WHERE true"
    ),
    sample=(
        "SELECT count(*) FROM (SELECT 1 FROM asks "
        "WHERE array_to_tsvector(string_to_array(btrim(title), ' ')) @@ %(query)s::tsquery LIMIT %(limit)s) f"
    ),
    ended="r.ended",
    open="NOT r.ended",
    same="a.workspace = r.workspace AND a.id = r.id",
    key="r.id, r.urgency, r.due_at",
    titles="CROSS JOIN LATERAL (SELECT title FROM asks WHERE workspace = %(workspace)s AND id = r.id LIMIT 1) a",
    newest="requests_pkey",
    hint="",
    when=_time,
    since=micros,
    query=lambda words: " & ".join(f"'{word}':*" for word in words),
)


class Room:
    """Everything that exists while a store is open."""

    def __init__(self, url: str, busy_seconds: float, hands: int, writers: int, tell: Notice) -> None:
        self.process = os.getpid()
        self.connector = Connector(url, busy_seconds)
        self.hands: Hands[Link] = Hands(
            "assentry-postgres", hands, lambda: Link(self.connector), Link.drop, lambda error: error
        )
        self.writers = Writers(self.connector, tell, writers)
        self.recording = Recording(self.connector)
        self.changes = Changes(self.connector, self.hands, self.writers, tell)
        self.listener: Listener | None = None

    def stop(self) -> list[threading.Thread]:
        """The threads, which end once everything recorded and queued is durable."""
        threads = self.recording.stop() + self.writers.stop() + self.hands.stop()
        if self.listener is not None:
            self.listener.stop()
            threads.append(self.listener.thread)
        return threads


class PostgresStore(RunReads):
    """State, entries and wake-ups in the database at `url`."""

    def __init__(self, url: str, *, busy_seconds: float = 5.0, hands: int = 4, writers: int = 2) -> None:
        self._url, self._busy_seconds, self._hands, self._writers = url, busy_seconds, hands, writers
        self._address = address(url)
        self._lock = threading.Lock()
        self._room: Room | None = None
        self._notices: tuple[Notice, ...] = ()
        self._closed = False

    @property
    def address(self) -> str:
        return self._address

    async def open(self) -> None:
        self._closed = False
        await self._errand(Link.connection)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            room, self._room = self._room, None
        if room is not None:
            for thread in room.stop():
                await asyncio.to_thread(thread.join)

    async def identity(self) -> str:
        return str((await self._fetch("identity", {}))[0][0])

    async def now(self) -> datetime:
        clock = self._entered().connector.clock
        if clock.is_sharp:
            return clock.now()
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
        run: str | None = None,
        awaiting: Sequence[str] = (),
        agent: str = "",
        policy: int | None = None,
    ) -> Change | None:
        room = self._entered()
        if not room.connector.opened:
            await self._errand(Link.connection)
        return await room.changes.make(Attempt(workspace, request_id, step, grants, run, awaiting, agent, policy), hint)

    async def request(self, workspace: str, request_id: str) -> Request | None:
        found = await self._requests("read_request", {"workspace": workspace, "id": rows.column(request_id)})
        return found[0] if found else None

    async def those(self, workspace: str, request_ids: Sequence[str]) -> tuple[Request, ...]:
        return await self._list("those", {"workspace": workspace, "ids": [rows.column(each) for each in request_ids]})

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

    async def similar(self, workspace: str, agent: str, action: str, limit: int = 5) -> tuple[Request, ...]:
        names = {"agent": rows.column(agent), "action": rows.column(action)}
        return await self._requests("similar", {"workspace": workspace, **names, "limit": limit})

    async def requests(self, workspace: str, wanted: Filter, *, after: str = "", limit: int = 50) -> Page:
        found: Page = await self._errand(
            lambda link: page(
                workspace, wanted, after, limit, DIALECT, lambda sql, values: link.fetch(sql.encode(), values)
            )
        )
        return found

    async def due(self, workspace: str, limit: int = 100) -> tuple[Request, ...]:
        return await self._list("due", {"workspace": workspace, "limit": limit})

    async def next_due(self, workspace: str) -> datetime | None:
        found = await self._fetch("next_due", {"workspace": workspace})
        earliest: datetime | None = found[0][0]
        return earliest

    async def runnable(self, workspace: str, actions: Sequence[str], limit: int = 10) -> tuple[Request, ...]:
        wanted = [rows.column(action) for action in dict.fromkeys(actions)]
        return await self._list("runnable", {"workspace": workspace, "actions": wanted, "limit": limit})

    async def overdue_runs(self, workspace: str, limit: int = 100) -> tuple[Run, ...]:
        return await self._some_runs("overdue_runs", {"workspace": workspace, "limit": limit})

    async def policy(self, workspace: str) -> StoredPolicy | None:
        found = await self.policies(workspace, 1)
        return found[0] if found else None

    async def policies(self, workspace: str, limit: int = 20) -> tuple[StoredPolicy, ...]:
        found = await self._fetch("policy", {"workspace": workspace, "limit": limit})
        return tuple(StoredPolicy(*row) for row in found)

    async def apply_policy(
        self,
        workspace: str,
        text: str,
        by: str,
        entry: Callable[[int, datetime], Entry],
        proposal: PolicyProposal | None = None,
    ) -> StoredPolicy:
        def work(connection: Connection) -> tuple[StoredPolicy, str]:
            key: dict[str, Any] = {"workspace": workspace, "limit": 1}
            connection.execute(SQL["lock_policy"], key)
            latest = connection.execute(SQL["policy"], key).fetchone()
            ((now,),) = connection.execute(SQL["clock"]).fetchall()
            policy = StoredPolicy(latest[0] + 1 if latest else 1, text, by, now)
            values = {"version": policy.version, "text": text, "applied_by": by, "applied_at": now}
            connection.execute(SQL["insert_policy"], key | values)
            written = entry(policy.version, now)
            news = rows.notice_key("policy", written.subject)
            _log(connection, workspace, written)
            if proposal is not None:
                put_proposal(connection, fulfilled(proposal, by, now))
            connection.execute(SQL["notify"], {"notice": f"{workspace} {news} {policy.version}"})
            return policy, news

        policy, news = await self._transaction(work)
        self._tell({news: policy.version})
        return policy

    async def grants(self, workspace: str, *, live_only: bool = True) -> tuple[Grant, ...]:
        found = await self._fetch("live_grants" if live_only else "all_grants", {"workspace": workspace})
        return tuple(rows.read_grant(text, key) for text, key in found)

    def record(self, entry: Callable[[], Entry]) -> None:
        self._entered().recording.record(entry)

    async def flush(self) -> None:
        await self._entered().recording.flush().future

    async def sequence(self, workspace: str) -> int:
        key = {"workspace": workspace}

        def work(connection: Connection) -> None:
            connection.execute(SQL["lock_sequence"], key, prepare=True)
            connection.execute(SQL["sequence"], key, prepare=True)

        if (await self._fetch("has_fresh", key))[0][0]:
            await self._transaction(work, again=True)
        found = await self._fetch("next_index", key)
        return int(found[0][0]) if found else 0

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
        await self._transaction(lambda connection: connection.execute(SQL["put_checkpoint"], values), again=True)

    async def checkpoints(self, workspace: str) -> tuple[Signed, ...]:
        return tuple(Signed(*row) for row in await self._fetch("checkpoints", {"workspace": workspace}))

    async def forget_credentials(self, workspace: str, before: datetime) -> None:
        values = {"workspace": workspace, "before": before}
        await self._transaction(lambda connection: connection.execute(SQL["forget_credentials"], values))

    async def show_caller(self, workspace: str, caller: str, life: timedelta, *, new: bool = False) -> bool:
        values = {"workspace": workspace, "id": caller, "life": life}
        name = "insert_caller" if new else "renew_caller"

        def work(connection: Connection) -> bool:
            return connection.execute(SQL[name], values).rowcount == 1

        return await self._transaction(work, again=True)

    async def expect_caller(self, workspace: str, caller: str, life: timedelta) -> None:
        values = {"workspace": workspace, "id": caller, "life": life}
        await self._transaction(lambda connection: connection.execute(SQL["expect_caller"], values), again=True)

    async def lost_callers(self, workspace: str) -> tuple[str, ...]:
        key = {"workspace": workspace}
        # In this order: whoever is named was known before that, and is so now, or was taken for gone meanwhile.
        named = await self._fetch("named_callers", key)
        known = await self._fetch("known_callers", key)
        strangers = rows.unknown_callers(named, known)
        if not any(is_lapsed for _, is_lapsed in known):
            return strangers

        def work(connection: Connection) -> list[Any]:
            connection.execute(SQL["close_callers"], key)
            # In the same transaction, but by a later clock: only what was closed may be answered.
            return connection.execute(SQL["closed_callers"], key).fetchall()

        return tuple(sorted({*strangers, *(row[0] for row in await self._transaction(work, again=True))}))

    async def waited_for_by(
        self, workspace: str, caller: str, *, after: str = "", limit: int = 100
    ) -> tuple[Request, ...]:
        values = {"workspace": workspace, "caller": caller, "after": after, "limit": limit}
        return await self._list("waited_for_by", values)

    async def forget_caller(self, workspace: str, caller: str) -> None:
        values = {"workspace": workspace, "id": caller}
        await self._transaction(lambda connection: connection.execute(SQL["forget_caller"], values), again=True)

    async def purge(self, workspace: str, ended_before: datetime, entry: Callable[[int, datetime], Entry]) -> int:
        values: dict[str, Any] = {"workspace": workspace, "before": ended_before, "limit": PURGED_AT_ONCE}
        values |= {"changed_at": LONG_AGO, "id": ""}

        def work(connection: Connection) -> tuple[dict[str, int], list[Any]]:
            ((now,),) = connection.execute(SQL["clock"]).fetchall()
            found = connection.execute(SQL["purgeable"], values).fetchall()
            news: dict[str, int] = {}
            for ask, body, key, _ in found:
                request = rows.read_request(rows.read_ask(ask, key), body)
                if request.undo_until is None or request.undo_until <= now:
                    stub = purged(request)
                    connection.execute(SQL["purge_ask"], rows.all_columns(stub, when))
                    write = change_write(workspace, Change(stub))
                    connection.execute(SQL["commit"], changes_text(write), prepare=True)
                    news[stub.id] = stub.version
            if news:
                _log(connection, workspace, entry(len(news), now))
            return news, found

        total = 0
        while True:
            news, found = await self._transaction(work)
            total += len(news)
            if news:
                self._tell(news)
            if len(found) < PURGED_AT_ONCE:
                return total
            values["id"], values["changed_at"] = found[-1][2:]

    def watch(self, notice: Notice) -> Callable[[], None]:
        room = self._entered()
        with self._lock:
            self._notices = (*self._notices, notice)
            if room.listener is None:
                room.listener = Listener(room.connector, self._tell)

        def stop() -> None:
            with self._lock:
                self._notices = tuple(other for other in self._notices if other is not notice)

        return stop

    async def backup(self, target: str) -> None:
        raise StoreError(
            f"a PostgreSQL database is copied with its own tool: `pg_dump -Fc -n {SCHEMA} -f {target} <address>`"
        )

    def _errand(self, errand: Callable[[Link], Any]) -> Awaitable[Any]:
        return self._entered().hands.submit(errand).future

    async def _look(self, errand: Callable[[Fetch], T]) -> T:
        found: T = await self._errand(lambda link: errand(lambda name, values: link.fetch(SQL[name], values)))
        return found

    async def _fetch(self, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = await self._errand(lambda link: link.fetch(SQL[name], values))
        return found

    async def _requests(self, name: str, values: dict[str, Any]) -> tuple[Request, ...]:
        found = await self._fetch(name, values)
        return tuple(rows.read_request(rows.read_ask(ask, key), body) for ask, body, key in found)

    async def _list(self, name: str, values: dict[str, Any]) -> tuple[Request, ...]:
        return rows.readable(await self._fetch(name, values))

    async def _transaction(self, work: Callable[[Connection], T], *, again: bool = False) -> T:
        """What `work` did, committed. `again`: doing it twice does no more than doing it once."""

        def errand(link: Link) -> T:
            for last in (False, True):
                connection = link.connection()
                committing = False
                try:
                    with connection.transaction():
                        done = work(connection)
                        committing = True
                    return done
                except psycopg.Error as error:
                    if not is_lost(error, connection):
                        raise translated(error, self._address) from None
                    link.drop()
                    # A connection that is lost before COMMIT takes everything with it; after that nobody knows.
                    if last or (committing and not again):
                        raise (unknown if committing else unreachable)(self._address) from None
            raise unreachable(self._address)

        done: T = await self._errand(errand)
        return done

    def _entered(self) -> Room:
        """The room, made if need be; the database is opened with its first connection."""
        room = self._room
        if room is not None and room.process == os.getpid():
            return room
        with self._lock:
            if self._closed:
                raise StoreError(f"the store at {self._address} is closed; open it again before using it")
            if self._room is not None and self._room.process != os.getpid():
                raise StoreError(
                    f"the store at {self._address} was opened before this process was forked, and connections do "
                    "not survive that; open the store in each process"
                )
            if self._room is None:
                self._room = Room(self._url, self._busy_seconds, self._hands, self._writers, self._tell)
                atexit.register(_finish, weakref.ref(self._room))
            return self._room

    def _tell(self, news: Mapping[str, int] | None) -> None:
        for notice in self._notices:
            try:
                notice(news)
            except Exception:
                log.exception("a watcher of the store failed; it stays")


def _log(connection: Connection, workspace: str, entry: Entry) -> None:
    write = change_write(workspace, Change(entries=(entry,)))
    connection.execute(SQL["commit"], changes_text(write), prepare=True)


def _finish(reference: "weakref.ref[Room]") -> None:
    """What was recorded is written before the interpreter ends."""
    room = reference()
    if room is not None:
        for thread in room.recording.stop():
            thread.join(CLOSE_SECONDS)
