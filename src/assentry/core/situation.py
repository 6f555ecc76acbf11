"""What a run has done so far, as far as policy looks at it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from operator import attrgetter

from assentry.core.action import Json
from assentry.core.grant import Grant
from assentry.core.run import NO_SCOPE, Scope


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands when it proposes an action: kept with the request, so that judging it again sees the same.

    The empty one stands for a call outside any run.
    """

    run: str = ""
    goal: str = ""
    agent: str = ""
    steps: int = 0
    spend: float = 0.0
    spent_today: float = 0.0
    """What the agent has spent in all its runs of this day."""
    scope: Scope = NO_SCOPE
    """What the operator's code set as the scope of the run; never derived from prose."""
    used: Mapping[str, Decimal] = field(default_factory=dict)
    """How much of each limit of the scope is used up."""
    unchecked_steps: int = 0
    unchecked: timedelta = timedelta()
    """How many steps and how long it is since a person last looked in."""

    def as_variable(self) -> dict[str, Json]:
        """The variable `run` of conditions."""
        return {
            "id": self.run,
            "goal": self.goal,
            "agent": self.agent,
            "steps": self.steps,
            "spend": self.spend,
            "scope": {name: float(most) for name, most in self.scope.limits.items()},
        }


@dataclass(frozen=True, slots=True)
class Situation(Standing):
    """What an action is judged in: where its run stands, and the grants that hold now."""

    grants: tuple[Grant, ...] = ()


_values = attrgetter(*(each.name for each in fields(Standing)))


def in_situation(standing: Standing, grants: tuple[Grant, ...]) -> Situation:
    """The standing with the grants that hold now."""
    make: Callable[..., Situation] = Situation
    return make(*_values(standing), grants)


EMPTY = Situation()
"""No run: nothing done, nothing granted."""
