"""What an agent wants to know: the question as a request, and the answer it gets."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from uuid_utils.compat import uuid7

from assentry.core.action import Action, Fact, Json
from assentry.core.canonical import canonical, digest, restore
from assentry.core.request import Ask, Kind, Question, Request, State
from assentry.core.secret_text import schema_without_secrets, secret_texts
from assentry.core.text import shortened
from assentry.core.verdict import AtEnd, GateKind, Ladder, Verdict
from assentry.engine.asking import claims, new_code
from assentry.engine.calls import Calls
from assentry.engine.judgement import Context
from assentry.engine.outcomes import refusal
from assentry.engine.sealing import redacted
from assentry.engine.stopping import NOTHING
from assentry.engine.tool import tool
from assentry.errors import InvalidArguments

LONGEST_TITLE = 2_000
NO_GUESS: tuple[Json, ...] = ()


def question(
    calls: Calls,
    context: Context,
    text: str,
    choices: tuple[str, ...],
    schema: Mapping[str, Json] | None,
    guess: tuple[Json, ...],
    time: timedelta | None,
    reviewers: tuple[str, ...],
    found: tuple[Fact, ...] = (),
    shown: Mapping[str, Json] | None = None,
) -> Ask:
    """The question, not yet on record. `guess` holds the declared best guess, if there is one; `found` are facts.

    `shown` is what else whoever asks shows, in full.
    """
    if context.key and not context.run:
        context = replace(context, run=context.agent)
    context = calls.discreet(context, ())
    if not all(type(each) is str for each in (text, *choices)):
        raise InvalidArguments("a question and its choices are texts")
    if guess and secret_texts({"guess": guess[0]}):
        raise InvalidArguments("the best guess contains what looks like a secret, and it would be stored")
    schema = schema_without_secrets(schema) if schema is not None else None
    text, options = redacted(calls.vault, text), tuple(redacted(calls.vault, list(choices)))
    verdict = Verdict(
        GateKind.ASK, "question", "the agent needs an answer", reviewers=reviewers,
        ladder=Ladder(limit=time, at_end=AtEnd.PROCEED if guess else AtEnd.DENY),
        policy_version=calls.judgement.policy.version,
    )  # fmt: skip
    asked = tool("question", description="", declared=NOTHING)
    beside = {"shown": redacted(calls.vault, restore(canonical(shown)))} if shown else {}
    action = Action("question", {"question": text, "choices": list(options), **beside}, context.agent)
    assessment = calls.judgement.judged(asked, action.args, context, datetime.now(UTC), found)[1]
    candidate = replace(calls.judgement.candidate(asked, action, assessment, verdict, context), says=_in_one_line(text))
    best = restore(canonical(guess[0])) if guess else None
    terms = canonical([best, bool(guess), str(time), list(reviewers), dict(schema or {})])
    return Ask(
        id=str(uuid7()), code=new_code(), workspace=calls.workspace, kind=Kind.QUESTION, agent=context.agent,
        asked_by=calls.asked_by, created_at=datetime.now(UTC), candidate=candidate, run=context.run, step=context.key,
        question=Question(text, options, schema, best, bool(guess)), claims=claims(context),
        same=digest(calls.asked_by, "question", candidate.content_digest, terms),
    )  # fmt: skip


def _in_one_line(text: str) -> str:
    """The question as a title; its own lines stand below that."""
    return shortened(" ".join(text.split()), LONGEST_TITLE) if "\n" in text or len(text) > LONGEST_TITLE else text


def several(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """What was given, one by one. A single text is refused: it would be taken apart letter by letter."""
    if isinstance(given, str):
        raise InvalidArguments(f"{name} must be a list of texts; write {name}=[...] also for one")
    return tuple(given)


async def answered(calls: Calls, request: Request, patience: float | None) -> Any:
    """The answer to the question; raises where there is none."""
    request = await calls.settled(request, patience)
    if request.state is State.ANSWERED:
        return request.answer
    raise refusal(request)
