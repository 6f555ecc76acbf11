"""Coming and going: one-time links, passwords, proving once more who you are, logging out."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from assentry.engine.identity import Identities, is_workspace, workspace_of
from assentry.errors import NotAllowed
from assentry.server.cookies import drop_cookie
from assentry.server.entering import a_turn, let_in, proved, same_site
from assentry.server.pages.frame import local_path, page
from assentry.server.proofs import means_of, rp_id_of
from assentry.server.visitors import Anybody, Person, Visitor, premises_of

router = APIRouter()


@router.get("/enter")
async def entrance(request: Request, link: str = "") -> HTMLResponse:
    """The page behind a one-time link. Only its button uses the link up, so that no preview does."""
    found = await Identities(premises_of(request).store, workspace_of(link)).link_for(link) if link else None
    holder = found.holder if found is not None else ""
    status = 200 if found is not None else 410
    return await page(request, "enter", None, status=status, link=link if found else "", holder=holder)


@router.post("/enter")
async def enter(request: Request, visitor: Anybody, link: Annotated[str, Form(max_length=400)]) -> Response:
    """The link is used up, and whoever pressed is in."""
    same_site(request)
    workspace = workspace_of(link)
    name = await Identities(premises_of(request).store, workspace).use_link(link)
    await let_in(request, visitor, workspace, name, "link")
    return RedirectResponse("/", 303)


@router.get("/login")
async def login_page(request: Request, visitor: Anybody, next: str = "/") -> Response:
    """Name and password; or how to get a link."""
    if visitor is not None and visitor.principal.kind == "person":
        return RedirectResponse(local_path(next), 303)
    return await _login(request, local_path(next))


@router.post("/login")
async def login(
    request: Request,
    visitor: Anybody,
    name: Annotated[str, Form(max_length=200)],
    password: Annotated[str, Form(max_length=1_000)],
    next: Annotated[str, Form(max_length=2_000)] = "/",
    workspace: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """In, with a name and a password."""
    same_site(request)
    premises, name, path = premises_of(request), name.strip(), local_path(next)
    workspace = workspace if is_workspace(workspace) else premises.settings.workspace
    try:
        async with a_turn(premises):
            await Identities(premises.store, workspace).check_password(name, password)
        await let_in(request, visitor, workspace, name, "password")
    except NotAllowed as problem:
        return await _login(request, path, 403, name=name, complaint=str(problem))
    return RedirectResponse(path, 303)


@router.get("/prove")
async def prove_page(request: Request, visitor: Person, next: str = "/") -> HTMLResponse:
    """Once more a password, a passkey or the provider, before something critical."""
    return await _prove(request, visitor, local_path(next))


@router.post("/prove")
async def prove(
    request: Request,
    visitor: Person,
    password: Annotated[str, Form(max_length=1_000)],
    next: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    """The person has proved once more who they are."""
    try:
        async with a_turn(premises_of(request)):
            await visitor.room.identities.check_password(visitor.principal.name, password)
    except NotAllowed as problem:
        return await _prove(request, visitor, local_path(next), 403, complaint=str(problem))
    return await proved(request, visitor, "password", local_path(next))


@router.post("/logout")
async def logout(request: Request, visitor: Person) -> Response:
    """Out."""
    await visitor.room.identities.log_out(visitor.known_session)
    drop_cookie(request)
    return RedirectResponse("/login", 303)


async def _login(
    request: Request, path: str, status: int = 200, *, name: str = "", complaint: str = ""
) -> HTMLResponse:
    sign_on = premises_of(request).sign_on
    provider = sign_on.name if sign_on is not None else ""
    passkeys = bool(rp_id_of(request))
    return await page(
        request, "login", None, status=status,
        next=path, name=name, complaint=complaint, provider=provider, passkeys=passkeys,
    )  # fmt: skip


async def _prove(
    request: Request, visitor: Visitor, path: str, status: int = 200, *, complaint: str = ""
) -> HTMLResponse:
    means, sign_on = await means_of(visitor), visitor.room.sign_on
    provider = sign_on.name if sign_on is not None else ""
    if "passkey" in means and not rp_id_of(request):
        means = tuple(each for each in means if each != "passkey")
    return await page(
        request, "prove", visitor, status=status, next=path, complaint=complaint, means=means, provider=provider
    )
