"""For agents: propose, hear the outcome, carry it out, report how it ended; ask people questions.

An agent is who its token says, whatever a body says. It sees its own requests; others do not exist for it.
"""

import asyncio
import secrets
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AwareDatetime, Field

from assentry.core.action import Declaration, Reach, Risk
from assentry.core.canonical import restore
from assentry.core.request import State
from assentry.engine.agent_calls import HELD, Described
from assentry.engine.agent_runs import AgentRuns
from assentry.engine.judgement import Context
from assentry.engine.sealing import no_secret
from assentry.engine.tool import OptionSpec
from assentry.errors import AssentryError, Conflict, InvalidArguments
from assentry.server.api.agent_documents import at_once_document, begun_document, proposal_document
from assentry.server.api.calling import (
    AgentRoute,
    Attempt,
    Body,
    Caller,
    CallerName,
    Fence,
    IdempotencyKey,
    Lease,
    Version,
    Wait,
    seconds,
    step_key,
    vault_of,
)
from assentry.server.visitors import Agent, premises_of

router = APIRouter(prefix="/api/v1/agent", tags=["agents"], route_class=AgentRoute)

Text = Annotated[str, Field(default="", max_length=20_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Effect(Body):
    """What the agent says that the action would do. From an agent that the policy lists this counts; else it can only
    raise the risk."""

    reversible: bool | None = None
    reach: Reach | None = None
    outside: bool | None = Field(default=None, description="It leaves our systems.")
    money: bool | None = None
    risk: Risk | None = None


class Choice(Body):
    """Something else that the person may choose. Without `change` it runs nothing."""

    label: Annotated[str, Field(min_length=1, max_length=200)]
    consequence: Annotated[str, Field(default="", max_length=2_000)]
    change: dict[str, Any] | None = None


class Claims(Body):
    """What the agent says about its call. People see it boxed, as the agent's words."""

    why: Text
    goal: Text
    confidence: Annotated[float | None, Field(default=None, ge=0, le=1)]
    cost: Annotated[float | None, Field(default=None, ge=0, le=1e15)]
    alternatives: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(default=[], max_length=50)]
    run: Annotated[str, Field(default="", max_length=200, description="The run that it belongs to.")]
    run_fence: Annotated[int, Field(default=0, ge=0, description="As it was given with the run.")]
    key: Annotated[
        str,
        Field(default="", max_length=500, description="Names the step: proposed again, it finds its request again."),
    ]
    draft_of: Annotated[str, Field(default="", max_length=200, description="The request that this one revises.")]


class Call(Body):
    """A kind of call, as the agent describes it."""

    action: Name
    description: Text
    arguments: dict[str, Any] | None = Field(default=None, description="The JSON schema of the arguments.")
    effect: Effect = Effect()
    hold: bool = Field(
        default=False,
        description="A person is to look, whatever the policy says. Why, `why` tells them in the agent's words.",
    )


class Foreseeing(Body):
    """Calls that the agent may make later on."""

    calls: Annotated[list[Call], Field(max_length=100)]


class Proposal(Claims, Call):
    """A call that the agent wants to make."""

    args: dict[str, Any] = Field(default={}, description="The arguments, by name.")
    args_text: Annotated[
        str,
        Field(default="", max_length=2_000_000, description="The arguments as canonical JSON instead, for numbers "
              "that JSON cannot carry."),
    ]  # fmt: skip
    secret: Annotated[list[Name], Field(default=[], max_length=100, description="Arguments to be sealed.")]
    says: Annotated[str, Field(default="", max_length=2_000, description="A line with {argument}s, for the card.")]
    options: Annotated[list[Choice], Field(default=[], max_length=20)]
    if_denied: Annotated[str, Field(default="", max_length=2_000)]
    needed_by: AwareDatetime | None = None
    idempotent: bool = Field(default=False, description="With the same idempotency key it may be repeated.")
    attempt: Attempt
    lease: Lease
    caller: CallerName


class Question(Claims):
    """Something that the agent wants to know."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    choices: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(default=[], max_length=100)]
    answers: dict[str, Any] | None = Field(default=None, description="The JSON schema of an answer.")
    shown: dict[str, Any] | None = Field(default=None, description="What the card shows with it, in full, by name.")
    best_guess: Any = None
    has_best_guess: bool = Field(default=False, description="After `seconds` without an answer, `best_guess` is it.")
    seconds: Annotated[float | None, Field(default=3600, gt=0, le=31_536_000)]
    reviewers: Annotated[list[Name], Field(default=[], max_length=50)]
    caller: CallerName


class SignOfLife(Body):
    """The process lives."""

    lease: Annotated[float, Field(default=60, ge=0, le=600, description="For so many seconds; 0 where it ends now.")]
    new: bool = Field(default=False, description="The first time under this name.")
    instead: CallerName


class WaitedFor(Body):
    """Who waits."""

    caller: CallerName


class Begin(Body):
    """Intent: from now on it is being carried out."""

    attempt: Attempt
    lease: Lease
    run_fence: Annotated[int, Field(default=0, ge=0)]


class Renewal(Body):
    """It is still being carried out."""

    fence: Fence
    lease: Lease


class Result(Body):
    """It was carried out."""

    fence: Fence
    result: Any = None


class Failure(Body):
    """It was tried and went wrong."""

    fence: Fence
    error: Annotated[str, Field(min_length=1, max_length=20_000)]


class Withdrawal(Body):
    """It is no longer wanted."""

    reason: Annotated[str, Field(default="", max_length=2_000)]


@router.get("/me", summary="Who am I?")
async def who(agent: Caller, visitor: Agent) -> dict[str, Any]:
    """The agent and the workspace that the token is for, and whether the policy vouches for the agent."""
    return {"agent": agent.agent, "workspace": visitor.room.name, "trusted": agent.is_trusted}


@router.post("/proposals", summary="Propose a call", status_code=201)
async def propose(
    agent: Caller,
    said: Proposal,
    http: Request,
    response: Response,
    wait: Wait = 0,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """The call is judged by policy and put on record. `may_run` says whether it may be begun now; `waits`, that a
    person decides first; `told` says it in words. A call that only reads may run at once, without more ado (200).

    With a `key`, or an `Idempotency-Key`, proposing again finds the same request. With an `attempt` what may run is
    begun in the same call. `wait` is for how long to wait while a person has paused the agent. What does not count,
    because the policy does not list the agent under `agents:`, is named in `ignored`.
    """
    no_secret("attempt", said.attempt)
    context = _context(agent.agent, said, idempotency_key)
    made, ignored = agent.described(_described(said))
    fired = HELD if said.hold else ()
    request = await agent.propose(
        made, _args(said), context, fence=said.run_fence, patience=wait, fired=fired, caller=said.caller
    )
    gate = "run" if request is None else str(request.candidate.verdict.gate)
    http.app.state.meters.proposals.labels(gate).inc()
    if request is None:
        response.status_code = 200
        return at_once_document(said.action, _args(said), ignored)
    if said.attempt and (request.state is State.APPROVED or agent.is_begun_by(request, said.attempt)):
        try:
            begun = await agent.begin(
                request.id, attempt=said.attempt, lease=seconds(said.lease), fence=said.run_fence, patience=wait
            )
        except Conflict:  # another call of the same step was faster; its end is this one's as well
            return proposal_document(await agent.request(request.id), ignored)
        return {**begun_document(begun, vault_of(http), said.lease), "ignored": list(ignored)}
    return proposal_document(request, ignored)


@router.post("/foreseen", summary="Which gates would calls have?")
async def foreseen(agent: Caller, said: Foreseeing) -> dict[str, Any]:
    """The gate of each of these calls, in their order, as far as it does not depend on arguments: `run`, `watch`,
    `soft`, `hard`, `manual` or `forbid`; nothing where it is not known. Nothing is proposed and nobody is asked. What
    arguments change is judged only on record, when a call is proposed.
    """
    gates: list[str | None] = []
    for each in said.calls:
        gates.append(_foreseen(agent, each))
        await asyncio.sleep(0)  # others are answered in between
    return {"gates": gates}


@router.get("/proposals", summary="Find a call by its key")
async def found(
    agent: Caller,
    key: Annotated[str, Query(min_length=1, max_length=500)],
    run: Annotated[str, Query(max_length=200)] = "",
) -> dict[str, Any]:
    """The request that the step with this key made, of a run or outside runs; none if it made none."""
    request = await agent.by_step(run, key)
    return {"proposals": [] if request is None else [proposal_document(request)]}


@router.get("/proposals/{request_id}", summary="How a call stands")
async def outcome(
    agent: Caller, request_id: str, http: Request, wait: Wait = 0, version: Version = 0
) -> dict[str, Any]:
    """With `wait`, the answer comes as soon as there is something new: decided, ended, or newer than `version`."""
    request = await agent.request(request_id)
    if wait:
        request = await premises_of(http).agents.waited(agent.changed(request, wait, version), request)
    return proposal_document(request)


@router.post("/proposals/{request_id}/begin", summary="Begin what was approved")
async def begin(agent: Caller, request_id: str, said: Begin, http: Request, wait: Wait = 0) -> dict[str, Any]:
    """The permit is used up. The answer has exactly what to run (`args`, as approved or changed by a person) and the
    `fence` to report under. Renew the lease while it runs; where it lapses, the outcome is unknown.
    """
    attempt = said.attempt or secrets.token_hex(8)
    begun = await agent.begin(
        request_id, attempt=attempt, lease=seconds(said.lease), fence=said.run_fence, patience=wait
    )
    return begun_document(begun, vault_of(http), said.lease)


@router.post("/proposals/{request_id}/renew", summary="It still runs")
async def renew(agent: Caller, request_id: str, said: Renewal) -> dict[str, Any]:
    """The lease lasts for so many seconds more."""
    return proposal_document(await agent.renew(request_id, said.fence, seconds(said.lease)))


@router.post("/proposals/{request_id}/finish", summary="It is done")
async def finish(agent: Caller, request_id: str, said: Result) -> dict[str, Any]:
    """The result is on record, without the secrets in it. Told twice, it is so once."""
    return proposal_document(await agent.finish(request_id, said.fence, said.result))


@router.post("/proposals/{request_id}/fail", summary="It went wrong")
async def fail(agent: Caller, request_id: str, said: Failure) -> dict[str, Any]:
    """The error is on record, without the secrets in it. Told twice, it is so once."""
    return proposal_document(await agent.fail(request_id, said.fence, said.error))


@router.post("/proposals/{request_id}/cancel", summary="Withdraw it")
async def cancel(agent: Caller, request_id: str, said: Withdrawal) -> dict[str, Any]:
    """What waits or may run is withdrawn; what was begun is not taken back by this."""
    return proposal_document(await agent.cancel(request_id, said.reason))


@router.post("/questions", summary="Ask people something", status_code=201)
async def ask(agent: Caller, said: Question, wait: Wait = 0, idempotency_key: IdempotencyKey = None) -> dict[str, Any]:
    """The question is on record; its `answer` comes like the outcome of a call, at `/proposals/{id}?wait=`."""
    request = await agent.ask(
        said.text, _context(agent.agent, said, idempotency_key), choices=tuple(said.choices), schema=said.answers,
        guess=(said.best_guess,) if said.has_best_guess else (),
        time=None if said.seconds is None else seconds(said.seconds), reviewers=tuple(said.reviewers),
        fence=said.run_fence, patience=wait, caller=said.caller, shown=said.shown,
    )  # fmt: skip
    return proposal_document(request)


@router.post("/callers/{name}", summary="A process that waits lives")
async def lives(
    agent: Caller, name: Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")], said: SignOfLife
) -> dict[str, Any]:
    """A process that names itself as `caller` of what it proposes says within each lease that it lives, for the first
    time at most 60 seconds after the proposal. When it does not, its requests say that nobody is waiting for them any
    more, and what was approved for it has ended. Where the answer is that it is not `known`, it was taken for gone: it
    takes another name, and says `instead` of which.

    Leave `caller` out where a request is found again by its id or its key: such a request is never taken for abandoned.
    """
    known = await agent.show_caller(name, seconds(said.lease), new=said.new, instead=said.instead)
    return {"known": known}


@router.post("/proposals/{request_id}/callers", summary="Say who waits for it")
async def waits(agent: Caller, request_id: str, said: WaitedFor) -> dict[str, Any]:
    """One more process waits for it; without a name, it will be found again without any process."""
    return proposal_document(await agent.awaited(request_id, said.caller))


def _context(agent: str, said: Claims, once: str | None) -> Context:
    key = step_key(said.key, once)
    if said.run and not key:
        raise InvalidArguments("in a run every step has a name: send a key, or an Idempotency-Key")
    return Context(
        agent=agent, run=said.run, key=key, goal=said.goal, why=said.why, confidence=said.confidence, cost=said.cost,
        alternatives=tuple(said.alternatives), draft_of=said.draft_of,
    )  # fmt: skip


def _args(said: Proposal) -> Any:
    if not said.args_text:
        return said.args
    if said.args:
        raise InvalidArguments("send args or args_text, not both: only one of them can be what runs")
    try:
        return restore(said.args_text)
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        raise InvalidArguments("args_text is not canonical JSON; send args instead, as an object") from None


def _foreseen(agent: AgentRuns, said: Call) -> str | None:
    try:
        effect = Declaration(**said.effect.model_dump())
        kind = Described(said.action, said.description, said.arguments, declared=effect)
        gate = agent.foreseen_as(kind, HELD if said.hold else ())
        return None if gate is None else str(gate)
    except (AssentryError, ValueError):
        return None


def _described(said: Proposal) -> Described:
    needed: datetime | None = said.needed_by
    return Described(
        said.action, said.description, said.arguments, frozenset(said.secret),
        Declaration(**said.effect.model_dump()), said.says,
        tuple(OptionSpec(each.label, each.consequence, each.change) for each in said.options), said.if_denied, needed,
        said.idempotent,
    )  # fmt: skip
