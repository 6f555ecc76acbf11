"""What a policy says about an action: the gate, who is asked, how many must agree, and what time does."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from assentry.core.action import Ordered


class GateKind(Ordered):
    """How an action passes, from loosest to strictest. `ask` is for questions and stands beside the scale."""

    RUN = "run"
    WATCH = "watch"
    SOFT = "soft"
    HARD = "hard"
    MANUAL = "manual"
    FORBID = "forbid"
    ASK = "ask"

    @property
    def words(self) -> str:
        """What it means for an action, to whoever reads the rules."""
        return _WORDS[self]

    @property
    def holds(self) -> bool:
        """Nothing runs before somebody was asked."""
        return self in _HOLDING

    @property
    def runs_at_once(self) -> bool:
        """It runs, and nobody is asked before."""
        return self is GateKind.RUN or self is GateKind.WATCH


class IfChanged(Enum):
    """What happens to something approved when what it depends on is no longer as the person saw it."""

    ASK = "ask"
    RUN = "run"

    def __str__(self) -> str:
        return self.value


class AtEnd(Enum):
    """What happens when the ladder is used up. There is no word for approve; `proceed` is for soft gates alone."""

    DENY = "deny"
    STAY = "stay"
    PROCEED = "proceed"


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: `after` that much time a reminder is due, and those in `tell` may decide as well."""

    after: timedelta
    remind: bool = False
    tell: tuple[str, ...] = ()
    rota: tuple[str, ...] = ()
    """People or roles that take turns: each time the rung is climbed, the next of them may decide as well."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """What happens as time passes without a decision."""

    rungs: tuple[Rung, ...] = ()
    loops: int = 0
    """How often the rungs are climbed again after the first time."""
    limit: timedelta | None = timedelta(hours=1)
    """When the end is reached; `None` means never."""
    at_end: AtEnd = AtEnd.DENY


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many distinct people must approve, and which roles must be among them."""

    count: int = 1
    roles: tuple[str, ...] = ()


def joined(reviewers: tuple[str, ...], own: Quorum, both: Quorum) -> tuple[tuple[str, ...], Quorum]:
    """These reviewers and whoever holds a role that `both` demands beyond their `own` quorum, and how many must agree.

    Where two quorums hold at once and one list of reviewers is asked, the other's roles could never be filled else.
    Whoever is added comes on top of those who were asked: a manager does not stand in for one of two of finance.
    """
    more = tuple(role for role in both.roles if role not in own.roles)
    if not reviewers or not more:
        return reviewers, both
    asked = tuple(dict.fromkeys((*reviewers, *(f"role:{role}" for role in more))))
    return asked, Quorum(max(both.count, own.count + len(more)), both.roles)


@dataclass(frozen=True, slots=True)
class Trigger:
    """One reason to stop, in words. `gate` is the least that this reason demands."""

    name: str
    says: str
    gate: GateKind


DEFAULT = "default: "
"""What the name of a default begins with; no rule may be called so."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate an action must pass, the rule that chose it, a sentence of reason, and every trigger that fired."""

    gate: GateKind
    rule: str
    because: str
    triggers: tuple[Trigger, ...] = ()
    reviewers: tuple[str, ...] = ()
    """Selectors (`alice`, `role:manager`, `team:platform`); empty means anyone who may review."""
    quorum: Quorum = Quorum()
    ladder: Ladder = Ladder()
    undo_window: timedelta = timedelta(minutes=30)
    review_after: bool = False
    if_changed: IfChanged = IfChanged.ASK
    """Show in the inbox for review once it has run, without blocking anything."""
    observed: GateKind | None = None
    """In observe mode: the gate that would have held this. Nothing is held while it is set."""
    grant: str | None = None
    """The grant that lifted the gate, if one did."""
    policy_version: int = 0

    @property
    def by_default(self) -> bool:
        """No rule matched."""
        return self.rule.startswith(DEFAULT)


_WORDS = {
    GateKind.RUN: "runs at once",
    GateKind.WATCH: "runs at once and is noted down",
    GateKind.SOFT: "runs unless somebody objects in time",
    GateKind.HARD: "waits for a person",
    GateKind.MANUAL: "waits for a person who types what they confirm",
    GateKind.ASK: "asks a person what to do",
    GateKind.FORBID: "is forbidden",
}
_HOLDING = {GateKind.SOFT, GateKind.HARD, GateKind.MANUAL, GateKind.ASK}
