"""The timeline of a run: what it was for, what it may do, every step in order, and the runs that worked for it."""

from collections.abc import Iterator
from datetime import datetime

from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.core.text import counted
from assentry.engine.chronicle import Branch
from assentry.telling.plain import as_json
from assentry.telling.run_words import TONES, clock, cut, scope_words, so_far, stands_at
from assentry.telling.steps import stepped
from assentry.telling.told import Part, Told, Tone, named, told

_NEST = 4


def timeline(tree: Branch, parent: Run | None, now: datetime, *, whole: bool) -> list[Part]:
    """The sections of one run, for the plain command and for the screen."""
    run = tree.run
    waiting = sum(request.state is State.PENDING for request in tree.steps)
    facts = [("asked for", f"“{cut(run.original, whole)}”", Tone.PLAIN)] if run.original else []
    facts += [("may", cut(scope_words(run), whole), Tone.PLAIN), ("so far", so_far(run, now), Tone.PLAIN)]
    facts.append(("now", *stands_at(run, now, waiting, whole=whole)))
    if parent is not None:
        facts.append(("works for", parent_words(parent), Tone.PLAIN))
    if run.worker and run.state is RunState.RUNNING:
        facts.append(("on", run.worker, Tone.SOFT))
    head = Part(f"Run {run.code} of {run.agent}", named(facts), tuple(claims(run, whole=whole)))
    parts = [head, Part("Steps, oldest first", tuple(_steps(tree, now, whole=whole)) or (_nothing(run),))]
    seen = tuple(_observed(run, whole=whole))
    if seen:
        parts.append(Part("What came back from the world", claims=seen, says="As the agent noted it (unchecked)"))
    ending = tuple(_ending(run, whole=whole))
    return [*parts, Part("How it ended", claims=ending)] if ending else parts


def parent_words(parent: Run) -> str:
    """The run that another one works for."""
    return f"run {parent.code} of {parent.agent} (“{cut(parent.goal, False, 120)}”)"


def claims(run: Run, *, whole: bool) -> Iterator[Told]:
    """What the agent says of its run: the goal, and the plan with ticks."""
    margin = len("goal") + 2
    yield told(cut(run.goal, whole), lead="goal", margin=margin)
    shown = run.plan if whole else run.plan[:12]
    for number, step in enumerate(shown):
        text = f"{'✓' if step.done else '·'} {cut(step.says, whole, 160)}"
        lead = {"depth": margin} if number else {"margin": margin}
        yield told(text, Tone.SOFT if step.done else Tone.PLAIN, lead="" if number else "plan", **lead)
    if len(shown) < len(run.plan):
        yield told(f"… {counted(len(run.plan) - len(shown), 'more step')}", Tone.SOFT, depth=margin)
    if run.confidence is not None:
        yield told(f"{run.confidence:.0%}", lead="sure", margin=margin)


def _nothing(run: Run) -> Told:
    read = f"; it made {counted(run.steps, 'step')} that only read" if run.steps else ""
    return told(f"nothing that a gate had to look at{read}", Tone.SOFT)


def _steps(tree: Branch, now: datetime, *, whole: bool, depth: int = 0) -> Iterator[Told]:
    """Steps and the runs that worked for this one, in the order in which they began."""
    run = tree.run
    if tree.earlier:
        yield told(f"… earlier steps are left out: assentry run show {run.code} --limit N", Tone.SOFT, depth=depth)
    entries: list[tuple[datetime, Request | Branch]] = [(step.ask.created_at, step) for step in tree.steps]
    entries += [(child.run.created_at, child) for child in tree.children]
    entries.sort(key=lambda entry: entry[0])
    margin = max((len(clock(at, now)) for at, _ in entries), default=0) + 2
    for at, entry in entries:
        if isinstance(entry, Branch):
            child = entry.run
            pieces = (
                ("↳ worked for it: ", Tone.SOFT), (f"run {child.code} of {child.agent}", Tone.STRONG),
                (f", {child.state}", TONES.get(child.state, Tone.PLAIN)),
                (f"; its goal, as the agent says: “{cut(child.goal, whole, 160)}”", Tone.SOFT),
            )  # fmt: skip
            yield Told(pieces, clock(at, now), margin=margin, depth=depth)
            yield from _steps(entry, now, whole=whole, depth=depth + _NEST)
        else:
            yield from stepped(entry, now, depth=depth, margin=margin, whole=whole)
    if not entries and depth:
        yield _indented(_nothing(run), depth)
    if tree.more:
        yield told(f"… more runs worked for {run.code} and are not shown here", Tone.SOFT, depth=depth)
    quick = run.steps - len(tree.steps)
    if quick > 0 and tree.steps and not tree.earlier:
        more = counted(quick, "more step")
        yield told(f"{more} of {run.code} only read and simply ran; `assentry log` has them", Tone.SOFT, depth=depth)


def _indented(each: Told, depth: int) -> Told:
    return Told(each.pieces, depth=depth)


def _observed(run: Run, *, whole: bool) -> Iterator[Told]:
    shown = run.observations if whole else run.observations[-8:]
    if len(shown) < len(run.observations):
        yield told(f"… {counted(len(run.observations) - len(shown), 'earlier observation')}: --full", Tone.SOFT)
    for each in shown:
        mark = ("✓ trusted    ", Tone.GOOD) if each.trusted else ("! untrusted  ", Tone.WARN)
        yield Told(((f"{cut(each.source, whole, 80)}: ", Tone.SOFT), (cut(each.text, whole, 200), Tone.PLAIN)), *mark)


def _ending(run: Run, *, whole: bool) -> Iterator[Told]:
    margin = len("outcome") + 2
    if run.error:
        yield told(cut(run.error, whole), Tone.BAD, lead="error", margin=margin)
    if run.outcome is not None:
        text = run.outcome if isinstance(run.outcome, str) else as_json(run.outcome)
        yield told(cut(text, whole, 600), lead="outcome", margin=margin)
