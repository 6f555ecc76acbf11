"""Every list of the SQLite store goes through an index, and a page costs what the page holds."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import apsw

from assentry.core.request import State
from assentry.ports import Filter
from assentry.stores.listing import listing
from assentry.stores.searching import look_up_sql, walk_sql
from assentry.stores.sqlite import SqliteStore, connect
from assentry.stores.sqlite.store import DIALECT
from assentry.stores.statements import statements
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending

STATES = ((), (State.PENDING,), (State.DONE,), (State.RUNNING, State.DENIED), tuple(State))
FIELDS = ("agent", "action", "risk", "run", "gate", "review_open", "due_before", "text")
VALUES = {"risk": "risky", "review_open": True, "due_before": datetime(2026, 1, 1, tzinfo=UTC)}


def test_every_list_is_walked_through_an_index(tmp_path: Path) -> None:
    connection = connect.open_writer(tmp_path / "assentry.db", 1)
    filters = [
        Filter(
            states=states,
            **{name: VALUES.get(name, "x") for name, wanted in zip(FIELDS, chosen, strict=True) if wanted},
        )
        for states, chosen in product(STATES, product((False, True), repeat=len(FIELDS)))
    ]
    for wanted in filters:
        query = listing(WORKSPACE, wanted, "", 50, DIALECT)
        assert_indexed(connection, query.sql, query.values)
        assert_indexed(connection, walk_sql(query, 2), query.values | {"word0": " x", "word1": " y"})
        looked_up = plan(connection, look_up_sql(query), query.values | {"query": '"x"*'})
        assert looked_up.startswith("SCAN words VIRTUAL TABLE INDEX 0:M"), looked_up
        assert "SEARCH r USING INTEGER PRIMARY KEY" in looked_up
    assert_no_sorting(connection, Filter(states=(State.PENDING,)))
    assert_no_sorting(connection, Filter(states=(State.PENDING,), agent="x", action="y", risk="safe"))
    assert_no_sorting(connection, Filter())
    assert_no_sorting(connection, Filter(states=(State.DONE,)))
    assert_no_sorting(connection, Filter(review_open=True))
    for name, sql in statements("sqlite").items():
        if sql.startswith("SELECT") and name not in ("last_entry",):
            assert_indexed(connection, sql, dict.fromkeys(re.findall(r":(\w+)", sql), 1))
    connection.close()


def plan(connection: apsw.Connection, sql: str, values: dict[str, Any]) -> str:
    return "\n".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))


def assert_indexed(connection: apsw.Connection, sql: str, values: dict[str, Any]) -> None:
    for line in plan(connection, sql, values).splitlines():
        # A scan of a subquery walks the page that was found, not a table.
        assert not re.match(r"SCAN (?!f\b|r\b|b\d|\(subquery|json_each|CONSTANT)", line), f"{line}\n{sql}"


def assert_no_sorting(connection: apsw.Connection, wanted: Filter) -> None:
    """The rows come in order from the index; at most the page itself is sorted at the end."""
    query = listing(WORKSPACE, wanted, "", 50, DIALECT)
    inner = query.sql.split(" FROM (", 1)[1].rsplit(") f ", 1)[0]
    assert "TEMP B-TREE" not in plan(connection, inner, query.values), query.sql


async def test_callers_that_are_gone_are_found_at_the_same_cost_however_many_requests_wait(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "assentry.db")
    for name in ("one", "two"):
        await store.show_caller(WORKSPACE, name, timedelta(hours=1), new=True)

    async def cost() -> int:
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        def look(connection: apsw.Connection) -> list[Any]:
            connection.set_progress_handler(count, 10)
            found = connection.execute(statements("sqlite")["named_callers"], {"workspace": WORKSPACE}).fetchall()
            connection.set_progress_handler(None)
            return found

        assert await store._read(look) == [("one",), ("one two",)]
        return steps

    async def fill(start: int, end: int) -> None:
        made = (replace(pending(asked(n)), callers=("one", "two") if n % 2 else ("one",)) for n in range(start, end))
        await asyncio.gather(*(store.transact(WORKSPACE, None, inserted(each)) for each in made))

    await fill(0, 100)
    small = await cost()
    await fill(100, 2000)
    assert await cost() <= small * 1.3 + 2
    assert await store.lost_callers(WORKSPACE) == ()
    await store.close()


async def test_a_page_costs_the_same_however_many_requests_wait(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "assentry.db")
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    async def cost(wanted: Filter) -> int:
        nonlocal steps
        query = listing(WORKSPACE, wanted, "", 20, DIALECT)

        def look(connection: apsw.Connection) -> None:
            connection.set_progress_handler(count, 50)
            connection.execute(query.sql, query.values).fetchall()
            connection.set_progress_handler(None)

        steps = 0
        await store._read(look)
        return steps

    async def fill(start: int, end: int) -> None:
        for base in range(start, end, 200):
            await asyncio.gather(
                *(
                    store.transact(
                        WORKSPACE, None,
                        inserted(pending(asked(n), state=State.DONE if n % 3 else State.PENDING, due_at=now + timedelta(seconds=n))),
                    )
                    for n in range(base, base + 200)
                )
            )  # fmt: skip

    now = await store.now()
    await fill(0, 400)
    wanted = (Filter(states=(State.PENDING,)), Filter(), Filter(states=(State.DONE,)))
    small = [await cost(each) for each in wanted]
    await fill(400, 4000)
    large = [await cost(each) for each in wanted]
    assert all(now_ <= before * 1.3 + 2 for now_, before in zip(large, small, strict=True)), (small, large)
    await store.close()
