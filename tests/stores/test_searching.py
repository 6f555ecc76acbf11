"""A search is whole whichever way it goes, and costs the same however many requests there are."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from assentry.core.action import Risk
from assentry.core.request import State
from assentry.ports import Filter, Store
from assentry.stores import searching
from assentry.stores.listing import listing
from assentry.stores.postgres import PostgresStore
from assentry.stores.postgres import store as postgres_store
from assentry.stores.searching import look_up_sql, walk_sql
from assentry.stores.sqlite import SqliteStore
from assentry.stores.words import SAMPLED, is_sampled, searchable, typed, words
from assentry.testing.store_contract_lists import STATES, fill, fits, urgency, whole
from assentry.testing.store_values import WORKSPACE, asked, candidate, identifier, inserted, pending
from tests.postgres import beside


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "sqlite":
        opened: Any = SqliteStore(tmp_path / "assentry.db")
    else:
        opened = PostgresStore(request.getfixturevalue("postgres_database"))
    yield opened
    await opened.close()


@pytest.mark.parametrize("many", [0, 10**6])
async def test_whether_it_walks_or_looks_up_it_is_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    made = await fill(store, 300)
    monkeypatch.setattr(searching, "FIRST_WALKS", (8, 12))
    monkeypatch.setattr(searching, "LONG_WALK", 30)
    monkeypatch.setattr(searching, "MANY", many)
    for states in STATES:
        for text in ("thing", "thing 1", "K0007", "does act thing 288", "nothing"):
            wanted = Filter(states=states, text=text)
            expected = [request for request in made if fits(request, wanted)]
            expected.sort(key=urgency) if states == (State.PENDING,) else expected.reverse()
            assert await whole(store, wanted, 17) == expected, wanted


async def test_how_it_is_searched_depends_on_how_many_fit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_WALKS", (5,))
    monkeypatch.setattr(searching, "LONG_WALK", 20)
    monkeypatch.setattr(searching, "MANY", 2)
    # Those that fit are less urgent than a hundred that do not.
    made = [pending(asked(n, shown=candidate(says=f"First {n}", risk=Risk.CRITICAL))) for n in range(100)]
    common = [pending(asked(n, shown=candidate(says=f"Common {n}", risk=Risk.SAFE))) for n in range(100, 400)]
    for request in (*made, *common):
        await store.transact(WORKSPACE, None, inserted(request))
    assert sum(is_sampled(each.id) for each in common) >= 2
    few = await store.requests(WORKSPACE, Filter(states=(State.PENDING,), text="common 333"), limit=10)
    assert few.requests == (common[233],)
    assert few.next == ""
    many = await store.requests(WORKSPACE, Filter(states=(State.PENDING,), text="common"), limit=10)
    assert many.requests == ()
    assert many.next != ""  # a walk of so many met none; it goes on from there
    assert await whole(store, Filter(states=(State.PENDING,), text="common"), 100) == common


def test_one_id_in_so_many_stands_for_many() -> None:
    share = sum(is_sampled(f"{n:032x}") for n in range(25_600)) / 25_600
    assert share == 1 / SAMPLED
    assert not is_sampled("")
    assert not is_sampled("zz")


def test_words_are_split_at_everything_that_is_no_letter_and_no_digit() -> None:
    assert words("Delete_files.now: 3 FILES, “files”!") == ("delete", "files", "now", "3")
    assert words("\u00b7x") == ("x",)
    assert typed("a b c " * 20 + " ".join(map(str, range(40))))[:4] == ("a", "b", "c", "0")
    assert len(typed(" ".join(map(str, range(40))))) == 12
    assert searchable("x" * 30 + "01", "Send mail", "send_mail", "k7") == " send mail k7"
    assert searchable("x" * 30 + "00", "Send") == " send \u00b7send"


async def test_a_search_costs_the_same_however_many_wait(tmp_path: Path) -> None:
    """Counted in what SQLite does, not in time."""
    store = SqliteStore(tmp_path / "assentry.db", reader_count=1)
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    async def cost(text: str) -> int:
        nonlocal steps

        def look(connection: apsw.Connection) -> None:
            connection.set_progress_handler(count, 50)

        await store._read(look)
        steps = 0
        await store.requests(WORKSPACE, Filter(states=(State.PENDING,), text=text), limit=20)
        return steps

    async def fill_up(start: int, end: int) -> None:
        for base in range(start, end, 200):
            asks = [asked(n, shown=candidate(says=f"Moves thing {n} of {n % 7}")) for n in range(base, base + 200)]
            await asyncio.gather(*(store.transact(WORKSPACE, None, inserted(pending(ask))) for ask in asks))

    await fill_up(0, 1600)
    texts = ("thing", "1234", "thing 5", "nowhere", "K01234")
    small = [await cost(text) for text in texts]
    await fill_up(1600, 6400)
    large = [await cost(text) for text in texts]
    assert all(now <= before * 1.5 + 5 for now, before in zip(large, small, strict=True)), (small, large)
    await store.close()


async def test_postgres_looks_words_up_in_their_index(postgres_database: str) -> None:
    store = PostgresStore(postgres_database)
    for n in range(3):
        await store.transact(WORKSPACE, None, inserted(pending(asked(n, shown=candidate(says=f"Moves {n}")))))
    with beside(postgres_database) as connection:
        connection.execute(
            "INSERT INTO requests (workspace, id, version, token, state, urgency, gate, kind, agent, action, run, step, "
            "code, executor, review, word, runnable, ended, purged, due_at, changed_at, callers, body) "
            "SELECT workspace, 'x' || n, 1, '', 'pending', n % 4, gate, kind, agent, action, run, step || n, 'C' || n, "
            "executor, 'none', '', false, false, false, due_at, now(), '', body "
            "FROM (SELECT * FROM requests LIMIT 1) r, generate_series(1, 20000) n"
        )
        connection.execute(
            "INSERT INTO asks SELECT workspace, 'x' || n, ' common w' || n, body FROM (SELECT * FROM asks LIMIT 1) a, "
            "generate_series(1, 20000) n"
        )
        connection.execute("VACUUM ANALYZE")
        dialect = postgres_store.DIALECT
        for states in STATES:
            query = listing(WORKSPACE, Filter(states=states, text="w77"), "", 50, dialect)
            values = query.values | {"query": dialect.query(("w77",)), "word0": " w77"}
            for sql in (look_up_sql(query), dialect.sample):
                plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {sql}".encode(), values))
                assert "asks_words" in plan, plan
                assert "Seq Scan" not in plan, plan
        query = listing(WORKSPACE, Filter(states=(State.PENDING,)), "", 250, dialect)
        plan = "\n".join(
            row[0]
            for row in connection.execute(f"EXPLAIN {walk_sql(query, 1)}".encode(), query.values | {"word0": " x"})
        )
        assert "Seq Scan" not in plan, plan
    assert [each.id for each in await whole(store, Filter(states=(State.PENDING,), text="moves 2"))] == [identifier(2)]
    await store.close()
