"""Which calls never reach a rule, because rules above it match all of them.

What is said here is certain; where it is not, nothing is. The work is counted, because it grows with the square of the
number of rules, and whoever looks at a file decides how much of it is worth it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import inf

from assentry.core.pattern import is_wild, pattern
from assentry.core.policy import Rule

ALWAYS = ("", "true")


class TooMuch(Exception):
    """The work allowed for it is used up."""


@dataclass(slots=True)
class Work:
    """How many small steps may still be taken; without a number, as many as it takes."""

    left: float = inf

    def spend(self, steps: int = 1) -> None:
        """Raises `TooMuch` where fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuch


@dataclass(slots=True)
class Taken:
    """The calls that some rules match, whatever their arguments."""

    work: Work
    _pairs: dict[tuple[str, str], Rule] = field(default_factory=dict)
    _globs: list[Rule] = field(default_factory=list)

    def add(self, rule: Rule) -> None:
        """The rule is one of those that match."""
        if any(is_wild(each) and each != "*" for each in (*rule.actions, *rule.agents)):
            self._globs.append(rule)
            return
        self.work.spend(len(rule.actions) * len(rule.agents))
        for pair in product(rule.actions, rule.agents):
            self._pairs.setdefault(pair, rule)

    def by(self, action: str, agent: str) -> Rule | None:
        """A rule that matches every call of this action by this agent, each a name or a pattern."""
        self.work.spend()
        for pair in ((action, agent), (action, "*"), ("*", agent), ("*", "*")):
            if (found := self._pairs.get(pair)) is not None:
                return found
        for each in self._globs:
            self.work.spend(len(each.actions) + len(each.agents))
            if _includes(each.actions, action) and _includes(each.agents, agent):
                return each
        return None


@dataclass(slots=True)
class Above:
    """The rules above a rule."""

    work: Work
    _taken: dict[str, Taken] = field(default_factory=dict)
    """By condition. Rules without one stand under the empty text."""
    _at_most: Taken = field(init=False)
    """What they would take if every condition held."""

    def __post_init__(self) -> None:
        self._at_most = Taken(self.work)

    def add(self, rule: Rule) -> None:
        """The rule stands above those that are looked at from now on."""
        condition = "" if rule.when in ALWAYS else rule.when
        self._taken.setdefault(condition, Taken(self.work)).add(rule)
        self._at_most.add(rule)

    def covering(self, rule: Rule, agents: tuple[str, ...] | None = None) -> tuple[Rule, ...]:
        """Rules that leave no call to this one, or none of these agents' calls; empty if one may be left."""
        found: dict[str, Rule] = {}
        for action, agent in product(rule.actions, rule.agents if agents is None else agents):
            before = next((by for each in self._of(rule) if (by := each.by(action, agent)) is not None), None)
            if before is None:
                return ()
            found[before.name] = before
        return tuple(found.values())

    def may_cover(self, rule: Rule, agents: tuple[str, ...] | None = None) -> bool:
        """Whether, by their conditions, they might leave none of those calls to this rule."""
        pairs = product(rule.actions, rule.agents if agents is None else agents)
        return all(self._at_most.by(action, agent) is not None for action, agent in pairs)

    def _of(self, rule: Rule) -> Iterator[Taken]:
        """What is taken wherever the rule's own condition holds."""
        conditions = ("",) if rule.when in ALWAYS else ("", rule.when)
        return (self._taken[each] for each in conditions if each in self._taken)


def _includes(wide: tuple[str, ...], narrow: str) -> bool:
    return any(_includes_one(one, narrow) for one in wide)


def _includes_one(wide: str, narrow: str) -> bool:
    if wide in ("*", narrow):
        return True
    # A star can stand for another star or a question mark; beyond that, say only what is certain.
    certain = not any(character in wide for character in "?[") and "[" not in narrow
    return certain and pattern((wide,)).match(narrow) is not None
