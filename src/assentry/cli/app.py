"""The command line as a whole: which commands there are, what is said before them, and how they end.

Each command lives in the module named beside it, which is imported when the command is called: `assentry --help`
needs none of them.
"""

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from assentry import __version__
from assentry.cli.given import Given
from assentry.cli.group import Group
from assentry.cli.outcome import INTERRUPTED, broken, failed, is_debugging, misused, tell, unwritable
from assentry.errors import AssentryError


class Place(NamedTuple):
    """Where a command lives, under which heading it is listed, and its line there."""

    module: str
    panel: str
    says: str


_DECIDE, _RUNS, _POLICY, _PROVE, _KEEP = "Decide", "Runs", "Set the rules", "Prove", "Look after it"
_SERVE = "Serve"

COMMANDS: dict[str, Place] = {
    "inbox": Place("assentry.cli.screens", _DECIDE, "Decide on a full screen, with keys and live updates."),
    "pending": Place("assentry.cli.deciding", _DECIDE, "List what waits for a person, most urgent first."),
    "show": Place("assentry.cli.deciding", _DECIDE, "Show the whole card of one request."),
    "approve": Place("assentry.cli.deciding", _DECIDE, "Let it run, exactly as asked."),
    "deny": Place("assentry.cli.deciding", _DECIDE, "Refuse it, with the reason that the agent is told."),
    "modify": Place("assentry.cli.deciding", _DECIDE, "Let it run with other arguments, judged anew."),
    "choose": Place("assentry.cli.deciding", _DECIDE, "Take one of the options on the card."),
    "answer": Place("assentry.cli.deciding", _DECIDE, "Answer an agent's question."),
    "revise": Place("assentry.cli.deciding", _DECIDE, "Send it back with instructions for another draft."),
    "undo": Place("assentry.cli.afterwards", _DECIDE, "Take back what ran, while its window is open."),
    "reconcile": Place("assentry.cli.afterwards", _DECIDE, "Settle an unknown outcome after looking at the world."),
    "review": Place("assentry.cli.afterwards", _DECIDE, "Say what you think of something that already ran."),
    "runs": Place("assentry.cli.runs", _RUNS, "List what agents work on, newest first."),
    "run": Place("assentry.cli.runs", _RUNS, "One run: its timeline; continue or cancel it."),
    "stop": Place("assentry.cli.switches", _RUNS, "End a run, or turn an agent, or everything, away."),
    "pause": Place("assentry.cli.switches", _RUNS, "Hold a run, an agent, or everything."),
    "go": Place("assentry.cli.switches", _RUNS, "Let what was paused or stopped go on."),
    "serve": Place(
        "assentry.cli.serving",
        _SERVE,
        "Serve the inbox and the API: on SQLite one process, on PostgreSQL any number of them.",
    ),
    "link": Place("assentry.cli.serving", _SERVE, "Make a link that lets somebody into the inbox, once."),
    "login": Place(
        "assentry.cli.serving",
        _SERVE,
        "Let this terminal work on a server: afterwards every command takes --server URL, or ASSENTRY_SERVER.",
    ),
    "logout": Place("assentry.cli.serving", _SERVE, "End this terminal's session with a server, there and here."),
    "password": Place("assentry.cli.serving", _SERVE, "Set somebody's password for the inbox."),
    "token": Place("assentry.cli.serving", _SERVE, "Tokens with which agents propose over HTTP: give, list, end."),
    "hook": Place("assentry.cli.hooks", _SERVE, "Claude Code asks before each of its tools runs: install, remove."),
    "mcp": Place("assentry.cli.mcp", _SERVE, "Stand in front of an MCP server: its tools run when they may."),
    "policy": Place("assentry.cli.policy", _POLICY, "Check, apply, show and explain the policy."),
    "grants": Place("assentry.cli.grants", _POLICY, "Standing permissions: list, give, revoke."),
    "log": Place("assentry.cli.audit", _PROVE, "What happened, newest first, in words."),
    "audit": Place("assentry.cli.audit", _PROVE, "Verify, export and seal the audit log."),
    "receipt": Place("assentry.cli.audit", _PROVE, "A signed receipt for a decision; or verify one."),
    "keys": Place("assentry.cli.audit", _PROVE, "Show and rotate the keys that sign."),
    "demo": Place(
        "assentry.cli.screens", _KEEP, "See agents stopped at the gate, and decide in your browser what they may do."
    ),
    "doctor": Place("assentry.cli.doctor", _KEEP, "What is configured, and what is wrong with it."),
    "backup": Place("assentry.cli.upkeep", _KEEP, "A consistent copy of the database."),
    "restore": Place("assentry.cli.upkeep", _KEEP, "Put a verified backup in the database's place."),
    "purge": Place("assentry.cli.upkeep", _KEEP, "Erase payloads past their retention; proofs stay."),
    "worker": Place("assentry.cli.upkeep", _KEEP, "Run what is approved, for the functions of a module."),
    "version": Place("assentry.cli.upkeep", _KEEP, "Versions of Assentry and of what it stands on."),
}


class Commands(Group):
    """The top level: lists every command, and imports the one that is called."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for name, place in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=place.says)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """The commands under their headings."""
        widest = max(map(len, COMMANDS))
        for panel in dict.fromkeys(place.panel for place in COMMANDS.values()):
            with formatter.section(panel):
                formatter.write_dl(
                    [(name.ljust(widest), place.says) for name, place in COMMANDS.items() if place.panel == panel]
                )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begins with, loaded."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = loaded(args[0])
        gc.enable()  # which `main` had stopped
        return super().resolve_command(ctx, args)


def loaded(name: str) -> Any:
    """The command called `name`, from its module."""
    command = get_command(import_module(COMMANDS[name].module).app)
    if isinstance(command, TyperGroup):
        command = command.commands[name]
    for each in (command, *getattr(command, "commands", {}).values()):
        each.rich_markup_mode = None  # Rich would take half of the time of --help
    return command


app = typer.Typer(
    cls=Commands,
    name="assentry",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Ids may be abbreviated, like git's. Every command has --help with an example, and most have --json.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"assentry {__version__}")
        raise typer.Exit


@app.callback()
def top(
    ctx: typer.Context,
    database: Annotated[
        str | None, typer.Option(help="A SQLite file or postgresql://… (ASSENTRY_DATABASE).", metavar="ADDRESS")
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="The tenant (ASSENTRY_WORKSPACE).", metavar="NAME")] = None,
    home: Annotated[
        str | None, typer.Option(help="Where keys and checkpoints are kept (ASSENTRY_HOME).", metavar="DIRECTORY")
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="A server that `assentry login` let you into (ASSENTRY_SERVER).", metavar="URL")
    ] = None,
    version: Annotated[  # noqa: ARG001  its callback has printed it
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Agents act. Humans assent. Decide what agents may do, and prove who allowed what."""
    ctx.obj = Given(database, workspace, home, server)


def run(args: list[str]) -> int:
    """The exit code of the command in `args`, every error told in one line."""
    as_json = "--json" in args
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal or pipe that cannot take a character gets its escape instead of a crash.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = get_command(app).main(args, prog_name="assentry", standalone_mode=False)
        sys.stdout.flush()
    except AssentryError as problem:
        if is_debugging():
            raise
        return failed(problem, as_json=as_json)
    except typer.TyperException as problem:
        # Pydantic, which typer has read enumerations, puts the kind of its error before what it says.
        return misused(problem.format_message().replace("': Value error, ", "': ", 1), as_json=as_json)
    except typer.Abort:
        tell("nothing was changed")
        return 1
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`).
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as problem:
        if is_debugging():
            raise
        code = unwritable(problem, as_json=as_json)
        _drop_output()
        return code
    except Exception as problem:
        if is_debugging():
            raise
        return broken(problem, as_json=as_json)
    return code if isinstance(code, int) else 0


def _open_what_is_closed() -> None:
    """A command started without standard streams (`<&-`) finds empty ones, instead of none."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115  for as long as the process lives
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115


def _drop_output() -> None:
    """What is still in the buffer goes nowhere, since it can go nowhere else; the interpreter would try at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
