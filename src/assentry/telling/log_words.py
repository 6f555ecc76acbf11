"""Entries of the audit log, found and put in words."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from assentry.core.action import Json
from assentry.core.names import many_of
from assentry.core.text import counted
from assentry.ports import Logged, Store

_PAGE = 500
_MOST_READ = 200_000
"""How far back a search goes before it says that it stopped."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries; empty fields do not filter."""

    subject: str = ""
    kind: str = ""
    agent: str = ""

    def fits(self, entry: "Line") -> bool:
        by_kind = not self.kind or entry.kind == self.kind or entry.kind.startswith(f"{self.kind.rstrip('.*')}.")
        return by_kind and (not self.agent or self.agent in (entry.body.get("agent"), entry.actor))


@dataclass(frozen=True, slots=True)
class Line:
    """One entry, read."""

    index: int
    kind: str
    at: str
    subject: str
    actor: str
    body: dict[str, Any]

    def document(self) -> dict[str, Json]:
        return {
            "index": self.index, "kind": self.kind, "at": self.at, "subject": self.subject, "actor": self.actor,
            "body": self.body,
        }  # fmt: skip


def read(logged: Logged) -> Line:
    """The entry behind a line of the log; one that was damaged says so instead of raising."""
    try:
        found = json.loads(logged.text)
        body = found["body"]
        kind, at, subject, actor = (str(found[name]) for name in ("kind", "at", "subject", "actor"))
        return Line(logged.index, kind, at, subject, actor, body if isinstance(body, dict) else {})
    except (ValueError, KeyError, TypeError, RecursionError):
        return Line(logged.index, "damaged", "", "", "", {})


async def backwards(store: Store, workspace: str, wanted: Wanted, limit: int, start: int = 0) -> AsyncIterator[Line]:
    """The newest entries that fit, newest first; from before index `start`, where one is given."""
    await store.sequence(workspace)
    looked_at, given = 0, 0
    while looked_at < _MOST_READ:
        page = await store.entries(
            workspace, start=start, limit=_PAGE, subject=wanted.subject, newest_first=True
        )  # fmt: skip
        for logged in page:
            line = read(logged)
            if wanted.fits(line):
                yield line
                given += 1
                if given == limit:
                    return
        looked_at += len(page)
        if not page or page[-1].index == 0:
            return
        start = page[-1].index


def when(at: str) -> str:
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return "an unreadable time  "


def in_words(line: Line) -> str:
    """The entry as a sentence."""
    body = line.body
    about = f"{body.get('code') or line.subject[:8]} {body.get('action', '')}".strip()
    by_two = line.kind == "policy.applied" and "confirmed_by" in body
    sentence = _SENTENCES.get("policy.confirmed" if by_two else line.kind)
    if sentence is None:
        return f"{line.kind} {about}, by {line.actor}"
    decided = _DECIDED.get(str(body.get("word")), "decided")
    after = "" if body.get("state") in _DECIDED.values() else f", now {body.get('state', '?')}"
    more = {
        "decided": decided, "after": after, "about": about, "actor": line.actor, "subject": line.subject,
        "index": line.index, "requests": _counted(body, "count", "request"), "made": _counted(body, "steps", "step"),
        "entries": _counted(body, "lost", "entry"),
    }  # fmt: skip
    lists = {name: ", ".join(map(str, each)) for name, each in body.items() if isinstance(each, list)}
    return sentence.format_map(_Told({**body, **lists, **more}))


def _counted(body: dict[str, Any], name: str, noun: str) -> str:
    number = body.get(name)
    return counted(number, noun) if type(number) is int else f"? {many_of(noun)}"


class _Told(dict[str, Any]):
    """What an entry does not say is a question mark."""

    def __missing__(self, key: str) -> str:
        return "?"


_DECIDED = {
    "approve": "approved",
    "deny": "denied",
    "modify": "approved with changes",
    "choose": "an option was chosen",
    "answer": "answered",
    "revise": "sent back",
}

_SENTENCES = {
    "call.ran": "{action} ran at once, called by {agent} ({rule})",
    "request.asked": "{about}: asked by {agent}, gate {gate} ({rule})",
    "request.refused": "{about}: refused by policy",
    "request.seen": "{about}: seen by {actor}",
    "request.voted": "{about}: {decided} by {actor}; more approvals are needed",
    "request.amended": "{about}: {actor} changed it; more approvals are needed",
    "request.rejudged": "{about}: the policy demands more by now ({changes}); it is asked about again",
    "request.decided": "{about}: {decided} by {actor}{after}",
    "request.widened": "{about}: nobody has decided; it may now also be decided by {may_decide}",
    "request.reminder_due": "{about}: nobody has decided; a reminder is due",
    "request.frozen": "{about}: its run is paused; time stands still for it",
    "request.thawed": "{about}: time goes on for it",
    "request.parked": "{about}: the time is over; it stays parked",
    "request.expired": "{about}: nobody answered in time",
    "request.cancelled": "{about}: withdrawn by {actor}",
    "request.abandoned": "{about}: its caller is gone; nobody is waiting for it any more",
    "request.awaited_again": "{about}: somebody is waiting for it again",
    "request.dismissed": "{about}: dismissed by {actor}; nobody was waiting for it any more",
    "permit.abandoned": "{about}: approved, but its caller was gone before it began, so it does not run",
    "permit.expired": "{about}: approved, and not run before the permit expired",
    "execution.began": "{about}: began on {actor}",
    "execution.finished": "{about}: done on {actor}",
    "execution.failed": "{about}: failed on {actor}",
    "execution.unknown": "{about}: OUTCOME UNKNOWN, its process vanished",
    "execution.reconciled": "{about}: {actor} looked and found it {finding}",
    "undo.asked": "{about}: {actor} wants it taken back",
    "undo.began": "{about}: being taken back on {actor}",
    "undo.finished": "{about}: taken back on {actor}",
    "undo.failed": "{about}: could not be taken back on {actor}",
    "undo.lapsed": "{about}: nobody took it back in time",
    "secrets.erased": "{about}: its secrets were erased",
    "review.accepted": "{about}: reviewed by {actor}: accepted",
    "review.flagged": "{about}: reviewed by {actor}: FLAGGED",
    "run.began": "run {about}: began, by {actor}",
    "run.entered": "run {about}: taken up by {actor}",
    "run.parked": "run {about}: parked; it waits for a person and needs no process",
    "run.paused": "run {about}: paused by {actor}",
    "run.continued": "run {about}: {actor} let it go on",
    "run.stopping": "run {about}: {actor} stops it; it notices at its next gate",
    "run.stopped": "run {about}: stopped",
    "run.orphaned": "run {about}: its process vanished",
    "run.finished": "run {about}: finished after {made}",
    "run.failed": "run {about}: failed",
    "switch.paused": "{subject} paused by {actor}",
    "switch.stopped": "{subject} stopped by {actor}",
    "switch.released": "{subject} goes on, said {actor}",
    "switch.counted": "{subject}: denials in a row: {denials}",
    "identity.given": "{holder} was given a {what} by {actor}",
    "identity.changed": "the {what} of {holder} was changed by {actor}",
    "identity.ended": "a {what} of {holder} was ended by {actor}",
    "policy.applied": "policy version {version} applied by {actor}",
    "policy.confirmed": "policy version {version} applied: proposed by {proposed_by}, confirmed by {actor} ({code})",
    "policy.proposed": "a change of policy version {based_on} proposed by {actor}; a second person is needed ({code})",
    "policy.rejected": "the change of the policy that {proposed_by} proposed was rejected by {actor} ({code})",
    "grant.given": "grant {subject} given by {actor}: {actions}",
    "grant.revoked": "grant {subject} revoked by {actor}",
    "key.rotated": "key {new} signs from now on, vouched for by {old}; by {actor}",
    "payloads.purged": "payloads of {requests} purged by {actor}",
    "log.restored": "restored from a backup by {actor}, without {entries} signed after it",
    "damaged": "entry {index} cannot be read; run `assentry audit verify`",
}
