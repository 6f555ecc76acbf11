"""Why a policy says what it says of an action: every rule, whether it matched, and what came of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from assentry.core.action import Action, Assessment
from assentry.core.condition import Failed
from assentry.core.grant import why_not
from assentry.core.judge import judge
from assentry.core.pattern import pattern
from assentry.core.policy import CompiledRule, Policy
from assentry.core.situation import EMPTY, Situation
from assentry.core.text import exact_span
from assentry.core.verdict import AtEnd, Trigger, Verdict
from assentry.core.view import Looking


class Match(Enum):
    """How a rule met the action."""

    CHOSE = "chose"
    WOULD_MATCH = "would match, but a rule before it chose"
    OTHER_ACTION = "other action"
    OTHER_AGENT = "other agent"
    CONDITION_FALSE = "condition false"
    ERROR = "could not be evaluated"


@dataclass(frozen=True, slots=True)
class Considered:
    """One rule and how it met the action, in words."""

    rule: str
    match: Match
    says: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class ConsideredGrant:
    """One grant, and why it does not cover the action; empty if it does."""

    grant: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict and everything that led to it."""

    verdict: Verdict
    assessment: Assessment
    rules: tuple[Considered, ...]
    grants: tuple[ConsideredGrant, ...] = ()

    @property
    def chose(self) -> str:
        """The rule that chose, or `""` where the default did."""
        return next((each.rule for each in self.rules if each.match is Match.CHOSE), "")

    @property
    def next_rule(self) -> str:
        """The rule that would have chosen had the one that did not been there; `""` where the default would."""
        return next((each.rule for each in self.rules if each.match is Match.WOULD_MATCH), "")

    @property
    def lines(self) -> tuple[str, ...]:
        """The explanation for people, a sentence a line."""
        verdict, effect = self.verdict, self.assessment.effect
        gate = f"{verdict.observed} (observed only)" if verdict.observed else str(verdict.gate)
        undo = "can be undone" if effect.reversible else "cannot be undone"
        leaves = ", leaves our systems" if effect.outside else ""
        costs = ", costs money" if effect.money else ""
        return (
            f"gate: {gate}, because {verdict.because}",
            f"chosen by: {verdict.rule}",
            f"effect: {self.assessment.risk}: {undo}, reaches {effect.reach}{leaves}{costs}",
            *(f"  {reason}" for reason in self.assessment.reasons),
            *(f"trigger {each.name}: {each.says} (at least {each.gate})" for each in verdict.triggers),
            *(f"rule {each.rule}: {each.match.value}; {each.says}" for each in self.rules),
            *(f"grant {each.grant}: {each.why_not or 'covers it'}" for each in self.grants),
            f"reviewers: {', '.join(verdict.reviewers) or 'anyone who may review'}",
            f"approvals: {verdict.quorum.count}{_roles(verdict)}",
            f"time: {_time(verdict)}",
        )


def explain(
    policy: Policy,
    action: Action,
    assessment: Assessment,
    situation: Situation = EMPTY,
    now: datetime | None = None,
    fired: tuple[Trigger, ...] = (),
) -> Explanation:
    """The verdict that `judge` gives, with every rule and grant that was considered and why it did or did not count."""
    view = Looking(action, assessment, situation.as_variable)
    considered: list[Considered] = []
    for each in policy.compiled:
        chosen = any(one.match is Match.CHOSE for one in considered)
        match, says = _met(each, action, view)
        if match is Match.CHOSE and chosen:
            match = Match.WOULD_MATCH
        considered.append(Considered(each.rule.name, match, says, each.rule.line))
    grants = tuple(
        ConsideredGrant(grant.id, why_not(grant, action, assessment, now) or "") for grant in situation.grants
    )
    verdict = judge(policy, action, assessment, situation, now, fired)
    return Explanation(verdict, assessment, tuple(considered), grants)


def _met(each: CompiledRule, action: Action, view: Looking) -> tuple[Match, str]:
    if not each.actions.match(action.name):
        return Match.OTHER_ACTION, f"{action.name} is none of {', '.join(each.rule.actions)}"
    if not each.agents.match(action.agent):
        return Match.OTHER_AGENT, f"{action.agent} is none of {', '.join(each.rule.agents)}"
    fits = next(glob for glob in each.rule.actions if pattern((glob,)).match(action.name))
    if each.condition is None:
        return Match.CHOSE, f"{fits} matches"
    held = each.condition.holds(view)
    if isinstance(held, Failed):
        return Match.ERROR, held.says
    if held:
        return Match.CHOSE, f"{fits} matches, and {each.rule.when} holds"
    return Match.CONDITION_FALSE, f"{each.rule.when} does not hold"


def _roles(verdict: Verdict) -> str:
    return f", among them {', '.join(verdict.quorum.roles)}" if verdict.quorum.roles else ""


_ENDS = {AtEnd.DENY: "denied", AtEnd.STAY: "parked for good", AtEnd.PROCEED: "goes on"}


def _time(verdict: Verdict) -> str:
    if not (verdict.observed or verdict.gate).holds:
        return "nothing waits"
    ladder = verdict.ladder
    rungs = [
        f"after {exact_span(rung.after)}"
        f"{' remind' if rung.remind else ''}"
        f"{' tell ' + ', '.join(rung.tell) if rung.tell else ''}"
        f"{' tell in turn ' + ', '.join(rung.rota) if rung.rota else ''}"
        for rung in ladder.rungs
    ]
    end = "never ends" if ladder.limit is None else f"{_ENDS[ladder.at_end]} after {exact_span(ladder.limit)}"
    return "; ".join([*rungs, end])
