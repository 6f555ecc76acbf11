"""The audit log: entries, the Merkle tree over them (RFC 6962), and what a verifier checks.

An entry holds digests and names, never payloads, so payloads can be purged without breaking a proof.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from assent.core.action import Json
from assent.core.canonical import canonical


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit log: what happened, to what, when, and by whom."""

    kind: str
    at: datetime
    workspace: str
    subject: str
    """The id of the request, grant, policy version … that this is about."""
    actor: str
    body: Mapping[str, Json] = field(default_factory=dict)

    def text(self) -> str:
        """The canonical bytes that are hashed, stored and exported."""
        return canonical(
            {
                "v": 1,
                "kind": self.kind,
                "at": self.at.isoformat(),
                "workspace": self.workspace,
                "subject": self.subject,
                "actor": self.actor,
                "body": self.body,
            }
        )
