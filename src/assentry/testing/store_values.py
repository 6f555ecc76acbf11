"""Requests, grants and steps for the store contract: small ones, and one with everything set."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from assentry.core.action import Action, Assessment, Basis, Declaration, Effect, Fact, Reach, Risk
from assentry.core.audit import Entry
from assentry.core.canonical import canonical, digest
from assentry.core.change import Change
from assentry.core.decision import Candidate, Vote
from assentry.core.grant import Grant
from assentry.core.request import Ask, Executor, Kind, Option, Permit, Question, Request, Review, State
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum, Rung, Trigger, Verdict
from assentry.ports import Step, View

LONG_AGO = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
WORKSPACE = "main"


def identifier(number: int) -> str:
    """An id that sorts by `number`, as a uuid7 sorts by time."""
    time = f"{number:012x}"
    return f"{time[:8]}-{time[8:]}-7000-8000-000000000000"


def candidate(
    name: str = "delete_files",
    args: dict[str, Any] | None = None,
    *,
    risk: Risk = Risk.DANGEROUS,
    gate: GateKind = GateKind.HARD,
    says: str = "Delete 3 files",
) -> Candidate:
    """What would run."""
    given = {"pattern": "*.tmp"} if args is None else args
    text = canonical(given)
    return Candidate(
        action=Action(name, given, agent="cleanup"),
        args_text=text,
        content_digest=digest(name, text),
        permit_digest=digest(name, text, "cleanup"),
        assessment=Assessment(Effect(reversible=False, reach=Reach.LOCAL), risk, Basis.DECLARED),
        verdict=Verdict(gate, "a rule", "it deletes"),
        says=says,
    )


def asked(number: int, *, workspace: str = WORKSPACE, shown: Candidate | None = None, **more: Any) -> Ask:
    """The ask of request `number`, for something that no other number asks for."""
    shown = candidate() if shown is None else shown
    given: dict[str, Any] = {
        "id": identifier(number),
        "code": f"K{number:05d}",
        "workspace": workspace,
        "kind": Kind.ACTION,
        "agent": "cleanup",
        "asked_by": "alice",
        "created_at": LONG_AGO + timedelta(seconds=number),
        "candidate": replace(shown, content_digest=digest(shown.content_digest, str(number))),
    }
    return Ask(**{**given, **more})


def pending(ask: Ask, **more: Any) -> Request:
    """A request nobody has decided."""
    given: dict[str, Any] = {
        "ask": ask,
        "state": State.PENDING,
        "version": 1,
        "changed_at": ask.created_at,
        "candidate": ask.candidate,
    }
    return Request(**{**given, **more})


def entry(request: Request, kind: str, at: datetime, **body: Any) -> Entry:
    """An entry about `request`."""
    return Entry(kind, at, request.workspace, request.id, "tester", {"version": request.version, **body})


def inserted(request: Request) -> Step:
    """The step that inserts `request`."""
    return lambda view: Change(request, (entry(request, "request.asked", view.now),), new=True)


def moved(**changes: Any) -> Step:
    """The step that gives the current request these values."""
    return advanced(lambda request, _: replace(request, **changes))


def advanced(change: Callable[[Request, datetime], Request]) -> Step:
    """The step that makes `change` to whatever is there."""

    def step(view: View) -> Change:
        assert view.request is not None
        new = replace(change(view.request, view.now), version=view.request.version + 1, changed_at=view.now)
        return Change(new, (entry(new, "request.moved", view.now),))

    return step


def grant(number: int, **more: Any) -> Grant:
    """A standing permission that nobody has used."""
    given: dict[str, Any] = {
        "id": f"grant-{number:04d}",
        "workspace": WORKSPACE,
        "actions": ("delete_*",),
        "expires_at": datetime(2100, 1, 1, tzinfo=UTC),
        "granted_by": "alice",
    }
    return Grant(**{**given, **more})


def grants_step(*grants: Grant, kind: str = "grant.made") -> Step:
    """The step that writes these grants."""

    def step(view: View) -> Change:
        entries = tuple(Entry(kind, view.now, g.workspace, g.id, "alice") for g in grants)
        return Change(grants=grants, entries=entries)

    return step


def everything(number: int = 1) -> Request:
    """A request in which no field has its default."""
    at = LONG_AGO
    given = {
        "number": 1.5,
        "big": 2**70,
        "exact": Decimal("12.30"),
        "deep": [{"a": [None, True, -0.5, "ü\u2028\U0001f600\0"]}],
        "$tag": {"$int": "not a tag"},
        "": "",
    }
    full = Candidate(
        action=Action(
            name="send ✉",
            args=given,
            agent="cleanup",
            description="Sends",
            schema={"type": "object", "properties": {"to": {"$ref": "#/x"}}},
            declared=Declaration(
                reversible=False, reach=Reach.ORGANISATION, outside=True, money=True, risk=Risk.CRITICAL
            ),
            trusted=False,
            why="because",
            goal="a goal",
            confidence=0.25,
            cost=12.5,
            alternatives=("wait", "ask"),
        ),
        args_text=canonical(given),
        content_digest="c" * 64,
        permit_digest="p" * 64,
        assessment=Assessment(
            Effect(reversible=False, reach=Reach.ORGANISATION, outside=True, money=True),
            Risk.CRITICAL,
            Basis.CATALOGUE,
            reasons=("it leaves us", "it costs"),
            facts=(Fact("amount", 12.5, "12.50 EUR", hurts=True, looked_up=True), Fact("to", ["a", "b"], "2 people")),
        ),
        verdict=Verdict(
            gate=GateKind.MANUAL,
            rule="payments",
            because="money leaves us",
            triggers=(Trigger("budget", "over budget", GateKind.HARD),),
            reviewers=("alice", "role:manager"),
            quorum=Quorum(2, ("manager",)),
            ladder=Ladder(
                rungs=(
                    Rung(timedelta(minutes=15), remind=True),
                    Rung(timedelta(hours=1), tell=("bob",), rota=("c", "d")),
                ),
                loops=2,
                limit=timedelta(days=3, microseconds=7),
                at_end=AtEnd.STAY,
            ),
            undo_window=timedelta(minutes=5),
            review_after=True,
            observed=GateKind.HARD,
            grant="grant-1",
            policy_version=7,
        ),
        says="Pay 12.50 EUR to two people",
    )
    ask = Ask(
        id=identifier(number),
        code=f"FULL{number}",
        workspace=WORKSPACE,
        kind=Kind.QUESTION,
        agent="cleanup",
        asked_by="alice",
        created_at=at,
        candidate=full,
        run="run-1",
        step="step-1",
        executor=Executor.WORKER,
        options=(
            Option("pay half", "half is paid", candidate("pay", {"amount": 6})),
            Option("cancel", "nothing", None),
        ),
        question=Question("Which?", ("a", "b"), {"type": "string"}, best_guess={"x": [1]}, has_best_guess=True),
        if_denied="try later",
        needed_by=at + timedelta(days=1),
        can_undo=True,
        can_verify=True,
        idempotent=True,
        claims={"why": "because", "nested": {"a": [1, 2.5, None]}},
        draft_of=identifier(0),
        same="the same",
    )
    return Request(
        ask=ask,
        state=State.APPROVED,
        version=1,
        changed_at=at + timedelta(seconds=1),
        candidate=candidate("send ✉", {"to": ["x"]}, says="Pay less"),
        due_at=at + timedelta(days=40_000),
        ends_at=at + timedelta(hours=2),
        rung=3,
        told=("carol",),
        seen_at=at,
        votes=(Vote("alice", "modify", at, "d" * 64, ("manager",), "less, please", "web"),),
        decided_by="alice",
        decided_at=at,
        word="modify",
        reason="cheaper",
        answer={"value": [1, None, "ü"]},
        chosen=1,
        stop=True,
        permit=Permit("d" * 64, 7, at, at + timedelta(days=7), at),
        fence=4,
        worker="worker-1",
        result_text='{"ok":true}',
        error="none",
        finished_at=at,
        undo_until=at + timedelta(minutes=30),
        round=2,
        callers=("worker-1",),
        abandoned_at=at + timedelta(minutes=2),
        looked_at=at + timedelta(minutes=1),
        changes=("47 → 52 instances",),
        review=Review.OPEN,
        frozen_at=LONG_AGO,
        frozen=timedelta(minutes=5),
        sealed={"password": "sealed"},
    )
