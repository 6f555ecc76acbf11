"""Runs: what agents work on, what happened in each, and the switches that hold them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from assentry.core.request import State
from assentry.core.run import OPEN_RUNS, Run, RunState
from assentry.core.switch import EVERYTHING, Setting
from assentry.core.text import ago
from assentry.errors import InvalidDecision
from assentry.ports import Filter, RunFilter
from assentry.server.looks.card import tone_class
from assentry.server.pages.frame import page, person_or_door
from assentry.server.visitors import Person, Visitor
from assentry.telling.run_words import TONES, cut, standing
from assentry.telling.timeline import timeline
from assentry.telling.told import Tone

router = APIRouter()

_PAGE = 50
_LATELY = 200
_OPEN = tuple(state for state in RunState if state in OPEN_RUNS)

Text = Annotated[str, Form(max_length=2_000)]


@dataclass(frozen=True, slots=True)
class Row:
    """One run in the list."""

    run: Run
    goal: str
    now: str
    tone: str
    began: str


@router.get("/runs")
async def runs(request: Request, every: bool = False, agent: str = "", after: str = "") -> Response:
    """Those under way, or all, newest first."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    room = visitor.room
    wanted = RunFilter(() if every else _OPEN, agent[:200])
    found = await room.oversight.page(wanted, after=after[:200], limit=_PAGE)
    waiting = await room.chronicle.waiting()
    now = await room.desk.store.now()
    rows = [
        Row(
            run,
            cut(run.goal, False, 200),
            standing(run, now, waiting.get(run.id, 0), commands=False),
            tone_class(TONES.get(run.state, Tone.PLAIN)),
            ago(now - run.created_at),
        )
        for run in found
    ]
    following = found[-1].id if len(found) == _PAGE else ""
    return await page(request, "runs", visitor, rows=rows, every=every, agent=agent, next=following)


@router.get("/runs/{code}")
async def run(request: Request, code: str) -> Response:
    """What it was for, what it may do, and every step in order."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    room = visitor.room
    found = await room.oversight.find(code)
    tree = await room.chronicle.tree(found)
    parent = await room.chronicle.run(found.parent) if found.parent else None
    now = await room.desk.store.now()
    waiting = [each for each in tree.steps if each.state is State.PENDING]
    return await page(
        request, "run", visitor,
        run=found, parts=timeline(tree, parent, now, whole=False), parent=parent, waits=waiting,
        is_open=found.state.is_open,
    )  # fmt: skip


@router.post("/runs/{code}/turn")
async def turn_run(visitor: Person, code: str, setting: Text, reason: Text = "") -> Response:
    """The run is paused, stopped, or goes on."""
    over = visitor.room.oversight
    found = await over.find(code)
    match setting:
        case "pause":
            await over.pause(visitor.principal, found, reason)
        case "stop":
            await over.stop(visitor.principal, found, reason)
        case "go":
            await over.go(visitor.principal, found)
        case _:
            raise InvalidDecision("say pause, stop or go")
    return RedirectResponse(f"/runs/{found.code}", 303)


_NO_NAME = f"{EVERYTHING} is no agent's name; to hold everything or let it go on, use “Everything” above."


@router.get("/stop")
async def switches(request: Request, agent: str = "") -> Response:
    """The stop switches: of everything, and of each agent."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    return await _switches(request, visitor, agent[:200])


async def _switches(
    request: Request,
    visitor: Visitor,
    agent: str = "",
    *,
    unsure: str = "",
    complaint: str = "",
    reason: str = "",
    status: int = 200,
) -> Response:
    set_now = await visitor.room.oversight.switches()
    held = {each.agent for each in set_now}
    return await page(
        request, "stop", visitor, status=status,
        switches=set_now, everything=EVERYTHING, agent=agent, unsure=unsure, reason=reason, complaint=complaint,
        agents=sorted(await _agents(visitor) - held),
    )  # fmt: skip


async def _agents(visitor: Visitor) -> set[str]:
    """The agents that somebody here may know: of the policy, with a token, or at work lately."""
    room = visitor.room
    requests = await room.desk.inbox.page(Filter(), limit=_LATELY)
    runs = await room.oversight.page(RunFilter(()), limit=_LATELY)
    tokens = await room.identities.tokens(limit=_LATELY)
    named = {each.name for each in room.desk.judgement.policy.agents}
    return (
        named
        | {each.holder for each in tokens}
        | {each.ask.agent for each in requests.requests}
        | {each.agent for each in runs}
    )


@router.post("/stop")
async def turn(
    request: Request,
    visitor: Person,
    setting: Text,
    agent: Text = "",
    everything: Text = "",
    reason: Text = "",
    sure: Text = "",
) -> Response:
    """An agent, or everything, is paused, stopped, or goes on. A name that nobody knows is asked about once."""
    whom = EVERYTHING if everything == "yes" else agent.strip()
    if not whom:
        raise InvalidDecision("say which agent, or everything")
    if whom == EVERYTHING and everything != "yes":
        return await _switches(request, visitor, complaint=_NO_NAME, reason=reason, status=422)
    over = visitor.room.oversight
    if setting != "go" and whom != EVERYTHING and sure != "yes" and whom not in await _agents(visitor):
        return await _switches(request, visitor, whom, unsure=setting, reason=reason, status=422)
    if setting == "go":
        held = over.release(visitor.principal, whom)
    elif setting in ("pause", "stop"):
        held = over.hold(visitor.principal, whom, Setting(setting), reason)
    else:
        raise InvalidDecision("say pause, stop or go")
    async for _ in held:
        pass
    return RedirectResponse("/stop", 303)
