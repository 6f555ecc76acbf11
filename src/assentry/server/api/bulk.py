"""For people: many requests of one shape, decided at once, each on what was shown of it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from assentry.core.request import Request as Asked
from assentry.errors import AssentryError
from assentry.server import problems
from assentry.server.alike import MOST_AT_ONCE, of_one_shape
from assentry.server.api.answers import BulkDone, told
from assentry.server.api.asking import Body, Words
from assentry.server.deciding import Said, decide
from assentry.server.problems import Problem
from assentry.server.visitors import Person, Visitor

router = APIRouter(prefix="/api/v1", tags=["requests"])


class Item(Body):
    """One request, and what was shown of it."""

    id: Annotated[str, Field(min_length=1, max_length=200, description="Its id, whole.")]
    seen_digest: Annotated[str, Field(min_length=1, max_length=200, description="The digest of the card shown.")]


class Bulk(Body):
    """One word on many requests."""

    word: Literal["approve", "deny"]
    items: Annotated[list[Item], Field(min_length=1, max_length=MOST_AT_ONCE)]
    note: Words = ""
    reason: Annotated[Words, Field(description="For deny: what the agent is told.")] = ""


@router.post("/decisions", summary="Decide many of one shape", **told(BulkDone, "What became of each."))
async def decisions(visitor: Person, said: Bulk, http: Request) -> dict[str, Any]:
    """One word on many requests that differ in nothing but their arguments: one agent, one action, one gate, low risk.

    If one of them is of another shape nothing is decided at all (422, naming it). Otherwise each is decided on its own
    digest, and the answer says for each what became of it: somebody may have been faster with one, or it has changed.
    """
    if said.word == "deny" and not said.reason.strip():
        raise Problem(422, "a denial needs a reason; the agent is told it and plans on with it")
    found = await of_one_shape(visitor, [each.id for each in said.items])
    items = []
    for request, item in zip(found, said.items, strict=True):
        one = Said(said.word, seen_digest=item.seen_digest, note=said.note, reason=said.reason)
        items.append(await _decided(visitor, request, one))
    count = sum(each["ok"] for each in items)
    http.app.state.meters.decisions.labels(said.word).inc(count)
    return {"did": said.word, "decided": count, "items": items}


async def _decided(visitor: Visitor, request: Asked, said: Said) -> dict[str, Any]:
    try:
        after = await decide(visitor, request, said)
    except (AssentryError, Problem) as problem:
        now = await visitor.room.desk.store.request(visitor.room.name, request.id) or request
        return _item(now, ok=False) | {"problem": problems.document_of(problem)}
    return _item(after, ok=True)


def _item(request: Asked, *, ok: bool) -> dict[str, Any]:
    return {"id": request.id, "code": request.code, "ok": ok, "state": str(request.state)}
