"""A policy that waits for a second person: who wants it, what it changes, and why somebody may not confirm it."""

from dataclasses import dataclass

from assentry.core.action import Json
from assentry.core.authority import Principal, may_change
from assentry.core.policy import Policy
from assentry.core.policy_document import to_document
from assentry.core.policy_file import load_policy
from assentry.core.policy_proposal import PolicyProposal, ProposalState
from assentry.core.proposing import why_not_confirm
from assentry.errors import PolicyError
from assentry.telling.differing import changes


@dataclass(frozen=True, slots=True)
class WaitingPolicy:
    """One proposal as one person sees it while one policy is active."""

    proposal: PolicyProposal
    changes: tuple[str, ...]
    """What it changes, a sentence each."""
    warnings: tuple[str, ...]
    why_not: str
    """Why this person cannot confirm it; empty if they can."""


def waiting_policy(active: Policy, proposal: PolicyProposal, person: Principal) -> WaitingPolicy:
    """The proposal, for this person."""
    try:
        new = load_policy(proposal.text, proposal.file)
    except PolicyError as problem:
        return WaitingPolicy(proposal, (), (), f"this version of Assentry cannot load it: {problem}")
    reason = may_change(new, person)
    locked = (f"you could not change it back: {reason}",) if reason is not None else ()
    found = changes(to_document(active), to_document(new))
    return WaitingPolicy(proposal, found, (*new.warnings, *locked), _why_not(active, proposal, person))


def _why_not(active: Policy, proposal: PolicyProposal, person: Principal) -> str:
    if proposal.state is not ProposalState.WAITING:
        return f"it was {proposal.state} by {proposal.ended_by}"
    if proposal.based_on != active.version:
        return (
            f"it was made from version {proposal.based_on}, and version {active.version} is active by now; "
            "it has to be proposed again"
        )
    return why_not_confirm(active, proposal, person) or ""


def proposal_document(waiting: WaitingPolicy) -> dict[str, Json]:
    """The same as data."""
    proposal = waiting.proposal
    return {
        "code": proposal.code, "state": str(proposal.state), "proposed_by": proposal.by, "proposed_at": proposal.at,
        "based_on": proposal.based_on, "file": proposal.file, "digest": proposal.digest, "text": proposal.text,
        "changes": list(waiting.changes), "warnings": list(waiting.warnings), "why_not": waiting.why_not,
        "ended_by": proposal.ended_by, "ended_at": proposal.ended_at, "reason": proposal.reason,
    }  # fmt: skip
