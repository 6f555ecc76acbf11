"""The play: the agent in its own process, the world it works on, and somebody who decides, joined by the database."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from assentry.assemble import Desk
from assentry.core.action import Json
from assentry.core.briefing import brief
from assentry.core.request import Kind, Request, State
from assentry.core.verdict import GateKind
from assentry.demo.actor import Actor
from assentry.demo.stage import SURFACE, Stage
from assentry.demo.world import AGENT, Postbox, World
from assentry.engine.waiting import Hub
from assentry.ports import Filter

_UNDO_SECONDS = 30


Offers = Callable[[], Awaitable[list[Request]]]


class Person(Protocol):
    """Whoever decides: somebody at this terminal, or a script that decides in other processes."""

    async def decide(self, request: Request, settled: asyncio.Task[Request]) -> None: ...

    async def finish(self, offers: Offers, undo: Callable[[str], Awaitable[None]]) -> None: ...


class Play:
    """One performance. Everything it tells about gates and decisions it reads from the database."""

    def __init__(self, stage: Stage, world: World, box: Postbox, desk: Desk, *, pause: float, began: float) -> None:
        self._stage, self._desk, self._began = stage, desk, began
        self._agent = Actor(AGENT, "assentry.demo.agent", world, box, pause)
        self._hub = Hub(desk.store, desk.settings.workspace)
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._known: dict[str, State] = {}
        self._begun: set[str] = set()
        self.seconds_to_first_question: float | None = None
        self.finished = False

    async def perform(self, person: Person) -> None:
        """The agent came to the end of its plan, and whoever decides has had enough."""
        loop = asyncio.get_running_loop()

        def noticed(_: Mapping[str, int] | None) -> None:
            loop.call_soon_threadsafe(self._events.put_nowait, {"kind": "changed"})

        leave = self._hub.listen(noticed)
        try:
            await self._agent.start(self._events)
            while not self.finished:
                await self._heard(await self._events.get(), person)
            await person.finish(self.offers, self.undo)
        finally:
            leave()
            self._hub.stop()
            await self._agent.stop()

    async def requests(self) -> list[Request]:
        """Every request, oldest first: nobody else is in the demo's workspace."""
        page = await self._desk.store.requests(self._desk.settings.workspace, Filter(), limit=100)
        return sorted(page.requests, key=lambda request: request.ask.created_at)

    async def kill_agent(self) -> None:
        """The agent's process is gone, as in a crash, and that was told."""
        if await self._agent.kill():
            self._told("✗", "red", "agent", "its process was killed", "the request waits on, in the database")

    async def _heard(self, event: Mapping[str, Json], person: Person) -> None:
        match event["kind"]:
            case "changed":
                await self._look(person)
            case "step":
                self._begun.add(event["key"])
                await self._look(person)
            case "started" if event["resumed"]:
                self._told("↻", "cyan", "agent", f"a new process ({event['pid']}) goes on at the same step")
            case "ran" | "skipped" | "revised":
                await self._stepped(event)
            case "finished":
                self._told("■", "bold", "agent", f"done: {event['ran']} of {event['of']} steps ran")
                self.finished = True
            case "stopped":
                self._told("■", "bold", "agent", "stopped by a person")
                self.finished = True
            case "gone":
                if self._agent.gone(event["code"]):
                    self._told("✗", "red", "agent", "its process died", "requests and decisions are in the database")
                await self._agent.start(self._events)

    async def _look(self, person: Person) -> None:
        """What waits was shown and decided; what was undone meanwhile was told.

        A request is shown once the agent's own word of that step is here, so that all it said before comes first.
        """
        for request in await self.requests():
            before = self._known.get(request.id)
            if request.ask.step not in self._begun:
                continue
            self._known[request.id] = request.state
            if request.state is State.PENDING and before is None:
                await self._wait(request, person)
            elif request.state is State.UNDONE and before is not State.UNDONE:
                self._told("↶", "green", request.candidate.action.name, "taken back", "what it did is undone")

    async def _wait(self, request: Request, person: Person) -> None:
        if self.seconds_to_first_question is None:
            self.seconds_to_first_question = time.monotonic() - self._began
        self._told("■", "yellow", request.candidate.action.name, "", "waits for a person; nothing runs meanwhile")
        self._stage.card(brief(request, await self._desk.store.now()))
        settled = asyncio.create_task(self._settled(request))
        try:
            await person.decide(request, settled)
            decided = await settled
        finally:
            settled.cancel()
        self._known[request.id] = decided.state
        who, did = decision_words(decided)
        last = decided.votes[-1] if decided.votes else None
        here = last is None or last.surface == SURFACE
        self._told("→", "bold cyan", who, did, "" if here else "decided outside this screen")

    async def _settled(self, request: Request) -> Request:
        while request.state is State.PENDING:
            request = await self._hub.changed(request)
        return request

    async def _stepped(self, event: Mapping[str, Json]) -> None:
        """One line: what the agent says came of it, and what the database says the gate did."""
        request = next((each for each in await self.requests() if each.ask.step == event["key"]), None)
        action = request.candidate.action.name if request is not None else event["action"]
        if event["kind"] == "ran":
            self._told("✓", "green", action, event["did"], _passed(request))
        elif request is not None and request.state is State.REFUSED:
            rule = request.candidate.verdict.rule
            why = f"forbidden, rule “{rule}”: {event['reason']}; the agent plans on without it"
            self._told("✗", "red", action, request.candidate.says, why)
        elif event["kind"] == "revised":
            self._told("↻", "yellow", action, "the agent writes another draft")
        else:
            self._told("✗", "yellow", action, "skipped", "the agent was told why and plans on without it")

    async def offers(self) -> list[Request]:
        """What can still be taken back."""
        now = await self._desk.store.now()
        return [
            request
            for request in await self.requests()
            if request.state is State.DONE and request.undo_until is not None and request.undo_until > now
        ]

    async def undo(self, request_id: str) -> None:
        """A person here asked for it, and the agent's worker took it back."""
        await self._desk.inbox.undo(self._desk.person(), request_id, "asked for in the demo")
        await self.undone(request_id)

    async def undone(self, request_id: str) -> None:
        """The undo of this request has ended, one way or the other, and was told."""
        request = await self._desk.inbox.find(request_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_UNDO_SECONDS):
                while request.state in (State.UNDO_ASKED, State.UNDOING):
                    request = await self._hub.changed(request)
        action = request.candidate.action.name
        if request.state is State.UNDONE:
            self._told("↶", "green", action, "taken back", "what it did is undone")
        else:
            self._told("✗", "red", action, f"could not be taken back: {request.error or request.state}")

    def _told(self, sign: str, style: str, who: str, what: str, gate: str = "") -> None:
        self._stage.line(sign, style, who, what, gate)


def _passed(request: Request | None) -> str:
    """What the gate did with a call that ran."""
    if request is None:
        return "only reads: ran at once"
    if request.ask.kind is Kind.QUESTION:
        return "the agent goes on with it"
    undo = f"undo: assentry undo {request.code}" if request.undo_until is not None else "cannot be undone"
    if request.candidate.verdict.gate is GateKind.WATCH and not request.decided_by:
        return f"{request.candidate.assessment.risk}: ran at once, logged; {undo}"
    return f"ran exactly as decided; {undo}"


def decision_words(request: Request) -> tuple[str, str]:
    """Who decided what."""
    if request.word == "silence":
        return "time limit", request.reason
    who = request.decided_by or "somebody"
    match request.word:
        case "choose":
            assert request.chosen is not None
            did = f"chose {request.chosen + 1}: {request.ask.options[request.chosen].label}"
        case "deny":
            did = f"denied it: {request.reason}"
        case "answer":
            did = f"answered: {request.answer}"
        case "revise":
            did = f"sent it back: {request.reason}"
        case "modify":
            did = "approved it with changes"
        case "approve":
            did = "approved it"
        case _:
            did = f"{request.word or request.state}: {request.reason}"
    return who, did
