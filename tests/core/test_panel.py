"""What is reckoned for a whole file at once is what `authority` says of each person and each quorum."""

from datetime import UTC, datetime, timedelta
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from assentry.core.authority import eligible, quorum_met
from assentry.core.ladder import climb, joining
from assentry.core.panel import Circle, Panel
from assentry.core.policy import Person, Policy
from assentry.core.rota import Rota
from assentry.core.verdict import Ladder, Quorum, Rung

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
ROLES = ("a", "b", "c", "*")
SELECTORS = (
    "p0",
    "p1",
    "p2",
    "role:a",
    "role:b",
    "role:z",
    "team:a",
    "team:b",
    "rota:n",
    "rota:none",
    "bad:a",
    "nobody",
)
GROUPS = st.lists(st.sampled_from(ROLES), unique=True, max_size=3).map(tuple)
POLICIES = st.lists(st.tuples(GROUPS, GROUPS), min_size=1, max_size=6).map(
    lambda found: Policy(
        people=tuple(Person(f"p{number}", *groups) for number, groups in enumerate(found)),
        rotas=(Rota("n", weekly=("p1", "p2", "gone"), begins=NOW),),
    )
)
QUORUMS = st.builds(Quorum, st.integers(1, 4), st.lists(st.sampled_from(("a", "b", "c")), max_size=3).map(tuple))


@given(POLICIES, st.sampled_from(SELECTORS), st.booleans())
def test_a_selector_means_the_same_people(policy: Policy, selector: str, on_duty: bool) -> None:
    now = NOW if on_duty else None
    panel = Panel(policy, now=now)
    assert panel.names(panel.selected(selector)) == tuple(each.name for each in eligible(policy, (selector,), now))


@given(POLICIES, QUORUMS, st.data())
def test_enough_and_needed_are_what_trying_every_person_gives(
    policy: Policy, quorum: Quorum, data: st.DataObject
) -> None:
    reviewers = tuple(data.draw(st.lists(st.sampled_from(SELECTORS), unique=True, max_size=3)))
    panel = Panel(policy)
    circle = panel.circle(reviewers, quorum, Ladder())
    people = eligible(policy, reviewers)
    assert panel.names(circle.everybody) == tuple(each.name for each in people)
    for out in ((), *combinations([each.name for each in policy.people], 1), *combinations(["p0", "p1", "p2"], 2)):
        left = [each for each in people if each.name not in out]
        met = quorum_met(quorum, left)
        assert circle.enough(panel.named(out)) is met
        spared = {each.name for each in left if quorum_met(quorum, [other for other in left if other is not each])}
        needed = set(panel.names(circle.needed(panel.named(out))))
        assert needed == ({each.name for each in left} - spared if met else set())


RUNGS = st.lists(
    st.tuples(st.integers(1, 5), st.lists(st.sampled_from("xyz"), max_size=2), st.lists(st.sampled_from("uvw"), max_size=3)),
    max_size=4,
)  # fmt: skip


@given(RUNGS, st.integers(0, 5), st.none() | st.integers(1, 60))
def test_who_joins_is_who_climbing_every_rung_adds(
    found: list[tuple[int, list[str], list[str]]], loops: int, limit: int | None
) -> None:
    rungs, after = [], timedelta()
    for minutes, tell, rota in found:
        after += timedelta(minutes=minutes)
        rungs.append(Rung(after, tell=tuple(tell), rota=tuple(rota)))
    ladder = Ladder(tuple(rungs), loops, None if limit is None else timedelta(minutes=limit))
    climbed: dict[str, timedelta] = {}
    for number in range(len(rungs) * (loops + 1)):
        if (step := climb(ladder, NOW, number)) is not None:
            for each in step.adds:
                climbed.setdefault(each, step.at - NOW)
    joined: dict[str, timedelta] = {}
    for at, selectors in joining(ladder.rungs, ladder.loops):
        if ladder.limit is None or at < ladder.limit:
            for each in selectors:
                joined.setdefault(each, at)
    assert joined == climbed


def test_whoever_joins_before_the_limit_counts() -> None:
    policy = Policy(people=tuple(Person(f"p{number}") for number in range(4)))
    rungs = tuple(Rung(timedelta(hours=number), tell=(f"p{number}",)) for number in (1, 2, 3))
    for limit, many in ((None, 4), (timedelta(hours=3), 3), (timedelta(minutes=1), 1)):
        circle: Circle = Panel(policy).circle(("p0",), Quorum(), Ladder(rungs, 0, limit))
        assert circle.everybody.bit_count() == many
