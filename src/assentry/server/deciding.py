"""A decision from a page or from the API: one way for both, with what is critical asked for once more."""

from collections.abc import Mapping
from dataclasses import dataclass

from assentry.core.action import Json
from assentry.core.request import Request, State
from assentry.core.verdict import GateKind
from assentry.errors import InvalidDecision
from assentry.server.problems import Problem
from assentry.server.proofs import has_proved, means_of
from assentry.server.visitors import Visitor


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said about a request, and what they had before them."""

    word: str
    seen_digest: str = ""
    seen_version: str = ""
    """Where given, nothing at all may have happened to it since."""
    confirm: str = ""
    note: str = ""
    reason: str = ""
    stop: bool = False
    instructions: str = ""
    args: Mapping[str, Json] | None = None
    option: int | None = None
    """From 0."""
    answer: Json = None


async def decide(visitor: Visitor, request: Request, said: Said) -> Request:
    """The decision is committed, or the error says why not."""
    inbox, by = visitor.room.desk.inbox, visitor.principal
    shown = {
        "seen_digest": said.seen_digest,
        "seen_version": said.seen_version,
        "confirm": said.confirm,
        "surface": visitor.surface,
    }
    if request.state is State.PENDING and not said.seen_digest and said.word != "deny":
        raise InvalidDecision("say what was shown: seen_digest is the digest of the card that was decided on")
    await _proved(visitor, request, said)
    match said.word:
        case "approve":
            return await inbox.approve(by, request.id, note=said.note, **shown)
        case "deny":
            return await inbox.deny(by, request.id, said.reason, stop=said.stop, **shown)
        case "revise":
            return await inbox.revise(by, request.id, said.instructions, **shown)
        case "modify" if said.args is not None:
            return await inbox.modify(by, request.id, said.args, note=said.note, **shown)
        case "choose" if said.option is not None:
            return await inbox.choose(by, request.id, said.option, note=said.note, **shown)
        case "answer":
            return await inbox.answer(by, request.id, said.answer, note=said.note, **shown)
        case word:
            raise InvalidDecision(f"{word} needs more: modify takes args, choose takes an option")


async def _proved(visitor: Visitor, request: Request, said: Said) -> None:
    """Who lets something critical pass has just proved who they are, where they have anything to prove it with."""
    if request.state is not State.PENDING or not _is_manual(visitor, request, said):
        return
    now = await visitor.room.desk.store.now()
    if not has_proved(visitor, now) and await means_of(visitor):
        elsewhere = f"; in a terminal, `assentry login URL --name {visitor.principal.name}` does that for a password"
        told = (
            f"this is critical: prove once more who you are, then decide{'' if visitor.surface == 'web' else elsewhere}"
        )
        raise Problem(403, told, {"step_up": "/prove", "back": f"/r/{request.code}"})


def _is_manual(visitor: Visitor, request: Request, said: Said) -> bool:
    """What was asked for, or what is to run instead, is for a person who confirms it by hand."""
    inbox = visitor.room.desk.inbox
    match said.word:
        case "approve":
            instead = None
        case "modify" if said.args is not None:
            instead = inbox.changed(request, said.args)
        case "choose" if said.option is not None:
            instead = inbox.chosen(request, said.option)
        case _:
            return False
    gates = [each.verdict.gate for each in (request.candidate, instead) if each is not None]
    return GateKind.MANUAL in gates
