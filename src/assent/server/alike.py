"""Requests that differ in nothing but their arguments, and so may be decided with one word: of low risk only."""

from assent.core.action import Risk
from assent.core.request import Kind, Request, State
from assent.core.verdict import GateKind
from assent.ports import Filter
from assent.server.visitors import Visitor

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
