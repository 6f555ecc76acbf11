"""The SQLite store: the contract, and what is particular to a file."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from assent.ports import Store
from assent.stores.sqlite import SqliteStore
from assent.testing.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    """The whole contract on SQLite."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path / "assent.db"

    def make(self, place: Any) -> Store:
        return SqliteStore(place)

    def source(self, place: Any) -> str:
        return f"from assent.stores.sqlite import SqliteStore\nstore = SqliteStore({str(place)!r})"

    async def damage(self, place: Any, table: str, column: str, value: str) -> None:
        connection = apsw.Connection(str(place))
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.close()
