"""Who can decide: reviewers and a quorum as the names of people, and whether they are enough.

Whether one person may decide one request, and whether votes suffice, is said in `authority`; here the same functions
are asked about everybody at once, before there is any vote.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from assentry.core.authority import Excluded, Principal, eligible, quorum_met, why_excluded
from assentry.core.ladder import climb
from assentry.core.pattern import pattern
from assentry.core.policy import ONE_PERSON, Policy
from assentry.core.text import exact_span
from assentry.core.verdict import GateKind, Ladder, Quorum

_START = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Added:
    """People whom the ladder adds, and the time that takes."""

    names: tuple[str, ...]
    after: str


@dataclass(frozen=True, slots=True)
class Out:
    """Somebody who is a reviewer and has no vote."""

    name: str
    why: Excluded


@dataclass(frozen=True, slots=True)
class Deciders:
    """The people who can decide one kind of request."""

    reviewers: tuple[str, ...]
    quorum: Quorum
    able: tuple[str, ...] = ()
    """Who can decide from the start."""
    later: tuple[Added, ...] = ()
    excluded: tuple[Out, ...] = ()
    enough: bool = True
    """They can meet the quorum, at the latest when the ladder has added everybody."""
    listed: bool = True
    """The policy lists people. If it does not, anyone who can sign in decides."""

    @property
    def everybody(self) -> tuple[str, ...]:
        """Who can decide at some time."""
        return (*self.able, *(name for added in self.later for name in added.names))

    @property
    def problem(self) -> str:
        """Why they cannot meet the quorum; empty if they can."""
        if self.enough:
            return ""
        people = self.everybody
        if not people:
            return self.says
        if len(people) < self.quorum.count:
            return f"{self.says}, so only {len(people)} can decide"
        return f"{self.says}, and there is nobody for each of the roles {', '.join(self.quorum.roles)}"

    @property
    def says(self) -> str:
        """Such as `needs 2 of role:dba: ann, bob (cy is excluded: owner of the agent)`."""
        count = self.quorum.count
        roles = f", including {' and '.join(f'role:{role}' for role in self.quorum.roles)}" if self.quorum.roles else ""
        if not self.listed:
            whom = "different users" if count > 1 else "any user who can sign in"
            return (
                f"needs {count} {whom}{roles}; no people are listed" if count > 1 else f"{whom}; no people are listed"
            )
        names = ", ".join(self.able) or "nobody"
        later = "".join(f"; after {added.after} also {', '.join(added.names)}" for added in self.later)
        without = "; ".join(f"{out.name} is excluded: {out.why}" for out in self.excluded)
        whom = " or ".join(self.reviewers) or "everyone listed under people"
        return f"needs {count} of {whom}{roles}: {names}{later}{f' ({without})' if without else ''}"


def deciders(
    policy: Policy,
    reviewers: tuple[str, ...],
    quorum: Quorum,
    ladder: Ladder,
    agent: str = "",
    asked_by: str = "",
    now: datetime | None = None,
    without: Iterable[str] = (),
) -> Deciders:
    """The people who can decide what `agent` asks of these reviewers; `without` leaves out some by name.

    A rota means who is on duty `now`; without a time, everybody who is at some time.
    """
    if not policy.people:
        return Deciders(reviewers, quorum, listed=False)
    left_out = frozenset(without)
    excluded: dict[str, Excluded] = {}

    def able(selectors: tuple[str, ...]) -> list[Principal]:
        found = []
        for each in eligible(policy, selectors, now):
            if (why := why_excluded(policy, each, agent, asked_by)) is not None:
                excluded[each.name] = why
            elif each.name not in left_out:
                found.append(each)
        return found

    first = able(reviewers)
    everybody = {each.name: each for each in first}
    later: list[Added] = []
    for selectors, time in _told(ladder) if reviewers else ():
        new = [each for each in able(selectors) if each.name not in everybody]
        everybody |= {each.name: each for each in new}
        if new:
            later.append(Added(tuple(each.name for each in new), time))
    return Deciders(
        reviewers, quorum, tuple(each.name for each in first), tuple(later),
        tuple(Out(*each) for each in excluded.items()),
        enough=quorum_met(quorum, everybody.values()),
    )  # fmt: skip


def _told(ladder: Ladder) -> Iterable[tuple[tuple[str, ...], str]]:
    """Whom each rung adds, and after what time. A rung that lies beyond the limit adds nobody."""
    turns = max((len(rung.rota) for rung in ladder.rungs), default=0)
    for number in range(len(ladder.rungs) * (min(ladder.loops, turns) + 1)):
        reached = climb(ladder, _START, number)
        if reached is None:
            return
        if reached.adds:
            yield reached.adds, exact_span(reached.at - _START)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked by a rule, or where none matches, and how many of them must agree."""

    rule: str
    """Empty where no rule matches."""
    reviewers: tuple[str, ...]
    quorum: Quorum
    ladder: Ladder
    agents: tuple[str, ...] = ("*",)

    def of(self, policy: Policy, agent: str = "", now: datetime | None = None, without: Iterable[str] = ()) -> Deciders:
        """The people who can decide what is asked of them."""
        return deciders(policy, self.reviewers, self.quorum, self.ladder, agent, now=now, without=without)

    def owned(self, policy: Policy) -> Iterable[str]:
        """Agents that this is about and whose owner is known."""
        names = pattern(self.agents)
        return (each.name for each in policy.agents if each.owner and names.match(each.name))


def everybody_asked(policy: Policy) -> tuple[Asked, ...]:
    """Who is asked where no rule matches, then by each rule that asks others, or for more votes."""
    usual = Asked("", policy.reviewers, ONE_PERSON, policy.ladder)
    by_rules = (
        Asked(rule.name, rule.reviewers or policy.reviewers, rule.quorum, rule.ladder or policy.ladder, rule.agents)
        for rule in policy.rules
        if rule.gate is not GateKind.FORBID
    )
    return (usual, *(each for each in by_rules if replace(each, rule="", agents=("*",)) != usual))
