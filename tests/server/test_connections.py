"""The server on a real socket: who sends slowly, half, too much or in two ways; and who waits long with every right."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from assentry.core.authority import Principal
from assentry.engine.identity import Identities
from assentry.server.serving import Address, Standing, standing
from assentry.server.wire import LARGEST_ANONYMOUS, LARGEST_BODY, Limits
from assentry.settings import load
from tests.stage import PATIENCE

SHORT = Limits(head=1.0, body=1.0)
PROPOSAL = b'{"action": "delete_everything", "args": {}}'


@dataclass
class Place:
    """A server, and what its clients say in bytes."""

    server: Standing
    token: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.server.url).netloc

    def head(self, first: str = "GET /healthz", *more: str, host: str = "") -> bytes:
        lines = [f"{first} HTTP/1.1", f"host: {host or self.host}", *more, "", ""]
        return "\r\n".join(lines).encode()

    @property
    def proved(self) -> str:
        return f"authorization: Bearer {self.token}"

    async def line(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", int(self.host.partition(":")[2]))

    async def heard(self, *parts: bytes, drip: bytes = b"") -> bytes:
        """Everything that the server says to this until it hangs up; `drip` is sent again and again meanwhile."""
        reader, writer = await self.line()
        dripping = asyncio.create_task(self._drips(writer, drip)) if drip else None
        try:
            async with asyncio.timeout(PATIENCE):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            if dripping is not None:
                dripping.cancel()
            writer.close()

    async def _drips(self, writer: asyncio.StreamWriter, drip: bytes) -> None:
        while not writer.is_closing():
            writer.write(drip)
            await asyncio.sleep(0.05)

    async def answered(self, *parts: bytes) -> int:
        """The status of the answer to this."""
        reader, writer = await self.line()
        try:
            async with asyncio.timeout(PATIENCE):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                return status_of(await reader.readline())
        finally:
            writer.close()


def status_of(heard: bytes) -> int:
    """Of an answer; 0 where there was none."""
    return int(heard.split(b" ", 2)[1]) if heard.startswith(b"HTTP/1.1 ") else 0


@pytest.fixture
async def place(database: str) -> AsyncIterator[Place]:
    async with standing(load({"database": database}), Address(port=0), works=False, limits=SHORT) as server:
        _, token = await Identities(server.premises.store, "default").give_token(Principal("root"), "sweeper")
        yield Place(server, token)


async def test_who_sends_slowly_or_half_is_cut_off_however_many_they_are(place: Place) -> None:
    """Before anybody knows who they are, and with a valid token as well."""
    post = place.head("POST /api/v1/agent/proposals", "content-type: application/json", "content-length: 100")
    chunks = post.replace(b"content-length: 100", b"transfer-encoding: chunked")
    proved = post.replace(b"\r\n\r\n", f"\r\n{place.proved}\r\n\r\n".encode())
    whole = place.head()
    cases: dict[str, tuple[Callable[[], Any], int]] = {
        "nothing": (lambda: place.heard(), 0),
        "empty lines": (lambda: place.heard(drip=b"\r\n"), 0),
        "half a head": (lambda: place.heard(whole[:30]), 408),
        "a head in drips": (lambda: place.heard(whole[:-2], drip=b"x: y\r\n"), 408),
        "half a body": (lambda: place.heard(post, b"{"), 408),
        "half a body of an agent": (lambda: place.heard(proved, b"{"), 408),
        "a body in drips": (lambda: place.heard(proved, drip=b" "), 408),
        "half a body in chunks": (lambda: place.heard(chunks, b"1\r\n{\r\n"), 408),
        "chunks in drips": (lambda: place.heard(chunks, drip=b"1\r\n \r\n"), 408),
        "trailers in drips": (lambda: place.heard(chunks, b"1\r\n{\r\n0\r\n", drip=b"x: y\r\n"), 408),
        "drips of a body that nobody reads": (lambda: place.heard(whole[:-2] + b"content-length: 100\r\n\r\n", drip=b" "), 200),
        "a second head in drips": (lambda: place.heard(whole, whole[:-2], drip=b"x: y\r\n"), 200),
    }  # fmt: skip
    heard = await asyncio.gather(*(said() for said, _ in cases.values() for _ in range(4)))
    wrong = [
        f"{name}: {heard[4 * number + each][:200]!r}"
        for number, (name, (_, status)) in enumerate(cases.items())
        for each in range(4)
        # Who goes on sending to a connection that was closed may not hear why.
        if status_of(heard[4 * number + each]) not in (status, 0 if "drips" in name else status)
    ]
    assert not wrong, "\n".join(wrong)


async def test_a_head_or_trailers_without_end_are_cut_off(place: Place) -> None:
    """Long before a time limit: by what they take in memory."""
    endless = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 1000) for number in range(600))
    chunks = place.head("POST /api/v1/agent/proposals", "transfer-encoding: chunked", place.proved)
    assert status_of(await place.heard(place.head()[:-2], endless)) in (431, 0)
    assert await place.heard(chunks, b"0\r\n", *([endless] * 8)) == b""


async def test_whoever_waits_with_every_right_is_left_alone(place: Place) -> None:
    reader, writer = await place.line()
    writer.write(place.head("GET /api/v1/events", place.proved))
    asked = place.head("POST /api/v1/agent/proposals", place.proved, f"content-length: {len(PROPOSAL)}",
                       "content-type: application/json", "connection: close")  # fmt: skip
    made = json.loads((await place.heard(asked, PROPOSAL)).partition(b"\r\n\r\n")[2])
    waits = place.head(f"GET /api/v1/agent/proposals/{made['id']}?wait=55", place.proved, "connection: close")
    waiting = asyncio.create_task(place.heard(waits))
    async with asyncio.timeout(PATIENCE):
        assert await reader.readuntil(b'"look"')
        # Whoever came later and said half has been cut off: so long at least the others have been there.
        assert status_of(await place.heard(waits[:-2])) == 408
        assert status_of(await place.heard(asked, PROPOSAL[:-1])) == 408
        assert not waiting.done()
        cancelled = place.head(f"POST /api/v1/agent/proposals/{made['id']}/cancel", place.proved, "content-length: 2",
                               "content-type: application/json", "connection: close")  # fmt: skip
        assert status_of(await place.heard(cancelled, b"{}")) == 200
        assert b'"cancelled"' in await waiting
        assert await reader.readuntil(b'"cancelled"')
    writer.close()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_gets_a_413(place: Place, chunked: bool) -> None:
    piece = b" " * 32_768

    async def sent(size: int, *more: str) -> int:
        length = "transfer-encoding: chunked" if chunked else f"content-length: {size}"
        head = place.head("POST /api/v1/agent/proposals", "content-type: application/json", length, *more)
        framed = b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece
        return await place.answered(head, *([framed] * (size // len(piece))), *([b"0\r\n\r\n"] if chunked else []))

    assert await sent(LARGEST_BODY + len(piece), place.proved) == 413
    assert await sent(LARGEST_BODY, place.proved) == 422  # read to its end, and it is not JSON
    assert await sent(LARGEST_ANONYMOUS) == 422
    assert await sent(LARGEST_ANONYMOUS + len(piece)) == 413
    assert await sent(LARGEST_ANONYMOUS + len(piece), "authorization: Bearer aat_wrong.default") == 413


async def test_a_call_goes_to_one_name_only(place: Place) -> None:
    """Whichever comes first, and wherever the name stands: a proxy may have judged by the other one."""
    good, port = place.host, place.host.partition(":")[2]
    evil = f"evil.example:{port}"
    twice = ("host: " + evil, "connection: close")
    assert status_of(await place.heard(place.head())) == 200
    for said in (
        place.head("GET /healthz", *twice),
        place.head("GET /healthz", f"host: {good}", host=evil),
        place.head("GET /healthz", f"Host: {good}"),
        b"GET /healthz HTTP/1.1\r\n\r\n",
        place.head(f"GET http://{evil}/healthz"),
        place.head(f"GET http://{good}/healthz"),
        place.head(f"CONNECT {evil}"),
        place.head("OPTIONS *"),
    ):
        assert await place.answered(said) == 400, said
    assert await place.answered(place.head(host=evil)) == 421


async def test_a_trailer_is_no_header(place: Place) -> None:
    """All in one packet, so that it is there before the application looks."""
    chunked = place.head("GET /api/v1/me", "transfer-encoding: chunked", "connection: close")
    assert status_of(await place.heard(chunked + f"0\r\n{place.proved}\r\n\r\n".encode())) == 401
    assert status_of(await place.heard(chunked + f"0\r\nhost: {place.host}\r\n\r\n".encode())) == 401
