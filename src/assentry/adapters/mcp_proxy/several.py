"""Several servers behind one proxy: each has its own, and the client sees one server with the tools of all."""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from assentry.adapters.mcp_proxy.link import Link
from assentry.adapters.mcp_proxy.merging import LISTS, introduction, named, parted
from assentry.adapters.mcp_proxy.wire import (
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_SUCH_METHOD,
    Message,
    ToClient,
    error,
    ident,
    is_answer,
    part,
    read,
    written,
)

log = logging.getLogger("assentry.mcp")

ANSWER_SECONDS = 60.0
"""How long one of several servers may take to say what it is and has; whoever takes longer is left out."""
_MOST_PAGES = 1000
_PLAIN = ("ping", "initialize", "server/discover", "logging/setLevel", *LISTS)


class Several:
    """Between one client and several servers."""

    def __init__(self, to_client: ToClient, version: str) -> None:
        self._to_client, self._version = to_client, version
        self._links: dict[str, Link] = {}
        self._can: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, tuple[str, Message]] = {}
        """What a server was asked by the client, and has not answered."""
        self._ours: dict[str, tuple[str, asyncio.Future[Message]]] = {}
        self._theirs: dict[str, tuple[str, Any]] = {}
        """What servers asked the client: by our number, whose it is and how that calls it."""
        self._uris: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, name: str, link: Link) -> None:
        """The server takes part."""
        self._links[name] = link

    def ear(self, name: str) -> ToClient:
        """Hears what this server says to the client."""

        async def hear(line: bytes) -> None:
            await self._heard(name, read(line), line)

        return hear

    async def listen(self) -> None:
        """What the servers say was told, until all of them are gone."""

        async def until_gone(name: str, link: Link) -> None:
            try:
                await link.listen()
            except ConnectionError:
                raise
            except Exception:
                log.exception("the MCP server %s can no longer be heard", name)
            await self._gone(name)

        await asyncio.gather(*(until_gone(name, link) for name, link in self._links.items()))

    async def leave(self) -> None:
        """The client is gone."""
        await self._end_tasks()
        await asyncio.gather(*(link.leave() for link in self._links.values()))

    async def close(self) -> int:
        """Nothing is left of any of them."""
        await self._end_tasks()
        await asyncio.gather(*(link.close() for link in self._links.values()))
        return 0

    async def _end_tasks(self) -> None:
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # From the client

    async def from_client(self, line: bytes) -> None:
        """A message of the client went where it belongs."""
        message = read(line)
        if message is None:
            return await self._send(error(None, -32700, "this is no JSON"))
        for each in message if isinstance(message, list) else [message]:
            try:
                await self._take(each)
            except ConnectionError:
                raise
            except Exception:
                log.exception("a message of the client could not be passed on")
                if isinstance(each, dict) and "id" in each and "method" in each:
                    self._asked.pop(ident(each["id"]), None)
                    await self._send(error(each["id"], INTERNAL, "this could not be passed on"))
        return None

    async def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            await self._send(error(None, INVALID_REQUEST, "this is no message"))
        elif "method" not in message:
            await self._replied(message)
        elif "id" not in message:
            await self._notified(message)
        elif {ident(message["id"])} & {*self._asked, *self._tasks}:
            says = "another request with this id is under way; this one was left out"
            await self._send(error(message["id"], INVALID_REQUEST, says))
        elif message["method"] in _PLAIN or not (found := self._route(message)):
            self._start(message, self._answered(message))
        else:
            await self._ask_one(*found, original=message)

    async def _replied(self, message: Message) -> None:
        """The client answers what a server asked it."""
        found = self._theirs.pop(ident(message.get("id")), None)
        if found is not None:
            name, number = found
            await self._links[name].proxy.take({**message, "id": number})

    async def _notified(self, message: Message) -> None:
        if message["method"] != "notifications/cancelled":
            for name in self._can:
                await self._links[name].proxy.take(message)
            return
        key = ident(part(message, "params").get("requestId"))
        if (task := self._tasks.get(key)) is not None:
            task.cancel()
        if (found := self._asked.pop(key, None)) is not None:
            await self._links[found[0]].proxy.take(message)

    def _route(self, message: Message) -> tuple[str, Message] | None:
        """Which server the request is for, and what that is asked."""
        params = part(message, "params")
        match message["method"]:
            case "tools/call" | "prompts/get":
                server, own = parted(params.get("name"))
                said = {**message, "params": {**params, "name": own}}
            case "completion/complete" if "name" in part(params, "ref"):
                server, own = parted(params["ref"]["name"])
                said = {**message, "params": {**params, "ref": {**params["ref"], "name": own}}}
            case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
                uri = params.get("uri")
                server, said = self._uris.get(uri, "") if isinstance(uri, str) else "", dict(message)
            case _:
                return None
        return (server, said) if server in self._can else None

    async def _ask_one(self, name: str, said: Message, original: Message) -> None:
        self._asked[ident(original["id"])] = (name, said)
        await self._links[name].proxy.take(said)

    def _start(self, message: Message, work: Any) -> None:
        key = ident(message["id"])

        async def answer() -> None:
            try:
                await self._send({"id": message["id"], **(await work)})
            except Exception:
                log.exception("a request could not be answered")
                await self._send(error(message["id"], INTERNAL, "this could not be answered"))
            finally:
                self._tasks.pop(key, None)

        self._tasks[key] = asyncio.create_task(answer())

    # What is answered here

    async def _answered(self, message: Message) -> dict[str, Any]:
        method, params = message["method"], part(message, "params")
        match method:
            case "ping":
                return {"result": {}}
            case "initialize":
                return await self._introduced(params)
            case "tools/call":
                says = f"there is no tool called {params.get('name')!r}; list the tools to see which there are"
                return {"result": {"content": [{"type": "text", "text": says}], "isError": True}}
            case "prompts/get":
                return _wrong(INVALID_PARAMS, "there is no such prompt; list them to see which there are")
            case "logging/setLevel":
                await self._each(self._with("logging"), method, params)
                return {"result": {}}
            case "resources/read" | "resources/subscribe" | "resources/unsubscribe" | "completion/complete":
                return await self._first(self._with("completions" if "ref" in params else "resources"), method, params)
            case _ if method in LISTS:
                return await self._listed(method)
            case _:
                return _wrong(NO_SUCH_METHOD, "several servers are behind this one, and none of them can be meant")

    async def _introduced(self, params: Message) -> dict[str, Any]:
        hellos = await self._each(self._links, "initialize", params)
        found = {name: hello for name, hello in hellos.items() if part(hello, "result").get("protocolVersion")}
        for name in self._links.keys() - found.keys():
            log.warning("the MCP server %s did not answer as it should, so it is left out", name)
        if not found:
            return _wrong(INTERNAL, "none of the servers behind this one answered as it should")
        self._can = {name: part(part(found[name], "result"), "capabilities") for name in self._links if name in found}
        return {"result": introduction({name: found[name] for name in self._can}, self._version)}

    async def _listed(self, method: str) -> dict[str, Any]:
        capability, kind = LISTS[method]
        names = self._with(capability)
        pages = await asyncio.gather(*(self._pages(name, method, kind) for name in names))
        items: list[dict[str, Any]] = []
        for name, found in zip(names, pages, strict=True):
            for item in found:
                if kind == "resources" and isinstance(uri := item.get("uri"), str):
                    self._uris.setdefault(uri, name)
                items.append(named(name, kind, item))
        return {"result": {kind: items}}

    async def _pages(self, name: str, method: str, kind: str) -> list[dict[str, Any]]:
        """Everything that one server lists."""
        found: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(_MOST_PAGES):
            said = part(await self._ask(name, method, {"cursor": cursor} if cursor else {}), "result")
            listed = said.get(kind)
            found += [
                each
                for each in (listed if isinstance(listed, list) else ())
                if isinstance(each, dict) and isinstance(each.get("name"), str)
            ]
            if not isinstance(cursor := said.get("nextCursor"), str) or not cursor:
                break
        return found

    async def _each(self, names: Iterable[str], method: str, params: Message) -> dict[str, Message]:
        asked = list(names)
        answers = await asyncio.gather(*(self._ask(name, method, params) for name in asked))
        return dict(zip(asked, answers, strict=True))

    async def _first(self, names: Iterable[str], method: str, params: Message) -> dict[str, Any]:
        """What the first of them says that knows it."""
        said: Message = _wrong(INVALID_PARAMS, "none of the servers behind this one knows that")
        for name in names:
            said = await self._ask(name, method, params)
            if "result" in said:
                break
        return {each: said[each] for each in ("result", "error") if each in said}

    def _with(self, capability: str) -> list[str]:
        return [name for name, can in self._can.items() if capability in can]

    async def _ask(self, name: str, method: str, params: Mapping[str, Any]) -> Message:
        """What this server answers to us; an error where it does not."""
        number = f"several-{secrets.token_hex(8)}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._ours[ident(number)] = (name, answer)
        kept = {each: value for each, value in params.items() if each != "_meta"}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._links[name].proxy.take({"jsonrpc": "2.0", "id": number, "method": method, "params": kept})
                return await answer
        except TimeoutError:
            return _wrong(INTERNAL, f"the server {name} did not answer")
        finally:
            self._ours.pop(ident(number), None)

    # From a server

    async def _heard(self, name: str, message: Any, line: bytes) -> None:
        """One server speaks. It answers only what it was asked itself, and never for another."""
        if is_answer(message):
            key = ident(message["id"])
            if (ours := self._ours.get(key)) is not None and ours[0] == name:
                if not ours[1].done():
                    ours[1].set_result(message)
            elif (asked := self._asked.get(key)) is not None and asked[0] == name:
                del self._asked[key]
                await self._to_client(line)
            else:
                log.warning("the server %s answered what it was not asked; that was left out", name)
        elif isinstance(message, dict) and "id" in message:
            number = f"{name}-{secrets.token_hex(8)}"
            self._theirs[ident(number)] = (name, message["id"])
            await self._send({**message, "id": number})
        elif isinstance(message, dict) and message.get("method") == "notifications/cancelled":
            given = ident(part(message, "params").get("requestId"))
            for number, (server, own) in tuple(self._theirs.items()):
                if server == name and ident(own) == given:
                    del self._theirs[number]
                    params = {**part(message, "params"), "requestId": read(number.encode())}
                    await self._send({**message, "params": params})
        elif isinstance(message, dict):
            await self._to_client(line)

    async def _gone(self, name: str) -> None:
        """The server has ended: whoever waits for it is told, and it is asked nothing more."""
        self._can.pop(name, None)
        log.warning("the MCP server %s has ended", name)
        for server, answer in tuple(self._ours.values()):
            if server == name and not answer.done():
                answer.set_result(_wrong(INTERNAL, f"the server {name} has ended"))
        proxy = self._links[name].proxy
        await proxy.close()
        for server, said in tuple(self._asked.values()):
            if server == name:
                with suppress(ConnectionError):
                    await proxy.lost(
                        said, f"The MCP server {name} has ended. Whether this was carried out is not known.", sent=True
                    )

    async def _send(self, message: Message) -> None:
        await self._to_client(written(message))


def _wrong(code: int, says: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": says}}
