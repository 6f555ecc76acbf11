"""The audit log in a terminal."""

from collections.abc import Callable

from rich.text import Text

from assentry.assemble import Desk
from assentry.cli.plain import print_json
from assentry.cli.print import banner, console, inert, say
from assentry.cli.watching import whenever_changed
from assentry.telling.log_words import Line, Wanted, backwards, in_words, read, when
from assentry.telling.plain import as_json as written

_PAGE = 500
_SWEEP_SECONDS = 30.0


async def newest(desk: Desk, wanted: Wanted, limit: int, *, as_json: bool) -> None:
    """The newest entries that fit, newest first, were printed."""
    lines = [line async for line in backwards(desk.store, desk.settings.workspace, wanted, limit)]
    if as_json:
        return print_json({"entries": [line.document() for line in lines]})
    banner(desk.judgement.policy, desk.judgement.switches)
    for line in lines:
        _print(line)
    return None if lines else say("nothing is on record that fits")


async def follow(desk: Desk, wanted: Wanted, limit: int, *, as_json: bool) -> None:
    """The newest entries, oldest of them first, and then each new one as it comes; one JSON document a line."""
    lines = [line async for line in backwards(desk.store, desk.settings.workspace, wanted, limit)]
    if not as_json:
        banner(desk.judgement.policy, desk.judgement.switches)
    shown: Callable[[Line], None] = _print_line if as_json else _print
    for line in reversed(lines):
        shown(line)
    position = await desk.store.sequence(desk.settings.workspace)
    if lines:
        position = min(position, lines[0].index + 1)

    async def new() -> None:
        nonlocal position
        await desk.store.sequence(desk.settings.workspace)
        while page := await desk.store.entries(
            desk.settings.workspace, start=position, limit=_PAGE, subject=wanted.subject
        ):
            for logged in page:
                line = read(logged)
                if wanted.fits(line):
                    shown(line)
            position = page[-1].index + 1

    await whenever_changed(desk, new, _SWEEP_SECONDS)


def _print_line(line: Line) -> None:
    print(written(line.document()), flush=True)


def _print(line: Line) -> None:
    at = Text(when(line.at), style="dim")
    console().print(at.append("  ").append_text(inert(in_words(line), "default")), soft_wrap=True)
