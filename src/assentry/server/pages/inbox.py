"""The inbox: what waits, one card at a time, and what people say about it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from assentry.core.action import Json, Risk
from assentry.core.authority import may_change
from assentry.core.briefing import brief
from assentry.core.canonical import restore
from assentry.core.decision import Opinion
from assentry.core.request import Request as Asked
from assentry.core.text import shortened, visible
from assentry.engine.threads import in_thread
from assentry.errors import AssentryError, CallerGone, ConfirmationNeeded, InvalidDecision
from assentry.server.alike import those_like
from assentry.server.deciding import Said, decide
from assentry.server.looks.card import CardLook, card_look, mark_of
from assentry.server.looks.forms import PREFIX, WRITTEN, typed_arguments
from assentry.server.looks.values import arguments, opened, value_look
from assentry.server.pages import listing as listings
from assentry.server.pages.frame import icon, page, person_or_door
from assentry.server.visitors import Person, Visitor
from assentry.telling.background import background

router = APIRouter()

_STEPS = 12
_SETTLED = ("approve", "modify", "deny", "choose", "answer", "revise")


@router.get("/")
@router.head("/")
async def front(request: Request) -> Response:
    """The list, and the first card of it."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    now = await visitor.room.desk.store.now()
    listing = await listings.listing(visitor, request.query_params, now)
    look = None
    if listing.items:
        found = await visitor.room.desk.store.request(visitor.room.name, listing.items[0].card.id)
        look = await _look(visitor, found, now) if found is not None else None
    return await _inbox(request, visitor, listing, look, at="list")


@router.get("/r/{code}")
async def card(request: Request, code: str) -> Response:
    """One card, with the list beside it."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    found = await visitor.room.desk.inbox.find(code)
    now = await visitor.room.desk.store.now()
    listing = await listings.listing(visitor, request.query_params, now)
    look = await _look(visitor, found, now, whole=request.query_params.get("whole") == "1")
    return await _inbox(request, visitor, listing, look, at="card")


@router.get("/icon.svg")
async def favicon(waiting: str = "") -> Response:
    """The picture in the tab."""
    number = (
        "99+" if waiting == "99+" else waiting if waiting.isdigit() and waiting.isascii() and len(waiting) < 3 else ""
    )
    return Response(icon(number), media_type="image/svg+xml", headers={"cache-control": "public, max-age=86400"})


@router.post("/r/{code}/seen")
async def seen(visitor: Person, code: str) -> Response:
    """A page has shown it to somebody; a soft window may begin."""
    found = await visitor.room.desk.inbox.find(code)
    await visitor.room.desk.inbox.seen(visitor.principal, found.id)
    return Response(status_code=204)


@router.post("/r/{code}/decide")
async def decided(request: Request, visitor: Person, code: str) -> Response:
    """What somebody said about it; afterwards the next one that waits."""
    form = await request.form()
    found = await visitor.room.desk.inbox.find(code)
    word = str(form.get("word", ""))
    try:
        said = _said(word, found, form)
        after = await decide(visitor, found, said)
    except (InvalidDecision, ConfirmationNeeded, CallerGone) as problem:
        return await again(request, visitor, found, word, str(problem), form)
    word = after.word if after.word == "dismiss" else word
    request.app.state.meters.decisions.labels(word).inc()
    if request.headers.get("accept", "").startswith("application/json"):
        says = after.candidate.says if after.chosen is None else after.ask.options[after.chosen].label
        title = visible(shortened(says, 80), lines=False)
        told = {"did": word, "code": after.code, "state": str(after.state), "version": after.version, "title": title}
        return JSONResponse(told)
    return RedirectResponse(f"/r/{after.code}{listings.kept_query(request.query_params, told=word)}", 303)


@router.post("/r/{code}/preview")
async def preview(request: Request, visitor: Person, code: str) -> Response:
    """What would run with the arguments as typed: the difference and the new judgement. Nothing is changed."""
    form = await request.form()
    found = await visitor.room.desk.inbox.find(code)
    before = brief(found, await visitor.room.desk.store.now())
    try:
        args = typed_arguments(found, before.args, _texts(form))
        candidate = visitor.room.desk.inbox.changed(found, args)
    except InvalidDecision as problem:
        return await again(request, visitor, found, "modify", str(problem), form)
    after = brief(replace(found, candidate=candidate), await visitor.room.desk.store.now())
    names = [
        name for name in dict.fromkeys((*before.args, *after.args)) if before.args.get(name) != after.args.get(name)
    ]
    changes = [(name, *opened((value_look(before.args.get(name)), value_look(after.args.get(name))))) for name in names]
    return await page(
        request, "preview", visitor,
        card=after, was=before, mark=mark_of(after), changes=changes,
        args=json.dumps(json.loads(after.args_text), ensure_ascii=True),
        looks=arguments(after.args), digest=before.digest, note=str(form.get("note", "")),
        typed={name: text for name, text in _texts(form).items() if name.startswith((PREFIX, WRITTEN))},
        query=listings.kept_query(request.query_params),
    )  # fmt: skip


@router.post("/r/{code}/edit")
async def edit(request: Request, visitor: Person, code: str) -> Response:
    """The card with the form as it was typed: the way back from a preview. Nothing is changed."""
    found = await visitor.room.desk.inbox.find(code)
    form = await request.form()
    word = "grant" if form.get("word") == "grant" else "modify"
    return await again(request, visitor, found, word, "", form, status=200)


@router.post("/r/{code}/afterwards")
async def afterwards(request: Request, visitor: Person, code: str) -> Response:
    """Undo it, or say what you think of what already ran."""
    form = await request.form()
    found = await visitor.room.desk.inbox.find(code)
    word, note = str(form.get("word", "")), str(form.get("note", ""))[:10_000]
    inbox = visitor.room.desk.inbox
    if word == "undo":
        await inbox.undo(visitor.principal, found.id, note)
    elif word in ("accepted", "flagged"):
        await inbox.review(visitor.principal, found.id, Opinion(word), note)
    else:
        raise InvalidDecision("say undo, accepted or flagged")
    return RedirectResponse(f"/r/{found.code}?told={word}", 303)


async def again(
    request: Request, visitor: Visitor, found: Asked, word: str, complaint: str, form: FormData, *, status: int = 422
) -> Response:
    """The same card with what is wrong said on it, and what was typed still there."""
    if request.headers.get("accept", "").startswith("application/json"):
        return JSONResponse({"detail": complaint, "word": word}, status)
    now = await visitor.room.desk.store.now()
    listing = await listings.listing(visitor, request.query_params, now)
    look = await _look(visitor, found, now, whole=form.get("whole") == "1")
    return await _inbox(
        request, visitor, listing, look, at="card", status=status, complaint=complaint, opened=word, typed=_texts(form)
    )


async def _inbox(
    request: Request,
    visitor: Visitor,
    listing: listings.Listing,
    look: CardLook | None,
    *,
    at: str,
    status: int = 200,
    **more: Any,
) -> HTMLResponse:
    told = request.query_params.get("told", "")
    values = {"complaint": "", "opened": "", "typed": {}, "told": told, "settled": _SETTLED, **more}
    return await page(
        request, "inbox", visitor, status=status,
        listing=listing, look=look, at=at, tabs=listings.TABS, kinds=listings.KINDS,
        waiting=listing.waiting, risks=[str(each) for each in Risk], **values,
    )  # fmt: skip


async def _look(visitor: Visitor, found: Asked, now: datetime, *, whole: bool = False) -> CardLook:
    room = visitor.room
    about = await background(room.chronicle, found)
    why_not, beyond = room.desk.inbox.may_decide(visitor.principal, found) or "", room.desk.inbox.beyond(found)
    steps = await room.chronicle.recent(about.run, limit=_STEPS) if about.run is not None else ()
    similar = await room.desk.store.similar(room.name, found.ask.agent, found.candidate.action.name, limit=4)
    others = [each for each in similar if each.id != found.id][:3]
    may_allow = may_change(room.desk.judgement.policy, visitor.principal) is None
    alike = len(await those_like(visitor, found)) - 1
    return await in_thread(
        partial(
            card_look, found, about, now,
            why_not=why_not, beyond=beyond, may_allow=may_allow, alike=alike, steps=steps, similar=others, whole=whole,
        )
    )  # fmt: skip


def _texts(form: FormData) -> dict[str, str]:
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _said(word: str, found: Asked, form: FormData) -> Said:
    """What the form of a card says."""
    text = _texts(form)
    args: Mapping[str, Json] | None = None
    if word == "modify":
        try:
            args = restore(text.get("args", "null"))
        except (ValueError, RecursionError, AssentryError):
            args = None
        if not isinstance(args, dict):
            raise InvalidDecision("look at the change once more before it is sent")
    option = text.get("option", "")
    return Said(
        word=word,
        seen_digest=text.get("seen_digest", ""),
        confirm=text.get("confirm", ""),
        note=text.get("note", "")[:10_000],
        reason=(text.get("reason", "") or text.get("quick", ""))[:10_000],
        stop=text.get("stop", "") == "yes",
        instructions=text.get("instructions", "")[:10_000],
        args=args,
        option=int(option) if option.isascii() and option.isdigit() and len(option) < 6 else None,
        answer=_answer(found, text),
    )


def _answer(found: Asked, text: Mapping[str, str]) -> Json:
    """Text, unless the question wants something else."""
    question, choice, typed = found.ask.question, text.get("choice", ""), text.get("answer", "")
    if question is not None and choice.isascii() and choice.isdigit() and len(choice) < 6:
        return dict(enumerate(question.choices, 1)).get(int(choice), "")
    if question is None or question.schema is None or question.schema.get("type") == "string":
        return typed
    try:
        value: Json = json.loads(typed)
    except (ValueError, RecursionError):
        return typed
    return value
