"""A `Filter` as one bounded query: which index leads, which conditions remain, where the next page begins.

Identifiers come from the tables below, values are always bound. Pending requests alone are listed most urgent
first, everything else newest first (ids are uuid7, so their order is the order of creation).
"""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assent.core.action import Risk
from assent.core.request import Request, State
from assent.errors import InvalidArguments
from assent.ports import Filter, Page
from assent.stores.rows import NEVER, column, folded, micros, readable

MOST = 500
"""The largest page."""

_FIRST = -(1 << 62)
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the databases."""

    bound: str
    """How a value is referred to, with `{}` for its name."""
    contains: str
    ended: str
    open: str
    same: str
    """How an ask is found for its request."""
    newest: str
    """The index on (workspace, id)."""
    hint: str
    """How an index is demanded, where that is possible."""
    when: Callable[[int], Any]
    """Microseconds since 1970 as this database takes a time."""

    def __getitem__(self, name: str) -> str:
        return self.bound.format(name)


@dataclass(frozen=True, slots=True)
class Listing:
    """One query and the values bound in it. It asks for one row more than the page holds."""

    sql: str
    values: dict[str, Any]
    limit: int
    urgent: bool

    def page(self, found: list[Any]) -> Page:
        """The page that these rows (ask, body, id) make, and where the next begins."""
        requests = readable(found[: self.limit])
        return Page(requests, self._cursor(requests[-1]) if requests and len(found) > self.limit else "")

    def _cursor(self, last: Request) -> str:
        if not self.urgent:
            return _written(["n", last.id])
        urgency = Risk.CRITICAL.rank - last.candidate.assessment.risk.rank
        return _written(["u", urgency, micros(last.due_at), last.id])


def listing(workspace: str, wanted: Filter, after: str, limit: int, dialect: Dialect) -> Listing:
    """The query for one page of `wanted`."""
    limit = max(1, min(limit, MOST))
    values: dict[str, Any] = {"workspace": workspace, "limit": limit + 1}
    conditions = _conditions(wanted, values, dialect)
    if wanted.states == (State.PENDING,):
        values["after_urgency"], due, values["after_id"] = _urgent_start(wanted, after)
        values["after_due"] = dialect.when(due)
        place = f"{dialect['after_urgency']}, {dialect['after_due']}, {dialect['after_id']}"
        conditions += ["r.state = 'pending'", f"(r.urgency, r.due_at, r.id) > ({place})"]
        sql = _select(conditions, "requests_pending", "r.urgency, r.due_at, r.id", dialect, wanted)
        return Listing(_joined(sql, "r.urgency, r.due_at, r.id", dialect), values, limit, urgent=True)
    values["after_id"] = _newest_start(after)
    conditions.append(f"r.id < {dialect['after_id']}")
    branches = [
        _select([*conditions, *branch], index, "r.id DESC", dialect, wanted)
        for index, branch in _branches(wanted, values, dialect)
    ]
    if len(branches) == 1:
        sql = branches[0]
    else:
        # One ordered walk per state, each no longer than the page: the cost does not depend on the table's size.
        each = (f"SELECT id FROM ({branch}) b{number}" for number, branch in enumerate(branches))  # noqa: S608
        sql = f"{' UNION ALL '.join(each)} ORDER BY id DESC LIMIT {dialect['limit']}"
    return Listing(_joined(sql, "r.id DESC", dialect), values, limit, urgent=False)


def _select(conditions: list[str], index: str, order: str, dialect: Dialect, wanted: Filter) -> str:
    """Which requests are on the page, found without their payload unless its text is searched."""
    asks = f"JOIN asks a ON {dialect.same} " if wanted.text else ""
    return (
        f"SELECT r.id FROM requests r {dialect.hint.format(index)} {asks}"  # noqa: S608
        f"WHERE r.workspace = {dialect['workspace']} AND {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT {dialect['limit']}"
    )


def _joined(sql: str, order: str, dialect: Dialect) -> str:
    return (
        f"SELECT a.body, r.body, r.id FROM ({sql}) f "  # noqa: S608
        f"JOIN requests r ON r.workspace = {dialect['workspace']} AND r.id = f.id "
        f"JOIN asks a ON {dialect.same} ORDER BY {order}"
    )


def _conditions(wanted: Filter, values: dict[str, Any], dialect: Dialect) -> list[str]:
    conditions = []
    for name in ("agent", "action", "run", "gate"):
        if value := getattr(wanted, name):
            values[name] = column(value)
            conditions.append(f"r.{name} = {dialect[name]}")
    if wanted.run:
        conditions.append("r.run <> ''")
    if wanted.risk:
        values["urgency"] = _urgency(wanted.risk)
        # As a range, so that it can bound the walk that the cursor starts.
        conditions.append(f"r.urgency <= {dialect['urgency']} AND r.urgency >= {dialect['urgency']}")
    if wanted.review_open:
        conditions.append("r.review = 'open'")
    if wanted.due_before is not None:
        values["due_before"] = dialect.when(micros(wanted.due_before))
        conditions.append(f"r.due_at < {dialect['due_before']}")
    if wanted.text:
        values["text"] = folded(wanted.text)
        conditions.append(dialect.contains.format("a.title", dialect["text"]))
    return conditions


def _branches(wanted: Filter, values: dict[str, Any], dialect: Dialect) -> list[tuple[str, list[str]]]:
    """The walks that together meet every wanted request: for each its index and its own conditions."""
    states = tuple(dict.fromkeys(wanted.states))
    names = [f"state{number}" for number in range(len(states))]
    values.update({name: state.value for name, state in zip(names, states, strict=True)})
    bounded = "requests_step" if wanted.run else "requests_review" if wanted.review_open else ""
    if bounded or wanted.agent or wanted.action or not states:
        among = [f"r.state IN ({', '.join(dialect[name] for name in names)})"] if states else []
        return [(bounded or dialect.newest, among)]
    branches = []
    for name, state in zip(names, states, strict=True):
        # The index of pending requests is ordered by urgency: all of them are met, which is as many as wait.
        if state is State.PENDING:
            index, part = "requests_pending", "r.state = 'pending'"
        elif state.is_open:
            index, part = "requests_open", f"{dialect.open} AND r.state <> 'pending'"
        else:
            index, part = "requests_ended", dialect.ended
        branches.append((index, [f"r.state = {dialect[name]}", part]))
    return branches


def _urgency(risk: str) -> int:
    try:
        return Risk.CRITICAL.rank - Risk(risk).rank
    except ValueError:
        raise InvalidArguments("there is no such risk; use safe, risky, dangerous or critical") from None


def _urgent_start(wanted: Filter, after: str) -> tuple[int, int, str]:
    if not after:
        return (_urgency(wanted.risk) if wanted.risk else -1), _FIRST, ""
    match _read(after):
        case ["u", int(urgency), int(due), str(last)] if abs(urgency) < 100 and _FIRST <= due <= NEVER:
            return urgency, due, column(last)
        case _:
            raise _bad_cursor()


def _newest_start(after: str) -> str:
    if not after:
        return _LAST
    match _read(after):
        case ["n", str(last)]:
            return column(last)
        case _:
            raise _bad_cursor()


def _written(position: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def _read(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _bad_cursor() from None


def _bad_cursor() -> InvalidArguments:
    return InvalidArguments("this is not where a page of this list begins; start again from the first page")


def beyond(prefix: str) -> str:
    """The first text after all that start with `prefix`, by code point."""
    return prefix + _LAST
