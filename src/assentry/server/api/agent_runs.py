"""For agents: a whole piece of work as a run that can wait for people without a process, and go on."""

import secrets
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from assentry.core.run import PlanStep
from assentry.core.secret_text import without_secrets
from assentry.core.text import shortened
from assentry.core.verdict import GateKind
from assentry.engine.agent_runs import AgentRuns, Taken
from assentry.engine.office import NotAsked, StopPoint
from assentry.engine.sealing import no_secret
from assentry.engine.tool import OptionSpec
from assentry.server.api.agent_documents import agent_run_document, at_once_document, proposal_document
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
)
from assentry.server.api.proposals import Choice, Name, Text
from assentry.server.visitors import premises_of

router = APIRouter(prefix="/api/v1/agent", tags=["agents"], route_class=AgentRoute)


class Planned(Body):
    """One thing that the agent says it will do."""

    says: Annotated[str, Field(min_length=1, max_length=2_000)]
    done: bool = False


Plan = Annotated[list[Planned], Field(max_length=500)]


class NewRun(Body):
    """A piece of work."""

    goal: Annotated[str, Field(min_length=1, max_length=20_000)]
    original: Text
    plan: Annotated[list[Planned], Field(default=[], max_length=500)]
    key: Annotated[str, Field(default="", max_length=500, description="Begun again with it, the same run goes on.")]
    parent: Annotated[str, Field(default="", max_length=200, description="The run that this one works for.")]
    parent_fence: Annotated[
        int,
        Field(default=0, ge=0, description="Whoever holds the parent gets back what finished inside, not run again."),
    ]
    scope: dict[str, Any] | None = Field(default=None, description="What it may do; only from agents vouched for.")
    attempt: Attempt
    lease: Lease


class Entering(Body):
    """Somebody goes on with it."""

    attempt: Attempt
    lease: Lease


class Held(Body):
    """Said by whoever holds the run."""

    fence: Fence


class Living(Held):
    lease: Lease


class Observed(Body):
    """Something that came back from the world."""

    source: Annotated[str, Field(default="", max_length=200)]
    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    trusted: bool = Field(default=False, description="It cannot carry a stranger's words.")


class Note(Held):
    """What the run's people read: its plan, what it spent, what it saw."""

    plan: Plan | None = None
    spent: Annotated[float | None, Field(default=None, ge=0, le=1e15)]
    observed: Observed | None = None


class Stop(Held):
    """A place where the run stops for a person."""

    kind: Literal["checkpoint", "draft", "exception", "sample", "cannot_go_on", "interrupt"] = "checkpoint"
    args: dict[str, Any] = Field(description="What they are shown: for a checkpoint, `checkpoint` and `show`.")
    gate: Literal["run", "soft", "hard"] = "hard"
    editable: Annotated[list[Name], Field(default=[], max_length=20, description="What they may change of it.")]
    options: Annotated[list[Choice], Field(default=[], max_length=20)]
    insists: bool = Field(default=False, description="Where policy holds nothing, nobody is asked.")
    key: Annotated[str, Field(default="", max_length=500)]
    draft_of: Annotated[str, Field(default="", max_length=200)]
    caller: CallerName


class Parking(Held):
    """The process ends; the run waits as rows."""

    waits: Annotated[list[Name], Field(default=[], max_length=100, description="Requests that wake it.")]
    state: Any = Field(default=None, description="JSON that is given back when the run goes on.")
    keeps: bool = Field(default=False, description="Leave the state as it was given the last time.")


class Ending(Held):
    """What it came to."""

    outcome: Any = None


class Broken(Held):
    """What went wrong."""

    error: Annotated[str, Field(min_length=1, max_length=20_000)]


class GivenUp(Body):
    """Why it is given up."""

    reason: Annotated[str, Field(default="", max_length=2_000)]


@router.post("/runs", summary="Begin a run, or go on with it", status_code=201)
async def begin(agent: Caller, said: NewRun, wait: Wait = 0, idempotency_key: IdempotencyKey = None) -> dict[str, Any]:
    """The run is held by the caller under the `fence` that it is given; it shows that it lives within the lease.

    With the `key` of an open run that nobody holds, that one goes on.
    """
    run = await agent.begin_run(
        said.goal, attempt=_attempt(said.attempt), original=said.original, plan=_plan(said.plan),
        key=no_secret("key", step_key(said.key, idempotency_key)), parent=said.parent, parent_fence=said.parent_fence,
        scope=said.scope, lease=seconds(said.lease),
        patience=wait,
    )  # fmt: skip
    ignored: list[Any] = ["original"] if said.original and not agent.is_trusted else []
    return agent_run_document(run, fence=run.fence, lease_seconds=said.lease, ignored=ignored)


@router.get("/runs/{run_id}", summary="How a run stands")
async def status(agent: Caller, run_id: str, http: Request, wait: Wait = 0, version: Version = 0) -> dict[str, Any]:
    """With `wait`, the answer comes once it can go on (`ready`), is over, or is newer than `version`."""
    run = await agent.run(run_id)
    if wait:
        run = await premises_of(http).agents.waited(agent.run_changed(run, wait, version), run)
    return agent_run_document(run, ready=await agent.is_ready(run))


@router.get("/runs/{run_id}/resumption", summary="What was decided while it waited")
async def resumption(agent: Caller, run_id: str) -> dict[str, Any]:
    """The state that the run was parked with, what people said, and the interruption in words for the agent."""
    run = await agent.run(run_id)
    return await _resumption(agent, Taken(run, await agent.parked_with(run), await agent.resumption(run)))


@router.post("/runs/{run_id}/enter", summary="Go on with a run")
async def enter(agent: Caller, run_id: str, said: Entering, wait: Wait = 0) -> dict[str, Any]:
    """The run is held by the caller, under a new `fence`, with its resumption."""
    taken = await agent.enter(run_id, attempt=_attempt(said.attempt), lease=seconds(said.lease), patience=wait)
    return {
        **await _resumption(agent, taken),
        "fence": taken.run.fence, "lease_seconds": said.lease,
    }  # fmt: skip


@router.post("/runs/{run_id}/live", summary="It is still being worked on")
async def live(agent: Caller, run_id: str, said: Living) -> dict[str, Any]:
    """The lease lasts for so many seconds more. Look at `state`: a person may have paused or stopped it."""
    return agent_run_document(await agent.live(run_id, said.fence, seconds(said.lease)))


@router.post("/runs/{run_id}/notes", summary="Plan, spending, observations")
async def note(agent: Caller, run_id: str, said: Note) -> dict[str, Any]:
    """What people read in the run's timeline, and what its budget is held against."""
    seen = said.observed
    run = await agent.note(
        run_id, said.fence, plan=None if said.plan is None else _plan(said.plan), spent=said.spent,
        source="" if seen is None else seen.source, text="" if seen is None else seen.text,
        trusted=seen is not None and seen.trusted,
    )  # fmt: skip
    return agent_run_document(run)


@router.post("/runs/{run_id}/stops", summary="Stop for a person", status_code=201)
async def stop(agent: Caller, run_id: str, said: Stop) -> dict[str, Any]:
    """A checkpoint and its like: a request that does nothing. Once it `may_run`, begin and finish it, and go on."""
    point = StopPoint(
        said.kind, said.args, _headline(said), _REASONS[said.kind], GateKind(said.gate), frozenset(said.editable),
        tuple(OptionSpec(each.label, each.consequence) for each in said.options), said.insists,
        no_secret("key", said.key), no_secret("draft_of", said.draft_of),
    )  # fmt: skip
    try:
        request = await agent.stop_at(run_id, said.fence, point, said.caller)
    except NotAsked:
        return {**at_once_document(said.kind, said.args), "asked": False}
    if request is None:
        return {**at_once_document(said.kind, said.args), "asked": True}
    return {**proposal_document(request), "asked": True}


@router.post("/runs/{run_id}/park", summary="Let it wait without a process")
async def park(agent: Caller, run_id: str, said: Parking) -> dict[str, Any]:
    """The caller may end. Any of `waits`, decided, makes the run `ready`."""
    run = await agent.park(run_id, said.fence, tuple(said.waits), said.state, keeps=said.keeps)
    return agent_run_document(run, ready=await agent.is_ready(run))


@router.post("/runs/{run_id}/finish", summary="The run is done")
async def finish(agent: Caller, run_id: str, said: Ending) -> dict[str, Any]:
    """What it came to is on record. Told twice, it is so once."""
    return agent_run_document(await agent.finish_run(run_id, said.fence, said.outcome))


@router.post("/runs/{run_id}/fail", summary="The run went wrong")
async def fail(agent: Caller, run_id: str, said: Broken) -> dict[str, Any]:
    """What went wrong is on record. Told twice, it is so once."""
    return agent_run_document(await agent.fail_run(run_id, said.fence, said.error))


@router.post("/runs/{run_id}/cancel", summary="Give the run up")
async def cancel(agent: Caller, run_id: str, said: GivenUp) -> dict[str, Any]:
    """It ends, what it waits for is withdrawn, and so are the runs that work for it."""
    return agent_run_document(await agent.cancel_run(run_id, said.reason))


_REASONS = {
    "checkpoint": "the run stops here for a look",
    "draft": "a draft to approve, change, send back with instructions, or drop",
    "exception": "a step failed, and a person says how to go on; approving tries it again",
    "sample": "an item was drawn to be looked at; denying it stops the batch",
    "cannot_go_on": "the agent says that it cannot go on without what was denied; approving allows it after all",
    "interrupt": "the agent wants a person first",
}


_QUOTES = str.maketrans(dict.fromkeys('“”„‟"«»', "'"))


def _headline(said: Stop) -> str:
    """What the card is called, in our words; of the agent's there is at most a name."""

    def name(field: str) -> str:
        # A secret that was cut is not recognised any more. Quotes of its own would end ours.
        text = without_secrets(str(said.args.get(field, ""))).translate(_QUOTES)
        return shortened(text, 60)

    number = said.args.get("number")
    return {
        "checkpoint": f"Checkpoint, named by the agent “{name('checkpoint')}”",
        "draft": f"Draft, named by the agent “{name('what')}”",
        "exception": f"The agent says that a step failed: “{name('step')}”",
        "sample": f"Sample: item {number}" if isinstance(number, int) else "Sample: one item",
        "cannot_go_on": "The agent says that it cannot go on",
        "interrupt": "The agent stopped itself and asks for a person",
    }[said.kind]


async def _resumption(agent: AgentRuns, taken: Taken) -> dict[str, Any]:
    told = taken.told
    return {
        "run": agent_run_document(taken.run, ready=await agent.is_ready(taken.run)), "state": taken.state,
        "summary": "" if told is None else told.summary, "chosen": "" if told is None else told.chosen,
        "allowed": told is not None and bool(told.requests) and told.allowed,
        "decided": [] if told is None else [proposal_document(each) for each in told.requests],
    }  # fmt: skip


def _plan(steps: list[Planned]) -> tuple[PlanStep, ...]:
    return tuple(PlanStep(each.says, each.done) for each in steps)


def _attempt(given: str) -> str:
    return no_secret("attempt", given) or secrets.token_hex(8)
