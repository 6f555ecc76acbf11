"""An owner, an agent and a reviewer on one PostgreSQL, each with a login of its own."""

import secrets
from collections.abc import AsyncIterator

import pytest

from assentry.stores.postgres import PostgresStore
from tests.stores.logins import login


@pytest.fixture
async def owner(postgres_database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_database)
    await store.open()
    await store.create_roles()
    await store.create_roles()
    yield store
    await store.close()


@pytest.fixture
async def agent(owner: PostgresStore, postgres_database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(login(postgres_database, f"a_{secrets.token_hex(4)}", "assentry_agent"))
    yield store
    await store.close()


@pytest.fixture
async def reviewer(owner: PostgresStore, postgres_database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(login(postgres_database, f"r_{secrets.token_hex(4)}", "assentry_reviewer"))
    yield store
    await store.close()
