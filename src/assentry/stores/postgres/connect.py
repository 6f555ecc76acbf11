"""Connections to PostgreSQL, the schema, and the server's errors in our words.

The connections block, and each belongs to one thread: psycopg on an event loop takes twice the processor time.
"""

import threading
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper

from assentry.errors import AssentryError, NotAllowed, StoreBusy, StoreError, StoreFull
from assentry.stores.migrate import missing
from assentry.stores.postgres.clock import EstimatedClock
from assentry.stores.statements import migrations

Connection = psycopg.Connection[tuple[Any, ...]]

_MIGRATING = 0x617373656E74  # "assentry": held while a schema is made or moved


class Unreachable(StoreError):
    """No connection can be made."""


class Interrupted(Exception):
    """The connection was lost while committing: whether the write took effect has to be found out."""


def address(url: str) -> str:
    """Where `url` points, without user or password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise StoreError("this is not a PostgreSQL address; write postgresql://user@host/database") from None
    host, name = str(parts.get("host") or "localhost"), parts.get("dbname") or ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql:///{name}?host={host}" if host.startswith("/") else f"postgresql://{host}{port}/{name}"


def translated(error: psycopg.Error, where: str) -> AssentryError:
    """What `error` means for whoever runs Assentry, in one line. Messages of the server may quote values: left out."""
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
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return StoreError(f"{where} lacks a table of Assentry; restore a backup, or name an empty database")
        case errors.CharacterNotInRepertoire() | errors.UntranslatableCharacter() | errors.DataError():
            return StoreError(f"{where} cannot hold a value ({type(error).__name__}); pass plain text")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unreachable(f"{where} cannot be reached; see that PostgreSQL runs there, then try again")
        case _:
            return StoreError(f"{where} refused a statement ({type(error).__name__}); report this")


def is_lost(error: BaseException, connection: Connection) -> bool:
    """Whether `error` means that the server's answer is not known, and not that the server refused.

    A server that is told to shut down may have committed before it said so.
    """
    if connection.closed:
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    if isinstance(error, errors.PipelineAborted):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


class Connector:
    """Opens connections that are set up alike, and the database with the first of them."""

    def __init__(self, url: str, busy_seconds: float) -> None:
        self._url, self._busy_seconds = url, busy_seconds
        self.where = address(url)
        self.clock = EstimatedClock()
        self.opened = False
        self._opening = threading.Lock()
        self.ours: set[int] = set()
        """The server's processes behind our connections: whose notices we need not hear."""

    def connect(self) -> Connection:
        """A new connection to a database that is set up."""
        options = f"-c lock_timeout={int(self._busy_seconds * 1000)} -c timezone=UTC -c client_encoding=UTF8"
        parts = conninfo_to_dict(self._url)
        parts["options"] = f"{parts.get('options') or ''} {options}".strip()
        parts.setdefault("connect_timeout", "10")
        parts.setdefault("application_name", "assentry")
        try:
            connection = psycopg.connect(make_conninfo("", **parts), autocommit=True, prepare_threshold=0)
        except psycopg.Error as error:
            raise translated(error, self.where) from None
        # One type for all integers, so that a statement is prepared once and not once per size of number.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.prepared_max = 200
        if not self.opened:
            try:
                with self._opening:
                    self._open(connection)
            except BaseException:
                connection.close()
                raise
        self.ours.add(connection.info.backend_pid)
        return connection

    def _open(self, connection: Connection) -> None:
        """The schema is the one this version knows, and the clock has been read."""
        if self.opened:
            return
        try:
            self._migrate(connection)
            sent = time.monotonic()
            ((now,),) = connection.execute("SELECT clock_timestamp()").fetchall()
            self.clock.learn(now, sent)
        except errors.InsufficientPrivilege:
            raise StoreError(
                f"{self.where} is not set up for this version and this user may not do it; "
                "let the owner of the database open it once"
            ) from None
        except psycopg.Error as error:
            raise translated(error, self.where) from None
        self.opened = True

    def _migrate(self, connection: Connection) -> None:
        known = migrations("postgres")
        if not missing(_applied(connection), known, self.where):
            return
        with connection.transaction():
            # Two processes that open a new database at once: the second waits here, then finds it done.
            connection.execute("SET LOCAL lock_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migrations "
                "(number bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)"
            )
            for migration in missing(_applied(connection), known, self.where):
                connection.execute(migration.sql.encode(), prepare=False)
                connection.execute("INSERT INTO migrations VALUES (%s, %s, now())", (migration.number, migration.name))


def _applied(connection: Connection) -> set[int]:
    if not connection.execute("SELECT to_regclass('migrations') IS NOT NULL").fetchall()[0][0]:
        return set()
    return {row[0] for row in connection.execute("SELECT number FROM migrations").fetchall()}


class Link:
    """One thread's connection: made when it is needed, and made again when it was lost."""

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self._connection: Connection | None = None
        self._process = 0

    def connection(self) -> Connection:
        """A connection that was not lost, as far as anybody knows."""
        if self._connection is not None and self._connection.closed:
            self.drop()
        if self._connection is None:
            self._connection = self.connector.connect()
            self._process = self._connection.info.backend_pid
        return self._connection

    def drop(self) -> None:
        """No connection is held."""
        if self._connection is not None:
            # The server may give the number to somebody else's process next.
            self.connector.ours.discard(self._process)
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def fetch(self, sql: bytes, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Every row of a query. Reading again is safe, so a connection that was lost is replaced once."""
        try:
            return self._fetch(sql, values)
        except Interrupted:
            pass
        try:
            return self._fetch(sql, values)
        except Interrupted:
            raise unreachable(self.connector.where) from None

    def _fetch(self, sql: bytes, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        connection = self.connection()
        try:
            return connection.execute(sql, values, prepare=True).fetchall()
        except psycopg.Error as error:
            if is_lost(error, connection):
                self.drop()
                raise Interrupted from None
            raise translated(error, self.connector.where) from None


def unknown(where: str) -> StoreError:
    """Nobody can say whether the last commit took effect."""
    return StoreError(
        f"the connection to {where} was lost while committing, and whether it took effect is unknown; "
        "look at the request before doing anything again"
    )


def unreachable(where: str) -> Unreachable:
    return Unreachable(f"{where} cannot be reached; see that PostgreSQL runs there, then try again")
