"""How long a waiting agent sleeps on after its request was decided. One process waits, the same or another decides.

Times are CLOCK_MONOTONIC in seconds, which all processes of a machine share.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import assentry
from assentry.core.authority import Principal
from bench.ours_cycles import inbox_beside
from bench.tasks import serve

ANA = Principal("ana")
PATHS = ["/srv/a.tmp"]
_loop = asyncio.new_event_loop()
_stamps: list[float] = []
_opened: dict[str, tuple[assentry.Gate, assentry.Inbox, Callable[..., Awaitable[float]]]] = {}
_waiting: list[asyncio.Task[float]] = []


def now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def stamped(function: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """`function`, noting when it was called, or when it returned."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not after:
            _stamps.append(now())
        answer = function(*args, **kwargs)
        if after:
            _stamps.append(now())
        return answer

    return call


def opened(database: str) -> tuple[assentry.Gate, assentry.Inbox, Callable[..., Awaitable[float]]]:
    """A gate, an inbox, and a guarded function that says when its first line ran."""
    if database not in _opened:
        gate = assentry.open(database, agent="cleanup")

        @gate.guard(reversible=False)
        async def delete_files(paths: list[str]) -> float:
            """Delete files."""
            del paths
            return now()

        _opened[database] = gate, _loop.run_until_complete(inbox_beside(gate)), delete_files
    return _opened[database]


def propose(database: str, until: str) -> str:
    """An agent of this process waits for a decision; the id of its request."""
    return _loop.run_until_complete(_propose(database, until))


async def _propose(database: str, until: str) -> str:
    gate, inbox, delete_files = opened(database)
    if until == "returned":
        proposal = await gate.propose("delete_files", {"paths": PATHS}, description="Delete files.")
        assert proposal.request is not None

        async def wait() -> float:
            await proposal.outcome()
            return now()

        _waiting.append(asyncio.create_task(wait()))
        found = proposal.request.id
    else:

        async def call() -> float:
            return await delete_files(paths=PATHS)

        _waiting.append(asyncio.create_task(call()))
        page = await inbox.page()
        for _ in range(1000):
            if page.requests:
                break
            await asyncio.sleep(0.002)
            page = await inbox.page()
        found = page.requests[0].id
    await asyncio.sleep(0.01)  # until it sleeps
    return found


def awoken() -> float:
    """When the agent that waited here ran again."""
    return _loop.run_until_complete(_waiting.pop())


def approve(database: str, request_id: str) -> float:
    """When the approval was committed, seen from the process that decided."""
    _, inbox, _ = opened(database)
    _stamps.clear()
    _loop.run_until_complete(inbox.approve(ANA, request_id))
    return _stamps[0]


def alone(database: str, until: str, number: int) -> list[float]:
    """Seconds from the commit to the agent running, where the same process waits and decides."""

    async def once() -> float:
        request_id = await _propose(database, until)
        _stamps.clear()
        woken, _ = await asyncio.gather(_waiting.pop(), opened(database)[1].approve(ANA, request_id))
        return woken - _stamps[0]

    opened(database)
    return [_loop.run_until_complete(once()) for _ in range(number)]


def watch_commits() -> None:
    """Every commit is noted: when it was acknowledged, just before those who wait for it are answered."""
    from assentry.stores.postgres import writers
    from assentry.stores.sqlite import writer

    writer.deliver = stamped(writer.deliver)  # type: ignore[attr-defined]
    writer.settle = stamped(writer.settle)  # type: ignore[attr-defined]
    writers.Writers.commit = stamped(writers.Writers.commit, after=True)  # type: ignore[method-assign]


if __name__ == "__main__":
    watch_commits()
    serve({"propose": propose, "awoken": awoken, "approve": approve, "alone": alone})
