"""For operators: the tokens with which agents propose. One is shown once; nothing that is kept makes it again."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import Field

from assentry.core.authority import principal_named
from assentry.core.credential import Credential, CredentialKind
from assentry.core.policy_text import duration
from assentry.server.api.answers import TokenEnded, TokenGiven, TokenList, told
from assentry.server.api.asking import After, Body, Limit
from assentry.server.problems import Problem
from assentry.server.repeats import shown_once
from assentry.server.visitors import Operator

router = APIRouter(prefix="/api/v1", tags=["tokens"])

_SHORT = 12


class Wanted(Body):
    """For which agent, and for how long."""

    agent: Annotated[str, Field(min_length=1, max_length=200, description="The name under which it proposes.")]
    life: Annotated[
        str, Field(max_length=20, description="How long it works: 8h, 30d; empty: until it is ended.", examples=["30d"])
    ] = ""
    note: Annotated[str, Field(max_length=1_000, description="For whoever looks at the list.")] = ""


@router.get("/tokens", summary="Agents' tokens", **told(TokenList, "Without what is secret of them."))
async def tokens(visitor: Operator, after: After = "", limit: Limit = 100) -> dict[str, Any]:
    """Every token there was, live or not, without what is secret of it. For operators."""
    found = await visitor.room.identities.tokens(after=after, limit=limit)
    now = await visitor.room.desk.store.now()
    following = found[-1].id if len(found) == limit else ""
    return {"tokens": [_document(each, now) for each in found], "next": following}


@router.post("/tokens", summary="Give one", **told(TokenGiven, "Shown this once.", 201), status_code=201)
async def give(visitor: Operator, wanted: Wanted, http: Request) -> dict[str, Any]:
    """A token with which this agent proposes and reads its own requests, and no more: no token can decide.

    `secret` is shown this once. A repeated call with the same Idempotency-Key gets a 409, not the secret again.
    """
    agent = wanted.agent.strip()
    if agent == "*" or principal_named(visitor.room.desk.judgement.policy, agent) is not None:
        raise Problem(422, "this is the name of a person or of everybody; agents have names of their own")
    life = duration(wanted.life, "life") if wanted.life else None
    shown_once(http)
    made, secret = await visitor.room.identities.give_token(visitor.principal, agent, life=life, note=wanted.note)
    return {"token": _document(made, made.made_at), "secret": secret}


@router.post("/tokens/{token_id}/end", summary="End it", **told(TokenEnded, "It proves nothing any more."))
async def end(
    visitor: Operator,
    token_id: Annotated[str, Path(min_length=8, max_length=64, description="As listed.")],
) -> dict[str, Any]:
    """Whoever has it can do nothing with it any more. For operators."""
    ended = await visitor.room.identities.end(visitor.principal, CredentialKind.TOKEN, token_id)
    return {"token": _document(ended, await visitor.room.desk.store.now())}


def _document(token: Credential, now: datetime) -> dict[str, Any]:
    return {
        "id": token.id[:_SHORT],
        "agent": token.holder,
        "by": token.made_by,
        "made_at": token.made_at.isoformat(),
        "expires_at": token.expires_at.isoformat() if token.expires_at is not None else None,
        "live": token.is_live(now),
        "note": str(token.about.get("note", "")),
    }
