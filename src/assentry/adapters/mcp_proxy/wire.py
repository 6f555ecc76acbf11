"""Messages of the protocol, as they are on the wire."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Message = Mapping[str, Any]
ToClient = Callable[[bytes], Awaitable[None]]
"""Lines, each with the end of one; what a server wrote goes on as it is."""
ToServer = Callable[[Message], Awaitable[None]]

LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
"""Since 2026-07-28 every message of a client says how it speaks, under these names of its `_meta`."""
INVALID_REQUEST, INVALID_PARAMS, NO_SUCH_METHOD, INTERNAL = -32600, -32602, -32601, -32603


def read(line: bytes) -> Any:
    """What the line says; `None` where it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def written(message: Message) -> bytes:
    """The message as a line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def ident(number: Any) -> str:
    """1 and "1" are two calls; 1 and 1.0 are one."""
    return json.dumps(int(number) if isinstance(number, float) and number.is_integer() else number)


def as_text(said: Any) -> str:
    """What was said, as plain text that can be kept whatever is in it."""
    return json.dumps(said, sort_keys=True)[:20_000]


def part(message: Any, name: str) -> dict[str, Any]:
    """The object of this name in a message; empty where there is none."""
    found = message.get(name) if isinstance(message, Mapping) else None
    return found if isinstance(found, dict) else {}


def meta_of(message: Message) -> dict[str, Any]:
    """What the message says beside what it is about."""
    return part(part(message, "params"), "_meta")


def is_answer(message: Any) -> bool:
    return isinstance(message, dict) and "id" in message and "method" not in message


def error(number: Any, code: int, says: str) -> dict[str, Any]:
    """The answer to a request that cannot be met."""
    return {"id": number, "error": {"code": code, "message": says}}


def with_a_word(message: Message, says: str) -> dict[str, Any]:
    """The answer to a call, with a word more in it."""
    result = message.get("result")
    if not isinstance(result, dict):
        return dict(message)
    content = result.get("content")
    told = [*(content if isinstance(content, list) else []), {"type": "text", "text": says}]
    return {**message, "result": {**result, "content": told}}
