"""What an ended request means to whoever made the call: its result, or the error that says why there is none."""

from collections.abc import Callable
from typing import Any

from assentry.core.canonical import restore
from assentry.core.request import NEVER_RAN, Request, State
from assentry.engine.tool import Tool
from assentry.errors import ActionFailed, Denied, OutcomeUnknown, Refused, SentBack


def result_of(request: Request, tool: Tool) -> Any:
    """What an ended request means to the caller: its result, or the error that says why there is none."""
    match request.state:
        case State.DONE | State.UNDO_ASKED | State.UNDOING | State.UNDONE:
            return _result(request, tool)
        case State.FAILED:
            ended = f"was {NEVER_RAN}" if request.error == NEVER_RAN else f"ran and {failed_with(request.error)}"
            raise ActionFailed(
                f"request {request.code} {ended}",
                request_id=request.id,
                code=request.code,
                error=request.error,
            )
        case State.UNKNOWN:
            raise OutcomeUnknown(request.id, request.code)
        case _:
            raise refusal(request)


def failed_with(error: str) -> str:
    """How something ended, in words: the kind of error it was. What the error said stays out of messages."""
    kind = error.partition(":")[0]
    return f"failed with {kind}; `error` has what it said" if kind.isidentifier() else "failed; `error` says how"


def refusal(request: Request) -> Denied:
    """The error that tells the agent what was not allowed, why, and what to do next."""
    action = request.candidate.action.name
    kind: Callable[..., Denied] = Denied
    match request.state:
        case State.REFUSED:
            kind, what = Refused, f"policy forbids {action}"
            next_step = "Do not try it again or in another form; plan on without it, or say that you cannot."
        case State.REVISED:
            kind, what = SentBack, f"{action} was sent back"
            next_step = "Follow the instructions and propose a new draft."
        case State.EXPIRED if request.abandoned_at is not None and request.word not in ("", "silence"):
            what = f"the approval of {action} ended before it began"
            next_step = "It did not run, because its caller showed no sign of life. Propose it again if it matters."
        case State.EXPIRED:
            what = f"nobody decided about {action} in time"
            next_step = "It did not run. Plan on without it, or ask again later if it still matters."
        case State.CANCELLED if request.word == "dismiss":
            what = f"the request for {action} was dismissed, because nobody seemed to wait for it"
            next_step = "It did not run. Propose it again if it still matters."
        case State.CANCELLED:
            what = f"the request for {action} was withdrawn"
            next_step = "It did not run."
        case _:
            what = f"{request.decided_by or 'a person'} denied {action}"
            next_step = "It did not run. Mark the step as skipped and plan on without it; do not retry it unchanged."
    if request.ask.if_denied:
        next_step = request.ask.if_denied
    if request.stop:
        next_step = "Stop the whole run now."
    return kind(
        f"{what}: {request.reason}. {next_step}",
        request_id=request.id, code=request.code, reason=request.reason, next_step=next_step, state=str(request.state),
        stop=request.stop, by=request.decided_by,
    )  # fmt: skip


def _result(request: Request, tool: Tool) -> Any:
    """What came back, in the function's own type; `None` where somebody found it done and nobody saw its result."""
    if not request.result_text:
        return None
    value = restore(request.result_text)
    returns = tool.signature.returns if tool.signature is not None else None
    try:
        return value if returns is None else returns.validate_python(value)
    except ValueError:
        # A secret was cut out of it, or it could not be written as JSON: what was kept is all there is.
        return value
