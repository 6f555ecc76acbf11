"""An agent's work as a whole: what it was asked for, what it may do, how far it came, and what it waits for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum

from assentry.core.action import Json


class RunState(Enum):
    """Where a run stands."""

    RUNNING = "running"
    PARKED = "parked"
    """It waits for a person, as rows and no process; a host goes on with it."""
    PAUSED = "paused"
    """A person stopped the clock; it goes on when they say so."""
    ORPHANED = "orphaned"
    """Its process vanished and nothing can resume it; entering it again with its key goes on."""
    STOPPING = "stopping"
    """A person ended it; its process has not noticed yet."""
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value

    @property
    def is_open(self) -> bool:
        """Something or somebody still has to move it."""
        return self in OPEN_RUNS


OPEN_RUNS = frozenset({RunState.RUNNING, RunState.PARKED, RunState.PAUSED, RunState.ORPHANED, RunState.STOPPING})


@dataclass(frozen=True, slots=True)
class Scope:
    """What the operator's code allowed a run to do. Set in code, never derived from prose; empty means: not said."""

    actions: tuple[str, ...] = ()
    """Patterns of actions that were asked for; they need no default gate while they keep within the rest."""
    limits: Mapping[str, Decimal] = field(default_factory=dict)
    """The most of each thing over the whole run: `files: 20`, `EUR: 50`, `steps: 100`."""
    recipients: tuple[str, ...] = ()
    """Addresses or `@domain`s it may write to."""
    paths: tuple[str, ...] = ()
    """Directories it may touch."""

    @property
    def is_empty(self) -> bool:
        return not (self.actions or self.limits or self.recipients or self.paths)


NO_SCOPE = Scope()


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One thing the agent says it will do."""

    says: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that came back from the world, shortened; `trusted` if it cannot carry a stranger's words."""

    source: str
    text: str
    trusted: bool = False
    at: datetime | None = None
    """When it was put on record."""


@dataclass(frozen=True, slots=True)
class Run:
    """One piece of an agent's work and everything that has happened to it so far."""

    id: str
    code: str
    workspace: str
    agent: str
    asked_by: str
    created_at: datetime
    goal: str
    original: str = ""
    """The request in the person's own words."""
    scope: Scope = NO_SCOPE
    host: str = ""
    """What can resume it; empty means that only a process that enters it with its key can."""
    key: str = ""
    """Entering with the same key goes on with the same run."""
    parent: str = ""
    state: RunState = RunState.RUNNING
    version: int = 1
    changed_at: datetime | None = None
    due_at: datetime | None = None
    """When its process must have shown that it lives."""
    worker: str = ""
    fence: int = 1
    """Grows with every process that takes it up; what an older one says no longer counts."""
    waits: tuple[str, ...] = ()
    """The requests it is parked on; any of them, decided, wakes it."""
    parked_at: datetime | None = None
    plan: tuple[PlanStep, ...] = ()
    steps: int = 0
    spend: Decimal = Decimal(0)
    used: Mapping[str, Decimal] = field(default_factory=dict)
    """How much of each limit of its scope is used up."""
    checked_at: datetime | None = None
    checked_steps: int = 0
    """When and at which step a person last looked in."""
    confidence: float | None = None
    observations: tuple[Observation, ...] = ()
    paused_from: RunState | None = None
    by: str = ""
    reason: str = ""
    """Who ended, paused or stopped it, and why."""
    outcome: Json = None
    error: str = ""
    switch: str = ""
    """The stop switch that paused it; empty where somebody paused this very run."""

    @property
    def is_held(self) -> bool:
        """A person has stopped it, for now or for good."""
        return self.state in (RunState.PAUSED, RunState.STOPPING, RunState.STOPPED)
