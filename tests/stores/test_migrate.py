"""Migrations: numbered, forward only, whole or not at all, and never of a database from the future."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from assentry.errors import NewerDatabase, StoreError
from assentry.ports import Store
from assentry.stores import statements
from assentry.stores.migrate import missing
from assentry.stores.postgres import PostgresStore
from assentry.stores.postgres import connect as postgres_connect
from assentry.stores.sqlite import SqliteStore
from assentry.stores.sqlite import connect as sqlite_connect
from assentry.stores.statements import Migration, migrations
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending
from tests.postgres import beside

KNOWN = (Migration(1, "begin", ""), Migration(2, "more", ""), Migration(3, "last", ""))


@pytest.mark.parametrize(("applied", "left"), [(set(), [1, 2, 3]), ({1}, [2, 3]), ({1, 2, 3}, []), ({1, 3}, [2])])
def test_what_is_missing_is_applied_in_order(applied: set[int], left: list[int]) -> None:
    assert [migration.number for migration in missing(applied, KNOWN, "here")] == left


def test_a_database_from_the_future_is_refused_with_a_remedy() -> None:
    with pytest.raises(NewerDatabase) as caught:
        missing({1, 2, 3, 4}, KNOWN, "here")
    assert "upgrade" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_migrations_are_numbered_without_a_gap(backend: str) -> None:
    found = migrations(backend)
    assert [migration.number for migration in found] == list(range(1, len(found) + 1))


def test_both_back_ends_have_the_same_tables() -> None:
    def tables(backend: str) -> set[str]:
        words = " ".join(migration.sql for migration in migrations(backend)).split("CREATE TABLE ")[1:]
        return {word.split()[0] for word in words}

    assert tables("sqlite") == tables("postgres")


async def test_a_newer_sqlite_database_is_left_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "assentry.db")
    await store.open()
    await store.close()
    connection = apsw.Connection(str(tmp_path / "assentry.db"))
    connection.execute("INSERT INTO migrations VALUES (999, 'future', '')")
    connection.close()
    with pytest.raises(NewerDatabase):
        await SqliteStore(tmp_path / "assentry.db").identity()


async def test_a_newer_postgres_database_is_left_alone(postgres_database: str) -> None:
    store = PostgresStore(postgres_database)
    await store.open()
    await store.close()
    with beside(postgres_database) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, 'future', now())")
    store = PostgresStore(postgres_database)
    with pytest.raises(NewerDatabase):
        await store.identity()
    await store.close()


def broken(backend: str) -> tuple[Migration, ...]:
    bad = Migration(99, "bad", "CREATE TABLE half_done (x integer); SELECT nonsense FROM nowhere;")
    return (*migrations(backend), bad)


async def test_a_migration_that_fails_on_sqlite_leaves_the_old_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "assentry.db"
    store = SqliteStore(path)
    identity = await store.identity()
    await store.close()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_connect, "migrations", broken)
        with pytest.raises(StoreError):
            await SqliteStore(path).open()
    connection = apsw.Connection(str(path))
    assert not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'half_done'").fetchall()
    connection.close()
    again = SqliteStore(path)
    assert await again.identity() == identity
    await again.close()


async def test_a_migration_that_fails_on_postgres_leaves_the_old_schema(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres_database)
    identity = await store.identity()
    await store.close()
    with monkeypatch.context() as patch:
        patch.setattr(postgres_connect, "migrations", broken)
        failing = PostgresStore(postgres_database)
        with pytest.raises(StoreError):
            await failing.open()
        await failing.close()
    with beside(postgres_database) as connection:
        assert connection.execute("SELECT to_regclass('half_done')").fetchone() == (None,)
    again = PostgresStore(postgres_database)
    assert await again.identity() == identity
    await again.close()


async def test_many_processes_open_one_new_file_at_once(tmp_path: Path) -> None:
    program = f"""
import asyncio
from assentry.stores.sqlite import SqliteStore
async def main():
    store = SqliteStore({str(tmp_path / "assentry.db")!r})
    print(await store.identity())
    await store.close()
asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    runs = [asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True) for _ in range(6)]
    assert len({done.stdout for done in await asyncio.gather(*runs)}) == 1


def test_statements_are_found_by_name_on_one_line() -> None:
    for backend in ("sqlite", "postgres"):
        found = statements.statements(backend)
        assert found["identity"] == "SELECT value FROM about WHERE key = 'identity'"
        assert all("\n" not in sql and "--" not in sql and sql for sql in found.values())


NEXT = Migration(2, "next", "CREATE TABLE notes (request text NOT NULL); INSERT INTO notes SELECT id FROM requests;")


def and_next(backend: str) -> tuple[Migration, ...]:
    """What a later version will know."""
    return (*migrations(backend), replace(NEXT, number=len(migrations(backend)) + 1))


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_a_later_version_brings_a_database_up_to_date_once_with_everything_in_it(
    backend: str, tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sqlite_connect if backend == "sqlite" else postgres_connect

    def made() -> Store:
        return SqliteStore(tmp_path / "a.db") if backend == "sqlite" else PostgresStore(postgres_database)

    def notes() -> list[Any]:
        if backend == "sqlite":
            return list(apsw.Connection(str(tmp_path / "a.db")).execute("SELECT request FROM notes"))
        with beside(postgres_database) as connection:
            return connection.execute("SELECT request FROM notes").fetchall()

    request = pending(asked(1))
    old = made()
    await old.transact(WORKSPACE, None, inserted(request))
    await old.close()
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations", and_next)
        for _ in range(2):
            new = made()
            assert await new.request(WORKSPACE, request.id) == request
            await new.close()
            assert notes() == [(request.id,)]
    again = made()
    with pytest.raises(NewerDatabase):
        await again.request(WORKSPACE, request.id)
    await again.close()
