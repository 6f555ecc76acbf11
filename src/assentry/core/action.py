"""What an agent wants to do, and what doing it would mean.

Values only: an `Action` is a proposed call, an `Effect` the four answers about it, a `Risk` what the
answers add up to. How the answers are found lives in `classify`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Json = Any
"""A value that JSON can carry. Spelled `Any` because a recursive alias helps nobody who reads an error."""


class Ordered(Enum):
    """An enumeration whose members compare by the order in which they are written."""

    def __init__(self, *_value: object) -> None:
        self.rank = len(type(self).__members__)

    def __lt__(self, other: "Ordered") -> bool:
        return self.rank < other.rank

    def __le__(self, other: "Ordered") -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: "Ordered") -> bool:
        return self.rank > other.rank

    def __ge__(self, other: "Ordered") -> bool:
        return self.rank >= other.rank

    def __str__(self) -> str:
        return str(self.value)


class Reach(Ordered):
    """How far an effect reaches."""

    NOTHING = "nothing"
    LOCAL = "local"
    SERVICE = "service"
    ORGANISATION = "organisation"


class Risk(Ordered):
    """What the four answers add up to."""

    SAFE = "safe"
    RISKY = "risky"
    DANGEROUS = "dangerous"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Effect:
    """The four answers: can it be undone, how far does it reach, does it leave our systems, does it cost money?"""

    reversible: bool
    reach: Reach
    outside: bool = False
    money: bool = False

    @property
    def is_read(self) -> bool:
        """Nothing changes anywhere and nothing is paid."""
        return self.reach is Reach.NOTHING and not self.money

    @property
    def risk(self) -> Risk:
        """The risk level of these four answers, from the one table."""
        return RISK_OF[self]


def _row(reversible: bool, reach: Reach, plain: str, outside: str, money: str, both: str) -> dict[Effect, Risk]:
    return {
        Effect(reversible, reach, outside=False, money=False): Risk(plain),
        Effect(reversible, reach, outside=True, money=False): Risk(outside),
        Effect(reversible, reach, outside=False, money=True): Risk(money),
        Effect(reversible, reach, outside=True, money=True): Risk(both),
    }


RISK_OF: dict[Effect, Risk] = {
    #          can be undone, reach        plain        leaves us    costs money  both
    **_row(True, Reach.NOTHING, "safe", "safe", "risky", "risky"),
    **_row(True, Reach.LOCAL, "risky", "risky", "dangerous", "dangerous"),
    **_row(True, Reach.SERVICE, "risky", "dangerous", "dangerous", "dangerous"),
    **_row(True, Reach.ORGANISATION, "dangerous", "dangerous", "critical", "critical"),
    **_row(False, Reach.NOTHING, "risky", "risky", "dangerous", "dangerous"),
    **_row(False, Reach.LOCAL, "dangerous", "dangerous", "critical", "critical"),
    **_row(False, Reach.SERVICE, "dangerous", "dangerous", "critical", "critical"),
    **_row(False, Reach.ORGANISATION, "critical", "critical", "critical", "critical"),
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the operator says of an action, in a decorator or a policy file. `None` leaves the answer open."""

    reversible: bool | None = None
    reach: Reach | None = None
    outside: bool | None = None
    money: bool | None = None
    risk: Risk | None = None

    @property
    def is_empty(self) -> bool:
        return self == NOTHING_DECLARED

    @property
    def answers(self) -> list[str]:
        """The questions that it answers."""
        return [name for name in ("reversible", "reach", "outside", "money") if getattr(self, name) is not None]

    @property
    def is_complete(self) -> bool:
        """It leaves none of the four questions open."""
        return len(self.answers) == 4


NOTHING_DECLARED = Declaration()
QUESTIONS = ("reversible", "reach", "outside", "money", "risk")
"""What a declaration may answer: the four questions, and the risk outright."""


class Speaker(Enum):
    """Who declares something of an action."""

    CODE = "code"
    POLICY = "policy"
    SOURCE = "source"
    """Whoever offers it: a server's hints, an agent elsewhere."""


@dataclass(frozen=True, slots=True)
class Word:
    """One answer that somebody gave about an action, and whether it counts."""

    by: Speaker
    about: str
    answer: bool | str
    counts: bool = True
    because: str = ""
    instead: bool = False
    """The policy gave it to stand instead of another answer in the code."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something Assentry derived from the arguments, or the operator's own lookup returned; never the agent's word."""

    name: str
    value: Json
    says: str
    hurts: bool = False
    looked_up: bool = False
    unit: str = ""
    """What a count counts, in the plural: `files`."""


@dataclass(frozen=True, slots=True)
class Action:
    """A call an agent wants to make. What it claims about the call (why, confidence …) is kept apart as claims."""

    name: str
    args: Mapping[str, Json]
    agent: str = "agent"
    description: str = ""
    schema: Mapping[str, Json] | None = None
    declared: Declaration = NOTHING_DECLARED
    """The word of the code that guards or proposes it; the policy's is asked for whenever it is judged."""
    trusted: bool = True
    """The operator vouches for where name, description and schema come from (own code: yes; a foreign server: no)."""
    why: str = ""
    goal: str = ""
    confidence: float | None = None
    cost: float | None = None
    alternatives: tuple[str, ...] = ()
    claimed: Declaration = NOTHING_DECLARED
    """What whoever offers it says of its effect. Unless the operator vouches for them, it can only raise the risk."""


class Basis(Enum):
    """What a classification rests on."""

    DECLARED = "declared"
    CATALOGUE = "catalogue"
    NAMES = "names"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The effect of an action, its risk, and every reason that led there."""

    effect: Effect
    risk: Risk
    basis: Basis
    reasons: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = field(default=())
    vouched: bool = True
    """How far it reaches is the operator's word, or comes from a source that somebody vouches for."""
    words: tuple[Word, ...] = ()
    """Who declared what of it, and what counts."""

    @property
    def is_known(self) -> bool:
        return self.basis is not Basis.UNKNOWN

    @property
    def only_reads(self) -> bool:
        """It changes nothing, and not just by the word of whoever wants to run it: no stranger's name makes a read."""
        return self.effect.is_read and self.vouched
