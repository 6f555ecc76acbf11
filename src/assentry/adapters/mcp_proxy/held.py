"""What a client hears of a call that waits for a person. Whatever it answers decides nothing."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from assentry.adapters.mcp_proxy.wire import CAPABILITIES, VERSION, Message, meta_of, part
from assentry.engine.errands import Errands, Told

PROGRESS_SECONDS = 5.0
_LONG = 3600.0
_STATE = "assentry:"
_ASKED = "assentry"


class Held(Enum):
    """What a client hears of a call that waits."""

    WAIT = "wait"
    """It waits too, and hears of it now and then if it asked for progress."""
    TICKET = "ticket"
    """It is answered at once; the same call, made again, finds the decision."""
    ELICIT = "elicit"
    """As `wait`, and it is asked to open the card, where it can."""
    INPUT = "input"
    """It is told that something is missing, and makes the call again itself, where it can."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How calls are held."""

    server: str
    """What the server is called on cards and in the policy's rules."""
    trusted: bool = False
    """The operator vouches for what the server says of its tools."""
    patience: float | None = None
    """How many seconds a held call waits; none: as long as the client does."""
    held: Held = Held.WAIT
    cards: str = ""
    """The address of the server where people decide; empty where there is none."""
    identity: str = ""
    """The same for the same server only: what was allowed at one is not allowed at another of its name."""
    place: str = ""
    """Where the server is, in words for whoever decides."""

    def card(self, told: Told) -> str:
        """Where the request can be seen."""
        return f"{self.cards.rstrip('/')}/r/{told.code}" if self.cards else ""


@dataclass(slots=True)
class Hearing:
    """What the client is told meanwhile, as far as it said that it can."""

    errands: Errands
    manner: Manner
    send: Callable[[Message], Awaitable[None]]
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """What the client can, as it said when it shook hands."""
    _asked: set[str] = field(default_factory=set)

    def heard(self, message: Message) -> bool:
        """The client answers what was asked here; nobody else hears that, and nothing depends on it."""
        number = message.get("id")
        if not isinstance(number, str) or number not in self._asked:
            return False
        self._asked.discard(number)
        return True

    async def waited(self, told: Told, message: Message) -> Told:
        """The same once somebody has decided, or patience is at its end."""
        patience = self.manner.patience
        if self.manner.held is Held.TICKET or patience == 0 or self.wants_input(message):
            return told
        token = meta_of(message).get("progressToken")
        loop = asyncio.get_running_loop()
        until = loop.time() + patience if patience is not None else float("inf")
        elicited, count = await self._elicit(told, message), 0
        while told.waits and (left := until - loop.time()) > 0:
            if token is not None:
                says = f"waits for a person: request {told.code}"
                said = {"progressToken": token, "progress": count, "message": says}
                await self.send({"method": "notifications/progress", "params": said})
                count += 1
            told = await self.errands.decided(told, min(left, PROGRESS_SECONDS if token is not None else _LONG))
        if elicited and not told.waits:
            params = {"elicitationId": elicited}
            await self.send({"method": "notifications/elicitation/complete", "params": params})
        return told

    async def _elicit(self, told: Told, message: Message) -> str:
        """The client is asked to open the card; empty where it cannot, or there is nothing to open."""
        card = self.manner.card(told)
        speaks = VERSION not in meta_of(message) and "url" in part(self.capabilities, "elicitation")
        if self.manner.held is not Held.ELICIT or not card or not speaks:
            return ""
        number = f"assentry-{secrets.token_hex(8)}"
        self._asked.add(number)
        params = {**_shown(told, card), "elicitationId": told.id}
        await self.send({"id": number, "method": "elicitation/create", "params": params})
        return told.id

    def wants_input(self, message: Message) -> bool:
        """The client makes the call again itself, and has not done so yet."""
        is_again = isinstance(part(message, "params").get("requestState"), str)
        return self.manner.held is Held.INPUT and VERSION in meta_of(message) and not is_again

    def input_required(self, told: Told, message: Message) -> dict[str, Any] | None:
        """What a client that makes calls again itself is told; none for others."""
        if self.manner.held is not Held.INPUT or VERSION not in meta_of(message):
            return None
        result: dict[str, Any] = {"resultType": "input_required", "requestState": f"{_STATE}{told.code}"}
        can = part(part(meta_of(message), CAPABILITIES), "elicitation")
        if "url" in can and (card := self.manner.card(told)) and not _is_again(message):
            result["inputRequests"] = {_ASKED: {"method": "elicitation/create", "params": _shown(told, card)}}
        return result


def without_ours(params: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says, without what it says to us."""
    state, answers = params.get("requestState"), params.get("inputResponses")
    kept = dict(params)
    if isinstance(state, str) and state.startswith(_STATE):
        del kept["requestState"]
        if isinstance(answers, dict):
            del kept["inputResponses"]
            if others := {name: value for name, value in answers.items() if name != _ASKED}:
                kept["inputResponses"] = others
    return kept


def _is_again(message: Message) -> bool:
    state = part(message, "params").get("requestState")
    return isinstance(state, str) and state.startswith(_STATE)


def _shown(told: Told, card: str) -> dict[str, Any]:
    says = f"This call waits for a person. Whoever may decide finds it as request {told.code}."
    return {"mode": "url", "message": says, "url": card}
