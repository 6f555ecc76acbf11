"""Who waits for a request, and what becomes of it when nobody does any more.

Only requests that nothing but a living process can find again name their callers. Those that are found by a step in a
run that can be entered again, by a key, or by an id that was handed out, name none and are never abandoned.
"""

from datetime import datetime

from assentry.core.change import Change, moved
from assentry.core.copies import replace
from assentry.core.decision import Awaited, CallerLost, Deny
from assentry.core.request import Request, State
from assentry.core.running import forgotten
from assentry.errors import CallerGone

NOBODY_WAITS = "nobody is waiting for this any more"


def awaited(request: Request, event: Awaited, now: datetime) -> Change | None:
    """One more process waits for it; what was abandoned is so no longer."""
    if not request.callers:
        return None
    living = () if request.abandoned_at is not None else request.callers
    if event.caller in living:
        return None
    return _with_callers(request, (*(name for name in living if name != event.instead), event.caller), now)


def findable(request: Request, now: datetime) -> Change | None:
    """It no longer depends on the processes that waited for it."""
    return _with_callers(request, (), now) if request.callers else None


def caller_lost(request: Request, event: CallerLost, now: datetime) -> Change | None:
    """One process less waits for it. After the last one it is abandoned: what was approved does not run any more.

    The last one stays named, so that it finds the request should it turn out to live.
    """
    if event.caller not in request.callers or request.abandoned_at is not None:
        return None
    left = tuple(name for name in request.callers if name != event.caller)
    if left:
        return Change(replace(request, version=request.version + 1, callers=left))
    alone = replace(request, abandoned_at=now)
    if request.state is State.PENDING:
        return moved(alone, now, "request.abandoned", "time")
    reason = "approved, but its caller was gone before it began"
    ended = replace(alone, state=State.EXPIRED, due_at=None, ends_at=None, reason=reason)
    return moved(forgotten(ended), now, "permit.abandoned", "time")


def dismissed(request: Request, said: Deny, by: str, now: datetime) -> Change:
    """A person has cleared away, without a reason, what nobody waits for. That is no denial: nothing was judged."""
    ended = replace(
        request, state=State.CANCELLED, due_at=None, ends_at=None, word="dismiss", reason=NOBODY_WAITS, decided_by=by,
        decided_at=now, stop=said.stop,
    )  # fmt: skip
    return moved(forgotten(ended), now, "request.dismissed", by)


def not_waited_for(request: Request) -> CallerGone:
    """Why it can no longer be approved, and what can be done."""
    return CallerGone(
        f"request {request.code} cannot be approved or answered: {NOBODY_WAITS}, since the process that asked is gone. "
        "Deny it without a reason to dismiss it; an agent that still needs it asks again",
        request_id=request.id, code=request.code, state=str(request.state),
    )  # fmt: skip


def _with_callers(request: Request, callers: tuple[str, ...], now: datetime) -> Change:
    after = replace(request, callers=callers, abandoned_at=None)
    if request.abandoned_at is not None:
        return moved(after, now, "request.awaited_again", request.ask.agent)
    return Change(replace(after, version=request.version + 1))
