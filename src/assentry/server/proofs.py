"""What somebody has to prove with who they are, and whether they did so a short while ago."""

import ipaddress
from datetime import datetime

from fastapi import Request

from assentry.core.authority import person_with_email
from assentry.engine.identity import PROOF_LIFE
from assentry.server.problems import Problem
from assentry.server.visitors import Visitor, origin_of

STRONG = ("password", "passkey", "sso")
"""What proves who somebody is beyond having been given a link."""


async def means_of(visitor: Visitor) -> tuple[str, ...]:
    """What this person can prove with who they are: none where all they have is one-time links."""
    name, room = visitor.principal.name, visitor.room
    policy = room.desk.judgement.policy
    address = next((each.email for each in policy.people if each.name == name), "")
    has = {
        "passkey": bool(await room.passkeys.of(name)),
        "password": await room.identities.has_password(name),
        "sso": room.sign_on is not None and person_with_email(policy, address) is not None,
    }
    return tuple(means for means in has if has[means])


def has_proved(visitor: Visitor, now: datetime) -> bool:
    """They proved who they are a short while ago, with more than a link."""
    session = visitor.session
    return session is not None and session.how in STRONG and now - session.proved_at < PROOF_LIFE


async def check_fresh(visitor: Visitor) -> None:
    """Whoever changes what proves them has just proved who they are: a cookie that was stolen is not enough."""
    now = await visitor.room.desk.store.now()
    if has_proved(visitor, now):
        return
    if await means_of(visitor):
        raise Problem(403, "prove once more who you are, then change this", {"step_up": "/prove", "back": "/you"})
    if not visitor.is_fresh(now):
        raise Problem(403, "come in with a new link first (`assentry link NAME`), then change this")


def rp_id_of(request: Request) -> str:
    """The name that passkeys are bound to here; empty where there is none, as an address of numbers has none."""
    host = origin_of(request).partition("://")[2]
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name.lower()
    return ""
