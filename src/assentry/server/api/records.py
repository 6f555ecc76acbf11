"""For terminals: stored things as they are, read only, so that every command works on another machine too."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query

from assentry.core.request import State
from assentry.core.run import RunState
from assentry.ports import Filter, RunFilter, Store, StoredPolicy
from assentry.server.api.answers import Records, told
from assentry.server.problems import Problem
from assentry.server.visitors import Person
from assentry.stores.records import grant_record, request_record, run_record, switch_record

router = APIRouter(prefix="/api/v1", tags=["terminals"])

_MOST = 500
Given = dict[str, Any]
Read = Callable[[Store, str, Given], Awaitable[Any]]


@router.get("/records/{what}", summary="Stored things, as they are", **told(Records, "What was found."))
async def records(
    visitor: Person,
    what: str,
    q: Annotated[str, Query(max_length=20_000, description="JSON: what to look for.")] = "{}",
) -> dict[str, Any]:
    """For `assentry` on another machine. What is sealed stays sealed; nothing is changed.

    `what` is one of: clock, request, find, requests, by_step, similar, run, run_by_key, find_runs, runs, switches,
    policy, policies, grants, entries, size, due.
    """
    read = _READS.get(what)
    if read is None:
        raise Problem(404, f"there are no records called {what!r}")
    try:
        given = json.loads(q)
        if not isinstance(given, dict):
            raise TypeError
        return {"found": await read(visitor.room.desk.store, visitor.room.name, given)}
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise Problem(422, "what to look for is not as these records are asked for") from None


def _text(given: Given, name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise TypeError(name)
    return value[:2_000]


def _limit(given: Given, name: str = "limit") -> int:
    value = given.get(name, 50)
    if not isinstance(value, int):
        raise TypeError(name)
    return max(1, min(_MOST, value))


async def _clock(store: Store, workspace: str, given: Given) -> str:  # noqa: ARG001
    return (await store.now()).isoformat()


async def _request(store: Store, workspace: str, given: Given) -> Any:
    found = await store.request(workspace, _text(given, "id"))
    return request_record(found) if found is not None else None


async def _find(store: Store, workspace: str, given: Given) -> Any:
    return [request_record(each) for each in await store.find(workspace, _text(given, "prefix"), limit=_limit(given))]


async def _requests(store: Store, workspace: str, given: Given) -> Any:
    wanted = Filter(
        tuple(State(each) for each in given.get("states", ())), agent=_text(given, "agent"),
        action=_text(given, "action"), risk=_text(given, "risk"), run=_text(given, "run"), gate=_text(given, "gate"),
        review_open=bool(given.get("review_open")), text=_text(given, "text"),
    )  # fmt: skip
    page = await store.requests(workspace, wanted, after=_text(given, "after"), limit=_limit(given))
    return {"requests": [request_record(each) for each in page.requests], "next": page.next}


async def _by_step(store: Store, workspace: str, given: Given) -> Any:
    found = await store.by_step(workspace, _text(given, "run"), _text(given, "step"))
    return request_record(found) if found is not None else None


async def _similar(store: Store, workspace: str, given: Given) -> Any:
    agent, action = _text(given, "agent"), _text(given, "action")
    return [request_record(each) for each in await store.similar(workspace, agent, action, limit=_limit(given))]


async def _run(store: Store, workspace: str, given: Given) -> Any:
    found = await store.run(workspace, _text(given, "id"))
    return run_record(found) if found is not None else None


async def _run_by_key(store: Store, workspace: str, given: Given) -> Any:
    found = await store.run_by_key(workspace, _text(given, "agent"), _text(given, "key"))
    return run_record(found) if found is not None else None


async def _find_runs(store: Store, workspace: str, given: Given) -> Any:
    return [run_record(each) for each in await store.find_runs(workspace, _text(given, "prefix"), limit=_limit(given))]


async def _runs(store: Store, workspace: str, given: Given) -> Any:
    states = tuple(RunState(each) for each in given.get("states", ()))
    wanted = RunFilter(states, _text(given, "agent"), _text(given, "parent"))
    found = await store.runs(workspace, wanted, after=_text(given, "after"), limit=_limit(given))
    return [run_record(each) for each in found]


async def _switches(store: Store, workspace: str, given: Given) -> Any:  # noqa: ARG001
    return [switch_record(each) for each in await store.switches(workspace)]


async def _policy(store: Store, workspace: str, given: Given) -> Any:  # noqa: ARG001
    found = await store.policy(workspace)
    return _version(found) if found is not None else None


async def _policies(store: Store, workspace: str, given: Given) -> Any:
    return [_version(each) for each in await store.policies(workspace, limit=_limit(given))]


def _version(stored: StoredPolicy) -> Given:
    return {
        "version": stored.version, "text": stored.text, "applied_by": stored.applied_by,
        "applied_at": stored.applied_at.isoformat(),
    }  # fmt: skip


async def _grants(store: Store, workspace: str, given: Given) -> Any:
    return [grant_record(each) for each in await store.grants(workspace, live_only=given.get("live_only", True))]


async def _entries(store: Store, workspace: str, given: Given) -> Any:
    start = given.get("start", 0)
    if not isinstance(start, int) or not 0 <= start < 2**62:
        raise TypeError("start")
    newest = bool(given.get("newest_first"))
    subject = _text(given, "subject")
    found = await store.entries(workspace, start=start, limit=_limit(given), subject=subject, newest_first=newest)
    return [{"index": each.index, "text": each.text, "leaf": each.leaf} for each in found]


async def _size(store: Store, workspace: str, given: Given) -> int:  # noqa: ARG001
    return await store.sequence(workspace)


async def _due(store: Store, workspace: str, given: Given) -> Any:
    return [request_record(each) for each in await store.due(workspace, limit=_limit(given))]


_READS: dict[str, Read] = {
    "clock": _clock, "request": _request, "find": _find, "requests": _requests, "by_step": _by_step,
    "similar": _similar, "run": _run, "run_by_key": _run_by_key, "find_runs": _find_runs, "runs": _runs,
    "switches": _switches, "policy": _policy, "policies": _policies, "grants": _grants, "entries": _entries,
    "size": _size, "due": _due,
}  # fmt: skip
