"""Approving one request and allowing what is like it: the same checks and the same order for a page and for the API."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from assentry.core.action import Risk
from assentry.core.grant import Grant, Terms, granted, spending, spends, use
from assentry.core.likeness import EXAMPLES, INFERRED, Bound, Likeness, examples_of, joined, likeness_of
from assentry.core.request import Kind, Request, State
from assentry.core.text import shortened
from assentry.core.verdict import GateKind
from assentry.engine.grants import give
from assentry.engine.threads import in_thread
from assentry.errors import GrantSpent, InvalidDecision
from assentry.ports import Filter
from assentry.server.aside import Aside
from assentry.server.deciding import Said, decide
from assentry.server.visitors import Visitor

LOOKED_AT = 200
WAITS = (GateKind.SOFT, GateKind.HARD)


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


@dataclass(frozen=True, slots=True)
class Held:
    """One request of the past, and why a grant would not have covered it; empty where it would have."""

    request: Request
    why_not: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a permission would mean, before it is given."""

    grant: Grant
    likeness: Likeness
    kept: tuple[Bound, ...]
    held: tuple[Held, ...]
    """The latest requests of the same action and agent, newest first."""
    made: tuple[str, ...]
    """Calls that nobody asked for yet and that it would cover."""
    examples: tuple[str, ...]
    """The same, and where they are fewer than three, requests that waited and that it would have covered."""
    misses: str
    """Why it would not cover this request itself; empty where it would."""

    @property
    def dropped(self) -> tuple[Bound, ...]:
        """The limits that it does without."""
        return tuple(each for each in self.likeness.bounds if each not in self.kept)

    @property
    def covered(self) -> tuple[Request, ...]:
        """Those that it would have covered."""
        return tuple(each.request for each in self.held if not each.why_not)


def limits_of(request: Request, wide: Collection[str] = ()) -> Likeness:
    """What is like this request; `wide` names limits that are dropped. The error says what is not known of it."""
    found = likeness_of(request.candidate.action, request.candidate.assessment, wide)
    unknown = [name for name in wide if name not in {*(each.name for each in found.bounds), *INFERRED}]
    if unknown:
        names = ", ".join(each.name for each in found.bounds)
        raise InvalidDecision(f"there is no limit {shortened(unknown[0], 100)!r} to drop; there are {names}")
    return found


def like(request: Request, terms: Terms, wide: Collection[str] = ()) -> Terms:
    """These terms for the same action of the same agent, up to the same risk; the error says why that may not be.

    Their condition is joined by the limits of what is like the request, but for those that `wide` names. A budget is in
    the currency of the request unless the terms name one.
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
        max_risk=candidate.assessment.risk, condition=joined(terms.condition, _kept(limits_of(request, wide), wide)),
    )  # fmt: skip


def _kept(likeness: Likeness, wide: Collection[str]) -> tuple[Bound, ...]:
    return tuple(each for each in likeness.bounds if each.name not in wide)


async def held_against(aside: Aside, grant: Grant, requests: Sequence[Request], now: datetime) -> tuple[Held, ...]:
    """Which of these it would have covered, newest first as they are; uses and budget count from the oldest on.

    Its condition is tried in a process of its own, with limits: somebody just wrote it.
    """
    held = list[Held]()
    for request, why in zip(reversed(requests), reversed(await aside.reasons(grant, requests, now)), strict=True):
        reason = why
        if not reason:
            try:
                grant = use(grant, spending(request.candidate.assessment), now)
            except GrantSpent:
                reason = "it would have been used up"
        held.append(Held(request, reason))
    return tuple(reversed(held))


async def preview_of(
    aside: Aside, visitor: Visitor, request: Request, terms: Terms, wide: Collection[str] = ()
) -> Preview:
    """What these terms would mean for requests like this one. Nothing is changed."""
    grant, now = await hypothetical(visitor, like(request, terms, wide))
    action, assessment = request.candidate.action, request.candidate.assessment
    wanted = Filter(agent=request.ask.agent, action=action.name)
    latest = await visitor.room.desk.inbox.page(wanted, limit=LOOKED_AT)
    held = await held_against(aside, grant, [each for each in latest.requests if each.ask.kind is Kind.ACTION], now)
    likeness = limits_of(request, wide)
    domains = visitor.room.desk.judgement.policy.domains
    made = await in_thread(partial(examples_of, grant, action, assessment, now, domains))
    (misses,) = await aside.reasons(grant, [request], now)
    waited = [
        each.request.candidate.says
        for each in held
        if not each.why_not and each.request.id != request.id and each.request.candidate.verdict.gate in WAITS
    ]
    return Preview(
        grant=grant, likeness=likeness, kept=_kept(likeness, wide), held=held,
        made=tuple(each.says for each in made),
        examples=(*(each.says for each in made), *dict.fromkeys(waited))[:EXAMPLES],
        misses=misses,
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
