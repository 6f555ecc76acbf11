"""One thing a person must decide, or a watched call: what it holds and the states it can be in.

A request carries exactly what would run (`candidate`), who is asked, what was said, and how running went.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from assentry.core.action import Json
from assentry.core.decision import Candidate, Vote
from assentry.core.situation import Standing

NEVER_RAN = "cancelled before it ran"
"""The error of what was begun and then not done, since whoever wanted it was gone."""


class State(Enum):
    """Where a request stands."""

    PENDING = "pending"
    APPROVED = "approved"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    DENIED = "denied"
    EXPIRED = "expired"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    ANSWERED = "answered"
    REVISED = "revised"
    UNDO_ASKED = "undo asked"
    UNDOING = "undoing"
    UNDONE = "undone"

    def __str__(self) -> str:
        return self.value

    @property
    def is_open(self) -> bool:
        """Something or somebody still has to move it."""
        return self in OPEN


OPEN = frozenset({State.PENDING, State.APPROVED, State.RUNNING, State.UNKNOWN, State.UNDO_ASKED, State.UNDOING})


class Kind(Enum):
    """What is asked for: leave to act, or an answer."""

    ACTION = "action"
    QUESTION = "question"


STOPS = frozenset({"checkpoint", "draft", "exception", "sample", "cannot_go_on", "interrupt"})
"""Where a run stops for a person without anything to run: the names of such requests, and of what triggers them."""


class Executor(Enum):
    """Who runs it once it is approved."""

    CALLER = "caller"
    WORKER = "worker"


class Review(Enum):
    """Whether somebody should look, or has looked, at something that already ran."""

    NONE = "none"
    OPEN = "open"
    ACCEPTED = "accepted"
    FLAGGED = "flagged"


@dataclass(frozen=True, slots=True)
class Option:
    """One thing the reviewer may choose instead. `candidate` is exactly what runs; `None` runs nothing."""

    label: str
    consequence: str
    candidate: Candidate | None
    can_undo: bool = False
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What the agent wants to know, and what it would assume."""

    text: str
    choices: tuple[str, ...] = ()
    schema: Mapping[str, Json] | None = None
    best_guess: Json = None
    has_best_guess: bool = False


@dataclass(frozen=True, slots=True)
class Permit:
    """The single-use right to run exactly the bytes behind `digest`."""

    digest: str
    policy_version: int
    issued_at: datetime
    expires_at: datetime | None
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """What never changes about a request: who asked, what for, and what was offered."""

    id: str
    code: str
    workspace: str
    kind: Kind
    agent: str
    asked_by: str
    """The operating-system user (or principal) the agent runs as; its owner, for self-review."""
    created_at: datetime
    candidate: Candidate
    """What was asked for, before anybody changed it."""
    run: str = ""
    step: str = ""
    executor: Executor = Executor.CALLER
    options: tuple[Option, ...] = ()
    question: Question | None = None
    if_denied: str = ""
    needed_by: datetime | None = None
    can_undo: bool = False
    can_verify: bool = False
    idempotent: bool = False
    claims: Mapping[str, Json] = field(default_factory=dict)
    template: str = ""
    """The operator's plain-English line, to be filled again if the arguments are changed."""
    draft_of: str = ""
    """The request that this one revises."""
    standing: Standing | None = None
    """Where its run stood when it was proposed; whenever it is judged again, it is judged by this."""
    same: str = ""
    """Outside runs: what stands for everything that makes two requests the same; empty where it is like no other."""


@dataclass(frozen=True, slots=True)
class Request:
    """An `Ask` and everything that has happened to it so far."""

    ask: Ask
    state: State
    version: int
    changed_at: datetime
    candidate: Candidate
    """What would run now: as asked, or as modified or chosen."""
    due_at: datetime | None = None
    """When time next moves it: a rung of the ladder, the end, a lease, a permit's expiry."""
    ends_at: datetime | None = None
    """When the ladder ends; decisions after that are too late."""
    rung: int = 0
    told: tuple[str, ...] = ()
    """Who may decide as well since the ladder widened the circle."""
    seen_at: datetime | None = None
    votes: tuple[Vote, ...] = ()
    decided_by: str = ""
    decided_at: datetime | None = None
    word: str = ""
    """What ended the waiting: approve, deny, modify, choose, answer, revise, silence, policy, cancel."""
    reason: str = ""
    answer: Json = None
    chosen: int | None = None
    stop: bool = False
    permit: Permit | None = None
    fence: int = 0
    worker: str = ""
    result_text: str = ""
    error: str = ""
    finished_at: datetime | None = None
    undo_until: datetime | None = None
    undoing: bool = False
    """What is running, or of unknown outcome, is the undo and not the action."""
    review: Review = Review.NONE
    sealed: Mapping[str, str] = field(default_factory=dict)
    """Secret argument values, encrypted; erased when the request ends."""
    purged: bool = False
    frozen_at: datetime | None = None
    """Since when its run is paused; time does not move it meanwhile."""
    frozen: timedelta = timedelta()
    """How long it stood still in all; its ladder began so much later."""

    round: int = 0
    """How often it was asked again because what it depends on had changed."""
    looked_at: datetime | None = None
    """When what it depends on was last looked up, where that was not when it was asked."""
    callers: tuple[str, ...] = ()
    """The processes that wait for it, where nothing but a living process can find it again. Empty for all others."""
    abandoned_at: datetime | None = None
    """Since when nobody is waiting for it any more: the last of its callers is gone."""
    changes: tuple[str, ...] = ()
    """What changed between what a person saw and the last look, in words."""

    @property
    def shown_digest(self) -> str:
        """Stands for everything a person is shown of it: the bytes that would run, and which round of asking it is."""
        digest = self.candidate.permit_digest
        return f"{digest}.{self.round}" if self.round else digest

    @property
    def id(self) -> str:
        return self.ask.id

    @property
    def code(self) -> str:
        return self.ask.code

    @property
    def workspace(self) -> str:
        return self.ask.workspace

    @property
    def can_undo(self) -> bool:
        """What runs or ran has a way back."""
        return self._means.can_undo

    @property
    def is_idempotent(self) -> bool:
        """What runs or ran may be run again with the same key."""
        return self._means.idempotent

    @property
    def _means(self) -> "Ask | Option":
        """Where the running action is described: an option may have named another one than was asked for."""
        instead = self.chosen is not None and self.candidate.action.name != self.ask.candidate.action.name
        return self.ask.options[self.chosen] if instead and self.chosen is not None else self.ask

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt to run what one approval allowed."""
        return f"{self.ask.id}.{self.candidate.permit_digest[:16]}"


PERMIT_LIFE = timedelta(days=7)
