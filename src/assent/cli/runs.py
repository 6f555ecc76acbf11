"""Commands for runs: what agents work on, how far they came, and stopping, pausing and continuing them."""

from typing import Annotated

import typer
from rich.text import Text

from assent.assemble import Desk
from assent.cli.plain import print_json
from assent.cli.print import banner, block, say
from assent.cli.run_documents import run_document, tree_document
from assent.cli.run_list import nothing_runs, runs_table
from assent.cli.session import AsJson, at_desk
from assent.cli.timeline import timeline
from assent.cli.told import Sections
from assent.core.action import Json
from assent.core.run import Run, RunState
from assent.engine.chronicle import MOST_STEPS, Chronicle
from assent.engine.oversight import Oversight
from assent.errors import InvalidArguments
from assent.ports import RunFilter

app = typer.Typer(rich_markup_mode="rich")
one = typer.Typer(rich_markup_mode="rich", help="One run: its timeline; continue or cancel it.", no_args_is_help=True)
app.add_typer(one, name="run")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Its code, or the start of it.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; the agent is told.")]
Which = Annotated[str, typer.Argument(metavar="[RUN]", help="Its code, or the start of it.", show_default=False)]
Agent = Annotated[str, typer.Option("--agent", help="Every run of this agent.", metavar="NAME")]
Everything = Annotated[bool, typer.Option("--all", help="Every run there is.")]


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

    Example: assent runs --agent cleanup
    """

    async def work(desk: Desk) -> None:
        over = Oversight(desk.store, desk.settings.workspace)
        states = () if everything else _states(state)
        found = await over.page(RunFilter(states=states, agent=agent), after=after, limit=limit + 1)
        following = found[limit - 1].id if len(found) > limit else ""
        found = found[:limit]
        if as_json:
            return print_json({"runs": [document(run) for run in found], "next": following})
        banner(desk.judgement.policy)
        if not found:
            return nothing_runs(narrowed=bool(state or agent or after), every=not states)
        waiting = await Chronicle(desk.store, desk.settings.workspace).waiting()
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

    Example: assent run show 7k
    """

    async def work(desk: Desk) -> None:
        story = Chronicle(desk.store, desk.settings.workspace)
        run = await Oversight(desk.store, desk.settings.workspace).find(run_id)
        tree = await story.tree(run, most=limit)
        if as_json:
            return print_json({"run": document(run), **tree_document(tree)})
        banner(desk.judgement.policy)
        parent = await story.run(run.parent) if run.parent else None
        return block(Sections(timeline(tree, parent, await desk.store.now(), whole=full), alone=True))

    at_desk(ctx, work)


@one.command()
def resume(ctx: typer.Context, run_id: RunId, as_json: AsJson = False) -> None:
    """Let a paused run go on; the same as `assent go RUN`.

    Example: assent run resume 7k
    """
    go(ctx, run_id, as_json=as_json)


@one.command()
def cancel(ctx: typer.Context, run_id: RunId, reason: Reason = "", as_json: AsJson = False) -> None:
    """End a run and withdraw what it waits for; the same as `assent stop RUN`.

    Example: assent run cancel 7k --reason "no longer needed"
    """
    stop(ctx, run_id, reason=reason, as_json=as_json)


@app.command()
def stop(
    ctx: typer.Context,
    run_id: Which = "",
    agent: Agent = "",
    everything: Everything = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """End a run, all runs of an agent, or everything. Each notices at its next gate.

    Example: assent stop --agent cleanup --reason "wrong folder"
    """
    _each(ctx, "stop", run_id, agent, everything, reason, as_json=as_json)


@app.command()
def pause(
    ctx: typer.Context,
    run_id: Which = "",
    agent: Agent = "",
    everything: Everything = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Hold a run, all runs of an agent, or everything, until `assent go`.

    Example: assent pause 7k
    """
    _each(ctx, "pause", run_id, agent, everything, reason, as_json=as_json)


@app.command()
def go(
    ctx: typer.Context,
    run_id: Which = "",
    agent: Agent = "",
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Let what was paused go on.

    Example: assent go 7k
    """
    _each(ctx, "go", run_id, agent, everything, "", as_json=as_json)


_FITS = {
    "stop": (RunState.RUNNING, RunState.PARKED, RunState.PAUSED, RunState.ORPHANED),
    "pause": (RunState.RUNNING, RunState.PARKED, RunState.ORPHANED),
    "go": (RunState.PAUSED,),
}


def _each(
    ctx: typer.Context, verb: str, run_id: str, agent: str, everything: bool, reason: str, *, as_json: bool
) -> None:
    if sum(map(bool, (run_id, agent, everything))) != 1:
        raise typer.BadParameter("say which: a RUN, --agent NAME or --all")

    async def work(desk: Desk) -> None:
        over, person = Oversight(desk.store, desk.settings.workspace), desk.person()
        if run_id:
            found: tuple[Run, ...] = (await over.find(run_id),)
        else:
            found = tuple(run for run in await over.everything(agent) if run.state in _FITS[verb])
        done = []
        for run in found:
            match verb:
                case "stop":
                    done.append(await over.stop(person, run, reason))
                case "pause":
                    done.append(await over.pause(person, run, reason))
                case _:
                    done.append(await over.go(person, run))
        if as_json:
            return print_json({"runs": [document(run) for run in done]})
        for run in done:
            say(Text(run.code, style="bold"), f"  {run.goal}: {_TOLD.get(run.state, str(run.state))}")
        return None if done else say("there is no such run")

    at_desk(ctx, work)


def document(run: Run) -> dict[str, Json]:
    """A run for scripts."""
    return run_document(run)


def _states(names: list[str] | None) -> tuple[RunState, ...]:
    if names is None:
        return (RunState.RUNNING, RunState.PARKED, RunState.PAUSED, RunState.ORPHANED, RunState.STOPPING)
    if "all" in names:
        return ()
    known = {state.value: state for state in RunState}
    for name in names:
        if name not in known:
            raise InvalidArguments(f"there is no state {name!r}; there are {', '.join(known)} and all")
    return tuple(known[name] for name in names)


_TOLD = {
    RunState.STOPPING: "stopping; it notices at its next gate",
    RunState.STOPPED: "stopped",
    RunState.PAUSED: "paused; `assent go` continues it",
    RunState.RUNNING: "goes on",
    RunState.PARKED: "goes on once what it waits for is decided",
}
