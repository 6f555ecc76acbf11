"""For terminals: a session in exchange for a one-time link or a password; and its end."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from assentry.engine.identity import Identities, is_workspace, workspace_of
from assentry.server.entering import a_turn, begun
from assentry.server.problems import Problem
from assentry.server.repeats import shown_once
from assentry.server.visitors import Person, premises_of

router = APIRouter(prefix="/api/v1", tags=["terminals"])


class Proof(BaseModel):
    """A one-time link's secret; or a name and a password."""

    model_config = ConfigDict(extra="forbid")

    link: str = Field(default="", max_length=400)
    name: str = Field(default="", max_length=200)
    password: str = Field(default="", max_length=1_000)
    workspace: str = Field(default="", max_length=200)


class Began(BaseModel):
    """Send it as `Authorization: Bearer …`."""

    session: str
    workspace: str


@router.post("/sessions", summary="Log in from a terminal", status_code=201)
async def begin(request: Request, proof: Proof) -> Began:
    """A session for a person. It is shown once, and works for two weeks or until it is ended."""
    shown_once(request)
    premises = premises_of(request)
    if proof.link:
        workspace = workspace_of(proof.link)
        name = await Identities(premises.store, workspace).use_link(proof.link)
        return Began(session=await begun(premises, workspace, name, "link"), workspace=workspace)
    if not proof.name or not proof.password:
        raise Problem(422, "send a one-time link, or a name and a password")
    workspace = proof.workspace if is_workspace(proof.workspace) else premises.settings.workspace
    async with a_turn(premises):
        await Identities(premises.store, workspace).check_password(proof.name, proof.password)
    return Began(session=await begun(premises, workspace, proof.name, "password"), workspace=workspace)


@router.post("/sessions/end", summary="Log out", status_code=204)
async def end(visitor: Person) -> None:
    """The session that this call came with has ended."""
    if visitor.session is not None:
        await visitor.room.identities.log_out(visitor.session)
