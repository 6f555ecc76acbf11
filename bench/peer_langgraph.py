"""LangGraph: a node that interrupts, resumed with a decision, with its own savers."""

import asyncio
import sqlite3
import threading
import time
import uuid
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypedDict

import aiosqlite
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from bench.tasks import serve

PATHS = ["/srv/a.tmp", "/srv/b.tmp", "/srv/c.tmp"]
CONNECTION = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
"""As its savers demand of connections that are handed to them."""


class State(TypedDict, total=False):
    paths: list[str]
    deleted: int


def delete_files(state: State) -> State:
    decision = interrupt({"action": "delete_files", "args": {"paths": state["paths"]}})
    return {"deleted": len(state["paths"]) if decision == "approve" else 0}


async def delete_later(state: State) -> State:
    return delete_files(state)


def graph(saver: Any, node: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("delete_files", node)
    builder.add_edge(START, "delete_files")
    builder.add_edge("delete_files", END)
    return builder.compile(checkpointer=saver)


def synced(connection: sqlite3.Connection) -> sqlite3.Connection:
    found = connection.execute("PRAGMA synchronous").fetchone()[0]
    if found != 2:
        raise RuntimeError(f"synchronous is {found}")
    return connection


def in_threads(database: str, callers: int, each: int, durability: str) -> float:
    with ExitStack() as stack:
        saver: Any
        if "://" in database:
            size = min(callers, 20)
            pool = ConnectionPool(database, min_size=size, max_size=size, kwargs=dict(CONNECTION), open=False)
            saver = PostgresSaver(stack.enter_context(pool))  # type: ignore[arg-type]
            saver.setup()
        else:
            saver = stack.enter_context(SqliteSaver.from_conn_string(database))
            saver.setup()
            synced(saver.conn)
        made = graph(saver, delete_files)

        def work() -> None:
            for _ in range(each):
                config = {"configurable": {"thread_id": str(uuid.uuid4())}}
                found = made.invoke({"paths": PATHS}, config, durability=durability)
                assert "__interrupt__" in found
                assert made.invoke(Command(resume="approve"), config, durability=durability)["deleted"] == 3

        threads = [threading.Thread(target=work) for _ in range(callers)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return callers * each / (time.perf_counter() - start)


async def in_tasks(database: str, callers: int, each: int, durability: str) -> float:
    async with AsyncExitStack() as stack:
        saver: Any
        if "://" in database:
            size = min(callers, 20)
            pool = AsyncConnectionPool(database, min_size=size, max_size=size, kwargs=dict(CONNECTION), open=False)
            saver = AsyncPostgresSaver(await stack.enter_async_context(pool))  # type: ignore[arg-type]
        else:
            connection = await stack.enter_async_context(aiosqlite.connect(database))
            async with connection.execute("PRAGMA synchronous") as cursor:
                row = await cursor.fetchone()
                if row is None or row[0] != 2:
                    raise RuntimeError(f"synchronous is {row}")
            saver = AsyncSqliteSaver(connection)
        await saver.setup()
        made = graph(saver, delete_later)

        async def work() -> None:
            for _ in range(each):
                config = {"configurable": {"thread_id": str(uuid.uuid4())}}
                found = await made.ainvoke({"paths": PATHS}, config, durability=durability)
                assert "__interrupt__" in found
                after = await made.ainvoke(Command(resume="approve"), config, durability=durability)
                assert after["deleted"] == 3

        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(callers)))
        return callers * each / (time.perf_counter() - start)


def cycles(database: str, callers: int, each: int, mode: str, durability: str = "async") -> float:
    """Runs per second that were interrupted, resumed and ended, by so many callers at once.

    "async" is its own default of when checkpoints are written.
    """
    if mode == "asyncio":
        return asyncio.run(in_tasks(database, callers, each, durability))
    return in_threads(database, callers, each, durability)


if __name__ == "__main__":
    serve({"cycles": cycles})
