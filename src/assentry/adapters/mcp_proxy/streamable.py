"""The way to a server elsewhere: streamable HTTP, with sessions as before 2026-07-28 and without as since then."""

import asyncio
import base64
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from assentry.adapters.mcp_proxy.events import Event, TooLong, events
from assentry.adapters.mcp_proxy.logins import LoggedIn
from assentry.adapters.mcp_proxy.upstream import LEAVE_SECONDS, Hears
from assentry.adapters.mcp_proxy.wire import LONGEST, VERSION, Message, ident, is_answer, meta_of, part, read, written
from assentry.core.addresses import is_local
from assentry.errors import SettingsError

log = logging.getLogger("assentry.mcp")

_CONNECT_SECONDS = 20.0
_NOTE_SECONDS = 20.0
"""How long a server may take to accept what needs no answer."""
_AGAIN = 3
"""How often a stream that broke is asked for again before its answer counts as lost."""
_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_WORTH_HIDING = 8
_NOT_TAKEN = frozenset({401, 403, 404, 405, 406, 413, 415, 421})
"""With these a server says that it did not look at what it was sent; with all others it may have acted."""
_DID_NOT_RUN = "so this did not run."
_NOBODY_KNOWS = "Whether this was carried out is not known: find out before you try it again."
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class HttpServer:
    """A server at an address. `schema` knows what its tools take: some of that is said in headers as well."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        schema: Callable[[str], Mapping[str, Any]],
        login: LoggedIn | None = None,
    ) -> None:
        self._login = login
        given = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        self._given = given.rpartition(" ")[2]
        self._url, self._shown, self._schema = url, shown(url), schema
        try:
            self._client = httpx.AsyncClient(
                headers=dict(headers), auth=login, trust_env=not is_local(url),
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )  # fmt: skip
        except (ValueError, TypeError, UnicodeError):
            raise SettingsError("a header cannot be sent; names and values are plain ASCII") from None
        self._session = self._version = ""
        self._hello: Message | None = None
        self._posts: dict[str, asyncio.Task[None]] = {}
        self._aside: asyncio.Task[None] | None = None
        self._ear: Hears | None = None
        self._ready, self._gone = asyncio.Event(), asyncio.Event()
        self._opening = asyncio.Lock()

    # As every way to a server

    async def send(self, message: Message) -> None:
        await self._ready.wait()
        if "method" in message and "id" in message:
            key = ident(message["id"])
            task = asyncio.create_task(self._requested(message))
            self._posts[key] = task
            task.add_done_callback(lambda done: self._posts.pop(key) if self._posts.get(key) is done else None)
            return
        if message.get("method") == "notifications/cancelled" and await self._hung_up(message):
            return
        await self._noted(message)
        if message.get("method") == "notifications/initialized":
            self._listen_aside()

    async def listen(self, ear: Hears) -> None:
        self._ear = ear
        self._ready.set()
        await self._gone.wait()

    async def leave(self) -> None:
        if self._posts:
            await asyncio.wait([*self._posts.values()], timeout=LEAVE_SECONDS)

    async def close(self) -> int:
        tasks = [*self._posts.values(), *([self._aside] if self._aside else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session:
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._client.delete(self._url, headers=self._headers({}))
        await self._client.aclose()
        if self._login is not None:
            await self._login.close()
        return 0

    # Requests

    async def _requested(self, message: Message, *, again: bool = False) -> None:
        """The request was answered, by the server or, where it cannot, by us."""
        told = self._told
        if message["method"] == "initialize":
            self._hello, self._session, self._version = message, "", ""
        is_sent = False
        try:
            async with self._client.stream(
                "POST", self._url, content=written(message), headers=self._headers(message)
            ) as answer:
                is_sent = True
                await self._answered(message, answer, again=again)
        except (httpx.HTTPError, httpx.StreamError, TooLong, _Broken) as problem:
            # Once the server has begun to answer, nothing that breaks later says that it did not act.
            is_sent = is_sent or not isinstance(problem, _UNSENT)
            says = f". {_NOBODY_KNOWS}" if is_sent else f", {_DID_NOT_RUN}"
            await told.lost(message, f"{self._away(problem)}{says}", sent=is_sent)
        except Exception:
            log.exception("a request to the MCP server failed")
            await told.lost(message, f"{self._shown} could not be asked. {_NOBODY_KNOWS}", sent=True)

    async def _answered(self, message: Message, answer: httpx.Response, *, again: bool) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_known = not self._session or message["method"] == "initialize"
        if answer.status_code == httpx.codes.NOT_FOUND and not is_known and not again:
            return await self._session_lost(message)
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._login is not None and not again:
            used = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
            if await self._login.renewed(used):
                return await self._let_in_again(message)
        if not answer.is_success:
            return await self._turned_away(message, answer, kind)
        if message["method"] == "initialize":
            self._session = answer.headers.get("mcp-session-id", "")
        if kind == "text/event-stream":
            return await self._streamed(message, answer)
        line = await _whole(answer)
        if kind != "application/json" or not await self._passed_on(line, message):
            raise _Broken("it did not answer what it was asked")
        return None

    async def _streamed(self, message: Message, answer: httpx.Response) -> None:
        """The answer has come, on this stream or on one that goes on where it broke."""
        last, pause, tries = "", _PAUSE, 0
        stream: httpx.Response | None = answer
        while True:
            try:
                if stream is None:
                    headers = {**self._headers({}), "accept": "text/event-stream", "last-event-id": last}
                    async with self._client.stream("GET", self._url, headers=headers) as again:
                        if not again.is_success:
                            raise _Broken(f"it answered {again.status_code}")
                        async for event in events(again.aiter_bytes()):
                            last, pause, tries = event.id or last, event.retry or pause, 0
                            if await self._event(event, message):
                                return
                else:
                    async for event in events(stream.aiter_bytes()):
                        last, pause = event.id or last, event.retry or pause
                        if await self._event(event, message):
                            return
            except (httpx.HTTPError, httpx.StreamError, _Broken):
                if not last or tries >= _AGAIN:
                    raise
            if not last or tries >= _AGAIN:
                raise _Broken("its answer broke off")
            stream, tries = None, tries + 1
            await asyncio.sleep(pause)

    async def _event(self, event: Event, message: Message | None) -> bool:
        return bool(event.data.strip()) and await self._passed_on(event.data, message)

    async def _passed_on(self, line: bytes, asked: Message | None) -> bool:
        """What the server says was told; whether it is the answer to what was asked."""
        line = self._without_token(line)
        said = read(line)
        if not isinstance(said, dict):
            log.warning("the server wrote something that is no message; it was left out")
            return False
        ends = asked is not None and is_answer(said)
        if ends and asked is not None:
            if ident(said["id"]) != ident(asked["id"]):
                raise _Broken("it answered something else")
            if asked["method"] == "initialize":
                version = part(said, "result").get("protocolVersion")
                self._version = version if isinstance(version, str) and _SAFE.fullmatch(version) else ""
        elif is_answer(said):
            log.warning("the server answered what it was not asked; that was left out")
            return False
        # In JSON an end of line is only ever between words, never in one.
        await self._told.hear(said, line.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        return ends

    async def _turned_away(self, message: Message, answer: httpx.Response, kind: str) -> None:
        """The server did not take it. What it says itself goes on, else what its status means."""
        line = self._without_token(await _whole(answer))
        said = read(line) if kind == "application/json" else None
        if isinstance(said, dict) and isinstance(said.get("error"), dict):
            made = {"id": message["id"], "error": said["error"]}
            return await self._told.hear({"jsonrpc": "2.0", **made}, written(made))
        says = f"{self._shown} answered {answer.status_code}"
        if answer.is_redirect:
            says += " (a redirect, which is not followed; use the address it leads to)"
        if answer.status_code in (401, 403):
            says += " (log in with assentry mcp --url … --login, or pass --header 'Authorization: Bearer ${NAME}')"
        sent = answer.status_code not in _NOT_TAKEN
        return await self._told.lost(
            message, f"{says}. {_NOBODY_KNOWS}" if sent else f"{says}, {_DID_NOT_RUN}", sent=sent
        )

    # Sessions

    async def _session_lost(self, message: Message) -> None:
        """The server has forgotten us: it is greeted anew. A call is not repeated, for its tools may be others now."""
        old = self._session
        async with self._opening:
            if self._session == old:
                await self._greeted()
        await self._told.learn()
        if message["method"] != "tools/call":
            return await self._requested(message, again=True)
        says = f"{self._shown} had ended its session, {_DID_NOT_RUN} There is a new one; make the call again."
        return await self._told.lost(message, says, sent=False)

    async def _let_in_again(self, message: Message) -> None:
        """The login had ended and is renewed. A call is not repeated: only the server says that it did nothing."""
        if self._session:
            self._listen_aside()
        if message["method"] != "tools/call":
            return await self._requested(message, again=True)
        says = f"{self._shown} answered 401, {_DID_NOT_RUN} The login is renewed now; make the call again."
        return await self._told.lost(message, says, sent=False)

    async def _greeted(self) -> None:
        hello, self._session = self._hello, ""
        if hello is None:
            raise _Broken("it ended the session")
        async with self._client.stream(
            "POST", self._url, content=written(hello), headers=self._headers(hello)
        ) as answer:
            if not answer.is_success:
                raise _Broken(f"it answered {answer.status_code} to a new session")
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                async for event in events(answer.aiter_bytes()):
                    if is_answer(read(event.data)):
                        break
            else:
                await _whole(answer)
            self._session = answer.headers.get("mcp-session-id", "")
        await self._noted({"method": "notifications/initialized"})
        self._listen_aside()

    def _listen_aside(self) -> None:
        if self._aside is not None:
            self._aside.cancel()
        self._aside = asyncio.create_task(self._heard_aside())

    async def _heard_aside(self) -> None:
        """What the server says by itself was told, for as long as it has anything to say in this session."""
        last, pause = "", _PAUSE
        while self._session:
            headers = {**self._headers({}), "accept": "text/event-stream"}
            try:
                async with self._client.stream(
                    "GET", self._url, headers={**headers, **({"last-event-id": last} if last else {})}
                ) as stream:
                    if stream.is_client_error:
                        return  # it offers none, or has forgotten us, and whoever asks it something finds out
                    stream.raise_for_status()
                    async for event in events(stream.aiter_bytes()):
                        last, pause = event.id or last, event.retry or _PAUSE
                        await self._event(event, None)
            except (httpx.HTTPError, httpx.StreamError, TooLong):
                pause = min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    # What needs no answer

    async def _noted(self, message: Message) -> None:
        try:
            async with asyncio.timeout(_NOTE_SECONDS):
                await self._client.post(self._url, content=written(message), headers=self._headers(message))
        except (httpx.HTTPError, TimeoutError) as problem:
            log.warning("a notification was not delivered: %s", self._away(problem))

    async def _hung_up(self, message: Message) -> bool:
        """Since 2026-07-28 a request is given up by closing its stream; what comes of it is then not known."""
        number = part(message, "params").get("requestId")
        task = self._posts.get(ident(number))
        if task is None or self._version:
            return False
        task.cancel()
        await self._told.lost({"id": number}, "", sent=True)
        return True

    # What all of that shares

    @property
    def _told(self) -> Hears:
        assert self._ear is not None  # noqa: S101  nothing is sent before somebody listens
        return self._ear

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._session:
            headers["mcp-session-id"] = self._session
        version = meta_of(message).get(VERSION)
        if not isinstance(version, str):
            return {**headers, **({"mcp-protocol-version": self._version} if self._version else {})}
        method, params = str(message.get("method")), part(message, "params")
        headers |= {"mcp-protocol-version": encoded(version), "mcp-method": encoded(method)}
        if isinstance(name := params.get(_NAMED.get(method, "")), str):
            headers["mcp-name"] = encoded(name)
            if method == "tools/call":
                headers |= spoken(self._schema(name), part(params, "arguments"))
        return headers

    def _without_token(self, line: bytes) -> bytes:
        """What lets us in is not told to the client, whatever the server repeats."""
        for token in (self._given, self._login.token if self._login is not None else ""):
            if len(token) >= _WORTH_HIDING:
                line = line.replace(token.encode(), b"***")
        return line

    def _away(self, problem: Exception) -> str:
        why = str(problem) if isinstance(problem, _Broken) else type(problem).__name__
        return f"the MCP server at {self._shown} could not be reached or broke off ({why})"


class _Broken(Exception):
    """The server did not answer as it should."""


async def _whole(answer: httpx.Response) -> bytes:
    found = bytearray()
    async for chunk in answer.aiter_bytes():
        found += chunk
        if len(found) > LONGEST:
            raise TooLong
    return bytes(found)


def shown(url: str) -> str:
    """The address without what may be secret in it."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise SettingsError("the address of the MCP server cannot be read; such as https://host/mcp") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise SettingsError("the address of an MCP server begins with https:// or http://, and names a host")
    return f"{parsed.scheme}://{parsed.host}{f':{parsed.port}' if parsed.port else ''}{parsed.path}"


def encoded(value: str) -> str:
    """The value as a header may have it."""
    if (not value or _SAFE.fullmatch(value)) and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="


def spoken(schema: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, str]:
    """What the schema wants to be said in headers too (`x-mcp-header`)."""
    found: dict[str, str] = {}
    for name, inner in part(schema, "properties").items():
        if not isinstance(inner, dict):
            continue
        value, token = args.get(name), inner.get("x-mcp-header")
        if isinstance(token, str) and _TOKEN.fullmatch(token) and isinstance(value, str | int | float):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found[f"Mcp-Param-{token}"] = encoded(text)
        if isinstance(value, dict):
            found |= spoken(inner, value)
    return found
