"""holdpoint: calls that a rule approves, and calls that a person approves."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

from holdpoint import HoldPoint, SQLiteStore

from bench.tasks import serve

PLACES = [f"city {number}" for number in range(997)]
PATHS = ["/srv/a.tmp", "/srv/b.tmp", "/srv/c.tmp"]


class SyncedStore(SQLiteStore):
    """Its store, syncing every commit as Assentry does (it ships with synchronous=NORMAL, which may lose the last)."""

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        connection.execute("PRAGMA synchronous=FULL")
        found = connection.execute("PRAGMA synchronous").fetchone()[0]
        if found != 2:
            raise RuntimeError(f"synchronous is {found}")
        return connection


def rule(name: str) -> Callable[[str, Any], str | None]:
    return lambda kind, _: "approve" if kind == name else None


def read_weather(city: str) -> str:
    return city


def allowed(rules: int, calls: int) -> float:
    """Seconds added per call that one of its rules approves, with its store as it ships."""
    names = [f"other{number}" for number in range(rules - 1)] + ["weather"]
    hold = HoldPoint(SQLiteStore(f"holdpoint-allowed-{rules}.db"), rules=[rule(name) for name in names])
    guarded = hold.guard(kind="weather")(read_weather)
    for place in PLACES[:20]:
        guarded(place)
    start = time.perf_counter()
    for number in range(calls):
        guarded(PLACES[number % 997])
    return (time.perf_counter() - start) / calls


def cycles(callers: int, each: int, mode: str) -> float:
    """Calls per second that were held, approved and run, by so many callers at once."""
    hold = HoldPoint(SyncedStore(f"holdpoint-{mode}.db", busy_timeout_ms=120_000))
    if mode == "asyncio":

        @hold.guard(kind="delete_files")
        async def delete_later(paths: list[str]) -> int:
            return len(paths)

        async def caller() -> None:
            for _ in range(each):
                pending = await delete_later(paths=PATHS)
                decision = await hold.approve_async(pending.id, actor="ana")
                assert decision.value == 3

        async def everyone() -> float:
            start = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(callers)))
            return time.perf_counter() - start

        return callers * each / asyncio.run(everyone())

    @hold.guard(kind="delete_files")
    def delete_files(paths: list[str]) -> int:
        return len(paths)

    def work() -> None:
        for _ in range(each):
            pending = delete_files(paths=PATHS)
            assert hold.approve(pending.id, actor="ana").value == 3

    start = time.perf_counter()
    if callers == 1:
        work()
    else:
        threads = [threading.Thread(target=work) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return callers * each / (time.perf_counter() - start)


if __name__ == "__main__":
    serve({"allowed": allowed, "cycles": cycles})
