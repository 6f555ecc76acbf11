"""The floor: what the database and the operating system do with nothing of ours on top."""

import time

import apsw
import psycopg

from bench.tasks import serve

NOTE = "x" * 200


def sqlite_commits(database: str, number: int) -> float:
    """Commits per second of one small row, each synced."""
    connection = apsw.Connection(database)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", 2)
    if (connection.pragma("journal_mode"), connection.pragma("synchronous")) != ("wal", 2):
        raise RuntimeError("the database does not take its settings")
    connection.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, note TEXT)")
    start = time.perf_counter()
    for _ in range(number):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO notes (note) VALUES (?)", (NOTE,))
        connection.execute("COMMIT")
    rate = number / (time.perf_counter() - start)
    connection.close()
    return rate


def postgres_commits(database: str, number: int) -> float:
    """Commits per second of one small row: one statement that commits by itself, so one round trip."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (id bigint GENERATED ALWAYS AS IDENTITY, note text)")
        for _ in range(10):  # after which psycopg has prepared the statement
            connection.execute("INSERT INTO notes (note) VALUES (%s)", (NOTE,))
        start = time.perf_counter()
        for _ in range(number):
            connection.execute("INSERT INTO notes (note) VALUES (%s)", (NOTE,))
        return number / (time.perf_counter() - start)


if __name__ == "__main__":
    serve({"sqlite_commits": sqlite_commits, "postgres_commits": postgres_commits})
