"""When a change is committed on the spot, and when it is left to the writer's thread."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
import uvloop

from assentry.core.change import Change
from assentry.core.request import State
from assentry.ports import View
from assentry.stores.sqlite import SqliteStore, turns, writer
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "a.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture(autouse=True)
def not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `asyncio.run`, whatever the runner of these tests does about Ctrl-C."""
    monkeypatch.setattr(turns, "may_be_interrupted", lambda: False)


class Where:
    """Steps that note on which thread they were taken."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def step(self, number: int) -> "Step":
        return Step(self, number)

    @property
    def here(self) -> list[bool]:
        return [thread == threading.get_ident() for thread in self.threads]


async def idle(store: SqliteStore) -> None:
    """The thread has put everything down: what it answered it may still be announcing."""
    current = store._writer
    assert current is not None
    while current._writing.locked() or not current._queue.empty():
        await asyncio.sleep(0)


class Step:
    def __init__(self, where: Where, number: int) -> None:
        self._where, self._insert = where, inserted(pending(asked(number)))

    def __call__(self, view: View) -> Change | None:
        self._where.threads.append(threading.get_ident())
        return self._insert(view)


async def test_a_change_that_comes_alone_is_committed_on_the_spot(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    where = Where()
    for number in range(3):
        await idle(store)
        await store.transact(WORKSPACE, None, where.step(number))
    assert where.here == [True] * 3


async def test_where_ctrl_c_could_strike_in_the_middle_the_thread_commits(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    monkeypatch.setattr(turns, "LOOK_SECONDS", -1.0)  # it may have been asked while the store was opened
    monkeypatch.setattr(turns, "may_be_interrupted", lambda: True)
    where = Where()
    await store.transact(WORKSPACE, None, where.step(0))
    assert where.here == [False]


def test_a_bare_loop_can_be_interrupted_and_one_of_asyncio_run_cannot() -> None:
    script = """
import asyncio
from assentry.stores.sqlite import turns

async def main():
    return turns.may_be_interrupted()

loop = asyncio.new_event_loop()
print(loop.run_until_complete(main()), asyncio.run(main()))
"""
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["True", "False"]


async def test_changes_that_come_together_share_a_commit(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    where = Where()
    await asyncio.gather(*(store.transact(WORKSPACE, None, where.step(number)) for number in range(20)))
    assert where.here.count(True) <= turns.CROWD


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_on_every_event_loop_what_comes_alone_is_committed_on_the_spot_and_a_crowd_shares(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    alone, crowd = Where(), Where()

    async def main() -> None:
        store = SqliteStore(tmp_path / "a.db")
        await store.open()
        for number in range(3):
            await idle(store)
            await store.transact(WORKSPACE, None, alone.step(number))
        await asyncio.gather(*(store.transact(WORKSPACE, None, crowd.step(number)) for number in range(10, 60)))
        await store.close()

    factory = uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert alone.here == [True] * 3
    assert len(crowd.threads) >= 50
    assert crowd.here.count(True) < turns.CROWD


async def test_whether_ctrl_c_could_strike_is_asked_once_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    monkeypatch.setattr(turns, "LOOK_SECONDS", 1e6)
    asked_for: list[bool] = []

    def may_be_interrupted() -> bool:
        asked_for.append(True)
        return False

    monkeypatch.setattr(turns, "may_be_interrupted", may_be_interrupted)
    store, where = SqliteStore(tmp_path / "a.db"), Where()
    await store.open()
    for number in range(20):
        await idle(store)
        await store.transact(WORKSPACE, None, where.step(number))
    await store.close()
    assert any(where.here)
    assert asked_for == [True]


async def test_after_a_slow_commit_the_loop_is_spared(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "QUICK", 0.0)
    monkeypatch.setattr(writer, "PAUSE", 1e6)
    where = Where()
    for number in range(3):
        await idle(store)
        await store.transact(WORKSPACE, None, where.step(number))
    assert where.here == [True, False, False]


async def test_a_lock_held_elsewhere_is_not_waited_for_on_the_loop(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN IMMEDIATE")
    where = Where()
    asking = asyncio.create_task(store.transact(WORKSPACE, None, where.step(0)))
    # The loop is free to do this although the change waits.
    await asyncio.sleep(0)
    assert not asking.done()
    other.execute("ROLLBACK")
    await asking
    assert where.here == [False]
    other.close()


async def test_an_interrupt_during_a_commit_leaves_nothing_half_done(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    current = store._writer
    assert current is not None
    committed = writer.Writer._write_group

    def interrupted(self: writer.Writer, jobs: list[writer.Job], do: object) -> None:
        jobs[0][0](self._transaction)
        raise KeyboardInterrupt

    await idle(store)
    monkeypatch.setattr(writer.Writer, "_write_group", interrupted)
    with pytest.raises(KeyboardInterrupt):
        current.submit(lambda transaction: transaction.transact(WORKSPACE, None, inserted(pending(asked(1))), ()))
    monkeypatch.setattr(writer.Writer, "_write_group", committed)
    await store.transact(WORKSPACE, None, inserted(pending(asked(2))))
    assert await store.request(WORKSPACE, asked(1).id) is None
    assert await store.request(WORKSPACE, asked(2).id) is not None


def test_a_long_log_is_worked_into_the_file_by_the_thread(tmp_path: Path) -> None:
    """In a process of its own: a reader left open by another test would keep the log long."""
    script = """
import asyncio, sys, pathlib
from assentry.stores.sqlite import SqliteStore, writer
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending
writer.CHECKPOINT_PAGES = 40
writer.QUICK = 60.0

async def main():
    path = pathlib.Path(sys.argv[1])
    store = SqliteStore(path)
    await store.open()
    for number in range(300):
        await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
    print(path.with_name("a.db-wal").stat().st_size // 4096)
    await store.close()

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.db")], check=True, capture_output=True, text=True
    )
    # Three hundred commits write well over a thousand pages; begun anew at every checkpoint, the log stays short.
    assert int(ran.stdout) < 600


@pytest.mark.parametrize("how", ["no longer kept", "read anew"])
async def test_what_is_known_of_a_request_is_never_older_than_what_was_written(store: SqliteStore, how: str) -> None:
    """A request is remembered between changes together with its ask; without that it is read again."""
    request = pending(asked(1))
    seen: list[State] = []

    def moves(state: State) -> Any:
        def step(view: View) -> Change:
            assert view.request is not None
            seen.append(view.request.state)
            return Change(replace(view.request, state=state, version=view.request.version + 1))

        return step

    await store.transact(WORKSPACE, None, inserted(request))
    await store.transact(WORKSPACE, request.id, moves(State.APPROVED))
    await store.transact(WORKSPACE, request.id, moves(State.APPROVED))
    assert store._writer is not None
    store._writer.asks.forget(WORKSPACE, request.id)
    if how == "read anew":
        await store.request(WORKSPACE, request.id)
    await store.transact(WORKSPACE, request.id, moves(State.RUNNING))
    await store.transact(WORKSPACE, request.id, moves(State.DONE))
    assert seen == [State.PENDING, State.APPROVED, State.APPROVED, State.RUNNING]
