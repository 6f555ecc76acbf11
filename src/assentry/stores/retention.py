"""What remains of a request once its payload is purged: names, digests and times, no content."""

from dataclasses import replace

from assentry.core.action import Action, Assessment
from assentry.core.decision import Candidate
from assentry.core.request import Question, Request


def purged(request: Request) -> Request:
    """`request` without arguments, prose, claims, options, results or secrets; its entries still verify."""
    ask = request.ask
    return replace(
        request,
        ask=replace(
            ask,
            candidate=_stub(ask.candidate),
            options=(),
            question=None if ask.question is None else Question(text=""),
            if_denied="",
            claims={},
            standing=None,
        ),
        version=request.version + 1,
        candidate=_stub(request.candidate),
        votes=tuple(replace(vote, note="") for vote in request.votes),
        reason="",
        answer=None,
        result_text="",
        error="",
        sealed={},
        purged=True,
    )


def _stub(candidate: Candidate) -> Candidate:
    assessment, action = candidate.assessment, candidate.action
    return replace(
        candidate,
        action=Action(name=action.name, args={}, agent=action.agent, declared=action.declared, trusted=action.trusted),
        args_text="",
        assessment=Assessment(assessment.effect, assessment.risk, assessment.basis, words=assessment.words),
        # Triggers are sentences about the arguments.
        verdict=replace(candidate.verdict, triggers=()),
        says="",
    )
