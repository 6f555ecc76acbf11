"""Assent: the human checkpoint for AI agents. Agents act. Humans assent."""

from assent.assemble import open
from assent.blocking import BlockingGate
from assent.core.action import Declaration, Effect, Fact, Reach, Risk
from assent.engine.execution import Done, idempotency_key
from assent.engine.gate import Gate, Proposal
from assent.engine.inbox import Inbox
from assent.engine.signature import Injected, Secret
from assent.engine.tool import option
from assent.engine.worker import Worker
from assent.errors import (
    ActionFailed,
    AlreadyDecided,
    AssentError,
    Conflict,
    Denied,
    InvalidArguments,
    OutcomeUnknown,
    Parked,
    Refused,
    SentBack,
)

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
    "Effect",
    "Fact",
    "Gate",
    "Inbox",
    "Injected",
    "InvalidArguments",
    "OutcomeUnknown",
    "Parked",
    "Proposal",
    "Reach",
    "Refused",
    "Risk",
    "Secret",
    "SentBack",
    "Worker",
    "idempotency_key",
    "open",
    "option",
]
