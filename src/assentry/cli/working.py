"""A worker as a process: somebody's gate is imported, works until told to stop, and ends what it began."""

import asyncio
import importlib
import logging
import signal
import sys
from pathlib import Path

from assentry.assemble import gate_for
from assentry.blocking import BlockingGate
from assentry.cli.outcome import tell
from assentry.engine.gate import Gate, store_of
from assentry.engine.importing import importing
from assentry.errors import GuardError, SettingsError
from assentry.ports import Filter, RunFilter
from assentry.settings import Settings
from assentry.system import STOP_SIGNALS, told_to_stop


def serve(target: str, capacity: int, settings: Settings) -> None:
    """The worker of the named gate, or of one without functions, has worked until SIGTERM or SIGINT."""
    gate = found(target) if target else gate_for(settings)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    if gate.workspace != settings.workspace:
        tell(f"the gate works in workspace {gate.workspace!r}, whatever --workspace says")
    asyncio.run(_serve(gate, target, capacity))


def found(target: str) -> Gate:
    """The gate that MODULE:ATTRIBUTE names."""
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise SettingsError("name your gate as MODULE:GATE, such as shop.agent:gate")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with importing(name):
            value: object = importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise SettingsError(f"there is no module {name!r} here; run this where `import {name}` works") from None
        raise
    for part in attribute.split("."):
        value = getattr(value, part, None)
    if value is None:
        raise SettingsError(f"{name} has no {attribute}; give the gate a name there, such as gate = assentry.open()")
    if isinstance(value, BlockingGate):
        return value.gate
    if not isinstance(value, Gate):
        raise GuardError(f"{target} is not a gate; name what `assentry.open()` returned")
    return value


async def _is_unused(gate: Gate) -> bool:
    """Nobody has asked for anything in this workspace yet."""
    store, workspace = store_of(gate), gate.workspace
    runs, page = await asyncio.gather(
        store.runs(workspace, RunFilter(), limit=1), store.requests(workspace, Filter(), limit=1)
    )
    return not runs and not page.requests


async def _serve(gate: Gate, target: str, capacity: int) -> None:
    stop = asyncio.Event()
    with told_to_stop(stop.set):
        async with gate.worker(capacity=capacity):
            works = f"for {target} on" if target else "without a module (deadlines, ladders and leases) on"
            tell(f"working {works} {store_of(gate).address}; Ctrl-C or SIGTERM ends it in order")
            if await _is_unused(gate):
                tell(
                    f"no agent has asked for anything yet in workspace {gate.workspace} of {store_of(gate).address}; "
                    "if agents work already, they work on another database (run this in their directory, or give both "
                    "one ASSENTRY_DATABASE)"
                )
            await stop.wait()
            tell(
                "no new work is taken; what was begun ends first (again to leave at once: its outcome is then unknown)"
            )
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
        await gate.close()
