"""For people: the stop switch of an agent, or of everything. Whoever may look may stop."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from assentry.core.switch import EVERYTHING, Setting
from assentry.engine.oversight import Withdrawn
from assentry.server.api.answers import SwitchList, SwitchTurned, told
from assentry.server.api.asking import Body, Words
from assentry.server.problems import Problem
from assentry.server.visitors import Person, Visitor
from assentry.telling.plain import plain_json
from assentry.telling.run_documents import run_document
from assentry.telling.standing import switch_document

router = APIRouter(prefix="/api/v1", tags=["stop switch"])


class Turn(Body):
    """Whom it holds up, and how."""

    setting: Annotated[Setting, Field(description="pause: calls wait. stop: calls are turned away. go: neither.")]
    agent: Annotated[str, Field(max_length=200, description="This agent, whatever it runs.")] = ""
    everything: Annotated[bool, Field(description="Every agent.")] = False
    reason: Annotated[Words, Field(description="The agent is told.")] = ""


@router.get("/switches", summary="What is held up", **told(SwitchList, "Every switch that holds somebody up."))
async def switches(visitor: Person) -> dict[str, Any]:
    """By whom and why. An agent that is not here goes on."""
    return {"switches": await _held(visitor)}


@router.post("/switches", summary="Pause, stop or let go", **told(SwitchTurned, "It is set."))
async def turn(visitor: Person, turn: Turn) -> dict[str, Any]:
    """Holds up an agent, or everything, at its next gate; `go` lets it on. Name either `agent` or `everything`.

    The switch is set first, so nothing new begins; then the open runs follow, and come back in the answer. A stop also
    withdraws what waits: `withdrawn` says how many requests.
    """
    agent = turn.agent.strip()
    if bool(agent) == turn.everything or agent == EVERYTHING:
        raise Problem(422, 'say whom: either "agent": "NAME" or "everything": true')
    over, by, whom, withdrawn = visitor.room.oversight, visitor.principal, agent or EVERYTHING, Withdrawn()
    if turn.setting is Setting.GO:
        moved = [run async for run in over.release(by, whom)]
    else:
        moved = [run async for run in over.hold(by, whom, turn.setting, turn.reason, withdrawn=withdrawn)]
    runs: list[Any] = plain_json([run_document(run) for run in moved])
    return {"switches": await _held(visitor), "runs": runs, "withdrawn": withdrawn.requests}


async def _held(visitor: Visitor) -> list[dict[str, Any]]:
    return [switch_document(each) for each in await visitor.room.oversight.switches()]
