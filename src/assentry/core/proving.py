"""Giving and ending credentials: the changes that do it, with the entries that say who did. No secret is in them."""

from datetime import datetime

from assentry.core.action import Json
from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.copies import replace
from assentry.core.credential import Credential


def given(credential: Credential, by: str) -> Change:
    """The change that makes it valid."""
    return _change(credential, "identity.given", by, credential.made_at)


def changed(credential: Credential, by: str, now: datetime, **about: Json) -> Change:
    """The change that says something else of it, which is worth an entry."""
    moved = replace(credential, version=credential.version + 1, about={**credential.about, **about})
    return _change(moved, "identity.changed", by, now)


def ended(credential: Credential, by: str, now: datetime) -> Change:
    """The change after which it proves nothing."""
    moved = replace(credential, version=credential.version + 1, ended_at=now, proof="")
    return _change(moved, "identity.ended", by, now)


def followed(old: Credential, new: Credential, now: datetime, until: datetime) -> Change:
    """The change after which `new` stands in the place of `old`, which calls already on their way may still show."""
    ends = until if old.expires_at is None else min(until, old.expires_at)
    moved = replace(old, expires_at=ends)
    gone = changed(moved, old.holder, now, followed=True)
    return Change(credentials=(*gone.credentials, new), entries=gone.entries)


def noted(credential: Credential, **about: Json) -> Change:
    """The change that remembers something about it that nobody needs to audit."""
    moved = replace(credential, version=credential.version + 1, about={**credential.about, **about})
    return Change(credentials=(moved,))


def _change(credential: Credential, kind: str, by: str, now: datetime) -> Change:
    if not credential.is_proof:
        return Change(credentials=(credential,))
    body: dict[str, Json] = {
        "what": str(credential.kind),
        "holder": credential.holder,
        "expires_at": credential.expires_at.isoformat() if credential.expires_at else None,
    }
    entry = Entry(kind, now, credential.workspace, credential.holder, by, body)
    return Change(credentials=(credential,), entries=(entry,))
