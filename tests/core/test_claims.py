"""What an agent that nobody vouches for says of its call lowers nothing: no claim more makes a milder gate."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assentry.core.action import NOTHING_DECLARED, Action, Declaration, Reach, Risk
from assentry.core.classify import classify, profile
from assentry.core.declared import Said
from assentry.core.grant import Grant
from assentry.core.judge import is_stricter, judge
from assentry.core.policy import AgentEntry, PerRisk, Policy, Rule
from assentry.core.situation import Situation
from assentry.core.verdict import GateKind

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GOAL = "Tidy up"
SAID = {
    "confidence": 0.99,
    "cost": 0.5,
    "description": "Reads one file. Cannot be undone.",
    "claimed": Declaration(reversible=False, reach=Reach.ORGANISATION, outside=True, money=True, risk=Risk.CRITICAL),
    "goal": GOAL,
}
CONDITIONS = (
    "action.confidence > 0.9",
    "has(action.confidence) && action.confidence > 0.9",
    "!has(action.confidence)",
    "!has(action.cost) || action.cost > 5.0",
    "has(action.cost) && !has(action.confidence)",
    'action.description.contains("Reads")',
    'action.description == ""',
    'action["description"] != ""',
    f'run.goal == "{GOAL}"',
    "effect.outside",
    "effect.reversible",
    'effect.risk == "critical"',
    "has(facts.amount)",
    'action.name.startsWith("delete")',
)
ANYTHING = PerRisk(*[GateKind.RUN] * 4)
GATES = [GateKind.RUN, GateKind.WATCH, GateKind.SOFT, GateKind.HARD, GateKind.MANUAL, GateKind.FORBID]


def gate_of(policy, said, grants=(), agent="bot", *, trusted=False):
    said = {**said}
    goal, claimed = said.pop("goal", ""), said.pop("claimed", NOTHING_DECLARED)
    args = {"path": "a.txt"}
    action = Action("delete_file", args, agent, trusted=trusted, claimed=claimed, **said)

    def known(description="", claimed=NOTHING_DECLARED):
        return classify(profile(action.name, description, None, Said(source=claimed, trusted=trusted)), args)

    vouched = frozenset({(action.source, action.name, action.definition)})  # else it waits whatever is said of it
    situation = Situation(goal=goal, agent=agent, grants=grants, vouched=vouched)
    return judge(policy, action, known(action.description, claimed), situation, NOW, (), known)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("action.confidence > 0.9", "confidence"),
        ("has(action.confidence) && action.confidence > 0.9", "confidence"),
        ("has(action.cost) && action.cost < 1.0", "cost"),
        ('action.description.contains("Reads")', "description"),
        (f'run.goal == "{GOAL}"', "goal"),
        ("effect.outside", "claimed"),
        ("!effect.reversible && effect.money", "claimed"),
    ],
)
@pytest.mark.parametrize("by", ["rule", "grant"])
def test_no_rule_and_no_grant_is_chosen_because_of_what_a_stranger_says(condition, said, by):
    rule = Rule("kind", ("delete_*",), when=condition, gate=GateKind.WATCH)
    grant = Grant("g", "w", ("delete_*",), NOW + timedelta(hours=1), "ann", condition=condition, max_risk=Risk.CRITICAL)
    policy = Policy((rule,) if by == "rule" else (), floor=ANYTHING)
    grants = (grant,) if by == "grant" else ()
    expected = gate_of(policy, {}, grants)
    assert expected.gate.holds
    found = gate_of(policy, {said: SAID[said]}, grants)
    assert not is_stricter(expected.gate, found.gate)
    # No grant looks at the goal of a run, or covers what costs money by its agent's own word.
    if by == "rule" or said not in ("claimed", "goal"):
        assert "lowers nothing" in next(each.says for each in found.triggers if each.name == "claims")
    assert found.grant is None


def test_what_those_say_whom_the_operator_vouches_for_counts():
    policy = Policy((Rule("kind", ("delete_*",), when="action.confidence > 0.9", gate=GateKind.WATCH),))
    assert gate_of(policy, {"confidence": 0.99}, trusted=True).gate is GateKind.WATCH
    listed = replace(policy, agents=(AgentEntry("bot", trusted=False),))
    assert gate_of(listed, {"confidence": 0.99}, trusted=True).gate.holds


def test_a_grant_that_covers_it_without_its_claims_is_charged():
    grant = Grant("g", "w", ("delete_*",), NOW + timedelta(hours=1), "ann", max_risk=Risk.CRITICAL)
    rule = Rule("kind", ("delete_*",), when="has(action.cost)", gate=GateKind.WATCH)
    found = gate_of(Policy((rule,)), {"cost": 0.5}, (grant,))
    if not found.gate.holds:
        assert found.grant == "g"


RULES = st.lists(
    st.builds(
        lambda when, gate: (when, gate), st.sampled_from((*CONDITIONS, "")), st.sampled_from(GATES)
    ), max_size=3,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    rules=RULES, less=st.sets(st.sampled_from(sorted(SAID))), more=st.sampled_from(sorted(SAID)),
    granted=st.sampled_from((None, "", *CONDITIONS)), defaults=st.tuples(*[st.sampled_from(GATES)] * 4),
)  # fmt: skip
def test_no_claim_more_makes_a_milder_gate(rules, less, more, granted, defaults):
    made = tuple(Rule(f"r{n}", ("*",), when=when, gate=gate) for n, (when, gate) in enumerate(rules))
    policy = Policy(made, defaults=PerRisk(*defaults), floor=ANYTHING)
    grants = () if granted is None else (
        Grant("g", "w", ("*",), NOW + timedelta(hours=1), "ann", condition=granted, max_risk=Risk.CRITICAL),
    )  # fmt: skip
    before = gate_of(policy, {name: SAID[name] for name in less}, grants)
    after = gate_of(policy, {name: SAID[name] for name in {*less, more}}, grants)
    assert not is_stricter(before.gate, after.gate)
