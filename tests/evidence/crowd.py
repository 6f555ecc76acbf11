"""Very many parked runs, quickly: some are made by an agent, the others are copies of their rows.

A copy has ids, codes, a permit's digest and lines of the log of its own, leaf hashes among them, so that it can be
decided and resumed like the others and the log verifies.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
from uuid_utils.compat import uuid7

from assentry.core.canonical import digest
from assentry.engine.asking import new_code
from assentry.stores.words import searchable
from tests import postgres
from tests.evidence.world import Place

Row = dict[str, Any]
Rows = dict[str, list[Row]]
AT_ONCE = 10_000


class Book(Protocol):
    """The tables of a database, past the store."""

    def read(self, sql: str) -> list[Row]: ...

    def run(self, sql: str) -> None: ...

    def add(self, rows: Rows) -> None: ...

    def without_words(self) -> str:
        """The index of words is gone, for as long as very many rows come: how it is made again."""
        ...

    def settle(self) -> None:
        """What a database does about a crowd by itself, sooner or later, is done."""
        ...


class SqliteBook:
    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.set_busy_timeout(10_000)
        # Only while rows are copied: nothing that is shown rests on it.
        self._connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000").fetchall()

    def read(self, sql: str) -> list[Row]:
        found = self._connection.execute(sql)
        return [dict(zip([column[0] for column in found.getdescription()], row, strict=True)) for row in found]

    def run(self, sql: str) -> None:
        self._connection.execute(sql).fetchall()

    def add(self, rows: Rows) -> None:
        ((last,),) = self._connection.execute("SELECT max(seq) FROM requests")
        for number, (request, ask) in enumerate(zip(rows["requests"], rows["asks"], strict=True), last + 1):
            request["seq"] = ask["seq"] = number
        with self._connection:
            for table, made in rows.items():
                names = [name for name in made[0] if (table, name) != ("entries", "id")]
                values = ", ".join(f":{name}" for name in names)
                self._connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})", made)

    def without_words(self) -> str:
        return ""  # it is quick enough

    def settle(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class PostgresBook:
    def __init__(self, url: str) -> None:
        self._connection = postgres.beside(url)

    def read(self, sql: str) -> list[Row]:
        found = self._connection.execute(sql.encode())
        names = [column.name for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found]

    def run(self, sql: str) -> None:
        self._connection.execute(sql.encode())

    def add(self, rows: Rows) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for table, made in rows.items():
                names = [name for name in made[0] if (table, name) != ("entries", "id")]
                with cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN".encode()) as copy:
                    for row in made:
                        copy.write_row([row[name] for name in names])

    def without_words(self) -> str:
        (made,) = self.read("SELECT indexdef FROM pg_indexes WHERE indexname = 'asks_words'")
        self.run("DROP INDEX asks_words")
        return str(made["indexdef"])

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE")
        self._connection.execute("CHECKPOINT")


def book(place: Place) -> Book:
    return PostgresBook(place.database) if "://" in place.database else SqliteBook(place.database)


def multiplied(open_book: Book, wanted: int) -> None:
    """There are `wanted` runs, each parked on a request of its own. Those that were there are all alike parked."""
    originals = list(_lives(open_book))
    (counted,) = open_book.read("SELECT max(idx) AS last FROM entries")
    index = counted["last"] + 1
    missing = wanted - len(originals)
    for start in range(0, missing, AT_ONCE):
        made: Rows = {}
        for number in range(start, min(start + AT_ONCE, missing)):
            for table, rows in _copied(originals[number % len(originals)]).items():
                made.setdefault(table, []).extend(rows)
        for place, entry in enumerate(made["entries"]):
            entry["idx"] = index + place
        index += len(made["entries"])
        open_book.add(made)
    open_book.settle()


def waiting(open_book: Book, wanted: int) -> None:
    """There are `wanted` requests that wait, all outside of runs. Those that were there are all alike."""
    stored = {table: open_book.read(f"SELECT * FROM {table}") for table in ("requests", "asks", "entries")}
    originals = [
        {
            "requests": [request],
            "asks": [ask for ask in stored["asks"] if f'"id":"{request["id"]}"' in ask["body"]],
            "entries": [entry for entry in stored["entries"] if entry["subject"] == request["id"]],
        }
        for request in stored["requests"]
    ]
    index, missing = 1 + max(entry["idx"] for entry in stored["entries"]), wanted - len(originals)
    again = open_book.without_words() if missing > AT_ONCE else ""
    for start in range(0, missing, AT_ONCE):
        made: Rows = {}
        for number in range(start, min(start + AT_ONCE, missing)):
            for table, rows in _asked_again(originals[number % len(originals)]).items():
                made.setdefault(table, []).extend(rows)
        for place, entry in enumerate(made["entries"]):
            entry["idx"] = index + place
        index += len(made["entries"])
        open_book.add(made)
    if again:
        open_book.run(again)
    open_book.settle()


def _asked_again(life: Rows) -> Rows:
    (request,) = life["requests"]
    key = str(uuid7())
    copies = _renamed(life, {request["id"]: key, request["code"]: new_code()})
    copies["requests"][0]["step"] = f"\ufffd{key}"
    copies["asks"][0]["title"] = searchable(key, copies["asks"][0]["title"].partition(" \u00b7")[0])
    return copies


def _lives(open_book: Book) -> Iterator[Rows]:
    """Everything that is stored about each run."""
    tables = ("requests", "asks", "runs", "snapshots", "waits", "entries")
    stored = {table: open_book.read(f"SELECT * FROM {table}") for table in tables}
    by_request = {request["id"]: request for request in stored["requests"]}
    for run in stored["runs"]:
        (wait,) = (wait for wait in stored["waits"] if wait["run"] == run["id"])
        request = by_request[wait["request"]]
        subjects = (run["id"], request["id"])
        yield {
            "requests": [request],
            "asks": [ask for ask in stored["asks"] if f'"id":"{request["id"]}"' in ask["body"]],
            "runs": [run],
            "snapshots": [snapshot for snapshot in stored["snapshots"] if snapshot["id"] == run["id"]],
            "waits": [wait],
            "entries": [entry for entry in stored["entries"] if entry["subject"] in subjects],
        }


def _copied(life: Rows) -> Rows:
    (run,), (request,), (ask,) = life["runs"], life["requests"], life["asks"]
    content, permit = (
        re.search(f'"{name}":"([0-9a-f]+)"', ask["body"])[1] for name in ("content_digest", "permit_digest")
    )  # type: ignore[index]
    new = {run["id"]: str(uuid7()), request["id"]: str(uuid7()), run["code"]: new_code(), request["code"]: new_code()}
    own = (request["workspace"], request["agent"], new[run["id"]], request["step"])
    if permit != digest(content, request["workspace"], request["agent"], run["id"], request["step"]):
        raise AssertionError("permits are made in another way now; copy them in that way")
    new[permit] = digest(content, *own)
    return _renamed(life, new)


def _renamed(life: Rows, new: dict[str, str]) -> Rows:
    names = re.compile("|".join(new))

    def renamed(value: Any) -> Any:
        return names.sub(lambda found: new[found[0]], value) if isinstance(value, str) else value

    copies = {
        table: [{name: renamed(value) for name, value in row.items()} for row in rows] for table, rows in life.items()
    }
    for entry in copies["entries"]:
        entry["leaf"] = hashlib.sha256(b"\0" + entry["text"].encode()).hexdigest()
    return copies


@contextmanager
def pair(kind: str, server: str, root: str, counts: tuple[int, int], are: str) -> Iterator[dict[str, Place]]:
    """Two databases that do not exist yet, with the keys of one person, named after how many will be there."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=root))
        places = {}
        for count in counts:
            address = str(Path(directory) / f"{count}.db")
            if kind == "postgres":
                address = stack.enter_context(postgres.database(server))
            places[f"{kind}, {count:,} {are}"] = Place(address, directory)
        yield places
