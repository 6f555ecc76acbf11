"""An example as real processes: the program, workers for it, and people who decide from elsewhere."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from assentry.assemble import Desk, desk
from assentry.core.briefing import Briefing
from assentry.core.request import Request, State
from assentry.core.run import Run
from assentry.ports import Filter, RunFilter
from assentry.settings import load
from examples.playground import Says, said
from tests import forked

T = TypeVar("T")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PAGES = EXAMPLES.parent / "docs" / "examples"
SECONDS = 60


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page that are written in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


class Theatre:
    """One folder in which an example is played by any number of processes."""

    def __init__(self, program: Path, folder: Path, database: str = "", **variables: str) -> None:
        self.program, self.folder, self.database = program, folder, database
        self.place: Desk | None = None
        self.cards: list[Briefing] = []
        """What people saw, of everything that was decided."""
        self._variables = variables
        self._alive: list[subprocess.Popen[bytes]] = []

    @property
    def ledger(self) -> list[str]:
        """What really happened, in order."""
        return (self.folder / "ledger.txt").read_text().splitlines()

    def environment(self) -> dict[str, str]:
        """Nothing but the folder's `assentry.toml` says where the database is."""
        bare = {name: value for name, value in os.environ.items() if not name.startswith("ASSENTRY_")}
        path = os.pathsep.join(filter(None, (str(self.program.parent), os.environ.get("PYTHONPATH"))))
        return {**bare, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **self._variables}

    def played(self, *options: str) -> subprocess.CompletedProcess[str]:
        """The program, from its start to its end."""
        command = [sys.executable, str(self.program), "--folder", str(self.folder), *options]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def begun(self) -> subprocess.Popen[bytes]:
        """The program, as somebody who will decide themselves starts it."""
        given = ["--database", self.database] if self.database else []
        return self._started("program", str(self.program), "--folder", str(self.folder), *given)

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        """A process that knows the example only by its name and the folder."""
        return self._started(name, "-m", "assentry", "worker", f"{self.program.stem}:gate", cwd=self.folder)

    def _started(self, name: str, *command: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=cwd, env=self.environment(), stdout=log, stderr=log
            )
        self._alive.append(process)
        return process

    def log(self, name: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{name}.log")

    async def until_it_says(self, name: str, word: str) -> None:
        """The process has written this."""

        async def look() -> bool:
            return word in self.log(name).read_text(errors="replace")

        await self.until(look, f"{name} says {word!r}")

    async def until(self, look: Callable[[], Awaitable[T]], what: str) -> T:
        """What `look` found, once it finds something."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := await look()):
                    await asyncio.sleep(0.02)
                return found
        except TimeoutError:
            logs = "".join(f"\n--- {log.name}\n{log.read_text()}" for log in sorted(self.folder.parent.glob("*.log")))
            raise AssertionError(f"it did not come to this: {what}{logs}") from None

    async def take_seats(self) -> None:
        """The people see what the example's processes see."""
        self.place = await desk(load(directory=self.folder))

    async def run(self) -> Run:
        assert self.place is not None
        (run,) = await self.place.store.runs(self.place.settings.workspace, RunFilter())
        return run

    async def is_over(self) -> Run | None:
        run = await self.run()
        return None if run.state.is_open else run

    async def waiting(self) -> Request | None:
        """What the run is parked on, once it is."""
        assert self.place is not None
        run = await self.run()
        assert run.state.is_open, f"it ended with decisions left: {run.state} {run.outcome} {run.error}"
        found = [request for request in (await self.place.inbox.page()).requests if request.id in run.waits]
        return found[0] if found else None

    async def in_state(self, state: State) -> Request | None:
        assert self.place is not None
        found = (await self.place.inbox.page(Filter(states=(state,)))).requests
        return next((request for request in found if request.can_undo), None)

    async def decide(self, says: Says, *, by_command: bool) -> None:
        """A person has said this to what waits: with the real command, or at a desk of the engine."""
        assert self.place is not None
        if says.verb == "undo":
            request = await self.until(lambda: self.in_state(State.DONE), "something can be undone")
        else:
            request = await self.until(self.waiting, f"something waits to be told {says.verb}")
        self.cards.append(await self.place.inbox.brief(request.id))
        if not by_command or says.by:
            return await said(self.place, request, says)
        command = await self._command(request, says)
        done = await asyncio.to_thread(forked.assentry, *command, cwd=self.folder, env=self.environment())
        assert done.code == 0, done.out + done.problem
        return None

    async def _command(self, request: Request, says: Says) -> list[str]:
        assert self.place is not None
        card = await self.place.inbox.brief(request.id)
        phrase, rest = card.phrase, [] if says.what is None else [says.what]
        match says.verb:
            case "undo":
                return ["undo", request.code]
            case "choose":
                (option,) = [option for option in card.options if option.label == says.what]
                phrase, rest = option.phrase, [str(option.number + 1)]
            case "deny":
                rest = ["--reason", says.what]
            case "modify":
                rest = ["--args", json.dumps(says.what(dict(card.args)))]
        typed = ["--confirm", phrase] if phrase and says.verb in ("approve", "choose", "modify") else []
        return [says.verb, request.code, *rest, *typed, "--digest", card.digest]

    def kill(self, *processes: subprocess.Popen[bytes]) -> None:
        """They are gone, without a word."""
        for process in processes:
            process.kill()
        for process in processes:
            assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
            self._alive.remove(process)

    async def end(self) -> None:
        """Whoever still works has ended what it began and is gone."""
        for process in self._alive:
            process.terminate()
        for process in self._alive:
            try:
                await asyncio.to_thread(process.wait, 15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._alive = []
        if self.place is not None:
            await self.place.store.close()
            self.place = None


@asynccontextmanager
async def theatre(program: Path, folder: Path, database: str = "", **variables: str) -> AsyncIterator[Theatre]:
    """A theatre whose processes have ended when the block has."""
    made = Theatre(program, folder, database, **variables)
    try:
        yield made
    finally:
        await made.end()


class Postbox:
    """A mail server of the test's own."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.received.append(envelope.content)
        return "250 kept"


@asynccontextmanager
async def postbox() -> AsyncIterator[tuple[Postbox, str]]:
    from aiosmtpd.smtp import SMTP

    box = Postbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(box), "127.0.0.1", 0)
    try:
        yield box, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
