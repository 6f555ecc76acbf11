"""Whether the tables still hold what the log says: rows that were changed, deleted or added by hand are found.

The last entry about a stored value carries the digest of what was stored with it (`rows.stamped`). A row and its
entries are read by one statement, so nothing that is committed meanwhile comes between them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from assentry.core.canonical import digest
from assentry.core.request import Request
from assentry.errors import StoreError
from assentry.ports import Mismatch
from assentry.stores import rows

AT_ONCE = 500
BEGIN = ("request", "")
Fetch = Callable[[str, dict[str, Any]], Sequence[Any]]

_COLUMNS = (
    "state", "urgency", "gate", "action", "review", "word", "runnable", "ended", "purged", "due_at", "callers",
    "version", "kind", "agent", "run", "step", "code", "executor", "title",
)  # fmt: skip
"""The columns of a request as `compared_requests` gives them: they steer what is found, beside what is in the body."""
_ANOTHER_ACTION = frozenset({"action"})


def mismatches(
    workspace: str, after: tuple[str, str], when: rows.When, fetch: Fetch
) -> tuple[tuple[Mismatch, ...], tuple[str, str]]:
    """The next rows that are not what the log says, and where the next page begins; an empty kind ends it."""
    kind, last = after
    values = {"workspace": workspace, "after": last, "limit": AT_ONCE}
    match kind:
        case "request":
            found = fetch("compared_requests", values)
            wrong = [each for row in found if (each := _request(row, when)) is not None]
        case "grant" | "switch":
            found = fetch(f"compared_{kind}es" if kind == "switch" else "compared_grants", values)
            wrong = [each for row in found if (each := _value(kind, *row)) is not None]
        case "tools":
            found = fetch("compared_tools", values)
            wrong = [each for row in found for each in _tools(*row)]
        case "policy":
            values["after"] = last or "0"
            found = fetch("compared_policies", values)
            wrong = [each for row in found if (each := _policy(*row)) is not None]
        case _:
            found = fetch("unrecorded", values)
            wrong = [
                Mismatch(_kind_of(what), subject, f"{_named(what, subject)} was deleted") for subject, what in found
            ]
    if len(found) == AT_ONCE:
        return tuple(wrong), (kind, str(found[-1][0]))
    return tuple(wrong), (_NEXT[kind], "")


_NEXT = {
    "request": "grant",
    "grant": "switch",
    "switch": "tools",
    "tools": "policy",
    "policy": "deleted",
    "deleted": "",
}


def _request(row: Sequence[Any], when: rows.When) -> Mismatch | None:
    key, ask, body, texts, *columns = row
    said = _said(texts)
    name = _named("request", key)
    if "row" not in said:
        return Mismatch("request", key, f"{name} is not in the log: it was added by hand")
    if ask is None or rows.text_digest(ask) != said.get("ask"):
        return Mismatch("request", key, f"{name} was changed: what was asked for is not what the log says")
    if _digest(body) != said["row"]:
        return Mismatch("request", key, f"{name} was changed: its state, votes or result are not what the log says")
    try:
        request = rows.read_request(rows.read_ask(ask, key), body)
        wanted = rows.all_columns(request, when)
    except StoreError:
        return Mismatch("request", key, f"{name} cannot be read")
    wrong = [
        column for column, value in zip(_COLUMNS, columns, strict=True) if not _same(column, value, wanted, request)
    ]
    if wrong:
        return Mismatch("request", key, f"{name} was changed: its column {wrong[0]} is not what the log says")
    return None


def _same(column: str, value: Any, wanted: Mapping[str, Any], request: Request) -> bool:
    if column in _ANOTHER_ACTION and request.candidate is not request.ask.candidate:
        return True  # the index follows what would run now, where another action was chosen
    return bool(value == wanted[column])


def _value(kind: str, key: str, body: str, texts: Any) -> Mismatch | None:
    said = _said(texts)
    if "row" not in said:
        return Mismatch(kind, key, f"{_named(kind, key)} is not in the log: it was added by hand")
    if _digest(body) != said["row"]:
        return Mismatch(kind, key, f"{_named(kind, key)} was changed: it is not what the log says")
    return None


def _tools(source: str, rows_of: Any, texts: Any) -> Iterable[Mismatch]:
    """What people said of each definition, beside what the log says that they said."""
    said: dict[str, str] = {}
    for entry in _entries(texts):
        state = str(entry.get("kind", "")).removeprefix("tools.")
        digests = entry["body"].get("digests", ())
        said |= dict.fromkeys(digests, "waiting" if state == "offered" else state)
    there = {key: (name, state) for name, key, state in (json.loads(rows_of) if isinstance(rows_of, str) else rows_of)}
    for key, (name, state) in there.items():
        if key not in said:
            yield Mismatch("tools", source, f"tool {name} of {source} is not in the log: it was added by hand")
        elif said[key] != state:
            yield Mismatch(
                "tools", source, f"tool {name} of {source} was changed: the log says {said[key]}, not {state}"
            )
    for key in sorted(said.keys() - there.keys()):
        yield Mismatch("tools", source, f"a tool of {source} was deleted ({key[:12]})")


def _policy(version: int, text: str, texts: Any) -> Mismatch | None:
    bodies = [entry["body"] for entry in _entries(texts)]
    if not bodies:
        return Mismatch(
            "policy", str(version), f"version {version} of the policy is not in the log: it was added by hand"
        )
    if bodies[-1].get("digest") != digest(text):
        return Mismatch(
            "policy", str(version), f"version {version} of the policy was changed: its text is not what was applied"
        )
    return None


def _said(texts: Any) -> dict[str, Any]:
    """The digests that the entries give, each as it was last said."""
    said: dict[str, Any] = {}
    for entry in _entries(texts):
        said |= {name: entry["body"][name] for name in ("ask", "row") if name in entry["body"]}
    return said


def _entries(texts: Any) -> Iterable[dict[str, Any]]:
    try:
        given = json.loads(texts) if isinstance(texts, str) else texts or []
    except ValueError:
        return
    for text in given:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError, TypeError):
            continue  # the walk over the log tells of it
        if isinstance(entry, dict) and isinstance(entry.get("body"), dict):
            yield entry


def _digest(body: str) -> str:
    try:
        return rows.body_digest(body)
    except (ValueError, TypeError):
        return ""


def _kind_of(entry_kind: str) -> str:
    head = entry_kind.partition(".")[0]
    return head if head in ("grant", "policy", "switch", "tools") else "request"


def _named(kind: str, key: str) -> str:
    match _kind_of(f"{kind}."):
        case "grant":
            return f"grant {key}"
        case "switch":
            return f"the switch of {key}"
        case "tools":
            return f"every tool of {key}"
        case "policy":
            return f"version {key.removeprefix('policy:')} of the policy"
        case _:
            return f"request {key}"
