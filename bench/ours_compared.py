"""What is compared between two revisions: wall time and processor time of calls, in the process that makes them.

This file is the same for both; the package that it imports is not. So it imports what it measures only when it is
asked to, and a revision that lacks something can still answer the rest.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from bench.processes import spent
from bench.tasks import serve

Taken = dict[str, float]


def which() -> str:
    """The file that `assentry` is imported from."""
    import assentry

    return str(Path(assentry.__file__))


def allowed(calls: int) -> Taken:
    """Of a call that policy simply lets run, until its line in the log is durable; the bare call is part of it."""
    from bench.ours_allowed import PLACES, gate_for

    gate, guarded, _ = gate_for(1, "named")

    async def measured() -> Taken:
        for place in PLACES[:100]:
            await guarded(place)
        await gate._store.flush()

        async def many() -> None:
            for number in range(calls):
                await guarded(PLACES[number % len(PLACES)])
            await gate._store.flush()

        processor, start = spent(), time.perf_counter()
        await many()
        return {"wall": (time.perf_counter() - start) / calls, "processor": (spent() - processor) / calls}

    return asyncio.run(measured())


def cycles(database: str, callers: int, each: int) -> Taken:
    """Of a call that is held, approved, begun and finished, by so many callers at once."""
    from bench.ours_cycles import cycles as rate

    return _per(callers * each, lambda: rate(database, callers, each))


def _per(number: int, measured: Callable[[], float]) -> Taken:
    processor = spent()
    wall = 1 / measured()
    return {"wall": wall, "processor": (spent() - processor) / number}


def seeded(number: int) -> None:
    """`assentry.db` here has so many requests that wait."""
    import assentry

    async def asked() -> None:
        gate = assentry.open("assentry.db", agent="cleanup")
        for each in range(number):
            await gate.propose("delete_files", {"paths": [f"/srv/{each}.tmp"]}, description="Delete files.")
        await gate.close()

    asyncio.run(asked())


if __name__ == "__main__":
    serve({"which": which, "allowed": allowed, "cycles": cycles, "seeded": seeded})
