"""A server's problems as the errors that a local gate would have raised: what agents hear beside what people do."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import httpx

from assentry.errors import (
    ActionFailed,
    AlreadyDecided,
    AssentryError,
    ConfirmationNeeded,
    Conflict,
    Denied,
    GuardError,
    InvalidArguments,
    InvalidDecision,
    LeaseLost,
    Limited,
    NotAllowed,
    NotFound,
    OutcomeUnknown,
    PermitMismatch,
    PolicyError,
    Refused,
    RunPaused,
    RunStopped,
    SentBack,
    StaleRequest,
    StoreError,
    StoreFull,
)

Problem = Mapping[str, Any]


def error_of(answer: httpx.Response) -> BaseException:
    """The error that this answer stands for."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    detail = str(problem.get("detail") or f"the server answered {answer.status_code}")
    name = str(problem.get("type", "")).rpartition("/")[2]
    make = _MADE.get(name)
    if make is not None:
        return make(problem, detail)
    if answer.status_code in (401, 403):
        return NotAllowed(detail, principal="")
    return Conflict(detail, **_named(problem)) if answer.status_code == 409 else AssentryError(detail)


def _named(problem: Problem) -> dict[str, str]:
    return {name: str(problem.get(name, "")) for name in ("code", "state")} | {
        "request_id": str(problem.get("request_id", ""))
    }


def _conflict(kind: type[Conflict]) -> Callable[[Problem, str], BaseException]:
    return lambda problem, detail: kind(detail, **_named(problem))


def _denied(kind: type[Denied]) -> Callable[[Problem, str], BaseException]:
    return lambda problem, detail: kind(
        detail, **_named(problem), reason=str(problem.get("reason", "")), next_step=str(problem.get("next_step", "")),
        stop=bool(problem.get("stop", False)), by=str(problem.get("by", "")),
    )  # fmt: skip


def _held(kind: type[RunStopped]) -> Callable[[Problem, str], BaseException]:
    def make(problem: Problem, detail: str) -> RunStopped:
        told = (str(problem.get(name, "")) for name in ("code", "by", "reason"))
        return kind(*told, says=str(problem.get("says") or detail))

    return make


def _at(problem: Problem) -> datetime | None:
    at = problem.get("at")
    try:
        return datetime.fromisoformat(at) if isinstance(at, str) else None
    except ValueError:
        return None


def _policy(problem: Problem, detail: str) -> PolicyError:
    complaints = problem.get("complaints")
    return PolicyError(detail, complaints=tuple(map(str, complaints)) if isinstance(complaints, list) else ())


_MADE: dict[str, Callable[[Problem, str], BaseException]] = {
    "confirmation-needed": lambda problem, detail: ConfirmationNeeded(detail, phrase=str(problem.get("phrase", ""))),
    "invalid-decision": lambda _, detail: InvalidDecision(detail),
    "policy-error": _policy,
    "store-unavailable": lambda _, detail: StoreError(detail),
    "failed": lambda problem, detail: ActionFailed(
        detail,
        request_id=_named(problem)["request_id"],
        code=_named(problem)["code"],
        error=str(problem.get("error", "")),
    ),
    "not-found": lambda _, detail: NotFound(detail),
    "not-allowed": lambda _, detail: NotAllowed(detail, principal=""),
    "already-decided": lambda problem, detail: AlreadyDecided(
        detail, **_named(problem), by=str(problem.get("by", "")), at=_at(problem)
    ),
    "stale": _conflict(StaleRequest),
    "invalid": lambda _, detail: InvalidArguments(detail),
    "invalid-arguments": lambda _, detail: InvalidArguments(detail),
    "lease-lost": _conflict(LeaseLost),
    "permit-mismatch": _conflict(PermitMismatch),
    "limited": lambda problem, _: Limited("the agent", str(problem.get("reason", ""))),
    "sent-back": _denied(SentBack),
    "refused": _denied(Refused),
    "denied": _denied(Denied),
    "outcome-unknown": lambda problem, _: OutcomeUnknown(_named(problem)["request_id"], _named(problem)["code"]),
    "invalid-proposal": lambda _, detail: GuardError(detail),
    "store-full": lambda _, detail: StoreFull(detail),
    "paused": _held(RunPaused),
    "stopped": _held(RunStopped),
}
