"""Commands that stop, pause and continue: a run, an agent, or everything."""

from typing import Annotated

import typer
from rich.text import Text

from assentry.assemble import Desk
from assentry.cli.plain import print_json
from assentry.cli.print import say
from assentry.cli.session import AsJson, at_desk
from assentry.core.action import Json
from assentry.core.run import Run, RunState
from assentry.core.switch import EVERYTHING, Setting, Switch
from assentry.core.text import counted, visible
from assentry.engine.oversight import Withdrawn
from assentry.telling.run_documents import run_document
from assentry.telling.standing import switch_document

app = typer.Typer()

Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; the agent is told.")]
Which = Annotated[str, typer.Argument(metavar="[RUN]", help="Its code, or the start of it.", show_default=False)]
Agent = Annotated[str, typer.Option("--agent", help="This agent, whatever it runs.", metavar="NAME")]
Everything = Annotated[bool, typer.Option("--all", help="Every agent.")]


@app.command()
def stop(
    ctx: typer.Context,
    run_id: Which = "",
    agent: Agent = "",
    everything: Everything = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """End a run, or turn an agent, or everything, away.

    Each notices at its next gate. What it has waiting for people is withdrawn, and stays withdrawn. An agent that is
    stopped is turned away, also in runs that it begins later, until `assentry go --agent NAME`.

    Example: assentry stop --agent cleanup --reason "wrong folder"
    """
    _hold(ctx, Setting.STOP, run_id, agent, everything, reason, as_json=as_json)


@app.command()
def pause(
    ctx: typer.Context,
    run_id: Which = "",
    agent: Agent = "",
    everything: Everything = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Hold a run, an agent, or everything, until `assentry go`.

    Each waits at its next gate, and time stands still for what it asked people.

    Example: assentry pause 7k
    """
    _hold(ctx, Setting.PAUSE, run_id, agent, everything, reason, as_json=as_json)


@app.command()
def go(
    ctx: typer.Context,
    run_id: Which = "",
    agent: Agent = "",
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Let what was paused or stopped go on.

    Example: assentry go --agent cleanup
    """
    _hold(ctx, Setting.GO, run_id, agent, everything, "", as_json=as_json)


def _hold(
    ctx: typer.Context, setting: Setting, run_id: str, agent: str, everything: bool, reason: str, *, as_json: bool
) -> None:
    if sum(map(bool, (run_id, agent, everything))) != 1:
        raise typer.BadParameter("say which: a RUN, --agent NAME or --all")

    async def work(desk: Desk) -> None:
        over, person, withdrawn = desk.oversight, desk.person(), Withdrawn()
        if run_id:
            run = await over.find(run_id)
            match setting:
                case Setting.STOP:
                    done = [await over.stop(person, run, reason, withdrawn=withdrawn)]
                case Setting.PAUSE:
                    done = [await over.pause(person, run, reason)]
                case _:
                    done = [await over.go(person, run)]
        else:
            whom = EVERYTHING if everything else agent
            if setting is Setting.GO:
                held = over.release(person, whom)
            else:
                held = over.hold(person, whom, setting, reason, withdrawn=withdrawn)
            if not as_json:
                say(_announced(setting, whom))
            done = []
            async for run in held:
                done.append(run)
                if not as_json:
                    _tell(run)
        still = await over.switches()
        if agent and not done and not as_json and setting is not Setting.GO:
            say(
                f"no run of {visible(agent, lines=False)} is open now; if there should be one, look at the name",
                style="dim",
            )
        if as_json:
            told: dict[str, Json] = {"runs": [run_document(run) for run in done], "withdrawn": withdrawn.requests}
            return print_json({**told, "switches": [switch_document(switch) for switch in still]})
        if run_id:
            _tell(done[0])
        if withdrawn.requests:
            say(f"{counted(withdrawn.requests, 'request')} {'was' if withdrawn.requests == 1 else 'were'} withdrawn")
        if setting is Setting.GO:
            for switch in still:
                say(Text(f"{switch_words(switch)}; {release_words(switch)}", style="yellow"))
            for run in () if run_id else await over.everything(agent):
                if run.state is RunState.PAUSED and not run.switch:
                    says = f"run {run.code} stays paused: {visible(run.by, lines=False)} paused it by itself"
                    say(Text(f"{says}; `assentry go {run.code}` lets it go on", style="yellow"))
        return None

    at_desk(ctx, work)


def _announced(setting: Setting, whom: str) -> str:
    name = "everything" if whom == EVERYTHING else visible(whom, lines=False)
    match setting:
        case Setting.STOP:
            return f"{name} is stopped: nothing new begins, and what comes is turned away"
        case Setting.PAUSE:
            return f"{name} is paused: nothing new begins, and what comes waits"
        case _:
            return f"{name} goes on"


def _tell(run: Run) -> None:
    goal = visible(run.goal, lines=False)
    say(Text(run.code, style="bold"), Text(f"  {goal}: {_TOLD.get(run.state, str(run.state))}"))


def switch_words(switch: Switch) -> str:
    """Who is held up by whom, and why."""
    return visible(switch.says, lines=False)


def release_words(switch: Switch) -> str:
    """How the switch is set back."""
    whom = "--all" if switch.agent == EVERYTHING else f"--agent {visible(switch.agent, lines=False)}"
    return f"`assentry go {whom}` lets it go on"


_TOLD = {
    RunState.STOPPING: "stopping; it notices at its next gate",
    RunState.STOPPED: "stopped",
    RunState.PAUSED: "paused; `assentry go` continues it",
    RunState.RUNNING: "goes on",
    RunState.PARKED: "goes on once what it waits for is decided",
}
