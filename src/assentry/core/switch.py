"""The stop switch of an agent, or of everything: one row that every process looks at before it does anything."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

EVERYTHING = "*"


class Setting(Enum):
    """What a switch says."""

    GO = "go"
    PAUSE = "pause"
    """Nothing new is done until somebody says go; calls wait."""
    STOP = "stop"
    """Nothing new is done until somebody says go; calls are turned away."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Switch:
    """How the switch of one agent, or of everything, was last set, by whom and why."""

    workspace: str
    agent: str
    """`*` is everything."""
    setting: Setting
    by: str
    at: datetime
    reason: str = ""
    version: int = 0
    denials: int = 0
    """How often people have denied the agent something since they last allowed it anything."""

    @property
    def is_held(self) -> bool:
        return self.setting is not Setting.GO

    def is_eased_by(self, setting: Setting) -> bool:
        """Whether this setting would hold up less than the present one."""
        order = (Setting.GO, Setting.PAUSE, Setting.STOP)
        return order.index(setting) < order.index(self.setting)

    @property
    def says(self) -> str:
        """In words, for whoever is held up by it."""
        whom = "everything" if self.agent == EVERYTHING else self.agent
        word = "paused" if self.setting is Setting.PAUSE else "stopped"
        return f"{whom} was {word} by {self.by}{f': {self.reason}' if self.reason else ''}"


def holding(switches: Iterable[Switch], agent: str) -> Switch | None:
    """The switch that holds this agent up, the strictest first."""
    held = [each for each in switches if each.is_held and each.agent in (agent, EVERYTHING)]
    return max(held, key=lambda each: each.setting is Setting.STOP, default=None)
