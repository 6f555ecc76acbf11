"""What a run has done so far, as far as policy looks at it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from assent.core.action import Json
from assent.core.grant import Grant


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a run stands when it proposes an action. The empty one stands for a call outside any run."""

    run: str = ""
    goal: str = ""
    agent: str = ""
    steps: int = 0
    spend: float = 0.0
    scope: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    """What the operator's code set as the scope of the run; never derived from prose."""
    grants: tuple[Grant, ...] = ()

    def as_variable(self) -> dict[str, Json]:
        """The variable `run` of conditions."""
        return {
            "id": self.run,
            "goal": self.goal,
            "agent": self.agent,
            "steps": self.steps,
            "spend": self.spend,
            "scope": self.scope,
        }


EMPTY = Situation()
"""No run: nothing done, nothing granted."""
