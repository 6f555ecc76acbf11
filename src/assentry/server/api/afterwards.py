"""For people: what they say of a request beside deciding it: seen, taken back, reviewed, settled, receipted."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from assentry.core.briefing import brief
from assentry.core.decision import Finding, Opinion
from assentry.core.request import Request as Asked
from assentry.server.api.answers import Done, Noted, told
from assentry.server.api.asking import NO_REASON, Body, RequestId, Why, Words
from assentry.server.visitors import Person, Visitor
from assentry.telling.card_document import document
from assentry.telling.plain import plain_json

router = APIRouter(prefix="/api/v1", tags=["requests"])


class Looked(Body):
    """What somebody thinks of what already ran."""

    opinion: Opinion
    note: Words = ""


class Found(Body):
    """What somebody found out there."""

    finding: Finding
    note: Words = ""


async def done(visitor: Visitor, request: Asked, word: str) -> dict[str, Any]:
    """What was done, and the request as it is now."""
    card = document(brief(request, await visitor.room.desk.store.now()))
    made: dict[str, Any] = plain_json({"did": word, "request": card})
    return made


@router.post("/requests/{request_id}/seen", summary="Say that it was shown to you", **told(Noted, "On record."))
async def seen(visitor: Person, request_id: RequestId) -> dict[str, bool]:
    """The window of a soft gate begins once somebody who may decide it has it before them. Others change nothing."""
    inbox = visitor.room.desk.inbox
    await inbox.seen(visitor.principal, (await inbox.find(request_id)).id)
    return {"ok": True}


@router.post("/requests/{request_id}/undo", summary="Take it back", **told(Done, "It is being taken back."))
async def undo(visitor: Person, request_id: RequestId, why: Why = NO_REASON) -> dict[str, Any]:
    """What ran is taken back by whoever has the function, while its window is open (409 afterwards)."""
    inbox = visitor.room.desk.inbox
    found = await inbox.find(request_id)
    return await done(visitor, await inbox.undo(visitor.principal, found.id, why.reason), "undo")


@router.post("/requests/{request_id}/review", summary="Accept or flag what ran", **told(Done, "On record."))
async def review(visitor: Person, request_id: RequestId, looked: Looked) -> dict[str, Any]:
    """A word on something that ran without waiting, or on silence: `accepted`, or `flagged` with a note."""
    inbox = visitor.room.desk.inbox
    found = await inbox.find(request_id)
    after = await inbox.review(visitor.principal, found.id, looked.opinion, looked.note)
    return await done(visitor, after, "review")


@router.post("/requests/{request_id}/reconcile", summary="Settle an unknown outcome", **told(Done, "Settled."))
async def reconcile(visitor: Person, request_id: RequestId, found: Found) -> dict[str, Any]:
    """After looking at the world. `done`: it happened. `failed`: it did not. `retry`: it did not, and is asked anew."""
    inbox = visitor.room.desk.inbox
    request = await inbox.find(request_id)
    after = await inbox.reconcile(visitor.principal, request.id, found.finding, found.note)
    return await done(visitor, after, "reconcile")


@router.post(
    "/requests/{request_id}/receipt",
    summary="A signed receipt for the decision",
    response_class=Response,
    responses={200: {"description": "A receipt; every byte of it counts.", "content": {"application/json": {
        "schema": {"type": "object", "required": ["type", "says", "request", "signature"]},
    }}}},
)  # fmt: skip
async def receipt(visitor: Person, request_id: RequestId) -> Response:
    """Proof for a stranger, who needs nothing but the public key. Seals the log first, so it is a POST."""
    desk = visitor.room.desk
    found = await desk.inbox.find(request_id)
    return Response(await desk.notary.receipt(found.id), media_type="application/json")
