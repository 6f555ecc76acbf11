"""A `Filter` as one bounded query: which index leads, which conditions remain, where the next page begins.

Identifiers come from the tables below, values are always bound. Pending requests alone are listed most urgent
first, everything else newest first (ids are uuid7, so their order is the order of creation).
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assentry.core.action import Risk
from assentry.core.request import Request, State
from assentry.errors import InvalidArguments
from assentry.ports import Filter, Page
from assentry.stores.rows import NEVER, column, micros, readable

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
    """Whether a text contains another."""
    found: str
    """Requests `r` and their asks `a`, by what the index of words says of {query}; conditions follow."""
    sample: str
    """How many of the requests that stand for many fit {query}, up to {limit}."""
    ended: str
    open: str
    same: str
    """How an ask is found for its request."""
    key: str
    """What names a request and its place in a list."""
    titles: str
    """The ask beside each of some keys `r`, found one by one."""
    newest: str
    """The index on (workspace, id)."""
    hint: str
    """How an index is demanded, where that is possible."""
    when: Callable[[int], Any]
    """Microseconds since 1970 as this database takes a time."""
    since: Callable[[Any], int]
    """The other way round."""
    query: Callable[[Sequence[str]], str]
    """How the index of words is asked for those that have a word with each of these beginnings."""

    def __getitem__(self, name: str) -> str:
        return self.bound.format(name)


@dataclass(frozen=True, slots=True)
class Listing:
    """One query and the values bound in it. It asks for one row more than the page holds."""

    keys: str
    """The query that finds which requests are meant, without reading their payload."""
    conditions: str
    """The same without an index to walk: what must hold for each of them."""
    order: str
    values: dict[str, Any]
    limit: int
    urgent: bool
    dialect: Dialect

    @property
    def sql(self) -> str:
        """The rows (ask, body, id) of the page, in order."""
        return (
            f"SELECT a.body, r.body, r.id FROM ({self.keys}) f "  # noqa: S608
            f"JOIN requests r ON r.workspace = {self.dialect['workspace']} AND r.id = f.id "
            f"JOIN asks a ON {self.dialect.same} ORDER BY {self.order}"
        )

    def page(self, found: list[Any]) -> Page:
        """The page that these rows make, and where the next begins."""
        requests = readable(found[: self.limit])
        return Page(requests, self._cursor(requests[-1]) if requests and len(found) > self.limit else "")

    def _cursor(self, last: Request) -> str:
        urgency = Risk.CRITICAL.rank - last.candidate.assessment.risk.rank
        return self.place(last.id, urgency, micros(last.due_at))

    def place(self, request_id: str, urgency: int, due: int) -> str:
        """Where the page after this request begins."""
        return _written(["u", urgency, due, request_id] if self.urgent else ["n", request_id])


def listing(workspace: str, wanted: Filter, after: str, limit: int, dialect: Dialect) -> Listing:
    """The query for one page of `wanted`, whatever its text is."""
    values: dict[str, Any] = {"workspace": workspace, "limit": limit + 1}
    conditions = [f"r.workspace = {dialect['workspace']}", *_conditions(wanted, values, dialect)]
    if wanted.states == (State.PENDING,):
        values["after_urgency"], due, values["after_id"] = _urgent_start(wanted, after)
        values["after_due"] = dialect.when(due)
        place = f"{dialect['after_urgency']}, {dialect['after_due']}, {dialect['after_id']}"
        conditions += ["r.state = 'pending'", f"(r.urgency, r.due_at, r.id) > ({place})"]
        order = "r.urgency, r.due_at, r.id"
        keys = _select(conditions, "requests_pending", order, dialect)
        return Listing(keys, " AND ".join(conditions), order, values, limit, True, dialect)
    values["after_id"] = _newest_start(after)
    conditions.append(f"r.id < {dialect['after_id']}")
    order = "r.id DESC"
    branches = [
        _select([*conditions, *branch], index, order, dialect) for index, branch in _branches(wanted, values, dialect)
    ]
    if len(branches) == 1:
        keys = branches[0]
    else:
        # One ordered walk per state, each no longer than the page: the cost does not depend on the table's size.
        each = (f"SELECT * FROM ({branch}) b{number}" for number, branch in enumerate(branches))  # noqa: S608
        keys = f"{' UNION ALL '.join(each)} ORDER BY id DESC LIMIT {dialect['limit']}"
    conditions += _among(wanted, dialect)
    return Listing(keys, " AND ".join(conditions), order, values, limit, False, dialect)


def _select(conditions: list[str], index: str, order: str, dialect: Dialect) -> str:
    return (
        f"SELECT {dialect.key} FROM requests r {dialect.hint.format(index)} "  # noqa: S608
        f"WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT {dialect['limit']}"
    )


def _among(wanted: Filter, dialect: Dialect) -> list[str]:
    names = (dialect[f"state{number}"] for number in range(len(dict.fromkeys(wanted.states))))
    return [f"r.state IN ({', '.join(names)})"] if wanted.states else []


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
    return conditions


def _branches(wanted: Filter, values: dict[str, Any], dialect: Dialect) -> list[tuple[str, list[str]]]:
    """The walks that together meet every wanted request: for each its index and its own conditions."""
    states = tuple(dict.fromkeys(wanted.states))
    names = [f"state{number}" for number in range(len(states))]
    values.update({name: state.value for name, state in zip(names, states, strict=True)})
    bounded = "requests_step" if wanted.run else "requests_review" if wanted.review_open else ""
    if bounded or wanted.agent or wanted.action or not states:
        return [(bounded or dialect.newest, _among(wanted, dialect))]
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
