"""Who or what let a call run: a person, a rule, a grant, or nobody but a default."""

from enum import StrEnum

from assentry.core.action import Assessment
from assentry.core.request import Request
from assentry.core.verdict import Verdict


class LetBy(StrEnum):
    """Why a call may run."""

    PERSON = "person"
    RULE = "rule"
    """A rule of the policy speaks of it."""
    GRANT = "grant"
    READ = "read"
    """No rule speaks of it, and it only reads."""
    WATCH = "watch"
    """No rule speaks of it; it runs because nothing holds it, and is on record."""

    @property
    def is_meant(self) -> bool:
        """A person or an operator said of this very kind of call that it may run."""
        return self in (LetBy.PERSON, LetBy.RULE, LetBy.GRANT)


_PEOPLE = frozenset({"approve", "modify", "choose"})
_NO_RULE = frozenset({"", "scope"})


def let_by(verdict: Verdict, assessment: Assessment) -> LetBy:
    """What lets a call run that nobody decides about."""
    if verdict.observed is not None:
        return LetBy.WATCH  # it would have been held
    if verdict.grant is not None:
        return LetBy.GRANT
    if not verdict.by_default and verdict.rule not in _NO_RULE:
        return LetBy.RULE
    return LetBy.READ if assessment.effect.is_read else LetBy.WATCH


def request_let_by(request: Request) -> LetBy | None:
    """Who or what let the request's call run; nothing while it waits, or where it may not."""
    if request.permit is None:
        return None
    candidate = request.candidate
    return LetBy.PERSON if request.word in _PEOPLE else let_by(candidate.verdict, candidate.assessment)
