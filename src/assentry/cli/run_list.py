"""Runs as a table that fits the terminal, and what is said where there are none."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.text import Text

from assentry.cli.print import console, inert, is_piped, listing, say
from assentry.core.run import Run
from assentry.core.text import ago
from assentry.telling.run_words import TONES, cut, standing
from assentry.telling.told import Tone

_ROOMY = 110

_TEACHES = (
    "",
    "A run is an agent's work as a whole. Calls inside belong to it, and people can pause and stop it:",
    "",
    '    async with gate.run("Tidy up", scope={"files": 20}) as run:',
    "        await delete_files(found)",
    "",
)


def runs_table(runs: Sequence[Run], waiting: Mapping[str, int], now: datetime) -> None:
    """One line each. Where there is little room, what a run may be recognised by comes first."""
    piped = is_piped()
    roomy = console(table=True).width >= _ROOMY
    names = ["STATE", "RUN", "GOAL", "AGENT", "STEPS", "NOW"]
    if roomy:
        names[5:5] = ["COST", "BEGAN"]
    rows = []
    for run in runs:
        tone = TONES.get(run.state, Tone.PLAIN)
        goal = f"{'↳ ' if run.parent else ''}{cut(run.goal, piped, 160)}"
        row = [
            Text(str(run.state), style=tone.value),
            Text(run.code, style="bold"),
            inert(goal),
            inert(run.agent),
            Text(f"{run.steps:,}"),
            inert(cut(standing(run, now, waiting.get(run.id, 0)), piped, 160)),
        ]
        if roomy:
            spent = f"{run.spend.normalize():f}" if run.spend else ""
            row[5:5] = [Text(spent), Text(ago(now - run.created_at))]
        rows.append(row)
    listing(names, rows, flexible=2, narrow=(3,) if roomy else (3, 5))


def nothing_runs(*, narrowed: bool, every: bool) -> None:
    """Whoever looks in vain learns what would be here, and where else to look."""
    if narrowed:
        return say("no run fits")
    say("no run has been made yet" if every else "no run is under way")
    if not every:
        say("`assentry runs --all` lists those that are over")
    for line in _TEACHES:
        say(line, style="dim")
    return None
