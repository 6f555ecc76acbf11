"""Commands for runs: what agents work on, how far they came, and stopping, pausing and continuing them."""

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from assent.assemble import Desk
from assent.cli.plain import print_json
from assent.cli.print import banner, block, grid, inert, listing, say, section
from assent.cli.session import AsJson, at_desk
from assent.core.action import Json
from assent.core.request import Request
from assent.core.run import Run, RunState
from assent.core.text import span
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
    agent: Annotated[str, typer.Option("--agent", help="Of this agent.", metavar="NAME")] = "",
    after: Annotated[str, typer.Option("--after", help="Where the page before ended.", metavar="ID")] = "",
    limit: Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """List what agents work on, newest first.

    Example: assent runs --agent cleanup
    """

    async def work(desk: Desk) -> None:
        over = Oversight(desk.store, desk.settings.workspace)
        wanted = RunFilter(states=_states(state), agent=agent)
        found = await over.page(wanted, after=after, limit=limit)
        following = found[-1].id if len(found) == limit else ""
        if as_json:
            return print_json({"runs": [document(run) for run in found], "next": following})
        banner(desk.judgement.policy)
        now = await desk.store.now()
        if not found:
            return say("no run is under way" if not state else "no run fits")
        rows = [
            (
                Text(str(run.state), style=_STYLES.get(run.state, "")),
                Text(run.code, style="bold"),
                inert(run.goal),
                inert(run.agent),
                Text(f"{run.steps}"),
                Text(f"{span(now - run.created_at)} ago"),
                inert(_waits(run, now)),
            )
            for run in found
        ]
        listing(("STATE", "RUN", "GOAL", "AGENT", "STEPS", "BEGAN", "WAITS"), rows, flexible=2, narrow=(3, 6))
        return say(f"more: --after {following}", style="dim") if following else None

    at_desk(ctx, work)


@one.command()
def show(ctx: typer.Context, run_id: RunId, as_json: AsJson = False) -> None:
    """Show one run: what it was asked for, what it may do, and every step so far.

    Example: assent run show 7k
    """

    async def work(desk: Desk) -> None:
        over = Oversight(desk.store, desk.settings.workspace)
        run = await over.find(run_id)
        steps, children = await over.steps(run), await over.children(run)
        if as_json:
            timeline = [_step_document(request) for request in steps]
            others = [document(child) for child in children]
            return print_json({"run": document(run), "steps": timeline, "children": others})
        banner(desk.judgement.policy)
        return _print_run(run, steps, children, await desk.store.now())

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
    return {
        "id": run.id, "code": run.code, "state": str(run.state), "agent": run.agent, "goal": run.goal,
        "original": run.original, "asked_by": run.asked_by, "host": run.host, "key": run.key, "parent": run.parent,
        "scope": {
            "actions": list(run.scope.actions), "recipients": list(run.scope.recipients),
            "paths": list(run.scope.paths), "limits": {name: str(most) for name, most in run.scope.limits.items()},
        },
        "used": {name: str(amount) for name, amount in run.used.items()},
        "steps": run.steps, "spend": str(run.spend), "waits": list(run.waits), "worker": run.worker,
        "plan": [{"says": step.says, "done": step.done} for step in run.plan],
        "began": run.created_at, "changed": run.changed_at, "by": run.by, "reason": run.reason,
        "outcome": run.outcome, "error": run.error,
    }  # fmt: skip


def _step_document(request: Request) -> dict[str, Json]:
    return {
        "code": request.code, "id": request.id, "says": request.candidate.says,
        "action": request.candidate.action.name, "risk": str(request.candidate.assessment.risk),
        "gate": str(request.candidate.verdict.gate), "rule": request.candidate.verdict.rule,
        "triggers": [trigger.name for trigger in request.candidate.verdict.triggers], "state": str(request.state),
        "decided_by": request.decided_by, "word": request.word, "reason": request.reason,
        "cost": request.candidate.action.cost, "asked": request.ask.created_at, "decided": request.decided_at,
        "finished": request.finished_at,
    }  # fmt: skip


def _print_run(run: Run, steps: tuple[Request, ...], children: tuple[Run, ...], now: datetime) -> None:
    head = Text(f"{run.state}", style=_STYLES.get(run.state, "bold"))
    head.append_text(inert(f"  run {run.code} · {run.agent} · began {span(now - run.created_at)} ago", "default"))
    block(head)
    facts = [("goal", inert(run.goal))]
    if run.original:
        facts.append(("asked for", inert(f"“{run.original}”")))
    if not run.scope.is_empty:
        facts.append(("may", inert(_scope(run))))
    facts.append(("so far", Text(f"{run.steps} steps, {run.spend:f} spent")))
    if run.state in (RunState.RUNNING, RunState.PARKED) and (waits := _waits(run, now)):
        facts.append(("waits", inert(waits)))
    if run.by or run.reason:
        facts.append((str(run.state), inert(f"by {run.by}{f': {run.reason}' if run.reason else ''}")))
    if run.error:
        facts.append(("error", inert(run.error)))
    block(grid([(Text(name, style="dim"), value) for name, value in facts]))
    if run.plan:
        block(section("Plan", *(inert(f"{'✓' if step.done else '·'} {step.says}") for step in run.plan)))
    if steps:
        say()
        rows = [
            (
                Text(f"{request.ask.created_at.astimezone():%H:%M:%S}", style="dim"),
                Text(str(request.candidate.assessment.risk)),
                Text(request.code, style="bold"),
                inert(request.candidate.says),
                inert(_how(request)),
            )
            for request in steps
        ]
        listing(("AT", "RISK", "CODE", "STEP", "HOW IT WENT"), rows, flexible=3, narrow=(4,))
    for child in children:
        say("worked for it: ", Text(child.code, style="bold"), f"  {child.goal} ({child.state})")


def _how(request: Request) -> str:
    decided = ""
    if request.decided_by or request.word == "silence":
        decided = f", {request.word or 'decided'} by {request.decided_by or 'silence'}"
        if request.decided_at is not None:
            decided += f" after {span(request.decided_at - request.ask.created_at)}"
    fired = ", ".join(trigger.name for trigger in request.candidate.verdict.triggers)
    why = f" ({fired})" if fired and request.candidate.verdict.gate.holds else ""
    return f"{request.candidate.verdict.gate}{why}: {request.state}{decided}"


def _scope(run: Run) -> str:
    scope = run.scope
    parts = [*scope.actions]
    for name, most in scope.limits.items():
        used = run.used.get(name)
        parts.append(f"{most:f} {name}" + (f" ({used:f} used)" if used else ""))
    return ", ".join([*parts, *scope.recipients, *scope.paths])


def _waits(run: Run, now: datetime) -> str:
    if run.state is RunState.PARKED and run.parked_at is not None:
        return f"{span(now - run.parked_at)}" + ("" if run.waits else ", for a worker")
    return ""


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


_STYLES = {
    RunState.RUNNING: "green",
    RunState.PARKED: "yellow",
    RunState.PAUSED: "bold yellow",
    RunState.ORPHANED: "red",
    RunState.STOPPING: "red",
    RunState.FAILED: "red",
}
_TOLD = {
    RunState.STOPPING: "stopping; it notices at its next gate",
    RunState.STOPPED: "stopped",
    RunState.PAUSED: "paused; `assent go` continues it",
    RunState.RUNNING: "goes on",
    RunState.PARKED: "goes on once what it waits for is decided",
}
