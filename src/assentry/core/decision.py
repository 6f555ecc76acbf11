"""What people can say, who they are, and what the time and the machinery can bring about.

Everything that can happen to a request is one of the events here; `request.advance` says what follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from assentry.core.action import Action, Assessment, Json
from assentry.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Candidate:
    """Exactly what would run: the action with its canonical arguments, judged, with its digests."""

    action: Action
    args_text: str
    content_digest: str
    permit_digest: str
    assessment: Assessment
    verdict: Verdict
    says: str


@dataclass(frozen=True, slots=True)
class Approve:
    """Run exactly what is shown."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run it. With `stop`, the whole run ends."""

    reason: str
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Modify:
    """Run it with these arguments instead; they were judged anew."""

    instead: Candidate
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choose:
    """Take the option with this number (from 0); its exact bytes were judged anew."""

    option: int
    instead: Candidate | None
    """`None` for an option that runs nothing ("cancel")."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question."""

    value: Json
    note: str = ""


@dataclass(frozen=True, slots=True)
class Revise:
    """Back to the agent, with instructions for another draft."""

    instructions: str


Decision = Approve | Deny | Modify | Choose | Answer | Revise


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision by somebody who may take it, on what they saw."""

    decision: Decision
    by: str
    roles: tuple[str, ...] = ()
    seen_digest: str = ""
    """The permit digest of what was shown; empty only for surfaces that showed and decide in one step."""
    confirm: str = ""
    """What was typed to confirm, where the gate asks for that."""
    surface: str = ""
    counts: bool = True
    """False where a change made it a matter for others: the change stands, the vote does not count."""
    standing: Mapping[str, tuple[str, ...]] | None = None
    """The people whose earlier approvals count by the policy of now, with their roles; `None` if all do as given."""
    void: tuple[str, ...] = ()
    """Why earlier approvals do not count any more, a sentence each."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A reviewer's surface showed the request; soft windows start here."""

    by: str


@dataclass(frozen=True, slots=True)
class Overdue:
    """Time passed: a rung of the ladder, its end, the end of a lease or of a permit."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Whoever asked no longer wants it."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Its run was paused: time stands still for it."""

    by: str


@dataclass(frozen=True, slots=True)
class Thaw:
    """Its run goes on, and so does time."""

    by: str


@dataclass(frozen=True, slots=True)
class Awaited:
    """A process waits for it, under the name by which it shows that it lives; `instead` of one it had before."""

    caller: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Findable:
    """Whoever asked can find it again without the process that asked: by its id, or by its step in a run."""


@dataclass(frozen=True, slots=True)
class CallerLost:
    """The process of this name did not show in time that it lives, or it ended."""

    caller: str


@dataclass(frozen=True, slots=True)
class LookedAgain:
    """What it depends on was looked up again before it ran, and it differs from what the person saw.

    With `again`, nothing that was said about it counts any more, and it is asked about as it is now.
    """

    now: Candidate
    changes: tuple[str, ...]
    by: str
    again: bool


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The policy has changed since it was asked and demands more now: it is asked about anew, as it would be today."""

    now: Candidate
    changes: tuple[str, ...]
    by: str


@dataclass(frozen=True, slots=True)
class Begin:
    """About to run: consumes the permit and takes the lease."""

    worker: str
    lease: timedelta
    digest: str
    """The permit digest of the bytes the executor holds in its hand."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Still running."""

    fence: int
    lease: timedelta


@dataclass(frozen=True, slots=True)
class Finish:
    """It ran; this is what came back."""

    fence: int
    result_text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """It ran and raised."""

    fence: int
    error: str


class Finding(Enum):
    """What somebody or something found out about an unknown outcome."""

    DONE = "done"
    FAILED = "failed"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The outside world was looked at, by a person or a `verify` function."""

    finding: Finding
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class AskUndo:
    """A person wants it taken back."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BeginUndo:
    """About to take it back."""

    worker: str
    lease: timedelta


class Opinion(Enum):
    """A reviewer's word on something that already ran."""

    ACCEPTED = "accepted"
    FLAGGED = "flagged"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Somebody looked at it afterwards."""

    opinion: Opinion
    by: str
    note: str = ""


Event = (
    Decided
    | Seen
    | Overdue
    | Cancel
    | Freeze
    | Thaw
    | Awaited
    | Findable
    | CallerLost
    | LookedAgain
    | Rejudged
    | Begin
    | Renew
    | Finish
    | Fail
    | Reconcile
    | AskUndo
    | BeginUndo
    | Reviewed
)


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's word, as recorded on the request."""

    by: str
    word: str
    """approve, deny, modify, choose, answer, revise"""
    at: datetime
    digest: str
    roles: tuple[str, ...] = ()
    note: str = ""
    surface: str = ""
