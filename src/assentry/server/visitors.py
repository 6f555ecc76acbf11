"""Who calls: a person with a session, or an agent with a token; never both, and never one for the other.

A session comes in a cookie, and then every change needs proof that a page of ours asked for it; or it comes in a
header, which no page of others can send.
"""

import hashlib
import hmac
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from assentry.core.authority import Principal, may_change
from assentry.core.credential import Credential
from assentry.engine.identity import PROOF_LIFE, SESSION_MARK, TOKEN_MARK, Identities, Session, workspace_of
from assentry.errors import NotAllowed
from assentry.server.cookies import cookie_name, set_cookie
from assentry.server.premises import Premises, Room
from assentry.server.problems import Problem

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
CSRF_FIELD, CSRF_HEADER = "csrf", "x-assentry-csrf"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody or something that was identified, and the room it may enter."""

    principal: Principal
    room: Room
    session: Session | None = None
    token: Credential | None = None
    csrf: str = ""
    surface: str = "api"

    @property
    def known_session(self) -> Session:
        """The session, which every person has."""
        if self.session is None:
            raise Problem(401, "log in first")
        return self.session

    def is_fresh(self, now: datetime) -> bool:
        """They proved who they are a short while ago."""
        return self.session is not None and now - self.session.proved_at < PROOF_LIFE


def premises_of(request: Request) -> Premises:
    """What this server holds."""
    found: Premises = request.app.state.premises
    return found


def origin_of(request: Request) -> str:
    """How this server is called by whoever calls; its name was checked before anything else."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def is_from_elsewhere(request: Request) -> bool:
    """A page of others made the browser send this, by the browser's word."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    return (origin is not None and origin != origin_of(request)) or site not in (None, "same-origin", "none")


def csrf_for(session: Session) -> str:
    """What a page of ours sends with every change. Pages that are open stay good when the cookie is renewed."""
    return hashlib.sha256(b"assentry-csrf:" + session.family.encode()).hexdigest()[:40]


async def anybody(request: Request) -> Visitor | None:
    """Who calls, or nobody. A wrong proof is nobody; where there is a header the cookie does not count."""
    header = request.headers.get("authorization", "")
    scheme, _, bearer = header.partition(" ")
    if header and scheme.lower() != "bearer":
        raise Problem(401, "send a token as `Authorization: Bearer …`", headers={"WWW-Authenticate": "Bearer"})
    if header:
        return await _by_secret(request, bearer.strip(), "api")
    cookie = request.cookies.get(cookie_name(request), "")
    return await _by_secret(request, cookie, "web") if cookie.startswith(SESSION_MARK) else None


async def _by_secret(request: Request, secret: str, surface: str) -> Visitor | None:
    workspace = workspace_of(secret)
    if not workspace or len(secret) > 400 or not secret.isascii():
        return None
    premises = premises_of(request)
    # A room is only opened for somebody whose proof was found in it.
    identities = Identities(premises.store, workspace)
    if secret.startswith(TOKEN_MARK):
        token = await identities.agent(secret)
        if token is None:
            return None
        room = await premises.room(workspace)
        return Visitor(Principal(token.holder, "agent"), room, token=token, surface=surface)
    if not secret.startswith(SESSION_MARK) or not await identities.has_session(secret):
        return None
    room = await premises.room(workspace)
    session = await identities.session(secret, room.desk.judgement.policy)
    if session is None:
        return None
    return Visitor(session.principal, room, session=session, csrf=csrf_for(session), surface=surface)


async def somebody(request: Request) -> Visitor:
    """Whoever it is, identified."""
    found = await anybody(request)
    if found is None:
        raise Problem(
            401,
            "nobody is known by this; people log in at /login, agents send `Authorization: Bearer aat_…`",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return found


async def person(request: Request) -> Visitor:
    """A person. Whoever changes something from a page proves that the page was ours."""
    found = await somebody(request)
    if found.principal.kind != "person":
        raise Problem(403, "agents never decide and see only what they asked for; this is for people")
    if found.surface == "web" and request.method not in SAFE_METHODS:
        await _from_our_page(request, found)
        return await _rotated(request, found)
    return found


async def agent(request: Request) -> Visitor:
    """An agent, by its token."""
    found = await somebody(request)
    if found.principal.kind != "agent":
        raise Problem(403, "this is for agents: send an agent's token (`assentry token give AGENT`)")
    return found


async def operator(request: Request) -> Visitor:
    """A person who may change policy, people, tokens and grants."""
    found = await person(request)
    operates(found)
    return found


def operates(visitor: Visitor) -> None:
    """The person may change policy, people, tokens and grants; else the error says who may."""
    reason = may_change(visitor.room.desk.judgement.policy, visitor.principal)
    if reason is not None:
        raise NotAllowed(reason, principal=visitor.principal.name)


async def _from_our_page(request: Request, visitor: Visitor) -> None:
    if is_from_elsewhere(request):
        raise Problem(403, "this came from another page; open Assentry itself and decide there")
    sent = request.headers.get(CSRF_HEADER, "")
    if not sent and request.headers.get("content-type", "").startswith(
        ("application/x-www-form-urlencoded", "multipart/form-data")
    ):
        sent = str((await request.form()).get(CSRF_FIELD, ""))
    if not hmac.compare_digest(sent.encode(), visitor.csrf.encode()):
        raise Problem(403, "this page is too old; load it again and decide there")


async def _rotated(request: Request, visitor: Visitor) -> Visitor:
    """The same visitor; where the cookie is old, the answer carries another."""
    renewed = await visitor.room.identities.rotated(visitor.known_session)
    if renewed is None:
        return visitor
    set_cookie(request, renewed[1])
    return replace(visitor, session=renewed[0])


Anybody = Annotated[Visitor | None, Depends(anybody)]
Somebody = Annotated[Visitor, Depends(somebody)]
Person = Annotated[Visitor, Depends(person)]
Agent = Annotated[Visitor, Depends(agent)]
Operator = Annotated[Visitor, Depends(operator)]
