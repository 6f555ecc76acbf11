"""Runs and their steps for scripts."""

from datetime import timedelta

from assentry.core.action import Json
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.engine.chronicle import Branch


def run_document(run: Run) -> dict[str, Json]:
    """A run for scripts."""
    return {
        "id": run.id, "code": run.code, "state": str(run.state), "agent": run.agent, "goal": run.goal,
        "original": run.original, "asked_by": run.asked_by, "host": run.host, "key": run.key, "parent": run.parent,
        "scope": {
            "actions": list(run.scope.actions), "recipients": list(run.scope.recipients),
            "paths": list(run.scope.paths), "limits": {name: str(most) for name, most in run.scope.limits.items()},
        },
        "used": {name: str(amount) for name, amount in run.used.items()},
        "steps": run.steps, "spend": str(run.spend), "waits": list(run.waits), "worker": run.worker,
        "plan": [{"says": step.says, "done": step.done} for step in run.plan],
        "observations": [
            {"source": each.source, "text": each.text, "trusted": each.trusted} for each in run.observations
        ],
        "began": run.created_at, "changed": run.changed_at, "by": run.by, "reason": run.reason,
        "outcome": run.outcome, "error": run.error,
    }  # fmt: skip


def tree_document(tree: Branch) -> dict[str, Json]:
    """A run's steps, and the runs that worked for it with theirs."""
    return {
        "steps": [step_document(request) for request in tree.steps],
        "earlier_steps": tree.earlier,
        "children": [{**run_document(child.run), **tree_document(child)} for child in tree.children],
        "more_children": tree.more,
    }


def step_document(request: Request) -> dict[str, Json]:
    """A step for scripts."""
    began = request.permit.used_at if request.permit is not None else None
    verdict = request.candidate.verdict
    return {
        "code": request.code, "id": request.id, "run": request.ask.run, "says": request.candidate.says,
        "action": request.candidate.action.name, "risk": str(request.candidate.assessment.risk),
        "gate": str(verdict.gate), "rule": verdict.rule, "because": verdict.because,
        "triggers": [trigger.name for trigger in verdict.triggers], "state": str(request.state),
        "decided_by": request.decided_by, "word": request.word, "reason": request.reason, "stop": request.stop,
        "votes": [{"by": vote.by, "word": vote.word, "at": vote.at, "note": vote.note} for vote in request.votes],
        "cost": request.candidate.action.cost, "asked": request.ask.created_at, "decided": request.decided_at,
        "began": began, "finished": request.finished_at, "draft_of": request.ask.draft_of,
        "waited_seconds": _seconds(request.decided_at - request.ask.created_at if request.decided_at else None),
        "ran_seconds": _seconds(request.finished_at - began if request.finished_at and began else None),
        "error": request.error, "review": request.review.value,
    }  # fmt: skip


def _seconds(duration: timedelta | None) -> float | None:
    return round(duration.total_seconds(), 3) if duration is not None else None
