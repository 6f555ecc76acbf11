"""What a policy says of an action: the first matching rule chooses, every trigger may only make it stricter.

In this order: the first matching rule gives a gate, or the default of the risk level does; the floor and the
ban on proceeding in silence raise it; a grant may lift it; the triggers that fired raise it again, whatever was
lifted; observe mode lets it pass and notes down what would have been.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from assentry.core.action import Action, Assessment, Basis, Json, Risk
from assentry.core.condition import Failed, View
from assentry.core.grant import Grant, concerns, covers, why_not
from assentry.core.policy import ONE_PERSON, CompiledRule, Limits, Mode, Policy, Rule
from assentry.core.scope import authorises, exceeded
from assentry.core.situation import EMPTY, Situation, Standing
from assentry.core.text import counted, span
from assentry.core.verdict import GateKind, Ladder, Quorum, Trigger, Verdict, joined
from assentry.core.view import Looking

_STRENGTH = tuple(
    (GateKind.RUN, GateKind.WATCH, GateKind.SOFT, GateKind.ASK, GateKind.HARD, GateKind.MANUAL, GateKind.FORBID).index(
        gate
    )
    for gate in GateKind
)
"""By rank. Asking is weaker than waiting for a decision: a question may end in its best guess."""

_ON_SILENCE = (GateKind.SOFT, GateKind.ASK)

_MOST_GRANTS = 3

Failure = tuple[Rule, str]


def judge(
    policy: Policy,
    action: Action,
    assessment: Assessment,
    situation: Situation = EMPTY,
    now: datetime | None = None,
    fired: tuple[Trigger, ...] = (),
) -> Verdict:
    """The verdict on `action`. `fired` are triggers found elsewhere (scope, budget, checkpoint); they only tighten.

    Without `now` no grant lifts anything, because expiry cannot be checked.
    """
    chosen: CompiledRule | None = None
    failures: tuple[Failure, ...] = ()
    if candidates := policy.compiled_for(action.name, action.agent):
        chosen, failures = first_match(candidates, Looking(action, assessment, situation.as_variable))
        if failures:
            fired += tuple(_could_not_evaluate(failure) for failure in failures)
    fired += tuple(builtin_triggers(policy, action, assessment, situation))
    plain = chosen.verdict if chosen is not None else _default(policy, action, assessment, situation)
    base, notes = _base(policy, plain.gate, assessment)
    grant = None
    if chosen is None and assessment.risk is Risk.CRITICAL:
        notes += (Trigger("critical", "critical actions wait for a person", base),)
    if situation.grants and may_be_lifted(base):
        grant = _covering(situation.grants, base, action, assessment, now)
        if grant is not None:
            base, notes = GateKind.WATCH, ()
        else:
            notes += tuple(_beyond(situation.grants, base, action, assessment, now))
    if fired or notes or grant is not None:
        rule = chosen.rule if chosen is not None else None
        plain = _combined(policy, rule, plain, base, notes + fired, grant, failures)
    return _seen(policy, plain)


def strictest(gates: Iterable[GateKind]) -> GateKind:
    """The strictest of `gates`; of none, run. `ask` is weaker than `hard`, stronger than `soft`."""
    return max(gates, key=lambda gate: _STRENGTH[gate.rank], default=GateKind.RUN)


def is_stricter(one: GateKind, other: GateKind) -> bool:
    return _STRENGTH[one.rank] > _STRENGTH[other.rank]


def first_match(candidates: Sequence[CompiledRule], view: View) -> tuple[CompiledRule | None, tuple[Failure, ...]]:
    """The first rule whose condition holds, and those before it that could not be evaluated, with the reason."""
    failures: tuple[Failure, ...] = ()
    for each in candidates:
        if each.condition is None:
            return each, failures
        held = each.condition.holds(view)
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
    grants: tuple[Grant, ...], base: GateKind, action: Action, assessment: Assessment, now: datetime | None
) -> Grant | None:
    for grant in grants:
        typed = base is GateKind.MANUAL and grant.max_risk is not Risk.CRITICAL
        if not typed and covers(grant, action, assessment, now):
            return grant
    return None


def _beyond(
    grants: tuple[Grant, ...], base: GateKind, action: Action, assessment: Assessment, now: datetime | None
) -> list[Trigger]:
    """What was granted for this action, and what of it this call goes beyond. It only explains: it raises nothing."""
    found: list[Trigger] = []
    for grant in grants:
        if concerns(grant, action) and len(found) < _MOST_GRANTS:
            why = why_not(grant, action, assessment, now) or f"it asks for {base}, which only a critical grant lifts"
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
