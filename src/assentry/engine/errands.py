"""Calls that another program carries out: it is told whether it may, and says afterwards what came of it.

The program may be gone between two of these steps, so whatever they share is on record with the request, or in a small
file. Its approval is used up the moment the program is told to go ahead.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Protocol, TextIO

from assentry.core.action import NOTHING_DECLARED, Declaration, Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request, State
from assentry.core.verdict import GateKind, Trigger
from assentry.engine.agent_calls import AgentCalls
from assentry.engine.judgement import Context
from assentry.engine.outcomes import refusal
from assentry.engine.sealing import unsealed
from assentry.engine.tool import Tool, tool
from assentry.errors import AssentryError, Conflict, SettingsError
from assentry.ports import Vault
from assentry.system import locked

LEASE = timedelta(minutes=10)
"""How long such a call may take before its outcome counts as unknown."""
LOCK_SECONDS = 30.0
"""How long a call waits for another process that has the notes; they are held for a few milliseconds."""
_OPEN = (str(State.PENDING), str(State.APPROVED))


@dataclass(frozen=True, slots=True)
class Errand:
    """A call as whoever wants to make it describes it."""

    action: str
    args: Mapping[str, Json]
    name: str
    """What the other program calls it; two that differ in it are not the same."""
    description: str = ""
    schema: Mapping[str, Json] | None = None
    trusted: bool = False
    """We vouch for name, description, schema and effect."""
    effect: Declaration = NOTHING_DECLARED
    """What it would do; where nobody vouches for that, it can only raise the risk."""
    alarm: str = ""
    """Why a person has to look whatever the policy says."""
    definition: str = ""
    """A digest of how it is described by others; described otherwise, it is another call."""
    why: str = ""
    """What whoever decides is told beside it, as the caller's word."""

    @property
    def digest(self) -> str:
        """The same for the same call."""
        said = {"name": self.name, "args": self.args, **({"definition": self.definition} if self.definition else {})}
        return sha256(canonical(said).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Told:
    """How the request for it stands."""

    id: str
    code: str
    state: str
    """As in `State`; `allowed` where there is nothing to wait for and nothing to report."""
    says: str = ""
    """For the model, where it may not run."""
    args: Mapping[str, Json] | None = None
    """What is carried out, once it has begun."""
    fence: int = 0

    @property
    def waits(self) -> bool:
        return self.state == str(State.PENDING)

    @property
    def may_begin(self) -> bool:
        return self.state == str(State.APPROVED)

    @property
    def simply_runs(self) -> bool:
        return self.state == "allowed"


class Errands(Protocol):
    """Where calls are proposed: a database here, or a server."""

    async def propose(self, errand: Errand, key: str) -> Told: ...
    async def gates(self, errands: Sequence[Errand]) -> list[GateKind | None]: ...
    async def decided(self, told: Told, seconds: float) -> Told: ...
    async def begin(self, told: Told, attempt: str) -> Told: ...
    async def renew(self, request_id: str, fence: int) -> None: ...
    async def report(self, request_id: str, fence: int, result: Json, error: str = "") -> None: ...


_Said = tuple[Mapping[str, Json] | None, str, str, bool, Declaration]


class LocalErrands:
    """On the database of this machine."""

    def __init__(self, calls: AgentCalls, vault: Vault) -> None:
        self._calls, self._vault = calls, vault
        self._made: dict[str, tuple[_Said, Tool]] = {}

    async def propose(self, errand: Errand, key: str) -> Told:
        """The call is judged and on record; proposed again with the same key, it is found."""
        made, fired = self._described(errand)
        context = Context(agent=self._calls.agent, key=key, why=errand.why)
        request = await self._calls.propose(made, errand.args, context, fired=fired)
        return Told("", "", "allowed") if request is None else _told(request)

    async def gates(self, errands: Sequence[Errand]) -> list[GateKind | None]:
        """The gate that each of these calls would have, if it could be proposed; nothing is proposed."""
        return [self._foreseen(errand) for errand in errands]

    def _foreseen(self, errand: Errand) -> GateKind | None:
        try:
            made, fired = self._described(errand)
            return self._calls.foreseen(made, errand.args, fired)
        except (AssentryError, ValueError):
            return None  # it cannot be proposed as it is described; whoever calls it is told why

    def _described(self, errand: Errand) -> tuple[Tool, tuple[Trigger, ...]]:
        fired = (Trigger("definition", errand.alarm, GateKind.HARD),) if errand.alarm else ()
        said = (errand.schema, errand.action, errand.description, errand.trusted, errand.effect)
        known = self._made.get(errand.name)
        if known is not None and known[0][0] is errand.schema and known[0][1:] == said[1:]:
            return known[1], fired
        made = tool(
            errand.action, description=errand.description, schema=errand.schema,
            schema_text=canonical(errand.schema) if errand.schema is not None else "", trusted=errand.trusted,
            claimed=errand.effect,
        )  # fmt: skip
        if errand.schema is not None:  # one that nobody has described may have any name
            self._made[errand.name] = (said, made)
        return made, fired

    async def decided(self, told: Told, seconds: float) -> Told:
        """The same once somebody has decided, or after so many seconds."""
        return _told(await self._calls.changed(await self._calls.request(told.id), seconds))

    async def begin(self, told: Told, attempt: str) -> Told:
        """The approval is used up; what is carried out now is exactly this."""
        request = await self._calls.begin(told.id, attempt=attempt, lease=LEASE)
        args = unsealed(self._vault, request.id, restore(request.candidate.args_text), request.sealed)
        return Told(request.id, request.code, str(request.state), "", args, request.fence)

    async def renew(self, request_id: str, fence: int) -> None:
        """It is still being carried out."""
        await self._calls.renew(request_id, fence, LEASE)

    async def report(self, request_id: str, fence: int, result: Json, error: str = "") -> None:
        """What came of it is on record."""
        if error:
            await self._calls.fail(request_id, fence, error)
        else:
            await self._calls.finish(request_id, fence, result)


def _told(request: Request) -> Told:
    fine = request.state in (State.PENDING, State.APPROVED, State.RUNNING, State.DONE, State.FAILED, State.UNKNOWN)
    says = f"request {request.code} is {request.state}" if fine else str(refusal(request))
    return Told(request.id, request.code, str(request.state), says)


@dataclass(slots=True)
class Noted:
    """What is remembered between two calls."""

    asked: dict[str, str] = field(default_factory=dict)
    """The keys of requests that nobody has used yet, by digest."""
    begun: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """What is to be reported, by the other program's name for the call: the request, its fence, and the digest of what
    may run."""
    pins: dict[str, str] = field(default_factory=dict)
    """How the tools were described when they were last let through."""
    turn: str = ""
    """Another one each time an approval was used: until then the same call has the same key."""


class Notebook:
    """A small file that several processes share: which request the same call, made again, finds."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = folder / f"{sha256(name.encode()).hexdigest()[:32]}.json"
        self._seen: tuple[tuple[int, ...], Noted] | None = None

    def look(self) -> Noted:
        """What is in it, to be read and not changed; the file is read again once it is another one."""
        try:
            mark = self._mark()
        except FileNotFoundError:
            return Noted()
        if self._seen is None or self._seen[0] != mark:
            self._seen = (mark, self._noted())
        return self._seen[1]

    def _mark(self) -> tuple[int, ...]:
        found = self._file.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    @contextmanager
    def opened(self) -> Iterator[Noted]:
        """What is in it; what is changed meanwhile is kept."""
        with locked(self._file.with_suffix(".lock"), LOCK_SECONDS):
            noted = self._noted()
            before = _written(noted)
            yield noted
            if (after := _written(noted)) != before:
                self._seen = None
                # Another file takes its place as a whole: whoever is killed meanwhile leaves the old one.
                with self._private(".new") as file:
                    file.write(after)
                    file.flush()
                    os.fsync(file.fileno())
                self._file.with_suffix(".new").replace(self._file)

    def _private(self, suffix: str) -> TextIO:
        number = os.open(self._file.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        return os.fdopen(number, "w", encoding="utf-8")

    def _noted(self) -> Noted:
        try:
            return _read(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Noted()
        except (ValueError, TypeError, AttributeError, LookupError):
            raise SettingsError(
                f"what was noted of calls and tools cannot be read, so that nothing runs; look at {self._file}, and "
                "remove it to begin anew"
            ) from None


def _read(text: str) -> Noted:
    known = json.loads(text)
    begun = {str(call): (str(each[0]), int(each[1]), str(each[2])) for call, each in known.get("begun", {}).items()}
    asked, pins = ({str(name): str(text) for name, text in known.get(each, {}).items()} for each in ("asked", "pins"))
    return Noted(asked, begun, pins, str(known.get("turn", "")))


def _written(noted: Noted) -> str:
    return json.dumps({"asked": noted.asked, "begun": noted.begun, "pins": noted.pins, "turn": noted.turn})


async def proposed(errands: Errands, errand: Errand, notebook: Notebook, fresh: str, *, steady: bool = False) -> Told:
    """The request of this very call, or the one that the same call made before and nobody has used.

    With `steady`, also one that nobody could note down any more, because whoever proposed it was killed.
    """
    noted = notebook.look()
    if steady and not noted.turn:
        with notebook.opened() as begins:
            begins.turn = begins.turn or token_hex(8)
        noted = notebook.look()
    known = noted.asked.get(errand.digest, "") or (f"{errand.digest}:{noted.turn}" if steady else "")
    key = known or fresh
    told = await errands.propose(errand, key)
    is_used = not told.simply_runs and told.state not in (*_OPEN, str(State.DENIED))
    if known and known != fresh and is_used:
        told, key = await errands.propose(errand, fresh), fresh
    if told.waits and noted.asked.get(errand.digest) != key:
        with notebook.opened() as written:
            written.asked[errand.digest] = key
    return told


async def begun(errands: Errands, errand: Errand, notebook: Notebook, told: Told, call: str) -> Told | None:
    """It was begun, and what came of it is to be reported; none where the same call beside it was faster."""
    try:
        began = await errands.begin(told, call)
    except Conflict:
        forget(notebook, errand)
        return None
    let_go = errand if began.args is None else replace(errand, args=began.args)
    with notebook.opened() as noted:
        noted.asked.pop(errand.digest, None)
        noted.begun[call] = (began.id, began.fence, let_go.digest)
        noted.turn = token_hex(8)
    return began


def forget(notebook: Notebook, errand: Errand) -> None:
    """The same call, made again, asks anew."""
    with notebook.opened() as noted:
        noted.asked.pop(errand.digest, None)
        noted.turn = token_hex(8)


def waits(told: Told) -> str:
    """For the model, while nobody has decided."""
    return (
        f"Request {told.code} waits for a person who has not decided yet, so it did not run. Go on with what does not "
        "need it; to hear the decision, make exactly the same call again later."
    )


def changed_words(args: Mapping[str, Json]) -> str:
    """For the model, where a person changed what it asked for."""
    return f"A person changed the input of this call before it ran. What really ran is: {canonical(args)}"
