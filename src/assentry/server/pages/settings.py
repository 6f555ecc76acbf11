"""Settings: the people, the agents' tokens, and one's own password."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from assentry.core.authority import may_change
from assentry.core.credential import CredentialKind
from assentry.core.text import ago
from assentry.errors import InvalidDecision, NotAllowed
from assentry.server.entering import a_turn
from assentry.server.pages.frame import page, person_or_door
from assentry.server.proofs import check_fresh
from assentry.server.visitors import Operator, Person, Visitor, premises_of

router = APIRouter()

Short = Annotated[str, Form(max_length=200)]
Secret = Annotated[str, Form(max_length=1_000)]


@router.get("/settings")
async def settings(request: Request) -> Response:
    """Who is here, which agents have a way in, and one's own password."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    return await _settings(request, visitor)


async def _settings(
    request: Request, visitor: Visitor, *, secret: str = "", command: str = "", complaint: str = "", status: int = 200
) -> Response:
    room = visitor.room
    policy, now = room.desk.judgement.policy, await room.desk.store.now()
    tokens = [
        (each, ago(now - each.made_at), each.is_live(now), str(each.about.get("note", "")))
        for each in await room.identities.tokens(limit=200)
    ]
    return await page(
        request, "settings", visitor, status=status,
        people=policy.people, agents=policy.agents, tokens=tokens, secret=secret, complaint=complaint, command=command,
        may_change=may_change(policy, visitor.principal) or "",
        has_password=await room.identities.has_password(visitor.principal.name),
        self_review=policy.allows_self_review,
    )  # fmt: skip


@router.post("/settings/tokens")
async def give(request: Request, visitor: Operator, agent: Short, note: Short = "", days: Short = "") -> Response:
    """An agent has a token, shown on this page and never again."""
    if days and not (days.isascii() and days.isdigit() and 0 < int(days) < 10_000):
        return await _settings(request, visitor, complaint="days is a whole number, or empty", status=422)
    life = timedelta(days=int(days)) if days else None
    try:
        _, secret = await visitor.room.identities.give_token(visitor.principal, agent.strip(), life=life, note=note)
    except InvalidDecision as problem:
        return await _settings(request, visitor, complaint=str(problem), status=422)
    return await _settings(request, visitor, secret=secret)


@router.post("/settings/tokens/{token}/end")
async def end(visitor: Operator, token: str) -> Response:
    """Whoever has the token can do nothing with it any more."""
    await visitor.room.identities.end(visitor.principal, CredentialKind.TOKEN, token)
    return RedirectResponse("/settings#tokens", 303)


@router.post("/settings/terminal")
async def terminal(request: Request, visitor: Person) -> Response:
    """A link that logs a terminal in, once."""
    secret = await visitor.room.identities.link(visitor.principal, visitor.principal.name)
    return await _settings(request, visitor, command=f"assentry login {request.base_url} {secret}")


@router.post("/settings/password")
async def password(request: Request, visitor: Person, new: Secret, again: Secret, old: Secret = "") -> Response:
    """One's own password is another now; everybody who was logged in with the old one is out."""
    if new != again:
        return await _settings(request, visitor, complaint="the two new passwords differ", status=422)
    identities, name = visitor.room.identities, visitor.principal.name
    known = await identities.has_password(name)
    if not known:
        await check_fresh(visitor)
    try:
        async with a_turn(premises_of(request)):
            if known:
                await identities.check_password(name, old)
            await identities.set_password(visitor.principal, name, new)
    except (InvalidDecision, NotAllowed) as problem:
        return await _settings(request, visitor, complaint=str(problem), status=422)
    return RedirectResponse("/login", 303)
