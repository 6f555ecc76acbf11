"""Passkeys in the browser: adding and removing them, coming in with one, proving with one who you are."""

import json
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from assentry.core.action import Json
from assentry.engine.passkeys import Passkeys, Site
from assentry.errors import NotAllowed
from assentry.server.entering import let_in, proved, same_site
from assentry.server.pages.frame import local_path, page, person_or_door
from assentry.server.problems import Problem
from assentry.server.proofs import check_fresh, rp_id_of
from assentry.server.visitors import Anybody, Person, origin_of, premises_of

router = APIRouter()

_Text = Annotated[str, Form(max_length=20_000)]
_Path = Annotated[str, Form(max_length=2_000)]


@router.get("/you")
async def you(request: Request) -> Response:
    """Your passkeys."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    keys = await visitor.room.passkeys.of(visitor.principal.name)
    return await page(request, "you", visitor, keys=keys, passkeys=bool(rp_id_of(request)))


@router.post("/you/passkeys/ask")
async def ask_to_add(request: Request, visitor: Person) -> Response:
    """What the browser is to make."""
    await check_fresh(visitor)
    return _json(await visitor.room.passkeys.ask_to_add(visitor.principal.name, _site(request)))


@router.post("/you/passkeys")
async def add(
    request: Request, visitor: Person, answer: _Text, name: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    """The key is yours."""
    await check_fresh(visitor)
    await visitor.room.passkeys.add(visitor.principal.name, _read(answer), _site(request), name.strip() or "passkey")
    return JSONResponse({"next": "/you"})


@router.post("/you/passkeys/{passkey}/remove")
async def remove(visitor: Person, passkey: str) -> Response:
    """The key is nobody's."""
    await check_fresh(visitor)
    await visitor.room.passkeys.remove(visitor.principal, visitor.principal.name, passkey)
    return RedirectResponse("/you", 303)


@router.post("/login/passkey/ask")
async def ask_to_enter(request: Request) -> Response:
    """What whoever stands at the door is to sign."""
    same_site(request)
    premises_of(request).knocks.heard(request)
    return _json(await _at_the_door(request).ask(_site(request)))


@router.post("/login/passkey")
async def enter(request: Request, visitor: Anybody, answer: _Text, next: _Path = "/") -> Response:
    """In, with a passkey."""
    same_site(request)
    name = await _at_the_door(request).used(_read(answer), _site(request))
    await let_in(request, visitor, premises_of(request).settings.workspace, name, "passkey")
    return JSONResponse({"next": local_path(next)})


@router.post("/prove/passkey/ask")
async def ask_to_prove(request: Request, visitor: Person) -> Response:
    """What this person is to sign."""
    return _json(await visitor.room.passkeys.ask(_site(request), visitor.principal.name))


@router.post("/prove/passkey")
async def prove(request: Request, visitor: Person, answer: _Text, next: _Path = "/") -> Response:
    """The person has proved once more who they are."""
    await visitor.room.passkeys.used(_read(answer), _site(request), visitor.principal.name)
    await proved(request, visitor, "passkey", "/")
    return JSONResponse({"next": local_path(next)})


def _at_the_door(request: Request) -> Passkeys:
    premises = premises_of(request)
    return Passkeys(premises.store, premises.settings.workspace)


def _site(request: Request) -> Site:
    name = rp_id_of(request)
    if not name:
        raise Problem(409, "passkeys need a name: open this page as localhost, or by the server's own name")
    return Site(name, origin_of(request))


def _read(answer: str) -> dict[str, Json]:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NotAllowed("this is no answer of a passkey; try again", principal="")
    return found


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
