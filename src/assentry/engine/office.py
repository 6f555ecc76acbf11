"""What runs of one gate share, where they can stop, and what makes a call look again before it is on record."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from assentry.core.action import Json
from assentry.core.policy import Limits
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.core.switch import Switch
from assentry.core.verdict import GateKind
from assentry.ports import Store, Vault, View

if TYPE_CHECKING:
    from assentry.engine.portal import Portal
    from assentry.engine.tool import OptionSpec
    from assentry.engine.waiting import Hub

INSIDE: ContextVar[bool] = ContextVar("assentry_inside", default=False)
"""The code is part of a guarded call that runs: it cannot be parked halfway, so what waits inside waits here."""


@contextmanager
def inside() -> Iterator[None]:
    """What follows is part of a guarded call that runs."""
    before = INSIDE.get()
    INSIDE.set(True)
    try:
        yield
    finally:
        INSIDE.set(before)


class Held(Exception):
    """A person has paused or stopped the run since it was last looked at; nothing was written."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.code)
        self.run = run


class HeldUp(Exception):
    """A stop switch was set since the switches were last looked at; nothing was written."""

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch.agent)
        self.switch = switch


def nobody_holds(view: View) -> None:
    """No switch holds up the agent that the transaction names; raises `HeldUp` where one does."""
    if view.switches:
        raise HeldUp(view.switches[0])


class NotAsked(Exception):
    """Policy holds nothing here, so nobody was asked."""


class Outpaced(Exception):
    """Other calls of the run were faster, and what it was given is used up; nothing was written."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.code)
        self.run = run


@dataclass(frozen=True, slots=True)
class StopPoint:
    """A place where a run stops for a person: what they see, why, and what they may change or choose."""

    kind: str
    args: Mapping[str, Json]
    says: str
    why: str
    gate: GateKind = GateKind.HARD
    editable: frozenset[str] = frozenset()
    options: "tuple[OptionSpec, ...]" = ()
    insists: bool = False
    """Where policy would not hold it, whoever stopped here is told (`NotAsked`) instead of going on."""
    key: str = ""
    """The name of the step, where it is not told by what is shown."""
    draft_of: str = ""


@dataclass(frozen=True, slots=True)
class Office:
    """What runs of one gate share."""

    store: Store
    workspace: str
    worker: str
    lease: timedelta
    hub: "Hub"
    portal: "Portal"
    vault: Vault
    asked_by: str
    new_code: Callable[[], str]
    stop_point: Callable[[Any, StopPoint], Awaitable[tuple[str, Mapping[str, Json]]]]
    stop_put: Callable[[Any, StopPoint], Awaitable[Request | None]]
    """The request of a stop point, on record and not waited for; none where nobody has to be asked."""
    ask: Callable[..., Awaitable[Json]]
    tools: Mapping[str, Any]
    still_true: Callable[[Any, Request], Awaitable[Request]]
    """The request, asked again where what it depends on has changed."""
    until_go: Callable[[str, float | None], Awaitable[None]]
    """Until no stop switch holds this agent up."""
    look_again: Callable[[], Awaitable[None]]
    """The policy, the grants and the switches are read anew."""
    limits: Callable[[], Limits]
    """The limits of the active policy."""
    counts_days: Callable[[], bool]
    """Whether policy looks at what an agent costs in a day; else nobody adds it up."""
