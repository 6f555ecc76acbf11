"""Problems that a server tells, as the errors they are here."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from assent import errors


def raised(problem: Mapping[str, Any], status: int) -> errors.AssentError:
    """The error behind an RFC 9457 problem; whatever is not known is at least told."""
    name = str(problem.get("type", "")).rpartition("/")[2]
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    ids = {key: str(problem.get(key, "")) for key in ("request_id", "code", "state")}
    match name:
        case "not-found":
            return errors.NotFound(detail)
        case "not-allowed" | "not-identified":
            return errors.NotAllowed(detail, principal="")
        case "already-decided":
            at = problem.get("at")
            when = datetime.fromisoformat(at) if isinstance(at, str) else None
            return errors.AlreadyDecided(detail, **ids, by=str(problem.get("by", "")), at=when)
        case "stale":
            return errors.StaleRequest(detail, **ids)
        case "confirmation-needed":
            return errors.ConfirmationNeeded(detail, phrase=str(problem.get("phrase", "")))
        case "invalid-decision":
            return errors.InvalidDecision(detail)
        case "policy-error":
            complaints = problem.get("complaints")
            return errors.PolicyError(detail, complaints=tuple(complaints) if isinstance(complaints, list) else ())
        case "invalid" | "invalid-arguments":
            return errors.InvalidArguments(detail)
        case "store-unavailable" | "store-full" | "unavailable" | "internal":
            return errors.StoreError(detail)
        case _ if status == 409:
            return errors.Conflict(detail, **ids)
        case _:
            return errors.AssentError(detail)
