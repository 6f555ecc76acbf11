"""What every call of an agent shares: who it is, its keys, and a pause or a stop told as a problem."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from assentry.engine.agent_runs import AgentRuns
from assentry.errors import Interrupt, Parked, RunStopped
from assentry.ports import Vault
from assentry.server.problems import answer
from assentry.server.visitors import Agent, premises_of

LONGEST_WAIT = 55.0
"""Proxies give up on an answer after a minute."""
_MARK = r"^[\x21-\x7e]{1,200}$"
IdempotencyKey = Annotated[
    str | None,
    Header(pattern=_MARK, description="The same for every retry of one call, so that it is made once."),
]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="How many seconds to wait for news.")]
Version = Annotated[int, Query(ge=0, description="Wait for anything newer than this version.")]
Attempt = Annotated[
    str,
    Field(
        default="",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="A name for this attempt, new each time it would be carried out; the same for its retries.",
    ),
]
Lease = Annotated[float, Field(default=60, ge=1, le=600, description="Seconds until it must be renewed.")]
CallerName = Annotated[
    str,
    Field(
        default="",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="The process that waits, where nothing but it can find the request again; see /callers.",
    ),
]
Fence = Annotated[int, Field(ge=1, description="As it was given when it was begun.")]


class Body(BaseModel):
    """What a call says; a word that is not known here is an error, not a silence."""

    model_config = ConfigDict(extra="forbid")


class AgentRoute(APIRoute):
    """A person's stop or pause is an answer. They are no ordinary errors, so no handler of those would see them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await handle(request)
            except (RunStopped, Parked, Interrupt) as held:
                return answer(request, held)

        return told


async def calling(visitor: Agent, http: Request) -> AgentRuns:
    """The agent that calls, by its token."""
    return await premises_of(http).agents.of(visitor.room.name, visitor.principal.name)


Caller = Annotated[AgentRuns, Depends(calling)]


def vault_of(http: Request) -> Vault:
    """What opens the secrets that an agent gave."""
    return premises_of(http).keys


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def step_key(key: str, once: str | None) -> str:
    """The name of the step: as the agent says, or what it sends with every retry."""
    return key or (f"once:{once}" if once else "")
