"""The PostgreSQL store: the contract, and what is particular to a server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from assentry.core.change import Change
from assentry.core.grant import use
from assentry.core.request import State
from assentry.errors import StoreBusy, StoreError
from assentry.ports import Filter, Store, View
from assentry.stores.listing import listing
from assentry.stores.postgres import PostgresStore
from assentry.stores.postgres.connect import translated
from assentry.stores.postgres.store import DIALECT
from assentry.stores.postgres.writes import SQL
from assentry.testing.store_contract import StoreContract
from assentry.testing.store_contract_log import noted
from assentry.testing.store_contract_proposals import turn_down, wait
from assentry.testing.store_contract_runs import parked
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import WORKSPACE, asked, grant, grants_step, identifier, inserted, moved, pending
from tests.postgres import beside


class TestPostgresStore(StoreContract):
    """The whole contract on PostgreSQL."""

    @pytest.fixture
    def place(self, postgres_emptied: str) -> str:
        return postgres_emptied

    @pytest.fixture
    def new_place(self, postgres_database: str) -> str:
        return postgres_database

    def make(self, place: Any) -> Store:
        return PostgresStore(place)

    def source(self, place: Any) -> str:
        return f"from assentry.stores.postgres import PostgresStore\nstore = PostgresStore({place!r})"

    async def damage(self, place: Any, table: str, column: str, value: str) -> None:
        with beside(place) as connection:
            connection.execute(f"UPDATE {table} SET {column} = %s", (value,))


@pytest.fixture
async def store(postgres_emptied: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(postgres_emptied)
    await made.open()
    yield made
    await made.close()


def one_line(error: BaseException, *words: str) -> None:
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)


def kill(url: str, which: str = "true") -> int:
    """Every other connection to this database is cut; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {which}"
        ).fetchall()
    return len(found)


async def test_an_address_that_is_none_is_refused_without_repeating_it() -> None:
    with pytest.raises(StoreError) as caught:
        PostgresStore("postgresql://user:SECRET@host/db?nonsense=1 2 3=")
    one_line(caught.value, "address")
    assert "SECRET" not in str(caught.value)


async def test_the_address_shows_no_user_and_no_password() -> None:
    store = PostgresStore("postgresql://somebody:SECRET@db.example.org:5433/assentry")
    assert store.address == "postgresql://db.example.org:5433/assentry"


async def test_a_database_or_a_user_that_does_not_exist_is_called_that(postgres_emptied: str) -> None:
    nowhere = urlunsplit(urlsplit(postgres_emptied)._replace(path="/nodb"))
    for url, says in (
        (nowhere, "there is no database at postgresql:///nodb?host=/"),
        (postgres_emptied.replace("postgres@", "nobody9@"), "does not know this user; create it with `createuser`"),
    ):
        with pytest.raises(StoreError) as caught:
            await PostgresStore(url).open()
        one_line(caught.value, says)
        assert "cannot be reached" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ('FATAL:  password authentication failed for user "u"', "check user and password"),
        ('FATAL:  Peer authentication failed for user "u"', "check user and password"),
        ("fe_sendauth: no password supplied", "check user and password"),
        ('FATAL:  no pg_hba.conf entry for host "::1", user "u", database "d"', "check user and password"),
        ("FATAL:  sorry, too many clients already", "takes no more connections"),
        ("FATAL:  the database system is starting up", "cannot be reached"),
        ("Connection refused", "cannot be reached"),
    ],
)
def test_a_server_that_lets_nobody_in_says_why_in_words_alone(said: str, means: str) -> None:
    error = psycopg.OperationalError(f'connection failed: connection to server on socket "/s" failed: {said}')
    assert error.sqlstate is None
    one_line(translated(error, "postgresql:///d"), "postgresql:///d", means)


async def test_a_server_that_is_not_there_is_named_at_once_and_tried_again() -> None:
    store = PostgresStore("postgresql://u:SECRET@127.0.0.1:1/db")
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            await store.request(WORKSPACE, "x")
        one_line(caught.value, "127.0.0.1:1", "cannot be reached")
        assert "SECRET" not in str(caught.value)
    with pytest.raises(StoreError):
        await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await store.close()


async def test_a_missing_database_is_named(postgres_url: str) -> None:
    store = PostgresStore(urlunsplit(urlsplit(postgres_url)._replace(path="/no_such_database")))
    with pytest.raises(StoreError) as caught:
        await store.open()
    one_line(caught.value, "no_such_database")
    await store.close()


async def test_a_backup_is_left_to_the_tool_of_the_server(store: PostgresStore) -> None:
    with pytest.raises(StoreError) as caught:
        await store.backup("copy.dump")
    one_line(caught.value, "pg_dump", "copy.dump")


async def test_after_every_connection_was_cut_reads_and_changes_go_on(
    store: PostgresStore, postgres_emptied: str
) -> None:
    for number in range(20):
        request = pending(asked(number))
        await store.transact(WORKSPACE, None, inserted(request))
        assert await asyncio.to_thread(kill, postgres_emptied)
        assert await store.request(WORKSPACE, request.id) == request
        await asyncio.to_thread(kill, postgres_emptied)
        hint = request if number % 2 else None
        change = await store.transact(WORKSPACE, request.id, moved(fence=number), hint=hint)
        assert change is not None
        assert await store.request(WORKSPACE, request.id) == change.request
        await asyncio.to_thread(kill, postgres_emptied)
    # Each change was made exactly once, whatever became of the connection that carried it.
    assert await store.sequence(WORKSPACE) == 40


async def test_connections_cut_while_many_commit_lose_and_double_nothing(
    store: PostgresStore, postgres_emptied: str
) -> None:
    told: list[int] = []
    cutting = asyncio.Lock()

    async def acknowledged_one(number: int) -> int:
        """Connections are cut after so many changes, not after so much time, so that some come through everywhere."""
        told.append(number)
        if len(told) % 15 == 7:
            async with cutting:  # or one would cut the other's connection
                await asyncio.to_thread(kill, postgres_emptied)
        return 1

    async def life(number: int) -> int:
        """How many changes of this request were acknowledged."""
        request = pending(asked(number), fence=0)
        done = 0
        with suppress(StoreError):
            change = await store.transact(WORKSPACE, None, inserted(request))
            done += await acknowledged_one(number)
            for turn in range(6):
                hint = change.request if change is not None and turn % 2 else None
                change = await store.transact(WORKSPACE, request.id, moved(fence=turn + 1), hint=hint)
                done += await acknowledged_one(number)
        return done

    acknowledged = await asyncio.gather(*(life(number) for number in range(30)))
    total = 0
    for number, count in enumerate(acknowledged):
        stored = await store.request(WORKSPACE, identifier(number))
        version = stored.version if stored is not None else 0
        # Whoever was told that the outcome is unknown stopped there; it may have taken effect.
        assert version in ((count,) if count == 7 else (count, count + 1))
        total += version
    assert await store.sequence(WORKSPACE) == total
    versions: dict[str, list[int]] = {}
    for line in await store.entries(WORKSPACE, limit=1000):
        said = json.loads(line.text)
        versions.setdefault(said["subject"], []).append(said["body"]["version"])
    assert all(found == list(range(1, len(found) + 1)) for found in versions.values())
    assert any(count == 7 for count in acknowledged)


class Cut:
    """Cuts the connection once, at a named statement: before the server has it, or after it has committed it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, statement: str, *, after: bool) -> None:
        self.left = 1
        execute = psycopg.Connection.execute

        def cutting(connection: Any, query: Any, *args: Any, **more: Any) -> Any:
            text = query.decode() if isinstance(query, bytes) else query
            if not self.left or statement not in text:
                return execute(connection, query, *args, **more)
            self.left = 0
            if after:
                execute(connection, query, *args, **more)
            connection.close()
            raise psycopg.OperationalError("the connection is lost")

        monkeypatch.setattr(psycopg.Connection, "execute", cutting)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("statement", ["insert", "assentry_commit", "clock_timestamp"])
async def test_a_commit_that_was_cut_is_cleared_up_and_made_exactly_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, statement: str, after: bool
) -> None:
    request = pending(asked(1), fence=0)
    if statement == "insert":
        cut = Cut(monkeypatch, "assentry_commit", after=after)
        change = await store.transact(WORKSPACE, None, inserted(request))
    else:
        await store.transact(WORKSPACE, None, inserted(request))
        cut = Cut(monkeypatch, statement, after=after)
        hint = request if statement == "assentry_commit" else None
        change = await store.transact(WORKSPACE, request.id, moved(fence=1), hint=hint)
    assert cut.left == 0
    assert change is not None
    assert await store.request(WORKSPACE, request.id) == change.request
    expected = 1 if statement == "insert" else 2
    assert change.request is not None
    assert change.request.version == expected
    assert await store.sequence(WORKSPACE) == expected


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("statement", ["BEGIN", "FOR UPDATE", "UPDATE grants", "assentry_commit", "COMMIT"])
async def test_a_commit_under_locks_that_was_cut_is_cleared_up_and_made_exactly_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, statement: str, after: bool
) -> None:
    await store.transact(WORKSPACE, None, grants_step(grant(1, limit=5)))

    def using(view: View) -> Change:
        change = inserted(pending(asked(1), state=State.RUNNING))(view)
        assert change is not None
        return replace(change, grants=(use(view.grants[0], None, view.now),))

    cut = Cut(monkeypatch, statement, after=after)
    change = await store.transact(WORKSPACE, None, using, grants=("grant-0001",))
    assert cut.left == 0
    assert change is not None
    assert await store.request(WORKSPACE, identifier(1)) == change.request
    assert [found.used for found in await store.grants(WORKSPACE)] == [1]
    assert await store.sequence(WORKSPACE) == 2


@pytest.mark.parametrize("after", [False, True])
async def test_a_cut_commit_without_a_request_is_not_tried_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    cut = Cut(monkeypatch, "COMMIT", after=after)
    with pytest.raises(StoreError) as caught:
        await store.transact(WORKSPACE, None, grants_step(grant(1)))
    one_line(caught.value, "unknown")
    assert cut.left == 0
    assert len(await store.grants(WORKSPACE)) == (1 if after else 0)
    assert await store.sequence(WORKSPACE) == (1 if after else 0)


@pytest.mark.parametrize("after", [False, True])
async def test_recorded_entries_whose_commit_was_cut_are_written_exactly_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    cut = Cut(monkeypatch, "assentry_commit", after=after)
    for number in range(5):
        store.record(partial(noted, number))
    with pytest.raises(StoreError):
        await store.flush()
    assert cut.left == 0
    for number in range(5, 8):
        store.record(partial(noted, number))
    await store.flush()
    assert await store.sequence(WORKSPACE) == 8
    logged = await store.entries(WORKSPACE)
    assert [json.loads(line.text)["body"]["number"] for line in logged] == list(range(8))


async def test_the_listener_finds_its_way_back_and_says_that_it_may_have_missed_something(
    store: PostgresStore, postgres_emptied: str
) -> None:
    heard: list[Any] = []
    told = Heard()
    store.watch(told)  # first, so that it hears of the beginning
    store.watch(heard.append)
    await told.until(lambda h: h.calls > 0)
    for turn in range(3):
        before = heard.count(None)
        assert await asyncio.to_thread(kill, postgres_emptied, "query = 'LISTEN assentry'") == 1
        for _ in range(400):
            if heard.count(None) > before:
                break
            await asyncio.sleep(0.01)
        assert heard.count(None) > before
        other = PostgresStore(postgres_emptied)
        await other.transact(WORKSPACE, None, inserted(pending(asked(turn))))
        await other.close()
        await told.until(lambda h, n=turn: identifier(n) in h.versions)  # type: ignore[misc]


async def test_our_own_commits_are_told_once(store: PostgresStore) -> None:
    heard: list[Any] = []
    told = Heard()
    store.watch(told)
    await told.until(lambda h: h.calls > 0)
    store.watch(heard.append)
    for number in range(10):
        await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
    await asyncio.sleep(0.2)
    assert sorted(key for news in heard for key in news or {}) == [identifier(number) for number in range(10)]


async def test_a_row_held_for_too_long_means_busy(store: PostgresStore, postgres_emptied: str) -> None:
    impatient = PostgresStore(postgres_emptied, busy_seconds=0.2)
    request = pending(asked(1))
    await impatient.transact(WORKSPACE, None, inserted(request))
    with psycopg.connect(postgres_emptied) as holder:
        holder.execute("SELECT 1 FROM assentry_data.requests FOR UPDATE")
        for hint in (None, request):
            with pytest.raises(StoreBusy) as caught:
                await impatient.transact(WORKSPACE, request.id, moved(state=State.DENIED), hint=hint)
            one_line(caught.value)
        await impatient.transact(WORKSPACE, None, inserted(pending(asked(2))))
    await impatient.transact(WORKSPACE, request.id, moved(state=State.DENIED))
    await impatient.close()


async def test_a_decision_in_one_round_trip_is_refused_when_its_deadline_passes_meanwhile(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_at = await store.now() + timedelta(milliseconds=150)
    request = pending(asked(1), due_at=due_at)
    await store.transact(WORKSPACE, None, inserted(request))
    assert store._room is not None
    clock = store._room.connector.clock
    late: list[bool] = []

    def step(view: Any) -> Any:
        late.append(view.now >= view.request.due_at)
        return moved(state=State.EXPIRED if late[-1] else State.APPROVED, due_at=None)(view)

    await asyncio.sleep(0.2)
    # A clock that is far behind would believe that there is time left; the statement does not.
    monkeypatch.setattr(clock, "now", lambda: due_at - timedelta(seconds=1))
    change = await store.transact(WORKSPACE, request.id, step, hint=request)
    assert change is not None
    assert change.request is not None
    assert change.request.state is State.EXPIRED
    assert late == [False, True]


async def test_a_clock_that_is_ahead_does_not_let_a_deadline_pass_early(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = await store.now() + timedelta(seconds=60)
    request = pending(asked(1), state=State.DONE, undo_until=until)
    await store.transact(WORKSPACE, None, inserted(request))
    assert store._room is not None
    monkeypatch.setattr(store._room.connector.clock, "now", lambda: until + timedelta(seconds=1))
    step_late: list[bool] = []

    def step(view: Any) -> Any:
        step_late.append(view.now >= view.request.undo_until)
        return moved(error="too late" if step_late[-1] else "")(view)

    change = await store.transact(WORKSPACE, request.id, step, hint=request)
    assert change is not None
    assert change.request is not None
    assert change.request.error == ""
    assert step_late == [True, False]


async def test_one_refused_write_in_a_group_does_not_take_the_others_with_it(store: PostgresStore) -> None:
    await store.transact(WORKSPACE, None, inserted(pending(asked(1, run="run", step="step"))))
    results = await asyncio.gather(
        *(
            store.transact(WORKSPACE, None, inserted(pending(asked(n, run="run", step="step" if n == 20 else f"s{n}"))))
            for n in range(2, 40)
        ),
        return_exceptions=True,
    )
    assert [type(result).__name__ for result in results if isinstance(result, BaseException)] == ["DuplicateStep"]
    assert await store.sequence(WORKSPACE) == 38


async def test_no_list_reads_the_whole_table(store: PostgresStore, postgres_emptied: str) -> None:
    with beside(postgres_emptied) as connection:
        # Enough rows that a scan would be chosen if no index fitted; made directly, for speed.
        await store.transact(WORKSPACE, None, inserted(pending(asked(0))))
        connection.execute(
            "INSERT INTO requests (workspace, id, version, token, state, urgency, gate, kind, agent, action, run, step, "
            "code, executor, review, word, runnable, ended, purged, due_at, changed_at, callers, body) "
            "SELECT workspace, 'x' || n, 1, '', CASE WHEN n % 3 = 0 THEN 'pending' ELSE 'done' END, n % 4, gate, kind, "
            "'agent' || n % 50, 'act' || n % 50, 'run' || n / 10, 's' || n, 'C' || n, executor, 'none', '', false, "
            "n % 3 > 0, false, CASE WHEN n % 2 = 0 THEN now() + n * interval '1 second' ELSE due_at END, now(), "
            "CASE WHEN n % 3 = 0 THEN 'process' || n % 5 ELSE '' END, body "
            "FROM requests, generate_series(1, 20000) n"
        )
        connection.execute(
            "INSERT INTO asks SELECT r.workspace, r.id, 't', a.body FROM requests r, asks a WHERE r.id <> a.id"
        )
        connection.execute("ANALYZE")
        for wanted in (
            Filter(states=(State.PENDING,)),
            Filter(states=(State.PENDING,), risk="risky"),
            Filter(states=(State.PENDING,), agent="agent7"),
            Filter(),
            Filter(states=(State.DONE,)),
            Filter(states=(State.DONE, State.RUNNING)),
            Filter(run="run77"),
            Filter(review_open=True),
        ):
            query = listing(WORKSPACE, wanted, "", 50, DIALECT)
            plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query.sql}".encode(), query.values))
            assert "Seq Scan" not in plan, plan
        values = {
            "workspace": WORKSPACE, "limit": 50, "actions": ["act7"], "id": "x1", "prefix": "C1", "beyond": "C2",
            "run": "run7", "step": "s70", "start": 0, "subject": "x1",
        }  # fmt: skip
        for name in ("due", "next_due", "runnable", "look", "find", "by_step", "policy", "next_index", "has_fresh"):
            plan = "\n".join(row[0] for row in connection.execute(b"EXPLAIN " + SQL[name], values))
            assert "Seq Scan on requests" not in plan, plan
        # Only what has run shows how each step to the next process is made.
        ran = connection.execute(b"EXPLAIN ANALYZE " + SQL["named_callers"], values).fetchall()
        plan = "\n".join(row[0] for row in ran)
        assert plan.count("Index Only Scan using requests_callers") == 2, plan
        assert "Scan on requests" not in plan, plan
        found = connection.execute(SQL["named_callers"], values).fetchall()
        assert found == [(f"process{n}",) for n in range(5)]


async def test_two_stores_in_one_process_see_each_other(store: PostgresStore, postgres_emptied: str) -> None:
    other = PostgresStore(postgres_emptied)
    heard = Heard()
    other.watch(heard)
    await heard.until(lambda h: h.calls > 0)
    await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await heard.until(lambda h: identifier(1) in h.versions)
    await other.close()


async def test_what_ends_a_deadlock_is_made_again(store: PostgresStore, postgres_emptied: str) -> None:
    """A decision holds its request and wants the run that it wakes; somebody else holds the run and wants the request."""
    await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await parked(store, 11, identifier(1))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with beside(postgres_emptied) as other, beside(postgres_emptied) as watch:
        other.autocommit = False
        other.execute("SET deadlock_timeout = '60s'")  # the store is the one that is ended
        other.execute("SELECT 1 FROM runs WHERE id = %s FOR UPDATE", (identifier(11),))
        deciding = asyncio.create_task(store.transact(WORKSPACE, identifier(1), moved(state=State.DENIED)))
        while watch.execute(waits).fetchone() == (0,):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(other.execute, "SELECT 1 FROM requests WHERE id = %s FOR UPDATE", (identifier(1),))
        other.rollback()
        change = await deciding
    assert change is not None
    found = await store.request(WORKSPACE, identifier(1))
    assert found is not None
    assert found.state is State.DENIED


@pytest.mark.parametrize(
    "statement",
    ["UPDATE entries SET text = ''", "UPDATE entries SET idx = 5", "DELETE FROM entries", "TRUNCATE entries"],
)
async def test_nobody_rewrites_the_log(store: PostgresStore, postgres_emptied: str, statement: str) -> None:
    await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await store.sequence(WORKSPACE)
    with beside(postgres_emptied) as owner, pytest.raises(psycopg.Error, match="never changed or deleted"):
        owner.execute(statement.encode())


async def test_nobody_makes_a_proposed_policy_wait_again(store: PostgresStore, postgres_emptied: str) -> None:
    await wait(store)
    await turn_down(store)
    with beside(postgres_emptied) as owner, pytest.raises(psycopg.Error, match="only ends"):
        owner.execute("UPDATE proposals SET state = 'waiting'")
