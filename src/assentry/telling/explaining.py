"""A call that nobody made yet, judged by a policy and explained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from assentry.core.action import NOTHING_DECLARED, Declaration, Json
from assentry.core.canonical import canonical, restore
from assentry.core.explain import Explanation, explain
from assentry.core.situation import Situation
from assentry.engine.judgement import Context, Judgement
from assentry.engine.tool import tool


@dataclass(frozen=True, slots=True)
class Call:
    """What an agent might propose, as somebody tells it who wants to know what would come of it."""

    action: str
    args: Mapping[str, Json] = field(default_factory=dict)
    agent: str = "agent"
    confidence: float | None = None
    cost: float | None = None
    trusted: bool = True
    declared: Declaration = NOTHING_DECLARED


def explained(judgement: Judgement, call: Call, at: datetime) -> Explanation:
    """The verdict on `call` and everything that led to it."""
    context = Context(agent=call.agent, confidence=call.confidence, cost=call.cost)
    made = tool(call.action, declared=call.declared, trusted=call.trusted)
    action, assessment, _ = judgement.judged(made, restore(canonical(call.args)), context, at)
    situation = Situation(agent=call.agent, grants=judgement.grants)
    return explain(judgement.policy, action, assessment, situation, at)


def explanation_document(found: Explanation, source: str) -> dict[str, Json]:
    """The explanation for scripts; `source` names the policy."""
    verdict, assessment = found.verdict, found.assessment
    return {
        "policy": source,
        "gate": verdict.gate,
        "observed": verdict.observed,
        "because": verdict.because,
        "rule": verdict.rule,
        "next_rule": found.next_rule,
        "risk": assessment.risk,
        "effect": assessment.effect,
        "answers": [{"says": each.says, "hurts": each.hurts, "basis": each.basis} for each in found.effect],
        "basis": assessment.basis,
        "reasons": assessment.reasons,
        "declared": found.declared,
        "facts": assessment.facts,
        "triggers": verdict.triggers,
        "rules": [
            {"rule": each.rule, "match": each.match, "says": each.says, "line": each.line} for each in found.rules
        ],
        "grants": found.grants,
        "grant": verdict.grant,
        "reviewers": verdict.reviewers,
        "quorum": verdict.quorum,
        "deciders": found.deciders,
        "ladder": found.time,
        "lines": found.lines,
    }
