"""What the audit log must tell of one request, held against the request itself. Pure: entries in, complaints out."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from assentry.core.request import Executor, Request, State
from assentry.ports import Logged

STAYS = (
    "request.seen",
    "request.voted",
    "request.amended",
    "request.rejudged",
    "request.reminder_due",
    "request.widened",
    "request.parked",
)
LEADS: dict[tuple[State, str], tuple[State, ...]] = {
    **{(State.PENDING, kind): (State.PENDING,) for kind in STAYS},
    (State.PENDING, "request.decided"): (State.APPROVED, State.DENIED, State.ANSWERED, State.REVISED),
    (State.PENDING, "request.cancelled"): (State.CANCELLED,),
    (State.PENDING, "request.expired"): (State.EXPIRED,),
    (State.APPROVED, "request.cancelled"): (State.CANCELLED,),
    (State.APPROVED, "permit.expired"): (State.EXPIRED,),
    (State.APPROVED, "execution.began"): (State.RUNNING,),
    (State.RUNNING, "execution.finished"): (State.DONE,),
    (State.RUNNING, "execution.failed"): (State.FAILED,),
    (State.RUNNING, "execution.unknown"): (State.UNKNOWN,),
    (State.UNKNOWN, "execution.finished"): (State.DONE,),
    (State.UNKNOWN, "execution.failed"): (State.FAILED,),
    (State.UNKNOWN, "execution.began"): (State.RUNNING,),
    (State.UNKNOWN, "execution.reconciled"): (State.DONE, State.FAILED, State.PENDING),
}
"""What may follow what. The states of undoing are not part of these trials."""

LATER: dict[State, frozenset[State]] = {
    State.PENDING: frozenset(State),
    State.APPROVED: frozenset({State.APPROVED, State.RUNNING, State.DONE, State.FAILED, State.UNKNOWN}),
    State.RUNNING: frozenset({State.RUNNING, State.DONE, State.FAILED, State.UNKNOWN}),
    State.DENIED: frozenset({State.DENIED}),
    State.DONE: frozenset({State.DONE}),
}
"""Where something that was acknowledged in a state may be found later."""


def complaints(request: Request, entries: Iterable[Logged]) -> list[str]:
    """Everything in which the entries are no legal history of `request`, or end elsewhere than it stands."""
    found: list[str] = []
    told = [json.loads(entry.text) for entry in entries]
    if not told or told[0]["kind"] != "request.asked":
        return [f"its log does not begin with the asking: {[entry['kind'] for entry in told]}"]
    state = State.PENDING
    if not request.ask.candidate.verdict.gate.holds:
        # What need not wait is approved by the change that asks for it.
        state = State.APPROVED
    fence, approvals, began, moves = 0, int(state is State.APPROVED), 0, 1
    for entry in told[1:]:
        kind, body = entry["kind"], entry["body"]
        if kind == "execution.late":
            continue
        next_state = State(body["state"])
        if next_state not in LEADS.get((state, kind), ()):
            found.append(f"{kind} to {next_state} follows {state}")
        found += _about_execution(kind, body, fence)
        if kind == "execution.began":
            fence, began = body["fence"], began + (state is not State.UNKNOWN)
        approvals += next_state is State.APPROVED and state is not State.APPROVED
        state, moves = next_state, moves + 1
    if not request.ask.candidate.verdict.gate.holds and request.ask.executor is Executor.CALLER:
        moves -= 1  # asked and begun in one change
    if state is not request.state:
        found.append(f"its log ends in {state}, and it is {request.state}")
    if fence != request.fence:
        found.append(f"its log knows token {fence}, and it has {request.fence}")
    if began > approvals:
        found.append(f"it began {began} times on {approvals} approvals")
    if request.version < moves:
        found.append(f"its log tells of {moves} changes, and it is at version {request.version}")
    return found


def _about_execution(kind: str, body: Mapping[str, Any], fence: int) -> list[str]:
    match kind:
        case "execution.began" if body["fence"] != fence + 1:
            return [f"token {body['fence']} follows {fence}"]
        case "execution.finished" | "execution.failed" | "execution.unknown" if body["fence"] != fence:
            return [f"{kind} under token {body['fence']}, and {fence} held it"]
        case _:
            return []
