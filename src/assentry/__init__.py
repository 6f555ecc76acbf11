"""Assentry: the human checkpoint for AI agents. Agents act. Humans assent.

Names are loaded when they are first used, so that a command that needs few of them starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assentry.assemble import open
    from assentry.blocking import BlockingGate
    from assentry.core.action import Declaration, Effect, Fact, Reach, Risk
    from assentry.engine.execution import Done, idempotency_key
    from assentry.engine.gate import Gate
    from assentry.engine.inbox import Inbox
    from assentry.engine.proposal import Proposal
    from assentry.engine.runs import Draft, current_run
    from assentry.engine.signature import Injected, Secret
    from assentry.engine.tool import option
    from assentry.engine.worker import Worker
    from assentry.errors import (
        ActionFailed,
        AlreadyDecided,
        AssentryError,
        Conflict,
        Denied,
        Interrupt,
        InvalidArguments,
        Limited,
        OutcomeUnknown,
        Parked,
        Refused,
        RunPaused,
        RunStopped,
        SentBack,
        Unreachable,
    )
    from assentry.remote.gate import connect

__version__ = "0.1.0"

__all__ = [
    "ActionFailed",
    "AlreadyDecided",
    "AssentryError",
    "BlockingGate",
    "Conflict",
    "Declaration",
    "Denied",
    "Done",
    "Draft",
    "Effect",
    "Fact",
    "Gate",
    "Inbox",
    "Injected",
    "Interrupt",
    "InvalidArguments",
    "Limited",
    "OutcomeUnknown",
    "Parked",
    "Proposal",
    "Reach",
    "Refused",
    "Risk",
    "RunPaused",
    "RunStopped",
    "Secret",
    "SentBack",
    "Unreachable",
    "Worker",
    "connect",
    "current_run",
    "idempotency_key",
    "open",
    "option",
]

_HOMES = {
    "ActionFailed": "assentry.errors",
    "AlreadyDecided": "assentry.errors",
    "AssentryError": "assentry.errors",
    "BlockingGate": "assentry.blocking",
    "Conflict": "assentry.errors",
    "Declaration": "assentry.core.action",
    "Denied": "assentry.errors",
    "Done": "assentry.engine.execution",
    "Draft": "assentry.engine.runs",
    "Effect": "assentry.core.action",
    "Fact": "assentry.core.action",
    "Gate": "assentry.engine.gate",
    "Inbox": "assentry.engine.inbox",
    "Injected": "assentry.engine.signature",
    "Interrupt": "assentry.errors",
    "InvalidArguments": "assentry.errors",
    "Limited": "assentry.errors",
    "OutcomeUnknown": "assentry.errors",
    "Parked": "assentry.errors",
    "Proposal": "assentry.engine.proposal",
    "Reach": "assentry.core.action",
    "Refused": "assentry.errors",
    "Risk": "assentry.core.action",
    "RunPaused": "assentry.errors",
    "RunStopped": "assentry.errors",
    "Secret": "assentry.engine.signature",
    "SentBack": "assentry.errors",
    "Unreachable": "assentry.errors",
    "Worker": "assentry.engine.worker",
    "connect": "assentry.remote.gate",
    "current_run": "assentry.engine.runs",
    "idempotency_key": "assentry.engine.execution",
    "open": "assentry.assemble",
    "option": "assentry.engine.tool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assentry' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
