"""The life of a request: how it opens, and what each event makes of it.

`LEGAL` is the one transition table. `advance` refuses what is not in it, with an error that says who or
what was faster; what is legal becomes a `Change`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from assentry.core import ladder as ladders
from assentry.core import running, waiting
from assentry.core.action import Json
from assentry.core.audit import Entry
from assentry.core.authority import Principal, quorum_met
from assentry.core.change import Change, entry, moved
from assentry.core.copies import replace
from assentry.core.decision import (
    Answer,
    Approve,
    AskUndo,
    Awaited,
    Begin,
    BeginUndo,
    CallerLost,
    Cancel,
    Candidate,
    Choose,
    Decided,
    Deny,
    Event,
    Fail,
    Findable,
    Finish,
    Freeze,
    LookedAgain,
    Modify,
    Overdue,
    Reconcile,
    Rejudged,
    Renew,
    Reviewed,
    Revise,
    Seen,
    Thaw,
    Vote,
)
from assentry.core.money_text import typed
from assentry.core.request import Ask, Executor, Kind, Request, Review, State
from assentry.core.text import ago
from assentry.core.verdict import AtEnd, GateKind, Trigger
from assentry.errors import (
    AlreadyDecided,
    AssentryError,
    ConfirmationNeeded,
    Conflict,
    InvalidDecision,
    LeaseLost,
    PermitMismatch,
    StaleRequest,
)

LEGAL: dict[State, tuple[type, ...]] = {
    State.PENDING: (Decided, Rejudged, Seen, Overdue, Cancel, Freeze, Thaw, Awaited, Findable, CallerLost),
    State.APPROVED: (LookedAgain, Begin, Overdue, Cancel, Awaited, Findable, CallerLost),
    State.RUNNING: (Renew, Finish, Fail, Overdue),
    State.UNKNOWN: (Finish, Fail, Reconcile, Begin),
    State.DONE: (AskUndo, Reviewed, Overdue),
    State.FAILED: (Reviewed,),
    State.UNDO_ASKED: (BeginUndo, Overdue, Reviewed),
    State.UNDOING: (Renew, Finish, Fail, Overdue),
    State.UNDONE: (Reviewed,),
    State.DENIED: (),
    State.EXPIRED: (),
    State.REFUSED: (),
    State.CANCELLED: (),
    State.ANSWERED: (),
    State.REVISED: (),
}


def opened(
    ask: Ask, now: datetime, *, worker: str, lease: timedelta, sealed: Mapping[str, str] | None = None, caller: str = ""
) -> Change:
    """The change that puts a new request where its verdict says: waiting, running, approved or refused.

    Without a `worker` nothing starts yet: what need not wait is approved. A `caller` is the process that waits, where
    only that process can find the request again.
    """
    verdict = ask.candidate.verdict
    request = Request(
        ask=ask, state=State.PENDING, version=1, changed_at=now, candidate=ask.candidate, sealed=sealed or {},
        callers=(caller,) if caller else (),
    )  # fmt: skip
    asked = entry(request, now, "request.asked", ask.agent, gate=str(verdict.gate), rule=verdict.rule)
    if verdict.observed is not None:
        asked = replace(asked, body={**asked.body, "observed": str(verdict.observed)})
    if verdict.gate is GateKind.FORBID:
        request = replace(
            request, state=State.REFUSED, word="policy", reason=verdict.because, decided_at=now, sealed={}
        )
        return Change(request, (asked, entry(request, now, "request.refused", "policy")), new=True)
    if not verdict.gate.holds:
        request = running.permitted(request, now)
        if ask.executor is Executor.WORKER or not worker:
            return Change(request, (asked,), new=True)
        request = running.started(request, now, worker, lease)
        began = entry(request, now, "execution.began", worker, fence=request.fence)
        return Change(request, (asked, began), new=True)
    ends_at = None if verdict.gate is GateKind.SOFT else _end(request)
    due_at = ladders.due(verdict.ladder, ask.created_at, request.rung, ends_at)
    return Change(replace(request, ends_at=ends_at, due_at=due_at), (asked,), new=True)


def advance(request: Request, event: Event, now: datetime) -> Change | None:
    """The change that moves `request` on, none if there is nothing to move, or the error saying why not."""
    if not isinstance(event, LEGAL[request.state]):
        raise why_not(request, event, now)
    match event:
        case Decided():
            return _decided(request, event, now)
        case Seen(by):
            return _seen(request, by, now)
        case Overdue():
            return _overdue(request, now)
        case Freeze(by):
            if request.frozen_at is not None:
                return None
            return moved(replace(request, frozen_at=now, due_at=None), now, "request.frozen", by)
        case Thaw(by):
            return _thawed(request, by, now)
        case Cancel(by, reason):
            ended = replace(request, word="cancel", reason=reason, decided_by=by, decided_at=now)
            return moved(_ended(ended, State.CANCELLED), now, "request.cancelled", by)
        case Awaited():
            return waiting.awaited(request, event, now)
        case Findable():
            return waiting.findable(request, now)
        case CallerLost():
            return waiting.caller_lost(request, event, now)
        case LookedAgain():
            return running.looked_again(request, event, now)
        case Rejudged():
            return _overdue(request, now) or running.rejudged(request, event, now)
        case Begin():
            lapsed = _overdue(request, now) if request.state is State.APPROVED else None
            return lapsed or running.begun(request, event, now)
        case Renew(fence, lease):
            running.hold_lease(request, fence)
            return Change(replace(request, version=request.version + 1, due_at=now + lease))
        case Finish(fence, result_text):
            running.hold_lease(request, fence)
            return running.finished(request, now, result_text)
        case Fail(fence, error):
            running.hold_lease(request, fence)
            return running.failed(request, now, error)
        case Reconcile():
            return running.reconciled(request, event, now)
        case AskUndo(by, reason):
            return running.undo_asked(request, by, reason, now)
        case BeginUndo(worker, lease):
            return running.undo_begun(request, worker, lease, now)
        case Reviewed(opinion, by, note):
            return running.reviewed(request, opinion, by, note, now)


_LEADS_TO = {
    "revise": State.REVISED, "answer": State.ANSWERED, "cancel": State.CANCELLED, "dismiss": State.CANCELLED,
    "policy": State.REFUSED,
}  # fmt: skip
"""States that say no more than the decision did; another one tells what came of it."""


def why_not(request: Request, event: Event, now: datetime) -> AssentryError:
    """Why `event` cannot happen to `request` any more, in words a person can act on."""
    named = {"request_id": request.id, "code": request.code, "state": str(request.state)}
    when = ago(now - (request.decided_at or request.changed_at))
    if isinstance(event, Decided | Cancel | Seen | Overdue):
        by = request.decided_by or {"silence": "the time limit", "policy": "policy"}.get(request.word, "somebody")
        verb = {
            "deny": "denied", "modify": "approved with changes", "choose": "decided", "answer": "answered",
            "revise": "sent back", "cancel": "withdrawn", "dismiss": "dismissed", "policy": "refused",
        }.get(request.word, "approved")  # fmt: skip
        if request.state is State.EXPIRED:
            verb = "ended without an answer"
        said = (State.APPROVED, State.DENIED, State.EXPIRED, _LEADS_TO.get(request.word))
        then = "" if request.state in said else f"; it is {request.state} now"
        return AlreadyDecided(
            f"request {request.code} was already {verb} by {by} {when}{then}",
            **named,
            by=by,
            at=request.decided_at,
        )
    if isinstance(event, Begin) and request.abandoned_at is not None:
        return PermitMismatch(
            f"request {request.code} is {request.state}: its caller showed no sign of life and was taken for gone; "
            "propose it again",
            **named,
        )
    if isinstance(event, Begin):
        return PermitMismatch(
            f"request {request.code} is {request.state}: its permit "
            + ("was used" if request.permit and request.permit.used_at else "does not exist")
            + "; one approval runs at most once, propose again for another",
            **named,
        )
    if isinstance(event, Renew | Finish | Fail):
        return LeaseLost(f"request {request.code} is {request.state}; this execution no longer holds it", **named)
    if isinstance(event, AskUndo | BeginUndo):
        return Conflict(f"request {request.code} is {request.state}; only what is done can be undone", **named)
    if isinstance(event, Reconcile):
        return Conflict(f"request {request.code} is {request.state}; only an unknown outcome is reconciled", **named)
    return Conflict(f"request {request.code} is {request.state}; there is nothing to review", **named)


def phrase(candidate: Candidate) -> str:
    """What has to be typed to confirm a critical action: its name and the one number or place that matters."""
    wanted = ("amount", "count", "environment")
    facts = candidate.assessment.facts
    unread = {name for fact in facts if fact.name == "unreadable" for name in fact.value}
    values = {fact.name: fact.value for fact in facts if fact.name in wanted and fact.value and fact.name not in unread}
    for name in wanted:
        if name in values:
            value = values[name]
            number = name == "amount" and isinstance(value, int | float)
            return f"{candidate.action.name} {typed(value) if number else value}"
    return candidate.action.name


def _decided(request: Request, event: Decided, now: datetime) -> Change | None:
    lapsed = _overdue(request, now)
    if lapsed is not None and lapsed.request is not None and lapsed.request.state is not State.PENDING:
        return lapsed
    if event.seen_digest and event.seen_digest != request.shown_digest:
        raise StaleRequest(
            f"request {request.code} changed since it was shown; look at it again, then decide",
            request_id=request.id, code=request.code, state=str(request.state),
        )  # fmt: skip
    if request.abandoned_at is not None:
        if not isinstance(event.decision, Deny):
            raise waiting.not_waited_for(request)
        if not event.decision.reason.strip():
            return waiting.dismissed(request, event.decision, event.by, now)
    match event.decision:
        case Approve(note):
            return _approved(request, event, request.candidate, "approve", note, now)
        case Modify(instead, note):
            return _approved(request, event, instead, "modify", note, now)
        case Choose(option, None, note):
            label = request.ask.options[option].label
            return _closed(request, event, State.DENIED, "choose", note or f"chosen: {label}", now, chosen=option)
        case Choose(option, instead, note):
            assert instead is not None  # noqa: S101  the case above took None
            return _approved(replace(request, chosen=option), event, instead, "choose", note, now)
        case Deny(reason, stop):
            if not reason.strip():
                raise InvalidDecision("a denial needs a reason; the agent is told it and plans on with it")
            return _closed(request, event, State.DENIED, "deny", reason, now, stop=stop)
        case Revise(instructions):
            if not instructions.strip():
                raise InvalidDecision("sending back needs instructions for the next draft")
            return _closed(request, event, State.REVISED, "revise", instructions, now)
        case Answer(value, note):
            if request.ask.kind is not Kind.QUESTION:
                raise InvalidDecision(
                    f"request {request.code} asks for leave to act, not for an answer; approve or deny it"
                )
            return _closed(request, event, State.ANSWERED, "answer", note, now, answer=value)


def _approved(request: Request, event: Decided, candidate: Candidate, word: str, note: str, now: datetime) -> Change:
    """The vote is counted on exactly `candidate`; with the quorum met, a permit for it exists."""
    if request.ask.kind is Kind.QUESTION:
        raise InvalidDecision(f"request {request.code} is a question; answer it or deny it")
    verdict = candidate.verdict
    if verdict.gate is GateKind.FORBID:
        raise InvalidDecision(f"policy forbids what this would run: {verdict.because}")
    if event.counts and verdict.gate is GateKind.MANUAL and event.confirm.strip() != phrase(candidate):
        raise ConfirmationNeeded(
            f"this is critical: type {phrase(candidate)!r} to confirm it", phrase=phrase(candidate)
        )
    changed = candidate.permit_digest != request.candidate.permit_digest
    roles = {vote.by: vote.roles for vote in request.votes} if event.standing is None else {**event.standing}
    roles[event.by] = event.roles
    earlier = () if changed else tuple(vote for vote in request.votes if vote.by != event.by and vote.by in roles)
    votes = (*earlier, _vote(event, word, candidate.permit_digest, note, now)) if event.counts else earlier
    people = tuple(Principal(name=vote.by, roles=roles[vote.by]) for vote in votes)
    if event.void:
        candidate = _noted(candidate, "votes", event.void)
    if not event.counts or not quorum_met(verdict.quorum, people):
        request = replace(request, candidate=candidate, votes=votes)
        kind = "request.amended" if changed else "request.voted"
        if changed:
            # Nobody has seen what it is now, and the window of a soft gate begins when somebody does.
            ends_at = ladders.end(verdict.ladder.limit, now, request.ask.needed_by)
            request = replace(request, seen_at=None, ends_at=None if verdict.gate is GateKind.SOFT else ends_at)
        request = replace(request, due_at=_due(request))
        return moved(request, now, kind, event.by, word=word, votes=_voted(request), **_void(event))
    reason = note or request.reason
    request = replace(
        request, candidate=candidate, votes=votes, decided_by=event.by, decided_at=now, word=word, reason=reason
    )
    request = running.permitted(request, now)
    return moved(request, now, "request.decided", event.by, word=word, votes=_voted(request), **_void(event))


def _void(event: Decided) -> dict[str, Json]:
    return {"void": list(event.void)} if event.void else {}


def _noted(candidate: Candidate, name: str, told: Iterable[str]) -> Candidate:
    """The same bytes with these sentences among the reasons on the card."""
    verdict = candidate.verdict
    kept = tuple(each for each in verdict.triggers if each.name != name)
    notes = tuple(Trigger(name, says, verdict.gate) for says in told)
    return replace(candidate, verdict=replace(verdict, triggers=(*notes, *kept)))


def _closed(
    request: Request, event: Decided, state: State, word: str, reason: str, now: datetime, **more: Json
) -> Change:
    """Decided for good, and nothing runs."""
    vote = _vote(event, word, request.candidate.permit_digest, reason, now)
    request = replace(
        request,
        votes=(*request.votes, vote),
        decided_by=event.by,
        decided_at=now,
        word=word,
        reason=reason,
        **more,
    )
    request = _ended(request, state)
    return moved(request, now, "request.decided", event.by, word=word, votes=_voted(request))


def _seen(request: Request, by: str, now: datetime) -> Change | None:
    """A soft window starts when somebody's surface first showed the request."""
    if request.seen_at is not None:
        return None
    request = replace(request, seen_at=now)
    if request.candidate.verdict.gate is GateKind.SOFT:
        request = replace(request, ends_at=_end(request))
    return moved(replace(request, due_at=_due(request)), now, "request.seen", by)


def _thawed(request: Request, by: str, now: datetime) -> Change | None:
    """Every deadline is later by as long as it stood still, save for when the agent needs it."""
    if request.frozen_at is None:
        return None
    still = now - request.frozen_at
    soft = request.candidate.verdict.gate is GateKind.SOFT
    later = None if request.ends_at is None else request.ends_at + still
    request = replace(request, frozen_at=None, frozen=request.frozen + still)
    request = replace(request, ends_at=later if soft or later is None else _end(request))
    return moved(replace(request, due_at=_due(request)), now, "request.thawed", by)


def _start(request: Request) -> datetime:
    """When its ladder began."""
    return request.ask.created_at + request.frozen


def _overdue(request: Request, now: datetime) -> Change | None:
    if request.due_at is None or now < request.due_at:
        return None
    match request.state:
        case State.PENDING:
            return _time_passed(request, now)
        case State.APPROVED:
            expired = replace(request, reason="approved, but not run before the permit expired")
            return moved(_ended(expired, State.EXPIRED), now, "permit.expired", "time")
        case _:
            return running.lapsed(request, now)


def _time_passed(request: Request, now: datetime) -> Change:
    """Every rung reached by now is climbed; past the end, the ladder's end is applied."""
    ladder = request.candidate.verdict.ladder
    entries: list[Entry] = []
    while (step := ladders.climb(ladder, _start(request), request.rung)) and step.at <= now:
        added = tuple(name for name in step.adds if name not in request.told)
        request = replace(request, rung=request.rung + 1, told=request.told + added)
        if step.rung.remind or not added:
            entries.append(entry(request, now, "request.reminder_due", "time", rung=request.rung))
        if added:
            entries.append(entry(request, now, "request.widened", "time", may_decide=list(added), rung=request.rung))
    if request.ends_at is None or now < request.ends_at:
        change = Change(replace(request, version=request.version + 1, changed_at=now, due_at=_due(request)))
        return change.also(*entries)
    request = replace(request, due_at=None)
    # What nobody waits for ends at its end, whatever the ladder would make of it otherwise.
    at_end = ladder.at_end if request.abandoned_at is None else AtEnd.DENY
    if at_end is AtEnd.PROCEED and _may_proceed_on_silence(request):
        request = replace(request, word="silence", decided_at=now, reason="nobody objected in time")
        if request.ask.kind is Kind.QUESTION:
            assert request.ask.question is not None  # noqa: S101  a question request has one
            request = replace(request, answer=request.ask.question.best_guess)
            request = _ended(request, State.ANSWERED)
        else:
            request = replace(running.permitted(request, now), review=Review.OPEN)
        return moved(request, now, "request.decided", "silence", word="silence", votes=[]).also(*entries)
    if at_end is AtEnd.STAY:
        return moved(replace(request, ends_at=None), now, "request.parked", "time").also(*entries)
    gone = f"; {waiting.NOBODY_WAITS}" if request.abandoned_at is not None else ""
    request = replace(request, word="silence", decided_at=now, reason=f"nobody answered in time{gone}")
    return moved(_ended(request, State.EXPIRED), now, "request.expired", "silence").also(*entries)


def _may_proceed_on_silence(request: Request) -> bool:
    """Only a soft gate on something reversible that was seen, or a question with a declared best guess."""
    if request.ask.kind is Kind.QUESTION:
        return request.ask.question is not None and request.ask.question.has_best_guess
    candidate = request.candidate
    soft = candidate.verdict.gate is GateKind.SOFT and request.seen_at is not None
    return soft and candidate.assessment.effect.reversible and candidate.assessment.is_known


def _ended(request: Request, state: State) -> Request:
    return running.forgotten(replace(request, state=state, due_at=None, ends_at=None))


def _end(request: Request) -> datetime | None:
    verdict = request.candidate.verdict
    if verdict.gate is GateKind.SOFT:
        # The window belongs to the reviewer: that the agent is in a hurry does not shorten it.
        return ladders.end(verdict.ladder.limit, request.seen_at or _start(request), None)
    return ladders.end(verdict.ladder.limit, _start(request), request.ask.needed_by)


def _due(request: Request) -> datetime | None:
    if request.frozen_at is not None:
        return None
    return ladders.due(request.candidate.verdict.ladder, _start(request), request.rung, request.ends_at)


def _vote(event: Decided, word: str, digest: str, note: str, now: datetime) -> Vote:
    return Vote(by=event.by, word=word, at=now, digest=digest, roles=event.roles, note=note, surface=event.surface)


def _voted(request: Request) -> list[dict[str, Json]]:
    return [{"by": v.by, "word": v.word, "at": v.at.isoformat(), "digest": v.digest} for v in request.votes]
