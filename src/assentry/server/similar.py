"""Approving one request and allowing what is like it: the same checks and the same order for a page and for the API."""

from dataclasses import dataclass, replace
from datetime import datetime

from assentry.core.action import Risk
from assentry.core.grant import Grant, Terms, granted, spends
from assentry.core.request import Kind, Request, State
from assentry.core.verdict import GateKind
from assentry.engine.grants import give
from assentry.errors import InvalidDecision
from assentry.server.deciding import Said, decide
from assentry.server.visitors import Visitor


@dataclass(frozen=True, slots=True)
class Allowed:
    """The request after the decision, and the grant; none where more people have to approve."""

    request: Request
    grant: Grant | None

    @property
    def says(self) -> str:
        """What came of it, in a sentence."""
        if self.grant is not None:
            return "Approved, and similar actions are allowed in advance."
        return "Your approval counts. Others have to approve it too, so no permission was created."


def like(request: Request, terms: Terms) -> Terms:
    """These terms for the same action of the same agent, up to the same risk; the error says why that may not be.

    A budget is in the currency of the request unless the terms name one.
    """
    candidate = request.candidate
    if request.ask.kind is not Kind.ACTION:
        raise InvalidDecision("this is a question: answer it; only actions can be allowed in advance")
    if candidate.assessment.risk is Risk.CRITICAL or candidate.verdict.gate in (GateKind.MANUAL, GateKind.FORBID):
        raise InvalidDecision("a critical action cannot be allowed in advance from a card; decide this request alone")
    if any(char in candidate.action.name + request.ask.agent for char in "*?["):
        raise InvalidDecision(
            "the name of its action or agent would be read as a pattern; use `assentry grants give` instead"
        )
    if terms.budget is None and spends(candidate.assessment):
        raise InvalidDecision("this action spends money: set a total spending limit")
    facts = {fact.name: fact.value for fact in candidate.assessment.facts}
    currency = terms.currency or str(facts.get("currency", "")) if terms.budget is not None else ""
    return replace(
        terms, actions=(candidate.action.name,), agents=(request.ask.agent,), currency=currency,
        max_risk=candidate.assessment.risk,
    )  # fmt: skip


async def hypothetical(visitor: Visitor, terms: Terms) -> tuple[Grant, datetime]:
    """The grant that this would be, with everything in it checked, and the time."""
    now = await visitor.room.desk.store.now()
    return granted(terms, "preview", visitor.room.name, visitor.principal.name, now), now


async def allow(visitor: Visitor, request: Request, said: Said, terms: Terms) -> Allowed:
    """The request is approved by this person; and if that was the last approval it needed, the grant stands."""
    await hypothetical(visitor, terms)  # a condition that cannot be read is told before anything is decided
    after = await decide(visitor, request, said)
    if after.state is not State.APPROVED:
        return Allowed(after, None)
    terms = replace(terms, reason=terms.reason or f"allowed with request {after.code}")
    return Allowed(after, await give(visitor.room.desk.store, visitor.room.name, visitor.principal, terms))
