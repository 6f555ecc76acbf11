"""Builders for core values, shared by the core's tests."""

from datetime import UTC, datetime, timedelta

from assentry.core.action import Action, Assessment, Basis, Effect, Fact, Reach
from assentry.core.canonical import canonical, digest
from assentry.core.classify import classify, profile
from assentry.core.decision import Candidate
from assentry.core.declared import Said
from assentry.core.request import Ask, Executor, Kind, Option, Question
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum, Rung, Verdict

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=60)


def classified(action: Action, *, domains=()) -> Assessment:
    """What `action` would do where no policy says anything of it."""
    said = Said(action.declared, source=action.claimed, trusted=action.trusted)
    return classify(profile(action.name, action.description, action.schema, said), action.args, domains=domains)


def candidate(
    gate=GateKind.HARD,
    *,
    args=None,
    reversible=False,
    known=True,
    quorum=Quorum(),
    ladder=Ladder(),
    reviewers=(),
    facts=(),
    **verdict,
) -> Candidate:
    args = {"files": ["a", "b"]} if args is None else args
    effect = Effect(reversible, Reach.LOCAL)
    basis = Basis.DECLARED if known else Basis.UNKNOWN
    text = canonical(args)
    return Candidate(
        action=Action("delete_files", args, "cleanup"),
        args_text=text,
        content_digest=digest("delete_files", text),
        permit_digest=digest("permit", text),
        assessment=Assessment(effect, effect.risk, basis, (), tuple(facts)),
        verdict=Verdict(gate, "rule", "because", quorum=quorum, ladder=ladder, reviewers=reviewers, **verdict),
        says="Delete 2 files",
    )


def ask(what: Candidate | None = None, **more) -> Ask:
    fields = {
        "id": "0190-1", "code": "abcd2345", "workspace": "default", "kind": Kind.ACTION, "agent": "cleanup",
        "asked_by": "root", "created_at": NOON, "candidate": what or candidate(), "run": "r", "step": "s",
    }  # fmt: skip
    return Ask(**{**fields, **more})


__all__ = ["HOUR", "LEASE", "NOON", "AtEnd", "Executor", "Fact", "Option", "Question", "Rung", "ask", "candidate"]
