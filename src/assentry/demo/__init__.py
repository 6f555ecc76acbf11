"""The demo: scripted agents work on real files and mail on this machine, and a person decides what they may do.

Everything happens in a temporary folder, with a database and keys of its own.
"""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from shlex import quote

from rich.console import Console
from rich.text import Text

from assentry.assemble import Desk, desk, read_policy
from assentry.core.request import State
from assentry.demo.card import WIDEST
from assentry.demo.interrupts import Interrupts
from assentry.demo.people import program, scripted, typed
from assentry.demo.play import Person, Play
from assentry.demo.stage import Left, Reviewer, Stage
from assentry.demo.summary import Played, summed_up, tell
from assentry.demo.world import ASKED, Postbox, World, build, postbox
from assentry.engine.policies import apply_policy
from assentry.errors import AssentryError
from assentry.extras import needs

__all__ = ["run"]

PAUSE = 0.4
"""Seconds between steps, for people to follow."""

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    script: bool
    terminal: bool
    opens: bool
    as_json: bool
    seed: int
    keep: bool
    pause: float
    database: str

    @property
    def in_browser(self) -> bool:
        return not (self.script or self.terminal)


def run(
    *,
    script: bool = False,
    terminal: bool = False,
    opens: bool = True,
    as_json: bool = False,
    seed: int = 1,
    keep: bool = False,
    speed: float | None = None,
    database: str = "",
) -> int:
    """The demo was played; its exit code: 0, or 1 if something failed, 2 if something is missing, 130 if interrupted.

    In a browser, unless `script` lets a scripted person decide or `terminal` the one who sits here; `opens` says
    whether the browser may be opened.
    """
    stage = Stage(_console(as_json=as_json))
    if terminal and not script and not (sys.stdin.isatty() and stage.console.is_terminal):
        stage.say(
            "This form of the demo asks you to decide at a terminal, and there is none here. Decide in a browser: "
            "assentry demo; or let a scripted person decide: assentry demo --script"
        )
        return USAGE
    with needs("demo", "assentry demo"):
        for package in ("aiosmtpd", *(["textual"] if terminal else [] if script else ["fastapi"])):
            import_module(package)
    pause = PAUSE / speed if speed else 0.0 if script else PAUSE
    wanted = Wanted(script, terminal, opens, as_json, seed, keep, pause, database)
    began = time.monotonic()
    world = build(seed, database)
    try:
        return asyncio.run(_performed(stage, world, wanted, began))
    except asyncio.CancelledError:
        return INTERRUPTED
    except AssentryError as problem:
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
        with Interrupts().heard() as interrupts:
            _introduce(stage, world, box, wanted)
            told: Played | None = None
            try:
                if wanted.in_browser:
                    from assentry.demo.browser import BrowserPlay  # a server: neither agents nor scripts pay for it

                    told = shown = BrowserPlay(stage, world, box, place, pause=wanted.pause, began=began)
                    await shown.perform(interrupts, opens=wanted.opens)
                else:
                    told = play = Play(stage, world, box, place, pause=wanted.pause, began=began)
                    await play.perform(_person(stage, play, world, wanted, place, interrupts))
                summary = await summed_up(told, world, box, place)
            except (Left, asyncio.CancelledError):
                await _tell_stop(stage, told, world, wanted)
                return INTERRUPTED
            finally:
                await place.store.close()
    tell(stage, summary, kept=wanted.keep, command=typed())
    if wanted.as_json:
        print(summary.as_json())
    return OK if summary.ok else FAILED


def _person(stage: Stage, play: Play, world: World, wanted: Wanted, place: Desk, interrupts: Interrupts) -> Person:
    """Whoever decides at the terminal, or the script that does."""

    async def open_inbox() -> None:
        with interrupts.mean(lambda: None):  # while another program has the screen, they are that program's
            process = await asyncio.create_subprocess_exec(
                *program(), "inbox", cwd=world.folder, env=world.environment()
            )
            await process.wait()

    return scripted(play, world, wanted.seed) if wanted.script else Reviewer(stage, place, open_inbox)


async def _opened(world: World) -> Desk:
    """A desk on a new database, under the demo's policy."""
    place = await desk(world.settings)
    text = read_policy(world.settings.policy)
    await apply_policy(place.store, world.settings.workspace, text, place.person(), world.settings.policy)
    await place.judgement.refresh()
    return place


def _introduce(stage: Stage, world: World, box: Postbox, wanted: Wanted) -> None:
    """What this is, and how to decide."""
    stage.say(("assentry demo", "bold"), ("  Agents act. Humans assent.", "dim"))
    stage.console.print()
    if wanted.in_browser:
        stage.say(
            "Four agents (scripts in processes of their own, no model) have work to do. Where it is safe they act at ",
            "once. Where it is not, they stop before the action and wait for you.",
        )
    else:
        stage.say(
            "An agent (a script in a process of its own, no model) was asked: ", (f"“{ASKED}.”", "italic"),
            " Where it is safe it acts at once. Where it is not, it stops before the action and waits for ",
            "a scripted person." if wanted.script else "you.",
        )  # fmt: skip
    stage.say((f"Real files in {world.folder}, real mail to {box.address}; nothing else is touched.", "dim"))
    if wanted.terminal and not wanted.script:
        stage.console.print()
        stage.say("Decide right here, or in a second terminal:")
        stage.console.print(Text(f"    {_inbox_command(world)}", "bold cyan"), soft_wrap=True)
    stage.console.print()


def _inbox_command(world: World) -> str:
    """The folder holds an `assentry.toml`; only variables of the environment would win over it."""
    if any(name.startswith("ASSENTRY_") for name in os.environ):
        settings = world.settings
        where = f"--database {quote(settings.database)} --workspace {settings.workspace} --home {quote(settings.home)}"
        return f"{typed()} {where} inbox"
    return f"cd {quote(str(world.folder))} && {typed()} inbox"


async def _tell_stop(stage: Stage, play: Played | None, world: World, wanted: Wanted) -> None:
    """What ran, what did not, and what is left."""
    stage.heading("Stopped")
    for request in await play.requests() if play is not None else ():
        if request.state is State.PENDING:
            stage.line("■", "yellow", request.candidate.action.name, request.candidate.says, "still waits; did not run")
        else:
            stage.line(" ", "", request.candidate.action.name, request.candidate.says, str(request.state))
    kept = f"kept; to go on deciding: {_inbox_command(world)}" if wanted.keep else "removed, with everything in it"
    stage.say(f"Nothing of it runs any more. The folder {world.folder} is {kept}.", indent=3)
