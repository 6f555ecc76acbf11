"""What an agent is told of its requests and runs."""

from dataclasses import asdict
from typing import Any

from assentry.core.action import Json
from assentry.core.canonical import restore
from assentry.core.request import Kind, Request, State
from assentry.core.run import Run
from assentry.engine.outcomes import refusal
from assentry.engine.sealing import unsealed
from assentry.ports import Vault
from assentry.telling.plain import plain_json
from assentry.telling.run_documents import run_document

_ENDED_WELL = (State.DONE, State.UNDO_ASKED, State.UNDOING, State.UNDONE)


def proposal_document(request: Request, ignored: tuple[str, ...] = ()) -> dict[str, Json]:
    """The request for the agent that asked: what it may do, what was said, and what came of it."""
    candidate, ask = request.candidate, request.ask
    verdict, effect = candidate.verdict, candidate.assessment.effect
    made = {
        "id": request.id, "code": request.code, "kind": ask.kind, "state": request.state, "version": request.version,
        "may_run": request.state is State.APPROVED, "waits": request.state is State.PENDING, "told": told(request),
        "action": candidate.action.name, "args": restore(candidate.args_text) if candidate.args_text else {},
        "args_text": candidate.args_text, "says": candidate.says, "run": ask.run, "key": ask.step, "agent": ask.agent,
        "workspace": ask.workspace, "asked_by": ask.asked_by,
        "gate": verdict.gate, "because": verdict.because, "triggers": [each.says for each in verdict.triggers],
        "policy_version": verdict.policy_version, "risk": candidate.assessment.risk,
        "effect": {
            "reversible": effect.reversible, "reach": effect.reach, "outside": effect.outside, "money": effect.money,
        },
        "digest": candidate.permit_digest, "content_digest": candidate.content_digest,
        "permit": None if request.permit is None else asdict(request.permit),
        "options": [{"label": each.label, "consequence": each.consequence} for each in ask.options],
        "chosen": request.chosen, "decided_by": request.decided_by, "word": request.word, "reason": request.reason,
        "stop": request.stop, "answer": request.answer, "if_denied": ask.if_denied, "changes": list(request.changes),
        "result": restore(request.result_text) if request.result_text else None, "result_text": request.result_text,
        "error": request.error, "asked_at": ask.created_at, "changed_at": request.changed_at,
        "decided_at": request.decided_at, "ends_at": request.ends_at, "needed_by": ask.needed_by,
        "callers": list(request.callers), "abandoned_at": request.abandoned_at,
        "finished_at": request.finished_at, "idempotency_key": request.idempotency_key, "ignored": list(ignored),
    }  # fmt: skip
    return plain_json(made)  # type: ignore[no-any-return]


def at_once_document(action: str, args: Json, ignored: tuple[str, ...] = ()) -> dict[str, Json]:
    """A call that simply runs: there is nothing to wait for and nothing to report."""
    return {
        "id": "", "code": "", "kind": "action", "state": "allowed", "version": 0, "may_run": True, "waits": False,
        "told": "it may run at once; nothing has to be reported", "action": action, "args": args, "gate": "run",
        "ignored": list(ignored),
    }  # fmt: skip


def begun_document(request: Request, vault: Vault, lease: float) -> dict[str, Any]:
    """What the agent needs to act: exactly what was approved, secrets put back, and the fence to report under.

    The secrets are those that this very agent gave when it proposed.
    """
    args = restore(request.candidate.args_text)
    return {
        **proposal_document(request),
        "args": plain_json(unsealed(vault, request.id, args, request.sealed)),
        "secrets": {mark: vault.unseal(request.id, sealed) for mark, sealed in request.sealed.items()},
        "fence": request.fence, "lease_seconds": lease,
    }  # fmt: skip


def agent_run_document(run: Run, **more: Json) -> dict[str, Json]:
    """The run for the agent whose it is."""
    made = {**run_document(run), "version": run.version, "workspace": run.workspace, "due": run.due_at, **more}
    return plain_json(made)  # type: ignore[no-any-return]


def told(request: Request) -> str:
    """How it stands and what to do next, in words for the agent."""
    match request.state:
        case State.PENDING:
            return "it waits for a person; wait for its outcome"
        case State.APPROVED:
            return "it may run: begin it, carry out exactly its args, then finish it or report that it failed"
        case State.RUNNING:
            return "it was begun; whoever began it reports how it ended"
        case State.ANSWERED:
            return f"{request.decided_by or 'nobody'} answered" + (f": {request.reason}" if request.reason else "")
        case State.UNKNOWN:
            return "it was begun and its end was never reported; a person looks and reconciles it, do not repeat it"
        case State.FAILED:
            return "it was carried out and failed"
        case state if state in _ENDED_WELL:
            return "it was carried out"
        case _ if request.ask.kind is Kind.QUESTION:
            return f"there is no answer: {request.reason}"
        case _:
            return str(refusal(request))
