"""What a policy says of an action: the first matching rule chooses, every trigger may only make it stricter.

In this order: the first matching rule gives a gate, or the default of the risk level does; the floor and the
ban on proceeding in silence raise it; a grant may lift it; the triggers that fired raise it again, whatever was
lifted; observe mode lets it pass and notes down what would have been.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, combinations

from assentry.core.action import Action, Assessment, Basis, Json, Risk
from assentry.core.authority import may_give
from assentry.core.condition import Condition, Failed, View, compile_condition
from assentry.core.condition_values import Purse
from assentry.core.grant import Grant, concerns, why_not
from assentry.core.policy import ONE_PERSON, CompiledRule, Limits, Mode, Policy, Rule
from assentry.core.scope import authorises, exceeded
from assentry.core.situation import EMPTY, Situation, Standing
from assentry.core.text import LOOKALIKE, counted, hides_letters, span
from assentry.core.verdict import GateKind, Ladder, Quorum, Trigger, Verdict, joined
from assentry.core.view import Looking
from assentry.core.vouching import UNKNOWN_TOOL, why_unknown

_STRENGTH = tuple(
    (GateKind.RUN, GateKind.WATCH, GateKind.SOFT, GateKind.ASK, GateKind.HARD, GateKind.MANUAL, GateKind.FORBID).index(
        gate
    )
    for gate in GateKind
)
"""By rank. Asking is weaker than waiting for a decision: a question may end in its best guess."""

_ON_SILENCE = (GateKind.SOFT, GateKind.ASK)

_MOST_GRANTS = 3
PLACES = frozenset({"protected", "private"})
"""Facts that hold a call whatever it does there."""

Failure = tuple[Rule, str]


def judge(
    policy: Policy,
    action: Action,
    assessment: Assessment,
    situation: Situation = EMPTY,
    now: datetime | None = None,
    fired: tuple[Trigger, ...] = (),
    unclaimed: Callable[[], Assessment] | None = None,
) -> Verdict:
    """The verdict on `action`. `fired` are triggers found elsewhere (scope, budget, checkpoint); they only tighten.

    Without `now` no grant lifts anything, because expiry cannot be checked. What an agent that nobody vouches for says
    lowers nothing: the strictest verdict holds, with and without each of its claims that a condition looks at.
    `unclaimed` gives what its call would do if it had said nothing of that.
    """
    purse = Purse()
    verdict = _judged(policy, action, assessment, situation, now, fired, purse)
    if (action.trusted and not policy.agents) or _vouched_for(policy, action):
        return verdict
    conditions = [each.condition for each in policy.compiled_for(action.name, action.agent) if each.condition]
    conditions += [compile_condition(grant.condition) for grant in situation.grants if grant.condition]
    bare = unclaimed() if unclaimed is not None and _effect_may_lower(policy, conditions) else None
    claims = _claims(conditions, action, assessment, situation, bare)
    if not claims:
        return verdict
    held, lifted = verdict, verdict.grant
    for dropped in _some_of(claims):
        said, where = action, situation
        for claim in dropped:
            said, where = _without(claim, said, where)
        known = bare if bare is not None and "effect" in dropped else assessment
        other = _judged(policy, said, known, where, now, fired, purse)
        held, lifted = merged(other, held), lifted or other.grant
    if not held.gate.holds:
        return replace(held, grant=lifted)  # what only claims would let run without it is charged to it
    if is_stricter(held.gate, verdict.gate):
        says = f"nobody vouches for what the agent says of its {' and '.join(claims)}, so it lowers nothing"
        held = replace(held, triggers=(Trigger("claims", says, held.gate), *held.triggers))
    return held


def _some_of(claims: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Every choice of at least one of them: a condition may look at several."""
    return chain.from_iterable(combinations(claims, number) for number in range(1, len(claims) + 1))


def _without(claim: str, action: Action, situation: Situation) -> tuple[Action, Situation]:
    """The call as it would be had its agent not said that."""
    match claim:
        case "confidence":
            return replace(action, confidence=None), situation
        case "cost":
            return replace(action, cost=None), situation
        case "description":
            return replace(action, description=""), situation
        case "goal":
            return action, replace(situation, goal="")
        case _:
            return action, situation


def _claims(
    conditions: Sequence[Condition],
    action: Action,
    assessment: Assessment,
    situation: Situation,
    bare: Assessment | None,
) -> tuple[str, ...]:
    """What the agent says that some condition looks at: each may be the reason for a milder answer.

    `bare` is what its call would do if it had said nothing of that, where that may matter.
    """
    said = [name for name in ("confidence", "cost") if getattr(action, name) is not None]
    said += ["description"] if action.description else []
    found = [name for name in said if _looks_at(conditions, "action", name)]
    if situation.goal and _looks_at(conditions, "run", "goal"):
        found.append("goal")
    if bare is not None and (bare.effect, bare.risk, bare.facts) != (
        assessment.effect, assessment.risk, assessment.facts,
    ):  # fmt: skip
        found.append("effect")
    return tuple(found)


def _looks_at(conditions: Iterable[Condition], variable: str, name: str) -> bool:
    """Some condition may look at this field."""
    return any((keys := each.keys(variable)) is None or name in keys for each in conditions)


def _effect_may_lower(policy: Policy, conditions: Iterable[Condition]) -> bool:
    """A worse effect may make a milder answer: some condition looks at it, or what is riskier is held less."""
    if any(each.keys(name) != () for each in conditions for name in ("effect", "facts")):
        return True
    for gates in (policy.defaults, policy.floor):
        by_risk = [_STRENGTH[gates.of(risk).rank] for risk in Risk]
        if by_risk != sorted(by_risk):
            return True
    return False


def _judged(
    policy: Policy,
    action: Action,
    assessment: Assessment,
    situation: Situation,
    now: datetime | None,
    fired: tuple[Trigger, ...],
    purse: Purse,
) -> Verdict:
    """The verdict on the action as it stands, whoever said what of it."""
    chosen: CompiledRule | None = None
    failures: tuple[Failure, ...] = ()
    if candidates := policy.compiled_for(action.name, action.agent):
        chosen, failures = first_match(candidates, Looking(action, assessment, situation.as_variable), purse)
        if failures:
            fired += tuple(_could_not_evaluate(failure) for failure in failures)
    fired += tuple(builtin_triggers(policy, action, assessment, situation))
    if not action.trusted and (says := why_unknown(policy, action, situation.vouched)):
        fired = (*(each for each in fired if each.name != "unknown"), Trigger(UNKNOWN_TOOL, says, GateKind.HARD))
    plain = chosen.verdict if chosen is not None else _default(policy, action, assessment, situation)
    base, notes = _base(policy, plain.gate, assessment)
    if is_stricter(GateKind.HARD, base) and (says := _never_unasked(chosen, assessment)):
        base, notes = GateKind.HARD, (*notes, Trigger("place", says, GateKind.HARD))
    grant = None
    if chosen is None and assessment.risk is Risk.CRITICAL:
        notes += (Trigger("critical", "critical actions wait for a person", base),)
    if situation.grants and may_be_lifted(base):
        grant = _covering(policy, situation.grants, base, action, assessment, now, purse)
        if grant is not None:
            base, notes = GateKind.WATCH, ()
        else:
            notes += tuple(_beyond(policy, situation.grants, base, action, assessment, now, purse))
    if fired or notes or grant is not None:
        rule = chosen.rule if chosen is not None else None
        plain = _combined(policy, rule, plain, base, notes + fired, grant, failures)
    return _seen(policy, plain)


def strictest(gates: Iterable[GateKind]) -> GateKind:
    """The strictest of `gates`; of none, run. `ask` is weaker than `hard`, stronger than `soft`."""
    return max(gates, key=lambda gate: _STRENGTH[gate.rank], default=GateKind.RUN)


def is_stricter(one: GateKind, other: GateKind) -> bool:
    return _STRENGTH[one.rank] > _STRENGTH[other.rank]


def first_match(
    candidates: Sequence[CompiledRule], view: View, purse: Purse
) -> tuple[CompiledRule | None, tuple[Failure, ...]]:
    """The first rule whose condition holds, and those before it that could not be evaluated, with the reason."""
    failures: tuple[Failure, ...] = ()
    for each in candidates:
        if each.condition is None:
            return each, failures
        held = each.condition.holds(view, purse)
        if held is True:
            return each, failures
        if isinstance(held, Failed):
            failures += ((each.rule, held.says),)
    return None, failures


def builtin_triggers(
    policy: Policy, action: Action, assessment: Assessment, situation: Situation = EMPTY
) -> list[Trigger]:
    """The triggers that every policy has. No rule and no grant loosens what they demand."""
    fired: list[Trigger] = []
    limits, effect = policy.limits, assessment.effect
    if assessment.basis is Basis.UNKNOWN and not _vouched_for(policy, action):
        says = "nothing is known of this action, and nobody vouches for where it comes from"
        fired.append(Trigger("unknown", says, GateKind.HARD))
    if hides_letters(action.name):
        fired.append(Trigger("unknown", LOOKALIKE, GateKind.HARD))
    if not effect.reversible and not assessment.only_reads and (says := _at_scale(assessment, limits.scale)):
        fired.append(Trigger("scale", says, GateKind.HARD))
    sure = policy.confidence_for(action.name) if action.confidence is not None else 0.0
    if action.confidence is not None and not assessment.only_reads and not _number(action.confidence) >= sure:
        says = f"the agent is {_number(action.confidence):.0%} sure; below {sure:.0%} a person decides"
        fired.append(Trigger("confidence", says, GateKind.HARD))
    if limits.cost is not None and action.cost is not None and not _number(action.cost) <= limits.cost:
        says = f"it costs {_number(action.cost):g}, more than the {limits.cost:g} allowed per call"
        fired.append(Trigger("cost", says, GateKind.HARD))
    return fired + run_triggers(limits, action, assessment, situation) if situation.run else fired


def run_triggers(limits: Limits, action: Action, assessment: Assessment, situation: Standing) -> list[Trigger]:
    """The reasons to stop that only a run has."""
    fired = [
        Trigger("scope", says, GateKind.HARD) for says in exceeded(situation.scope, situation.used, action, assessment)
    ]
    cost = 0.0 if action.cost is None else _number(action.cost)
    for name, spent, most in (
        ("budget", situation.spend, limits.budget),
        ("daily budget", situation.spent_today, limits.daily),
    ):
        if most is not None and not spent + cost <= most:
            whose = "the run" if name == "budget" else f"{situation.agent} today"
            says = f"{whose} has spent {spent:g}, this costs {cost:g}, and {most:g} are allowed"
            fired.append(Trigger(name, says, GateKind.HARD))
    if limits.steps is not None and situation.unchecked_steps >= limits.steps:
        made = counted(situation.unchecked_steps, "step")
        says = f"{made} since somebody looked in; every {limits.steps} a person does"
        fired.append(Trigger("check-in", says, GateKind.HARD))
    if limits.every is not None and situation.unchecked >= limits.every:
        says = f"{span(situation.unchecked)} since somebody looked in; every {span(limits.every)} a person does"
        fired.append(Trigger("check-in", says, GateKind.HARD))
    return fired


def may_be_lifted(gate: GateKind) -> bool:
    """A grant stands for a person's decision, so it lifts what waits for one; never what is forbidden."""
    return gate.holds and gate is not GateKind.ASK


def why_not_granted(
    policy: Policy,
    grant: Grant,
    action: Action,
    assessment: Assessment,
    now: datetime | None,
    purse: Purse | None = None,
) -> str | None:
    """Why `grant` does not cover the action by this policy, in a sentence; `None` if it does."""
    return why_not(grant, action, assessment, now, purse) or why_void(policy, grant)


def why_void(policy: Policy, grant: Grant) -> str | None:
    """Why `grant` covers nothing by this policy: who gave it could not give it today. `None` if they could."""
    reason = may_give(policy, grant.granted_by, grant.max_risk)
    return reason and f"{grant.granted_by} could not give it today: {reason}"


def _default(policy: Policy, action: Action, assessment: Assessment, situation: Situation) -> Verdict:
    if runs_by_default(assessment):
        return policy.read_verdict
    plain = policy.default_for(assessment.risk)
    if plain.gate.holds and authorises(situation.scope, situation.used, action, assessment):
        says = "the run was given leave for it, and it keeps within what was given"
        return replace(plain, gate=GateKind.WATCH, rule="scope", because=says)
    return plain


def _base(policy: Policy, gate: GateKind, assessment: Assessment) -> tuple[GateKind, tuple[Trigger, ...]]:
    """The gate before grants and triggers, and why it is stricter than what was written, if it is."""
    notes: tuple[Trigger, ...] = ()
    if gate is GateKind.RUN and not assessment.vouched:
        gate = GateKind.WATCH
        notes = (Trigger("source", "nobody vouches for where it comes from, so that it ran is on record", gate),)
    floor = policy.floor.of(assessment.risk)
    if is_stricter(floor, gate):
        says = f"{assessment.risk} actions never pass below {floor}, whatever a rule says"
        notes += (Trigger("floor", says, floor),)
        gate = floor
    if gate in _ON_SILENCE and (reason := _no_silence(assessment)):
        notes += (Trigger("silence", f"{reason}, so silence does not let it pass", GateKind.HARD),)
        gate = GateKind.HARD
    return gate, notes


def _never_unasked(chosen: CompiledRule | None, assessment: Assessment) -> str:
    """Why it waits whatever lets it run: a place where it is set what programs do, or an address that is private.

    Only a rule whose condition reads the fact has weighed it; others were written for what the action does elsewhere.
    """
    for fact in assessment.facts:
        name = fact.name
        if name in PLACES and not fact.looked_up and (name == "private" or not assessment.effect.is_read):
            if chosen is None or not _reads(chosen, name):
                return f"it reaches {fact.says}; only a rule whose condition reads facts.{name} lets it run"
        elif name == "unreadable" and isinstance(fact.value, list):
            for unread in PLACES.intersection(fact.value):
                if (unread == "private" or not assessment.effect.is_read) and not (chosen and _reads(chosen, unread)):
                    return f"whether it reaches a place that waits for a person (facts.{unread}) could not be read"
    return ""


def _reads(chosen: CompiledRule, fact: str) -> bool:
    if chosen.condition is None:
        return False
    keys = chosen.condition.keys("facts")
    return fact in keys if keys is not None else fact in chosen.condition.text


def runs_by_default(assessment: Assessment) -> bool:
    """A plain read: never interrupted unless a rule or a trigger says so. Reading credentials is not plain."""
    return assessment.only_reads and assessment.risk <= Risk.RISKY


def _no_silence(assessment: Assessment) -> str:
    if not assessment.effect.reversible:
        return "it cannot be undone"
    if assessment.risk >= Risk.DANGEROUS:
        return f"it is {assessment.risk}"
    return "" if assessment.is_known else "nothing is known of it"


def _at_scale(assessment: Assessment, scale: int) -> str:
    for fact in assessment.facts:
        if fact.name == "count" and not (count := _number(fact.value)) < scale:
            things = "thing" if count == 1 else "things"
            return f"it cannot be undone and touches {count:,.12g} {things}; {scale:,} or more wait for a person"
        if fact.name == "unbounded" and fact.value is not False:
            return "it cannot be undone and nothing bounds how much it touches"
        if fact.name == "unreadable" and fact.hurts and isinstance(fact.value, list) and "count" in fact.value:
            return "it cannot be undone and how many it touches could not be read"
        if fact.name == "unscanned" and fact.value is not False:
            return "it cannot be undone and holds more values than could be looked at"
    return ""


def _number(value: Json) -> float:
    """`value` as a number. What is none becomes NaN, which no limit admits."""
    if not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else math.nan


def _vouched_for(policy: Policy, action: Action) -> bool:
    if not action.trusted:
        return False
    entry = policy.agent_named(action.agent)
    return entry is None or entry.trusted


def _could_not_evaluate(failure: Failure) -> Trigger:
    rule, why = failure
    says = f'rule "{rule.name}" could not be evaluated: {why}'
    return Trigger("rule error", says, strictest((rule.gate, GateKind.HARD)))


def _covering(
    policy: Policy,
    grants: tuple[Grant, ...],
    base: GateKind,
    action: Action,
    assessment: Assessment,
    now: datetime | None,
    purse: Purse,
) -> Grant | None:
    for grant in grants:
        typed = base is GateKind.MANUAL and grant.max_risk is not Risk.CRITICAL
        if not typed and why_not_granted(policy, grant, action, assessment, now, purse) is None:
            return grant
    return None


def _beyond(
    policy: Policy,
    grants: tuple[Grant, ...],
    base: GateKind,
    action: Action,
    assessment: Assessment,
    now: datetime | None,
    purse: Purse,
) -> list[Trigger]:
    """What was granted for this action, and what of it this call goes beyond. It only explains: it raises nothing."""
    found: list[Trigger] = []
    for grant in grants:
        if concerns(grant, action) and len(found) < _MOST_GRANTS:
            why = why_not_granted(policy, grant, action, assessment, now, purse)
            why = why or f"it asks for {base}, which only a critical grant lifts"
            says = f"what {grant.granted_by} granted for {', '.join(grant.actions)} does not cover it: {why}"
            found.append(Trigger("beyond grant", says, base))
    return found


def _combined(
    policy: Policy,
    rule: Rule | None,
    plain: Verdict,
    base: GateKind,
    triggers: tuple[Trigger, ...],
    grant: Grant | None,
    failures: tuple[Failure, ...],
) -> Verdict:
    """The verdict of the rule or default alone, tightened by the triggers or lifted by the grant."""
    gate = strictest((base, *(trigger.gate for trigger in triggers)))
    if is_stricter(gate, GateKind.WATCH):
        grant = None  # It lifted the rule's gate, and a trigger holds the action all the same: it is not used.
    because = plain.because
    if grant is not None:
        because = f"grant {grant.id} of {grant.granted_by} covers it"
    elif is_stricter(gate, plain.gate):
        because = next((trigger.says for trigger in triggers if trigger.gate is gate), because)
    reviewers, quorum, ladder = _routing(policy, rule, failures)
    return replace(
        plain,
        gate=gate,
        because=because,
        triggers=triggers,
        reviewers=reviewers,
        quorum=quorum,
        ladder=policy.soft_ladder(rule) if gate is GateKind.SOFT else ladder,
        grant=grant.id if grant is not None else None,
    )


def _routing(
    policy: Policy, rule: Rule | None, failures: tuple[Failure, ...]
) -> tuple[tuple[str, ...], Quorum, Ladder]:
    """Who is asked and for how long.

    A rule that holds but could not be evaluated might have been the one: its people, its quorum and its ladder
    stand, or an argument of the wrong type would be a way round them.
    """
    reviewers, own = policy.reviewers, None
    quorum, ladder = ONE_PERSON, None
    failed = [each for each, _ in failures if each.gate.holds]
    for each in (*failed, *((rule,) if rule is not None else ())):
        if own is None and each.reviewers:
            reviewers, own = each.reviewers, each.quorum
        roles = tuple(dict.fromkeys(quorum.roles + each.quorum.roles))
        quorum = Quorum(max(quorum.count, each.quorum.count), roles)
        ladder = ladder or each.ladder
    return *joined(reviewers, quorum if own is None else own, quorum), ladder or policy.ladder


def _seen(policy: Policy, verdict: Verdict) -> Verdict:
    """The verdict as the policy's mode lets it stand."""
    if policy.mode is Mode.ENFORCE or not is_stricter(verdict.gate, GateKind.WATCH):
        return verdict
    return replace(verdict, gate=GateKind.WATCH, observed=verdict.gate)


def merged(first: Verdict, second: Verdict) -> Verdict:
    """Both verdicts at once: the stricter gate, every trigger, and all the people that either asks for.

    Of two lists of reviewers the stricter verdict's holds, unless it asks nobody in particular; whoever holds a role
    that the other one's quorum demands may vote as well.
    """
    chosen, other = (first, second) if is_stricter(first.gate, second.gate) else (second, first)
    seen = {trigger.name for trigger in chosen.triggers}
    triggers = chosen.triggers + tuple(trigger for trigger in other.triggers if trigger.name not in seen)
    roles = tuple(dict.fromkeys(chosen.quorum.roles + other.quorum.roles))
    quorum = Quorum(max(first.quorum.count, second.quorum.count), roles)
    asking = chosen if chosen.reviewers else other
    watched = [gate for gate in (first.observed, second.observed) if gate is not None]
    reviewers, quorum = joined(asking.reviewers, asking.quorum, quorum)
    return replace(
        chosen,
        triggers=triggers,
        reviewers=reviewers,
        quorum=quorum,
        observed=strictest(watched) if watched else None,
        grant=first.grant if first.grant == second.grant else None,
    )
