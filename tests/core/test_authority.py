"""Who may decide: people, known, not their own work, among those asked, and each once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.authority import (
    EVERYTHING,
    Principal,
    eligible,
    may_decide,
    principal_named,
    quorum_met,
    resolve,
    selects,
)
from assentry.core.policy import AgentEntry, Person, Policy
from assentry.core.verdict import Quorum

TEAM = Policy(
    people=(
        Person("alice", ("manager",), ("platform",), ("al", "alice-ws")),
        Person("bob", ("finance",), (), ("bob",)),
        Person("carol", ("finance", "manager"), ("platform",)),
    ),
    agents=(AgentEntry("payer", owner="bob"),),
)
ALONE = Policy()


def person(name: str) -> Principal:
    found = principal_named(TEAM, name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("os_user", "name"), [("al", "alice"), ("alice-ws", "alice"), ("bob", "bob"), ("root", None), ("", None)]
)
def test_operating_system_users_become_the_people_of_the_policy(os_user: str, name: str | None) -> None:
    found = resolve(TEAM, os_user)
    assert (found.name if found else None) == name


def test_alone_whoever_sits_there_may_decide_anything() -> None:
    me = resolve(ALONE, "me")
    assert me == Principal("me", "person", (EVERYTHING,), (EVERYTHING,))
    assert may_decide(ALONE, me, ("role:finance",), "payer", "me") is None
    assert may_decide(ALONE, me, ("alice",), "payer", "me") is None
    assert resolve(ALONE, "") is None


@pytest.mark.parametrize(
    ("principal", "more", "says"),
    [
        (person("alice"), {}, None),
        (person("alice"), {"reviewers": ("alice",)}, None),
        (person("alice"), {"reviewers": ("bob", "role:manager")}, None),
        (person("alice"), {"reviewers": ("team:platform",)}, None),
        (person("bob"), {"reviewers": ("role:manager", "team:platform")}, "waits for role:manager or team:platform"),
        (None, {}, "nobody is known"),
        (Principal("zoe"), {}, "not among the people"),
        (Principal("zoe", roles=(EVERYTHING,)), {}, "not among the people"),
        (Principal("bob", roles=("manager",)), {"reviewers": ("role:manager",)}, "not one of them"),
        (Principal("cleanup", "agent"), {}, "agents never decide"),
        (Principal("alice", "agent"), {}, "agents never decide"),
        (person("bob"), {"agent": "payer"}, "owns payer"),
        (person("alice"), {"asked_by": "alice"}, "made this request"),
        (person("alice"), {"asked_by": "al"}, "made this request"),
        (person("alice"), {"asked_by": "bob"}, None),
        (person("alice"), {"already_voted": ("alice",)}, "already decided"),
        (person("alice"), {"already_voted": ("bob",)}, None),
        (person("alice"), {"agent": "alice"}, "cannot decide"),
    ],
)
def test_may_decide_gives_the_reason_why_not(
    principal: Principal | None, more: dict[str, Any], says: str | None
) -> None:
    reason = may_decide(TEAM, principal, **{"reviewers": (), "agent": "cleanup", **more})
    assert reason is None if says is None else says in (reason or "")


def test_self_review_is_allowed_only_where_it_is_said_or_nobody_else_is_known() -> None:
    from dataclasses import replace

    own = (person("bob"), (), "payer", "bob")
    assert may_decide(TEAM, *own) is not None
    assert may_decide(replace(TEAM, self_review=True), *own) is None
    me = resolve(ALONE, "me")
    assert may_decide(ALONE, me, (), "x", "me") is None
    assert may_decide(replace(ALONE, self_review=False), me, (), "x", "me") is not None


def test_selectors() -> None:
    assert selects("role:manager", person("alice"))
    assert not selects("role:Manager", person("alice"))
    assert not selects("group:manager", person("alice"))
    assert not selects("role:alice", person("alice"))
    assert {each.name for each in eligible(TEAM, ("role:finance",))} == {"bob", "carol"}
    assert len(eligible(TEAM, ())) == 3


@pytest.mark.parametrize(
    ("quorum", "names", "met"),
    [
        (Quorum(), [], False),
        (Quorum(), ["alice"], True),
        (Quorum(2), ["alice", "alice"], False),
        (Quorum(2), ["alice", "bob"], True),
        (Quorum(2, ("finance",)), ["alice", "bob"], True),
        (Quorum(2, ("finance",)), ["alice", "alice"], False),
        (Quorum(2, ("finance", "manager")), ["alice", "carol"], True),
        (Quorum(2, ("manager", "finance")), ["carol", "bob"], True),
        (Quorum(2, ("finance", "manager")), ["carol"], False),
        (Quorum(1, ("finance", "manager")), ["carol"], False),
        (Quorum(2, ("manager", "manager")), ["alice", "bob"], False),
        (Quorum(2, ("manager", "manager")), ["alice", "carol"], True),
    ],
)
def test_a_quorum_counts_distinct_people_and_gives_each_role_one_of_its_own(
    quorum: Quorum, names: list[str], met: bool
) -> None:
    assert quorum_met(quorum, tuple(person(name) for name in names)) is met


def test_an_agent_does_not_count_for_a_quorum() -> None:
    assert not quorum_met(Quorum(1), (Principal("x", "agent"),))


ROLES = st.lists(st.sampled_from("abc"), max_size=3).map(tuple)
PRINCIPALS = st.lists(st.builds(Principal, st.sampled_from("wxyz"), st.just("person"), ROLES), max_size=5)


@given(st.integers(1, 3), ROLES, PRINCIPALS, PRINCIPALS)
def test_more_approvals_never_undo_a_quorum(
    count: int, roles: tuple[str, ...], approvals: list[Principal], more: list[Principal]
) -> None:
    quorum = Quorum(count, roles)
    known = {each.name for each in approvals}
    if quorum_met(quorum, approvals):
        assert quorum_met(quorum, [*approvals, *(each for each in more if each.name not in known)])
        assert len(known) >= max(count, len(roles))
