"""“Delete the old backups”: how old, and where? The agent asks before it starts, and only then looks at anything.

    python examples/clarify.py            you answer, in a second terminal
    python examples/clarify.py --script   a scripted person answers

Plain rules read the task; no model is needed. What they find open becomes a question; what the answers leave is a
call like any other, and deleting for good waits for a person who now sees exactly which files.
"""

import os
import re
import time
from pathlib import Path
from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="backups")

DAY = 86_400


@gate.guard
async def find_backups(directory: str, older_than_days: int) -> list[str]:
    """Find backups of at least this age."""
    edge = time.time() - older_than_days * DAY
    return sorted(str(file) for file in Path(directory).glob("*.tar") if file.stat().st_mtime < edge)


@gate.guard(reversible=True, reach="service", outside=False)
async def announce(text: str) -> str:
    """Tell the team what is about to happen."""
    return did(f"announced: {text}")


@gate.guard(reversible=False, reach="local", says="Delete {files.count} backups for good")
async def delete_backups(files: list[str]) -> int:
    for file in files:
        Path(file).unlink()
        did(f"deleted {file}")
    return len(files)


async def work(state: dict[str, Any]) -> dict[str, Any]:
    run = assentry.current_run()
    try:
        told = await run.clarify()  # parks here until the answers are there; a task that is clear asks nothing
        await announce(f"backups in {told['where']} go if they are {told['how old']}")
        if "found" not in state:
            days = int(re.search(r"\d+", told["how old"]).group())
            run.snapshot(state := {"found": await find_backups(told["where"], days)})  # what was read is kept
        return {**told, "deleted": await delete_backups(state["found"])}
    except assentry.Denied as denied:
        return {"deleted": 0, "why": denied.reason}


@gate.host("clarify")
async def resume(state: dict[str, Any], resumption: Any) -> dict[str, Any]:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state)


async def begin() -> None:
    for directory in ("daily", "yearly"):
        Path(directory).mkdir()
        for number in range(10):
            file = Path(directory) / f"{number}.tar"
            file.write_text("backup")
            os.utime(file, (time.time() - number * 20 * DAY,) * 2)
    async with gate.run("Delete backups", original="delete the old backups", host="clarify") as run:
        run.snapshot({})
        run.outcome = await work({})


SCRIPT = [Says("answer", "older than 90 days"), Says("answer", "daily"), Says("approve")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
