"""In front of an MCP server: everything is relayed, and `tools/call` is judged, held, run or refused on the way.

What a client sends is read once and written anew, so that no two parsers read it differently: what was judged is what
the server gets. What the server sends is relayed as it came, unless it is about a call of ours.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from assent.core.action import NOTHING_DECLARED, Declaration, Json, Risk
from assent.core.canonical import canonical
from assent.engine.errands import (
    LEASE,
    Errand,
    Errands,
    Notebook,
    Told,
    begun,
    changed_words,
    forget,
    proposed,
    waits,
)  # fmt: skip
from assent.errors import AssentError, InvalidArguments, RunStopped

log = logging.getLogger("assent.mcp")

Send = Callable[[bytes], Awaitable[None]]
PROGRESS_SECONDS = 5.0
LEARN_SECONDS = 10.0
"""How long a call waits until the server has told what its tools are."""
_OURS = "assent-"


@dataclass(frozen=True, slots=True)
class Manner:
    """How calls are held."""

    server: str
    """What the server is called on cards and in the policy's rules."""
    trusted: bool = False
    """The operator vouches for what the server says of its tools."""
    patience: float | None = None
    """How many seconds a held call waits; none: as long as the client does. 0: it is answered at once, and called
    again it finds its request."""


@dataclass(slots=True)
class _Under:
    """A call that was let through and is under way."""

    told: Told
    changed: bool
    renewing: asyncio.Task[None]


@dataclass(slots=True)
class Proxy:
    """Between one client and one server."""

    errands: Errands
    notebook: Notebook
    manner: Manner
    to_client: Send
    to_server: Send
    _tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    _listing: set[str] = field(default_factory=set)
    _held: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _under_way: dict[str, _Under] = field(default_factory=dict)
    _learned: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: bool = False
    _meta: dict[str, Any] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # From the client

    async def from_client(self, line: bytes) -> None:
        """A message of the client was relayed, or taken care of."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return await self._answer({"id": None, "error": {"code": -32700, "message": "this is no JSON"}})
        if isinstance(message, list):
            for each in message:
                await self._one(each)
            return None
        return await self._one(message)

    async def _one(self, message: Any) -> None:
        if not isinstance(message, dict):
            return await self._answer({"id": None, "error": {"code": -32600, "message": "this is no message"}})
        match message.get("method"):
            case "tools/call" if "id" in message:
                task = asyncio.create_task(self._called(message))
                self._keep(task)
                self._held[_id(message["id"])] = task
                return None
            case "tools/call":
                log.warning("a call without an id was dropped: nobody could be told what came of it")
                return None
            case "tools/list":
                self._listing.add(_id(message.get("id")))
            case "notifications/initialized":
                await self._relay(message)
                return await self.learn()
            case "notifications/cancelled":
                if await self._cancelled(message):
                    return None
            case _:
                pass
        return await self._relay(message)

    async def _relay(self, message: Mapping[str, Any]) -> None:
        await self.to_server(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    async def _cancelled(self, message: Mapping[str, Any]) -> bool:
        """A call that nobody waits for any more does not run; one that is under way hears of it from the server."""
        params = message.get("params")
        wanted = _id(params.get("requestId")) if isinstance(params, Mapping) else ""
        task = self._held.pop(wanted, None)
        if task is None or wanted in self._under_way:
            return False
        task.cancel()
        return True

    # A call

    async def _called(self, message: dict[str, Any]) -> None:
        number = message["id"]
        try:
            await self._judged(message)
        except asyncio.CancelledError:
            raise
        except (AssentError, RunStopped, OSError) as problem:
            await self._refused(number, f"Assent could not decide about this call, so it did not run: {problem}")
        except Exception:
            log.exception("a call was refused, because something went wrong here")
            await self._refused(number, "Assent could not decide about this call, so it did not run.")
        finally:
            self._held.pop(_id(number), None)

    async def _judged(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        args = params.get("arguments") if isinstance(params, dict) else None
        if not isinstance(name, str) or not isinstance(args if args is not None else {}, dict):
            raise InvalidArguments("a call has a name and, if any, arguments by name")
        assert isinstance(params, dict)  # noqa: S101  it had a name
        await self._knows_its_tools(params)
        errand = self._errand(name, args or {})
        told = await self._allowed(message, params, errand)
        if told is None:
            return
        number, changed = _id(message["id"]), False
        if not told.simply_runs:
            changed = told.args is not None and canonical(told.args) != canonical(errand.args)
            self._under_way[number] = _Under(told, changed, self._keep(asyncio.create_task(self._renewed(told))))
        if changed:
            message = {**message, "params": {**params, "arguments": dict(told.args or {})}}
        if errand.alarm:
            self._pin(name)
        await self._relay(message)

    async def _knows_its_tools(self, params: Mapping[str, Any]) -> None:
        """The server was asked for its tools; as the client speaks to it, where every message says how that is."""
        if not self._learned.is_set() and not self._asked:
            meta = params.get("_meta")
            said = meta if isinstance(meta, dict) else {}
            await self.learn(meta={name: value for name, value in said.items() if name != "progressToken"})
        with suppress(TimeoutError):
            async with asyncio.timeout(LEARN_SECONDS):
                await self._learned.wait()

    async def _allowed(self, message: Mapping[str, Any], params: Mapping[str, Any], errand: Errand) -> Told | None:
        """The call as it may be made; none where it was answered instead."""
        number = message["id"]
        while True:
            fresh = f"{self.manner.server}:{secrets.token_hex(12)}"
            told = await proposed(self.errands, errand, self.notebook, fresh)
            if told.waits and self.manner.patience != 0:
                told = await self._waited(told, params)
            if told.simply_runs:
                return told
            if told.waits:
                await self._refused(number, waits(told))
                return None
            if not told.may_begin:
                forget(self.notebook, errand)
                await self._refused(number, f"{told.says}.")
                return None
            began = await begun(self.errands, errand, self.notebook, told, secrets.token_hex(12))
            if began is not None:
                return began

    async def _waited(self, told: Told, params: Mapping[str, Any]) -> Told:
        """The same once somebody has decided; the client hears now and then that it goes on."""
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        loop = asyncio.get_running_loop()
        patience = self.manner.patience
        until = loop.time() + patience if patience is not None else float("inf")
        count = 0
        while told.waits and (left := until - loop.time()) > 0:
            if token is not None:
                said = {
                    "progressToken": token,
                    "progress": count,
                    "message": f"waits for a person: request {told.code}",
                }
                await self._send({"method": "notifications/progress", "params": said})
                count += 1
            told = await self.errands.decided(told, min(left, PROGRESS_SECONDS if token is not None else 3600.0))
        return told

    async def _renewed(self, told: Told) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            try:
                await self.errands.renew(told.id, told.fence)
            except AssentError as problem:
                log.warning("the lease of request %s could not be renewed: %s", told.code, problem)

    async def _refused(self, number: Any, says: str) -> None:
        result: dict[str, Any] = {"content": [{"type": "text", "text": says}], "isError": True}
        if any(name.endswith("protocolVersion") for name in self._meta):
            result["resultType"] = "complete"  # as the protocol has it since every message names its version
        await self._answer({"id": number, "result": result})

    async def _answer(self, message: Mapping[str, Any]) -> None:
        await self._send(message)

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self.to_client(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n")

    # From the server

    async def from_server(self, line: bytes) -> None:
        """A message of the server was relayed; of a call, what came of it is on record first."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            log.warning("the server wrote something that is no message; it was left out")
            return None
        if not isinstance(message, dict) or "method" in message or "id" not in message:
            if isinstance(message, dict) and message.get("method") == "notifications/tools/list_changed":
                await self.learn()
            return await self.to_client(line)
        number = _id(message["id"])
        if isinstance(message["id"], str) and message["id"].startswith(_OURS):
            return await self._told_tools(message)
        if number in self._held and number not in self._under_way:
            log.warning("the server answered a call that it has not been sent; that was left out")
            return None
        if number in self._listing:
            self._listing.discard(number)
            self._noted(message)
            return await self.to_client(line)
        if (under := self._under_way.pop(number, None)) is None:
            return await self.to_client(line)
        under.renewing.cancel()
        await self._reported(under, message)
        if not under.changed:
            return await self.to_client(line)
        return await self._send(_with_a_word(message, changed_words(under.told.args or {})))

    async def _reported(self, under: _Under, message: Mapping[str, Any]) -> None:
        result, error = message.get("result"), ""
        if "error" in message or (isinstance(result, Mapping) and result.get("isError")):
            error = canonical({"said": message.get("error", result)})[:20_000]
        try:
            await self.errands.report(under.told.id, under.told.fence, result, error)
        except AssentError as problem:
            log.warning("what came of request %s could not be put on record: %s", under.told.code, problem)
        with self.notebook.opened() as noted:
            for call in [call for call, (request, _) in noted.begun.items() if request == under.told.id]:
                del noted.begun[call]

    # What the tools are

    async def learn(self, cursor: str = "", meta: Mapping[str, Any] | None = None) -> None:
        """The server is asked for its tools, by us; nobody else hears the answer."""
        self._asked = True
        self._meta = self._meta if meta is None else dict(meta)
        params: dict[str, Any] = {
            **({"cursor": cursor} if cursor else {}),
            **({"_meta": self._meta} if self._meta else {}),
        }
        await self._relay(
            {"jsonrpc": "2.0", "id": f"{_OURS}{secrets.token_hex(8)}", "method": "tools/list", "params": params}
        )

    async def _told_tools(self, message: Mapping[str, Any]) -> None:
        self._noted(message)
        result = message.get("result")
        cursor = result.get("nextCursor") if isinstance(result, Mapping) else None
        if isinstance(cursor, str) and cursor:
            await self.learn(cursor)
        else:
            self._learned.set()

    def _noted(self, message: Mapping[str, Any]) -> None:
        result = message.get("result")
        found = result.get("tools") if isinstance(result, Mapping) else None
        for tool in found if isinstance(found, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._tools[tool["name"]] = tool

    def _errand(self, name: str, args: Mapping[str, Json]) -> Errand:
        tool = self._tools.get(name, {})
        schema = tool.get("inputSchema")
        description = tool.get("description")
        return Errand(
            name, args, f"{self.manner.server}/{name}",
            description if isinstance(description, str) else "",
            schema if isinstance(schema, dict) else None,
            trusted=self.manner.trusted, effect=_effect(tool.get("annotations"), self.manner.trusted),
            alarm=self._alarm(name, tool),
        )  # fmt: skip

    def _alarm(self, name: str, tool: Mapping[str, Any]) -> str:
        """A tool that is described otherwise than when it was first called may be another one."""
        if not tool:
            return f"the server {self.manner.server} lists no tool called {name}"
        with self.notebook.opened() as noted:
            known = noted.pins.setdefault(name, _digest(tool))
        return (
            "" if known == _digest(tool) else "what the server says of this tool has changed since it was last allowed"
        )

    def _pin(self, name: str) -> None:
        with self.notebook.opened() as noted:
            if name in self._tools:
                noted.pins[name] = _digest(self._tools[name])

    # The end

    def _keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def is_busy(self) -> bool:
        """Calls are under way at the server."""
        return bool(self._under_way)

    async def close(self) -> None:
        """Nobody waits any more: what is held does not run."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _id(number: Any) -> str:
    """1 and "1" are two calls."""
    return json.dumps(number)


def _digest(tool: Mapping[str, Any]) -> str:
    """What a model reads of a tool, and what it would do."""
    read = {name: tool.get(name) for name in ("description", "inputSchema", "outputSchema", "annotations", "title")}
    return sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _effect(hints: Any, trusted: bool) -> Declaration:
    """What the server's hints say; from one that nobody vouches for, only what raises the risk."""
    if not isinstance(hints, Mapping):
        return NOTHING_DECLARED
    reads, destroys, outside = (hints.get(name) for name in ("readOnlyHint", "destructiveHint", "openWorldHint"))
    if not trusted:
        return Declaration(reversible=False if destroys is True else None, outside=True if outside is True else None)
    if reads is True:
        return Declaration(risk=Risk.SAFE, reversible=True, outside=False)
    return Declaration(
        reversible=not destroys if isinstance(destroys, bool) else None,
        outside=outside if isinstance(outside, bool) else None,
    )


def _with_a_word(message: Mapping[str, Any], says: str) -> dict[str, Any]:
    """The answer to a call, with a word more in it."""
    result = message.get("result")
    if not isinstance(result, dict):
        return dict(message)
    content = result.get("content")
    told = [*(content if isinstance(content, list) else []), {"type": "text", "text": says}]
    return {**message, "result": {**result, "content": told}}
