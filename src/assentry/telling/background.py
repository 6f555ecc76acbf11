"""What a card says beside the request itself: the run it belongs to, the drafts before it, what a check-in asks.

Read once, told by the plain command and by the screen in the same words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from assentry.core.action import Json
from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.engine.chronicle import Chronicle, Drafts
from assentry.telling.drafts import chain_document, rounds
from assentry.telling.run_documents import run_document, step_document
from assentry.telling.run_words import cut, scope_words, so_far, stands_at
from assentry.telling.steps import recalled
from assentry.telling.timeline import claims, parent_words
from assentry.telling.told import Part, Told, Tone, named, told

CHECK_IN = "check-in"
NO_DRAFTS = Drafts()


@dataclass(frozen=True, slots=True)
class Background:
    """What is known about a request beyond itself."""

    request: Request
    run: Run | None = None
    parent: Run | None = None
    recent: tuple[Request, ...] = ()
    drafts: Drafts = NO_DRAFTS

    @property
    def checks_in(self) -> bool:
        """Somebody is asked to look at the run as a whole, and not only at this step."""
        return self.run is not None and is_check_in(self.request)


@dataclass(frozen=True, slots=True)
class Ways:
    """How each choice is made on one surface: a key or a command."""

    approve: str
    send_back: str
    pause: str
    go: str
    deny: str
    stop: str
    history: str
    """How every draft with its differences is seen."""


def is_check_in(request: Request) -> bool:
    """Among the reasons to ask is that nobody has looked at the run for a while."""
    return any(trigger.name == CHECK_IN for trigger in request.candidate.verdict.triggers)


async def background(story: Chronicle, request: Request) -> Background:
    """Everything that the card of this request says beside it, in a few bounded reads."""
    run = await story.run_of(request)
    parent = await story.run(run.parent) if run is not None and run.parent else None
    recent = await story.recent(run, without=request.id) if run is not None and is_check_in(request) else ()
    drafts = await story.drafts(request) if request.ask.draft_of else NO_DRAFTS
    return Background(request, run, parent, recent, drafts)


def first_parts(about: Background, now: datetime, ways: Ways, *, whole: bool, history: bool = False) -> list[Part]:
    """What belongs right below the reasons: the draft before and, at a check-in, the run and what each choice means."""
    parts = rounds(about.request, about.drafts, now, ways.history, whole=whole, history=history)
    if about.checks_in and about.run is not None:
        parts.append(_run(about.run, about, now, whole=whole))
        if about.request.state is State.PENDING:
            parts.append(Part("What your word means for the run", tuple(_choices(about.run, ways))))
    return parts


def last_parts(about: Background, now: datetime, *, whole: bool) -> list[Part]:
    """What can wait until the rest of the card: the run, where nobody was asked to look at it as a whole."""
    return [] if about.run is None or about.checks_in else [_run(about.run, about, now, whole=whole)]


def _run(run: Run, about: Background, now: datetime, *, whole: bool) -> Part:
    facts = [("asked for", f"“{cut(run.original, whole)}”", Tone.PLAIN)] if run.original else []
    facts += [("may", cut(scope_words(run), whole), Tone.PLAIN), ("so far", so_far(run, now), Tone.PLAIN)]
    facts.append(("now", *stands_at(run, now, 1 if about.request.state is State.PENDING else None, whole=whole)))
    if about.parent is not None:
        facts.append(("works for", parent_words(about.parent), Tone.PLAIN))
    after: tuple[Told, ...] = ()
    if about.recent:
        after = (told("What it did before this:", Tone.STRONG), *recalled(about.recent, now))
    return Part(f"Run {run.code} of {run.agent}", named(facts), tuple(claims(run, whole=whole)), after=after)


def _choices(run: Run, ways: Ways) -> Iterator[Told]:
    """Continue, redirect, pause, stop."""
    paused = run.state is RunState.PAUSED
    meanings = [
        (ways.approve, "continue", "this step runs, and the run goes on until the next look"),
        (ways.send_back, "redirect", "the agent gets your instructions and plans on with them"),
        (ways.pause, "pause", "the run holds at its next gate, time stands still, and this request stays"),
        (ways.deny, "skip", "this step is not done, the agent is told why and goes on without it"),
        (ways.stop, "stop", "the whole run ends here; what was done stays done"),
    ]
    if paused:
        meanings[2] = (ways.go, "go on", "the run was paused, and time runs again")
    margin = max(len(way) for way, _, _ in meanings) + 2
    for way, verb, meaning in meanings:
        yield Told(((verb, Tone.STRONG), (f": {meaning}", Tone.PLAIN)), way, margin=margin)


def background_document(about: Background) -> dict[str, Json]:
    """The same for scripts."""
    return {
        "run": run_document(about.run) if about.run is not None else None,
        "check_in": about.checks_in,
        "recent": [step_document(request) for request in about.recent],
        "drafts": chain_document(about.request, about.drafts),
    }
