"""Running and what comes after: intent, lease, result, unknown outcomes, undo, review afterwards."""

from datetime import datetime, timedelta

from assentry.core import ladder as ladders
from assentry.core.change import Change, entry, moved
from assentry.core.copies import replace
from assentry.core.decision import Begin, Finding, LookedAgain, Opinion, Reconcile, Rejudged
from assentry.core.request import PERMIT_LIFE, Permit, Request, Review, State
from assentry.core.verdict import GateKind, Trigger
from assentry.errors import Conflict, LeaseLost, PermitMismatch

LEASE = timedelta(seconds=60)
"""For so long an execution may say nothing before others take its process for dead."""


def begun(request: Request, event: Begin, now: datetime) -> Change:
    """Intent is recorded and the permit is used, in one change; only exactly what was approved may begin."""
    named = {"request_id": request.id, "code": request.code, "state": str(request.state)}
    permit = request.permit
    if permit is None or permit.digest != event.digest or event.digest != request.candidate.permit_digest:
        raise PermitMismatch(
            f"what is about to run is not what was approved as request {request.code}; propose it again",
            **named,
        )
    if request.state is State.UNKNOWN and (not request.is_idempotent or request.undoing):
        raise PermitMismatch(
            f"the outcome of request {request.code} is unknown; `assentry reconcile {request.code}` comes first",
            **named,
        )
    if permit.expires_at is not None and now >= permit.expires_at:
        raise PermitMismatch(f"the permit of request {request.code} has expired; propose it again", **named)
    if request.state is State.APPROVED and permit.used_at is not None:
        raise PermitMismatch(f"the permit of request {request.code} was used; propose again for another", **named)
    going = started(request, now, event.worker, event.lease)
    return moved(going, now, "execution.began", event.worker, fence=going.fence)


def hold_lease(request: Request, fence: int) -> None:
    if fence != request.fence:
        raise LeaseLost(
            f"request {request.code} is executed under a newer token; this result is not taken",
            request_id=request.id, code=request.code, state=str(request.state),
        )  # fmt: skip


def finished(request: Request, now: datetime, result_text: str) -> Change:
    if request.undoing:
        undone = replace(request, state=State.UNDONE, due_at=None, undo_until=None)
        return moved(forgotten(undone), now, "undo.finished", request.worker, fence=request.fence)
    verdict = request.candidate.verdict
    request = replace(request, state=State.DONE, due_at=None, result_text=result_text, error="", finished_at=now)
    if request.can_undo:
        until = now + verdict.undo_window
        request = replace(request, undo_until=until, due_at=until if request.sealed else None)
    if verdict.review_after and request.review is Review.NONE:
        request = replace(request, review=Review.OPEN)
    return moved(forgotten(request), now, "execution.finished", request.worker, fence=request.fence)


def failed(request: Request, now: datetime, error: str) -> Change:
    if request.undoing:
        kept = replace(request, state=State.DONE, due_at=None, undoing=False, error=f"undo failed: {error}")
        return moved(kept, now, "undo.failed", request.worker, fence=request.fence)
    request = replace(request, state=State.FAILED, due_at=None, error=error, finished_at=now)
    return moved(forgotten(request), now, "execution.failed", request.worker, fence=request.fence)


def reconciled(request: Request, event: Reconcile, now: datetime) -> Change:
    """Somebody looked; `retry` asks anew for the same bytes, so that it takes whatever the first approval took."""
    match event.finding:
        case Finding.DONE:
            state = State.UNDONE if request.undoing else State.DONE
            request = forgotten(replace(request, state=state, finished_at=now))
        case Finding.FAILED:
            state = State.DONE if request.undoing else State.FAILED
            error = event.note or ("the undo did not happen" if request.undoing else "it did not happen")
            request = replace(request, state=state, finished_at=now, error=error, undoing=False)
            request = forgotten(request) if state is State.FAILED else request
        case Finding.RETRY if request.undoing:
            request = replace(request, state=State.UNDO_ASKED, undoing=False)
        case Finding.RETRY:
            # The calls that waited for it ended when its outcome was unknown. One that is made again waits for it.
            again = replace(asked_again(request, now), abandoned_at=now if request.callers else None)
            change = moved(again, now, "execution.reconciled", event.by, finding=event.finding.value, undo=False)
            return change.also(entry(again, now, "request.abandoned", "time")) if request.callers else change
    return moved(request, now, "execution.reconciled", event.by, finding=event.finding.value, undo=request.undoing)


def asked_again(request: Request, now: datetime) -> Request:
    """Waiting for a decision as if just asked; what was said before counts no more, and no permit exists."""
    verdict = request.candidate.verdict
    ends_at = None if verdict.gate is GateKind.SOFT else ladders.end(verdict.ladder.limit, now, None)
    return replace(
        request,
        state=State.PENDING,
        permit=None,
        votes=(),
        decided_by="",
        decided_at=None,
        word="",
        reason="",
        seen_at=None,
        ends_at=ends_at,
        due_at=ladders.due(verdict.ladder, now, 0, ends_at),
        rung=0,
        told=(),
        round=request.round + 1,
        # Its ladder begins now, whatever stood still before.
        frozen_at=None,
        frozen=now - request.ask.created_at,
    )


def looked_again(request: Request, event: LookedAgain, now: datetime) -> Change:
    """What it depends on has changed: it is asked about once more as it is now, or runs and is looked at afterwards."""
    if not event.again:
        review = Review.OPEN if request.review is Review.NONE else request.review
        noted = replace(request, changes=event.changes, looked_at=now, review=review)
        return moved(noted, now, "request.changed", event.by, changes=len(event.changes))
    again = asked_again(replace(request, candidate=event.now, changes=event.changes, looked_at=now), now)
    return moved(again, now, "request.asked_again", event.by, changes=len(event.changes), round=again.round)


def rejudged(request: Request, event: Rejudged, now: datetime) -> Change:
    """It waits as the policy of now would have it wait; whoever was shown it before has to look again.

    Approvals given where less was demanded of whoever gives one do not count.
    """
    before, verdict = request.candidate.verdict, event.now.verdict
    notes = tuple(Trigger("changed", f"the policy changed: {each}", verdict.gate) for each in event.changes)
    kept = tuple(each for each in verdict.triggers if each.name != "changed")
    candidate = replace(event.now, verdict=replace(verdict, triggers=(*notes, *kept)))
    again = asked_again(replace(request, candidate=candidate, changes=event.changes), now)
    again = replace(again, votes=request.votes if before.gate is verdict.gate else (), told=request.told)
    if request.frozen_at is not None:
        again = replace(again, frozen_at=now, due_at=None)
    return moved(again, now, "request.rejudged", event.by, changes=list(event.changes), round=again.round)


def undo_asked(request: Request, by: str, reason: str, now: datetime) -> Change:
    named = {"request_id": request.id, "code": request.code, "state": str(request.state)}
    if not request.can_undo:
        raise Conflict(f"request {request.code} ran {request.candidate.action.name}, which declares no undo", **named)
    if request.undo_until is None or now >= request.undo_until:
        raise Conflict(f"the time to undo request {request.code} is over; take it back by hand", **named)
    asked = replace(request, state=State.UNDO_ASKED, due_at=request.undo_until + timedelta(hours=1))
    return moved(asked, now, "undo.asked", by, reason_given=bool(reason))


def undo_begun(request: Request, worker: str, lease: timedelta, now: datetime) -> Change:
    """Intent to undo is recorded under a new token."""
    going = replace(started(request, now, worker, lease), state=State.UNDOING, undoing=True)
    return moved(going, now, "undo.began", worker, fence=going.fence)


def lapsed(request: Request, now: datetime) -> Change | None:
    """What the passing of `due_at` makes of something that was to run, runs or ran."""
    match request.state:
        case State.RUNNING | State.UNDOING:
            unknown = replace(request, state=State.UNKNOWN, due_at=None)
            return moved(unknown, now, "execution.unknown", "time", fence=request.fence, undo=request.undoing)
        case State.UNDO_ASKED:
            kept = replace(request, state=State.DONE, due_at=None, error="nobody ran the undo in time", sealed={})
            return moved(kept, now, "undo.lapsed", "time")
        case State.DONE:
            return moved(replace(request, due_at=None, sealed={}), now, "secrets.erased", "time")
        case _:
            return None


def reviewed(request: Request, opinion: Opinion, by: str, note: str, now: datetime) -> Change:
    if request.review is not Review.OPEN:
        settled = "does not ask for review" if request.review is Review.NONE else f"was already {request.review.value}"
        raise Conflict(
            f"request {request.code} {settled}",
            request_id=request.id,
            code=request.code,
            state=str(request.state),
        )
    request = replace(request, review=Review(opinion.value), reason=note or request.reason)
    return moved(request, now, f"review.{opinion.value}", by)


def permitted(request: Request, now: datetime) -> Request:
    """Approved: the permit is for exactly the candidate's bytes, once, for a while."""
    candidate = request.candidate
    permit = Permit(candidate.permit_digest, candidate.verdict.policy_version, now, now + PERMIT_LIFE)
    return replace(request, state=State.APPROVED, permit=permit, due_at=permit.expires_at, ends_at=None)


def started(request: Request, now: datetime, worker: str, lease: timedelta) -> Request:
    permit = request.permit and replace(request.permit, used_at=request.permit.used_at or now)
    return replace(
        request,
        state=State.RUNNING,
        permit=permit,
        fence=request.fence + 1,
        worker=worker,
        due_at=now + lease,
    )


def forgotten(request: Request) -> Request:
    """Sealed secrets do not outlive the request, unless an undo may still need them."""
    kept = not request.sealed or request.undo_until is not None
    return request if kept else replace(request, sealed={})
