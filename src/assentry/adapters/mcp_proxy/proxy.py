"""Between one client and one server: everything is relayed, and `tools/call` is judged, held, run or refused.

What a client sends is read once and written anew, so that no two parsers read it differently: what was judged is what
the server gets. What the server sends is relayed as it came, unless it is about a call of ours.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from assentry.adapters.mcp_proxy.calls import ANSWERS, MOST_ROUNDS, Under, answers_in, as_allowed, is_new, round_of
from assentry.adapters.mcp_proxy.held import Hearing, Manner
from assentry.adapters.mcp_proxy.toolbox import Toolbox
from assentry.adapters.mcp_proxy.wire import (
    INTERNAL,
    INVALID_REQUEST,
    Message,
    ToClient,
    ToServer,
    as_text,
    error,
    ident,
    is_answer,
    meta_of,
    part,
    read,
    with_a_word,
    written,
)
from assentry.core.canonical import canonical
from assentry.engine.errands import (
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
)
from assentry.errors import AssentryError, InvalidArguments, RunStopped

log = logging.getLogger("assentry.mcp")

LEARN_SECONDS = 10.0
"""How long a call waits until the server has told what its tools are."""


class Proxy:
    """Between one client and one server."""

    def __init__(
        self, errands: Errands, notebook: Notebook, manner: Manner, to_client: ToClient, to_server: ToServer
    ) -> None:
        self.manner, self.tools = manner, Toolbox(manner, notebook)
        self._errands, self._notebook, self._to_client, self._to_server = errands, notebook, to_client, to_server
        self._expected: set[str] = set()
        """What the server was asked and has not answered; it answers nothing else."""
        self._hearing = Hearing(errands, manner, self._send)
        self._listing: dict[str, bool] = {}
        """Lists of tools that the client asked for, and whether from their beginning."""
        self._held: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[str, Under] = {}
        self._asked_back: dict[str, Under] = {}
        """Calls whose server wants to know more first, by what the client is to say when it goes on."""
        self._learned = asyncio.Event()
        self._ours: dict[str, set[str]] = {}
        """Lists of tools that we asked for, and what was on the pages before."""
        self._meta: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # From the client

    async def from_client(self, line: bytes) -> None:
        """A message of the client was relayed, or taken care of."""
        message = read(line)
        if message is None:
            return await self._send(error(None, -32700, "this is no JSON"))
        for each in message if isinstance(message, list) else [message]:
            try:
                await self.take(each)
            except (ConnectionError, asyncio.CancelledError):
                raise
            except Exception:
                log.exception("a message of the client could not be passed on")
                if isinstance(each, dict) and "id" in each and "method" in each:
                    await self._send(error(each["id"], INTERNAL, "this could not be passed on"))
        return None

    async def take(self, message: Any) -> None:
        """One message of the client was relayed, or taken care of."""
        if not isinstance(message, dict):
            return await self._send(error(None, -32600, "this is no message"))
        match message.get("method"):
            case "tools/call" if "id" in message:
                if ident(message["id"]) in {*self._held, *self._under_way}:
                    says = "another call with this id is under way; this one did not run"
                    return await self._send(error(message["id"], INVALID_REQUEST, says))
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
                self._listing[ident(message.get("id"))] = "cursor" not in part(message, "params")
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
        except (AssentryError, RunStopped, OSError) as problem:
            await self._refused(number, f"Assentry could not decide about this call, so it did not run: {problem}")
        except Exception:
            log.exception("a call was refused, because something went wrong here")
            await self._refused(number, "Assentry could not decide about this call, so it did not run.")
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
        first = self.tools.errand(name, args or {})
        under, answers, more = None, answers_in(params), dict[str, Any]()
        if (known := round_of(first.digest, params)) and (under := self._asked_back.get(known)) is not None:
            if not is_new(answers, under.wanted):
                return await self._goes_on(message, self._asked_back.pop(known), answers)
            if ANSWERS in first.args:
                raise InvalidArguments(f"a tool with an argument called {ANSWERS} cannot be told more")
            more = {ANSWERS: answers}  # nobody has seen that, so it is judged with the rest
        errand, told = await self._allowed(message, name, {**first.args, **more})
        if told is None:
            return None
        changed = not told.simply_runs and told.args is not None and canonical(told.args) != canonical(errand.args)
        runs = dict(told.args if changed and told.args is not None else errand.args)
        if more:
            more = {"requestState": params["requestState"], ANSWERS: runs.pop(ANSWERS, {})}
        if under is not None and self._asked_back.pop(known, None) is not None:
            await self._reported(under, {"result": {"goes_on_as": told.code}})
        renewing = None if told.simply_runs else self._renewing(told)
        rounds = under.rounds if under is not None else 0
        self._begin(message, Under(told, runs, changed, renewing, first.digest, rounds))
        if errand.alarm:
            self.tools.pin(name)
        return await self._passed_on(message, as_allowed(message, runs, more))

    async def _passed_on(self, message: Message, allowed: Message) -> None:
        """The call is on its way; where it cannot be sent, that is on record, and the client hears of it."""
        try:
            await self._relay(allowed)
        except Exception:
            log.exception("a call could not be sent to the server")
            await self.lost(message, "This could not be sent to the MCP server, so it did not run.", sent=False)

    def _begin(self, message: Message, under: Under) -> None:
        self._under_way[ident(message["id"])] = under

    async def _goes_on(self, message: Message, under: Under, answers: Mapping[str, Any]) -> None:
        """The client answers what the server wanted to know: that is still the call that was allowed, once."""
        if not under.told.simply_runs:
            await self._errands.renew(under.told.id, under.told.fence)
            under = replace(under, renewing=self._renewing(under.told))
        self._begin(message, under)
        more = {"requestState": message["params"]["requestState"], **({ANSWERS: answers} if answers else {})}
        await self._passed_on(message, as_allowed(message, under.args, more))

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
                await self._refused(number, f"{told.says.rstrip('.')}.")
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
            except AssentryError as problem:
                log.warning("the lease of request %s could not be renewed: %s", told.code, problem)

    async def _refused(self, number: Any, says: str) -> None:
        result: dict[str, Any] = {"content": [{"type": "text", "text": says}], "isError": True}
        if any(name.endswith("protocolVersion") for name in self._meta):
            result["resultType"] = "complete"  # as the protocol has it since every message names its version
        await self._send({"id": number, "result": result})

    async def _relay(self, message: Message) -> None:
        if "id" in message and "method" in message:
            self._expected.add(ident(message["id"]))
        await self._to_server(message)

    async def _send(self, message: Message) -> None:
        await self._to_client(written(message))

    # From the server

    async def from_server(self, line: bytes) -> None:
        """A message of the server was relayed; of a call, what came of it is on record first."""
        message = read(line)
        if message is None:
            log.warning("the server wrote something that is no message; it was left out")
            return None
        if not isinstance(message, list):
            return await self._heard(message, line)
        for each in message:  # what is in a list is looked at like everything else
            await self._heard(each, written(each) if isinstance(each, dict) else b"")
        return None

    async def _heard(self, message: Any, line: bytes) -> None:
        try:
            await self.hear(message, line)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("a message of the server could not be passed on")
            if is_answer(message):
                await self._send(error(message["id"], INTERNAL, "what the server answered could not be passed on"))

    async def hear(self, message: Any, line: bytes) -> None:
        """One message of the server, which is this line, was relayed or taken care of."""
        if not isinstance(message, dict) or ("method" in message and ("result" in message or "error" in message)):
            log.warning("the server wrote something that is no message; it was left out")
            return None
        if not is_answer(message):
            if message.get("method") == "notifications/tools/list_changed":
                await self.learn()
            return await self._to_client(line)
        number = ident(message["id"])
        if number not in self._expected and message["id"] is not None:
            log.warning("the server answered what it has not been asked; that was left out")
            return None
        self._expected.discard(number)
        if number in self._ours:
            return await self._told_tools(number, message)
        if number in self._listing:
            whole = self._listing.pop(number) and "nextCursor" not in part(message, "result")
            self.tools.note(message, set() if whole else None)
            told = await self.tools.annotated(self._errands, message)
            return await (self._to_client(line) if told is None else self._send(told))
        if (under := self._under_way.pop(number, None)) is None:
            return await self._to_client(line)
        under.stop()
        if part(message, "result").get("resultType") == "input_required":
            return await self._wants_more(under, message, line)
        await self._reported(under, message)
        if not under.changed:
            return await self._to_client(line)
        return await self._send(with_a_word(message, changed_words(under.told.args or {})))

    async def _wants_more(self, under: Under, message: Message, line: bytes) -> None:
        """The client may go on with the call; not for ever, and only where the server will know it again."""
        result = part(message, "result")
        key, wanted = round_of(under.call, result), frozenset(part(result, "inputRequests"))
        if key and under.rounds < MOST_ROUNDS:
            self._asked_back[key] = replace(under, rounds=under.rounds + 1, wanted=wanted)
            return await self._to_client(line)
        why = "too often" if key else "without a state to go on with"
        says = f"The MCP server asked for more {why}, so this call has ended; what it did until then is not known."
        await self._reported(under, error(message["id"], INTERNAL, says))
        return await self._refused(message["id"], says)

    async def lost(self, message: Message, says: str, *, sent: bool) -> None:
        """No answer will come; empty `says`: and nobody waits for one.

        A call that may have reached the server is not on record as failed: nobody knows how it went.
        """
        number = message["id"]
        key = ident(number)
        self._expected.discard(key)
        if key in self._ours:
            return await self._told_tools(key, error(number, INTERNAL, says))
        self._listing.pop(key, None)
        under = self._under_way.pop(key, None)
        if under is not None:
            under.stop()
            if not sent:
                await self._reported(under, error(number, INTERNAL, says))
            says += f" This was request {under.told.code}." if says and under.told.code else ""
        if not says:
            return None
        if message.get("method") == "tools/call":
            return await self._refused(number, says)
        return await self._send(error(number, INTERNAL, says))

    async def _reported(self, under: Under, message: Message) -> None:
        if under.told.simply_runs:
            return
        result, wrong = message.get("result"), ""
        if "error" in message or (isinstance(result, Mapping) and result.get("isError")):
            wrong = as_text({"said": message.get("error", result)})
        try:
            await self._ended(under.told, result, wrong)
        except Exception:
            log.exception("what came of request %s could not be put on record", under.told.code)
        with self._notebook.opened() as noted:
            for call in [call for call, (request, *_) in noted.begun.items() if request == under.told.id]:
                del noted.begun[call]

    async def _ended(self, told: Told, result: Any, wrong: str) -> None:
        """It is on record; where what came back cannot be kept as it is, then as text."""
        try:
            await self._errands.report(told.id, told.fence, result, wrong)
        except (InvalidArguments, ValueError):
            kept = "" if wrong else as_text(result)
            await self._errands.report(told.id, told.fence, {"kept_as_text": kept} if kept else None, wrong)

    # What the tools are

    async def learn(self, meta: Mapping[str, Any] | None = None, cursor: str = "", before: Iterable[str] = ()) -> None:
        """The server is asked for its tools, by us; nobody else hears the answer."""
        self._meta = self._meta if meta is None else dict(meta)
        number = f"assentry-{secrets.token_hex(8)}"
        self._ours[ident(number)] = set(before)
        params = {**({"cursor": cursor} if cursor else {}), **({"_meta": self._meta} if self._meta else {})}
        await self._relay({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params})

    async def _told_tools(self, number: str, message: Message) -> None:
        cursor = part(message, "result").get("nextCursor")
        if isinstance(cursor, str) and cursor:
            names = self.tools.note(message)
            await self.learn(cursor=cursor, before=self._ours[number] | names)
        else:
            self.tools.note(message, self._ours[number])
            self._learned.set()
        self._ours.pop(number, None)

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
