"""Connections to PostgreSQL, a small pool of them, the schema, and the server's errors in our words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from assent.errors import AssentError, NotAllowed, StoreBusy, StoreError, StoreFull
from assent.stores.migrate import missing
from assent.stores.statements import migrations


class Unreachable(StoreError):
    """No connection can be made."""


Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_MIGRATING = 0x617373656E74  # "assent": held while a schema is made or moved


def address(url: str) -> str:
    """Where `url` points, without user or password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise StoreError("this is not a PostgreSQL address; write postgresql://user@host/database") from None
    host, name = str(parts.get("host") or "localhost"), parts.get("dbname") or ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql:///{name}?host={host}" if host.startswith("/") else f"postgresql://{host}{port}/{name}"


def translated(error: psycopg.Error, where: str) -> AssentError:
    """What `error` means for whoever runs Assent, in one line. Messages of the server may quote values: left out."""
    match error:
        case errors.InsufficientPrivilege():
            said = error.diag.message_primary or ""
            why = said if said.startswith(("an agent", "an entry")) else "its role lacks the right"
            return NotAllowed(
                f"this database user may not do that: {why}; use a login with the role that may", principal="database"
            )
        case errors.LockNotAvailable() | errors.QueryCanceled() | errors.DeadlockDetected():
            return StoreBusy(f"others hold what is wanted in {where} for longer than they should; try again")
        case errors.TooManyConnections():
            return StoreBusy(f"{where} takes no more connections; raise max_connections or close some")
        case errors.DiskFull():
            return StoreFull(f"no space is left for {where}; nothing was changed: free some space and try again")
        case errors.ReadOnlySqlTransaction():
            return StoreError(f"{where} is read-only (a standby?); name the primary server")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return StoreError(f"{where} does not let this user in; check user and password")
        case errors.InvalidCatalogName():
            return StoreError(f"there is no database at {where}; create it with `createdb`")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return StoreError(f"{where} lacks a table of Assent; restore a backup, or name an empty database")
        case errors.CharacterNotInRepertoire() | errors.UntranslatableCharacter() | errors.DataError():
            return StoreError(f"{where} cannot hold a value ({type(error).__name__}); pass plain text")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unreachable(f"{where} cannot be reached; see that PostgreSQL runs there, then try again")
        case _:
            return StoreError(f"{where} refused a statement ({type(error).__name__}); report this")


def is_broken(connection: Connection) -> bool:
    """Nothing more can be said over this connection."""
    return connection.closed or connection.broken


def is_lost(error: BaseException, connection: Connection) -> bool:
    """Whether `error` means that the server's answer is not known, and not that the server refused.

    A server that is told to shut down may have committed before it said so.
    """
    if is_broken(connection):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    if isinstance(error, errors.PipelineAborted):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


class Connector:
    """Opens connections that are set up alike, knows which server processes are ours, and keeps idle ones."""

    def __init__(self, url: str, busy_seconds: float, size: int) -> None:
        self._url, self._busy_seconds = url, busy_seconds
        self.where = address(url)
        self.ours: set[int] = set()
        """The server's processes behind our connections: whose notices we need not hear."""
        self._process: dict[Connection, int] = {}
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(size)

    async def connect(self) -> Connection:
        """A new connection."""
        options = f"-c lock_timeout={int(self._busy_seconds * 1000)} -c timezone=UTC -c client_encoding=UTF8"
        parts = conninfo_to_dict(self._url)
        parts["options"] = f"{parts.get('options') or ''} {options}".strip()
        parts.setdefault("connect_timeout", "10")
        parts.setdefault("application_name", "assent")
        try:
            connection = await psycopg.AsyncConnection.connect(
                make_conninfo("", **parts), autocommit=True, prepare_threshold=0
            )
        except psycopg.Error as error:
            raise translated(error, self.where) from None
        # One type for all integers, so that a statement is prepared once and not once per size of number.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.prepared_max = 200
        self._process[connection] = connection.info.backend_pid
        self.ours.add(connection.info.backend_pid)
        return connection

    async def discard(self, connection: Connection) -> None:
        """The connection is closed and forgotten."""
        # The server may give the number to somebody else's process next.
        self.ours.discard(self._process.pop(connection, 0))
        with suppress(psycopg.Error):
            await connection.close()

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Connection]:
        """A connection of the pool. It goes back only if it is idle and whole."""
        async with self._free:
            connection = self._idle.pop() if self._idle else await self.connect()
            try:
                yield connection
            finally:
                idle = psycopg.pq.TransactionStatus.IDLE
                if is_broken(connection):
                    # What cut this one has probably cut those that lie idle too.
                    await self.discard(connection)
                    await self.close()
                elif connection.info.transaction_status == idle:
                    self._idle.append(connection)
                else:
                    await self.discard(connection)

    async def close(self) -> None:
        """No idle connection is open."""
        while self._idle:
            await self.discard(self._idle.pop())

    async def migrate(self) -> None:
        """The schema is the one this version knows."""
        known = migrations("postgres")
        async with self.borrowed() as connection:
            try:
                if not missing(await self._applied(connection), known, self.where):
                    return
                async with connection.transaction():
                    # Two processes that open a new database at once: the second waits here, then finds it done.
                    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
                    await connection.execute(
                        "CREATE TABLE IF NOT EXISTS migrations "
                        "(number bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)"
                    )
                    for migration in missing(await self._applied(connection), known, self.where):
                        await connection.execute(migration.sql.encode(), prepare=False)
                        await connection.execute(
                            "INSERT INTO migrations VALUES (%s, %s, now())", (migration.number, migration.name)
                        )
            except errors.InsufficientPrivilege:
                raise StoreError(
                    f"{self.where} is not set up for this version and this user may not do it; "
                    "let the owner of the database open it once"
                ) from None
            except psycopg.Error as error:
                raise translated(error, self.where) from None

    async def _applied(self, connection: Connection) -> set[int]:
        found = await (await connection.execute("SELECT to_regclass('migrations') IS NOT NULL")).fetchall()
        if not found[0][0]:
            return set()
        return {row[0] for row in await (await connection.execute("SELECT number FROM migrations")).fetchall()}
