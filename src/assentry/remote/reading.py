"""What a server tells, as the values that a local gate works with."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from assentry.core.action import Action, Assessment, Basis, Effect, Json, Reach, Risk
from assentry.core.canonical import canonical, digest, restore
from assentry.core.decision import Candidate
from assentry.core.request import Ask, Kind, Option, Permit, Request, State
from assentry.core.run import Observation, PlanStep, Run, RunState, Scope
from assentry.core.verdict import GateKind, Verdict

_NOTHING_KNOWN = Effect(reversible=False, reach=Reach.SERVICE)

Told = Mapping[str, Any]


def request_in(told: Told) -> Request:
    """The request that a server tells of. Secrets are there, in the clear, once it was begun here."""
    effect = told["effect"]
    assessment = Assessment(
        Effect(effect["reversible"], Reach(effect["reach"]), effect["outside"], effect["money"]), Risk(told["risk"]),
        Basis.DECLARED,
    )  # fmt: skip
    verdict = Verdict(GateKind(told["gate"]), "", told["because"], policy_version=told["policy_version"])
    args = restore(told["args_text"]) if told["args_text"] else {}
    candidate = Candidate(
        Action(told["action"], args, told["agent"]), told["args_text"], told["content_digest"], told["digest"],
        assessment, verdict, told["says"],
    )  # fmt: skip
    ask = Ask(
        id=told["id"], code=told["code"], workspace=told["workspace"], kind=Kind(told["kind"]), agent=told["agent"],
        asked_by=told["asked_by"], created_at=_at(told["asked_at"]), candidate=candidate, run=told["run"],
        step=told["key"], options=tuple(Option(each["label"], each["consequence"], None) for each in told["options"]),
        if_denied=told["if_denied"],
    )  # fmt: skip
    return Request(
        ask=ask, state=State(told["state"]), version=told["version"], changed_at=_at(told["changed_at"]),
        candidate=candidate, decided_by=told["decided_by"], word=told["word"], reason=told["reason"],
        answer=told["answer"], chosen=told["chosen"], stop=told["stop"], permit=_permit(told["permit"]),
        fence=told.get("fence", 0), result_text=told["result_text"], error=told["error"],
        changes=tuple(told["changes"]), sealed=told.get("secrets", {}), callers=tuple(told["callers"]),
        abandoned_at=_at(told["abandoned_at"]) if told["abandoned_at"] else None,
    )  # fmt: skip


def at_once(prepared: Any, workspace: str, state: State) -> Request:
    """A call that simply runs, as a request that is on no record."""
    now, text = datetime.now(UTC), canonical(prepared.args)
    content = digest(prepared.action.name, prepared.tool.schema_text, text)
    context = prepared.context
    permit = digest(content, workspace, context.agent, context.run, context.key)
    verdict = Verdict(GateKind.RUN, "", "it simply runs")
    candidate = Candidate(
        prepared.action, text, content, permit, Assessment(_NOTHING_KNOWN, Risk.SAFE, Basis.UNKNOWN), verdict, ""
    )
    ask = Ask(
        id="", code="", workspace=workspace, kind=Kind.ACTION, agent=context.agent, asked_by="", created_at=now,
        candidate=candidate, run=context.run, step=context.key,
    )  # fmt: skip
    return Request(
        ask=ask, state=state, version=0, changed_at=now, candidate=candidate, permit=Permit(permit, 0, now, None)
    )


def run_in(told: Told, fence: int) -> Run:
    """The run that a server tells of, under the fence that is known here."""
    scope = told["scope"]
    return Run(
        id=told["id"], code=told["code"], workspace=told["workspace"], agent=told["agent"],
        asked_by=told["asked_by"], created_at=_at(told["began"]), goal=told["goal"], original=told["original"],
        scope=Scope(
            tuple(scope["actions"]), {name: Decimal(most) for name, most in scope["limits"].items()},
            tuple(scope["recipients"]), tuple(scope["paths"]),
        ),
        key=told["key"], parent=told["parent"], state=RunState(told["state"]), version=told["version"],
        changed_at=_at(told["changed"]), due_at=_at(told["due"]) if told["due"] else None, worker=told["worker"],
        fence=fence, waits=tuple(told["waits"]),
        plan=tuple(PlanStep(each["says"], each["done"]) for each in told["plan"]), steps=told["steps"],
        spend=Decimal(told["spend"]), used={name: Decimal(amount) for name, amount in told["used"].items()},
        observations=tuple(Observation(each["source"], each["text"], each["trusted"]) for each in told["observations"]),
        by=told["by"], reason=told["reason"], outcome=told["outcome"], error=told["error"],
    )  # fmt: skip


def _permit(told: Json) -> Permit | None:
    if told is None:
        return None
    expires, used = told["expires_at"], told["used_at"]
    return Permit(
        told["digest"], told["policy_version"], _at(told["issued_at"]), _at(expires) if expires else None,
        _at(used) if used else None,
    )  # fmt: skip


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)
