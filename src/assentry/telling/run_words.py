"""Runs and their steps in words: what a run may do, where it stands, what a gate did and who said what."""

from datetime import datetime, timedelta
from decimal import Decimal

from assentry.core.action import Json
from assentry.core.request import Kind, Request, Review, State
from assentry.core.run import Run, RunState
from assentry.core.switch import EVERYTHING
from assentry.core.text import ago, counted, shortened, span
from assentry.core.verdict import GateKind
from assentry.core.waiting import NOBODY_WAITS
from assentry.telling.plain import as_json
from assentry.telling.told import Tone

LONGEST = 300
"""How much of a text is shown where it is one of many; `--full` shows all."""

TONES = {
    RunState.RUNNING: Tone.GOOD,
    RunState.PARKED: Tone.WARN,
    RunState.PAUSED: Tone.WARN,
    RunState.ORPHANED: Tone.BAD,
    RunState.STOPPING: Tone.BAD,
    RunState.STOPPED: Tone.BAD,
    RunState.FAILED: Tone.BAD,
}
_VERBS = {
    "approve": "approved by {by}",
    "modify": "approved with changes by {by}",
    "deny": "denied by {by}",
    "answer": "answered by {by}",
    "revise": "sent back by {by}",
    "cancel": "withdrawn by {by}",
    "dismiss": "dismissed by {by}, as nobody was waiting for it",
}
_ENDS = {
    State.DONE: ("done", Tone.GOOD),
    State.FAILED: ("failed", Tone.BAD),
    State.UNKNOWN: ("OUTCOME UNKNOWN", Tone.BAD),
    State.UNDO_ASKED: ("done; somebody wants it taken back", Tone.WARN),
    State.UNDOING: ("being taken back", Tone.WARN),
    State.UNDONE: ("done, and taken back", Tone.WARN),
}


def cut(text: str, whole: bool, limit: int = LONGEST) -> str:
    """`text`, shortened unless all of it is wanted, saying how much is missing."""
    if whole or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({counted(len(text) - limit, 'more character')})"


def took(duration: timedelta) -> str:
    """How long something took, also where it was quick."""
    seconds = max(0.0, duration.total_seconds())
    if seconds < 0.1:
        return "under 0.1 s"
    return f"{seconds:.1f} s" if seconds < 10 else span(duration)


def clock(at: datetime, now: datetime) -> str:
    """The local time of day, and the date where that is another."""
    local, today = at.astimezone(), now.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M}"


def scope_words(run: Run) -> str:
    """What the operator's code allowed, and how much of that is used up."""
    scope, parts = run.scope, []
    if scope.actions:
        parts.append(f"only {', '.join(scope.actions)}")
    limits = [_limit(name, most, run.used.get(name, Decimal(0))) for name, most in scope.limits.items()]
    if limits:
        parts.append(f"at most {', '.join(limits)}")
    if scope.recipients:
        parts.append(f"write only to {', '.join(scope.recipients)}")
    if scope.paths:
        parts.append(f"touch only what is in {', '.join(scope.paths)}")
    if parts and not scope.actions:
        parts.append("no action is allowed in advance")
    return "; ".join(parts) or "no limits were set for it; the policy alone decides"


def _limit(name: str, most: Decimal, used: Decimal) -> str:
    return f"{counted(most, name)} ({f'{used:f}' if used else 'none'} used)"


def so_far(run: Run, now: datetime) -> str:
    """Steps, cost and time."""
    return f"{work_words(run)}, began {ago(now - run.created_at)}"


def work_words(run: Run) -> str:
    """How many steps it made, and what the agent says that they cost."""
    cost = f", cost {run.spend.normalize():f} as the agent says" if run.spend else ""
    return f"{counted(run.steps, 'step')}{cost}"


def stands_at(run: Run, now: datetime, waiting: int | None, *, whole: bool) -> tuple[str, Tone]:
    """State and standing in one line, with its tone."""
    words = standing(run, now, waiting)
    told = f"{run.state}: {cut(words, whole)}" if words else str(run.state)
    return told, Tone.WARN if waiting and run.state is RunState.RUNNING else TONES.get(run.state, Tone.PLAIN)


def standing(run: Run, now: datetime, waiting: int | None = None, *, commands: bool = True) -> str:
    """Where the run stands, for somebody who does not know the words. `waiting` requests wait for a person.

    `commands` are for whoever sits at a terminal.
    """
    by = f" by {run.by}" if run.by else ""
    why = f": {run.reason}" if run.reason else ""
    since = f" for {span(now - run.parked_at)}" if run.parked_at is not None else ""
    match run.state:
        case RunState.RUNNING if waiting:
            return "waits for a person"
        case RunState.RUNNING:
            return "at work" if waiting is not None else ""
        case RunState.PARKED if waiting or (waiting is None and run.waits):
            return f"has waited for a person{since}"
        case RunState.PARKED:
            unknown = "; an unknown outcome is settled first" if run.waits else ""
            return f"may go on: {_who_goes_on(run)}{unknown}"
        case RunState.PAUSED:
            whom = run.code if not run.switch else "--all" if run.switch == EVERYTHING else f"--agent {run.switch}"
            return f"held{by}{f' until `assentry go {whom}`' if commands else ''}{why}"
        case RunState.ORPHANED:
            return "its process vanished; entering it again with its key goes on"
        case RunState.STOPPING:
            return f"ended{by}; it notices at its next gate{why}"
        case RunState.STOPPED:
            return f"ended{by}{why}"
        case RunState.FINISHED:
            return f"took {span((run.changed_at or now) - run.created_at)}"
        case RunState.FAILED:
            return shortened(run.error or "it failed", LONGEST)


def _who_goes_on(run: Run) -> str:
    """Whom a parked run with nothing left to decide waits for."""
    return f"waits for a worker with the host {run.host!r}" if run.host else "entering it again with its key goes on"


def gate_words(request: Request) -> str:
    """What the gate did, and why."""
    verdict = request.candidate.verdict
    fired = ", ".join(dict.fromkeys(trigger.name for trigger in verdict.triggers))
    said = [trigger.says.strip() for trigger in verdict.triggers]
    if not said or not verdict.by_default:
        said.insert(0, verdict.because.strip())
    if request.ask.kind is Kind.QUESTION:
        return "the agent asked a person"
    if verdict.observed is not None:
        return f"ran at once, since the policy only observes; it would have met the {verdict.observed} gate"
    did = {
        GateKind.RUN: "ran at once",
        GateKind.WATCH: "ran at once, on record",
        GateKind.SOFT: "shown to a person; runs unless somebody objects",
        GateKind.FORBID: "forbidden",
    }.get(verdict.gate, "waited for a person")
    why = "; ".join(dict.fromkeys(each for each in said if each))
    named = f"{verdict.gate} gate{f': {fired}' if fired else ''}"
    return f"{did} ({named}){f': {why}' if why else ''}"


def decided_words(request: Request, now: datetime) -> tuple[str, Tone]:
    """Who ended the waiting, how, when and with which words."""
    asked, at = request.ask.created_at, request.decided_at
    waited = "" if at is None else _after(at - asked - request.frozen)
    match request.word:
        case "" if request.state is State.PENDING and request.abandoned_at is not None:
            return f"{NOBODY_WAITS}, for {span(now - request.abandoned_at)}", Tone.BAD
        case "" if request.state is State.PENDING and request.frozen_at is not None:
            return f"waits; time has stood still for {span(now - request.frozen_at)}", Tone.WARN
        case "" if request.state is State.PENDING:
            votes = f", {len(request.votes)} of {request.candidate.verdict.quorum.count} approvals"
            return f"has waited for {span(now - asked)}{votes if request.votes else ''}", Tone.WARN
        case "":
            return "", Tone.PLAIN
        case "silence" if request.state is State.EXPIRED:
            return f"nobody answered in time{waited}, so it was refused", Tone.BAD
        case "silence" if request.ask.kind is Kind.QUESTION:
            return f"WENT AHEAD ON SILENCE{waited}: its best guess was taken, {_value(request.answer)}", Tone.WARN
        case "silence":
            return f"WENT AHEAD ON SILENCE{waited}: nobody objected in time", Tone.WARN
        case "policy":
            return "refused by policy", Tone.BAD
        case "choose":
            label = request.ask.options[request.chosen].label if request.chosen is not None else "an option"
            return f"{request.decided_by} chose “{label}”{waited}{_note(request)}", Tone.PLAIN
        case word:
            verb = _VERBS.get(word, f"{word} by {{by}}")
            by = ", ".join(dict.fromkeys([vote.by for vote in request.votes if vote.word == word]))
            # Names and notes go in last: whoever is called {by} stays called that.
            told = verb.replace("{by}", by or request.decided_by or "nobody")
            answer = f": {_value(request.answer)}" if word == "answer" else ""
            stop = "; and the run was ended" if request.stop else ""
            tone = Tone.BAD if word in ("deny", "cancel", "dismiss") else Tone.WARN if word == "revise" else Tone.GOOD
            return f"{told}{waited}{answer}{_note(request)}{stop}", tone


def _after(waited: timedelta) -> str:
    return " at once" if waited.total_seconds() < 1 else f" after {took(waited)}"


def _note(request: Request) -> str:
    """What was said with the decision. A review may have put its own note in the place of the reason."""
    notes = [vote.note for vote in request.votes if vote.note]
    said = notes[-1] if notes else request.reason if request.word == "cancel" else ""
    return f": “{said}”" if said else ""


def ended_words(request: Request, now: datetime) -> tuple[str, Tone]:
    """What became of it once it was allowed; nothing where it never was."""
    began = request.permit.used_at if request.permit is not None else None
    if request.state is State.RUNNING:
        return f"running for {span(now - (began or request.changed_at))}", Tone.WARN
    if request.state is State.APPROVED:
        return "not run yet", Tone.WARN
    if request.state is State.EXPIRED and request.word != "silence" and request.abandoned_at is not None:
        return "never run: its caller was gone before it began", Tone.BAD
    if request.state is State.EXPIRED and request.word != "silence":
        return "never run, and the permit expired", Tone.BAD
    if request.state not in _ENDS:
        return "", Tone.PLAIN
    word, tone = _ENDS[request.state]
    ran = f" in {took(request.finished_at - began)}" if began is not None and request.finished_at is not None else ""
    error = f": {request.error}" if request.error else ""
    review = {
        Review.OPEN: "; nobody has reviewed it yet", Review.FLAGGED: "; FLAGGED in review",
        Review.ACCEPTED: "; accepted in review",
    }.get(request.review, "")  # fmt: skip
    return f"{word}{ran}{error}{review}", tone


def claimed_cost(request: Request) -> str:
    """What the agent says that it costs."""
    cost = request.candidate.action.cost
    return f"cost {cost:g}, as the agent says" if cost is not None else ""


def in_short(request: Request, now: datetime) -> tuple[str, Tone]:
    """How a step went, in one clause."""
    decided, tone = decided_words(request, now)
    ended, last = ended_words(request, now)
    if not decided:
        how = "ran under a standing permission" if request.candidate.verdict.grant else "ran at once"
        return (f"{how}, {ended}" if ended else str(request.state)), last
    loud = not ended or request.word == "silence"
    return ", ".join(each for each in (decided, ended) if each), tone if loud else last


def _value(value: Json) -> str:
    return value if isinstance(value, str) else as_json(value)
