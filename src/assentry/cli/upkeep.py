"""Looking after an installation: backup, restore, purge, worker, version."""

import platform
from datetime import datetime
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from assentry import __version__
from assentry.assemble import Desk
from assentry.cli import restoring, working
from assentry.cli.files import free
from assentry.cli.plain import print_json
from assentry.cli.print import say, warn
from assentry.cli.session import AsJson, at_desk, operator, settings_of
from assentry.core.action import Json
from assentry.core.audit import Entry
from assentry.core.policy_text import duration, duration_text
from assentry.core.text import counted
from assentry.errors import InvalidArguments

app = typer.Typer()

PARTS = ("apsw", "psycopg", "cryptography", "cel-expr-python", "pydantic", "jsonschema", "typer", "rich", "textual")


@app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the copy goes.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """A consistent copy of the database, made while others go on using it.

    Keys are not in it: back up the directory that `assentry doctor` names separately, and keep the two apart.

    Example: assentry backup backups/monday.db
    """
    goal = Path(file).absolute()

    async def work(desk: Desk) -> int:
        if not desk.settings.is_postgres:
            if goal == Path(desk.store.address):
                raise InvalidArguments("that is the database itself; name another file")
            free(goal, force=force)
        await desk.store.backup(str(goal))
        return await desk.store.sequence(desk.settings.workspace)

    entries = at_desk(ctx, work)
    if as_json:
        return print_json({"file": str(goal), "bytes": goal.stat().st_size, "entries": entries})
    size, log = counted(goal.stat().st_size, "byte"), counted(entries, "entry")
    return say(f"{goal}: {size}, {log}; `assentry restore {file}` puts it back")


@app.command()
def restore(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A backup.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace the database that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a verified backup in the database's place; the old file is kept beside it.

    The backup's log is checked before anything is replaced. What was decided after the backup was made is not
    in it, and is said.

    Example: assentry restore backups/monday.db --force
    """
    done = restoring.restored(settings_of(ctx), Path(file).absolute(), force=force)
    if as_json:
        return print_json(done.document())
    for warning in done.warnings:
        warn(warning)
    kept = f"; the old one is {done.kept}" if done.kept else ""
    return say(f"{done.database} is the backup now, {done.entries} entries, verified{kept}")


@app.command()
def purge(
    ctx: typer.Context,
    older_than: Annotated[
        str, typer.Option(help="Ended that long ago: 90d, 12w; else the policy's retention.", metavar="TIME")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Erase payloads past their retention; proofs stay.

    Arguments, claims, results and notes of ended requests go. The log keeps their digests and still verifies.

    Example: assentry purge --older-than 90d
    """
    given = duration(older_than, "--older-than") if older_than else None

    async def work(desk: Desk) -> None:
        person = operator(desk)
        life = given or desk.judgement.policy.retention
        if life is None:
            raise InvalidArguments("the policy sets no retention; say --older-than 90d, or add retention: to it")
        workspace, before = desk.settings.workspace, await desk.store.now() - life

        def entry(count: int, now: datetime) -> Entry:
            body = {"count": count, "ended_before": before.isoformat()}
            return Entry("payloads.purged", now, workspace, "", person.name, body)

        count = await desk.store.purge(workspace, before, entry)
        if as_json:
            return print_json({"purged": count, "ended_before": before})
        return say(f"purged the payload of {counted(count, 'request')} that ended more than {duration_text(life)} ago")

    at_desk(ctx, work)


@app.command()
def worker(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="[MODULE:GATE]", help="Where your gate is; without it, no function runs here.")
    ] = "",
    capacity: Annotated[int, typer.Option(min=1, max=1000, help="How many at once.")] = 10,
) -> None:
    """Run what is approved, for the functions of a module.

    Goes on with parked runs of the hosts that it has, once what they wait for is decided. Also moves deadlines on,
    takes back what is to be undone, and asks `verify` functions about unknown outcomes. Without a module, where all
    agents reach a server over HTTP, it looks after deadlines, ladders and leases.
    SIGTERM or Ctrl-C: no new work is taken, and what was begun ends first.

    Example: assentry worker shop.agent:gate
    """
    working.serve(target, capacity, settings_of(ctx))


@app.command()
def version(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Versions of Assentry and of what it stands on.

    Example: assentry version --json
    """
    del ctx
    found = versions()
    if as_json:
        return print_json(found)
    for name, number in found.items():
        say(f"{name} {number}")
    return None


def versions() -> dict[str, Json]:
    """What is installed, by name."""
    found: dict[str, Json] = {"assentry": __version__, "python": platform.python_version()}
    for part in PARTS:
        try:
            found[part] = version_of(part)
        except PackageNotFoundError:
            found[part] = "not installed"
    return found
