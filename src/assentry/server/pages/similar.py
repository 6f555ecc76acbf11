"""Approve and allow similar: a standing permission made from a card, seen before it is given."""

from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from assentry.core.authority import may_change
from assentry.core.briefing import brief
from assentry.core.grant import Terms, why_not
from assentry.core.request import Request as Asked
from assentry.core.request import State
from assentry.errors import InvalidDecision, NotAllowed, PolicyError
from assentry.ports import Filter
from assentry.server.deciding import Said
from assentry.server.pages.frame import page
from assentry.server.pages.inbox import again
from assentry.server.pages.listing import kept_query
from assentry.server.similar import allow, hypothetical, like
from assentry.server.visitors import Person, Visitor

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
    seen_digest: Short,
    uses: Short = "10",
    hours: Short = "8",
    budget: Short = "",
    condition: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """What the permission would say, and which of the latest requests it would have covered. Nothing is changed."""
    found = await _found(visitor, code)
    try:
        terms = like(found, _terms(uses, hours, budget, condition))
        grant, now = await hypothetical(visitor, terms)
    except (InvalidDecision, PolicyError) as problem:
        return await again(request, visitor, found, "grant", str(problem), await request.form())
    action, card = found.candidate.action, brief(found, now)
    latest = await visitor.room.desk.inbox.page(Filter(agent=found.ask.agent), limit=_LOOKED_AT)
    same = [each for each in latest.requests if each.candidate.action.name == action.name]
    covered = [each for each in same if why_not(grant, each.candidate.action, each.candidate.assessment, now) is None]
    return await page(
        request, "similar", visitor,
        card=card, terms=terms, hours=terms.life // _HOUR, covered=covered[:20], count=len(covered),
        looked_at=len(same), misses=why_not(grant, action, found.candidate.assessment, now) or "",
        digest=seen_digest, query=kept_query(request.query_params), more=card.needs - len(card.votes) - 1,
    )  # fmt: skip


@router.post("/r/{code}/similar/give")
async def given(
    request: Request,
    visitor: Person,
    code: str,
    seen_digest: Short,
    uses: Short,
    hours: Short,
    budget: Short = "",
    condition: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """This one is approved, and then what is similar is allowed, if nobody else has to approve it."""
    found = await _found(visitor, code)
    try:
        terms = like(found, _terms(uses, hours, budget, condition))
        made = await allow(visitor, found, Said("approve", seen_digest=seen_digest), terms)
    except (InvalidDecision, PolicyError) as problem:
        return await again(request, visitor, found, "grant", str(problem), await request.form())
    request.app.state.meters.decisions.labels("approve").inc()
    told = "approve" if made.grant is not None else "counted"
    return RedirectResponse(f"/r/{made.request.code}{kept_query(request.query_params, told=told)}", 303)


async def _found(visitor: Visitor, code: str) -> Asked:
    """The request, for somebody who may allow something in advance."""
    found = await visitor.room.desk.inbox.find(code)
    reason = may_change(visitor.room.desk.judgement.policy, visitor.principal)
    if reason is not None:
        raise NotAllowed(f"only people who may change the policy can allow actions in advance: {reason}", principal="")
    if found.state is not State.PENDING:
        raise InvalidDecision("this request is already decided; create the permission with `assentry grants give`")
    return found


def _terms(uses: str, hours: str, budget: str, condition: str) -> Terms:
    """What the form says: so often, so long and for so much."""
    if not _is_number(uses) or not 0 < int(uses) <= _MOST_USES:
        raise InvalidDecision(f"Maximum uses must be a whole number from 1 to {_MOST_USES:,}")
    if not _is_number(hours) or not 0 < int(hours) <= _MOST_HOURS:
        raise InvalidDecision(f"Expires after (hours) must be a whole number from 1 to {_MOST_HOURS:,}")
    amount = None
    if budget.strip():
        try:
            amount = Decimal(budget.strip())
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or amount <= 0:
            raise InvalidDecision("Total spending limit must be a number, such as 250 or 99.50")
    return Terms((), int(hours) * _HOUR, condition=condition, limit=int(uses), budget=amount)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 9
