"""Guarded writes: each takes full effect or none, so many may share a statement and a commit.

PostgreSQL commits transactions that notify one after the other, so a few connections that commit groups do
more than many that commit singly. Nobody waits for a group to form.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
import psycopg

from assent.core.audit import Entry
from assent.core.change import Change
from assent.core.request import Request
from assent.errors import AssentError, StoreError
from assent.stores import rows
from assent.stores.handoff import Ticket
from assent.stores.postgres.clock import EstimatedClock
from assent.stores.postgres.connect import Connection, Connector, is_broken, is_lost, translated
from assent.stores.postgres.home import Home
from assent.stores.statements import statements

encode = msgspec.json.Encoder().encode
SQL = {name: text.encode() for name, text in statements("postgres").items()}
FAR = datetime(9999, 12, 31, tzinfo=UTC)
"""The `due_at` of what time does not move."""
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
GROUP = 64
"""The most writes that share one commit."""


class Interrupted(Exception):
    """The connection was lost while committing: whether the write took effect has to be found out."""


def when(at: datetime | None) -> datetime:
    """A time as PostgreSQL keeps it here."""
    return FAR if at is None else at


class Write:
    """One change on its way to the database, as `assent_commit` takes it."""

    __slots__ = ("change", "key", "news", "ticket", "token")

    def __init__(self, change: rows.Row, key: tuple[str, str], news: Mapping[str, int], token: str = "") -> None:
        self.change, self.key, self.news, self.token = change, key, news, token
        self.ticket: Ticket | None = None


def change_write(workspace: str, change: Change, guard: tuple[datetime, datetime] = (LONG_AGO, FAR)) -> Write:
    """The write of a request and its entries; `guard` is between which times it may take effect."""
    request = change.request
    entries = entry_rows(workspace, change.entries)
    if request is None:
        return Write({"entries": entries}, (workspace, ""), {})
    if request.ask.workspace != workspace:
        raise StoreError("a change belongs to another workspace than the one it was made in; report this")
    token = secrets.token_hex(8)
    notice = f"{workspace} {request.id} {request.version}"
    written: rows.Row = {"entries": entries, "notice": notice}
    if change.new:
        row = rows.all_columns(request, when)
        written["title"], written["ask"] = row.pop("title"), row.pop("ask")
    else:
        row = rows.moving_columns(request, when)
        written["not_before"], written["before"] = guard
    row["token"] = token
    written["row"] = row
    return Write(written, (workspace, request.id), {request.id: request.version}, token)


def guard_of(request: Request, now: datetime) -> tuple[datetime, datetime]:
    """Between which times every deadline of `request` is on the same side as at `now`."""
    permit_end = request.permit.expires_at if request.permit is not None else None
    deadlines = (request.due_at, request.ends_at, request.undo_until, permit_end, request.ask.needed_by)
    passed = [at for at in deadlines if at is not None and at <= now]
    ahead = [at for at in deadlines if at is not None and at > now]
    return max(passed, default=LONG_AGO), min(ahead, default=FAR)


def entry_rows(workspace: str, entries: Sequence[Entry]) -> list[rows.Row]:
    """Entries as rows, all of one workspace."""
    found = [rows.entry_columns(entry, when) for entry in entries]
    if any(row["workspace"] != workspace for row in found):
        raise StoreError("an entry belongs to another workspace than its change; report this")
    return found


def changes_text(writes: Sequence[Write]) -> dict[str, str]:
    """Writes as the statement `commit` takes them."""
    return {"changes": encode([write.change for write in writes]).decode()}


class Writers:
    """A few tasks, each with a connection, that take what is queued and commit it together."""

    def __init__(
        self,
        home: Home,
        connector: Connector,
        clock: EstimatedClock,
        committed: Callable[[Mapping[str, int]], None],
        count: int,
    ) -> None:
        self._home, self._connector, self._clock, self._committed = home, connector, clock, committed
        self._queue: asyncio.Queue[Write] = asyncio.Queue()
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """From the home loop."""
        self._tasks = [self._home.begin(self._serve()) for _ in range(self._count)]

    def submit(self, write: Write) -> Ticket:
        """The ticket is settled with whether the write took effect. From any thread with a running loop."""
        write.ticket = Ticket()
        self._home.post(self._queue.put_nowait, write)
        return write.ticket

    async def stop(self) -> None:
        """What was queued is committed and the connections are closed."""
        await self._queue.join()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self) -> None:
        connection: Connection | None = None
        queue = self._queue
        try:
            while True:
                group = [await queue.get()]
                while len(group) < GROUP and not queue.empty():
                    group.append(queue.get_nowait())
                try:
                    if connection is not None and is_broken(connection):
                        await self._connector.discard(connection)
                        connection = None
                    if connection is None:
                        connection = await self._connector.connect()
                    await self._commit(connection, group)
                except AssentError as error:
                    self._fail(group, error)
                finally:
                    for write in group:
                        queue.task_done()
                        if write.ticket is not None:
                            self._home.finish(write.ticket)
        finally:
            if connection is not None:
                await self._connector.discard(connection)

    def _fail(self, group: list[Write], error: BaseException) -> None:
        for write in group:
            if write.ticket is not None:
                write.ticket.error = error

    async def _commit(self, connection: Connection, group: list[Write]) -> None:
        # All groups lock rows in the same order, so no two wait for each other.
        group.sort(key=lambda write: write.key)
        sent = time.monotonic()
        try:
            cursor = await connection.execute(SQL["commit"], changes_text(group), prepare=True)
            ((done, clock),) = await cursor.fetchall()
        except psycopg.Error as error:
            if is_lost(error, connection):
                await connection.close()
                self._fail(group, Interrupted())
            elif len(group) == 1:
                self._fail(group, _of(error, self._connector.where))
            else:
                # One of them was refused, and with it all were rolled back; singly, the others go through.
                for write in group:
                    await self._commit(connection, [write])
            return
        self._clock.learn(clock, sent)
        news: dict[str, int] = {}
        for write, effect in zip(group, done, strict=True):
            if write.ticket is not None:
                write.ticket.value = effect
            if effect:
                news |= write.news
        if news:
            self._committed(news)


def _of(error: psycopg.Error, where: str) -> BaseException:
    """Unique violations are for the caller to explain; the rest is told in our words."""
    return error if isinstance(error, psycopg.errors.UniqueViolation) else translated(error, where)
