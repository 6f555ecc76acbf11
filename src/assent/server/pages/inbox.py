"""The inbox: what waits, one card at a time, and what people say about it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from assent.core.action import Json, Risk
from assent.core.authority import may_change
from assent.core.briefing import Briefing, brief
from assent.core.decision import Opinion
from assent.core.request import Request as Asked
from assent.core.request import State
from assent.core.text import shortened, visible
from assent.engine.threads import in_thread
from assent.errors import ConfirmationNeeded, InvalidDecision
from assent.ports import Filter
from assent.server.alike import those_like
from assent.server.deciding import Said, decide
from assent.server.looks.card import CardLook, Mark, card_look, mark_of
from assent.server.looks.forms import typed_arguments
from assent.server.looks.values import arguments, opened, value_look
from assent.server.pages.frame import icon, page, person_or_door
from assent.server.visitors import Person, Visitor
from assent.telling.background import background

router = APIRouter()

_PAGE = 50
_SCANNED = 400
"""How many are looked at for those that are somebody's to decide."""
_STEPS = 12

TABS = {
    "mine": "Mine",
    "team": "Everyone's",
    "review": "Afterwards",
    "decided": "Decided",
}
KINDS = {
    "hard": "waits for a decision",
    "soft": "runs unless somebody objects",
    "manual": "is done by hand",
    "ask": "a question",
}
"""What the gate of each kind of request means to whoever looks for one."""
_DECIDED = (State.DONE, State.APPROVED, State.RUNNING, State.DENIED, State.ANSWERED, State.REVISED, State.FAILED,
            State.EXPIRED, State.CANCELLED, State.UNDONE, State.UNKNOWN, State.REFUSED)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the list."""

    card: Briefing
    mark: Mark
    version: int
    about: str
    mine: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """What the list shows, and how it was asked for."""

    items: tuple[Item, ...]
    tab: str
    wanted: Filter
    next: str
    waiting: int
    """How many wait for this person; more than 99 are not counted."""

    def query(self, **changes: str) -> str:
        """The same list with something changed, as a query."""
        now = {
            "tab": self.tab if self.tab != "mine" else "",
            "agent": self.wanted.agent,
            "risk": self.wanted.risk,
            "kind": self.wanted.gate,
            "text": self.wanted.text,
        }
        kept = {name: value for name, value in {**now, **changes}.items() if value}
        return f"?{urlencode(kept)}" if kept else ""


@router.get("/")
async def front(request: Request) -> Response:
    """The list, and the first card of it."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    now = await visitor.room.desk.store.now()
    listing = await _listing(visitor, request.query_params, now)
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
    listing = await _listing(visitor, request.query_params, now)
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
    except (InvalidDecision, ConfirmationNeeded) as problem:
        return await again(request, visitor, found, word, str(problem), form)
    request.app.state.meters.decisions.labels(word).inc()
    if request.headers.get("accept", "").startswith("application/json"):
        title = visible(shortened(after.candidate.says, 80), lines=False)
        told = {"did": word, "code": after.code, "state": str(after.state), "version": after.version, "title": title}
        return JSONResponse(told)
    return RedirectResponse(f"/r/{after.code}?told={word}", 303)


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
        card=after, was=before, mark=mark_of(after), changes=changes, args=json.dumps(after.args, ensure_ascii=True),
        looks=arguments(after.args), digest=before.digest, note=str(form.get("note", "")),
        typed={name: text for name, text in _texts(form).items() if name not in ("csrf", "note")},
    )  # fmt: skip


@router.post("/r/{code}/edit")
async def edit(request: Request, visitor: Person, code: str) -> Response:
    """The card with the form as it was typed: the way back from a preview. Nothing is changed."""
    found = await visitor.room.desk.inbox.find(code)
    return await again(request, visitor, found, "modify", "", await request.form(), status=200)


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
    listing = await _listing(visitor, request.query_params, now)
    look = await _look(visitor, found, now, whole=form.get("whole") == "1")
    return await _inbox(
        request, visitor, listing, look, at="card", status=status, complaint=complaint, opened=word, typed=_texts(form)
    )


async def _inbox(
    request: Request,
    visitor: Visitor,
    listing: Listing,
    look: CardLook | None,
    *,
    at: str,
    status: int = 200,
    **more: Any,
) -> HTMLResponse:
    told = request.query_params.get("told", "")
    values = {"complaint": "", "opened": "", "typed": {}, "told": told, **more}
    return await page(
        request, "inbox", visitor, status=status,
        listing=listing, look=look, at=at, tabs=TABS, waiting=listing.waiting, risks=[str(each) for each in Risk],
        kinds=KINDS, **values,
    )  # fmt: skip


async def _look(visitor: Visitor, found: Asked, now: datetime, *, whole: bool = False) -> CardLook:
    room = visitor.room
    about = await background(room.chronicle, found)
    why_not = room.desk.inbox.may_decide(visitor.principal, found) or ""
    steps = await room.chronicle.recent(about.run, limit=_STEPS) if about.run is not None else ()
    similar = await room.desk.store.similar(room.name, found.ask.agent, found.candidate.action.name, limit=4)
    others = [each for each in similar if each.id != found.id][:3]
    may_allow = may_change(room.desk.judgement.policy, visitor.principal) is None
    alike = len(await those_like(visitor, found)) - 1
    return await in_thread(
        partial(
            card_look, found, about, now,
            why_not=why_not, may_allow=may_allow, alike=alike, steps=steps, similar=others, whole=whole,
        )
    )  # fmt: skip


async def _listing(visitor: Visitor, query: Mapping[str, str], now: datetime) -> Listing:
    tab = query.get("tab", "mine")
    tab = tab if tab in TABS else "mine"
    risk, kind = query.get("risk", ""), query.get("kind", "")
    wanted = Filter(
        agent=query.get("agent", "")[:200],
        risk=risk if risk in {str(each) for each in Risk} else "",
        gate=kind if kind in KINDS else "",
        text=query.get("text", "")[:200],
        review_open=tab == "review",
        states={"mine": (State.PENDING,), "team": (State.PENDING,), "decided": _DECIDED}.get(tab, ()),
    )
    after = query.get("after", "")[:400]
    if tab == "mine":
        items, following, waiting = await _mine(visitor, wanted, after, now)
        plain = not (wanted.agent or wanted.risk or wanted.gate or wanted.text or after)
        waiting = waiting if plain else (await _mine(visitor, Filter(states=(State.PENDING,)), "", now))[2]
    else:
        found = await visitor.room.desk.inbox.page(wanted, after=after, limit=_PAGE)
        items, following = [_item(visitor, each, now) for each in found.requests], found.next
        waiting = (await _mine(visitor, Filter(states=(State.PENDING,)), "", now))[2]
    return Listing(tuple(items), tab, wanted, following, waiting)


async def _mine(visitor: Visitor, wanted: Filter, after: str, now: datetime) -> tuple[list[Item], str, int]:
    """What this person may decide, where the next page begins, and how many there are (up to 100)."""
    inbox, scanned, following, count = visitor.room.desk.inbox, 0, "", 0
    items: list[Item] = []
    while scanned < _SCANNED and count < 100:
        found = await inbox.page(wanted, after=after, limit=_PAGE)
        scanned += _PAGE  # a page of a search may hold less, and took as long
        mine = [each for each in found.requests if inbox.may_decide(visitor.principal, each) is None]
        count += len(mine)
        after = found.next
        if len(items) < _PAGE // 2:
            items += [_item(visitor, each, now) for each in mine]
            following = after
        if not after:
            break
    return items, following, count


def _item(visitor: Visitor, request: Asked, now: datetime) -> Item:
    card = brief(request, now)
    hurts = [fact.says for fact in card.facts if fact.hurts][:1]
    words = [card.agent, *hurts, *(card.effect[:1] if card.effect else ())]
    if card.state is State.PENDING and card.needs > 1:
        given = sum(vote.word in ("approve", "modify", "choose") for vote in card.votes)
        words.append(f"{given} of {card.needs} approvals")
    mine = visitor.room.desk.inbox.may_decide(visitor.principal, request) is None
    return Item(card, mark_of(card), request.version, shortened(" · ".join(words), 160), mine)


def _texts(form: FormData) -> dict[str, str]:
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _said(word: str, found: Asked, form: FormData) -> Said:
    """What the form of a card says."""
    text = _texts(form)
    args: Mapping[str, Json] | None = None
    if word == "modify":
        try:
            args = json.loads(text.get("args", "null"))
        except (ValueError, RecursionError):
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
