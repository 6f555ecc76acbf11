"""The store contract on SQLite, for a process without POSIX: `tests/test_platforms.py` runs it there."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from assentry.ports import Store
from assentry.stores.sqlite import SqliteStore
from assentry.testing.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    """The whole contract."""

    @pytest.fixture
    def place(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:  # pytest's own asks for the user's number
            yield Path(folder) / "assentry.db"

    def make(self, place: Any) -> Store:
        return SqliteStore(place)

    def source(self, place: Any) -> str:
        return f"from assentry.stores.sqlite import SqliteStore\nstore = SqliteStore({str(place)!r})"

    async def damage(self, place: Any, table: str, column: str, value: str) -> None:
        connection = apsw.Connection(str(place))
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.close()
