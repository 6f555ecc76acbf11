"""A policy that somebody wants to be active: it waits until another person confirms or rejects it."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from assentry.core.canonical import digest


class ProposalState(Enum):
    """What became of it."""

    WAITING = "waiting"
    APPLIED = "applied"
    REJECTED = "rejected"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PolicyProposal:
    """One change of the policy that waits, or waited, for a second person."""

    workspace: str
    code: str
    text: str
    file: str
    based_on: int
    """The version that was active when it was proposed. While another is, it cannot be confirmed."""
    by: str
    at: datetime
    state: ProposalState = ProposalState.WAITING
    ended_by: str = ""
    ended_at: datetime | None = None
    reason: str = ""
    """Why it was rejected."""

    @property
    def digest(self) -> str:
        """Stands for exactly this text; whoever confirms it names the one they saw."""
        return digest(self.text)
