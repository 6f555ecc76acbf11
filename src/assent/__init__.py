"""Assent: the human checkpoint for AI agents. Agents act. Humans assent.

Names are loaded when they are first used, so that a command that needs few of them starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assent.assemble import open
    from assent.blocking import BlockingGate
    from assent.core.action import Declaration, Effect, Fact, Reach, Risk
    from assent.engine.execution import Done, idempotency_key
    from assent.engine.gate import Gate
    from assent.engine.inbox import Inbox
    from assent.engine.proposal import Proposal
    from assent.engine.runs import Draft, current_run
    from assent.engine.signature import Injected, Secret
    from assent.engine.tool import option
    from assent.engine.worker import Worker
    from assent.errors import (
        ActionFailed,
        AlreadyDecided,
        AssentError,
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
    from assent.remote.gate import connect

__version__ = "0.1.0"

__all__ = [
    "ActionFailed",
    "AlreadyDecided",
    "AssentError",
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
    "ActionFailed": "assent.errors",
    "AlreadyDecided": "assent.errors",
    "AssentError": "assent.errors",
    "BlockingGate": "assent.blocking",
    "Conflict": "assent.errors",
    "Declaration": "assent.core.action",
    "Denied": "assent.errors",
    "Done": "assent.engine.execution",
    "Draft": "assent.engine.runs",
    "Effect": "assent.core.action",
    "Fact": "assent.core.action",
    "Gate": "assent.engine.gate",
    "Inbox": "assent.engine.inbox",
    "Injected": "assent.engine.signature",
    "Interrupt": "assent.errors",
    "InvalidArguments": "assent.errors",
    "Limited": "assent.errors",
    "OutcomeUnknown": "assent.errors",
    "Parked": "assent.errors",
    "Proposal": "assent.engine.proposal",
    "Reach": "assent.core.action",
    "Refused": "assent.errors",
    "Risk": "assent.core.action",
    "RunPaused": "assent.errors",
    "RunStopped": "assent.errors",
    "Secret": "assent.engine.signature",
    "SentBack": "assent.errors",
    "Unreachable": "assent.errors",
    "Worker": "assent.engine.worker",
    "connect": "assent.remote.gate",
    "current_run": "assent.engine.runs",
    "idempotency_key": "assent.engine.execution",
    "open": "assent.assemble",
    "option": "assent.engine.tool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assent' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
