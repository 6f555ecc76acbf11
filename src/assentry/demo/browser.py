"""The play in a browser: a server and several agents here, a person at the inbox, and the story told as it goes."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from rich.text import Text

from assentry.assemble import Desk
from assentry.core.action import Json
from assentry.core.request import Request, State
from assentry.demo.actor import Actor
from assentry.demo.interrupts import Interrupts
from assentry.demo.play import decision_words
from assentry.demo.stage import Stage
from assentry.demo.world import AGENT, Postbox, World
from assentry.engine.waiting import Hub
from assentry.errors import SettingsError
from assentry.ports import Filter
from assentry.server.desktop import show
from assentry.server.serving import Address, Standing, standing
from assentry.settings import Settings

CAST = {
    AGENT: "assentry.demo.agent",
    "payments-agent": "assentry.demo.payments",
    "composer": "assentry.demo.composer",
    "labeller": "assentry.demo.labeller",
}
APART = 8
"""How many pauses lie between the entrances of two agents, so that arriving can be seen."""

_COLUMN = 15


class BrowserPlay:
    """One performance. What it tells of decisions it reads from the database, what agents did from their own words."""

    def __init__(self, stage: Stage, world: World, box: Postbox, desk: Desk, *, pause: float, began: float) -> None:
        self._stage, self._desk, self._pause, self._began = stage, desk, pause, began
        self._settings = world.settings
        self._cast = {name: Actor(name, module, world, box, pause) for name, module in CAST.items()}
        self._hub = Hub(desk.store, desk.settings.workspace)
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._known: dict[str, State] = {}
        self.seconds_to_first_question: float | None = None

    async def requests(self) -> list[Request]:
        """Every request of every agent, oldest first."""
        page = await self._desk.store.requests(self._desk.settings.workspace, Filter(), limit=200)
        return sorted(page.requests, key=lambda request: request.ask.created_at)

    async def perform(self, interrupts: Interrupts, *, opens: bool) -> None:
        """Every agent came to its end, and whoever sits at the terminal, where there is one, has had enough."""
        loop = asyncio.get_running_loop()

        def noticed(_: Mapping[str, int] | None) -> None:
            loop.call_soon_threadsafe(self._events.put_nowait, {"kind": "changed"})

        async with _served(self._settings) as server:
            await self._invite(server, opens=opens)
            leave = self._hub.listen(noticed)
            entering = asyncio.create_task(self._enter())
            try:
                with _enters(self._events):
                    await self._watch(server, entering)
                    if sys.stdin.isatty():
                        await self._linger(interrupts)
            finally:
                entering.cancel()
                await asyncio.gather(entering, return_exceptions=True)
                leave()
                self._hub.stop()
                await asyncio.gather(*(actor.stop() for actor in self._cast.values()))

    async def _invite(self, server: Standing, *, opens: bool) -> None:
        """Where to sign in is on the screen, and in the browser of the desktop where there is one."""
        made = await server.link()
        link, how = (made, "signs you in, once") if made else (f"{server.url}/login", "sign in there")
        opened = opens and sys.stdout.isatty() and show(link)
        where = "The inbox opens in your browser. If it does not" if opened else "The inbox is in your browser"
        self._stage.say((f"▶ {where}, open this ({how}):", "bold"))
        self._stage.console.print()
        self._stage.console.print(Text(f"    {link}", "bold cyan"), soft_wrap=True)
        self._stage.console.print()

    async def _enter(self) -> None:
        """The agents come one after the other."""
        for number, actor in enumerate(self._cast.values()):
            await asyncio.sleep(self._pause * APART if number else 0)
            await actor.start(self._events)

    async def _watch(self, server: Standing, entering: asyncio.Task[None]) -> None:
        """Everything was told until the last agent ended."""
        while not all(actor.finished for actor in self._cast.values()):
            if entering.done():
                entering.result()
            event = await self._events.get()
            if event["kind"] == "enter":
                await self._invite(server, opens=False)
            else:
                await self._heard(event)

    async def _linger(self, interrupts: Interrupts) -> None:
        """What can be taken back still can be, until somebody has had enough."""
        self._stage.console.print()
        self._stage.say(
            ("All agents have ended.", "bold"), " In the browser you can still undo, look at Runs and the Log."
        )
        self._stage.say(("Press Enter here for the summary.", "bold"))
        with interrupts.mean(lambda: self._events.put_nowait({"kind": "enter"})):
            while (event := await self._events.get())["kind"] != "enter":
                await self._heard(event)

    async def _heard(self, event: Mapping[str, Json]) -> None:
        """One thing that happened was told; what was decided before it comes first."""
        await self._look()
        name = event.get("agent", "")
        match event["kind"]:
            case "ran":
                self._told("✓", "green", name, event["did"])
            case "skipped":
                self._told("✗", "yellow", name, f"{event['action']} skipped: {event['reason']}", "the agent plans on")
            case "finished" | "stopped":
                ended = f"done: {event['ran']} of {event['of']}" if "ran" in event else "stopped by a person"
                self._told("■", "bold", name, ended)
                self._cast[name].finished = True
            case "gone":
                await self._gone(self._cast[name], event["code"])

    async def _gone(self, actor: Actor, code: int) -> None:
        actor.gone(code)
        self._told("✗", "red", actor.name, "its process died", "requests and decisions are in the database")
        if not actor.finished:
            await actor.start(self._events)
            self._told("↻", "cyan", actor.name, "a new process goes on with the same run")

    async def _look(self) -> None:
        for request in await self.requests():
            before = self._known.get(request.id)
            self._known[request.id] = request.state
            if request.state is before:
                continue
            says = request.candidate.says
            if request.state is State.PENDING:
                if self.seconds_to_first_question is None:
                    self.seconds_to_first_question = time.monotonic() - self._began
                self._told("■", "yellow", request.ask.agent, says, "waits for you in the browser")
            elif before is State.PENDING or (before is None and request.word not in ("", "policy", "grant")):
                who, did = decision_words(request)
                self._told("→", "bold cyan", who, did, request.ask.candidate.says)
            elif request.state is State.UNDONE:
                self._told("↶", "green", request.ask.agent, says, "taken back")

    def _told(self, sign: str, style: str, who: str, what: str, more: str = "") -> None:
        self._stage.line(sign, style, who, what, more, indent=_COLUMN)


@asynccontextmanager
async def _served(settings: Settings) -> AsyncIterator[Standing]:
    """The server answers at its usual port, or where that is taken at another."""
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(standing(settings, Address()))
        except SettingsError:
            server = await stack.enter_async_context(standing(settings, Address(port=0)))
        yield server


@contextmanager
def _enters(events: asyncio.Queue[dict[str, Any]]) -> Iterator[None]:
    """Whenever somebody presses Enter at this terminal, that is an event; without a terminal nothing is read."""
    if not sys.stdin.isatty():
        yield
        return
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def ready() -> None:
        if not os.read(descriptor, 65_536):
            loop.remove_reader(descriptor)
        events.put_nowait({"kind": "enter"})

    loop.add_reader(descriptor, ready)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
