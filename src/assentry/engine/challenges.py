"""What somebody has to answer within minutes, and once: a passkey's challenge, the way back from a provider."""

import hashlib
from datetime import timedelta

from assentry.core.action import Json
from assentry.core.credential import Credential, CredentialKind
from assentry.core.proving import ended, given
from assentry.errors import StaleRequest
from assentry.ports import Store

CHALLENGE_LIFE = timedelta(minutes=5)


class Challenges:
    """The open challenges of one workspace, in the store: whichever instance asked, any takes the answer."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace

    async def ask(
        self, secret: str, purpose: str, holder: str = "", *, life: timedelta = CHALLENGE_LIFE, **about: Json
    ) -> None:
        """Whoever knows `secret` may answer once, within minutes, for this purpose and nothing else."""
        now = await self._store.now()
        made = Credential(
            self._workspace, CredentialKind.CHALLENGE, _hash(purpose, secret), holder, now, holder,
            expires_at=now + life, about=about,
        )  # fmt: skip
        change = given(made, holder)
        await self._store.transact(self._workspace, None, lambda _: change)

    async def take(self, secret: str, purpose: str) -> Credential | None:
        """The challenge, which is used up; nothing where it never was, is too old, or somebody was faster."""
        found = await self._store.credential(self._workspace, CredentialKind.CHALLENGE, _hash(purpose, secret))
        now = await self._store.now()
        if found is None or not found.is_live(now):
            return None
        change = ended(found, found.holder, now)
        try:
            await self._store.transact(self._workspace, None, lambda _: change)
        except StaleRequest:
            return None
        return found


def _hash(purpose: str, secret: str) -> str:
    return hashlib.sha256(f"{purpose}:{secret}".encode()).hexdigest()
