"""What proves who somebody is: accounts, agents' tokens, sessions, one-time links; and replies kept for a retry.

Only hashes are kept of what is secret. What can decide is always a person's; an agent's token has no such use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from assentry.core.action import Json


class CredentialKind(Enum):
    """What sort of proof it is."""

    ACCOUNT = "account"
    """A person's password; its id is the person's name."""
    PASSKEY = "passkey"
    """A person's key on a device; its id is the device's word for it."""
    TOKEN = "token"  # noqa: S105  a kind, not a secret
    """What an agent shows; its id is a hash of it."""
    SESSION = "session"
    """A person who has logged in; its id is a hash of the cookie."""
    LINK = "link"
    """A way in that works once; its id is a hash of it."""
    CHALLENGE = "challenge"
    """What a passkey or a provider has to answer within minutes, once; its id is a hash of it."""
    REPLY = "reply"
    """What was answered to a call that may be repeated; its id is a hash of who called and the key."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Credential:
    """One proof, whom it stands for, and until when."""

    workspace: str
    kind: CredentialKind
    id: str
    holder: str
    """The person or the agent."""
    made_at: datetime
    made_by: str
    version: int = 1
    expires_at: datetime | None = None
    ended_at: datetime | None = None
    proof: str = ""
    """What a secret is compared with, where the id is not already a hash of it."""
    about: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_proof(self) -> bool:
        """It says who somebody is, so that a change of it is news; a reply that is kept says nothing."""
        return self.kind not in (CredentialKind.REPLY, CredentialKind.CHALLENGE)

    def is_live(self, now: datetime) -> bool:
        """It still proves something."""
        return self.ended_at is None and (self.expires_at is None or now < self.expires_at)
