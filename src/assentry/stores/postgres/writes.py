"""Changes as `assentry_commit` takes them: each takes full effect or none, so many may share a statement."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.request import Request
from assentry.errors import StoreError
from assentry.stores import rows
from assentry.stores.handoff import Ticket
from assentry.stores.statements import statements

SQL = {name: text.encode() for name, text in statements("postgres").items()}
FAR = datetime(9999, 12, 31, tzinfo=UTC)
"""The `due_at` of what time does not move."""
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)

_encode = msgspec.json.Encoder().encode


def when(at: datetime | None) -> datetime:
    """A time as PostgreSQL keeps it here."""
    return FAR if at is None else at


class Write:
    """One change on its way to the database."""

    __slots__ = ("change", "key", "news", "ticket", "token")

    def __init__(self, change: rows.Row, key: tuple[str, str], news: Mapping[str, int], token: str = "") -> None:
        self.change, self.key, self.news, self.token = change, key, news, token
        self.ticket: Ticket | None = None


def change_write(
    workspace: str,
    change: Change,
    guard: tuple[datetime, datetime] = (LONG_AGO, FAR),
    agent: str = "",
    policy: int | None = None,
) -> Write:
    """The write of a request and its entries; `guard` is between which times it may take effect.

    With an `agent` it takes effect only while no switch holds that one up; with a `policy`, only while that version is
    the active one.
    """
    request = change.request
    entries = entry_rows(workspace, change.entries)
    if request is None:
        return Write({"entries": entries}, (workspace, ""), {})
    if request.ask.workspace != workspace:
        raise StoreError("a change belongs to another workspace than the one it was made in; report this")
    token = secrets.token_hex(8)
    notice = f"{workspace} {request.id} {request.version}"
    written: rows.Row = {"entries": entries, "notice": notice}
    if change.new:
        row = rows.all_columns(request, when)
        written["title"], written["ask"] = row.pop("title"), row.pop("ask")
    else:
        row = rows.moving_columns(request, when)
        written["not_before"], written["before"] = guard
    if agent:
        written["agent"] = rows.column(agent)
    if policy is not None:
        written["policy"] = policy
    row["token"] = token
    written["row"] = row
    return Write(written, (workspace, request.id), {request.id: request.version}, token)


def guard_of(request: Request, now: datetime) -> tuple[datetime, datetime]:
    """Between which times every deadline of `request` is on the same side as at `now`."""
    permit_end = request.permit.expires_at if request.permit is not None else None
    deadlines = (request.due_at, request.ends_at, request.undo_until, permit_end, request.ask.needed_by)
    passed = [at for at in deadlines if at is not None and at <= now]
    ahead = [at for at in deadlines if at is not None and at > now]
    return max(passed, default=LONG_AGO), min(ahead, default=FAR)


def entry_rows(workspace: str, entries: Sequence[Entry]) -> list[rows.Row]:
    """Entries as rows, all of one workspace."""
    found = [rows.entry_columns(entry, when) for entry in entries]
    if any(row["workspace"] != workspace for row in found):
        raise StoreError("an entry belongs to another workspace than its change; report this")
    return found


def changes_text(*writes: Write) -> dict[str, str]:
    """Writes as the statement `commit` takes them."""
    return {"changes": _encode([write.change for write in writes]).decode()}


def news_of(change: Change) -> dict[str, int]:
    """What watchers hear of a change."""
    news = {f"grant:{grant.id}": grant.version for grant in change.grants}
    if change.request is not None:
        news[change.request.id] = change.request.version
    if change.run is not None:
        news[f"run:{change.run.id}"] = change.run.version
    if change.switch is not None:
        news["switch:set"] = change.switch.version
    for credential in change.credentials:
        if credential.is_proof:
            news["identity:set"] = credential.version
    return news
