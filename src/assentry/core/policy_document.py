"""A `Policy` as the document that would load as it: what equals the default is left out."""

from datetime import timedelta

from assentry.core.action import Json
from assentry.core.policy import ONE_PERSON, PRESETS, Declared, Limits, Mode, Option, PerRisk, Person, Policy, Rule
from assentry.core.policy_rotas import rota_document
from assentry.core.policy_text import duration_text
from assentry.core.verdict import AtEnd, GateKind, IfChanged, Ladder, Rung


def to_document(policy: Policy) -> dict[str, Json]:
    """Plain data that, written as YAML in this order, loads as an equal policy. The version is not part of it."""
    preset = PRESETS[policy.autonomy]
    return _filled(
        autonomy=policy.autonomy if policy.autonomy != "balanced" else None,
        mode=str(policy.mode) if policy.mode is not Mode.ENFORCE else None,
        defaults=_levels(policy.defaults, preset.defaults),
        floor=_levels(policy.floor, preset.floor),
        limits=_limits(policy.limits, preset.limits),
        reviewers=list(policy.reviewers),
        ladder=[_rung(rung) for rung in policy.ladder.rungs],
        at_end=policy.ladder.at_end.value if policy.ladder.at_end is not AtEnd.DENY else None,
        self_review=None if policy.self_review is None else "allow" if policy.self_review else "deny",
        second_person=policy.second_person or None,
        retention=duration_text(policy.retention) if policy.retention else None,
        organisation={"domains": list(policy.domains)} if policy.domains else None,
        people={person.name: _person(person) for person in policy.people},
        rotas={rota.name: rota_document(rota) for rota in policy.rotas},
        agents={
            each.name: _filled(owner=each.owner, trusted=None if each.trusted else False) for each in policy.agents
        },
        actions={each.pattern: _declared(each) for each in policy.declared},
        rules=[_rule(rule) for rule in policy.rules],
    )


def _filled(**values: Json) -> dict[str, Json]:
    return {key: value for key, value in values.items() if value is not None and value not in ("", [], {})}


def _levels(levels: PerRisk, preset: PerRisk) -> dict[str, Json]:
    names = ("safe", "risky", "dangerous", "critical")
    return {each: str(getattr(levels, each)) for each in names if getattr(levels, each) is not getattr(preset, each)}


def _limits(limits: Limits, preset: Limits) -> dict[str, Json]:
    texts = {
        "scale": limits.scale,
        "confidence": limits.confidence,
        "cost": limits.cost,
        "budget": limits.budget,
        "daily": limits.daily,
        "steps": limits.steps,
        "every": None if limits.every is None else duration_text(limits.every),
        "pending": "unlimited" if limits.pending is None else limits.pending,
        "per_minute": limits.per_minute,
        "denials": "unlimited" if limits.denials is None else limits.denials,
        "fresh": duration_text(limits.fresh),
        "time": _time(limits.time),
        "window": duration_text(limits.window),
        "undo": duration_text(limits.undo),
    }
    return {key: value for key, value in texts.items() if getattr(limits, key) != getattr(preset, key)}


def _time(time: timedelta | None) -> str:
    return "never" if time is None else duration_text(time)


def _person(person: Person) -> dict[str, Json]:
    return _filled(
        roles=list(person.roles), teams=list(person.teams), os_users=list(person.os_users), email=person.email
    )


def _declared(declared: Declared) -> dict[str, Json]:
    said = declared.declaration
    return _filled(
        reversible=said.reversible,
        reach=str(said.reach) if said.reach else None,
        outside=said.outside,
        money=said.money,
        risk=str(said.risk) if said.risk else None,
        instead_of_code=declared.instead_of_code or None,
        confidence=declared.confidence,
        because=declared.because,
    )


def _rung(rung: Rung) -> dict[str, Json]:
    return _filled(
        after=duration_text(rung.after), remind=rung.remind or None, tell=list(rung.tell), rota=list(rung.rota)
    )


def _rule(rule: Rule) -> dict[str, Json]:
    return _filled(
        name=rule.name,
        actions=list(rule.actions) if rule.actions != ("*",) else None,
        agents=list(rule.agents) if rule.agents != ("*",) else None,
        when=rule.when,
        gate=str(rule.gate),
        because=rule.because,
        says=rule.says,
        reviewers=list(rule.reviewers),
        quorum=_quorum(rule),
        window=duration_text(rule.window) if rule.window else None,
        undo=duration_text(rule.undo) if rule.undo else None,
        review="after" if rule.review_after else None,
        if_changed="run" if rule.if_changed is IfChanged.RUN else None,
        options=[_option(option) for option in rule.options],
    ) | (_ladder(rule.ladder, rule.gate) if rule.ladder is not None else {})


def _quorum(rule: Rule) -> Json:
    if rule.quorum == ONE_PERSON:
        return None
    return {"count": rule.quorum.count, "roles": list(rule.quorum.roles)} if rule.quorum.roles else rule.quorum.count


def _ladder(ladder: Ladder, gate: GateKind) -> dict[str, Json]:
    """Written out whole, so that it does not change when the policy's own ladder does."""
    written: dict[str, Json] = {
        "ladder": [_rung(rung) for rung in ladder.rungs],
        "loops": ladder.loops,
        "limit": _time(ladder.limit),
    }
    return written if gate is GateKind.SOFT else written | {"at_end": ladder.at_end.value}


def _option(option: Option) -> dict[str, Json]:
    return _filled(label=option.label, consequence=option.consequence, set=dict(option.set), action=option.action)
