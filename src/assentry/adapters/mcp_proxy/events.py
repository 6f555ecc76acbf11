"""Server-sent events, as a stream of bytes brings them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from assentry.adapters.mcp_proxy.wire import LONGEST


@dataclass(frozen=True, slots=True)
class Event:
    """One event: what it says, and by which name it can be asked for again."""

    data: bytes
    id: str = ""
    retry: float | None = None


class TooLong(Exception):
    """An event has more bytes than any message."""


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The events of a stream; one that is cut off at the end is left out."""
    data: list[bytes] = []
    name, kind, retry, length = "", "message", None, 0
    async for line in _lines(chunks):
        if not line:
            if kind == "message" and (data or name or retry is not None):
                yield Event(b" ".join(data), name, retry)
            data, name, kind, retry, length = [], "", "message", None, 0
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                length += len(value)
                if length > LONGEST:
                    raise TooLong
                data.append(value)
            case b"id" if b"\0" not in value:
                name = value.decode(errors="replace")
            case b"event":
                kind = value.decode(errors="replace") or "message"
            case b"retry" if value.isdigit():
                retry = min(int(value[:9]) / 1000, 60.0)
            case _:
                pass


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines without their ends, whichever of the three kinds those are."""
    parts: list[bytes] = []
    async for chunk in chunks:
        parts.append(chunk)
        if sum(map(len, parts)) > LONGEST:
            raise TooLong
        if b"\n" not in chunk and b"\r" not in chunk:
            continue
        rest = b"".join(parts)
        # A carriage return at the very end may be half of an end.
        whole = rest[:-1] if rest.endswith(b"\r") else rest
        *lines, left = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        parts = [left + rest[len(whole) :]]
        for line in lines:
            yield line
