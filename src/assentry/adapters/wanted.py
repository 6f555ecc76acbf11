"""What somebody else's program asks a person for, put on record: a call that they look at, or a question.

Translations make a `Wanted` of what they get, and of what was `Said` an answer in its shape.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from assentry.adapters.hosted import one_decided
from assentry.adapters.tool_calls import Standing, as_text
from assentry.core.action import Fact, Json
from assentry.core.briefing import NO_DRAFTS
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request
from assentry.core.text import shortened
from assentry.engine.gate import Gate
from assentry.engine.proposal import Proposal
from assentry.errors import Denied, InvalidArguments

INSISTS = "the program asks for a person before this call"
LONGEST = 2_000
"""How much of what a program says is shown."""

Decided = Literal["approve", "edit", "reject", "respond"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing that a program asks for: a call that a person looks at, or a question."""

    name: str = ""
    args: Mapping[str, Json] | None = None
    description: str = ""
    """What the program says to whoever decides: its word, and so a claim."""
    decisions: frozenset[Decided] = frozenset({"approve", "edit", "reject", "respond"})
    question: str = ""
    choices: tuple[str, ...] = ()
    schema: Mapping[str, Json] | None = None
    shown: tuple[tuple[str, Json], ...] = ()
    """What else the payload says, for the card."""
    hears_words: bool = True
    """Words of whoever refuses reach the program; where they do not, it cannot write another draft either."""
    says_yes_or_no: bool = False
    """The program itself speaks of yes and no, so it expects the words."""

    @property
    def is_call(self) -> bool:
        return not self.question


@dataclass(frozen=True, slots=True)
class Said:
    """What a person decided about one of them."""

    kind: Decided
    args: Mapping[str, Json] | None = None
    text: str = ""
    value: Json = None


def meant(wanted: Wanted, typed: Json) -> Json:
    """What a person typed, as the program gets it: JSON as such, yes and no as such unless it asked for the words."""
    if not isinstance(typed, str) or wanted.choices or wanted.schema is not None:
        return typed
    word = typed.strip().casefold()
    if not wanted.says_yes_or_no and word in ("yes", "no"):
        return word == "yes"
    if word in ("true", "false"):
        return word == "true"
    try:
        return restore(canonical(json.loads(typed)))
    except (ValueError, RecursionError, InvalidArguments):
        return typed


def passed_on(wanted: Wanted) -> str:
    """For the card: what becomes of an answer."""
    if wanted.choices or wanted.schema is not None:
        return ""
    words = "as words" if wanted.says_yes_or_no else "as true and false"
    return f"The program gets what is typed: JSON as such, yes and no {words}. A denial is passed on as false."


class Asker:
    """Puts what a program asks for on record, and hears what was decided."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def decided(
        self, asked: Sequence[Wanted], key: str, answer: Callable[[tuple[Said, ...]], Any]
    ) -> tuple[list[Request], Any]:
        """The requests for these, and the answer once all of them are decided. Asked again, they are found by `key`."""
        made = [(one, *await self._put(one, f"{key}:{number}")) for number, one in enumerate(asked)]
        requests = [request for _, request, _ in made]
        if any(Standing(request).is_held for request in requests):
            return requests, None
        return requests, answer(tuple([await self._said(*each) for each in made]))

    async def answered(self, asked: Sequence[Wanted], key: str, answer: Callable[[tuple[Said, ...]], Any]) -> Any:
        """The answer, once all of them are decided. A run that parks does so, and this raises `Parked`."""
        while True:
            requests, found = await self.decided(asked, key, answer)
            waiting = [request for request in requests if Standing(request).is_held]
            if not waiting:
                return found
            await one_decided(self._gate, waiting)

    async def known(self, count: int, key: str) -> list[Request]:
        """The requests that were put on record under this key."""
        found = [await self._gate.on_record(f"{key}:{number}") for number in range(count)]
        return [request for request in found if request is not None]

    async def _put(self, one: Wanted, key: str) -> tuple[Request, Proposal | None]:
        if one.is_call:
            said, claim = shortened(one.description, LONGEST), dict[str, Any]()
            if one.description:
                claim["why"] = one.description
            proposal = await self._gate.propose(
                one.name, one.args or {}, description=said, schema=_schema(one),
                insists=INSISTS if one.hears_words else f"{INSISTS}; it hears yes or no, and no words",
                key=key, **claim,
            )  # fmt: skip
            assert proposal.request is not None  # noqa: S101  what is insisted on is on record
            return proposal.request, proposal
        found = [Fact("answer", how, how)] if (how := passed_on(one)) else []
        request = await self._gate.question(
            one.question, choices=one.choices, schema=one.schema, time=None, found=found, shown=dict(one.shown), key=key
        )
        return request, None

    async def _said(self, one: Wanted, request: Request, proposal: Proposal | None) -> Said:
        """What a person decided; a call that is handed back to the program is used up."""
        try:
            if proposal is None:
                value = meant(one, await self._gate.heard(request))
                return Said("respond", text=as_text(value), value=value)
            args = request.candidate.args_text
            if not proposal.is_done:
                async with proposal.execution() as running:
                    args, running.result = canonical(running.args), "handed to the program, which goes on with it"
        except Denied as denied:
            if denied.stop:
                raise
            return Said("reject", text=str(denied))
        changed = args != request.ask.candidate.args_text and request.word in ("modify", "choose")
        return Said("edit", args=restore(args)) if changed else Said("approve")


def _schema(one: Wanted) -> dict[str, Json] | None:
    """What the program does not let a person change is held fast."""
    told = {} if one.hears_words else {NO_DRAFTS: True}
    if "edit" in one.decisions:
        return told or None
    fixed = {name: {"const": value} for name, value in (one.args or {}).items()}
    return {"type": "object", "properties": fixed, "additionalProperties": False, **told}
