"""The agent whose runs park, as `assentry worker tests.evidence.parked_host:gate` serves it.

It says through a pipe when its host function is entered and when its action acts, by the machine's clock.
"""

import json
import os
import time
from typing import Any

import assentry
from assentry.core.run import RunState
from assentry.engine.worker import Worker
from assentry.ports import RunFilter
from tests.evidence import planted
from tests.evidence.world import AGENT

HOST = "parked"
_PIPE = os.environ.get("ASSENTRY_TEST_PIPE", "")


def tell(what: str, **more: Any) -> None:
    """One line, with the moment it was written."""
    if _PIPE:
        os.write(int(_PIPE), json.dumps({"what": what, "at": time.monotonic_ns(), **more}).encode() + b"\n")


def all_parked_kept() -> None:
    """Whenever the worker looks, it reads every parked run, and keeps them."""
    look = Worker._resume_some
    kept: dict[str, Any] = {}

    async def look_at_all(self: Worker, wake: Any) -> None:
        after, wanted = "", RunFilter(states=(RunState.PARKED,))
        while page := await self._store.runs(self._workspace, wanted, after=after, limit=500):
            kept.update({run.id: run for run in page})
            after = page[-1].id
        await look(self, wake)

    planted.swap(Worker, "_resume_some", look_at_all)


if "ASSENTRY_TEST_PLANTED" in os.environ:
    all_parked_kept()

gate = assentry.open(agent=os.environ.get("ASSENTRY_TEST_AGENT", AGENT))


@gate.guard(reversible=False, reach="local")
async def remove(path: str) -> str:
    """Remove a file."""
    tell("acted", key=assentry.idempotency_key())
    return path


@gate.host(HOST)
async def resume(state: Any, resumption: Any) -> str:
    tell("entered", run=resumption.run.id, own=state["code"] == resumption.run.code)
    return await remove(state["path"])


async def park(path: str) -> tuple[str, str]:
    """A new run that waits for somebody to allow what it wants: the run and the request."""
    try:
        async with gate.run("Remove a file", host=HOST) as run:
            run.snapshot({"code": run.code, "path": path, "messages": ["Remove a file", "It may be important."] * 4})
            run.outcome = await remove(path)
    except assentry.Parked as parked:
        return run.id, parked.request_id
    raise AssertionError("it did not wait")
