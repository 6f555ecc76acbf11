"""What people say of something that already ran: undo, reconcile, review."""

from typing import Annotated

import typer

from assentry.assemble import Desk
from assentry.cli.looking_back import afterwards
from assentry.cli.requests import at_hand, told
from assentry.cli.session import AsJson, at_desk
from assentry.core.decision import Finding, Opinion

app = typer.Typer()

Id = Annotated[str, typer.Argument(metavar="ID", help="The code on the card, or the start of it.", show_default=False)]


@app.command()
def undo(
    ctx: typer.Context,
    request_id: Id,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why it is taken back.")] = "",
    as_json: AsJson = False,
) -> None:
    """Take back what ran, while its window is open.

    Whoever has the function (the agent's process or a worker) runs the undo.

    Example: assentry undo 7k --reason "wrong folder"
    """

    async def work(desk: Desk) -> None:
        person, request, _, _ = await at_hand(desk, request_id)
        await told(desk, await desk.inbox.undo(person, request.id, reason), "undo", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def reconcile(
    ctx: typer.Context,
    request_id: Id,
    finding: Annotated[Finding, typer.Argument(help="What you found.", show_default=False)],
    note: Annotated[str, typer.Option("--note", "-n", help="How you know.")] = "",
    as_json: AsJson = False,
) -> None:
    """Settle an unknown outcome after looking at the world.

    `done`: it happened. `failed`: it did not. `retry`: it did not, and is asked for anew.

    Example: assentry reconcile 7k done --note "the mail is in their inbox"
    """

    async def work(desk: Desk) -> None:
        person, request, _, _ = await at_hand(desk, request_id)
        await told(desk, await desk.inbox.reconcile(person, request.id, finding, note), "reconcile", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def review(
    ctx: typer.Context,
    request_id: Id = "",
    opinion: Annotated[Opinion | None, typer.Argument(help="What you think of it.", show_default=False)] = None,
    note: Annotated[str, typer.Option("--note", "-n", help="Why.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at once.")] = 50,
    after: Annotated[str, typer.Option(help="Where the page before ended.", metavar="CURSOR")] = "",
    as_json: AsJson = False,
) -> None:
    """Say what you think of something that already ran.

    Without an ID it lists what somebody should look at: what went ahead on silence, and what ran without waiting.

    Example: assentry review 7k flagged --note "should have asked"
    """
    if not request_id:
        return at_desk(ctx, lambda desk: afterwards(desk, after=after, limit=limit, as_json=as_json))
    if opinion is None:
        raise typer.BadParameter("say what you think of it: accepted or flagged")

    async def work(desk: Desk) -> None:
        person, request, _, _ = await at_hand(desk, request_id)
        await told(desk, await desk.inbox.review(person, request.id, opinion, note), "review", as_json=as_json)

    return at_desk(ctx, work)
