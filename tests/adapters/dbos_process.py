"""A process with a workflow in it, to be killed where it is told: ASSENTRY DBOS FILE begin|follow WHERE."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from dbos import DBOS, DBOSPortableJSONSerializer

import assentry
from assentry.adapters.dbos import dbos_host
from assentry.ports import RunFilter

database, system, file, task, where = sys.argv[1:]
gate = assentry.open(database, agent="cleanup", lease=timedelta(seconds=2))
dbos = DBOS(
    config={
        "name": "works",
        "system_database_url": system,
        "serializer": DBOSPortableJSONSerializer(),
        "log_level": "ERROR",
    }
)
host = dbos_host(gate, dbos)


def did(what: str) -> None:
    with Path(file).open("a") as out:
        print(what, file=out, flush=True)


async def maybe_hang(here: str) -> None:
    if where == here:
        did(here)
        await asyncio.Event().wait()


@DBOS.step()
async def find() -> list[str]:
    did("found")
    return ["a.tmp"]


@gate.guard(reversible=False)
async def delete_files(files: list[str]) -> str:
    await maybe_hang("deleting")
    did("deleted")
    return "deleted"


@DBOS.step()
async def pack(how: str) -> str:
    await maybe_hang("packing")
    did("packed")
    return how


@host.workflow
async def tidy() -> str:
    """Tidy up."""
    return await pack(await delete_files(await find()))


async def main() -> None:
    if task == "begin":
        try:
            await host.start(tidy)
        except assentry.Parked:
            did("parked")
    async with gate.worker():
        while (run := (await gate._store.runs("default", RunFilter()))[0]).state.is_open:
            await asyncio.sleep(0.01)
    did(json.dumps(run.outcome or run.error))
    await gate.close()


DBOS.launch()
asyncio.run(main())
DBOS.destroy()
