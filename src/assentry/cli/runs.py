"""Commands for runs: what agents work on, how far they came, and every step of one."""

from typing import Annotated

import typer

from assentry.assemble import Desk
from assentry.cli.group import Group
from assentry.cli.plain import print_json
from assentry.cli.print import banner, block, say
from assentry.cli.requests import EVERY_STATE, no_state
from assentry.cli.run_list import nothing_runs, runs_table
from assentry.cli.sections import Sections
from assentry.cli.session import AsJson, at_desk
from assentry.cli.switches import Reason, go, stop
from assentry.core.run import RunState
from assentry.engine.chronicle import MOST_STEPS
from assentry.ports import RunFilter
from assentry.telling.run_documents import run_document, tree_document
from assentry.telling.timeline import timeline

app = typer.Typer()
one = typer.Typer(cls=Group, help="One run: its timeline; continue or cancel it.")
app.add_typer(one, name="run")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Its code, or the start of it.", show_default=False)]


@app.command()
def runs(
    ctx: typer.Context,
    state: Annotated[list[str] | None, typer.Option("--state", help="In this state; `all` is every one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    agent: Annotated[str, typer.Option("--agent", help="Of this agent.", metavar="NAME")] = "",
    after: Annotated[str, typer.Option("--after", help="Where the page before ended.", metavar="ID")] = "",
    limit: Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """List what agents work on, newest first.

    Only those that are not over yet; --all lists every one.

    Example: assentry runs --agent cleanup
    """

    states = () if everything else _states(state)

    async def work(desk: Desk) -> None:
        over = desk.oversight
        found = await over.page(RunFilter(states=states, agent=agent), after=after, limit=limit + 1)
        following = found[limit - 1].id if len(found) > limit else ""
        found = found[:limit]
        if as_json:
            return print_json({"runs": [run_document(run) for run in found], "next": following})
        banner(desk.judgement.policy, desk.judgement.switches)
        if not found:
            return nothing_runs(narrowed=bool(state or agent or after), every=not states)
        waiting = await desk.chronicle.waiting()
        runs_table(found, waiting, await desk.store.now())
        return say(f"more: --after {following}", style="dim") if following else None

    at_desk(ctx, work)


@one.command()
def show(
    ctx: typer.Context,
    run_id: RunId,
    full: Annotated[bool, typer.Option("--full", help="Nothing shortened.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="So many of the last steps of each run.", min=1)] = MOST_STEPS,
    as_json: AsJson = False,
) -> None:
    """Show one run: what it was asked for, what it may do, and every step so far.

    Runs that worked for it stand where they began, indented, with their own steps.

    Example: assentry run show 7k
    """

    async def work(desk: Desk) -> None:
        story = desk.chronicle
        run = await desk.oversight.find(run_id)
        tree = await story.tree(run, most=limit)
        if as_json:
            return print_json({"run": run_document(run), **tree_document(tree)})
        banner(desk.judgement.policy, desk.judgement.switches)
        parent = await story.run(run.parent) if run.parent else None
        return block(Sections(timeline(tree, parent, await desk.store.now(), whole=full), alone=True))

    at_desk(ctx, work)


@one.command()
def resume(ctx: typer.Context, run_id: RunId, as_json: AsJson = False) -> None:
    """Let a paused run go on; the same as `assentry go RUN`.

    Example: assentry run resume 7k
    """
    go(ctx, run_id, as_json=as_json)


@one.command()
def cancel(ctx: typer.Context, run_id: RunId, reason: Reason = "", as_json: AsJson = False) -> None:
    """End a run and withdraw what it waits for; the same as `assentry stop RUN`.

    Example: assentry run cancel 7k --reason "no longer needed"
    """
    stop(ctx, run_id, reason=reason, as_json=as_json)


def _states(names: list[str] | None) -> tuple[RunState, ...]:
    if names is None:
        return (RunState.RUNNING, RunState.PARKED, RunState.PAUSED, RunState.ORPHANED, RunState.STOPPING)
    if EVERY_STATE in names:
        return ()
    known = {state.value: state for state in RunState}
    for name in names:
        if name not in known:
            raise no_state(name, [*known, EVERY_STATE])
    return tuple(known[name] for name in names)
