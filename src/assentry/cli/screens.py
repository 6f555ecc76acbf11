"""The commands that take over the terminal; what they start is imported when they are called."""

from typing import Annotated

import typer

from assentry.cli.given import Given
from assentry.cli.session import AsJson, settings_of

app = typer.Typer()


@app.command()
def inbox(ctx: typer.Context) -> None:
    """Decide on a full screen, with keys and live updates.

    Example: assentry --database ./assentry.db inbox
    """
    from assentry.cli.inbox import run

    raise typer.Exit(run(settings_of(ctx)))


@app.command()
def demo(
    ctx: typer.Context,
    terminal: Annotated[bool, typer.Option("--terminal", help="Decide at this terminal, not in a browser.")] = False,
    browser: Annotated[bool, typer.Option(help="Open the inbox in a browser; else only print its link.")] = True,
    script: Annotated[bool, typer.Option("--script", help="Without a person: other processes decide.")] = False,
    seed: Annotated[int, typer.Option(help="Another number: other files and, scripted, other decisions.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder.")] = False,
    speed: Annotated[float | None, typer.Option(help="How fast agents work; 2 is twice as fast.", min=0.1)] = None,
    as_json: AsJson = False,
) -> None:
    """See agents stopped at the gate, and decide in your browser what they may do.

    Example: assentry demo
    """
    from assentry.demo import run

    given = ctx.find_object(Given) or Given()
    database = given.database or ""
    code = run(
        script=script, terminal=terminal, opens=browser, as_json=as_json, seed=seed, keep=keep, speed=speed,
        database=database,
    )  # fmt: skip
    raise typer.Exit(code)
