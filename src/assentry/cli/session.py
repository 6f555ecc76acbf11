"""One command's way to the database: which settings, an open desk, and who sits at it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from assentry.assemble import Desk, desk
from assentry.cli.given import Given
from assentry.core.authority import Principal
from assentry.engine.os_user import os_user
from assentry.engine.policies import may_operate
from assentry.errors import StoreElsewhere, StoreError
from assentry.settings import Settings, load

T = TypeVar("T")

SURFACE = "terminal"

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, errors too.")]


THROUGH_SERVER = frozenset({
    "inbox", "pending", "show", "approve", "deny", "modify", "choose", "answer", "revise", "undo", "reconcile",
    "review", "runs", "run show", "run resume", "run cancel", "stop", "pause", "go", "login", "logout",
    "hook claude-code", "hook install", "mcp", "policy apply", "policy show", "policy explain", "policy history",
    "policy proposals", "policy confirm", "policy reject", "grants list", "grants give", "grants revoke", "log",
})  # fmt: skip
"""What a server does for a terminal elsewhere. Every other command needs the database or the keys themselves."""


def settings_of(ctx: typer.Context) -> Settings:
    """The settings: what was given, over the environment, over `assentry.toml`, over the defaults.

    A command that a server cannot carry out is refused here where a server is set: what is on this machine, such as its
    keys, is not the server's.
    """
    given = ctx.find_object(Given) or Given()
    settings = load(
        {"database": given.database, "workspace": given.workspace, "home": given.home, "server": given.server}
    )
    # Who names a database on the command line means it, whatever server is set elsewhere.
    settings = replace(settings, server="") if given.database and not given.server else settings
    if settings.server and ctx.command_path.partition(" ")[2] not in THROUGH_SERVER:
        raise StoreElsewhere
    return settings


def at_desk(ctx: typer.Context, work: Callable[[Desk], Awaitable[T]], *, create: bool = False) -> T:
    """What `work` made of an open desk, which is closed again.

    Only commands that set something up `create` a database; the others say that there is none, instead of
    leaving an empty one in whatever directory they were called.
    """

    async def session() -> T:
        async with opened(settings_of(ctx), create=create) as place:
            return await work(place)

    return asyncio.run(session())


@asynccontextmanager
async def opened(settings: Settings, *, create: bool = False) -> AsyncIterator[Desk]:
    """A desk, closed at the end."""
    if not create:
        expect_database(settings)
    place = await desk(settings)
    try:
        yield place
    finally:
        await place.store.close()


def expect_database(settings: Settings) -> None:
    """There is a file for SQLite; else the error says how to point at one."""
    if settings.server:
        return
    if not settings.is_postgres and not Path(settings.database).exists():
        raise StoreError(
            f"there is no database at {Path(settings.database).absolute()}; name it with --database or "
            "ASSENTRY_DATABASE, or begin one with `assentry policy apply FILE`"
        )


def operator(place: Desk) -> Principal:
    """Who sits here, if they may change policy, grants and keys."""
    if place.logged_in:
        return place.person()  # the server says whether they may
    return may_operate(place.judgement.policy, os_user())


def can_ask(*, as_json: bool) -> bool:
    """Whether a person is there to be asked: never for scripts."""
    return not as_json and sys.stdin.isatty() and sys.stdout.isatty()
