"""The policy: its rules in words, how often each fired, what it would say of an action, and standing permissions."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from assentry.core.authority import may_change
from assentry.core.canonical import canonical, restore
from assentry.core.explain import Explanation, explain
from assentry.core.grant import Grant
from assentry.core.policy import Rule
from assentry.core.policy_file import stored_warnings
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.situation import Situation
from assentry.core.text import exact_span, span
from assentry.engine.grants import take_back
from assentry.engine.judgement import Context
from assentry.engine.threads import in_thread
from assentry.engine.tool import tool
from assentry.errors import AssentryError, InvalidArguments, NotFound
from assentry.ports import Filter, StoredPolicy
from assentry.server.pages.frame import page, person_or_door
from assentry.server.visitors import Operator, Visitor
from assentry.telling.differing import line_changes
from assentry.telling.standing import grant_use, grant_what
from assentry.telling.waiting_policies import WaitingPolicy, waiting_policy

router = APIRouter()

_LOOKED_AT = 500
"""How many of the latest requests the counts are of."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in words."""

    rule: Rule
    says: str
    fired: int


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A standing permission in words."""

    grant: Grant
    says: str
    used: str
    left: str


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """A change of the policy that waits, and the lines that differ, each with how it is marked."""

    told: WaitingPolicy
    lines: tuple[tuple[str, str], ...]


_MARKS = {"+": "added", "-": "gone", "@": "head"}


@router.get("/policy")
async def policy(request: Request, action: str = "", args: str = "", agent: str = "") -> Response:
    """The active policy; with `action`, what it says of that."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    desk = visitor.room.desk
    active = await desk.store.policy(visitor.room.name)
    counted, looked_at = await _fired(visitor)
    loaded = desk.judgement.policy
    rows = [RuleRow(rule, rule_words(rule), counted.get(rule.name, 0)) for rule in loaded.rules]
    others = {name: count for name, count in counted.items() if name not in {rule.name for rule in loaded.rules}}
    complaint, found = "", None
    if action:
        try:
            found = await _explained(visitor, action[:200], args[:20_000], agent[:200])
        except AssentryError as problem:
            complaint = str(problem)
    now = await desk.store.now()
    proposals = [_proposal(visitor, each, active) for each in await _waiting(visitor)]
    grants = [_grant(each, now) for each in await desk.store.grants(visitor.room.name)]
    warned = await in_thread(stored_warnings, active.text, active.version) if active is not None else ()
    return await page(
        request, "policy", visitor,
        rows=rows, active=active, policy=loaded, looked_at=looked_at, others=others, found=found, complaint=complaint,
        asked={"action": action, "args": args, "agent": agent}, grants=grants, warnings=warned,
        versions=await desk.store.policies(visitor.room.name, limit=10), proposals=proposals,
    )  # fmt: skip


@router.post("/policy/proposals/{code}/confirm")
async def confirm(visitor: Operator, code: str, digest: Annotated[str, Form(max_length=200)]) -> Response:
    """What another person proposed is the active policy, if it is what this page showed."""
    desk = visitor.room.desk
    await desk.rules.confirm(visitor.principal, await desk.rules.proposal(code), digest)
    await desk.judgement.refresh()
    return RedirectResponse("/policy", 303)


@router.post("/policy/proposals/{code}/reject")
async def reject(visitor: Operator, code: str, reason: Annotated[str, Form(max_length=10_000)] = "") -> Response:
    """What was proposed cannot be confirmed any more."""
    rules = visitor.room.desk.rules
    await rules.reject(visitor.principal, await rules.proposal(code), reason)
    return RedirectResponse("/policy", 303)


@router.post("/grants/{grant_id}/revoke")
async def revoke(visitor: Operator, grant_id: str) -> Response:
    """The standing permission has ended."""
    store, workspace = visitor.room.desk.store, visitor.room.name
    found = [each for each in await store.grants(workspace, live_only=False) if each.id == grant_id]
    if not found:
        raise NotFound("there is no such grant; the page may be old")
    await take_back(store, workspace, visitor.principal, found[0])
    return RedirectResponse("/policy#grants", 303)


async def _waiting(visitor: Visitor) -> tuple[PolicyProposal, ...]:
    """The changes that wait, for those who may do something about them."""
    desk = visitor.room.desk
    return await desk.rules.proposals() if may_change(desk.judgement.policy, visitor.principal) is None else ()


def _proposal(visitor: Visitor, proposal: PolicyProposal, active: StoredPolicy | None) -> ProposalRow:
    told = waiting_policy(visitor.room.desk.judgement.policy, proposal, visitor.principal)
    lines = line_changes(active.text if active is not None else "", proposal.text)[2:]
    return ProposalRow(told, tuple((line, _MARKS.get(line[:1], "")) for line in lines))


def rule_words(rule: Rule) -> str:
    """A rule as a sentence."""
    actions = " or ".join(rule.actions) if rule.actions != ("*",) else "any action"
    agents = f" of {' or '.join(rule.agents)}" if rule.agents != ("*",) else ""
    when = f", when {rule.when}" if rule.when else ""
    who = f"; asks {', '.join(rule.reviewers)}" if rule.reviewers else ""
    many = f", {rule.quorum.count} of them" if rule.quorum.count > 1 else ""
    limit = rule.ladder.limit if rule.ladder is not None else None
    time = f"; {rule.ladder.at_end.value} after {exact_span(limit)}" if rule.ladder is not None and limit else ""
    return f"{actions}{agents}{when}: {rule.gate.words}{who}{many}{time}"


async def _fired(visitor: Visitor) -> tuple[Counter[str], int]:
    page = await visitor.room.desk.inbox.page(Filter(), limit=_LOOKED_AT)
    return Counter(each.ask.candidate.verdict.rule for each in page.requests), len(page.requests)


async def _explained(visitor: Visitor, action: str, args: str, agent: str) -> Explanation:
    try:
        given = json.loads(args or "{}")
    except (ValueError, RecursionError):
        raise InvalidArguments('arguments are JSON, such as {"count": 12}') from None
    if not isinstance(given, dict):
        raise InvalidArguments('arguments are a JSON object, such as {"count": 12}')
    judgement, now = visitor.room.desk.judgement, await visitor.room.desk.store.now()
    context = Context(agent=agent or "agent")
    made = tool(action)
    call, assessment, _ = judgement.judged(made, restore(canonical(given)), context, now)
    return explain(judgement.policy, call, assessment, Situation(agent=context.agent, grants=judgement.grants), now)


def _grant(grant: Grant, now: datetime) -> GrantRow:
    return GrantRow(grant, grant_what(grant), grant_use(grant), span(grant.expires_at - now))
