"""For people: who is here, and who you are."""

from typing import Any

from fastapi import APIRouter

from assentry.core.authority import Principal, may_change
from assentry.core.credential import CredentialKind
from assentry.core.policy import Person as Known
from assentry.server.api.answers import Me, PeopleList, told
from assentry.server.visitors import Person, Somebody, Visitor

router = APIRouter(prefix="/api/v1", tags=["people"])


@router.get("/people", summary="Who is here", **told(PeopleList, "As the policy names them."))
async def people(visitor: Person) -> dict[str, Any]:
    """Everybody in the workspace with their roles and teams. Where the policy names nobody, there is only you."""
    policy = visitor.room.desk.judgement.policy
    with_password = await _with_password(visitor)
    known = policy.people or (Known(visitor.principal.name),)
    return {"workspace": visitor.room.name, "people": [_person(visitor, each, with_password) for each in known]}


@router.get("/me", summary="Who you are", **told(Me, "You."))
async def me(visitor: Somebody) -> dict[str, Any]:
    """A person's name, roles and teams, and when they last proved who they are; or the agent that the token is for."""
    policy, name = visitor.room.desk.judgement.policy, visitor.principal.name
    if visitor.principal.kind == "agent":
        known_agent = policy.agent_named(name)
        trusted = known_agent is not None and known_agent.trusted
        return {"kind": "agent", "name": name, "agent": name, "workspace": visitor.room.name, "trusted": trusted}
    with_password = {name} if await visitor.room.identities.has_password(name) else set[str]()
    known = next((each for each in policy.people if each.name == name), Known(name))
    session = visitor.session
    return {
        **_person(visitor, known, with_password),
        "kind": "person",
        "workspace": visitor.room.name,
        "how": session.how if session is not None else "",
        "proved_at": session.proved_at.isoformat() if session is not None else None,
    }


def _person(visitor: Visitor, known: Known, with_password: set[str]) -> dict[str, Any]:
    policy = visitor.room.desk.judgement.policy
    return {
        "name": known.name,
        "roles": list(known.roles),
        "teams": list(known.teams),
        "email": known.email,
        "has_password": known.name in with_password,
        "operates": may_change(policy, Principal(known.name)) is None,
        "agents": [each.name for each in policy.agents if each.owner == known.name],
    }


async def _with_password(visitor: Visitor) -> set[str]:
    store, found, after = visitor.room.desk.store, set[str](), ""
    while page := await store.credentials(visitor.room.name, CredentialKind.ACCOUNT, after=after):
        found |= {each.holder for each in page if each.proof}
        after = page[-1].id
    return found
