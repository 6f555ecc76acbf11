"""Standing permission: scoped, counted, budgeted, expiring and revocable.

A grant lifts a gate that would otherwise hold; it never lifts what is forbidden, and never more than the risk it
names. Whether it covers an action and what remains of it after a use are pure questions about values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from assentry.core.action import Action, Assessment, Json, Risk
from assentry.core.condition import Failed, compile_condition
from assentry.core.pattern import Pattern, pattern
from assentry.core.view import Looking
from assentry.errors import GrantSpent


@dataclass(frozen=True, slots=True)
class Terms:
    """What somebody wants to allow in advance: what, for whom, how long, how often and for how much.

    The words mean what they mean in a grant; `life` counts from the moment it is given.
    """

    actions: tuple[str, ...]
    life: timedelta
    agents: tuple[str, ...] = ("*",)
    condition: str = ""
    limit: int | None = None
    budget: Decimal | None = None
    currency: str = ""
    max_risk: Risk = Risk.DANGEROUS
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """What some person allowed in advance, and how much of it is used up."""

    id: str
    workspace: str
    actions: tuple[str, ...]
    expires_at: datetime
    granted_by: str
    agents: tuple[str, ...] = ("*",)
    condition: str = ""
    """Must hold for each use, over `args`, `facts`, `effect` and `action`; empty means always."""
    max_risk: Risk = Risk.DANGEROUS
    """The highest risk it may lift. Only `critical` also lifts a typed confirmation."""
    limit: int | None = None
    """How often it may be used; `None` means as often as wanted."""
    used: int = 0
    budget: Decimal | None = None
    """The sum of `facts.amount` it may be used for; `None` means that it covers nothing that spends money."""
    currency: str = ""
    """Of the budget; empty is the budget of amounts that name none."""
    spent: Decimal = Decimal(0)
    reason: str = ""
    revoked_at: datetime | None = None
    version: int = 1
    _actions: Pattern = field(init=False, repr=False, compare=False)
    _agents: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_actions", pattern(self.actions))
        object.__setattr__(self, "_agents", pattern(self.agents))
        if self.condition:
            compile_condition(self.condition)


def granted(terms: Terms, grant_id: str, workspace: str, by: str, now: datetime) -> Grant:
    """The grant on these terms, given now and not used yet."""
    return Grant(
        id=grant_id, workspace=workspace, actions=terms.actions, expires_at=now + terms.life, granted_by=by,
        agents=terms.agents, condition=terms.condition, max_risk=terms.max_risk, limit=terms.limit,
        budget=terms.budget, currency=terms.currency, reason=terms.reason,
    )  # fmt: skip


def covers(grant: Grant, action: Action, assessment: Assessment, now: datetime | None) -> bool:
    """Whether `grant` may be used for exactly this action, now. `why_not` says why it may not."""
    return why_not(grant, action, assessment, now) is None


def concerns(grant: Grant, action: Action) -> bool:
    """Whether `grant` is about this action of this agent, used up or not."""
    return bool(grant._actions.match(action.name) and grant._agents.match(action.agent))


def why_not(grant: Grant, action: Action, assessment: Assessment, now: datetime | None) -> str | None:
    """Why `grant` does not cover the action, in a sentence; `None` if it does.

    Without a clock nothing can be said about expiry, so without `now` no grant covers anything.
    """
    if not grant._actions.match(action.name):
        return "it is for other actions"
    if not grant._agents.match(action.agent):
        return "it is for other agents"
    if assessment.risk > grant.max_risk:
        return f"it covers actions up to {grant.max_risk}; this one is {assessment.risk}"
    if ended := _ended(grant, now):
        return ended
    view = Looking(action, assessment)
    if grant.budget is not None:
        facts = view["facts"]  # Leaves out an amount that might be wrong.
        amount = spending(assessment) if "amount" in facts else None
        if over := _over_budget(grant, amount, facts.get("currency")):
            return over
    elif spends(assessment):
        return "it spends money, and the grant has no budget"
    if grant.condition:
        held = compile_condition(grant.condition).holds(view)
        if isinstance(held, Failed):
            return f"its condition could not be evaluated: {held.says}"
        if not held:
            return "its condition does not hold"
    return None


def spends(assessment: Assessment) -> bool:
    """Whether a call costs money, as far as can be told; an amount that cannot be read is one."""
    facts = {fact.name: fact.value for fact in assessment.facts}
    unread = facts.get("unreadable")
    return (
        assessment.effect.money
        or not facts.keys().isdisjoint(("amount", "total"))
        or (isinstance(unread, Sequence) and "amount" in unread)
    )


def spending(assessment: Assessment) -> Decimal | None:
    """What a call costs a budget: the largest of everything that is said of its money; `None` if that is unclear.

    Below zero is as large as above: whoever counts it says what it means there.
    """
    told = [fact.value for fact in assessment.facts if fact.name in ("amount", "total")]
    amounts = [decimal(value) for value in told]
    return None if None in amounts else max((each for each in amounts if each is not None), key=abs, default=None)


def use(grant: Grant, amount: Json, now: datetime) -> Grant:
    """The grant after one use for `amount`; raises `GrantSpent` when it cannot be used (again) for that."""
    ended = _ended(grant, now) or _over_budget(grant, amount, grant.currency)
    if ended:
        raise GrantSpent(f"grant {grant.id} cannot be used: {ended}; ask for the action itself", grant_id=grant.id)
    spent = grant.spent if grant.budget is None else grant.spent + (decimal(amount) or 0)
    return replace(grant, used=grant.used + 1, spent=spent, version=grant.version + 1)


def revoke(grant: Grant, now: datetime) -> Grant:
    """The grant, ended now; an ended one stays as it is."""
    if grant.revoked_at is not None:
        return grant
    return replace(grant, revoked_at=now, version=grant.version + 1)


def decimal(amount: Json) -> Decimal | None:
    """The amount as an exact number, or `None` if it is not a finite one."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(amount))
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() else None


def _ended(grant: Grant, now: datetime | None) -> str | None:
    if grant.revoked_at is not None:
        return "it was revoked"
    if now is None:
        return "the time is not known, so its expiry cannot be checked"
    if now >= grant.expires_at:
        return "it has expired"
    if grant.limit is not None and grant.used >= grant.limit:
        return f"it has been used {grant.used} of {grant.limit} times"
    return None


def _over_budget(grant: Grant, amount: Json, currency: Json) -> str | None:
    if grant.budget is None:
        return None
    number = decimal(amount)
    if number is None:
        return "it has a budget and the amount is not known"
    if number < 0:
        return "a negative amount cannot be charged to its budget"
    if currency != grant.currency:
        named = f"in {grant.currency}" if grant.currency else "without a currency"
        return f"its budget is {named} and the amount is not"
    if grant.spent + number > grant.budget:
        return "what is left of its budget is not enough"
    return None
