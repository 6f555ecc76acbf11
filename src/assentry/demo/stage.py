"""What the person at the terminal sees and says: narration, cards, and deciding right here.

Lines are read without blocking, so that a decision taken in another terminal makes the prompt go away. What was
typed before a card stood on the screen never counts for it, and an empty line never decides anything.
"""

import asyncio
import json
import os
import sys
from asyncio import Task
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assentry.assemble import Desk
from assentry.core.action import Json
from assentry.core.briefing import Briefing, brief
from assentry.core.request import Kind, Request
from assentry.demo.card import WIDEST, card, plain, value_text
from assentry.errors import AssentryError, ConfirmationNeeded, SettingsError

SURFACE = "demo"


class Left(Exception):
    """The person does not want to go on."""


class Stage:
    """Where the play is told. Colour and keys only where there is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @property
    def width(self) -> int:
        return min(self.console.width, WIDEST)

    def say(self, *pieces: str | tuple[str, str], indent: int = 0) -> None:
        """A paragraph, wrapped."""
        self.console.print(Padding(Text.assemble(*pieces), (0, 0, 0, indent)), width=self.width)

    def line(self, sign: str, style: str, who: str, what: str, gate: str = "", *, indent: int = 13) -> None:
        """One step: a sign, the action, what came of it, and what the gate did."""
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=2, justify="right")
        grid.add_column(width=indent)
        grid.add_column()
        text = Text(plain(what))
        if gate:
            text.append(f" · {gate}" if what else gate, "dim")
        grid.add_row(Text(sign, style), Text(plain(who), "bold"), text)
        self.console.print(grid, width=self.width)

    def heading(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(text, "bold"))

    def card(self, briefing: Briefing) -> None:
        """The card of a waiting request."""
        self.console.print(card(briefing, self.width))


class Keyboard:
    """Lines typed at this terminal."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def line(self, prompt: str, until: Task[Any]) -> str | None:
        """The line that was typed, or `None` if `until` came first. The end of input means leaving."""
        if termios is None:
            raise SettingsError("deciding in the terminal needs a POSIX one; leave out --terminal and use the browser")
        loop = asyncio.get_running_loop()
        descriptor = sys.stdin.fileno()
        typed: asyncio.Future[bytes] = loop.create_future()

        def ready() -> None:
            loop.remove_reader(descriptor)
            typed.set_result(os.read(descriptor, 65_536))

        termios.tcflush(descriptor, termios.TCIFLUSH)
        self._stage.console.print(Text.assemble((f" {prompt} ", "bold"), ("> ", "bold cyan")), end="", soft_wrap=True)
        sys.stdout.flush()
        loop.add_reader(descriptor, ready)
        try:
            await asyncio.wait({typed, until}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(descriptor)
        if not typed.done():
            termios.tcflush(descriptor, termios.TCIFLUSH)
            self._stage.console.print()
            return None
        text = typed.result()
        if not text:
            self._stage.console.print()
            raise Left
        return text.decode(errors="replace").strip()


class Reviewer:
    """Lets the person at this terminal decide."""

    def __init__(self, stage: Stage, desk: Desk, open_inbox: Callable[[], Awaitable[None]]) -> None:
        self._stage, self._desk, self._open_inbox = stage, desk, open_inbox
        self._keyboard = Keyboard(stage)
        self._person = desk.person()

    async def decide(self, request: Request, settled: Task[Request]) -> None:
        """The request was decided, here or elsewhere."""
        briefing = brief(request, await self._desk.store.now())
        await self._desk.inbox.seen(self._person, request.id)
        while not settled.done():
            word = await self._keyboard.line(_prompt(briefing), settled)
            if word is None:
                return
            try:
                if await self._heard(word.lower(), briefing, settled):
                    await asyncio.wait({settled}, timeout=10)
                    return
            except AssentryError as problem:
                self._stage.say((plain(str(problem)), "yellow"), indent=1)
                briefing = await self._desk.inbox.brief(request.id)

    async def finish(
        self, offers: Callable[[], Awaitable[list[Request]]], undo: Callable[[str], Awaitable[None]]
    ) -> None:
        """What can still be taken back was offered, until the person has had enough."""
        never = asyncio.create_task(asyncio.Event().wait())
        try:
            while open_ones := await offers():
                self._stage.heading("Can still be taken back")
                for number, request in enumerate(open_ones, 1):
                    self._stage.say((f"{number}  ", "bold"), plain(request.candidate.says), indent=3)
                word = await self._keyboard.line("number to undo · Enter to finish", never)
                if not word:
                    return
                if word.isdigit() and 1 <= int(word) <= len(open_ones):
                    try:
                        await undo(open_ones[int(word) - 1].id)
                    except AssentryError as problem:
                        self._stage.say((plain(str(problem)), "yellow"), indent=1)
        finally:
            never.cancel()

    async def _heard(self, word: str, briefing: Briefing, settled: Task[Request]) -> bool:
        """Whether the word was a decision that was taken."""
        inbox, person = self._desk.inbox, self._person
        shown: dict[str, Any] = {"seen_digest": briefing.digest, "surface": SURFACE}
        if word.isdigit():
            return await self._numbered(int(word), briefing, settled, shown)
        match word:
            case "a" if briefing.kind is Kind.ACTION and not briefing.options:
                return await self._confirmed(lambda more: inbox.approve(person, briefing.id, **shown, **more), settled)
            case "d":
                reason = await self._keyboard.line("why not? the agent is told (Enter to go back)", settled)
                if reason:
                    await inbox.deny(person, briefing.id, reason, **shown)
                return bool(reason)
            case "s" if briefing.kind is Kind.ACTION:
                told = await self._keyboard.line("instructions for another draft (Enter to go back)", settled)
                if told:
                    await inbox.revise(person, briefing.id, told, **shown)
                return bool(told)
            case "m" if briefing.kind is Kind.ACTION:
                return await self._modified(briefing, settled, shown)
            case "i":
                await self._open_inbox()
                if not settled.done():
                    self._stage.card(briefing)
            case "q":
                raise Left
            case "":
                self._stage.say(("Enter alone decides nothing.", "dim"), indent=1)
            case _:
                self._stage.say((f"Type one of: {_prompt(briefing)}", "yellow"), indent=1)
        return False

    async def _numbered(
        self, number: int, briefing: Briefing, settled: Task[Request], shown: Mapping[str, Any]
    ) -> bool:
        inbox, person, question = self._desk.inbox, self._person, briefing.question
        if question is not None:
            if not 1 <= number <= len(question.choices):
                self._stage.say((f"There is no answer {number}.", "yellow"), indent=1)
                return False
            await inbox.answer(person, briefing.id, question.choices[number - 1], **shown)
            return True
        return await self._confirmed(
            lambda more: inbox.choose(person, briefing.id, number - 1, **shown, **more), settled
        )

    async def _confirmed(self, decide: Callable[[dict[str, str]], Awaitable[Request]], settled: Task[Request]) -> bool:
        """The decision was taken; where it is critical, after its phrase was typed."""
        try:
            await decide({})
        except ConfirmationNeeded as needed:
            typed = await self._keyboard.line(f"critical: type {needed.phrase!r} (Enter to go back)", settled)
            if not typed:
                return False
            await decide({"confirm": typed})
        return True

    async def _modified(self, briefing: Briefing, settled: Task[Request], shown: Mapping[str, Any]) -> bool:
        """Approved with an argument changed, after the change was shown."""
        for name, value in briefing.args.items():
            first, *more = value_text(value).splitlines()
            self._stage.say((plain(name), "bold"), f" = {plain(first)}{' …' if more else ''}", indent=3)
        while True:
            change = await self._keyboard.line("name = new value (Enter to go back)", settled)
            if not change:
                return False
            name, equals, written = change.partition("=")
            name = name.strip()
            if equals and name in briefing.args:
                break
            # Asked again here: what is typed next must not be taken for a decision.
            self._stage.say(("Write it as name = value, with a name from above.", "yellow"), indent=1)
        args = dict(briefing.args) | {name: _read(written.strip(), briefing.args[name])}
        self._stage.say(("instead: ", "dim"), (plain(name), "bold"), f" = {plain(value_text(args[name]))}", indent=3)
        if await self._keyboard.line("a approve with this change (Enter to go back)", settled) != "a":
            return False
        return await self._confirmed(
            lambda more: self._desk.inbox.modify(self._person, briefing.id, args, **shown, **more), settled
        )


def _read(written: str, before: Json) -> Json:
    """What was typed, as the kind of value that stood there before."""
    if isinstance(before, str):
        return written
    try:
        return json.loads(written)
    except json.JSONDecodeError:
        return [part.strip() for part in written.split(",")] if isinstance(before, list) else written


def _prompt(briefing: Briefing) -> str:
    if briefing.question is not None:
        return f"1-{len(briefing.question.choices)} answer · d no answer · i inbox · q stop"
    first = f"1-{len(briefing.options)} choose" if briefing.options else "a approve"
    return f"{first} · d deny · m modify · s send back · i inbox · q stop"
