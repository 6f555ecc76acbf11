"""What takes something away waits for what was begun before it; and the connection that listens notices a silence."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from assentry.core.change import Change
from assentry.core.grant import revoke
from assentry.core.switch import Setting, Switch
from assentry.core.switching import turned
from assentry.errors import PolicyMoved
from assentry.ports import Store, View
from assentry.stores.postgres import PostgresStore, listen
from assentry.stores.postgres.writes import SQL, change_write, changes_text
from assentry.testing.store_contract_log import policy_entry
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import LONG_AGO, WORKSPACE, asked, grant, grants_step, inserted, moved, pending
from tests.postgres import beside
from tests.stage import until

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
BEFORE = Switch(WORKSPACE, "cleanup", Setting.GO, "", LONG_AGO)


@pytest.fixture
async def stores(postgres_emptied: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """Two processes' worth of stores."""
    async with AsyncExitStack() as stack:
        made = (PostgresStore(postgres_emptied, hands=24), PostgresStore(postgres_emptied))
        for each in made:
            await each.open()
            stack.push_async_callback(each.close)
        yield made


async def stop(store: Store) -> None:
    await store.transact(
        WORKSPACE, None, lambda view: turned(BEFORE, Setting.STOP, "ada", "", view.now), exclusive=True
    )


async def take_back(store: Store) -> None:
    def step(view: View) -> Change:
        return Change(grants=(revoke(view.grants[0], view.now),))

    await store.transact(WORKSPACE, None, step, grants=("grant-0001",), exclusive=True)


async def apply(store: Store) -> None:
    await store.apply_policy(WORKSPACE, "text", "alice", policy_entry)


async def waits(url: str, task: asyncio.Task[Any]) -> bool:
    """Somebody waits for the lock that what was begun shares; false if the task did not wait for it."""

    async def look() -> str:
        if task.done():
            return "done"
        with beside(url) as connection:
            ((number,),) = connection.execute(WAITING).fetchall()  # type: ignore[arg-type]
        return "waits" if number else ""

    async def found() -> str | None:
        return await look() or None

    return await until(found) == "waits"


@pytest.mark.parametrize("take_away", [stop, take_back, apply])
async def test_what_takes_something_away_returns_once_what_read_the_rules_before_it_has_committed(
    stores: tuple[PostgresStore, PostgresStore], postgres_emptied: str, take_away: Callable[[Store], Awaitable[None]]
) -> None:
    agents, people = stores
    await agents.transact(WORKSPACE, None, grants_step(grant(1)))
    request = pending(asked(1))
    await agents.transact(WORKSPACE, None, inserted(request))
    read, go_on = threading.Event(), threading.Event()

    def held_open(view: View) -> Change:
        assert not view.switches
        read.set()
        assert go_on.wait(60)
        made = moved(fence=1)(view)
        assert made is not None
        return made

    # Under locks, as a begin inside a run is made: it has read the switches and has not committed.
    begins = asyncio.create_task(
        agents.transact(WORKSPACE, request.id, held_open, agent="cleanup", grants=("none",), policy=0)
    )
    try:
        await asyncio.to_thread(read.wait, 60)
        taken = asyncio.create_task(take_away(people))  # type: ignore[arg-type]
        assert await waits(postgres_emptied, taken), "it was acknowledged while a begin could still commit"
        assert not begins.done()
    finally:
        go_on.set()
    assert await begins is not None
    await taken
    await people.sequence(WORKSPACE)
    kinds = [entry.text for entry in await people.entries(WORKSPACE)]
    assert "request.moved" in kinds[2]


async def test_a_stop_waits_for_a_group_of_commits_that_has_looked_at_the_switches(
    stores: tuple[PostgresStore, PostgresStore], postgres_emptied: str
) -> None:
    _, people = stores
    change = inserted(pending(asked(1)))(View(datetime.now(UTC), None))
    assert change is not None
    with beside(postgres_emptied) as connection:
        connection.execute("BEGIN")
        write = change_write(WORKSPACE, change, agent="cleanup")
        (((effect,), _),) = connection.execute(SQL["commit"], changes_text(write)).fetchall()
        assert effect
        stopping = asyncio.create_task(stop(people))
        assert await waits(postgres_emptied, stopping)
        connection.execute("COMMIT")
    await stopping


async def test_people_who_change_the_rules_are_not_starved_by_many_who_decide(
    stores: tuple[PostgresStore, PostgresStore],
) -> None:
    agents, people = stores
    requests = [pending(asked(number)) for number in range(24)]
    for each in requests:
        await agents.transact(WORKSPACE, None, inserted(each))
    ended, made = False, [0] * len(requests)

    async def decide(number: int) -> None:
        version = 0
        while not ended:
            try:
                # Always under locks, the slowest way: several round trips with the shared lock held.
                await agents.transact(
                    WORKSPACE, requests[number].id, moved(fence=made[number]), policy=version, grants=("none",)
                )
                made[number] += 1
            except PolicyMoved:
                stored = await agents.policy(WORKSPACE)
                version = 0 if stored is None else stored.version

    deciding = [asyncio.create_task(decide(number)) for number in range(len(requests))]

    async def all_moved(since: list[int]) -> bool:
        return all(now > before for now, before in zip(made, since, strict=True))

    try:
        switch = BEFORE
        for turn in range(3):
            since = list(made)
            await until(lambda since=since: all_moved(since))  # type: ignore[misc]
            # Waiting for longer than the lock's time-out of 5 s would be a StoreBusy.
            await apply(people)
            setting = Setting.STOP if turn % 2 else Setting.PAUSE
            change = await people.transact(
                WORKSPACE,
                None,
                lambda view, was=switch, now=setting: turned(was, now, "ada", "", view.now),  # type: ignore[misc]
                exclusive=True,
            )
            assert change is not None
            assert change.switch is not None
            switch = change.switch
        since = list(made)
        await until(lambda: all_moved(since))
    finally:
        ended = True
        await asyncio.gather(*deciding)


async def test_a_listener_that_nobody_answers_is_deaf_and_finds_its_way_back(
    postgres_emptied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "HEARTBEAT", 0.02)
    monkeypatch.setattr(listen, "ANSWER_SECONDS", 1.0)
    store = PostgresStore(postgres_emptied)
    await store.open()
    assert store.hears
    heard: list[Any] = []
    told = Heard()
    store.watch(heard.append)
    store.watch(told)

    async def hears() -> bool:
        return store.hears

    async def is_deaf() -> bool:
        return not store.hears

    await until(hears)
    room = store._room
    assert room is not None
    # The server's process stops where it is: the connection stays open, and nothing comes from it any more.
    with beside(postgres_emptied) as connection:
        ((process,),) = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query IN ('LISTEN assentry', 'SELECT 1')"
            " AND pid = ANY(%s)", (sorted(room.connector.ours),),
        ).fetchall()  # fmt: skip
    before = heard.count(None)
    os.kill(process, signal.SIGSTOP)
    try:
        await until(is_deaf, "nobody noticed that the listener is not answered")
        await until(hears, "it did not connect again")
        assert heard.count(None) > before
    finally:
        os.kill(process, signal.SIGCONT)
    other = PostgresStore(postgres_emptied)
    await other.transact(WORKSPACE, None, inserted(replace(pending(asked(7)))))
    await other.close()
    await told.until(lambda h: asked(7).id in h.versions, 60)
    await store.close()
