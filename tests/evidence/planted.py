"""Bugs to plant in a process of a trial. A suite that does not find them proves nothing.

Each is a function that breaks the process it is called in, and no other.
"""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from assentry.core import advance as life
from assentry.core.change import Change
from assentry.core.decision import Begin, Fail, Finish
from assentry.core.request import Request, State
from assentry.engine import asking
from assentry.engine.execution import Execution
from assentry.engine.runs import ActiveRun
from assentry.engine.worker import Worker
from assentry.ports import View
from assentry.stores.postgres import PostgresStore
from assentry.stores.postgres import connect as postgres_connect
from assentry.stores.postgres.writes import change_write
from assentry.stores.sqlite import SqliteStore, connect, transaction
from assentry.stores.statements import migrations

DELAY = 0.01


def swap(owner: Any, name: str, broken: Any) -> None:
    """`owner.name` is broken from now on. What is planted where nothing stands, or cannot be called like it, is refused:
    such a bug would break nothing, or be found because it crashes."""
    sound = inspect.getattr_static(owner, name, None)
    assert sound is not None, f"{owner} has no {name} any more; plant this bug anew"
    if inspect.isfunction(sound) and inspect.isfunction(broken):
        _called_alike(inspect.signature(sound), inspect.signature(broken), name)
    setattr(owner, name, broken)


def _called_alike(sound: inspect.Signature, broken: inspect.Signature, name: str) -> None:
    plain = [
        each for each in sound.parameters.values() if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    named = {each.name: None for each in sound.parameters.values() if each.kind is each.KEYWORD_ONLY}
    try:
        broken.bind(*plain, **named)
    except TypeError as problem:
        raise AssertionError(f"{name} is called otherwise by now ({problem}); plant this bug anew") from None


def intent_after_the_call() -> None:
    """The action runs first; that it was begun is put on record afterwards."""
    begin, end, opened = Execution.begin, Execution._end, asking.opened

    async def begin_later(self: Execution, request: Request, **_: Any) -> Request:
        return replace(request, state=State.RUNNING, fence=request.fence + 1, worker=self.worker)

    async def begin_and_end(self: Execution, request: Request, event: Finish | Fail) -> Request:
        current = await self._store.request(request.workspace, request.id)
        if current is not None and current.state is State.APPROVED:
            await begin(self, current)
        return await end(self, request, event)

    def opened_only(*args: Any, **named: Any) -> Change:
        return opened(*args, **{**named, "worker": ""})

    swap(Execution, "begin", begin_later)
    swap(Execution, "_end", begin_and_end)
    swap(asking, "opened", opened_only)


def permit_not_used_up() -> None:
    """What runs already may be begun again: the permit is good for two workers."""
    life.LEGAL[State.RUNNING] = (*life.LEGAL[State.RUNNING], Begin)


def finish_acknowledged_too_early() -> None:
    """The caller has its result before it is on record."""
    finish = Execution.finish

    async def finish_later(self: Execution, tool: Any, request: Request, result: Any) -> Request:
        async def later() -> None:
            await asyncio.sleep(DELAY)
            await finish(self, tool, request, result)

        _keep(asyncio.create_task(later()))
        return request

    swap(Execution, "finish", finish_later)


def commit_acknowledged_too_early() -> None:
    """Every change is acknowledged before it is committed."""
    for store in (SqliteStore, PostgresStore):
        _acknowledge_early(store)


def _acknowledge_early(store: Any) -> None:
    transact = store.transact

    async def too_early(self: Any, workspace: str, request_id: str | None, step: Any, **more: Any) -> Change | None:
        current = None if request_id is None else await self.request(workspace, request_id)
        change: Change | None = step(View(await self.now(), current))

        async def later() -> None:
            await asyncio.sleep(DELAY)
            await transact(self, workspace, request_id, lambda _: change, **more)

        _keep(asyncio.create_task(later()))
        return change

    swap(store, "transact", too_early)


def unknown_is_run_again() -> None:
    """A worker takes an unknown outcome for one that may simply be run again."""
    swap(Request, "is_idempotent", property(lambda _: True))
    swap(Worker, "_can", lambda *_: True)


def disk_not_synced() -> None:
    """SQLite no longer waits for the disk."""
    connect._SETTINGS["synchronous"] = 0


def lock_and_version_ignored() -> None:
    """A change is made from whatever was read a moment ago, and written over whatever is there now."""
    transaction.SQL["update_request"] = _without(transaction.SQL["update_request"], " AND version = :version - 1")
    first, *others = migrations("postgres")
    careless = replace(first, sql=_without(first.sql, " AND version = made.version - 1"))
    postgres_connect.migrations = lambda backend: (careless, *others) if backend == "postgres" else migrations(backend)

    async def on_sqlite(self: Any, workspace: str, request_id: str | None, step: Any, **_: Any) -> Change | None:
        current = None if request_id is None else await self.request(workspace, request_id)
        change: Change | None = step(View(await self.now(), current))
        if change is not None:
            await self._write(lambda transaction: transaction.write(workspace, change))
        return change

    async def on_postgres(self: Any, workspace: str, request_id: str | None, step: Any, **_: Any) -> Change | None:
        current = None if request_id is None else await self.request(workspace, request_id)
        change: Change | None = step(View(await self.now(), current))
        if change is not None:
            await self._entered().writers.submit(change_write(workspace, change)).future
        return change

    swap(SqliteStore, "transact", on_sqlite)
    swap(PostgresStore, "transact", on_postgres)


def token_not_checked() -> None:
    """A result is taken whoever brings it, also under a token that was replaced."""
    swap(life.running, "hold_lease", lambda *_: None)
    for state in (State.DONE, State.FAILED, State.APPROVED):
        life.LEGAL[state] = (*life.LEGAL[state], Finish, Fail)


def run_not_asked() -> None:
    """A step is put on record without a look at the run: whether it is still this process that holds it."""
    swap(ActiveRun, "_progress", lambda *_: None)


def _without(text: str, part: str) -> str:
    assert part in text, "the statement changed; plant this bug anew"
    return text.replace(part, "")


_kept: set[Any] = set()


def _keep(task: Any) -> None:
    _kept.add(task)


Plant = Callable[[], None]


def no_bug() -> None:
    """Nothing is broken."""
