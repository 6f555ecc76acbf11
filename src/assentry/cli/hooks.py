"""Hooks of programs that carry out calls themselves: Claude Code asks here before each of its tools runs."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from assentry.adapters.claude_code import AGENT, REPORTED, after, before, installed, is_to_report, removed
from assentry.assemble import TOKEN, Desk, errands_for, keys_for
from assentry.cli.group import Group
from assentry.cli.outcome import tell
from assentry.cli.print import say
from assentry.cli.session import at_desk, expect_database, settings_of
from assentry.core.action import Json
from assentry.core.text import visible
from assentry.errors import AssentryError, InvalidArguments, Parked, RunStopped, SettingsError
from assentry.settings import Settings

app = typer.Typer()
_SAYS = "Claude Code asks before each of its tools runs: install, remove."
group = typer.Typer(cls=Group, help=_SAYS)
app.add_typer(group, name="hook")

BLOCK = 2
"""Claude Code does not make the call when a hook ends with this, and tells the model what it wrote."""

SettingsFile = Annotated[
    Path, typer.Option("--settings", help="Claude Code's settings file.", metavar="FILE", show_default=True)
]
_SETTINGS = Path(".claude/settings.json")


@group.command(AGENT)
def claude_code(
    ctx: typer.Context,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a decision.", min=0)] = 570,
    late: Annotated[
        str,
        typer.Option("--late", help="What it hears when nobody decided in time: deny, or defer (with -p)."),
    ] = "deny",
) -> None:
    """Answer one event of Claude Code, from standard input. `assentry hook install` has Claude Code call this.

    Example: assentry hook claude-code --wait 60 < event.json

    Nothing runs unless policy or a person lets it: whatever goes wrong here blocks the call. With ASSENTRY_SERVER and
    ASSENTRY_TOKEN it asks a server, else the database of this machine.
    """
    if late not in ("deny", "defer"):
        raise typer.BadParameter("say deny or defer", param_hint="--late")
    event: Any = None
    try:
        event = json.loads(sys.stdin.read())
        answer = asyncio.run(_answered(settings_of(ctx), event, wait, late))
    except (Exception, RunStopped, Parked) as problem:  # noqa: BLE001  with any other exit code the call would go on
        known = isinstance(problem, AssentryError | RunStopped | Parked | ValueError | OSError)
        told = problem if known else f"{type(problem).__name__}: {problem}"
        print(visible(f"{_failed(event)}: {told}", lines=False), file=sys.stderr)
        raise typer.Exit(BLOCK) from None
    if answer:
        print(json.dumps(answer))


def _failed(event: Any) -> str:
    if isinstance(event, Mapping) and event.get("hook_event_name") in REPORTED:
        return "Assentry could not put on record what came of this call"
    return "Assentry could not decide about this call, so it did not run"


async def _answered(settings: Settings, event: Any, wait: float, late: str) -> Json:
    if not isinstance(event, Mapping):
        raise InvalidArguments("an event of Claude Code is a JSON object")
    folder = keys_for(settings).directory / "hooks"
    match event.get("hook_event_name"):
        case "PreToolUse":
            expect_database(settings)
            async with errands_for(settings, AGENT) as errands:
                return await before(errands, event, folder, wait=wait, late=late)
        case name if name in REPORTED:
            if is_to_report(event, folder):
                async with errands_for(settings, AGENT) as errands:
                    return await after(errands, event, folder)
            return {}
        case _:
            return {}


@group.command()
def install(ctx: typer.Context, file: SettingsFile = _SETTINGS) -> None:
    """Have Claude Code ask here before each tool: adds hooks to its settings file, and keeps what is there.

    Where there is no SQLite database yet, it is made.

    Example: assentry --database ~/assentry.db hook install --settings ~/.claude/settings.json
    """
    settings = settings_of(ctx)
    if not settings.server and not settings.is_postgres and not Path(settings.database).exists():
        at_desk(ctx, _begun, create=True)
        say(f"{_absolute(settings)}: a new database, for there was none")
    command, seconds = _command(settings), 600
    _write(file, installed(_read_settings(file), command, seconds))
    say(f"{file}: Claude Code asks before each tool: {command}")
    if settings.server and not os.environ.get(TOKEN):
        tell(f"set {TOKEN} where Claude Code runs; `assentry token give {AGENT}` at the server makes one")


async def _begun(_: Desk) -> None:
    """Opening it is all that it takes."""


@group.command()
def remove(file: SettingsFile = _SETTINGS) -> None:
    """Take our hooks out of Claude Code's settings file; whatever else is there stays.

    Example: assentry hook remove --settings ~/.claude/settings.json
    """
    before_it = _read_settings(file)
    made = removed(before_it)
    if made == before_it:
        return say(f"{file} has no hook of Assentry")
    _write(file, made)
    return say(f"{file}: Claude Code no longer asks here")


def _command(settings: Settings) -> str:
    """How Claude Code reaches what is configured now, from wherever it runs."""
    where = ["--server", settings.server] if settings.server else ["--database", _absolute(settings)]
    home = ["--home", str(Path(settings.home).absolute())] if settings.home else []
    return shlex.join(
        [sys.executable, "-m", "assentry", *where, "--workspace", settings.workspace, *home, "hook", AGENT]
    )


def _absolute(settings: Settings) -> str:
    return settings.database if settings.is_postgres else str(Path(settings.database).absolute())


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as problem:
        raise SettingsError(f"{file} cannot be read as JSON, so it was left alone: {problem}") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{file} holds no JSON object, so it was left alone")
    return found


def _write(file: Path, settings: Mapping[str, Any]) -> None:
    """The whole file or none of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if file.exists():
        beside.chmod(file.stat().st_mode & 0o777)
    beside.replace(file)
