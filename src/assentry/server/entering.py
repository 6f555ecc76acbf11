"""Letting people in: every way in ends here, whatever they proved themselves with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from assentry.engine.identity import person_in
from assentry.errors import NotAllowed
from assentry.server.cookies import set_cookie
from assentry.server.premises import Premises
from assentry.server.problems import Problem
from assentry.server.visitors import Visitor, is_from_elsewhere, premises_of

MOST_WAITING = 32
"""So many may wait for their password to be checked; more are sent away, so that these get an answer."""


async def begun(premises: Premises, workspace: str, name: str, how: str) -> str:
    """The secret of a session for somebody who has just proved who they are, if the policy knows them."""
    room = await premises.room(workspace)
    if person_in(room.desk.judgement.policy, name) is None:
        raise NotAllowed("you are not among the people of the policy here; an operator can add you", principal=name)
    return await room.identities.begin_session(name, how)


async def let_in(request: Request, before: Visitor | None, workspace: str, name: str, how: str) -> None:
    """The answer carries a session for somebody who has just proved who they are, if the policy knows them.

    Whoever was logged in with this browser before no longer is.
    """
    secret = await begun(premises_of(request), workspace, name, how)
    if before is not None and before.session is not None and before.surface == "web":
        await before.room.identities.log_out(before.session)
    set_cookie(request, secret)


async def proved(request: Request, visitor: Visitor, how: str, path: str) -> Response:
    """The person of this session has just proved once more who they are."""
    renewed = await visitor.room.identities.proved_again(visitor.known_session, how)
    if renewed is None:
        raise Problem(409, "this session was renewed or ended a moment ago; load the page and try again")
    set_cookie(request, renewed[1])
    return RedirectResponse(path, 303)


def same_site(request: Request) -> None:
    """Nobody is logged in by a page of others: they would then work under a name that is not theirs."""
    if is_from_elsewhere(request):
        raise Problem(403, "this came from another page; open Assentry itself and log in there")


@asynccontextmanager
async def a_turn(premises: Premises) -> AsyncIterator[None]:
    """Inside, a password may be checked: two at a time, and only so many wait."""
    if premises.checking >= MOST_WAITING:
        raise Problem(429, "too many people log in at this moment; try again", headers={"Retry-After": "5"})
    premises.checking += 1
    try:
        async with premises.hashing:
            yield
    finally:
        premises.checking -= 1
