"""A cleanup agent found 120 temporary files. Yes or no is too little to decide that, so the card offers four ways.

    python examples/cleanup.py            you decide, in a second terminal
    python examples/cleanup.py --script   a scripted person decides, and changes their mind

The files are real. Each option was judged and its exact arguments were stored when it was offered; choosing it runs
those, and nothing that the agent says afterwards changes them. What went to the trash comes back with `assentry undo`.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="cleanup")

FILES, TRASH = Path("files"), Path("trash")
DAY = 86_400


def older_than(days: int, files: list[str]) -> list[str]:
    return [file for file in files if Path(file).stat().st_mtime < time.time() - days * DAY]


@gate.guard
async def find_files(pattern: str) -> list[str]:
    """Find files by their name."""
    return sorted(str(file) for file in FILES.glob(pattern))


@gate.guard(reversible=True, reach="local")
async def write_list(name: str, files: list[str]) -> str:
    """Write down what was found."""
    Path(name).write_text("\n".join(files))
    return did(f"listed {len(files)} files in {name}")


def fetch_back(done: assentry.Done) -> None:
    for file in done.args["files"]:
        shutil.move(TRASH / Path(file).name, file)
    did(f"fetched {len(done.args['files'])} files back from the trash")


@gate.guard(reversible=True, reach="local", undo=fetch_back, says="Move {files.count} files to the trash")
async def move_to_trash(files: list[str]) -> str:
    TRASH.mkdir(exist_ok=True)
    for file in files:
        shutil.move(file, TRASH)
    return did(f"moved {len(files)} files to the trash")


def ways(args: dict[str, Any]) -> list[Any]:
    """What a person may choose from: other arguments, another action, or nothing at all."""
    files = args["files"]
    old = older_than(90, files)
    return [
        assentry.option("Delete all", "Gone at once.", {}),
        assentry.option("Only older than 90 days", f"{len(files) - len(old)} files stay.", {"files": old}),
        assentry.option("Move to trash", "Comes back with undo.", {"files": files}, instead=move_to_trash),
        assentry.option("Cancel", "Nothing changes."),
    ]


@gate.guard(reversible=False, reach="local", says="Delete {files.count} files", options=ways)
async def delete_files(files: list[str]) -> str:
    for file in files:
        Path(file).unlink()
    return did(f"deleted {len(files)} files")


async def work(state: dict[str, Any]) -> str:
    """The agent. Files that are gone would not be found again, so what was found travels in the state."""
    await write_list("found.txt", state["found"])
    try:
        return await delete_files.with_(why="Nobody has opened them this month.")(state["found"])
    except assentry.Denied as denied:
        return f"nothing was deleted: {denied.reason}"


@gate.host("cleanup")
async def resume(state: dict[str, Any], resumption: Any) -> str:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state)


async def begin() -> None:
    FILES.mkdir()
    for number in range(120):
        file = FILES / f"{number:03}.tmp"
        file.write_text("x" * 100)
        os.utime(file, (time.time() - (number + 30.5) * DAY,) * 2)
    async with gate.run("Tidy up temporary files", original="just a small cleanup", host="cleanup") as run:
        state = {"found": await find_files("*.tmp")}
        run.snapshot(state)
        run.outcome = await work(state)


SCRIPT = [Says("choose", "Move to trash"), Says("undo")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
