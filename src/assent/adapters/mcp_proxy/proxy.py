"""Between one client and one server: everything is relayed, and `tools/call` is judged, held, run or refused.

What a client sends is read once and written anew, so that no two parsers read it differently: what was judged is what
the server gets. What the server sends is relayed as it came, unless it is about a call of ours.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from assent.adapters.mcp_proxy.held import Hearing, Manner, without_ours
from assent.adapters.mcp_proxy.toolbox import Toolbox
from assent.adapters.mcp_proxy.wire import (
    INTERNAL,
    Message,
    ToClient,
    ToServer,
    error,
    ident,
    is_answer,
    meta_of,
    part,
    read,
    with_a_word,
    written,
)
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

LEARN_SECONDS = 10.0
"""How long a call waits until the server has told what its tools are."""


@dataclass(slots=True)
class _Under:
    """A call that was let through and is under way."""

    told: Told
    changed: bool
    renewing: asyncio.Task[None]
    call: str = ""
    """The same for the same tool and arguments."""


class Proxy:
    """Between one client and one server."""

    def __init__(
        self, errands: Errands, notebook: Notebook, manner: Manner, to_client: ToClient, to_server: ToServer
    ) -> None:
        self.manner, self.tools = manner, Toolbox(manner, notebook)
        self._errands, self._notebook, self._to_client, self._relay = errands, notebook, to_client, to_server
        self._hearing = Hearing(errands, manner, self._send)
        self._listing: set[str] = set()
        self._held: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[str, _Under] = {}
        self._asked_back: dict[str, _Under] = {}
        """Calls whose server wants to know more first, by what the client is to say when it goes on."""
        self._learned = asyncio.Event()
        self._ours: set[str] = set()
        self._meta: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # From the client

    async def from_client(self, line: bytes) -> None:
        """A message of the client was relayed, or taken care of."""
        message = read(line)
        if message is None:
            return await self._send(error(None, -32700, "this is no JSON"))
        for each in message if isinstance(message, list) else [message]:
            await self.take(each)
        return None

    async def take(self, message: Any) -> None:
        """One message of the client was relayed, or taken care of."""
        if not isinstance(message, dict):
            return await self._send(error(None, -32600, "this is no message"))
        match message.get("method"):
            case "tools/call" if "id" in message:
                task = asyncio.create_task(self._called(message))
                self._keep(task)
                self._held[ident(message["id"])] = task
                return None
            case "tools/call":
                log.warning("a call without an id was dropped: nobody could be told what came of it")
                return None
            case "initialize":
                self._hearing.capabilities = part(part(message, "params"), "capabilities")
            case "tools/list":
                self._listing.add(ident(message.get("id")))
            case "notifications/initialized":
                await self._relay(message)
                return await self.learn()
            case "notifications/cancelled":
                if self._cancelled(message):
                    return None
            case None if self._hearing.heard(message):
                return None
            case _:
                pass
        return await self._relay(message)

    def _cancelled(self, message: Message) -> bool:
        """A call that nobody waits for any more does not run; one that is under way hears of it from the server."""
        wanted = ident(part(message, "params").get("requestId"))
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
            self._held.pop(ident(number), None)

    async def _judged(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        args = params.get("arguments") if isinstance(params, dict) else None
        if not isinstance(name, str) or not isinstance(args if args is not None else {}, dict):
            raise InvalidArguments("a call has a name and, if any, arguments by name")
        assert isinstance(params, dict)  # noqa: S101  it had a name
        await self._knows_its_tools(message)
        errand = self.tools.errand(name, args or {})
        if (goes_on := self._asked_back.pop(_round(errand.digest, params), None)) is not None:
            return await self._goes_on(message, params, goes_on)
        errand, told = await self._allowed(message, name, args or {})
        if told is None:
            return None
        changed = not told.simply_runs and told.args is not None and canonical(told.args) != canonical(errand.args)
        if not told.simply_runs:
            self._begin(message, _Under(told, changed, self._renewing(told), errand.digest))
        if errand.alarm:
            self.tools.pin(name)
        return await self._relay(_as_allowed(message, params, told, changed))

    def _begin(self, message: Message, under: _Under) -> None:
        self._under_way[ident(message["id"])] = under

    async def _goes_on(self, message: Message, params: Mapping[str, Any], under: _Under) -> None:
        """The client answers what the server wanted to know: that is still the call that was allowed, once."""
        await self._errands.renew(under.told.id, under.told.fence)
        self._begin(message, replace(under, renewing=self._renewing(under.told)))
        await self._relay(_as_allowed(message, params, under.told, under.changed))

    async def _knows_its_tools(self, message: Message) -> None:
        """The server was asked for its tools; as the client speaks to it, where every message says how that is."""
        if not self._learned.is_set() and not self._ours:
            await self.learn({name: value for name, value in meta_of(message).items() if name != "progressToken"})
        with suppress(TimeoutError):
            async with asyncio.timeout(LEARN_SECONDS):
                await self._learned.wait()

    async def _allowed(self, message: Message, name: str, args: Mapping[str, Any]) -> tuple[Errand, Told | None]:
        """The call, and how it may be made; none where it was answered instead."""
        number = message["id"]
        while True:
            errand, fresh = self.tools.errand(name, args), f"{self.manner.server}:{secrets.token_hex(12)}"
            told = await proposed(self._errands, errand, self._notebook, fresh, steady=True)
            if told.waits:
                told = await self._hearing.waited(told, message)
            if errand.definition != self.tools.definition(name):
                continue  # what somebody allowed, or policy did, is not what the tool is now
            if told.simply_runs:
                return errand, told
            if told.waits:
                missing = self._hearing.input_required(told, message)
                await (self._send({"id": number, "result": missing}) if missing else self._refused(number, waits(told)))
                return errand, None
            if not told.may_begin:
                forget(self._notebook, errand)
                await self._refused(number, f"{told.says}.")
                return errand, None
            began = await begun(self._errands, errand, self._notebook, told, secrets.token_hex(12))
            if began is not None:
                return errand, began

    def _renewing(self, told: Told) -> asyncio.Task[None]:
        return self._keep(asyncio.create_task(self._renewed(told)))

    async def _renewed(self, told: Told) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            try:
                await self._errands.renew(told.id, told.fence)
            except AssentError as problem:
                log.warning("the lease of request %s could not be renewed: %s", told.code, problem)

    async def _refused(self, number: Any, says: str) -> None:
        result: dict[str, Any] = {"content": [{"type": "text", "text": says}], "isError": True}
        if any(name.endswith("protocolVersion") for name in self._meta):
            result["resultType"] = "complete"  # as the protocol has it since every message names its version
        await self._send({"id": number, "result": result})

    async def _send(self, message: Message) -> None:
        await self._to_client(written(message))

    # From the server

    async def from_server(self, line: bytes) -> None:
        """A message of the server was relayed; of a call, what came of it is on record first."""
        message = read(line)
        if message is None:
            log.warning("the server wrote something that is no message; it was left out")
            return None
        return await self.hear(message, line)

    async def hear(self, message: Any, line: bytes) -> None:
        """One message of the server, which is this line, was relayed or taken care of."""
        if not is_answer(message):
            if isinstance(message, dict) and message.get("method") == "notifications/tools/list_changed":
                await self.learn()
            return await self._to_client(line)
        number = ident(message["id"])
        if number in self._ours:
            return await self._told_tools(number, message)
        if number in self._held and number not in self._under_way:
            log.warning("the server answered a call that it has not been sent; that was left out")
            return None
        if number in self._listing:
            self._listing.discard(number)
            self.tools.note(message)
            told = await self.tools.annotated(self._errands, message)
            return await (self._to_client(line) if told is None else self._send(told))
        if (under := self._under_way.pop(number, None)) is None:
            return await self._to_client(line)
        under.renewing.cancel()
        if part(message, "result").get("resultType") == "input_required":
            self._asked_back[_round(under.call, part(message, "result"))] = under
            return await self._to_client(line)
        await self._reported(under, message)
        if not under.changed:
            return await self._to_client(line)
        return await self._send(with_a_word(message, changed_words(under.told.args or {})))

    async def lost(self, message: Message, says: str, *, sent: bool) -> None:
        """No answer will come; empty `says`: and nobody waits for one.

        A call that may have reached the server is not on record as failed: nobody knows how it went.
        """
        number = message["id"]
        key = ident(number)
        if key in self._ours:
            return await self._told_tools(key, error(number, INTERNAL, says))
        self._listing.discard(key)
        under = self._under_way.pop(key, None)
        if under is not None:
            under.renewing.cancel()
            if not sent:
                await self._reported(under, error(number, INTERNAL, says))
            says += f" This was request {under.told.code}." if says else ""
        if not says:
            return None
        if message.get("method") == "tools/call":
            return await self._refused(number, says)
        return await self._send(error(number, INTERNAL, says))

    async def _reported(self, under: _Under, message: Message) -> None:
        result, wrong = message.get("result"), ""
        if "error" in message or (isinstance(result, Mapping) and result.get("isError")):
            wrong = canonical({"said": message.get("error", result)})[:20_000]
        try:
            await self._errands.report(under.told.id, under.told.fence, result, wrong)
        except AssentError as problem:
            log.warning("what came of request %s could not be put on record: %s", under.told.code, problem)
        with self._notebook.opened() as noted:
            for call in [call for call, (request, _) in noted.begun.items() if request == under.told.id]:
                del noted.begun[call]

    # What the tools are

    async def learn(self, meta: Mapping[str, Any] | None = None, cursor: str = "") -> None:
        """The server is asked for its tools, by us; nobody else hears the answer."""
        self._meta = self._meta if meta is None else dict(meta)
        number = f"assent-{secrets.token_hex(8)}"
        self._ours.add(ident(number))
        params = {**({"cursor": cursor} if cursor else {}), **({"_meta": self._meta} if self._meta else {})}
        await self._relay({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params})

    async def _told_tools(self, number: str, message: Message) -> None:
        self.tools.note(message)
        cursor = part(message, "result").get("nextCursor")
        if isinstance(cursor, str) and cursor:
            await self.learn(cursor=cursor)
        else:
            self._learned.set()
        self._ours.discard(number)

    # The end

    def _keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Nobody waits any more: what is held does not run."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _round(call: str, said: Mapping[str, Any]) -> str:
    """By what a call that goes on is known again: the same call, with the state that its server gave out."""
    return f"{call}:{ident(said.get('requestState'))}"


def _as_allowed(message: Message, params: Mapping[str, Any], told: Told, changed: bool) -> dict[str, Any]:
    """The call as its server gets it."""
    said = without_ours(params)
    return {**message, "params": {**said, "arguments": dict(told.args or {})} if changed else said}
