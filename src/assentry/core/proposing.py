"""What happens to a policy that waits for a second person: the changes, their entries, and who may confirm it."""

from datetime import datetime

from assentry.core.action import Json
from assentry.core.audit import Entry
from assentry.core.authority import Principal, may_change
from assentry.core.change import Change
from assentry.core.copies import replace
from assentry.core.policy import Policy
from assentry.core.policy_proposal import PolicyProposal, ProposalState


def proposed(proposal: PolicyProposal) -> Change:
    """The change after which it waits."""
    return Change(proposal=proposal, entries=(_entry(proposal, "policy.proposed", proposal.by, proposal.at),))


def rejected(proposal: PolicyProposal, by: str, now: datetime, reason: str = "") -> Change:
    """The change after which nobody can confirm it any more."""
    ended = replace(proposal, state=ProposalState.REJECTED, ended_by=by, ended_at=now, reason=reason)
    told = {"proposed_by": proposal.by, "reason_given": bool(reason)}
    return Change(proposal=ended, entries=(_entry(proposal, "policy.rejected", by, now, **told),))


def fulfilled(proposal: PolicyProposal, by: str, now: datetime) -> PolicyProposal:
    """It, once `by` has confirmed it and it is active."""
    return replace(proposal, state=ProposalState.APPLIED, ended_by=by, ended_at=now)


def why_not_confirm(policy: Policy, proposal: PolicyProposal, person: Principal) -> str | None:
    """Why `person` may not confirm it under the active policy, in a sentence; `None` if they may."""
    reason = may_change(policy, person)
    if reason is None and person.name == proposal.by:
        return f"{person.name} proposed this, so another person confirms it"
    return reason


def _entry(proposal: PolicyProposal, kind: str, actor: str, now: datetime, **more: Json) -> Entry:
    body: dict[str, Json] = {
        "code": proposal.code, "digest": proposal.digest, "file": proposal.file, "based_on": proposal.based_on,
    }  # fmt: skip
    return Entry(kind, now, proposal.workspace, f"proposal:{proposal.code}", actor, {**body, **more})
