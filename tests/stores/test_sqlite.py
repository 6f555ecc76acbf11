"""The SQLite store: the contract, and what is particular to a file."""

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from assentry.core.audit import Entry
from assentry.core.request import State
from assentry.errors import StoreBusy, StoreError, StoreFull
from assentry.ports import Store
from assentry.stores.sqlite import SqliteStore, connect
from assentry.stores.sqlite.watch import Watcher
from assentry.testing.store_contract import StoreContract
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import WORKSPACE, asked, candidate, identifier, inserted, moved, pending


class TestSqliteStore(StoreContract):
    """The whole contract on SQLite."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path / "assentry.db"

    def make(self, place: Any) -> Store:
        return SqliteStore(place)

    def source(self, place: Any) -> str:
        return f"from assentry.stores.sqlite import SqliteStore\nstore = SqliteStore({str(place)!r})"

    async def damage(self, place: Any, table: str, column: str, value: str) -> None:
        connection = apsw.Connection(str(place))
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "assentry.db"


@pytest.fixture
async def store(path: Path) -> Any:
    store = SqliteStore(path, busy_seconds=0.3)
    await store.open()
    yield store
    await store.close()


def written(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def content_of(file: Path) -> bytes:
    return file.read_bytes()


def one_line(error: BaseException, *words: str) -> None:
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)


async def test_every_file_is_for_its_owner_alone(path: Path) -> None:
    mask = os.umask(0)
    try:
        store = SqliteStore(path)
        await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
        await store.backup(str(path.with_name("copy.db")))
        names = sorted(file.name for file in path.parent.iterdir() if file.is_file())
        assert names == ["assentry.db", "assentry.db-shm", "assentry.db-wake", "assentry.db-wal", "copy.db"]
        assert {stat.S_IMODE((path.parent / name).stat().st_mode) for name in names} == {0o600}
        await store.close()
    finally:
        os.umask(mask)


async def test_the_settings_that_durability_rests_on_are_read_back(path: Path) -> None:
    writer = connect.open_writer(path, 1)
    assert writer.pragma("journal_mode") == "wal"
    assert writer.pragma("synchronous") == 2
    assert writer.pragma("foreign_keys") == 1
    assert writer.pragma("busy_timeout") == 1000
    reader = connect.open_reader(path, 1)
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("DELETE FROM about")
    writer.close()
    reader.close()


async def test_a_setting_that_is_not_taken_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connect._SETTINGS, "synchronous", 17)
    with pytest.raises(StoreError) as caught:
        await SqliteStore(path).open()
    one_line(caught.value, "synchronous")


async def test_a_missing_directory_is_named_with_a_remedy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "nowhere" / "assentry.db")
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            await store.request(WORKSPACE, "x")
        one_line(caught.value, "nowhere", "create it")
    (tmp_path / "nowhere").mkdir()
    assert await store.request(WORKSPACE, "x") is None
    await store.close()


async def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await SqliteStore(tmp_path).open()
    one_line(caught.value, "is a directory")


def test_memory_is_no_place_for_a_store() -> None:
    with pytest.raises(StoreError):
        SqliteStore(":memory:")


@pytest.mark.parametrize(
    "content", [b"this is a text file, and long enough to be looked at" * 50, b"SQLite format 3\0" + b"x" * 5000]
)
async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    written(path, content)
    with pytest.raises(StoreError) as caught:
        await SqliteStore(path).open()
    one_line(caught.value, str(path))
    assert content_of(path) == content


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_named_with_a_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError) as caught:
            asyncio.run(SqliteStore(tmp_path / "assentry.db").open())
        one_line(caught.value, "writable")
    finally:
        tmp_path.chmod(0o700)


async def test_another_process_that_holds_the_lock_means_busy_after_the_timeout(store: SqliteStore, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    store.record(lambda: Entry("call.ran", datetime.now(UTC), WORKSPACE, "call", "cleanup"))
    started = asyncio.get_running_loop().time()
    results = await asyncio.gather(
        *(store.transact(WORKSPACE, None, inserted(pending(asked(number)))) for number in range(5)),
        return_exceptions=True,
    )
    assert asyncio.get_running_loop().time() - started >= 0.25
    assert all(isinstance(result, StoreBusy) for result in results)
    one_line(results[0], str(path))
    assert await store.request(WORKSPACE, identifier(1)) is None
    other.execute("ROLLBACK")
    await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    # What was recorded meanwhile was kept and is there now.
    assert await store.sequence(WORKSPACE) == 2
    other.close()


async def test_a_full_database_refuses_and_works_again_when_there_is_space(store: SqliteStore) -> None:
    big = inserted(pending(asked(1, shown=candidate("say", {"text": "x" * 500_000}))))

    def limit(pages: int) -> Any:
        return store._write(lambda transaction: transaction.connection.pragma("max_page_count", pages))

    await limit(60)
    with pytest.raises(StoreFull) as caught:
        await store.transact(WORKSPACE, None, big)
    one_line(caught.value, "nothing was changed")
    results = await asyncio.gather(
        store.transact(WORKSPACE, None, big),
        *(store.transact(WORKSPACE, None, inserted(pending(asked(number)))) for number in (2, 3)),
        return_exceptions=True,
    )
    assert isinstance(results[0], StoreFull)
    for number, result in zip((2, 3), results[1:], strict=True):
        stored = await store.request(WORKSPACE, identifier(number))
        assert (stored is None) == isinstance(result, BaseException)
    await limit(1_000_000)
    await store.transact(WORKSPACE, None, big)
    assert await store.request(WORKSPACE, identifier(1)) is not None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes, where this machine lets us mount one."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_full_disk_refuses_loses_nothing_and_works_again(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "assentry.db")
    await store.open()
    ballast = small_disk / "ballast"
    written(ballast, b"x" * 900_000)
    done = []

    async def fill() -> None:
        for number in range(1000):
            await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
            done.append(number)

    with pytest.raises(StoreFull) as caught:
        await fill()
    one_line(caught.value)
    for number in done:
        assert await store.request(WORKSPACE, identifier(number)) is not None
    assert await store.request(WORKSPACE, identifier(len(done))) is None
    ballast.unlink()
    await store.transact(WORKSPACE, None, inserted(pending(asked(5000))))
    assert await store.sequence(WORKSPACE) == len(done) + 1
    await store.close()


WRITER = """
import asyncio, sys
from assentry.stores.sqlite import SqliteStore
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending
async def main():
    store = SqliteStore(sys.argv[1])
    number = iter(range(int(sys.argv[2]), 10**9))
    async def writer():
        for n in number:
            await store.transact(WORKSPACE, None, inserted(pending(asked(n))))
            print(n, flush=True)
    await asyncio.gather(*(writer() for _ in range(8)))
asyncio.run(main())
"""


def killed_after(count: int, path: Path, start: int) -> list[int]:
    """What a writer had acknowledged when it was killed, a little after its `count`th."""
    command = [sys.executable, "-c", WRITER, str(path), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = [int(process.stdout.readline()) for _ in range(count)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    return first + [int(line) for line in re.findall(r"^\d+(?=\n)", rest, re.MULTILINE)]


async def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(path: Path) -> None:
    acknowledged: list[int] = []
    for turn in range(4):
        acknowledged += await asyncio.to_thread(killed_after, 40 + 13 * turn, path, turn * 100_000)
    store = SqliteStore(path)
    for number in acknowledged:
        assert await store.request(WORKSPACE, identifier(number)) is not None
    size = await store.sequence(WORKSPACE)
    assert size >= len(acknowledged)
    logged = await store.entries(WORKSPACE, limit=size + 1)
    assert [line.index for line in logged] == list(range(size))
    await store.close()


async def test_a_process_is_not_woken_by_its_own_commits(store: SqliteStore, path: Path) -> None:
    told = Heard()
    store.watch(told)
    await told.until(lambda heard: heard.calls > 0)
    for number in range(5):
        await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
    await told.until(lambda heard: len(heard.versions) == 5)
    assert content_of(path.with_name("assentry.db-wake")) == b""
    other = SqliteStore(path)
    heard_there = Heard()
    other.watch(heard_there)
    await heard_there.until(lambda heard: heard.calls > 0)
    await store.transact(WORKSPACE, None, inserted(pending(asked(9))))
    # Well before the sweep that would find it anyway.
    await heard_there.until(lambda heard: identifier(9) in heard.versions, seconds=1.5)
    assert content_of(path.with_name("assentry.db-wake")) == b"\1"
    await other.close()


async def test_many_threads_read_one_request_at_once(store: SqliteStore) -> None:
    request = pending(asked(1))
    await store.transact(WORKSPACE, None, inserted(request))

    def look() -> None:
        async def main() -> None:
            for _ in range(50):
                assert await store.request(WORKSPACE, request.id) == request
                assert await store.request(WORKSPACE, identifier(2)) is None

        asyncio.run(main())

    await asyncio.gather(*(asyncio.to_thread(look) for _ in range(4)))


async def test_a_backup_is_a_whole_database_and_leaves_nothing_else(store: SqliteStore, path: Path) -> None:
    for number in range(20):
        await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
    target = path.with_name("copy.db")
    await asyncio.gather(
        store.backup(str(target)),
        *(store.transact(WORKSPACE, None, inserted(pending(asked(number)))) for number in range(20, 40)),
    )
    await store.backup(str(target))
    copy = SqliteStore(target)
    assert await copy.sequence(WORKSPACE) == 40
    assert await copy.identity() == await store.identity()
    await copy.close()
    assert not [file for file in path.parent.iterdir() if "part" in file.name]
    with pytest.raises(StoreError) as caught:
        await store.backup(str(path.parent / "nowhere" / "copy.db"))
    one_line(caught.value, "nowhere")


async def test_a_store_that_was_forked_says_so(path: Path) -> None:
    program = f"""
import asyncio, os
from assentry.errors import StoreError
from assentry.stores.sqlite import SqliteStore
store = SqliteStore({str(path)!r})
asyncio.run(store.open())
if os.fork() == 0:
    try:
        asyncio.run(store.identity())
    except StoreError as error:
        os._exit(7 if "fork" in str(error) else 1)
    os._exit(0)
_, status = os.wait()
assert os.waitstatus_to_exitcode(status) == 7, status
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-W", "ignore", "-c", program], check=True, timeout=30)


async def test_what_was_recorded_is_written_when_the_interpreter_ends(path: Path) -> None:
    program = f"""
import datetime
from assentry.core.audit import Entry
from assentry.stores.sqlite import SqliteStore
store = SqliteStore({str(path)!r})
store.record(lambda: Entry("call.ran", datetime.datetime.now(datetime.timezone.utc), "main", "x", "y"))
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=True, timeout=30)
    store = SqliteStore(path)
    assert await store.sequence(WORKSPACE) == 1
    await store.close()


async def test_entries_cannot_be_changed_or_deleted(store: SqliteStore, path: Path) -> None:
    await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    other = apsw.Connection(str(path))
    for statement in ("UPDATE entries SET text = ''", "DELETE FROM entries"):
        with pytest.raises(apsw.ConstraintError):
            other.execute(statement)
    other.close()


async def test_a_row_changed_by_another_process_is_read_anew(store: SqliteStore, path: Path) -> None:
    request = pending(asked(1))
    await store.transact(WORKSPACE, None, inserted(request))
    for turn in range(3):
        await store.transact(WORKSPACE, request.id, moved(fence=turn))
        other = SqliteStore(path)
        await other.transact(WORKSPACE, request.id, moved(worker=f"other {turn}"))
        await other.close()
    change = await store.transact(WORKSPACE, request.id, moved(state=State.DENIED))
    assert change is not None
    assert change.request is not None
    assert (change.request.worker, change.request.fence, change.request.version) == ("other 2", 2, 8)
    assert await store.sequence(WORKSPACE) == 8


async def test_a_store_that_is_closed_before_its_watcher_looks_ends_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "assentry.db")
    await store.open()
    writer = store._writer
    assert writer is not None

    def late(path: Path, busy_seconds: float) -> apsw.Connection:
        writer.stop()
        writer.thread.join()
        return connect.open_reader(path, busy_seconds)

    monkeypatch.setattr("assentry.stores.sqlite.watch.open_reader", late)
    watcher = Watcher(tmp_path / "assentry.db", 1, lambda _: None, writer)
    await asyncio.to_thread(watcher.thread.join)
    watcher.stop()
    assert not caplog.records


@pytest.mark.parametrize("table", ["checkpoints (thread_id TEXT)", "migrations (id INTEGER)"])
async def test_a_file_with_another_programs_tables_is_refused_and_left_as_it_is(path: Path, table: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f"CREATE TABLE {table}")
    with pytest.raises(StoreError, match="another program") as caught:
        await SqliteStore(path).open()
    assert "name another file" in str(caught.value)
    assert [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")] == [table.split()[0]]
    connection.close()
