"""The one unit a store commits: the new request or run, the grants used, and the entries that say so."""

from dataclasses import dataclass
from datetime import datetime

from assentry.core.action import Json
from assentry.core.audit import Entry
from assentry.core.copies import replace
from assentry.core.credential import Credential
from assentry.core.grant import Grant
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.core.switch import Switch


@dataclass(frozen=True, slots=True)
class Change:
    """Committed whole or not at all."""

    request: Request | None = None
    entries: tuple[Entry, ...] = ()
    grants: tuple[Grant, ...] = ()
    new: bool = False
    """The request is inserted, not updated."""
    run: Run | None = None
    new_run: bool = False
    snapshot: str | None = None
    """The parked state of the run, as JSON; `None` leaves what is there."""
    switch: Switch | None = None
    credentials: tuple[Credential, ...] = ()
    proposal: PolicyProposal | None = None
    """Inserted while it waits; otherwise ended, which only one that waits can be."""

    def also(self, *entries: Entry) -> "Change":
        """This change with more entries."""
        return replace(self, entries=self.entries + entries)


def moved(request: Request, now: datetime, kind: str, actor: str, **body: Json) -> Change:
    """`request` as its next version, with the entry that says what happened."""
    request = replace(request, version=request.version + 1, changed_at=now)
    return Change(request, (entry(request, now, kind, actor, **body),))


def entry(request: Request, now: datetime, kind: str, actor: str, **body: Json) -> Entry:
    """An entry about `request`: names and digests, never payloads."""
    candidate = request.candidate
    named = {
        "code": request.code,
        "action": candidate.action.name,
        "agent": request.ask.agent,
        "state": str(request.state),
        "content_digest": candidate.content_digest,
        "permit_digest": candidate.permit_digest,
        "policy_version": candidate.verdict.policy_version,
    }
    return Entry(kind, now, request.workspace, request.id, actor, {**named, **body})
