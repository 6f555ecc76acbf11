"""Calls through the whole of Assentry: proposed, decided by a person, run; and decisions alone."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import assentry
from assentry.core.authority import Principal
from assentry.engine.judgement import Judgement
from bench.tasks import serve

PATHS = ["/srv/a.tmp", "/srv/b.tmp", "/srv/c.tmp"]
ANA = Principal("ana")
Guarded = Callable[..., Awaitable[int]]
_opened: dict[str, tuple[assentry.Gate, Guarded]] = {}


def opened(database: str) -> tuple[assentry.Gate, Guarded]:
    """A gate on this database and a function behind it that always waits for a person."""
    if database not in _opened:
        gate = assentry.open(database, agent="cleanup")

        @gate.guard(reversible=False)
        async def delete_files(paths: list[str]) -> int:
            """Delete files."""
            return len(paths)

        _opened[database] = gate, delete_files
    return _opened[database]


async def inbox_beside(gate: assentry.Gate) -> assentry.Inbox:
    """The reviewer's side, in the same process and on the same store."""
    judgement = Judgement(gate._store, gate.workspace)
    await judgement.refresh()
    return assentry.Inbox(gate._store, gate.workspace, judgement)


def cycles(database: str, callers: int, each: int) -> float:
    """Calls per second that were held, approved and run, by so many callers at once.

    Each caller waits inside its guarded call. Whoever decides hears of new requests as a surface does, from the
    store's notices, and approves each of them.
    """
    return asyncio.run(_cycles(*opened(database), callers, each))


async def _cycles(gate: assentry.Gate, delete_files: Guarded, callers: int, each: int) -> float:
    inbox = await inbox_beside(gate)
    loop = asyncio.get_running_loop()
    deciding: set[asyncio.Task[object]] = set()

    known: set[str] = set()

    def decide(request_id: str) -> None:
        # A notice may come twice; a surface shows a request once.
        if request_id in known:
            return
        known.add(request_id)
        task: asyncio.Task[object] = loop.create_task(inbox.approve(ANA, request_id))
        deciding.add(task)
        task.add_done_callback(deciding.discard)

    def heard(news: Mapping[str, int] | None) -> None:
        for key, version in (news or {}).items():
            if version == 1 and ":" not in key:
                loop.call_soon_threadsafe(decide, key)

    async def caller(number: int) -> None:
        # Everybody asks for something else: the same thing twice would be one request.
        for each_time in range(each):
            assert await delete_files(paths=[*PATHS[:2], f"/srv/{number}.{each_time}.tmp"]) == 3

    stop = gate._store.watch(heard)
    try:
        start = time.perf_counter()
        await asyncio.gather(*(caller(number) for number in range(callers)))
        return callers * each / (time.perf_counter() - start)
    finally:
        stop()
        await asyncio.gather(*deciding)


def decisions(database: str, number: int) -> float:
    """Decisions per second, one after the other, on requests that were waiting."""
    return asyncio.run(_decisions(opened(database)[0], number))


async def _decisions(gate: assentry.Gate, number: int) -> float:
    inbox = await inbox_beside(gate)
    proposals = await asyncio.gather(
        *(
            gate.propose("delete_files", {"paths": [*PATHS[:2], f"/srv/{each}.tmp"]}, description="Delete files.")
            for each in range(number)
        )
    )
    waiting = [proposal.request.id for proposal in proposals if proposal.request is not None]
    assert len(waiting) == number
    start = time.perf_counter()
    for request_id in waiting:
        await inbox.approve(ANA, request_id)
    return number / (time.perf_counter() - start)


if __name__ == "__main__":
    serve({"cycles": cycles, "decisions": decisions})
