"""Who can decide: reviewers and a quorum as the names of people, and whether they are enough.

Whether one person may decide one request, and whether votes suffice, is said in `authority`; here it is said of
everybody at once, before there is any vote.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from assentry.core.authority import Excluded, excluded
from assentry.core.coverage import Above, TooMuch, Work
from assentry.core.ladder import joining
from assentry.core.panel import Circle, Panel
from assentry.core.pattern import pattern
from assentry.core.policy import ONE_PERSON, Policy, Rule
from assentry.core.text import exact_span
from assentry.core.verdict import GateKind, Ladder, Quorum


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
        return f"{self.says}, and there is nobody for each of the roles {named(self.quorum.roles)}"

    @property
    def says(self) -> str:
        """Such as `needs 2 of role:dba: ann, bob (cy is excluded: owner of the agent)`."""
        count = self.quorum.count
        roles = shortened([f"role:{role}" for role in self.quorum.roles], "others")
        including = f", including {' and '.join(roles)}" if roles else ""
        if not self.listed:
            whom = "different users" if count > 1 else "any user who can sign in"
            return (
                f"needs {count} {whom}{including}; no people are listed"
                if count > 1
                else f"{whom}; no people are listed"
            )
        names = named(self.able) or "nobody"
        added = [f"after {each.after} also {named(each.names)}" for each in self.later]
        later = "".join(f"; {each}" for each in shortened(added, "steps"))
        without = "; ".join(shortened([f"{out.name} is excluded: {out.why}" for out in self.excluded], "people"))
        whom = " or ".join(shortened(self.reviewers, "others")) or "everyone listed under people"
        return f"needs {count} of {whom}{including}: {names}{later}{f' ({without})' if without else ''}"


_MOST_NAMED = 20


def named(names: Sequence[str]) -> str:
    """The names as a text; of very many only the first."""
    return ", ".join(shortened(names, "others"))


def shortened(parts: Sequence[str], what: str) -> Sequence[str]:
    """The parts of a sentence that people can still read, and how many more there are."""
    if len(parts) <= _MOST_NAMED:
        return parts
    return (*parts[: _MOST_NAMED - 1], f"{len(parts) - _MOST_NAMED + 1:,} {what}")


def deciders(
    policy: Policy,
    reviewers: tuple[str, ...],
    quorum: Quorum,
    ladder: Ladder,
    agent: str = "",
    asked_by: str = "",
    now: datetime | None = None,
    panel: Panel | None = None,
) -> Deciders:
    """The people who can decide what `agent` asks of these reviewers.

    A rota means who is on duty `now`; without a time, everybody who is at some time. `panel` is the policy's, where
    there is one already.
    """
    if not policy.people:
        return Deciders(reviewers, quorum, listed=False)
    panel = panel or Panel(policy, now=now)
    reasons = excluded(policy, agent, asked_by)
    out = panel.named(reasons)
    asked = everybody = panel.asked(reviewers)
    later: list[Added] = []
    for selectors, time in _told(ladder) if reviewers else ():
        told = panel.asked(selectors)
        if new := told & ~everybody & ~out:
            later.append(Added(panel.names(new), time))
        everybody |= told
    return Deciders(
        reviewers, quorum, panel.names(asked & ~out), tuple(later),
        tuple(Out(name, reasons[name]) for name in panel.names(everybody & out)),
        enough=Circle(panel, quorum, everybody & ~out).enough(),
    )  # fmt: skip


def _told(ladder: Ladder) -> Iterable[tuple[tuple[str, ...], str]]:
    """Whom each rung adds, and after what time. A rung that lies beyond the limit adds nobody."""
    for after, selectors in joining(ladder.rungs, ladder.loops):
        if ladder.limit is not None and after >= ladder.limit:
            return
        yield selectors, exact_span(after)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked by a rule, or where none matches, and how many of them must agree."""

    rule: str
    """Empty where no rule matches."""
    reviewers: tuple[str, ...]
    quorum: Quorum
    ladder: Ladder
    agents: tuple[str, ...] = ()
    """Those with a known owner of which some calls get there."""

    def of(self, policy: Policy, agent: str = "", now: datetime | None = None, panel: Panel | None = None) -> Deciders:
        """The people who can decide what is asked of them."""
        return deciders(policy, self.reviewers, self.quorum, self.ladder, agent, now=now, panel=panel)

    def is_like(self, other: "Asked") -> bool:
        """The same people are asked, for the same time."""
        mine, theirs = self.ladder, other.ladder
        # Ladders that inherit their rungs share them, and comparing long ones takes long.
        same = mine.rungs is theirs.rungs and (mine.loops, mine.limit) == (theirs.loops, theirs.limit)
        return same and (self.reviewers, self.quorum) == (other.reviewers, other.quorum)


def usual_asked(policy: Policy) -> Asked:
    """Who is asked where no rule matches."""
    return Asked("", policy.reviewers, ONE_PERSON, policy.ladder)


def asked_by_rule(policy: Policy, rule: Rule) -> Asked:
    """Who is asked by this rule."""
    return Asked(rule.name, rule.reviewers or policy.reviewers, rule.quorum, rule.ladder or policy.ladder)


def everybody_asked(policy: Policy) -> tuple[Asked, ...]:
    """Who is asked where no rule matches, then by each rule that asks others, or for more votes; if calls get there."""
    usual, owned = usual_asked(policy), [each.name for each in policy.agents if each.owner]
    work = Work(_MOST_WORK)
    above = Above(work)

    def reached(asked: Asked, rule: Rule) -> Iterator[Asked]:
        names = [each for each in owned if pattern(rule.agents).match(each)]
        try:
            if above.covering(rule):
                return
            names = [each for each in names if not above.covering(rule, (each,))]
        except TooMuch:
            pass  # Then it may be reached, for all that is known.
        yield replace(asked, agents=tuple(names))

    for rule in policy.rules:
        with suppress(TooMuch):
            above.add(rule)
    found, above = list(reached(usual, Rule(""))), Above(work)
    is_usual_asked = bool(found)
    for rule in policy.rules:
        asked = asked_by_rule(policy, rule)
        if rule.gate is not GateKind.FORBID and not (is_usual_asked and asked.is_like(usual)):
            found += reached(asked, rule)
        with suppress(TooMuch):
            above.add(rule)
    return tuple(found)


_MOST_WORK = 1_000_000
