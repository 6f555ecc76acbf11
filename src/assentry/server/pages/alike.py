"""Many requests of one shape on one page, each of them to be seen, and one word for all that are ticked."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from assentry.core.briefing import brief
from assentry.errors import AssentryError, InvalidDecision
from assentry.server import problems
from assentry.server.alike import MOST_AT_ONCE, of_one_shape, those_like
from assentry.server.deciding import Said, decide
from assentry.server.looks.values import any_folded, arguments
from assentry.server.pages.frame import page, person_or_door
from assentry.server.problems import Problem
from assentry.server.visitors import Person

router = APIRouter()


@router.get("/r/{code}/alike")
async def alike(request: Request, code: str) -> Response:
    """Everything that waits and is shaped like this one. What is too long to be seen at once is decided by itself."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    desk = visitor.room.desk
    first = await desk.inbox.find(code)
    now = await desk.store.now()
    cards = [(brief(each, now), arguments(brief(each, now).args)) for each in await those_like(visitor, first)]
    whole = [(card, looks) for card, looks in cards if not any_folded(looks)]
    return await page(
        request, "alike", visitor,
        first=brief(first, now), cards=whole, left_out=len(cards) - len(whole), done=[], word="",
    )  # fmt: skip


@router.post("/r/{code}/alike")
async def decided(
    request: Request,
    visitor: Person,
    code: str,
    word: Annotated[str, Form(max_length=20)],
    reason: Annotated[str, Form(max_length=10_000)] = "",
) -> Response:
    """One word on everything that was ticked, each on what was shown of it."""
    form = await request.form()
    ticked = [str(value) for value in form.getlist("item")]
    if word not in ("approve", "deny") or not 0 < len(ticked) <= MOST_AT_ONCE:
        raise InvalidDecision(f"tick at least one and at most {MOST_AT_ONCE}, and approve or deny them")
    if word == "deny" and not reason.strip():
        raise InvalidDecision("a denial needs a reason; the agents are told it and plan on with it")
    desk = visitor.room.desk
    first = await desk.inbox.find(code)
    digests = {request_id: digest for request_id, _, digest in (each.partition(" ") for each in ticked)}
    found = await of_one_shape(visitor, [each.partition(" ")[0] for each in ticked], first)
    done = []
    for one in found:
        try:
            after = await decide(visitor, one, Said(word, seen_digest=digests[one.id], reason=reason))
            request.app.state.meters.decisions.labels(word).inc()
            done.append((after.code, str(after.state), ""))
        except (AssentryError, Problem) as problem:
            done.append((one.code, str(one.state), problems.detail_of(problem)))
    card = brief(first, await desk.store.now())
    return await page(request, "alike", visitor, first=card, cards=[], left_out=0, done=done, word=word)
