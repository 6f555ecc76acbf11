"""A `Filter` as one bounded query: which index leads, which conditions remain, where the next page begins.

Identifiers come from the tables below, values are always bound. Pending requests alone are listed most urgent
first, everything else newest first (ids are uuid7, so their order is the order of creation).
"""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from assent.core.action import Risk
from assent.core.request import Request, State
from assent.errors import InvalidArguments
from assent.ports import Filter
from assent.stores.rows import NEVER, column, folded, micros

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

    def cursor(self, last: Request) -> str:
        """Where the page after `last` begins."""
        if not self.urgent:
            return _written(["n", last.id])
        urgency = Risk.CRITICAL.rank - last.candidate.assessment.risk.rank
        return _written(["u", urgency, micros(last.due_at), last.id])


def listing(workspace: str, wanted: Filter, after: str, limit: int, dialect: Dialect) -> Listing:
    """The query for one page of `wanted`."""
    limit = max(1, min(limit, MOST))
    urgent = wanted.states == (State.PENDING,)
    values: dict[str, Any] = {"workspace": workspace, "limit": limit + 1}
    conditions = _conditions(wanted, values, dialect)
    if urgent:
        index, order = _pending_index(wanted), "r.urgency, r.due_at, r.id"
        values["after_urgency"], due, values["after_id"] = _urgent_start(wanted, after)
        values["after_due"] = dialect.when(due)
        conditions.append(f"({order}) > ({dialect['after_urgency']}, {dialect['after_due']}, {dialect['after_id']})")
        branches = [["r.state = 'pending'"]]
    else:
        index, order = _newest_index(wanted), "r.id DESC"
        values["after_id"] = _newest_start(after)
        conditions.append(f"r.id < {dialect['after_id']}")
        branches = _state_branches(wanted, index, values, dialect)
    pieces = [_select([*conditions, *branch], index, order, dialect) for branch in branches]
    if len(pieces) == 1:
        return Listing(pieces[0], values, limit, urgent)
    # One ordered walk per state, each no longer than the page: the cost does not depend on the table's size.
    united = " UNION ALL ".join(
        f"SELECT * FROM ({piece}) p{number}"  # noqa: S608
        for number, piece in enumerate(pieces)
    )
    sql = f"SELECT ask, body, id FROM ({united}) pages ORDER BY id DESC LIMIT {dialect['limit']}"  # noqa: S608
    return Listing(sql, values, limit, urgent)


def _select(conditions: list[str], index: str, order: str, dialect: Dialect) -> str:
    hint = dialect.hint.format(index) if index else ""
    return (
        f"SELECT a.body AS ask, r.body AS body, r.id AS id FROM requests r {hint} "  # noqa: S608
        "JOIN asks a ON a.workspace = r.workspace AND a.id = r.id "
        f"WHERE r.workspace = {dialect['workspace']} AND {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT {dialect['limit']}"
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


def _pending_index(wanted: Filter) -> str:
    if wanted.agent:
        return "requests_pending_of_agent"
    return "requests_pending_of_action" if wanted.action else "requests_pending"


def _newest_index(wanted: Filter) -> str:
    if wanted.run:
        return "requests_step"
    if wanted.review_open:
        return "requests_review"
    if wanted.agent:
        return "requests_agent"
    if wanted.action:
        return "requests_action"
    return "requests_state" if wanted.states else ""


def _state_branches(wanted: Filter, index: str, values: dict[str, Any], dialect: Dialect) -> list[list[str]]:
    states = tuple(dict.fromkeys(wanted.states))
    names = [f"state{number}" for number in range(len(states))]
    values.update({name: state.value for name, state in zip(names, states, strict=True)})
    if not states:
        return [[]]
    if index == "requests_state":
        return [[f"r.state = {dialect[name]}"] for name in names]
    return [[f"r.state IN ({', '.join(dialect[name] for name in names)})"]]


def _urgency(risk: str) -> int:
    try:
        return Risk.CRITICAL.rank - Risk(risk).rank
    except ValueError:
        raise InvalidArguments("there is no such risk; use safe, risky, dangerous or critical") from None


def _urgent_start(wanted: Filter, after: str) -> tuple[int, int, str]:
    if not after:
        return (_urgency(wanted.risk) if wanted.risk else -1), _FIRST, ""
    match _read(after):
        case ["u", int(urgency), int(due), str(request_id)] if _FIRST <= due <= NEVER and abs(urgency) < 100:
            return urgency, due, column(request_id)
        case _:
            raise _bad_cursor()


def _newest_start(after: str) -> str:
    if not after:
        return _LAST
    match _read(after):
        case ["n", str(request_id)]:
            return column(request_id)
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


def iso(value: int, moment: Callable[[int], datetime | None]) -> str:
    """Microseconds since 1970 as PostgreSQL reads a time."""
    at = moment(value)
    return "infinity" if at is None else at.isoformat()
