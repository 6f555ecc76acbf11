"""Judging: the first matching rule chooses, triggers only tighten, errors never loosen, and observing never holds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assentry.core.action import Action, Assessment, Basis, Declaration, Effect, Fact, Reach, Risk
from assentry.core.condition import Failed
from assentry.core.explain import Match, explain
from assentry.core.grant import Grant
from assentry.core.judge import is_stricter, judge, strictest
from assentry.core.policy import (
    PRESETS,
    AgentEntry,
    Declared,
    Limits,
    Mode,
    Option,
    PerRisk,
    Policy,
    Rule,
    builtin_policy,
)
from assentry.core.situation import EMPTY, Situation
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum, Rung, Trigger
from assentry.errors import PolicyError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN, WATCH, SOFT, HARD, MANUAL, FORBID, ASK = GateKind
READ = Assessment(Effect(True, Reach.NOTHING), Risk.SAFE, Basis.CATALOGUE)
RISKY = Assessment(Effect(True, Reach.LOCAL), Risk.RISKY, Basis.CATALOGUE)
DANGEROUS = Assessment(Effect(False, Reach.SERVICE), Risk.DANGEROUS, Basis.CATALOGUE)
CRITICAL = Assessment(Effect(False, Reach.ORGANISATION), Risk.CRITICAL, Basis.CATALOGUE)
UNKNOWN = Assessment(Effect(True, Reach.SERVICE), Risk.RISKY, Basis.UNKNOWN)
SECRETS = replace(READ, risk=Risk.CRITICAL)


def action(name: str = "delete_file", **more: Any) -> Action:
    return Action(name, **{"args": {}, **more})


def with_facts(assessment: Assessment, **facts: Any) -> Assessment:
    return replace(assessment, facts=tuple(Fact(name, value, name) for name, value in facts.items()))


def policy(*rules: Rule, **more: Any) -> Policy:
    return Policy(rules=rules, **more)


def names(verdict: Any) -> set[str]:
    return {trigger.name for trigger in verdict.triggers}


GRANT = Grant("g1", "w", ("delete_*",), NOW + timedelta(days=1), "alice")
GRANTED = Situation(grants=(GRANT,))


@pytest.mark.parametrize(
    ("assessment", "gate"),
    [(READ, RUN), (RISKY, WATCH), (DANGEROUS, HARD), (CRITICAL, MANUAL), (SECRETS, MANUAL), (UNKNOWN, WATCH)],
)
def test_without_rules_the_risk_level_decides(assessment: Assessment, gate: GateKind) -> None:
    verdict = judge(builtin_policy(), action(), assessment)
    assert verdict.gate is gate
    assert verdict.rule.startswith("default: ")
    assert verdict.because
    assert verdict.ladder == Ladder(limit=timedelta(hours=1), at_end=AtEnd.DENY)


def test_the_first_matching_rule_chooses() -> None:
    rules = policy(
        Rule("others", ("send_*",), gate=FORBID),
        Rule("other agents", ("delete_*",), ("nightly",), gate=FORBID),
        Rule("large", ("delete_*",), when="facts.count > 10", gate=MANUAL),
        Rule("delete", ("delete_*",), gate=WATCH),
        Rule("all", gate=FORBID),
    )
    assert judge(rules, action(), with_facts(DANGEROUS, count=5)).rule == "delete"
    assert judge(rules, action(), with_facts(DANGEROUS, count=50)).rule == "large"
    assert judge(rules, action(agent="nightly"), DANGEROUS).rule == "other agents"
    assert judge(rules, action("read_file"), READ).rule == "all"


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("delete_*", "delete_file", True),
        ("delete_*", "undelete_file", False),
        ("delete_*", "Delete_file", False),
        ("github.*", "github.issues.create", True),
        ("delete", "delete\n", False),
        ("get_?", "get_x", True),
        ("*", "anything at all", True),
    ],
)
def test_patterns_match_the_whole_name_and_case_counts(glob: str, name: str, matches: bool) -> None:
    verdict = judge(policy(Rule("r", (glob,), gate=FORBID)), action(name), READ)
    assert (verdict.gate is FORBID) is matches


@pytest.mark.parametrize(
    ("about", "assessment", "trigger"),
    [
        ({"trusted": False}, UNKNOWN, "unknown"),
        ({"agent": "stranger"}, UNKNOWN, "unknown"),
        ({}, with_facts(DANGEROUS, count=100), "scale"),
        ({}, with_facts(DANGEROUS, count=10**40), "scale"),
        ({}, with_facts(DANGEROUS, unbounded=True), "scale"),
        ({}, with_facts(DANGEROUS, unscanned=True), "scale"),
        ({"confidence": 0.69}, RISKY, "confidence"),
        ({"confidence": float("nan")}, RISKY, "confidence"),
        ({"confidence": "0.9"}, RISKY, "confidence"),
        ({"confidence": -(10**400)}, RISKY, "confidence"),
        ({"cost": 10**400}, READ, "cost"),
        ({}, with_facts(DANGEROUS, count=10**5000), "scale"),
        ({}, with_facts(DANGEROUS, count="many"), "scale"),
        ({"cost": 2.01}, READ, "cost"),
        ({"cost": float("nan")}, READ, "cost"),
    ],
)
def test_a_trigger_holds_whatever_a_rule_says(about: dict[str, Any], assessment: Assessment, trigger: str) -> None:
    loose = policy(Rule("anything", gate=RUN), limits=Limits(cost=2), agents=(AgentEntry("stranger", trusted=False),))
    verdict = judge(loose, action(**about), assessment, GRANTED, NOW)
    assert verdict.gate is HARD
    assert names(verdict) == {trigger}
    assert verdict.because == verdict.triggers[0].says
    assert verdict.grant is None


@pytest.mark.parametrize(
    ("about", "assessment"),
    [
        ({}, UNKNOWN),
        ({}, with_facts(DANGEROUS, count=99)),
        ({}, with_facts(RISKY, count=10_000)),
        ({}, with_facts(READ, unbounded=True)),
        ({"confidence": 0.7}, RISKY),
        ({"confidence": 0.1}, READ),
        ({"cost": 2}, READ),
    ],
)
def test_a_trigger_does_not_fire_early(about: dict[str, Any], assessment: Assessment) -> None:
    loose = policy(Rule("anything", gate=RUN), limits=Limits(cost=2))
    verdict = judge(loose, action(**about), assessment)
    assert verdict.gate is RUN
    assert not verdict.triggers


def test_all_triggers_are_shown_and_the_strictest_counts() -> None:
    fired = (Trigger("scope", "more than was asked for", MANUAL),)
    verdict = judge(policy(), action(confidence=0.1), with_facts(DANGEROUS, count=1_000), now=NOW, fired=fired)
    assert verdict.gate is MANUAL
    assert names(verdict) == {"scope", "scale", "confidence"}
    assert verdict.because == "more than was asked for"


def test_a_rule_may_drop_the_typed_confirmation_but_not_the_person() -> None:
    assert judge(policy(Rule("r", gate=HARD)), action(), CRITICAL).gate is HARD
    verdict = judge(policy(Rule("r", gate=RUN)), action(), CRITICAL)
    assert verdict.gate is HARD
    assert names(verdict) == {"floor"}
    floor = PerRisk(RUN, RUN, RUN, RUN)
    assert judge(policy(Rule("r", gate=RUN), floor=floor), action(), CRITICAL).gate is RUN


def test_a_raised_floor_binds_rules_and_defaults() -> None:
    strict = policy(Rule("r", ("delete_*",), gate=RUN), floor=PerRisk(RUN, HARD, HARD, MANUAL))
    assert judge(strict, action(), RISKY).gate is HARD
    assert judge(strict, action("move_file"), RISKY).gate is HARD


@pytest.mark.parametrize("assessment", [DANGEROUS, CRITICAL, UNKNOWN, replace(RISKY, risk=Risk.DANGEROUS)])
@pytest.mark.parametrize("gate", [SOFT, ASK])
def test_silence_never_lets_something_grave_pass(assessment: Assessment, gate: GateKind) -> None:
    verdict = judge(policy(Rule("r", gate=gate)), action(), assessment)
    assert verdict.gate is HARD
    assert verdict.ladder.at_end is AtEnd.DENY
    assert names(verdict) & {"silence", "floor"}


def test_a_soft_gate_proceeds_when_its_window_closes() -> None:
    rung = Rung(timedelta(minutes=1), remind=True)
    soft = policy(Rule("r", gate=SOFT, window=timedelta(minutes=9), ladder=Ladder((rung,))))
    assert judge(soft, action(), RISKY).ladder == Ladder((rung,), 0, timedelta(minutes=9), AtEnd.PROCEED)
    assert judge(policy(Rule("r", gate=SOFT)), action(), RISKY).ladder.limit == timedelta(minutes=5)
    cautious = judge(PRESETS["cautious"], action(), RISKY)
    assert (cautious.gate, cautious.ladder.at_end) == (SOFT, AtEnd.PROCEED)


def test_a_ladder_that_ends_in_proceed_cannot_be_made() -> None:
    with pytest.raises(PolicyError):
        policy(Rule("r", ladder=Ladder(at_end=AtEnd.PROCEED)))
    with pytest.raises(PolicyError):
        Policy(ladder=Ladder(at_end=AtEnd.PROCEED))


@pytest.mark.parametrize(
    ("rule_gate", "fallback", "expected"),
    [(RUN, RUN, HARD), (WATCH, MANUAL, MANUAL), (MANUAL, RUN, MANUAL), (FORBID, RUN, FORBID), (SOFT, HARD, HARD)],
)
def test_an_expression_error_gives_the_strictest_of_three(
    rule_gate: GateKind, fallback: GateKind, expected: GateKind
) -> None:
    rules = policy(Rule("broken", when="args.missing > 1", gate=rule_gate), Rule("rest", gate=fallback))
    verdict = judge(rules, action(), READ, GRANTED, NOW)
    assert verdict.gate is expected
    assert verdict.rule == "rest"
    assert [trigger.says for trigger in verdict.triggers if trigger.name == "rule error"] == [
        'rule "broken" could not be evaluated: "missing" is not there; test it first with has(…)'
    ]


def test_an_expression_error_is_no_way_round_a_rules_people() -> None:
    rules = policy(
        Rule(
            "wire",
            when="args.amount > 100",
            gate=HARD,
            reviewers=("role:finance",),
            quorum=Quorum(2, ("finance",)),
            ladder=Ladder(limit=None, at_end=AtEnd.STAY),
        ),
        Rule("rest", gate=HARD, reviewers=("anybody",), quorum=Quorum(1, ("manager",))),
    )
    verdict = judge(rules, action(args={"amount": "much"}), RISKY)
    assert verdict.reviewers == ("role:finance", "role:manager")
    assert verdict.quorum == Quorum(3, ("finance", "manager")), "a manager does not stand in for one of two of finance"
    assert verdict.ladder == Ladder(limit=None, at_end=AtEnd.STAY)


def test_reads_run_by_default_and_only_by_default() -> None:
    irreversible_read = replace(READ, effect=Effect(False, Reach.NOTHING), risk=Risk.RISKY)
    strict = PerRisk(HARD, HARD, HARD, MANUAL)
    assert judge(policy(defaults=strict), action(), irreversible_read).gate is RUN
    assert judge(policy(Rule("r", gate=HARD), defaults=strict), action(), irreversible_read).gate is HARD
    assert judge(policy(defaults=strict), action(), SECRETS).gate is MANUAL


@pytest.mark.parametrize("gate", [SOFT, HARD])
def test_a_grant_lifts_a_gate_to_watch(gate: GateKind) -> None:
    verdict = judge(policy(Rule("r", gate=gate)), action(), DANGEROUS, GRANTED, NOW)
    assert (verdict.gate, verdict.grant, verdict.triggers) == (WATCH, "g1", ())
    assert "alice" in verdict.because
    assert judge(policy(), action(), DANGEROUS, GRANTED, NOW).grant == "g1"


@pytest.mark.parametrize(
    ("rule_gate", "assessment", "expected"),
    [(MANUAL, DANGEROUS, MANUAL), (FORBID, DANGEROUS, FORBID), (HARD, CRITICAL, HARD), (RUN, RISKY, RUN)],
)
def test_a_grant_lifts_no_more_than_it_may(rule_gate: GateKind, assessment: Assessment, expected: GateKind) -> None:
    verdict = judge(policy(Rule("r", gate=rule_gate)), action(), assessment, GRANTED, NOW)
    assert (verdict.gate, verdict.grant) == (expected, None)


def test_a_grant_up_to_critical_also_lifts_the_typed_confirmation_but_never_what_is_forbidden() -> None:
    grants = Situation(grants=(replace(GRANT, max_risk=Risk.CRITICAL),))
    assert judge(policy(), action(), CRITICAL, grants, NOW).gate is WATCH
    assert judge(policy(Rule("r", gate=MANUAL)), action(), DANGEROUS, grants, NOW).grant == "g1"
    assert judge(policy(Rule("r", gate=FORBID)), action(), DANGEROUS, grants, NOW).gate is FORBID


@pytest.mark.parametrize(
    ("grant", "facts", "says"),
    [
        ({"budget": Decimal(50), "currency": "EUR"}, {"amount": 51, "currency": "EUR"}, "what is left of its budget"),
        ({"budget": Decimal(50), "currency": "EUR"}, {"amount": 50, "currency": "EUR"}, None),
        ({"max_risk": Risk.RISKY}, {}, "it covers actions up to risky"),
        ({"max_risk": Risk.DANGEROUS}, {}, None),
        ({"limit": 3, "used": 3}, {}, "3 of 3 times"),
        ({"limit": 3, "used": 2}, {}, None),
        ({"actions": ("send_*",)}, {}, ""),
    ],
)
def test_what_goes_beyond_a_grant_is_said(grant: dict[str, Any], facts: dict[str, Any], says: str | None) -> None:
    """Each with its twin just inside; a grant for something else is not mentioned."""
    situation = Situation(grants=(replace(GRANT, **grant),))
    verdict = judge(policy(), action(), with_facts(DANGEROUS, **facts), situation, NOW)
    beyond = [trigger.says for trigger in verdict.triggers if trigger.name == "beyond grant"]
    if says is None:
        assert (verdict.gate, beyond) == (WATCH, [])
    else:
        assert verdict.gate is HARD
        assert len(beyond) == bool(says)
        assert [each for each in beyond if "alice granted for delete_*" not in each or says not in each] == []


def test_what_an_agent_must_be_sure_of_is_said_per_action() -> None:
    strict = policy(declared=(Declared("delete_*", Declaration(), confidence=0.95),))
    assert "confidence" in names(judge(strict, action(confidence=0.94), RISKY))
    assert "confidence" not in names(judge(strict, action(confidence=0.95), RISKY))
    assert "confidence" not in names(judge(strict, action("move_file", confidence=0.7), RISKY))
    lax = policy(declared=(Declared("delete_*", Declaration(), confidence=0.5),))
    assert "confidence" not in names(judge(lax, action(confidence=0.5), RISKY))
    assert "confidence" in names(judge(lax, action(confidence=0.49), RISKY))


def test_without_a_clock_no_grant_lifts_anything() -> None:
    assert judge(policy(), action(), DANGEROUS, GRANTED).gate is HARD


@pytest.mark.parametrize(
    ("assessment", "gate", "observed"),
    [(READ, RUN, None), (RISKY, WATCH, None), (DANGEROUS, WATCH, HARD), (CRITICAL, WATCH, MANUAL)],
)
def test_observe_lets_everything_pass_and_notes_what_would_have_held(
    assessment: Assessment, gate: GateKind, observed: GateKind | None
) -> None:
    verdict = judge(policy(mode=Mode.OBSERVE), action(), assessment)
    assert (verdict.gate, verdict.observed) == (gate, observed)
    forbidden = judge(policy(Rule("r", gate=FORBID), mode=Mode.OBSERVE), action(), assessment)
    assert (forbidden.gate, forbidden.observed) == (WATCH, FORBID)


def test_what_a_rule_says_about_people_and_time_is_in_the_verdict() -> None:
    rule = Rule(
        "r",
        gate=HARD,
        because="it is large",
        reviewers=("alice",),
        quorum=Quorum(2),
        undo=timedelta(days=1),
        review_after=True,
        options=(Option("half"),),
    )
    made = policy(rule, version=7, ladder=Ladder(limit=None, at_end=AtEnd.STAY), reviewers=("bob",))
    verdict = judge(made, action(), RISKY)
    assert (verdict.because, verdict.reviewers, verdict.quorum.count) == ("it is large", ("alice",), 2)
    assert (verdict.undo_window, verdict.review_after, verdict.policy_version) == (timedelta(days=1), True, 7)
    assert verdict.ladder == made.ladder
    assert made.rule_named("r") is rule
    assert judge(replace(made, rules=()), action(), DANGEROUS).reviewers == ("bob",)


class Counting:
    """Stands where a compiled condition stands, and counts how often it is asked."""

    def __init__(self, answer: bool | Failed = False) -> None:
        self.answer, self.asked = answer, 0

    def holds(self, _view: object) -> bool | Failed:
        self.asked += 1
        return self.answer


def counted(made: Policy) -> list[Counting]:
    found = [Counting() for _ in made.compiled]
    for each, counting in zip(made.compiled, found, strict=True):
        object.__setattr__(each, "condition", counting)
    return found


def test_rules_for_other_names_are_never_evaluated() -> None:
    made = policy(
        *(Rule(f"r{i}", (f"tool{i}_*",), when="facts.count > 1") for i in range(100)),
        Rule("agent", ("delete_*",), ("nightly",), when="facts.count > 1"),
        Rule("mine", ("delete_*",), when="facts.count > 1"),
    )
    conditions = counted(made)
    for _ in range(3):
        judge(made, action(), DANGEROUS)
    assert [each.asked for each in conditions] == [0] * 101 + [3]
    assert len(made.compiled_for("delete_file", "agent")) == 1
    assert made.compiled_for("delete_file", "agent") is made.compiled_for("delete_file", "agent")


def test_rules_below_the_one_that_chose_are_not_evaluated() -> None:
    made = policy(Rule("a", when="true", gate=WATCH), Rule("b", when="true"))
    first, second = counted(made)
    first.answer = True
    judge(made, action(), DANGEROUS)
    assert (first.asked, second.asked) == (1, 0)


def test_the_index_does_not_grow_without_bound() -> None:
    made = policy(Rule("r"))
    for number in range(10_000):
        made.compiled_for(f"tool{number}", "agent")
    made.compiled_for("x" * 10_000, "agent")
    assert len(made._index) <= 4_096
    assert all(len(name) < 1_000 for name, _ in made._index)


def test_an_exact_declaration_goes_before_a_pattern() -> None:
    from assentry.core.action import Declaration

    made = policy(declared=(Declared("a*", Declaration(risk=Risk.SAFE)), Declared("abc", Declaration(money=True))))
    assert made.declaration_for("abc").pattern == "abc"  # type: ignore[union-attr]
    assert made.declaration_for("abd").pattern == "a*"  # type: ignore[union-attr]
    assert made.declaration_for("b") is None


def test_presets_order_by_how_much_they_let_pass() -> None:
    cautious, balanced, autonomous = PRESETS.values()
    for stricter, looser in ((cautious, balanced), (balanced, autonomous)):
        assert stricter.limits.scale < looser.limits.scale
        assert stricter.limits.confidence > looser.limits.confidence
        assert is_stricter(stricter.defaults.risky, looser.defaults.risky)
    for each in PRESETS.values():
        assert (each.defaults.safe, each.defaults.dangerous, each.defaults.critical) == (RUN, HARD, MANUAL)


def test_explaining_shows_every_rule_and_how_it_met_the_action() -> None:
    rules = policy(
        Rule("other", ("send_*",)),
        Rule("agent", agents=("nightly",)),
        Rule("false", when="facts.count > 10"),
        Rule("broken", when="args.x > 1", gate=WATCH),
        Rule("chose", ("delete_*", "x"), gate=HARD, because="so it is"),
        Rule("next", when="effect.reversible || true"),
    )
    told = explain(rules, action(), DANGEROUS, GRANTED, NOW)
    assert [each.match for each in told.rules] == [
        Match.OTHER_ACTION,
        Match.OTHER_AGENT,
        Match.CONDITION_FALSE,
        Match.ERROR,
        Match.CHOSE,
        Match.WOULD_MATCH,
    ]
    assert (told.chose, told.next_rule) == ("chose", "next")
    assert told.verdict == judge(rules, action(), DANGEROUS, GRANTED, NOW)
    assert told.grants[0].why_not == ""
    text = "\n".join(told.lines)
    assert "delete_* matches" in text
    assert "facts.count > 10 does not hold" in text
    assert "cannot be undone" in text
    assert "denied after 1 h" in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
GATES = st.sampled_from(list(GateKind))
CONDITIONS = st.sampled_from(
    [
        "",
        "true",
        "false",
        "args.a",
        "args.a > 1",
        "facts.count > 3",
        "args.a.b == 'x'",
        "effect.reversible",
        "run.steps > 1",
    ]
)
EFFECTS = st.builds(Effect, st.booleans(), st.sampled_from(list(Reach)), st.booleans(), st.booleans())
FACTS = st.lists(
    st.builds(Fact, st.sampled_from(["count", "unbounded", "amount", "unscanned", "x"]), JSON, st.just("")), max_size=2
)


@st.composite
def assessments(draw: st.DrawFn) -> Assessment:
    effect = draw(EFFECTS)
    risk = max(effect.risk, draw(st.sampled_from(list(Risk))), key=lambda each: each.rank)
    return Assessment(effect, risk, draw(st.sampled_from(list(Basis))), facts=tuple(draw(FACTS)))


RULES = st.lists(
    st.builds(
        lambda actions, when, gate: Rule("r", actions, when=when, gate=gate),
        st.sampled_from([("*",), ("delete_*",), ("send_*",)]),
        CONDITIONS,
        GATES,
    ),
    max_size=3,
)
LEVELS = st.builds(PerRisk, *[st.sampled_from([RUN, WATCH, SOFT, HARD, MANUAL, FORBID])] * 4)
POLICIES = st.builds(
    lambda rules, defaults, floor, mode: Policy(rules=tuple(rules), defaults=defaults, floor=floor, mode=mode),
    RULES,
    LEVELS,
    LEVELS,
    st.sampled_from(list(Mode)),
)
ACTIONS = st.builds(
    Action,
    st.sampled_from(["delete_file", "send_mail", "x"]),
    st.dictionaries(st.sampled_from("ab"), JSON, max_size=2),
    trusted=st.booleans(),
    confidence=st.none() | st.floats(),
    cost=st.none() | st.floats(),
)
SITUATIONS = st.sampled_from(
    [EMPTY, GRANTED, Situation(grants=(replace(GRANT, actions=("*",), max_risk=Risk.CRITICAL),))]
)
FIRED = st.lists(
    st.builds(Trigger, st.just("t"), st.just("because"), st.sampled_from([SOFT, HARD, MANUAL, FORBID])), max_size=2
)
thorough = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@thorough
@given(POLICIES, ACTIONS, assessments(), SITUATIONS, FIRED)
def test_judging_is_total_and_explaining_agrees(
    made: Policy, proposed: Action, assessment: Assessment, situation: Situation, fired: list[Trigger]
) -> None:
    verdict = judge(made, proposed, assessment, situation, NOW, tuple(fired))
    assert verdict == judge(made, proposed, assessment, situation, NOW, tuple(fired))
    assert verdict == explain(made, proposed, assessment, situation, NOW, tuple(fired)).verdict
    assert verdict.because
    held = verdict.observed or verdict.gate
    assert all(not is_stricter(trigger.gate, held) for trigger in verdict.triggers)
    assert verdict.ladder.at_end is not AtEnd.PROCEED or held is SOFT


@thorough
@given(POLICIES, ACTIONS, assessments(), SITUATIONS, FIRED, FIRED)
def test_adding_a_trigger_never_loosens(
    made: Policy,
    proposed: Action,
    assessment: Assessment,
    situation: Situation,
    fired: list[Trigger],
    more: list[Trigger],
) -> None:
    made = replace(made, mode=Mode.ENFORCE)
    before = judge(made, proposed, assessment, situation, NOW, tuple(fired)).gate
    after = judge(made, proposed, assessment, situation, NOW, (*fired, *more)).gate
    assert not is_stricter(before, after)
    assert not is_stricter(strictest(trigger.gate for trigger in more), after)


@thorough
@given(POLICIES, ACTIONS, assessments(), SITUATIONS)
def test_an_expression_error_never_lets_anything_pass(
    made: Policy, proposed: Action, assessment: Assessment, situation: Situation
) -> None:
    broken = Rule("broken", when="args.never_there > 1", gate=RUN)
    without = replace(made, mode=Mode.ENFORCE)
    made = replace(without, rules=(broken, *made.rules))
    verdict = judge(made, proposed, assessment, situation, NOW)
    assert not is_stricter(HARD, verdict.gate)
    assert not is_stricter(judge(without, proposed, assessment, situation, NOW).gate, verdict.gate)
    assert verdict.grant is None


@thorough
@given(POLICIES, ACTIONS, assessments(), SITUATIONS, FIRED)
def test_observing_never_holds(
    made: Policy, proposed: Action, assessment: Assessment, situation: Situation, fired: list[Trigger]
) -> None:
    watched = judge(replace(made, mode=Mode.OBSERVE), proposed, assessment, situation, NOW, tuple(fired))
    enforced = judge(replace(made, mode=Mode.ENFORCE), proposed, assessment, situation, NOW, tuple(fired))
    assert watched.gate in (RUN, WATCH)
    assert (watched.observed or watched.gate) is enforced.gate


@thorough
@given(POLICIES, ACTIONS, assessments(), SITUATIONS)
def test_silence_passes_only_what_is_reversible_known_and_at_most_risky(
    made: Policy, proposed: Action, assessment: Assessment, situation: Situation
) -> None:
    verdict = judge(replace(made, mode=Mode.ENFORCE), proposed, assessment, situation, NOW)
    if verdict.gate in (SOFT, ASK):
        assert assessment.effect.reversible
        assert assessment.risk <= Risk.RISKY
        assert assessment.is_known


@thorough
@given(POLICIES, ACTIONS, assessments())
def test_a_grant_never_tightens_and_never_lifts_what_is_forbidden(
    made: Policy, proposed: Action, assessment: Assessment
) -> None:
    made = replace(made, mode=Mode.ENFORCE)
    without = judge(made, proposed, assessment, EMPTY, NOW)
    everything = Situation(grants=(replace(GRANT, actions=("*",), max_risk=Risk.CRITICAL),))
    granted = judge(made, proposed, assessment, everything, NOW)
    assert not is_stricter(granted.gate, without.gate)
    assert without.gate is not FORBID or granted.gate is FORBID
