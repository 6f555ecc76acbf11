"""On PostgreSQL an agent's login does all that a gate does, and has no right to decide."""

import asyncio
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import assentry
from assentry.assemble import desk
from assentry.core.authority import Principal
from assentry.core.grant import Terms
from assentry.core.request import State
from assentry.engine.grants import give
from assentry.engine.policies import apply_policy
from assentry.errors import NotAllowed
from assentry.settings import load
from assentry.stores.postgres import PostgresStore
from tests.postgres import beside
from tests.stage import PATIENCE


def as_user(url: str, user: str) -> str:
    """The same database, as another login."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}"))


@pytest.fixture
async def agent_url(postgres_database):
    store = PostgresStore(postgres_database)
    await store.open()
    await store.create_roles()
    await store.close()
    with psycopg.connect(postgres_database, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS an_agent")
        owner.execute("CREATE ROLE an_agent LOGIN IN ROLE assentry_agent")
    yield as_user(postgres_database, "an_agent")
    with psycopg.connect(postgres_database, autocommit=True) as owner:
        owner.execute("DROP OWNED BY an_agent CASCADE")
        owner.execute("DROP ROLE an_agent")


async def test_an_agents_login_does_all_a_gate_does_and_cannot_decide(postgres_database, agent_url):
    gate = await asyncio.to_thread(assentry.open, agent_url)

    @gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> int:
        return len(files)

    @gate.guard(reversible=True, reach="local", undo=lambda done: None)
    async def write_file(path: str) -> str:
        return path

    assert await write_file("a") == "a"
    call = asyncio.create_task(delete_files(["a", "b"]))
    forger = await desk(load({"database": agent_url}))
    owner = await desk(load({"database": postgres_database}))
    async with asyncio.timeout(PATIENCE):
        while not (found := (await owner.inbox.page()).requests):
            await asyncio.sleep(0.01)
    (request,) = found
    anybody = Principal("root", roles=("*",), teams=("*",))
    for attempt in (
        forger.inbox.approve(anybody, request.id),
        forger.inbox.deny(anybody, request.id, "no"),
        forger.inbox.modify(anybody, request.id, {"files": []}),
        apply_policy(forger.store, "default", "mode: observe", anybody),
        give(forger.store, "default", anybody, Terms(("*",), timedelta(hours=1))),
    ):
        with pytest.raises(NotAllowed):
            await attempt
    still = await owner.store.request("default", request.id)
    assert (still.state, still.votes, still.version) == (State.PENDING, (), request.version)
    await owner.inbox.approve(owner.person(), request.id)
    assert await call == 2
    for each in (forger, owner):
        await each.store.close()
    await gate.close()


async def test_an_agents_login_cannot_write_a_decision_by_hand_either(postgres_database, agent_url):
    gate = await asyncio.to_thread(assentry.open, agent_url)

    @gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> None: ...

    with pytest.raises(assentry.Parked):
        await delete_files(["a"])
    await gate.close()
    with beside(agent_url) as agent:
        for forged in (
            "UPDATE requests SET state = 'approved'",
            "UPDATE requests SET state = 'approved', version = version + 1",
            "DELETE FROM entries",
            "UPDATE entries SET text = '{}'",
            "DELETE FROM requests",
            "INSERT INTO policies SELECT 'default', 1, 'mode: observe', 'x', now()",
            "DROP TABLE requests",
            "ALTER TABLE requests DISABLE TRIGGER ALL",
        ):
            with pytest.raises(psycopg.Error):
                agent.execute(forged)
    with beside(postgres_database) as owner:
        assert owner.execute("SELECT state FROM requests").fetchone() == ("pending",)
