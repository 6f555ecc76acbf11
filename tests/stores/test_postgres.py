"""The PostgreSQL store: the contract, and what is particular to a server."""

from typing import Any

import psycopg
import pytest

from assent.ports import Store
from assent.stores.postgres import PostgresStore
from assent.testing.store_contract import StoreContract


class TestPostgresStore(StoreContract):
    """The whole contract on PostgreSQL."""

    @pytest.fixture
    def place(self, postgres_database: str) -> str:
        return postgres_database

    def make(self, place: Any) -> Store:
        return PostgresStore(place)

    def source(self, place: Any) -> str:
        return f"from assent.stores.postgres import PostgresStore\nstore = PostgresStore({place!r})"

    async def damage(self, place: Any, table: str, column: str, value: str) -> None:
        with psycopg.connect(place) as connection:
            connection.execute(f"UPDATE {table} SET {column} = %s", (value,))
