"""What the examples share: a private folder to work in, a ledger of what really happened, and a scripted person.

A program of your own needs none of it: there it is `gate = assentry.open()`, and `assentry worker` for what was parked.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import assentry
from assentry.assemble import Desk, desk
from assentry.core.authority import principal_named
from assentry.core.request import Request, State
from assentry.core.run import Run
from assentry.engine.gate import os_user
from assentry.ports import Filter, RunFilter
from assentry.settings import load

LEDGER = Path("ledger.txt")
BESIDE = Path(__file__).resolve().parent
GIVEN = argparse.Namespace(name="", script=False, folder=None, database=None)


@dataclass(frozen=True, slots=True)
class Says:
    """What a scripted person says to the next request: approve, deny, choose, modify, revise, answer or undo."""

    verb: str
    what: Any = None
    by: str = ""


def enter(name: str) -> None:
    """Run as a program, this process works in a folder of its own from now on; a worker stays where it was started."""
    if name != "__main__":
        return
    GIVEN.name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=sys.modules[name].__doc__.partition("\n")[0])
    parser.add_argument("--script", action="store_true", help="a scripted person decides")
    parser.add_argument("--folder", help="where to work, and to leave everything; else a temporary one")
    parser.add_argument("--database", help="postgresql://…, instead of a file in the folder")
    parser.parse_args(namespace=GIVEN)
    folder = Path(GIVEN.folder or tempfile.mkdtemp(prefix=f"assentry-{GIVEN.name}-")).resolve()
    if (folder / "assentry.toml").exists():
        parser.error(f"{folder} was used before; `assentry worker {GIVEN.name}:gate` there goes on with what is parked")
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    _settle(folder)


def _settle(folder: Path) -> None:
    """Whatever is started in this folder finds the same database, and the policy that stands beside some examples."""
    database = GIVEN.database or os.environ.get("ASSENTRY_DATABASE")
    settings = {"database": database or folder / "assentry.db", "home": folder / "home"}
    if database:
        settings["workspace"] = os.environ["ASSENTRY_WORKSPACE"] = folder.name
        os.environ["ASSENTRY_DATABASE"] = database
    toml = Path("assentry.toml")
    toml.touch(0o600)
    toml.write_text("".join(f"{name} = {json.dumps(str(value))}\n" for name, value in settings.items()))
    if (policy := BESIDE / f"{GIVEN.name}.yaml").exists():
        text = policy.read_text()
        if not GIVEN.script:  # you are the first of its people, and may decide what you started yourself
            text = text.replace("os_users: [ann]", f"os_users: [{os_user()}]")
            text = text.replace("self_review: deny", "self_review: allow")
        Path(policy.name).write_text(text)


def did(what: str) -> str:
    """It happened, for real: there is a line in the ledger."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{what}\n")
    print(f"  did     {what}", flush=True)
    return what


def play(gate: assentry.Gate, begin: Callable[[], Awaitable[None]], script: Sequence[Says]) -> None:
    """The example was played: begun, decided by you or by the script, gone on with, and told."""
    here = quote(str(Path.cwd()))
    print(sys.modules["__main__"].__doc__.partition("\n\n")[0], end="\n\n", flush=True)
    if not GIVEN.script:
        print(f"Decide in another terminal:      cd {here} && assentry inbox")
        print(f"Once it is parked, you may end this with Ctrl-C. Any worker goes on with it:\n    cd {here}")
        print(f"    PYTHONPATH={quote(str(BESIDE))} assentry worker {GIVEN.name}:gate", end="\n\n", flush=True)
    with suppress(KeyboardInterrupt):
        went_well = asyncio.run(_played(gate, begin, list(script)))
        if not GIVEN.folder:
            shutil.rmtree(Path.cwd())
        sys.exit(not went_well)


async def _played(gate: assentry.Gate, begin: Callable[[], Awaitable[None]], script: list[Says]) -> bool:
    """Whether it went well."""
    try:
        await begin()
    except assentry.Parked:
        print("  parked  nothing of the run is left here; it is rows in the database", flush=True)
    place = await desk(load())
    async with gate.worker():
        run = await _attended(place, script)
    print(f"\nThe run is {run.state}: {run.outcome if run.outcome is not None else run.reason or run.error}")
    await place.store.close()
    await gate.close()
    return not run.error


async def _attended(place: Desk, script: list[Says]) -> Run:
    """The run, once it is over: what it waited for was shown, and decided where there is a script."""
    told: set[str] = set()
    while True:
        for request in (await place.inbox.page()).requests:
            if request.id not in told:
                told.add(request.id)
                print(f"  waits   {request.candidate.says} (assentry show {request.code})", flush=True)
            if GIVEN.script:
                await said(place, request, script.pop(0))
            elif request.votes:
                await said(place, request, Says("approve", by=script[-1].by))  # the second person is always scripted
        (run,) = await place.store.runs(place.settings.workspace, RunFilter(), limit=1)
        if not run.state.is_open and not await _can_be_undone(place, script):
            return run
        await asyncio.sleep(0.05)


async def _can_be_undone(place: Desk, script: list[Says]) -> bool:
    """Somebody may still want something back, or has said so and does not have it yet."""
    page = await place.inbox.page(Filter(states=(State.DONE, State.UNDO_ASKED, State.UNDOING)))
    back = [request for request in page.requests if request.can_undo]
    if back and script and GIVEN.script:
        await said(place, back[0], script.pop(0))
        return True
    return any(request.state is not State.DONE for request in back) or (bool(back) and not GIVEN.script)


async def said(place: Desk, request: Request, says: Says) -> None:
    """A person has decided the request, on what they saw; what has to be typed was typed."""
    person = principal_named(place.judgement.policy, says.by) if says.by else place.person()
    shown = await place.inbox.brief(request.id)
    what, phrase = says.what, shown.phrase
    if callable(what):
        what = what(shown.args)
    if says.verb == "choose":
        (option,) = [option for option in shown.options if option.label == what]
        what, phrase = option.number, option.phrase
    how = {} if says.verb == "undo" else {"confirm": phrase, "seen_digest": shown.digest}
    await getattr(place.inbox, says.verb)(person, request.id, *([] if what is None else [what]), **how)
    told = f": {says.what}" if isinstance(says.what, str) else f", typed {phrase!r}" if phrase else ""
    print(f"  {says.by or 'person':6}  {says.verb}{told}", flush=True)
