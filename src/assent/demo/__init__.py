"""The demo: a scripted agent works on real files and mail on this machine, and a person decides what it may do.

Everything happens in a temporary folder, with a database and keys of its own.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote

from rich.console import Console
from rich.text import Text

from assent.assemble import Desk, desk, read_policy
from assent.core.request import State
from assent.demo.card import WIDEST
from assent.demo.people import program, scripted, typed
from assent.demo.play import Play
from assent.demo.stage import Left, Reviewer, Stage
from assent.demo.summary import summed_up, tell
from assent.demo.world import GOAL, Postbox, World, build, postbox
from assent.engine.policies import apply_policy
from assent.errors import AssentError

__all__ = ["run"]

PAUSE = 0.4
"""Seconds between steps, for people to follow."""

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    script: bool
    as_json: bool
    seed: int
    keep: bool
    pause: float
    database: str


def run(
    *,
    script: bool = False,
    as_json: bool = False,
    seed: int = 1,
    keep: bool = False,
    speed: float | None = None,
    database: str = "",
) -> int:
    """The demo was played; its exit code: 0, or 1 if something failed, 2 without a terminal, 130 if interrupted."""
    stage = Stage(_console(as_json=as_json))
    if not script and not (sys.stdin.isatty() and stage.console.is_terminal):
        stage.say(
            "The demo asks you to decide, and there is no terminal here to ask at. Start it in one, or let a scripted "
            "person decide: assent demo --script"
        )
        return USAGE
    try:
        import aiosmtpd  # noqa: F401
    except ImportError:
        stage.say("The demo receives real mail and needs aiosmtpd for that: pip install 'assent[demo]'")
        return USAGE
    pause = PAUSE / speed if speed else 0.0 if script else PAUSE
    wanted = Wanted(script, as_json, seed, keep, pause, database)
    began = time.monotonic()
    world = build(seed, database)
    try:
        return asyncio.run(_performed(stage, world, wanted, began))
    except asyncio.CancelledError:
        return INTERRUPTED
    except AssentError as problem:
        stage.say((f"The demo failed: {problem}", "red"))
        return FAILED
    finally:
        if not keep:
            world.remove()


def _console(*, as_json: bool) -> Console:
    """Where the story is told; wide enough where no terminal says how wide."""
    file = sys.stderr if as_json else sys.stdout
    return Console(file=file, width=None if file.isatty() else WIDEST, highlight=False, markup=False, emoji=False)


async def _performed(stage: Stage, world: World, wanted: Wanted, began: float) -> int:
    async with postbox(world) as box:
        place = await _opened(world)
        play = Play(stage, world, box, place, pause=wanted.pause, began=began)
        interrupts = Interrupts()
        _introduce(stage, world, box, wanted)

        async def open_inbox() -> None:
            with interrupts.ignored():
                process = await asyncio.create_subprocess_exec(
                    *program(), "inbox", cwd=world.folder, env=world.environment()
                )
                await process.wait()

        person = scripted(play, world, wanted.seed) if wanted.script else Reviewer(stage, place, open_inbox)
        try:
            await play.perform(person)
            summary = await summed_up(play, world, box, place)
        except (Left, asyncio.CancelledError):
            await _tell_stop(stage, play, world, wanted)
            return INTERRUPTED
        finally:
            await place.store.close()
    tell(stage, summary, kept=wanted.keep, command=typed())
    if wanted.as_json:
        print(summary.as_json())
    return OK if summary.ok else FAILED


async def _opened(world: World) -> Desk:
    """A desk on a new database, under the demo's policy."""
    place = await desk(world.settings)
    text = read_policy(world.settings.policy)
    await apply_policy(place.store, world.settings.workspace, text, place.person(), world.settings.policy)
    await place.judgement.refresh()
    return place


class Interrupts:
    """Ctrl-C and its like end the play in an orderly way, once; while another program has the screen, not at all."""

    def __init__(self) -> None:
        self._ignored = False
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        if not self._ignored and not self._task.cancelling():
            self._task.cancel()

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Meanwhile nothing is ended."""
        self._ignored = True
        try:
            yield
        finally:
            self._ignored = False


def _introduce(stage: Stage, world: World, box: Postbox, wanted: Wanted) -> None:
    """What this is, and how to decide."""
    stage.say(("assent demo", "bold"), ("  Agents act. Humans assent.", "dim"))
    stage.console.print()
    stage.say(
        "An agent (a script in a process of its own, no model) was asked: ", (f"“{GOAL}.”", "italic"),
        " Where it is safe it acts at once. Where it is not, it stops before the action and waits for ",
        "a scripted person." if wanted.script else "you.",
    )  # fmt: skip
    stage.say((f"Real files in {world.folder}, real mail to {box.address}; nothing else is touched.", "dim"))
    if not wanted.script:
        stage.console.print()
        stage.say("Decide right here, or in a second terminal:")
        stage.console.print(Text(f"    {_inbox_command(world)}", "bold cyan"), soft_wrap=True)
    stage.console.print()


def _inbox_command(world: World) -> str:
    """The folder holds an `assent.toml`; only variables of the environment would win over it."""
    if any(name.startswith("ASSENT_") for name in os.environ):
        settings = world.settings
        where = f"--database {quote(settings.database)} --workspace {settings.workspace} --home {quote(settings.home)}"
        return f"{typed()} {where} inbox"
    return f"cd {quote(str(world.folder))} && {typed()} inbox"


async def _tell_stop(stage: Stage, play: Play, world: World, wanted: Wanted) -> None:
    """What ran, what did not, and what is left."""
    stage.heading("Stopped")
    for request in await play.requests():
        if request.state is State.PENDING:
            stage.line("■", "yellow", request.candidate.action.name, request.candidate.says, "still waits; did not run")
        else:
            stage.line(" ", "", request.candidate.action.name, request.candidate.says, str(request.state))
    kept = f"kept; to go on deciding: {_inbox_command(world)}" if wanted.keep else "removed, with everything in it"
    stage.say(f"The agent's process has ended. The folder {world.folder} is {kept}.", indent=3)
