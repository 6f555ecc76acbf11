"""For people: what waits, what it is, and what they say about it."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from assentry.core.action import Risk
from assentry.core.request import State
from assentry.errors import StaleRequest
from assentry.ports import Filter
from assentry.server.api.afterwards import done
from assentry.server.api.answers import CardPage, Done, WholeCard, told
from assentry.server.api.asking import After, Body, Limit, RequestId
from assentry.server.deciding import Said, decide
from assentry.server.problems import Problem
from assentry.server.visitors import Person, Somebody, anybody, premises_of
from assentry.telling.background import background, background_document
from assentry.telling.card_document import document
from assentry.telling.plain import plain_json

router = APIRouter(prefix="/api/v1", tags=["requests"])

IfMatch = Annotated[str | None, Header(max_length=200, description="The ETag of the card that was read.")]
_HEARTBEAT = 15.0


class Decision(Body):
    """What a person says about a request."""

    word: Literal["approve", "deny", "modify", "choose", "answer", "revise"]
    seen_digest: str = Field(default="", max_length=200, description="The digest of the card that was shown.")
    confirm: str = Field(default="", max_length=2_000, description="What a critical action wants typed.")
    note: str = Field(default="", max_length=10_000)
    reason: str = Field(default="", max_length=10_000, description="For deny: what the agent is told.")
    stop: bool = Field(default=False, description="For deny: the whole run ends.")
    instructions: str = Field(default="", max_length=10_000, description="For revise.")
    args: dict[str, Any] | None = Field(default=None, description="For modify: all arguments, as they shall be.")
    option: int | None = Field(default=None, ge=1, description="For choose: as numbered on the card, from 1.")
    answer: Any = Field(default=None, description="For answer.")


@router.get("/requests", summary="What waits, most urgent first", **told(CardPage, "Cards."))
async def requests(
    visitor: Person,
    state: Annotated[list[State] | None, Query(description="Other states than pending.")] = None,
    agent: Annotated[str, Query(max_length=200)] = "",
    action: Annotated[str, Query(max_length=200)] = "",
    risk: Risk | None = None,
    run: Annotated[str, Query(max_length=200)] = "",
    text: Annotated[
        str, Query(max_length=200, description="Words, or how they begin: of the title, the action's name, the code.")
    ] = "",
    review: Annotated[bool, Query(description="What ran and waits for review.")] = False,
    after: After = "",
    limit: Limit = 50,
) -> dict[str, Any]:
    """Cards, most urgent first for what waits and newest first otherwise. `next` is where the next page begins.

    A page of a search may hold few cards, or none, and still have a next one: the search goes on from there.
    """
    states = tuple(state) if state else () if review else (State.PENDING,)
    wanted = Filter(
        states, agent=agent, action=action, risk=str(risk) if risk else "", run=run, text=text, review_open=review
    )
    desk = visitor.room.desk
    page = await desk.inbox.page(wanted, after=after, limit=limit)
    now = await desk.store.now()
    cards = [plain_json(document(desk.inbox.card(each, now))) for each in page.requests]
    return {"mode": str(desk.judgement.policy.mode), "requests": cards, "next": page.next}


@router.get(
    "/requests/{request_id}",
    summary="One card, whole",
    **told(WholeCard, "The card.", headers={"ETag": {"description": "Its version.", "schema": {"type": "string"}}}),
)
async def request(visitor: Person, request_id: RequestId, answer: Response) -> dict[str, Any]:
    """By its code, its id, or the start of either; with its run, its drafts, and whether you may decide it.

    Looking changes nothing: say `seen` for the window of a soft gate to begin. The ETag is for `If-Match`.
    """
    room = visitor.room
    found = await room.desk.inbox.find(request_id)
    card = room.desk.inbox.card(found, await room.desk.store.now())
    why_not = room.desk.inbox.may_decide(visitor.principal, found) or ""
    about = background_document(await background(room.chronicle, found))
    made: dict[str, Any] = plain_json({"request": document(card), "background": about})
    answer.headers["etag"] = f'"{found.version}"'
    return {**made, "you": visitor.principal.name, "why_not": why_not, "version": found.version}


@router.post("/requests/{request_id}/decision", summary="Decide it", **told(Done, "Decided."))
async def decided(
    visitor: Person, request_id: RequestId, said: Decision, http: Request, if_match: IfMatch = None
) -> dict[str, Any]:
    """Approve, deny, modify, choose, answer or send back. The first decision wins; later ones get a 409 that says who.

    `seen_digest` stands for what was shown: where the request is another by now, nothing is decided (409). With
    `If-Match` nothing at all may have happened to it since that version, not even a vote (412).
    """
    room = visitor.room
    found = await room.desk.inbox.find(request_id)
    option = said.option - 1 if said.option is not None else None
    fields = said.model_dump(exclude={"option"})
    version = _expected(if_match, found.version)
    try:
        after = await decide(visitor, found, Said(**fields, option=option, seen_version=version))
    except StaleRequest as problem:
        if version:
            raise Problem(412, str(problem), {"request_id": found.id, "code": found.code}) from None
        raise
    http.app.state.meters.decisions.labels(said.word).inc()
    return await done(visitor, after, said.word)


def _expected(if_match: str | None, version: int) -> str:
    """The version that whoever decides insists on; empty where any will do."""
    if if_match is None or if_match.strip() == "*":
        return ""
    tags = [tag.strip() for tag in if_match.split(",")]
    if f'"{version}"' not in tags:
        raise Problem(412, f"it is at version {version} by now; look at it again, then decide")
    return str(version)


@router.get(
    "/events",
    summary="What changes, as it changes",
    response_class=StreamingResponse,
    responses={200: {"description": "A stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(visitor: Somebody, http: Request) -> StreamingResponse:
    """Server-sent events. `look` comes first and whenever something may have been missed: read again what you show.

    People hear of everything in their workspace, agents of their own requests.
    """
    events = premises_of(http).events
    agent = visitor.principal.name if visitor.principal.kind == "agent" else ""
    listener = events.listen(visitor.room.name, agent, f"{visitor.principal.kind} {visitor.principal.name}")

    async def stream() -> AsyncIterator[str]:
        try:
            yield "retry: 1000\n\n"
            async for found in listener.events(_HEARTBEAT):
                if (not found or any(event.about == "identity" for event in found)) and await anybody(http) is None:
                    return  # whoever listened has logged out, or lost their token
                yield "".join(event.line for event in found) or ": still here\n\n"
        finally:
            events.leave(listener)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
