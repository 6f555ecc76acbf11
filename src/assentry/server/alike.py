"""Requests that differ in nothing but their arguments, and so may be decided with one word: of low risk only."""

from collections.abc import Sequence

from assentry.core.action import Risk
from assentry.core.request import Kind, Request, State
from assentry.core.verdict import GateKind
from assentry.ports import Filter
from assentry.server.problems import Problem
from assentry.server.visitors import Visitor

MOST_AT_ONCE = 100
_SHOWN = 50
_LOW = (Risk.SAFE, Risk.RISKY)


def unlike(request: Request, first: Request) -> str:
    """Why this one is to be decided by itself; empty where it is of low risk and shaped like the first."""
    candidate, other = request.candidate, first.candidate
    if request.ask.kind is not Kind.ACTION:
        return "it is a question; answer it by itself"
    if candidate.assessment.risk not in _LOW or candidate.verdict.gate is GateKind.MANUAL:
        return f"it is {candidate.assessment.risk}; what is more than risky is decided by itself"
    if request.ask.agent != first.ask.agent:
        return "another agent asked for it"
    if candidate.action.name != other.action.name:
        return "it is another action"
    if candidate.verdict.gate is not other.verdict.gate:
        return "it has another gate"
    return ""


async def of_one_shape(visitor: Visitor, request_ids: Sequence[str], first: Request | None = None) -> list[Request]:
    """The requests, which a person may take for one; else the problem says which of them differs, and how.

    They are held against `first`, or else against the first of them.
    """
    found = {each.id: each for each in await visitor.room.desk.store.those(visitor.room.name, request_ids)}
    for number, request_id in enumerate(request_ids, 1):
        request = found.get(request_id)
        if request is None:
            raise Problem(404, f"there is no request {request_id!r} (number {number}); nothing was decided")
        first = first or request
        why = unlike(request, first) or ("it is named twice" if request_id in request_ids[: number - 1] else "")
        if why:
            raise Problem(
                422,
                f"request {request.code} (number {number}) is not like the others: {why}; nothing was decided",
                {"item": number, "request_id": request.id, "code": request.code},
            )
    return [found[each] for each in request_ids]


async def those_like(visitor: Visitor, first: Request) -> list[Request]:
    """This one and up to fifty others that wait, are shaped like it and may be decided by this person."""
    if first.state is not State.PENDING or unlike(first, first):
        return []
    inbox = visitor.room.desk.inbox
    wanted = Filter(states=(State.PENDING,), agent=first.ask.agent, action=first.candidate.action.name)
    page = await inbox.page(wanted, limit=_SHOWN)
    others = [
        each for each in page.requests if each.id != first.id and not unlike(each, first) and not each.ask.options
    ]
    return [each for each in (first, *others) if inbox.may_decide(visitor.principal, each) is None]
