"""The world of a run: guarded functions that keep a record, and what tests ask of the only run."""

import asyncio
from typing import Any

import assentry
from assentry.core.run import Run, RunState
from assentry.core.run_life import RunEvent, advance_run
from assentry.ports import RunFilter, View
from tests.at_desk import PATIENCE
from tests.engine.conftest import House


class World:
    """What guarded functions did."""

    def __init__(self, gate: assentry.Gate) -> None:
        self.did: list[str] = []

        @gate.guard
        async def find_files(pattern: str) -> list[str]:
            """Find files."""
            return [f"{pattern}{n}" for n in range(3)]

        @gate.guard(reversible=True, reach="local")
        async def move_file(path: str) -> str:
            self.did.append(f"move {path}")
            return path.upper()

        @gate.guard(reversible=False)
        async def delete_files(files: list[str]) -> int:
            self.did.append(f"delete {len(files)}")
            return len(files)

        self.find, self.move, self.delete = find_files, move_file, delete_files


async def the_run(house: House) -> Run:
    (run,) = await house.desk.store.runs("default", RunFilter())
    return run


async def until(house: House, state: RunState) -> Run:
    """The only run, once it is in this state."""
    async with asyncio.timeout(PATIENCE):
        while (run := await the_run(house)).state is not state:
            await asyncio.sleep(0.01)
    return run


async def said(house: House, event: RunEvent) -> None:
    """A person does this to the only run."""
    run = await the_run(house)

    def step(view: View) -> Any:
        assert view.run is not None
        return advance_run(view.run, event, view.now)

    await house.desk.store.transact("default", None, step, run=run.id)
