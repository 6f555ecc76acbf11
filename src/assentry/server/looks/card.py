"""One card, ready to be drawn: the briefing, its values, its background and what this person may do about it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from assentry.core.briefing import Briefing, Difference, OptionLine, brief
from assentry.core.canonical import restore
from assentry.core.request import Kind, Request, Review, State
from assentry.core.run import Run
from assentry.core.text import ago, span
from assentry.server.looks.forms import Field, form_for
from assentry.server.looks.values import Look, Sources, any_folded, arguments, opened, value_look
from assentry.telling.background import Background, Ways, first_parts
from assentry.telling.run_words import decided_words, in_short, scope_words, standing, work_words
from assentry.telling.told import SHAPES, Part, Tone

WAYS = Ways("a", "r", "p", "g", "d", "s", "every round is on the page of the request it revises")

_WORDS = {"safe": "Safe", "risky": "Risky", "dangerous": "Dangerous", "critical": "Critical"}


@dataclass(frozen=True, slots=True)
class Mark:
    """How serious it is: a shape, a word and a class, so that nothing rests on colour alone."""

    shape: str
    word: str
    look: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the run, beside the card."""

    mark: Mark
    code: str
    says: str
    how: str
    tone: str
    here: bool


@dataclass(frozen=True, slots=True)
class OptionLook:
    """An option with exactly what it runs."""

    line: OptionLine
    args: tuple[Look, ...]
    folded: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that is not as it was asked for."""

    name: str
    before: Look
    after: Look


@dataclass(frozen=True, slots=True)
class CardLook:
    """Everything a card shows."""

    card: Briefing
    version: int
    likeness: str
    """Two cards of one request with the same likeness show the same, but for the time that has passed."""
    decided_by: str
    mark: Mark
    args: tuple[Look, ...]
    folded: bool
    whole: bool
    claims: tuple[Look, ...]
    options: tuple[OptionLook, ...]
    changed: tuple[Changed, ...]
    parts: Sequence[Part]
    run: Run | None
    run_words: Mapping[str, str]
    steps: tuple[Step, ...]
    planned: tuple[str, ...]
    before: tuple[str, ...]
    since_last: tuple[Changed, ...]
    last_code: str
    fields: tuple[Field, ...]
    why_not: str
    asked_ago: str
    waited: str
    outcome: str
    result: Look | None
    can_undo: bool
    wants_review: bool
    is_question: bool
    is_pending: bool
    given: int
    may_allow: bool
    alike: int
    """How many others wait that may be decided together with this one."""


def mark_of(card: Briefing) -> Mark:
    """The mark of a card."""
    if card.kind is Kind.QUESTION:
        return Mark("?", "Question", "ask")
    return Mark(SHAPES[card.risk], _WORDS[str(card.risk)], str(card.risk))


def card_look(
    request: Request,
    about: Background,
    now: datetime,
    *,
    why_not: str,
    beyond: tuple[str, ...] = (),
    may_allow: bool = False,
    alike: int = 0,
    steps: Sequence[Request] = (),
    similar: Sequence[Request] = (),
    whole: bool = False,
) -> CardLook:
    """The card of `request` for somebody who may not decide it for the reason `why_not`, if there is one.

    On a `whole` card nothing that runs is folded.
    """
    card = brief(request, now, beyond)
    sources = _sources(about.run, card.asked_at)
    args = arguments(card.args, sources) if card.question is None else opened(arguments(card.shown, sources))
    args = opened(args) if whole else args
    options = tuple(_option(line, whole) for line in card.options)
    last = next((each for each in similar if each.word in ("approve", "modify", "choose")), None)
    return CardLook(
        card=card,
        version=request.version,
        likeness=_likeness(request, why_not),
        decided_by=request.decided_by,
        mark=mark_of(card),
        args=args,
        folded=any_folded(args),
        whole=whole,
        claims=arguments(card.claims),
        options=options,
        changed=tuple(_changed(each) for each in card.differences),
        parts=first_parts(about, now, WAYS, whole=False),
        run=about.run,
        run_words=_run_words(about.run, now),
        steps=tuple(_step(each, now, each.id == request.id) for each in steps),
        planned=tuple(each.says for each in about.run.plan if not each.done)[:6] if about.run is not None else (),
        before=tuple(_before(each, now) for each in similar),
        since_last=_since(last, request),
        last_code=last.code if last is not None else "",
        fields=form_for(request, card.args),
        why_not=why_not,
        asked_ago=ago(now - card.asked_at),
        waited=span(now - card.asked_at),
        outcome=in_short(request, now)[0] if card.outcome else "",
        result=value_look(card.result) if card.result is not None else None,
        can_undo=card.undo_until is not None and card.undo_until > now and request.can_undo,
        wants_review=card.review is Review.OPEN,
        is_question=card.question is not None,
        is_pending=card.state is State.PENDING,
        may_allow=may_allow,
        alike=alike,
        given=sum(vote.word in ("approve", "modify", "choose") for vote in card.votes),
    )


def _likeness(request: Request, why_not: str) -> str:
    """That somebody has seen it changes its version, not what it shows."""
    shows = replace(
        request, version=0, changed_at=request.ask.created_at, seen_at=None, due_at=None, worker="", fence=0
    )
    return hashlib.sha256(f"{shows!r} {why_not}".encode(errors="backslashreplace")).hexdigest()[:16]


def _sources(run: Run | None, asked_at: datetime) -> Sources:
    """Where its values may have come from: only what was there before it was asked."""
    if run is None:
        return Sources()
    # What an agent elsewhere says that somebody said is its word, not theirs.
    original = "" if run.asked_by.startswith("agent:") else run.original
    before = [each for each in run.observations if each.at is not None and each.at < asked_at]
    return Sources(original, tuple((each.source, each.text, each.trusted) for each in before))


def _option(line: OptionLine, whole: bool) -> OptionLook:
    looks = opened(arguments(line.args)) if whole else arguments(line.args)
    return OptionLook(line, looks, any_folded(looks))


def _changed(each: Difference) -> Changed:
    return Changed(each.name, value_look(each.before), value_look(each.after))


def _run_words(run: Run | None, now: datetime) -> dict[str, str]:
    if run is None:
        return {}
    goal = {"goal, it says": run.goal} if run.goal and run.goal != run.original else {}
    stands = standing(run, now, commands=False) or str(run.state)
    return {**goal, "may": scope_words(run), "so far": work_words(run), "now": stands}


def step_mark(request: Request) -> Mark:
    """The mark of a step."""
    if request.ask.kind is Kind.QUESTION:
        return Mark("?", "Question", "ask")
    risk = request.candidate.assessment.risk
    return Mark(SHAPES[risk], _WORDS[str(risk)], str(risk))


def _step(request: Request, now: datetime, here: bool) -> Step:
    how, tone = in_short(request, now)
    return Step(step_mark(request), request.code, request.candidate.says, how, tone_class(tone), here)


def tone_class(tone: Tone) -> str:
    """The class of a tone."""
    return f"tone-{tone.name.lower().replace('_', '-')}"


def _before(request: Request, now: datetime) -> str:
    words, _ = decided_words(request, now)
    when = f", {ago(now - request.decided_at)}" if request.decided_at is not None else ""
    return f"“{request.candidate.says}”: {words}{when}"


def _since(last: Request | None, request: Request) -> tuple[Changed, ...]:
    """What is different from what was last approved for this agent."""
    if last is None or not last.candidate.args_text or not request.candidate.args_text:
        return ()
    old, new = restore(last.candidate.args_text), restore(request.candidate.args_text)
    names = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    return tuple(Changed(name, value_look(old.get(name)), value_look(new.get(name))) for name in names)
