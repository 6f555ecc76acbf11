"""Who can decide, by name: reviewers, the ladder, rotas, and who is excluded."""

from datetime import UTC, datetime

import pytest

from assentry.core.authority import Excluded
from assentry.core.deciders import Added, Out, deciders, everybody_asked
from assentry.core.policy import ONE_PERSON
from assentry.core.policy_file import load_policy
from assentry.core.verdict import Ladder
from assentry.errors import PolicyError

TEAM = """
people:
  ann: {roles: [dba]}
  bob: {roles: [dba], os_users: [robert]}
  cy: {roles: [dba, boss]}
  dan: {roles: [boss]}
agents: {bot: {owner: cy}, free: {}}
rotas:
  nights:
    turns: [{person: ann, from: "2026-01-01T00:00:00+00:00", to: "2026-01-02T00:00:00+00:00"}]
"""
DROP = "rules:\n  - {name: drop, actions: ['drop_*'], gate: hard, reviewers: [role:dba], quorum: 2"


def rule(more: str = "", before: str = "") -> str:
    return f"{TEAM}{before}{DROP}{more}}}\n"


@pytest.mark.parametrize(
    ("document", "agent", "says"),
    [
        (rule(), "", "needs 2 of role:dba: ann, bob, cy"),
        (rule(), "bot", "needs 2 of role:dba: ann, bob (cy is excluded: owner of the agent)"),
        (rule(before="self_review: allow\n"), "bot", "needs 2 of role:dba: ann, bob, cy"),
        (rule(", ladder: [{after: 30m, remind: true}, {after: 1h, tell: [role:boss]}]"), "free",
         "needs 2 of role:dba: ann, bob, cy; after 1 h also dan"),
        (rule(", ladder: [{after: 1h, rota: [dan, cy]}], loops: 1"), "free",
         "needs 2 of role:dba: ann, bob, cy; after 1 h also dan"),
        (rule(before="self_review: allow\n").replace("quorum: 2", "quorum: {count: 2, roles: [boss]}"), "",
         "needs 2 of role:dba, including role:boss: ann, bob, cy"),
        (DROP.replace(", reviewers: [role:dba]", "") + "}", "", "needs 2 different users; no people are listed"),
        (DROP.replace(", reviewers: [role:dba], quorum: 2", ", undo: 1h") + "}", "",
         "any user who can sign in; no people are listed"),
    ],
)  # fmt: skip
def test_reviewers_and_quorum_are_said_with_names(document: str, agent: str, says: str) -> None:
    policy = load_policy(document)
    found = everybody_asked(policy)[-1].of(policy, agent)
    assert found.says == says
    assert found.enough
    assert found.problem == ""


def test_who_asked_is_excluded_by_name_or_by_user() -> None:
    policy = load_policy(rule())
    for asked_by in ("bob", "robert"):
        found = deciders(policy, ("role:dba",), ONE_PERSON, Ladder(), "free", asked_by)
        assert (found.able, found.excluded) == (("ann", "cy"), (Out("bob", Excluded.ASKER),))


def test_a_rung_beyond_the_limit_adds_nobody() -> None:
    policy = load_policy(rule(", ladder: [{after: 1h, tell: [dan]}], limit: 2h"))
    assert everybody_asked(policy)[-1].of(policy).later == (Added(("dan",), "1 h"),)


def test_a_rota_means_who_is_on_duty_and_a_turn_that_is_over_nobody() -> None:
    text = f"{TEAM}rules: [{{name: r, gate: hard, reviewers: ['rota:nights'], ladder: [{{after: 1h, tell: [dan]}}]}}]"
    policy = load_policy(text)
    asked = everybody_asked(policy)[-1]
    on, off = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
    assert asked.of(policy, now=on).able == ("ann",)
    assert asked.of(policy, now=off).says == "needs 1 of rota:nights: nobody; after 1 h also dan"
    alone = text.replace(", ladder: [{after: 1h, tell: [dan]}]", "")
    load_policy(alone, now=on)
    with pytest.raises(PolicyError, match="can never be approved: needs 1 of rota:nights: nobody"):
        load_policy(alone, now=off)
    load_policy(alone, stored=True, now=off)


def test_rules_that_ask_the_same_people_are_one_and_forbidden_actions_ask_nobody() -> None:
    policy = load_policy(f"{TEAM}rules: [{{name: a, gate: hard}}, {{name: b, gate: forbid, quorum: 2}}]")
    assert [each.rule for each in everybody_asked(policy)] == ["a"]
    only_some = f"{TEAM}rules: [{{name: a, gate: hard}}, {{name: b, gate: forbid, quorum: 2}}]".replace(
        "gate", "actions: [x], gate"
    )
    policy = load_policy(only_some)
    assert [each.rule for each in everybody_asked(policy)] == [""]


def test_a_rule_that_no_call_of_an_agent_gets_to_is_not_about_that_agent() -> None:
    above = "{name: own, agents: [bot], gate: hard}"
    policy = load_policy(f"{TEAM}rules:\n  - {above}\n  - {{name: two, gate: hard, quorum: 2}}\n")
    assert [(each.rule, each.agents) for each in everybody_asked(policy)] == [
        ("own", ("bot",)),
        ("two", ()),
    ]
    policy = load_policy(f"{TEAM}rules:\n  - {{name: two, gate: hard, actions: [x], quorum: 2}}\n")
    assert [(each.rule, each.agents) for each in everybody_asked(policy)] == [("", ("bot",)), ("two", ("bot",))]


def test_of_very_many_people_only_some_are_named() -> None:
    names = [f"p{number}" for number in range(1_000)]
    policy = load_policy(f"people: {{{', '.join(f'{name}: ' for name in names)}}}\nrules: [{{name: r, gate: hard}}]")
    says = deciders(policy, (), ONE_PERSON, Ladder()).says
    assert says.startswith("needs 1 of everyone listed under people: p0, p1, ")
    assert says.endswith("p18, 981 others")
