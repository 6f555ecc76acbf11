"""Why a policy says what it says of an action: every rule, whether it matched, and what came of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from assentry.core.action import Action, Assessment
from assentry.core.condition import Failed
from assentry.core.deciders import Deciders, deciders
from assentry.core.declared import who_said
from assentry.core.effect_text import Answer, answers, grounds
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
    action: Action
    assessment: Assessment
    rules: tuple[Considered, ...]
    deciders: Deciders
    """Who could approve it, by name."""
    grants: tuple[ConsideredGrant, ...] = ()

    @property
    def effect(self) -> tuple[Answer, ...]:
        """The four answers in words; guesses are marked."""
        return answers(self.action, self.assessment)

    @property
    def chose(self) -> str:
        """The rule that chose, or `""` where the default did."""
        return next((each.rule for each in self.rules if each.match is Match.CHOSE), "")

    @property
    def next_rule(self) -> str:
        """The rule that would have chosen had the one that did not been there; `""` where the default would."""
        return next((each.rule for each in self.rules if each.match is Match.WOULD_MATCH), "")

    @property
    def declared(self) -> tuple[str, ...]:
        """Who declared what of the action, and whose word does not count."""
        return who_said(self.assessment.words)

    @property
    def waits(self) -> bool:
        """Somebody is asked before it runs, or would be if the policy were enforced."""
        return (self.verdict.observed or self.verdict.gate).holds

    @property
    def asks(self) -> str:
        return ", ".join(self.verdict.reviewers) or "anyone who may review"

    @property
    def approvals(self) -> str:
        """Who could approve it, by name."""
        return f"{self.deciders.problem or self.deciders.says}{'' if self.deciders.enough else _NOBODY}"

    @property
    def time(self) -> str:
        """What happens as time passes."""
        return _time(self.verdict)

    @property
    def lines(self) -> tuple[str, ...]:
        """The explanation for people, a sentence a line."""
        verdict = self.verdict
        gate = f"{verdict.observed} (observed only)" if verdict.observed else str(verdict.gate)
        effect = ", ".join(each.words for each in self.effect)
        return (
            f"gate: {gate}, because {verdict.because}",
            f"chosen by: {verdict.rule}",
            f"effect: {self.assessment.risk}: {effect}",
            *(f"  {each}" for each in self.declared),
            f"  {grounds(self.action, self.assessment)}",
            *(f"trigger {each.name}: {each.says} (at least {each.gate})" for each in verdict.triggers),
            *(f"rule {each.rule}: {each.match.value}; {each.says}" for each in self.rules),
            *(f"grant {each.grant}: {each.why_not or 'covers it'}" for each in self.grants),
            *((f"reviewers: {self.asks}", f"approvals: {self.approvals}") if self.waits else ()),
            f"time: {self.time}",
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
    people = deciders(policy, verdict.reviewers, verdict.quorum, verdict.ladder, action.agent, now=now)
    return Explanation(verdict, action, assessment, tuple(considered), people, grants)


def _met(each: CompiledRule, action: Action, view: Looking) -> tuple[Match, str]:
    if not each.actions.match(action.name):
        return Match.OTHER_ACTION, f"{action.name} does not match {', '.join(each.rule.actions)}"
    if not each.agents.match(action.agent):
        return Match.OTHER_AGENT, f"{action.agent} does not match {', '.join(each.rule.agents)}"
    fits = next(glob for glob in each.rule.actions if pattern((glob,)).match(action.name))
    if each.condition is None:
        return Match.CHOSE, f"{fits} matches"
    held = each.condition.holds(view)
    if isinstance(held, Failed):
        return Match.ERROR, held.says
    if held:
        return Match.CHOSE, f"{fits} matches, and {each.rule.when} holds"
    return Match.CONDITION_FALSE, f"{each.rule.when} does not hold"


_NOBODY = "; as things are it cannot be approved"
_ENDS = {AtEnd.DENY: "denied", AtEnd.STAY: "parked for good", AtEnd.PROCEED: "goes on"}


def _time(verdict: Verdict) -> str:
    if not (verdict.observed or verdict.gate).holds:
        return "nothing waits"
    ladder = verdict.ladder
    rungs = [
        f"after {exact_span(rung.after)}"
        f"{' a reminder is due' if rung.remind else ''}"
        f"{' and' if rung.remind and (rung.tell or rung.rota) else ''}"
        f"{' ' + ', '.join(rung.tell) + ' may also decide' if rung.tell else ''}"
        f"{' and' if rung.tell and rung.rota else ''}"
        f"{' the next of ' + ', '.join(rung.rota) + ' may also decide' if rung.rota else ''}"
        for rung in ladder.rungs
    ]
    end = "never ends" if ladder.limit is None else f"{_ENDS[ladder.at_end]} after {exact_span(ladder.limit)}"
    return "; ".join([*rungs, end])
