"""The store in one SQLite file. Every method may be awaited on any event loop, in any thread."""

import asyncio
import atexit
import contextlib
import json
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import apsw

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
from assentry.stores.retention import purged
from assentry.stores.rows import micros, moment
from assentry.stores.run_lists import Fetch, RunReads
from assentry.stores.searching import page
from assentry.stores.sqlite.connect import fetch, translated
from assentry.stores.sqlite.glance import Glance, Missed
from assentry.stores.sqlite.readers import Look, readers
from assentry.stores.sqlite.transaction import SQL, Transaction
from assentry.stores.sqlite.watch import Watcher
from assentry.stores.sqlite.writer import Work, Writer
from assentry.system import create_private

T = TypeVar("T")

log = logging.getLogger(__name__)

DIALECT = Dialect(
    bound=":{}",
    contains="instr({}, {}) > 0",
    found=(
        "SELECT r.id, r.urgency, r.due_at FROM words CROSS JOIN asks a ON a.seq = words.rowid "
        "CROSS JOIN requests r ON r.seq = a.seq WHERE words MATCH {query}"
    ),
    sample="SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH :query LIMIT :limit) f",
    ended="r.ended = 1",
    open="r.ended = 0",
    same="a.seq = r.seq",
    key="r.id, r.urgency, r.due_at, r.seq",
    titles="JOIN asks a ON a.seq = r.seq",
    newest="requests_id",
    hint="INDEXED BY {}",
    when=lambda value: value,
    since=int,
    query=lambda words: " ".join(f'"{word}"*' for word in words),
)
PURGED_AT_ONCE = 200
Notice = Callable[[Mapping[str, int] | None], None]


class SqliteStore(RunReads):
    """State, entries and wake-ups in the file at `path`, which is created, private, on first use."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_seconds: float = 5.0,
        reader_count: int = 2,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if str(path) in ("", ":memory:"):
            raise StoreError("the store is a file, so that other processes can reach it; name one, such as assentry.db")
        self._path = Path(path).absolute()
        self._busy_seconds, self._reader_count, self._clock = busy_seconds, reader_count, clock
        self._lock = threading.Lock()
        self._writer: Writer | None = None
        self._readers: Hands[apsw.Connection] | None = None
        self._glance: Glance | None = None
        self._watcher: Watcher | None = None
        self._notices: tuple[Notice, ...] = ()
        self._closed = False
        self._process = 0

    @property
    def address(self) -> str:
        return str(self._path)

    async def open(self) -> None:
        self._closed = False
        await self._write(lambda _: None)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            writer, looking, watcher, glance = self._writer, self._readers, self._watcher, self._glance
            self._writer = self._readers = self._watcher = self._glance = None
        threads: list[threading.Thread] = []
        if glance is not None:
            glance.close()
        if watcher is not None:
            watcher.stop()
            threads.append(watcher.thread)
        if looking is not None:
            threads += looking.stop()
        if writer is not None:
            writer.stop()
            threads.append(writer.thread)
        for thread in threads:
            await asyncio.to_thread(thread.join)

    async def identity(self) -> str:
        return str((await self._all("identity", {}))[0][0])

    async def now(self) -> datetime:
        return self._clock()

    async def transact(
        self,
        workspace: str,
        request_id: str | None,
        step: Step,
        *,
        grants: Sequence[str] = (),
        hint: Request | None = None,  # noqa: ARG002  there is no round trip to save
        run: str | None = None,
        awaiting: Sequence[str] = (),  # noqa: ARG002  one writes at a time
        agent: str = "",
        policy: int | None = None,
    ) -> Change | None:
        change: Change | None = await self._write(
            lambda transaction: transaction.transact(workspace, request_id, step, grants, run, agent, policy)
        )
        return change

    async def request(self, workspace: str, request_id: str) -> Request | None:
        glance = self._glance
        if glance is not None and self._process == os.getpid():
            try:
                return glance.request(workspace, request_id)
            except Missed:
                pass
        found = await self._requests("read_request", {"workspace": workspace, "id": rows.column(request_id)})
        return found[0] if found else None

    async def those(self, workspace: str, request_ids: Sequence[str]) -> tuple[Request, ...]:
        return await self._list(
            "those", {"workspace": workspace, "ids": json.dumps([rows.column(each) for each in request_ids])}
        )

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
        found: Page = await self._read(
            lambda connection: page(
                workspace, wanted, after, limit, DIALECT, lambda sql, values: fetch(connection, sql, values)
            )
        )
        return found

    async def due(self, workspace: str, limit: int = 100) -> tuple[Request, ...]:
        return await self._list("due", {"workspace": workspace, "now": micros(self._clock()), "limit": limit})

    async def next_due(self, workspace: str) -> datetime | None:
        found = await self._all("next_due", {"workspace": workspace})
        return moment(found[0][0]) if found[0][0] is not None else None

    async def runnable(self, workspace: str, actions: Sequence[str], limit: int = 10) -> tuple[Request, ...]:
        def look(connection: apsw.Connection) -> tuple[Request, ...]:
            found: list[Request] = []
            for action in dict.fromkeys(actions):
                values = {"workspace": workspace, "action": rows.column(action), "limit": limit}
                found += rows.readable(fetch(connection, SQL["runnable"], values))
            return tuple(sorted(found, key=lambda request: request.id)[:limit])

        found: tuple[Request, ...] = await self._read(look)
        return found

    async def overdue_runs(self, workspace: str, limit: int = 100) -> tuple[Run, ...]:
        values = {"workspace": workspace, "now": micros(self._clock()), "limit": limit}
        return await self._some_runs("overdue_runs", values)

    async def policy(self, workspace: str) -> StoredPolicy | None:
        found = await self.policies(workspace, 1)
        return found[0] if found else None

    async def policies(self, workspace: str, limit: int = 20) -> tuple[StoredPolicy, ...]:
        found = await self._all("policy", {"workspace": workspace, "limit": limit})
        return tuple(StoredPolicy(version, text, by, _at(at)) for version, text, by, at in found)

    async def apply_policy(
        self,
        workspace: str,
        text: str,
        by: str,
        entry: Callable[[int, datetime], Entry],
        proposal: PolicyProposal | None = None,
    ) -> StoredPolicy:
        def work(transaction: Transaction) -> StoredPolicy:
            latest = transaction.fetch("policy", {"workspace": workspace, "limit": 1})
            policy = StoredPolicy(latest[0][0] + 1 if latest else 1, text, by, self._clock())
            values = {
                "workspace": workspace, "version": policy.version, "text": text, "applied_by": by,
                "applied_at": micros(policy.applied_at),
            }  # fmt: skip
            transaction.execute("insert_policy", values)
            transaction.forget()
            written = entry(policy.version, policy.applied_at)
            transaction.append((written,))
            if proposal is not None:
                transaction.put_proposal(fulfilled(proposal, by, policy.applied_at))
            transaction.news[rows.notice_key("policy", written.subject)] = policy.version
            return policy

        applied: StoredPolicy = await self._write(work)
        return applied

    async def grants(self, workspace: str, *, live_only: bool = True) -> tuple[Grant, ...]:
        name = "live_grants" if live_only else "all_grants"
        values = {"workspace": workspace} | ({"now": micros(self._clock())} if live_only else {})
        return tuple(rows.read_grant(text, key) for text, key in await self._all(name, values))

    def record(self, entry: Callable[[], Entry]) -> None:
        self._started().record(entry)

    async def flush(self) -> None:
        await self._write(lambda _: None)

    async def sequence(self, workspace: str) -> int:
        found = await self._all("next_index", {"workspace": workspace})
        return int(found[0][0]) if found else 0

    async def entries(
        self, workspace: str, *, start: int = 0, limit: int = 1000, subject: str = "", newest_first: bool = False
    ) -> tuple[Logged, ...]:
        name = ("entries_of" if subject else "entries") + ("_back" if newest_first else "")
        values = {"workspace": workspace, "limit": limit, "start": start}
        if newest_first and not start:
            values["start"] = rows.NEVER
        if subject:
            values["subject"] = rows.column(subject)
        return tuple(Logged(*row) for row in await self._all(name, values))

    async def put_checkpoint(self, signed: Signed) -> None:
        values = {
            "workspace": signed.workspace, "size": signed.size, "text": signed.text, "key_id": signed.key_id,
            "signature": signed.signature,
        }  # fmt: skip
        await self._write(lambda transaction: transaction.execute("put_checkpoint", values))

    async def checkpoints(self, workspace: str) -> tuple[Signed, ...]:
        return tuple(Signed(*row) for row in await self._all("checkpoints", {"workspace": workspace}))

    async def forget_credentials(self, workspace: str, before: datetime) -> None:
        values = {"workspace": workspace, "before": micros(before)}
        await self._write(lambda transaction: transaction.execute("forget_credentials", values))

    async def show_caller(self, workspace: str, caller: str, life: timedelta, *, new: bool = False) -> bool:
        def work(transaction: Transaction) -> bool:
            values = {"workspace": workspace, "id": caller, "until": micros(self._clock() + life)}
            transaction.execute("insert_caller" if new else "renew_caller", values)
            return transaction.connection.changes() == 1

        return bool(await self._write(work))

    async def expect_caller(self, workspace: str, caller: str, life: timedelta) -> None:
        values = {"workspace": workspace, "id": caller, "until": micros(self._clock() + life)}
        await self._write(lambda transaction: transaction.execute("expect_caller", values))

    async def lost_callers(self, workspace: str) -> tuple[str, ...]:
        # In this order: whoever is named was known before that, and is so now, or was taken for gone meanwhile.
        named = await self._all("named_callers", {"workspace": workspace})
        known = await self._all("known_callers", {"workspace": workspace, "now": micros(self._clock())})
        strangers = rows.unknown_callers(named, known)
        if not any(is_lapsed for _, is_lapsed in known):
            return strangers

        def work(transaction: Transaction) -> list[Any]:
            now = {"workspace": workspace, "now": micros(self._clock())}
            transaction.execute("close_callers", now)
            return transaction.fetch("closed_callers", now)

        return tuple(sorted({*strangers, *(row[0] for row in await self._write(work))}))

    async def waited_for_by(
        self, workspace: str, caller: str, *, after: str = "", limit: int = 100
    ) -> tuple[Request, ...]:
        values = {"workspace": workspace, "caller": caller, "after": after, "limit": limit}
        return await self._list("waited_for_by", values)

    async def forget_caller(self, workspace: str, caller: str) -> None:
        values = {"workspace": workspace, "id": caller}
        await self._write(lambda transaction: transaction.execute("forget_caller", values))

    async def purge(self, workspace: str, ended_before: datetime, entry: Callable[[int, datetime], Entry]) -> int:
        values: dict[str, Any] = {"workspace": workspace, "before": micros(ended_before), "limit": PURGED_AT_ONCE}
        values |= {"changed_at": -rows.NEVER, "id": ""}

        def work(transaction: Transaction) -> tuple[int, list[Any]]:
            now = self._clock()
            found = transaction.fetch("purgeable", values)
            count = 0
            for ask, body, key, _ in found:
                request = rows.read_request(rows.read_ask(ask, key), body)
                if request.undo_until is None or request.undo_until <= now:
                    transaction.purge(purged(request))
                    count += 1
            if count:
                transaction.append((entry(count, now),))
            return count, found

        total = 0
        while True:
            count, found = await self._write(work)
            total += int(count)
            if len(found) < PURGED_AT_ONCE:
                return total
            values["id"], values["changed_at"] = found[-1][2:]

    def watch(self, notice: Notice) -> Callable[[], None]:
        writer = self._started()
        with self._lock:
            self._notices = (*self._notices, notice)
            if self._watcher is None and self._writer is writer:
                self._watcher = Watcher(self._path, self._busy_seconds, self._tell, writer)

        def stop() -> None:
            with self._lock:
                self._notices = tuple(other for other in self._notices if other is not notice)

        return stop

    async def backup(self, target: str) -> None:
        goal = self._path.parent / target
        part = goal.with_name(f".{goal.name}.{secrets.token_hex(4)}.part")

        def look(connection: apsw.Connection) -> None:
            try:
                create_private(part)
                copy = apsw.Connection(str(part))
                try:
                    with copy.backup("main", connection, "main") as running:
                        running.step()
                finally:
                    copy.close()
                with part.open("rb") as written:
                    os.fsync(written.fileno())
                part.replace(goal)
            except FileNotFoundError:
                raise StoreError(f"the directory {goal.parent} does not exist; create it first") from None
            except (OSError, apsw.Error) as error:
                raise translated(error, goal) from None
            finally:
                for leftover in (part, part.with_name(part.name + "-wal"), part.with_name(part.name + "-shm")):
                    with contextlib.suppress(OSError):
                        leftover.unlink()

        await self._read(look)

    async def _write(self, work: Work) -> Any:
        return await self._started().submit(work).future

    def _read(self, look: Look) -> Awaitable[Any]:
        self._started()
        looking = self._readers
        if looking is None:
            raise self._is_closed()
        return looking.submit(look).future

    async def _look(self, errand: Callable[[Fetch], T]) -> T:
        def look(connection: apsw.Connection) -> T:
            return errand(lambda name, values: fetch(connection, SQL[name], values))

        found: T = await self._read(look)
        return found

    async def _all(self, name: str, values: dict[str, Any]) -> list[Any]:
        found: list[Any] = await self._read(lambda connection: fetch(connection, SQL[name], values))
        return found

    async def _requests(self, name: str, values: dict[str, Any]) -> tuple[Request, ...]:
        found: tuple[Request, ...] = await self._read(lambda connection: _read_requests(connection, SQL[name], values))
        return found

    async def _list(self, name: str, values: dict[str, Any]) -> tuple[Request, ...]:
        return rows.readable(await self._all(name, values))

    def _started(self) -> Writer:
        """The writer, started if need be. A database that could not be opened is tried again."""
        writer = self._writer
        if writer is not None and writer.failure is None and self._process == os.getpid():
            return writer
        with self._lock:
            if self._closed:
                raise self._is_closed()
            if self._writer is not None and self._process != os.getpid():
                raise StoreError(
                    f"{self._path} was opened before this process was forked, and threads do not survive that; "
                    "open the store in each process"
                )
            if self._writer is None or self._writer.failure is not None:
                self._process = os.getpid()
                self._writer = Writer(self._path, self._busy_seconds, self._clock, self._committed)
                self._readers = readers(self._path, self._busy_seconds, self._writer, self._reader_count)
                self._glance = Glance(self._path, self._writer)
                self._watcher = None
                atexit.register(_finish, weakref.ref(self._writer))
            return self._writer

    def _is_closed(self) -> StoreError:
        return StoreError(f"the store at {self._path} is closed; open it again before using it")

    def _committed(self, transaction: Transaction) -> None:
        watcher = self._watcher
        if watcher is not None and transaction.last_entry:
            watcher.committed_here(transaction.first_entry, transaction.last_entry)
        if transaction.news:
            self._tell(transaction.news)

    def _tell(self, news: Mapping[str, int] | None) -> None:
        for notice in self._notices:
            try:
                notice(news)
            except Exception:
                log.exception("a watcher of the store failed; it stays")


def _finish(reference: "weakref.ref[Writer]") -> None:
    """What was recorded is written before the interpreter ends."""
    writer = reference()
    if writer is not None and writer.thread.is_alive():
        writer.stop()
        writer.thread.join(5)


def _read_requests(connection: apsw.Connection, sql: str, values: dict[str, Any]) -> tuple[Request, ...]:
    return tuple(rows.read_request(rows.read_ask(ask, key), body) for ask, body, key in fetch(connection, sql, values))


def _at(value: int) -> datetime:
    at = moment(value)
    if at is None:
        raise StoreError("a stored time is damaged; stop, and restore the last good backup")
    return at
