"""Coming and going: one-time links, passwords, proving once more who you are, logging out."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from assent.engine.identity import SESSION_LIFE, Identities, workspace_of
from assent.errors import NotAllowed
from assent.server.pages.frame import local_path, page
from assent.server.problems import Problem
from assent.server.visitors import Anybody, Person, cookie_name, premises_of

router = APIRouter()


@router.get("/enter")
async def entrance(request: Request, link: str = "") -> HTMLResponse:
    """The page behind a one-time link. Only its button uses the link up, so that no preview does."""
    found = await Identities(premises_of(request).store, workspace_of(link)).link_for(link) if link else None
    holder = found.holder if found is not None else ""
    status = 200 if found is not None else 410
    return await page(request, "enter", None, status=status, link=link if found else "", holder=holder)


@router.post("/enter")
async def enter(request: Request, link: Annotated[str, Form(max_length=400)]) -> Response:
    """The link is used up, and whoever pressed is in."""
    _same_site(request)
    secret = await Identities(premises_of(request).store, workspace_of(link)).enter(link)
    return _let_in(request, secret, "/")


@router.get("/login")
async def login_page(request: Request, visitor: Anybody, next: str = "/") -> Response:
    """Name and password; or how to get a link."""
    if visitor is not None and visitor.principal.kind == "person":
        return RedirectResponse(local_path(next), 303)
    return await page(request, "login", None, next=local_path(next), name="", complaint="")


@router.post("/login")
async def login(
    request: Request,
    name: Annotated[str, Form(max_length=200)],
    password: Annotated[str, Form(max_length=1_000)],
    next: Annotated[str, Form(max_length=2_000)] = "/",
    workspace: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """In, with a name and a password."""
    _same_site(request)
    premises = premises_of(request)
    identities = Identities(premises.store, workspace or premises.settings.workspace)
    try:
        async with premises.hashing:
            secret = await identities.log_in(name.strip(), password)
    except NotAllowed as problem:
        return await page(
            request, "login", None, status=403, next=local_path(next), name=name.strip(), complaint=str(problem)
        )
    return _let_in(request, secret, local_path(next))


@router.get("/prove")
async def prove_page(request: Request, visitor: Person, next: str = "/") -> HTMLResponse:
    """Once more the password, before something critical."""
    return await page(request, "prove", visitor, next=local_path(next), complaint="")


@router.post("/prove")
async def prove(
    request: Request,
    visitor: Person,
    password: Annotated[str, Form(max_length=1_000)],
    next: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    """The person has proved once more who they are."""
    premises, session = premises_of(request), visitor.session
    assert session is not None  # noqa: S101  a person at a page has one
    try:
        async with premises.hashing:
            await visitor.room.identities.check_password(visitor.principal.name, password)
    except NotAllowed as problem:
        return await page(request, "prove", visitor, status=403, next=local_path(next), complaint=str(problem))
    secret = await visitor.room.identities.proved_again(session, "password")
    return _let_in(request, secret, local_path(next)) if secret else RedirectResponse("/login", 303)


@router.post("/logout")
async def logout(request: Request, visitor: Person) -> Response:
    """Out."""
    if visitor.session is not None:
        await visitor.room.identities.log_out(visitor.session)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="lax")
    return answer


def _let_in(request: Request, secret: str, path: str) -> Response:
    answer = RedirectResponse(path, 303)
    answer.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(SESSION_LIFE.total_seconds()),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
    return answer


def _same_site(request: Request) -> None:
    """Nobody is logged in by a page of others: they would then work under a name that is not theirs."""
    origin = request.headers.get("origin")
    ours = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if origin is not None and origin != ours:
        raise Problem(403, "this came from another page; open Assent itself and log in there")
