"""Connections to PostgreSQL, our schema in it, and the server's errors in our words.

All that is ours in a database is in a schema of our own, so that other programs may use the same database. Statements
name tables without it: every connection has a search path with that schema and nothing of anybody else's, whatever the
login, the database or the address set.

The connections block, and each belongs to one thread: psycopg on an event loop takes twice the processor time.
"""

import re
import threading
import time
from collections.abc import Callable
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

SCHEMA = "assentry_data"
"""Not the name that somebody gives a login: PostgreSQL has other programs of a login `x` look in a schema `x` first."""

PATH = f"{SCHEMA},pg_temp"
"""The system's own names come before both; without being named, temporary tables would come before everything."""

_IS_SET_UP = """
SELECT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = 'migrations'
)
"""
"""Read from the tables: `to_regclass` may answer from a cache that is older than the wait for the migration lock."""

_SET_UP = """
SELECT quote_ident(owner.rolname), quote_ident(current_user),
    pg_has_role(n.nspowner, 'USAGE') OR owner.rolsuper OR n.nspowner = here.datdba,
    EXISTS (
        SELECT FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = n.oid
            AND classid <> 'pg_default_acl'::regclass
    )
FROM pg_namespace n JOIN pg_roles owner ON owner.oid = n.nspowner
JOIN pg_database here ON here.datname = current_database() WHERE n.nspname = %s
"""
"""Our schema, if it exists: its owner, who we are, whether we trust the owner, and whether there is anything in it."""

_STRANGERS = """
WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = %s), used (class, object) AS (
    SELECT 'pg_namespace'::regclass, oid FROM ours
    UNION ALL
    SELECT classid, objid FROM pg_depend JOIN ours ON refobjid = oid WHERE refclassid = 'pg_namespace'::regclass
        AND classid <> 'pg_default_acl'::regclass
    UNION ALL
    SELECT 'pg_proc'::regclass, tgfoid FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid JOIN ours
        ON c.relnamespace = ours.oid
)
SELECT DISTINCT quote_ident(owner.rolname), quote_ident(current_user)
FROM used JOIN pg_shdepend s ON s.classid = class AND s.objid = object AND s.deptype = 'o'
JOIN pg_database here ON here.oid = s.dbid AND here.datname = current_database()
JOIN pg_roles owner ON owner.oid = s.refobjid
WHERE pg_has_role(here.datdba, 'USAGE') AND NOT pg_has_role(owner.oid, here.datdba, 'USAGE')
    AND owner.rolname <> current_user
ORDER BY 1 LIMIT 1
"""
"""If we have the rights of the database's owner: one who has not, and owns our schema or what is in it or runs in it.

Whoever owns a table has every login that writes to it run what they like, with the rights of that login.
"""

_MAKERS = """
SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
FROM pg_namespace n, aclexplode(n.nspacl) a
WHERE n.nspname = %s AND a.privilege_type = 'CREATE'
    AND a.grantee NOT IN (n.nspowner, to_regrole(quote_ident(current_user)))
    AND (a.grantee = 0 OR NOT pg_has_role(a.grantee, n.nspowner, 'USAGE'))
ORDER BY 1 LIMIT 1
"""
"""Who else may create something in our schema, without the rights of its owner: we might call a function of theirs."""

_RIGHTS = """
SELECT quote_ident(current_user), quote_ident(current_database()), to_regnamespace(%s) IS NOT NULL
"""
"""Who we are and where, and whether our schema is there."""


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


class Deadlocked(StoreBusy):
    """The server ended this transaction, whole, because another one and it waited for each other."""


def translated(error: psycopg.Error, where: str) -> AssentryError:
    """What `error` means for whoever runs Assentry, in one line. Messages of the server may quote values: left out."""
    match error:
        case errors.InsufficientPrivilege():
            said = error.diag.message_primary or ""
            why = said if said.startswith(("a proposed", "an entry")) else "it lacks the right"
            return NotAllowed(
                f"this database user may not do that: {why}; use the login that owns the schema {SCHEMA}",
                principal="database",
            )
        case errors.DeadlockDetected():
            return Deadlocked(f"others hold what is wanted in {where} and want what is held; try again")
        case errors.LockNotAvailable() | errors.QueryCanceled():
            return StoreBusy(f"others hold what is wanted in {where} for longer than they should; try again")
        case errors.TooManyConnections():
            return _full(where)
        case errors.DiskFull():
            return StoreFull(f"no space is left for {where}; nothing was changed: free some space and try again")
        case errors.ReadOnlySqlTransaction():
            return StoreError(f"{where} is read-only (a standby?); name the primary server")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return _not_let_in(where)
        case errors.InvalidCatalogName():
            return _no_database(where)
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return StoreError(f"the schema {SCHEMA} of {where} is incomplete; restore a backup or use another database")
        case errors.CharacterNotInRepertoire() | errors.UntranslatableCharacter() | errors.DataError():
            return StoreError(f"{where} cannot hold a value ({type(error).__name__}); pass plain text")
        case psycopg.OperationalError(sqlstate=None) if refused := _refused(str(error), where):
            return refused
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unreachable(f"{where} cannot be reached; see that PostgreSQL runs there, then try again")
        case _:
            return StoreError(f"{where} refused a statement ({type(error).__name__}); report this")


def _refused(said: str, where: str) -> StoreError | None:
    """What a server meant that let nobody in, which comes without a code: only its words tell it from one that is away.

    In another language than English it is taken for one that cannot be reached.
    """
    for pattern, error in _REFUSALS:
        if re.search(pattern, said):
            return error(where)
    return None


def _no_database(where: str) -> StoreError:
    return StoreError(f"there is no database at {where}; create it with `createdb`")


def _no_user(where: str) -> StoreError:
    return StoreError(f"{where} does not know this user; create it with `createuser`, or name another in the address")


def _not_let_in(where: str) -> StoreError:
    return StoreError(f"{where} does not let this user in; check user and password")


def _full(where: str) -> StoreBusy:
    return StoreBusy(f"{where} takes no more connections; raise max_connections or close some")


_REFUSALS: tuple[tuple[str, Callable[[str], StoreError]], ...] = (
    (r'FATAL: +database ".*" does not exist', _no_database),
    (r'FATAL: +role ".*" does not exist', _no_user),
    (r"FATAL: +.*authentication failed|no password supplied|FATAL: +no pg_hba.conf entry", _not_let_in),
    (r"FATAL: +(sorry, too many clients|too many connections for|remaining connection slots)", _full),
)


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
        lock_timeout = int(self._busy_seconds * 1000)
        # Given at the start they override what the login, the database and the address set. What comes last counts.
        options = f"-c lock_timeout={lock_timeout} -c timezone=UTC -c client_encoding=UTF8 -c search_path={PATH}"
        parts = conninfo_to_dict(self._url)
        parts["options"] = f"{parts.get('options') or ''} {options}".strip()
        parts.setdefault("connect_timeout", "10")
        parts.setdefault("application_name", "assentry")
        try:
            connection = psycopg.connect(make_conninfo("", **parts), autocommit=True, prepare_threshold=0)
        except psycopg.Error as error:
            raise _pooled(self.where) if "startup parameter" in str(error) else translated(error, self.where) from None
        # One type for all integers, so that a statement is prepared once and not once per size of number.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.prepared_max = 200
        try:
            self._read_back(connection)
            if not self.opened:
                with self._opening:
                    self._open(connection)
        except BaseException:
            connection.close()
            raise
        self.ours.add(connection.info.backend_pid)
        return connection

    def _read_back(self, connection: Connection) -> None:
        """The search path is ours: a pool of connections may have dropped it. SHOW itself looks nothing up."""
        try:
            ((path,),) = connection.execute("SHOW search_path").fetchall()
        except psycopg.Error as error:
            raise translated(error, self.where) from None
        if path != PATH:
            raise _pooled(self.where)

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
            raise _not_allowed(connection, self.where) from None
        except psycopg.Error as error:
            raise translated(error, self.where) from None
        self.opened = True

    def _migrate(self, connection: Connection) -> None:
        known = migrations("postgres")
        if not missing(_applied(connection, self.where), known, self.where):
            return
        with connection.transaction():
            # Two processes that open a new database at once: the second waits here, then finds it done.
            connection.execute("SET LOCAL lock_timeout = 0")
            connection.execute(
                "SELECT pg_advisory_xact_lock(pg_catalog.hashtextextended('assentry migrations', 0::bigint))"
            )
            applied = _applied(connection, self.where)
            if not applied:
                self._set_up(connection)
            for migration in missing(applied, known, self.where):
                connection.execute(migration.sql.encode(), prepare=False)
                connection.execute("INSERT INTO migrations VALUES (%s, %s, now())", (migration.number, migration.name))

    def _set_up(self, connection: Connection) -> None:
        """Our schema is there, empty but for the table of migrations, and nobody but us changes what is in it."""
        found = connection.execute(_SET_UP, (SCHEMA,)).fetchall()
        if not found:
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        for owner, user, trusted, filled in found:
            if filled:
                raise StoreError(
                    f"the schema {SCHEMA} of {self.where} has objects in it that Assentry did not make; "
                    "rename that schema, or name another database"
                )
            if not trusted:
                raise StoreError(
                    f"the schema {SCHEMA} of {self.where} belongs to {owner}, who could change what is in it; "
                    f"run ALTER SCHEMA {SCHEMA} OWNER TO {user}, then try again"
                )
        connection.execute(
            f"CREATE TABLE {SCHEMA}.migrations "
            "(number bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)"
        )


def _applied(connection: Connection, where: str) -> set[int]:
    """The migrations of the database, read once it is known whose they are: what is called a table may be a view."""
    for owner, user in connection.execute(_STRANGERS, (SCHEMA,)).fetchall():
        raise StoreError(
            f"the schema {SCHEMA} of {where}, or something in it, belongs to {owner}, who has fewer rights than {user} "
            f"and could use those of {user}; open it with the login {owner}, or, once you have seen that everything "
            f"in it is Assentry's, run REASSIGN OWNED BY {owner} TO {user}"
        )
    for (name,) in connection.execute(_MAKERS, (SCHEMA,)).fetchall():
        raise StoreError(
            f"{name} may create functions and tables in the schema {SCHEMA} of {where}, and could use our rights with "
            f"them; run REVOKE CREATE ON SCHEMA {SCHEMA} FROM {name}, see that everything in it is Assentry's, then "
            "try again"
        )
    if not connection.execute(_IS_SET_UP, (SCHEMA,)).fetchall()[0][0]:
        return set()
    return {row[0] for row in connection.execute(f"SELECT number FROM {SCHEMA}.migrations".encode()).fetchall()}  # noqa: S608


def _not_allowed(connection: Connection, where: str) -> StoreError:
    """This user may not set up or open the database; what to grant."""
    try:
        ((user, name, is_there),) = connection.execute(_RIGHTS, (SCHEMA,)).fetchall()
        ((is_set_up,),) = connection.execute(_IS_SET_UP, (SCHEMA,)).fetchall()
    except psycopg.Error as error:
        return StoreError(str(translated(error, where)))
    if not is_there:
        return StoreError(
            f"{where} has no schema {SCHEMA} yet, and {user} may not create it; as the owner of the database run "
            f"GRANT CREATE ON DATABASE {name} TO {user}, then try again"
        )
    if not is_set_up:
        return StoreError(
            f"{user} may not create tables in the schema {SCHEMA} of {where}; as its owner run "
            f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {user}, then try again"
        )
    return StoreError(
        f"{user} may not use the tables of Assentry in {where}, or may not upgrade them; use the login that owns them, "
        f"which servers, workers and people at a terminal share, or let agents reach a server over HTTP"
    )


def _pooled(where: str) -> StoreError:
    return StoreError(
        f"{where} does not keep the settings of a connection, as behind a pool such as PgBouncer; "
        "connect to the PostgreSQL server directly"
    )


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
