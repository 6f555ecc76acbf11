"""For people: what agents work on, every step of it, and holding it up."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from assentry.core.run import RunState
from assentry.engine.chronicle import MOST_STEPS
from assentry.engine.oversight import OPEN, Withdrawn
from assentry.ports import RunFilter
from assentry.server.api.answers import RunGiven, RunPage, Timeline, told
from assentry.server.api.asking import NO_REASON, After, Limit, RunCode, Why
from assentry.server.visitors import Person, Visitor
from assentry.telling.plain import plain_json
from assentry.telling.run_documents import run_document, tree_document

router = APIRouter(prefix="/api/v1", tags=["runs"])

Agent = Annotated[str, Query(max_length=200, description="Of this agent.")]
States = Annotated[list[RunState] | None, Query(description="In one of these states; else those not over.")]
Steps = Annotated[int, Query(ge=1, le=MOST_STEPS, description="So many of the last steps of each run.")]


@router.get("/runs", summary="What agents work on", **told(RunPage, "Newest first."))
async def runs(
    visitor: Person,
    state: States = None,
    ended: Annotated[bool, Query(description="Also those that are over.")] = False,
    agent: Agent = "",
    after: After = "",
    limit: Limit = 50,
) -> dict[str, Any]:
    """Runs that are not over yet, newest first; with `ended`, every one. `next` is where the next page begins."""
    states = tuple(state) if state else () if ended else OPEN
    found = await visitor.room.oversight.page(RunFilter(states=states, agent=agent), after=after, limit=limit + 1)
    following = found[limit - 1].id if len(found) > limit else ""
    made: list[Any] = plain_json([run_document(run) for run in found[:limit]])
    return {"runs": made, "next": following}


@router.get("/runs/{code}/timeline", summary="Every step of one", **told(Timeline, "Oldest first."))
async def timeline(visitor: Person, code: RunCode, steps: Steps = MOST_STEPS) -> dict[str, Any]:
    """The run, what happened in it, and the runs that worked for it with theirs."""
    run = await visitor.room.oversight.find(code)
    tree = await visitor.room.chronicle.tree(run, most=steps)
    made: dict[str, Any] = plain_json({"run": run_document(run), **tree_document(tree)})
    return made


@router.post("/runs/{code}/pause", summary="Hold it", **told(RunGiven, "It holds at its next gate."))
async def pause(visitor: Person, code: RunCode, why: Why = NO_REASON) -> dict[str, Any]:
    """The run goes no further than its next gate until somebody lets it go on; time stands still for what it asked."""
    return await _held(visitor, code, "pause", why.reason)


@router.post("/runs/{code}/stop", summary="End it", **told(RunGiven, "It ends at its next gate."))
async def stop(visitor: Person, code: RunCode, why: Why = NO_REASON) -> dict[str, Any]:
    """The run, and those that work for it, end at their next gate; what they still wait for is withdrawn."""
    return await _held(visitor, code, "stop", why.reason)


@router.post("/runs/{code}/go", summary="Let it go on", **told(RunGiven, "It goes on."))
async def go(visitor: Person, code: RunCode) -> dict[str, Any]:
    """What was paused goes on, and so does time."""
    return await _held(visitor, code, "go", "")


async def _held(visitor: Visitor, code: str, how: Literal["pause", "stop", "go"], reason: str) -> dict[str, Any]:
    over, by, withdrawn = visitor.room.oversight, visitor.principal, Withdrawn()
    run = await over.find(code)
    match how:
        case "pause":
            moved = await over.pause(by, run, reason)
        case "stop":
            moved = await over.stop(by, run, reason, withdrawn=withdrawn)
        case _:
            moved = await over.go(by, run)
    made: dict[str, Any] = plain_json(run_document(moved))
    return {"run": made, "withdrawn": withdrawn.requests}
