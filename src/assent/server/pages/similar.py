"""Approve and allow similar: a standing permission made from a card, seen before it is given."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from assent.core.action import Risk
from assent.core.authority import may_change
from assent.core.briefing import brief
from assent.core.grant import Grant, Terms, granted, spending, why_not
from assent.core.request import Kind, State
from assent.core.request import Request as Asked
from assent.core.verdict import GateKind
from assent.engine.grants import give
from assent.errors import InvalidDecision, NotAllowed
from assent.ports import Filter
from assent.server.deciding import Said, decide
from assent.server.pages.frame import page
from assent.server.visitors import Person, Visitor

router = APIRouter()

Short = Annotated[str, Form(max_length=200)]
_LOOKED_AT = 200
_MOST_USES, _MOST_HOURS = 1_000, 24 * 30
_HOUR = timedelta(hours=1)


@router.post("/r/{code}/similar")
async def preview(
    request: Request,
    visitor: Person,
    code: str,
    uses: Short = "10",
    hours: Short = "8",
    budget: Short = "",
    condition: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """What the permission would say, and which of the latest requests it would have covered. Nothing is changed."""
    found = await visitor.room.desk.inbox.find(code)
    terms = _terms(found, uses, hours, budget, condition)
    _allowed(visitor, found)
    grant, now = await _hypothetical(visitor, terms)
    action = found.candidate.action
    latest = await visitor.room.desk.inbox.page(Filter(agent=found.ask.agent), limit=_LOOKED_AT)
    same = [each for each in latest.requests if each.candidate.action.name == action.name]
    covered = [each for each in same if why_not(grant, each.candidate.action, each.candidate.assessment, now) is None]
    return await page(
        request, "similar", visitor,
        card=brief(found, now), terms=terms, hours=terms.life // _HOUR, covered=covered[:20], count=len(covered),
        looked_at=len(same), misses=why_not(grant, action, found.candidate.assessment, now) or "",
        digest=found.shown_digest,
    )  # fmt: skip


@router.post("/r/{code}/similar/give")
async def given(
    visitor: Person,
    code: str,
    seen_digest: Short,
    uses: Short,
    hours: Short,
    budget: Short = "",
    condition: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """This one is approved, and then what is similar is allowed."""
    found = await visitor.room.desk.inbox.find(code)
    terms = _terms(found, uses, hours, budget, condition)
    _allowed(visitor, found)
    await _hypothetical(visitor, terms)  # a condition that cannot be read is told before anything is decided
    after = await decide(visitor, found, Said("approve", seen_digest=seen_digest))
    terms = replace(terms, reason=f"allowed with request {after.code}")
    await give(visitor.room.desk.store, visitor.room.name, visitor.principal, terms)
    return RedirectResponse(f"/r/{after.code}?told=approve", 303)


async def _hypothetical(visitor: Visitor, terms: Terms) -> tuple[Grant, datetime]:
    """The grant that this would be, with everything in it checked, and the time."""
    now = await visitor.room.desk.store.now()
    return granted(terms, "preview", visitor.room.name, visitor.principal.name, now), now


def _allowed(visitor: Visitor, found: Asked) -> None:
    reason = may_change(visitor.room.desk.judgement.policy, visitor.principal)
    if reason is not None:
        raise NotAllowed(f"only who may change the policy allows something in advance: {reason}", principal="")
    if found.candidate.assessment.risk is Risk.CRITICAL:
        raise InvalidDecision("what is critical is never allowed in advance from a card; decide each one")
    if any(char in found.candidate.action.name + found.ask.agent for char in "*?["):
        raise InvalidDecision("the name of its action or agent would be read as a pattern; give a grant by hand")
    if found.ask.kind is not Kind.ACTION or found.candidate.verdict.gate in (GateKind.MANUAL, GateKind.FORBID):
        raise InvalidDecision("this is not something to allow in advance; decide just this one")
    if found.state is not State.PENDING:
        raise InvalidDecision("this was decided already; `assent grants give` allows something in advance")


def _terms(found: Asked, uses: str, hours: str, budget: str, condition: str) -> Terms:
    """What the form offers: this action of this agent, up to this risk, so often, so long and for so much."""
    if not _is_number(uses) or not 0 < int(uses) <= _MOST_USES:
        raise InvalidDecision(f"how often is a whole number up to {_MOST_USES:,}")
    if not _is_number(hours) or not 0 < int(hours) <= _MOST_HOURS:
        raise InvalidDecision(f"for how many hours is a whole number up to {_MOST_HOURS}")
    amount = None
    if budget.strip():
        try:
            amount = Decimal(budget.strip())
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or amount <= 0:
            raise InvalidDecision("for how much in all is a number, such as 250 or 99.50")
    if amount is None and spending(found.candidate.assessment) is not None:
        raise InvalidDecision("it spends money: say for how much in all")
    facts = {fact.name: fact.value for fact in found.candidate.assessment.facts}
    currency = str(facts.get("currency", "")) if amount is not None else ""
    return Terms(
        (found.candidate.action.name,), int(hours) * _HOUR, agents=(found.ask.agent,), condition=condition,
        limit=int(uses), budget=amount, currency=currency, max_risk=found.candidate.assessment.risk,
    )  # fmt: skip


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 9
