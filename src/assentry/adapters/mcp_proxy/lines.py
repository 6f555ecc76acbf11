"""Lines of a stream whose other end may write too much, or without end: none is kept beyond its bound."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from assentry.adapters.mcp_proxy.wire import LONGEST

CHUNK = 1024 * 1024
"""So much is read at once."""
MOST_DROPPED = 1024 * 1024 * 1024
"""Bytes of one line that are dropped before whoever writes it is taken for one that never ends it."""
DROP_SECONDS = 60.0
"""How long that may take."""
_HEAD = 4 * 1024
_TEXT = r'"(?:[^"\\]|\\.)*+"'
_PLAIN = rf"{_TEXT}|-?[0-9.eE+-]++|true|false|null"
_MEMBER = re.compile(rf"\s*+({_TEXT})\s*+:\s*+({_PLAIN})\s*+[,}}]")
_BEGIN = re.compile(r"\s*+\{")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A line that was too long to be kept; `head` is how it began."""

    head: bytes

    @property
    def members(self) -> dict[str, Any]:
        """What it said before anything that has parts."""
        text, found = self.head.decode(errors="replace"), dict[str, Any]()
        if (begin := _BEGIN.match(text)) is None:
            return found
        at = begin.end()
        while (member := _MEMBER.match(text, at)) is not None:
            at = member.end()
            try:
                found[json.loads(member[1])] = json.loads(member[2])
            except ValueError:
                break
        return found


class Endless(Exception):
    """A line that is too long to be kept does not end."""


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes | Dropped]:
    """Each line with its end, and of each that is too long only that it came."""
    held, dropped, since = bytearray(), 0, 0.0
    head = b""
    while True:
        async with _before(since + DROP_SECONDS if dropped else None):
            chunk = await reader.read(CHUNK)
        if not chunk:
            break
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1 or len(chunk)
            is_whole = chunk[end - 1 : end] == b"\n"
            piece, start = chunk[start:end], end
            if not dropped:
                held += piece
                if len(held) > LONGEST:
                    head, dropped, since = bytes(held[:_HEAD]), len(held), asyncio.get_running_loop().time()
                    held = bytearray()
            else:
                dropped += len(piece)
            if is_whole:
                yield Dropped(head) if dropped else bytes(held)
                held, dropped = bytearray(), 0
            elif dropped > MOST_DROPPED:
                raise Endless
    if dropped:
        yield Dropped(head)
    elif held:
        yield bytes(held)


@asynccontextmanager
async def _before(deadline: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError:
        raise Endless from None
