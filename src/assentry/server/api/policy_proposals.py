"""For operators: changes of the policy that wait for a second person."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from assentry.core.policy_file import stored_policy, to_document
from assentry.engine.policies import confirm_policy, find_proposal, reject_policy
from assentry.server.api.answers import told
from assentry.server.api.asking import NO_REASON, Body, Why
from assentry.server.api.policy import proposal_told
from assentry.server.api.policy_answers import PolicyApplied, PolicyProposed, ProposalList
from assentry.server.visitors import Operator
from assentry.telling.differing import changes

router = APIRouter(prefix="/api/v1", tags=["policy"])

Code = Annotated[str, Path(max_length=200, description="Its code, or the start of it.")]


class Seen(Body):
    """What was looked at."""

    digest: Annotated[str, Field(max_length=200, description="`digest` of the proposal, as it was shown.")]


@router.get(
    "/policy/proposals", summary="What waits for a second person", **told(ProposalList, "Each with what it changes.")
)
async def proposals(visitor: Operator) -> dict[str, Any]:
    """Changes of the policy that nobody has confirmed or rejected yet, newest first. For operators."""
    found = await visitor.room.desk.rules.proposals()
    return {"proposals": [proposal_told(visitor, each) for each in found]}


@router.get(
    "/policy/proposals/{code}", summary="One proposed change", **told(PolicyProposed, "Whether it waits or not.")
)
async def proposal(visitor: Operator, code: Code) -> dict[str, Any]:
    """One change of the policy, also after it was confirmed or rejected. For operators."""
    return {"proposal": proposal_told(visitor, await visitor.room.desk.rules.proposal(code))}


@router.post(
    "/policy/proposals/{code}/confirm",
    summary="Agree, so that it is active",
    **told(PolicyApplied, "What is active now."),
)
async def confirm(visitor: Operator, code: Code, seen: Seen) -> dict[str, Any]:
    """Exactly the text of this digest is active, with both of you on record. Not for who proposed it (403).

    It is a 409 where it no longer waits, where the digest is another one, and where another version of the policy is
    active than it was made from: then it has to be proposed again. For operators.
    """
    room = visitor.room
    store, workspace, before = room.desk.store, room.name, room.desk.judgement.policy
    found = await find_proposal(store, workspace, code)
    applied = await confirm_policy(store, workspace, visitor.principal, found.code, seen.digest)
    await room.desk.judgement.refresh()
    new = stored_policy(applied.text, applied.version)
    return {
        "version": applied.version, "applied": True, "mode": str(new.mode),
        "changes": list(changes(to_document(before), to_document(new))), "warnings": list(new.warnings),
    }  # fmt: skip


@router.post(
    "/policy/proposals/{code}/reject", summary="Disagree, or withdraw it", **told(PolicyProposed, "It is over.")
)
async def reject(visitor: Operator, code: Code, why: Why = NO_REASON) -> dict[str, Any]:
    """Nobody can confirm it any more. Who proposed it withdraws it like this. For operators."""
    room = visitor.room
    ended = await reject_policy(room.desk.store, room.name, visitor.principal, code, why.reason)
    return {"proposal": proposal_told(visitor, ended)}
