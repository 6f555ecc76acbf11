"""What a reviewer must see, as data: facts apart from claims, reasons, options, time left, and exactly what runs.

Every surface draws from this and from nothing else, so no surface can show something that does not run.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from assentry.core.action import Basis, Fact, Json, Risk
from assentry.core.advance import phrase
from assentry.core.canonical import restore
from assentry.core.decision import Candidate, Vote
from assentry.core.declared import who_said
from assentry.core.effect_text import Answer, answers, grounds, undo_answer
from assentry.core.request import STOPS, Kind, Option, Question, Request, Review, State
from assentry.core.text import ago, counted, lookalikes, sentence, span, visible
from assentry.core.verdict import AtEnd, GateKind
from assentry.core.waiting import NOBODY_WAITS

NO_DRAFTS = "x-assentry-no-drafts"
"""Stands in the schema of a call whose program could not use instructions for another draft."""
ALLOWS_NO_CHANGES = "the program that asks allows no changes; approve or deny it as it is"


@dataclass(frozen=True, slots=True)
class OptionLine:
    """One option as shown: what it leads to, exactly what it runs, and whether that can be undone.

    `runs` is false for "cancel".
    """

    number: int
    label: str
    consequence: str
    says: str
    runs: bool
    reversible: bool
    undo: str
    """The same in words, marked where it is a guess."""
    risk: Risk | None
    forbidden: bool
    phrase: str
    action: str = ""
    args: Mapping[str, Json] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One argument that is not as it was asked for."""

    name: str
    before: Json
    after: Json


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything a card shows, in the order in which it matters."""

    id: str
    code: str
    kind: Kind
    state: State
    risk: Risk
    gate: GateKind
    title: str
    agent: str
    asked_by: str
    run: str
    asked_at: datetime
    facts: tuple[Fact, ...]
    effect: tuple[Answer, ...]
    grounds: str
    """Why the effect is thought to be this one; says so where it is guessed."""
    declared: tuple[str, ...]
    """Who declared what of the effect, and whose word does not count."""
    why: tuple[str, ...]
    options: tuple[OptionLine, ...]
    question: Question | None
    abandoned_at: datetime | None
    """Since when nobody is waiting for it any more; then it cannot be approved, only dismissed."""
    ends_at: datetime | None
    time_left: str
    paused: bool
    """Its time stands still."""
    then: str
    needed_by: datetime | None
    if_denied: str
    action: str
    is_stop: bool
    """The run stopped by itself to show something; nothing runs."""
    args: Mapping[str, Json]
    editable: bool
    """There is an argument that a person may change."""
    can_send_back: bool
    """Whoever asks could use instructions for another draft."""
    args_text: str
    digest: str
    secrets: int
    differences: tuple[Difference, ...]
    claims: Mapping[str, Json]
    warnings: tuple[str, ...]
    reviewers: tuple[str, ...]
    needs: int
    votes: tuple[Vote, ...]
    phrase: str
    outcome: str
    on_silence: bool
    """It was let pass because nobody objected, or answered, in time."""
    result: Json
    error: str
    undo_until: datetime | None
    review: Review
    schema: Mapping[str, Json] | None
    policy_version: int

    @property
    def starts_when_seen(self) -> bool:
        """Its time begins once somebody has seen it."""
        waits = self.state is State.PENDING and not self.paused
        return waits and self.ends_at is None and self.gate is GateKind.SOFT

    @property
    def shown(self) -> Mapping[str, Json]:
        """What whoever asks a question shows with it; no surface leaves any of it out."""
        found = self.args.get("shown") if self.question is not None else None
        return found if isinstance(found, Mapping) else {}

    @property
    def heading(self) -> str:
        """What stands over the action and its arguments."""
        if self.is_stop:
            return "What you are shown"
        if self.options and self.state is State.PENDING:
            return "What was asked"
        return "Exactly this runs" if self.state in (State.PENDING, State.APPROVED) else "Exactly this"


_GOES_ON = ("runs nothing itself",)
_STOP_WORDS = {
    **dict.fromkeys(STOPS, _GOES_ON),
    "exception": ("approving tries the step again",),
    "cannot_go_on": ("approving allows it after all",),
}
"""What approving means where a run stopped by itself."""


def _effect(request: Request, *, is_stop: bool) -> tuple[Answer, ...]:
    candidate = request.candidate
    if is_stop:
        return tuple(Answer(says, False, Basis.DECLARED) for says in _STOP_WORDS[candidate.action.name])
    return answers(candidate.action, candidate.assessment) if request.ask.kind is Kind.ACTION else ()


def brief(request: Request, now: datetime, beyond: tuple[str, ...] = ()) -> Briefing:
    """The briefing for `request` as it stands; `beyond` are warnings that only the policy gives rise to."""
    ask, candidate = request.ask, request.candidate
    verdict = candidate.verdict
    manual = verdict.gate is GateKind.MANUAL
    is_stop = _is_stop(candidate)
    is_action = ask.kind is Kind.ACTION
    args = restore(candidate.args_text) if candidate.args_text else {}
    acts = is_action and not is_stop
    facts = () if is_stop else candidate.assessment.facts
    return Briefing(
        id=ask.id,
        code=ask.code,
        kind=ask.kind,
        state=request.state,
        risk=candidate.assessment.risk,
        gate=verdict.gate,
        title=_apart(candidate.says),
        agent=ask.agent,
        asked_by="" if ask.asked_by.startswith("agent:") else ask.asked_by,
        run=ask.run,
        asked_at=ask.created_at,
        facts=tuple(replace(fact, says=_apart(fact.says)) for fact in facts),
        effect=_effect(request, is_stop=is_stop),
        declared=() if is_stop or not is_action else tuple(map(_apart, who_said(candidate.assessment.words))),
        grounds=visible(grounds(candidate.action, candidate.assessment), lines=False) if acts else "",
        why=_why(candidate),
        options=tuple(_line(number, option) for number, option in enumerate(ask.options)),
        question=ask.question,
        abandoned_at=request.abandoned_at,
        ends_at=request.ends_at if request.frozen_at is None and request.abandoned_at is None else None,
        time_left=_time_left(request, now),
        paused=request.state is State.PENDING and request.frozen_at is not None,
        then=_then(request),
        needed_by=ask.needed_by,
        if_denied=ask.if_denied,
        action=candidate.action.name,
        is_stop=is_stop,
        args=args,
        editable=is_action and any(not fixed for fixed in _held_fast(request, args).values()),
        can_send_back=is_action and not (is_stop and candidate.action.name == "sample") and uses_drafts(request),
        args_text=candidate.args_text,
        digest=request.shown_digest,
        secrets=len(request.sealed),
        differences=_differences(request),
        claims=ask.claims,
        warnings=(*beyond, *_warnings(request)),
        reviewers=(*verdict.reviewers, *request.told) if verdict.reviewers else (),
        needs=verdict.quorum.count,
        votes=request.votes,
        phrase=phrase(candidate) if manual else "",
        outcome=_outcome(request, now),
        on_silence=_on_silence(request),
        result=restore(request.result_text) if request.result_text else None,
        error=request.error,
        undo_until=request.undo_until if request.state is State.DONE else None,
        review=request.review,
        schema=candidate.action.schema,
        policy_version=verdict.policy_version,
    )


def allows_changes(request: Request) -> bool:
    """Not everything is held fast by the schema; what is secret stays as it is anyway."""
    held = _held_fast(request, request.candidate.action.args)
    return not all(held.values()) or "const" not in held.values()


def uses_drafts(request: Request) -> bool:
    """The program that asks hears what the next draft should be like."""
    return (request.candidate.action.schema or {}).get(NO_DRAFTS) is not True


def _held_fast(request: Request, args: Mapping[str, Json]) -> dict[str, str]:
    """What holds each argument as it is that there is or could be: const, a secret, or nothing."""
    found = (request.candidate.action.schema or {}).get("properties")
    properties = found if isinstance(found, Mapping) else {}

    def held(name: str) -> str:
        if _has_mark(args.get(name), request.sealed):
            return "secret"
        about = properties.get(name)
        return "const" if name in args and isinstance(about, Mapping) and "const" in about else ""

    return {name: held(name) for name in (*args, *properties)}


def _has_mark(value: Json, marks: Collection[str]) -> bool:
    if not marks:
        return False
    if isinstance(value, str):
        return any(mark in value for mark in marks)
    if isinstance(value, Mapping):
        return any(_has_mark(name, marks) or _has_mark(item, marks) for name, item in value.items())
    return isinstance(value, list) and any(_has_mark(item, marks) for item in value)


def _apart(text: str) -> str:
    """`text` on one line and without the mark that surfaces put between facts, so that it cannot pose as several."""
    return visible(text, lines=False).replace("·", "⟨U+00B7⟩")


def _is_stop(candidate: Candidate) -> bool:
    """Only a run that stops by itself has a trigger of such a name."""
    name = candidate.action.name
    return name in STOPS and name in {each.name for each in candidate.verdict.triggers}


def _why(candidate: Candidate) -> tuple[str, ...]:
    verdict = candidate.verdict
    # That critical actions wait is what the default says already.
    plain = verdict.by_default
    fired = [each.says for each in verdict.triggers if not (plain and each.name == "critical")]
    said = [verdict.because.strip(), *fired]
    return tuple(dict.fromkeys(visible(sentence(each), lines=False) for each in said if each))


def _line(number: int, option: Option) -> OptionLine:
    label, consequence, candidate = option.label, option.consequence, option.candidate
    if candidate is None:
        return OptionLine(number, label, consequence, "", False, True, "", None, False, "")
    manual = candidate.verdict.gate is GateKind.MANUAL
    return OptionLine(
        number=number,
        label=label,
        consequence=consequence,
        says=candidate.says,
        runs=True,
        reversible=candidate.assessment.effect.reversible,
        undo=undo_answer(candidate.action, candidate.assessment).words,
        risk=candidate.assessment.risk,
        forbidden=candidate.verdict.gate is GateKind.FORBID,
        phrase=phrase(candidate) if manual else "",
        action=candidate.action.name,
        args=restore(candidate.args_text) if candidate.args_text else {},
        digest=candidate.permit_digest,
    )


def _time_left(request: Request, now: datetime) -> str:
    if request.state is not State.PENDING:
        return ""
    if request.abandoned_at is not None:
        return "nobody is waiting"
    if request.frozen_at is not None:
        return "stands still while its run is paused"
    if request.ends_at is not None:
        return span(request.ends_at - now)
    if request.candidate.verdict.gate is GateKind.SOFT:
        return "starts when somebody has seen it"
    return "no limit"


def _then(request: Request) -> str:
    if request.state is State.PENDING and request.abandoned_at is not None:
        return "dismiss it"
    ladder = request.candidate.verdict.ladder
    endless = request.frozen_at is not None or (ladder.limit is None and request.ends_at is None)
    if request.state is not State.PENDING or endless:
        return "waits until somebody decides" if request.state is State.PENDING else ""
    if ladder.at_end is AtEnd.PROCEED and _is_stop(request.candidate):
        return "goes on unless somebody objects"
    if ladder.at_end is AtEnd.PROCEED:
        question = request.ask.question
        return "goes on with the best guess" if question is not None else "runs unless somebody objects"
    return "stays parked" if ladder.at_end is AtEnd.STAY else "denied"


def _differences(request: Request) -> tuple[Difference, ...]:
    asked, now = request.ask.candidate, request.candidate
    if asked.permit_digest == now.permit_digest or not asked.args_text or not now.args_text:
        return ()
    before, after = restore(asked.args_text), restore(now.args_text)
    names = sorted(before.keys() | after.keys())
    changed = [Difference(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]
    if asked.action.name != now.action.name:
        changed.insert(0, Difference("action", asked.action.name, now.action.name))
    return tuple(changed)


def _warnings(request: Request) -> tuple[str, ...]:
    found = []
    candidate = request.candidate
    if request.abandoned_at is not None and request.state is State.PENDING:
        found.append(
            f"{NOBODY_WAITS}: its caller is gone, so it cannot be approved; deny it without a reason to dismiss it"
        )
    if candidate.verdict.observed is not None:
        found.append(f"OBSERVE MODE: nothing is held; this would have been {candidate.verdict.observed}")
    if request.changes and request.state is not State.PENDING:
        found.append(
            "it went ahead although things had changed since: " + "; ".join(_apart(each) for each in request.changes)
        )
    words = lookalikes(candidate.args_text)
    if words:
        found.append("text mixes letters that look alike: " + visible(", ".join(words[:3])[:80], lines=False))
    if candidate.args_text and _hides(restore(candidate.args_text)):
        found.append("text contains invisible or control characters; they are spelled out")
    if request.sealed:
        found.append(f"{counted(len(request.sealed), 'secret part')} hidden; what cannot be seen here will run")
    if request.purged:
        found.append("the payload was purged after its retention; the log still proves what was decided")
    return tuple(found)


def _hides(value: Json) -> bool:
    """Some text in `value`, a name or a value, holds what would not be seen. Line breaks and tabs are seen."""
    if isinstance(value, str):
        return visible(value) != value
    if isinstance(value, Mapping):
        return any(_hides(name) or _hides(item) for name, item in value.items())
    return isinstance(value, list) and any(_hides(item) for item in value)


def _on_silence(request: Request) -> bool:
    return request.word == "silence" and request.state not in (State.PENDING, State.EXPIRED)


def _outcome(request: Request, now: datetime) -> str:
    if request.state is State.PENDING:
        return ""
    when = f" {ago(now - request.decided_at)}" if request.decided_at else ""
    if request.word == "silence":
        how = "WENT AHEAD ON SILENCE" if _on_silence(request) else "nobody answered"
        return f"{request.state}: {how}{when}" + (f": {request.reason}" if request.reason else "")
    by = "policy" if request.word == "policy" else request.decided_by
    told = f"{request.word or 'ran'} by {by}{when}" if by else f"ran without waiting ({request.candidate.verdict.rule})"
    return f"{request.state}: {told}" + (f": {request.reason}" if request.reason else "")
