"""From when on every instance follows a change, for the commands that make one; and waiting for that."""

import asyncio
from datetime import timedelta
from typing import Annotated

import typer

from assentry.assemble import Desk

Wait = Annotated[bool, typer.Option("--wait", help="Return only once every instance follows it.")]


async def within(desk: Desk, *, wait: bool) -> timedelta:
    """After how long at most every instance follows what was just changed; nothing once that was waited for."""
    longest = await desk.rules.everywhere_within()
    if not wait:
        return longest
    await asyncio.sleep(longest.total_seconds())
    return timedelta(0)
