"""A call as its server gets it: what was judged and shown, and nothing beside it."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assentry.adapters.mcp_proxy.held import without_ours
from assentry.adapters.mcp_proxy.wire import CAPABILITIES, VERSION, Message, ident, meta_of
from assentry.engine.errands import Told

log = logging.getLogger("assentry.mcp")

ANSWERS = "inputResponses"
MOST_ROUNDS = 5
"""How often a server may want to know more about one call."""
_OWN = "io.modelcontextprotocol/"
_META = frozenset({"progressToken", VERSION, CAPABILITIES, f"{_OWN}clientInfo", f"{_OWN}logLevel"})
_PARAMS = frozenset({"name", "arguments", "_meta", "requestState", ANSWERS})


@dataclass(frozen=True, slots=True)
class Under:
    """A call that was let through and is under way."""

    told: Told
    args: Mapping[str, Any]
    """What it is made with."""
    changed: bool
    renewing: asyncio.Task[None] | None
    call: str
    """The same for the same tool and arguments."""
    rounds: int = 0
    wanted: frozenset[str] = frozenset()
    """What its server wants to know, by name."""

    def stop(self) -> None:
        """It is no longer under way here."""
        if self.renewing is not None:
            self.renewing.cancel()


def round_of(call: str, said: Mapping[str, Any]) -> str:
    """By what a call that goes on is known again: the same call, with the state that its server gave out."""
    state = said.get("requestState")
    return f"{call}:{ident(state)}" if isinstance(state, str) and state else ""


def answers_in(params: Mapping[str, Any]) -> dict[str, Any]:
    """What the client answers to the server's questions."""
    found = without_ours(params).get(ANSWERS)
    return found if isinstance(found, dict) else {}


def is_new(answers: Mapping[str, Any], wanted: frozenset[str]) -> bool:
    """Something is said that nobody has seen: more than that the client agrees, or does not."""
    return any(
        name not in wanted
        or not isinstance(said, dict)
        or said.get("action") not in ("accept", "decline", "cancel")
        or bool(said.get("content"))
        or bool(said.keys() - {"action", "content"})
        for name, said in answers.items()
    )


def as_allowed(message: Message, args: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The call as its server gets it. What else the client said was not shown to anybody, and is left out."""
    params = message["params"]
    meta = {name: value for name, value in meta_of(message).items() if name in _META}
    if dropped := sorted({*(params.keys() - _PARAMS), *(meta_of(message).keys() - _META)}):
        log.warning("a call said more than its arguments, which was left out: %s", ascii(dropped[:10])[:300])
    said: dict[str, Any] = {"name": params["name"]}
    if "arguments" in params or args:
        said["arguments"] = dict(args)
    return {
        "jsonrpc": "2.0",
        "id": message["id"],
        "method": "tools/call",
        "params": {**said, **more, **({"_meta": meta} if meta else {})},
    }
