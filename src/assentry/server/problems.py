"""Errors as RFC 9457 problems: one shape for every surface that speaks HTTP."""

from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from assentry import errors
from assentry.telling.plain import one_line

_BESIDE = (
    "request_id", "code", "state", "by", "at", "phrase", "reason", "next_step", "stop", "error", "grant_id",
    "complaints", "says",
)  # fmt: skip
"""What an error carries that is told beside its words."""
MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Situation:
    """What one sort of error is called on the wire."""

    status: int
    name: str
    title: str


_SITUATIONS: tuple[tuple[type[BaseException], Situation], ...] = (
    (errors.NotFound, Situation(404, "not-found", "There is no such thing here")),
    (errors.NotAllowed, Situation(403, "not-allowed", "Not allowed")),
    (errors.AlreadyDecided, Situation(409, "already-decided", "Somebody was faster")),
    (errors.CallerGone, Situation(409, "caller-gone", "Nobody is waiting for it any more")),
    (errors.StaleRequest, Situation(409, "stale", "It changed since it was read")),
    (errors.DuplicateStep, Situation(409, "duplicate", "This step has a request already")),
    (errors.LeaseLost, Situation(409, "lease-lost", "The lease has ended")),
    (errors.PermitMismatch, Situation(409, "permit-mismatch", "This is not what was permitted")),
    (errors.Conflict, Situation(409, "conflict", "It is not in a state for that")),
    (errors.ConfirmationNeeded, Situation(428, "confirmation-needed", "Type what is confirmed")),
    (errors.Limited, Situation(429, "limited", "The agent asks too much")),
    (errors.SentBack, Situation(409, "sent-back", "Sent back with instructions")),
    (errors.Refused, Situation(409, "refused", "Policy forbids it")),
    (errors.Denied, Situation(409, "denied", "Denied")),
    (errors.GrantSpent, Situation(409, "grant-spent", "The grant is used up")),
    (errors.ActionFailed, Situation(409, "failed", "It was tried and failed")),
    (errors.OutcomeUnknown, Situation(409, "outcome-unknown", "Nobody knows whether it happened")),
    (errors.InvalidDecision, Situation(422, "invalid-decision", "This decision does not fit")),
    (errors.InvalidArguments, Situation(422, "invalid-arguments", "These arguments cannot be carried")),
    (errors.PolicyError, Situation(422, "policy-error", "This policy cannot be used")),
    (errors.GuardError, Situation(422, "invalid-proposal", "This proposal cannot be used")),
    (errors.StoreFull, Situation(507, "store-full", "No space is left")),
    (errors.TamperFound, Situation(409, "tampered", "The log is not what was signed")),
    (errors.StoreError, Situation(503, "store-unavailable", "The database cannot be used right now")),
    (errors.RunPaused, Situation(409, "paused", "A person has paused this")),
    (errors.RunStopped, Situation(409, "stopped", "A person has stopped this")),
    (errors.AssentryError, Situation(400, "error", "That did not work")),
)
_BY_STATUS = {
    400: ("bad-request", "This cannot be understood"),
    401: ("not-identified", "Nobody is known by this"),
    403: ("not-allowed", "Not allowed"),
    404: ("not-found", "There is no such thing here"),
    405: ("method-not-allowed", "Not in this way"),
    406: ("not-acceptable", "Not in this form"),
    409: ("conflict", "It is not in a state for that"),
    412: ("stale", "It changed since it was read"),
    413: ("too-large", "Too large"),
    415: ("unsupported-media-type", "Not in this form"),
    421: ("misdirected", "This server does not go by that name"),
    422: ("invalid", "Something in it does not fit"),
    429: ("too-many", "Too many at once"),
    503: ("unavailable", "Not right now"),
}


@dataclass(slots=True)
class Problem(Exception):
    """An error of the edge itself: who calls, and in which form."""

    status: int
    detail: str
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def situation_of(problem: BaseException) -> Situation:
    """What this error is called on the wire."""
    if isinstance(problem, Problem | HTTPException):
        status = problem.status if isinstance(problem, Problem) else problem.status_code
        name, title = _BY_STATUS.get(status, ("error", "That did not work"))
        return Situation(status, name, title)
    if isinstance(problem, RequestValidationError):
        return Situation(422, "invalid", "Something in it does not fit")
    for kind, situation in _SITUATIONS:
        if isinstance(problem, kind):
            return situation
    return Situation(500, "internal", "Something is wrong here")


def detail_of(problem: BaseException) -> str:
    """What to tell the caller, on one line; nothing of what is wrong inside."""
    if isinstance(problem, Problem):
        return problem.detail
    if isinstance(problem, HTTPException):
        return str(problem.detail)
    if isinstance(problem, RequestValidationError):
        return "; ".join(_place(each) for each in problem.errors()[:5])
    if isinstance(problem, errors.AssentryError | errors.RunStopped):
        return one_line(str(problem))
    return "an unexpected error; the log of the server has it"


def document_of(problem: BaseException, instance: str = "") -> dict[str, Any]:
    """The problem as RFC 9457 has it, with ids and what to do beside it."""
    what = situation_of(problem)
    made: dict[str, Any] = {
        "type": f"/problems/{what.name}",
        "title": what.title,
        "status": what.status,
        "detail": detail_of(problem),
    }
    if instance:
        made["instance"] = instance
    if isinstance(problem, Problem):
        made |= problem.more
    for name in _BESIDE:
        value = getattr(problem, name, None)
        if value:
            made[name] = value.isoformat() if hasattr(value, "isoformat") else value
    return made


def answer(request: Request, problem: BaseException) -> Response:
    """The problem as an answer."""
    what = situation_of(problem)
    headers = problem.headers if isinstance(problem, Problem) else getattr(problem, "headers", None) or {}
    return JSONResponse(document_of(problem, request.url.path), what.status, headers, media_type=MEDIA_TYPE)


def _place(each: Any) -> str:
    where = ".".join(str(part) for part in each["loc"] if part not in ("body", "query", "path"))
    return f"{where or each['loc'][-1]}: {each['msg']}"
