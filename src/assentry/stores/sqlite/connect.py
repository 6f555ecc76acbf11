"""A connection with the settings that durability rests on, read back; and SQLite's errors in our words."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from assentry.errors import StoreBusy, StoreError, StoreFull
from assentry.stores.migrate import missing
from assentry.stores.statements import migrations
from assentry.system import create_private

_SETTINGS: dict[str, Any] = {"synchronous": 2, "foreign_keys": 1, "trusted_schema": 0, "cell_size_check": 1}
_JOURNAL_BYTES = 64 << 20
_CACHED_STATEMENTS = 100
_CACHE_KIBIBYTES = 32 << 10
_READER_CACHE_KIBIBYTES = 2 << 10
"""There are several readers, and the system keeps the file in memory anyway."""
CHECKPOINT_PAGES = 4000


def open_writer(path: Path, busy_seconds: float) -> apsw.Connection:
    """A connection that may write: the file exists for its owner alone, is migrated, in WAL, syncing in full."""
    _create(path)
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, busy_seconds)
    try:
        _write_ahead(connection, path, busy_seconds)
        _set(connection, path)
        _migrate(connection, path)
    except BaseException:
        connection.close(True)
        raise
    return connection


def open_reader(path: Path, busy_seconds: float) -> apsw.Connection:
    """A connection that cannot write."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, busy_seconds)
    try:
        _set(connection, path)
        connection.pragma("cache_size", -_READER_CACHE_KIBIBYTES)
        connection.execute("PRAGMA query_only = 1").fetchall()
    except BaseException:
        connection.close(True)
        raise
    return connection


def _create(path: Path) -> None:
    try:
        if not create_private(path) and path.is_dir():
            raise StoreError(f"{path} is a directory; name a file in it, such as {path / 'assentry.db'}")
    except FileNotFoundError:
        raise StoreError(f"the directory {path.parent} does not exist; create it, or name another file") from None
    except PermissionError:
        raise StoreError(
            f"{path} cannot be created; make {path.parent} writable for this user, or name another file"
        ) from None
    except OSError as error:
        raise translated(error, path) from None


def _connect(path: Path, flags: int, busy_seconds: float) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=_CACHED_STATEMENTS)
    except apsw.Error as error:
        if not os.access(path, os.R_OK | os.W_OK):
            raise StoreError(f"{path} may not be read and written by this user; change its owner or mode") from None
        raise translated(error, path) from None
    connection.set_busy_timeout(int(busy_seconds * 1000))
    return connection


def _write_ahead(connection: apsw.Connection, path: Path, busy_seconds: float) -> None:
    """The file is in WAL mode. Two processes that open a new file at once both want the switch; one waits."""
    end = time.monotonic() + busy_seconds
    while True:
        try:
            mode = connection.pragma("journal_mode", "wal")
        except apsw.BusyError as error:
            if time.monotonic() >= end:
                raise translated(error, path) from None
            time.sleep(0.01)
            continue
        except apsw.Error as error:
            raise translated(error, path) from None
        if mode != "wal":
            raise StoreError(
                f"{path} cannot be put into write-ahead mode (it is in {mode!r}); keep it on a local disk, "
                "not on a network share"
            )
        return


def _set(connection: apsw.Connection, path: Path) -> None:
    try:
        for name, wanted in _SETTINGS.items():
            connection.pragma(name, wanted)
        connection.pragma("journal_size_limit", _JOURNAL_BYTES)
        connection.pragma("cache_size", -_CACHE_KIBIBYTES)
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        found = {name: connection.pragma(name) for name in (*_SETTINGS, "journal_mode")}
    except apsw.Error as error:
        raise translated(error, path) from None
    wrong = [name for name, wanted in {**_SETTINGS, "journal_mode": "wal"}.items() if found[name] != wanted]
    if wrong:
        raise StoreError(
            f"{path} does not take the settings that durability rests on ({', '.join(wrong)}); "
            "reinstall apsw with the SQLite it brings"
        )


def _migrate(connection: apsw.Connection, path: Path) -> None:
    known = migrations("sqlite")
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            tables = {str(name) for (name,) in found}
            if tables and not {"about", "migrations"} <= tables:
                raise StoreError(
                    f"{path} has tables of another program; a SQLite file holds one program's tables: name another file"
                )
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migrations "
                "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT"
            )
            applied = {number for (number,) in connection.execute("SELECT number FROM migrations")}
            for migration in missing(applied, known, str(path)):
                connection.execute(migration.sql)
                connection.execute(
                    "INSERT INTO migrations VALUES (?, ?, datetime('now'))", (migration.number, migration.name)
                )
            connection.execute("COMMIT")
        except BaseException:
            with suppress(apsw.Error):
                connection.execute("ROLLBACK")
            raise
    except apsw.Error as error:
        raise translated(error, path) from None


def translated(error: Exception, path: Path) -> StoreError:
    """What `error` means for whoever runs Assentry, in one line."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"another process holds {path} for longer than it should; end it (`fuser {path}` names it) or try again"
            )
        case apsw.FullError():
            return StoreFull(f"no space is left for {path}; nothing was changed: free some space and try again")
        case apsw.NotADBError():
            return StoreError(f"{path} is not a database of Assentry; name another file, or move this one away")
        case apsw.CorruptError():
            return StoreError(f"{path} is damaged; stop every process that uses it and restore the last good backup")
        case apsw.ReadOnlyError():
            return StoreError(f"{path} cannot be written; make the file and its directory writable for this user")
        case apsw.CantOpenError():
            return StoreError(f"{path} cannot be opened; see that it and its directory exist and are yours to write")
        case apsw.IOError():
            return StoreError(f"the disk under {path} reports an error ({_extended(error)}); check it, then try again")
        case OSError():
            return StoreError(f"{path} cannot be used: {error.strerror}; check the file and its directory")
        case _:
            return StoreError(f"{path} cannot be used: {type(error).__name__}; restore a backup if this stays")


def _extended(error: apsw.Error) -> str:
    code = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code, code))


def fetch(connection: apsw.Connection, sql: str, values: dict[str, Any]) -> list[Any]:
    """Every row of the query."""
    return connection.execute(sql, values).fetchall()
