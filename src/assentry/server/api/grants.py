"""For people: standing permissions. Anybody sees them; operators give, preview and revoke them."""

from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from assentry.core.action import Risk
from assentry.core.grant import Grant, Terms, spending, use, why_not
from assentry.core.policy_text import duration
from assentry.core.request import Kind
from assentry.core.request import Request as Asked
from assentry.engine.grants import give, take_back
from assentry.errors import GrantSpent, NotFound
from assentry.ports import Filter
from assentry.server.api.afterwards import done
from assentry.server.api.answers import AllowedSimilar, GrantGiven, GrantList, GrantPreview, told
from assentry.server.api.asking import Body, RequestId, Words
from assentry.server.deciding import Said
from assentry.server.similar import allow, hypothetical, like
from assentry.server.visitors import Operator, Person, Visitor
from assentry.telling.plain import plain_json
from assentry.telling.standing import grant_document

router = APIRouter(prefix="/api/v1", tags=["grants"])

_PAGE = 200
Name = Annotated[str, Field(min_length=1, max_length=200)]
Life = Annotated[str, Field(min_length=2, max_length=20, description="How long: 90s, 15m, 8h, 2d.", examples=["8h"])]
Times = Annotated[int | None, Field(ge=1, le=1_000_000, description="How often.")]
Budget = Annotated[
    Decimal | None,
    Field(
        ge=0,
        max_digits=18,
        decimal_places=6,
        description="How much it may spend in all. Without it nothing that spends money is covered.",
    ),
]
Currency = Annotated[str, Field(
    max_length=3, pattern="^([A-Za-z]{3})?$", examples=["EUR"],
    description="Of the budget. Without it the budget is of amounts that name none.",
)]  # fmt: skip
Condition = Annotated[
    str, Field(max_length=2_000, description="Must hold for each use.", examples=["facts.count < 50"])
]


class Bounds(Body):
    """How often, how much and for how long."""

    life: Life
    limit: Times = None
    budget: Budget = None
    currency: Currency = ""
    condition: Condition = ""
    reason: Words = ""

    def terms_for(self, actions: tuple[str, ...], agents: tuple[str, ...], max_risk: Risk) -> Terms:
        """As a grant for these has them."""
        return Terms(
            actions, duration(self.life, "life"), agents=agents, condition=self.condition, limit=self.limit,
            budget=self.budget, currency=self.currency.upper(), max_risk=max_risk, reason=self.reason,
        )  # fmt: skip


class Given(Bounds):
    """What is allowed in advance."""

    actions: Annotated[list[Name], Field(min_length=1, max_length=50, description="Names or patterns.")]
    agents: Annotated[list[Name], Field(min_length=1, max_length=50)] = Field(default_factory=lambda: ["*"])
    max_risk: Annotated[Risk, Field(description="The highest risk it lifts.")] = Risk.DANGEROUS

    @property
    def terms(self) -> Terms:
        """As a grant has them."""
        return self.terms_for(tuple(self.actions), tuple(self.agents), self.max_risk)


class Similar(Bounds):
    """Approve this one, and allow what is like it: the same action of the same agent, up to the same risk."""

    seen_digest: Annotated[str, Field(min_length=1, max_length=200, description="The digest of the card shown.")]
    limit: Annotated[int, Field(ge=1, le=10_000, description="How often.")]
    note: Words = ""


@router.get("/grants", summary="Standing permissions", **told(GrantList, "Newest first."))
async def grants(
    visitor: Person, ended: Annotated[bool, Query(description="Also those that have ended.")] = False
) -> dict[str, Any]:
    """What may pass without asking, for whom, how often and until when; and how much of it is used up."""
    found = await visitor.room.desk.store.grants(visitor.room.name, live_only=not ended)
    return {"grants": [_document(grant) for grant in found]}


@router.post("/grants/preview", summary="What would it have covered?", **told(GrantPreview, "Nothing was changed."))
async def preview(
    visitor: Person,
    given: Given,
    last: Annotated[int, Query(ge=1, le=500, description="How many of the newest requests to look at.")] = 100,
) -> dict[str, Any]:
    """Held against the newest requests: which of them it would have let pass, and why not the others. Changes nothing.

    Uses and budget are counted as they would have been, from the oldest of them on.
    """
    grant, now = await hypothetical(visitor, given.terms)
    looked = await _newest(visitor, given, last)
    lines = []
    for request in reversed(looked):
        candidate = request.candidate
        reason = why_not(grant, candidate.action, candidate.assessment, now)
        if reason is None:
            try:
                grant = use(grant, spending(candidate.assessment), now)
            except GrantSpent:
                reason = "it would have been used up"
        lines.append(_line(request, reason or ""))
    lines.reverse()
    return {"looked_at": len(lines), "covered": sum(line["covered"] for line in lines), "requests": lines}


@router.post("/grants", summary="Allow something in advance", **told(GrantGiven, "It stands.", 201), status_code=201)
async def give_one(visitor: Operator, given: Given) -> dict[str, Any]:
    """Scoped, counted, budgeted, expiring. What policy forbids stays forbidden. For operators."""
    await hypothetical(visitor, given.terms)
    made = await give(visitor.room.desk.store, visitor.room.name, visitor.principal, given.terms)
    return {"grant": _document(made)}


@router.post("/grants/{grant_id}/revoke", summary="End it now", **told(GrantGiven, "It has ended."))
async def revoke(
    visitor: Operator, grant_id: Annotated[str, Path(min_length=6, max_length=200, description="Or its start.")]
) -> dict[str, Any]:
    """The grant covers nothing any more. One that has ended stays as it is. For operators."""
    store, workspace = visitor.room.desk.store, visitor.room.name
    known = await store.grants(workspace, live_only=False)
    found = [grant for grant in known if grant.id.startswith(grant_id.lower())]
    if len(found) != 1:
        raise NotFound(f"{len(found) or 'no'} grants begin with {grant_id!r}; GET /api/v1/grants?ended=true lists them")
    grant = found[0]
    if grant.revoked_at is None:
        grant = await take_back(store, workspace, visitor.principal, grant)
    return {"grant": _document(grant)}


@router.post(
    "/requests/{request_id}/allow-similar",
    summary="Approve, and allow what is like it",
    **told(AllowedSimilar, "Approved, and the grant stands; or your approval counts and there is no grant yet."),
)
async def allow_similar(visitor: Operator, request_id: RequestId, similar: Similar, http: Request) -> dict[str, Any]:
    """Approves this request and gives a grant for the same action of the same agent, up to the same risk.

    Where more people have to approve it, your approval counts and no grant is given: `grant` is null and `says` tells
    so. What spends money needs a `budget`; it is in the currency of the request unless you name one. Never for what is
    critical. Where the approval does not stand there is no grant either. For operators.
    """
    request = await visitor.room.desk.inbox.find(request_id)
    candidate = request.candidate
    terms = like(request, similar.terms_for((candidate.action.name,), (request.ask.agent,), candidate.assessment.risk))
    made = await allow(visitor, request, Said("approve", seen_digest=similar.seen_digest, note=similar.note), terms)
    http.app.state.meters.decisions.labels("approve").inc()
    grant = _document(made.grant) if made.grant is not None else None
    return {**await done(visitor, made.request, "approve"), "grant": grant, "says": made.says}


async def _newest(visitor: Visitor, given: Given, last: int) -> list[Asked]:
    """The newest requests, of one agent and action where the grant names just one of each."""
    wanted = Filter()
    if len(given.agents) == 1 and given.agents[0].replace("_", "").replace("-", "").isalnum():
        wanted = replace(wanted, agent=given.agents[0])
    if len(given.actions) == 1 and given.actions[0].replace("_", "").replace("-", "").isalnum():
        wanted = replace(wanted, action=given.actions[0])
    found: list[Asked] = []
    after = ""
    while len(found) < last:
        page = await visitor.room.desk.inbox.page(wanted, after=after, limit=min(_PAGE, last - len(found)))
        found += page.requests
        after = page.next
        if not after:
            break
    return [request for request in found if request.ask.kind is Kind.ACTION]


def _line(request: Asked, reason: str) -> dict[str, Any]:
    made: dict[str, Any] = plain_json({
        "id": request.id, "code": request.code, "says": request.candidate.says, "agent": request.ask.agent,
        "action": request.candidate.action.name, "risk": request.candidate.assessment.risk, "state": request.state,
        "asked_at": request.ask.created_at, "covered": not reason, "why_not": reason,
    })  # fmt: skip
    return made


def _document(grant: Grant) -> dict[str, Any]:
    made: dict[str, Any] = plain_json(grant_document(grant))
    return made
