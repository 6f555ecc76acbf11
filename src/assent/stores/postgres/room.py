"""Everything that exists while a PostgreSQL store is open: the home loop, connections, writers, recorder, listener."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

import psycopg

from assent.errors import AssentError
from assent.stores.handoff import Ticket
from assent.stores.postgres.clock import EstimatedClock
from assent.stores.postgres.connect import Connection, Connector, is_lost, translated
from assent.stores.postgres.home import Home
from assent.stores.postgres.listen import listen
from assent.stores.postgres.locked import unknown, unreachable
from assent.stores.postgres.writes import SQL, Interrupted, Write, Writers, when
from assent.stores.recorder import AT_ONCE, LOSS_WINDOW, Recorder
from assent.stores.rows import Row

T = TypeVar("T")
Tell = Callable[[Mapping[str, int] | None], None]


class Room:
    """Opened once, on its own loop. Methods that are coroutines run on that loop only."""

    def __init__(self, connector: Connector, tell: Tell, writers: int) -> None:
        self.connector, self._tell = connector, tell
        self.home = Home("assent-postgres")
        self.clock = EstimatedClock()
        self.writers = Writers(self.home, connector, self.clock, tell, writers)
        self.recorder = Recorder(lambda: self.home.post(self._recorded, None), when, connector.where)
        self.opened = False
        self._opening = asyncio.Lock()
        self._flushing = asyncio.Lock()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Migrated, the clock read, the writers at work."""
        async with self._opening:
            if self.opened:
                return
            await self.connector.migrate()
            await self.fetch(SQL["clock"], {})
            self.writers.start()
            self.opened = True

    async def close(self) -> None:
        """Everything recorded and queued is durable, and no connection is open."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        try:
            if self.opened:
                await self.flush()
        finally:
            await self.writers.stop()
            await self.connector.close()

    def run(self, errand: Callable[[], Awaitable[Any]]) -> Ticket:
        """`errand` runs on the home loop once the room is open. From any thread with a running loop."""

        async def opened_first() -> Any:
            if not self.opened:
                await self.open()
            return await errand()

        return self.home.run(opened_first)

    def listen(self) -> None:
        """Commits elsewhere are heard from now on. From any thread."""
        self.home.post(self._start_listening, None)

    def _start_listening(self, _: None) -> None:
        if self._listener is None:
            self._listener = self.home.begin(self._listen())

    async def _listen(self) -> None:
        try:
            await self.open()
        except AssentError:
            self._listener = None
            return
        await listen(self.connector, self._tell)

    async def fetch(self, sql: bytes | str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Every row of a query. Reading again is safe, so a connection that was lost is replaced once."""
        query = sql if isinstance(sql, bytes) else sql.encode()
        for last in (False, True):
            async with self.connector.borrowed() as connection:
                sent = time.monotonic()
                try:
                    found = await (await connection.execute(query, values, prepare=True)).fetchall()
                except psycopg.Error as error:
                    if is_lost(error, connection):
                        await connection.close()
                        if not last:
                            continue
                    raise translated(error, self.connector.where) from None
                if query is SQL["clock"]:
                    self.clock.learn(found[0][0], sent)
                return found
        raise unreachable(self.connector.where)

    async def transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What `work` did, committed. Never tried again: if the connection is lost, the outcome is unknown."""
        async with self.connector.borrowed() as connection:
            try:
                async with connection.transaction():
                    return await work(connection)
            except psycopg.Error as error:
                if is_lost(error, connection):
                    await connection.close()
                    raise unknown(self.connector.where) from None
                raise translated(error, self.connector.where) from None

    async def flush(self) -> None:
        """Everything recorded before is durable."""
        async with self._flushing:
            if self._flush_timer is not None:
                self._flush_timer.cancel()
                self._flush_timer = None
            self.recorder.take()
            while self.recorder.rows:
                await self._write_recorded()

    async def _write_recorded(self) -> None:
        """The first rows that belong together are durable. A name that is already there means: they were."""
        rows = self.recorder.rows
        first = rows[0]
        # Rows that were sent before go again under the same name, and no others with them.
        again = first.get("batch")
        together = list(
            takewhile(lambda row: row["workspace"] == first["workspace"] and row.get("batch") == again, rows[:AT_ONCE])
        )
        batch = again or secrets.token_hex(8)
        for row in together:
            row["batch"] = batch
        try:
            await self.writers.submit(Write(_entries(together), (first["workspace"], ""), {})).future
        except psycopg.errors.UniqueViolation:
            pass
        except Interrupted:
            raise unreachable(self.connector.where) from None
        self.recorder.written(len(together))

    def _recorded(self, _: None) -> None:
        if self.recorder.is_full:
            self.home.begin(self._flush_quietly())
        elif self._flush_timer is None:
            self._flush_timer = self.home.loop.call_later(LOSS_WINDOW, self._flush_now)

    def _flush_now(self) -> None:
        self._flush_timer = None
        self.home.begin(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        """As `flush`; what cannot be written now is kept and tried again."""
        try:
            await self.open()
            await self.flush()
        except AssentError:
            if self._flush_timer is None:
                self._flush_timer = self.home.loop.call_later(LOSS_WINDOW, self._flush_now)


def _entries(together: list[Row]) -> Row:
    """The change that writes these rows. The first alone bears the name, which there can be once."""
    first, *others = together
    return {"entries": [first, *({**row, "batch": None} for row in others)]}
