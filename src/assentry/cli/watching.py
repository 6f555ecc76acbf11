"""Staying and drawing anew: `pending --watch` and `log -f` hear of every commit through the store."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import typer

from assentry.assemble import Desk
from assentry.cli.print import console
from assentry.cli.session import at_desk
from assentry.errors import InvalidArguments

SWEEP_SECONDS = 5.0
"""Times pass without any commit, so the picture is drawn anew now and then."""


def keep_drawing(ctx: typer.Context, draw: Callable[[Desk], Awaitable[None]], *, as_json: bool) -> None:
    """The terminal shows what `draw` prints, anew after every change, until Ctrl-C."""
    out = console()
    if as_json or not out.is_terminal:
        raise InvalidArguments("--watch draws on a terminal; scripts use `assentry log -f --json`")

    async def work(desk: Desk) -> None:
        async def anew() -> None:
            await desk.inbox.refresh()
            out.clear()
            await draw(desk)

        await whenever_changed(desk, anew, SWEEP_SECONDS)

    at_desk(ctx, work)


async def whenever_changed(desk: Desk, do: Callable[[], Awaitable[None]], sweep: float) -> None:
    """`do` is done now, after every commit, and at least every `sweep` seconds; it ends by being cancelled."""
    loop = asyncio.get_running_loop()
    wake = asyncio.Event()

    def heard(_: Mapping[str, int] | None) -> None:
        loop.call_soon_threadsafe(wake.set)

    leave = desk.store.watch(heard)
    try:
        while True:
            wake.clear()
            await do()
            try:
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(sweep):
                    await wake.wait()
            except TimeoutError:
                continue
    finally:
        leave()
