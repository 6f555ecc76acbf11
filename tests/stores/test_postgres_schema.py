"""Our schema on PostgreSQL: nothing outside it is ours, nothing outside it reaches us, and what to do without the right."""

import asyncio
import os
import re
import secrets
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest

import assentry
from assentry.assemble import desk
from assentry.core.decision import Approve, Cancel, Decided
from assentry.core.request import State
from assentry.errors import StoreError
from assentry.ports import Filter
from assentry.settings import load
from assentry.stores.postgres import PostgresStore
from assentry.testing.store_contract_log import policy_entry
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending
from tests.postgres import beside, find_binaries
from tests.stage import PATIENCE
from tests.stores.logins import as_login, ask_for, happen, owner_login, propose

TABLES = (
    "about", "asks", "callers", "checkpoints", "credentials", "entries", "grants", "migrations", "policies", "proposals", "requests",
    "runs", "snapshots", "switches", "waits",
)  # fmt: skip

TRAPS = """
CREATE FUNCTION {0}.trap(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
CREATE OPERATOR {0}.= (LEFTARG = text, RIGHTARG = text, FUNCTION = {0}.trap);
CREATE FUNCTION {0}.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
CREATE FUNCTION {0}.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
CREATE FUNCTION {0}.assentry_commit(jsonb, OUT done boolean[], OUT clock timestamptz)
    LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
"""
PATH = "evil,pg_catalog,public"


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def schemas(url: str) -> set[str]:
    """Every schema with something in it that is not the system's."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT DISTINCT nspname FROM pg_namespace n WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' "
            "AND EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid)"
        )
        return {str(name) for (name,) in found}


async def test_everything_of_ours_is_in_our_schema(postgres_database: str) -> None:
    store = PostgresStore(postgres_database)
    await store.open()
    await store.close()
    assert schemas(postgres_database) == {"assentry_data"}
    with beside(postgres_database) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'assentry_data'").fetchall()
        assert sorted(name for (name,) in found) == list(TABLES)
        pinned = connection.execute(
            "SELECT DISTINCT proconfig FROM pg_proc WHERE pronamespace = 'assentry_data'::regnamespace"
        ).fetchall()
        assert pinned == [(["search_path=assentry_data,pg_temp"],)]


async def life(url: str) -> None:
    """A call is held, approved and run; the log is sealed and verified."""
    gate = await asyncio.to_thread(assentry.open, url)

    @gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> int:
        return len(files)

    place = await desk(load({"database": url}))
    async with gate.run("Tidy up"):
        call = asyncio.create_task(delete_files(["a", "b"]))
        async with asyncio.timeout(PATIENCE):
            while not (found := (await place.inbox.page(Filter(states=(State.PENDING,)))).requests):
                await asyncio.sleep(0.01)
            await place.inbox.approve(place.person(), found[0].id)
            assert await call == 2
    await gate.close()
    assert await place.notary.seal() is not None
    assert (await place.notary.verify()).ok
    await place.store.close()


@pytest.mark.parametrize("where", ["login", "database", "address", "environment"])
async def test_whatever_search_path_is_set_nothing_outside_our_schema_is_reached(
    where: str, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = owner_login(postgres_database, "somebody")
    execute(postgres_database, "CREATE SCHEMA evil", "GRANT USAGE ON SCHEMA evil TO PUBLIC")
    for schema in ("evil", "public"):
        execute(postgres_database, TRAPS.format(schema), *(f"CREATE TABLE {schema}.{table} ()" for table in TABLES))
    name = urlsplit(postgres_database).path[1:]
    match where:
        case "login":
            execute(postgres_database, f"ALTER ROLE somebody IN DATABASE {name} SET search_path = {PATH}")
        case "database":
            execute(postgres_database, f"ALTER DATABASE {name} SET search_path = {PATH}")
        case "address":
            url = f"{url}&options={quote(f'-csearch_path={PATH}')}"
        case _:
            monkeypatch.setenv("PGOPTIONS", f"-csearch_path={PATH}")
    await life(url)
    await life(url)
    with beside(postgres_database) as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone() == (2,)


@contextmanager
def pool(url: str, *, refuses: bool) -> Iterator[str]:
    """The address of something between us and the server that drops what a connection asks for, or refuses it."""
    parts = urlsplit(url)
    server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def served(client: socket.socket) -> None:
        (length,) = struct.unpack("!I", client.recv(4, socket.MSG_WAITALL))
        said = client.recv(length - 4, socket.MSG_WAITALL)
        words = said[4:].rstrip(b"\0").split(b"\0")
        kept = [pair for pair in zip(words[::2], words[1::2], strict=True) if pair[0] != b"options"]
        if refuses:
            said = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter in options: search_path\0\0"
            client.sendall(b"E" + struct.pack("!I", len(said) + 4) + said)
            client.close()
            return
        body = said[:4] + b"".join(name + b"\0" + value + b"\0" for name, value in kept) + b"\0"
        with client, socket.socket(socket.AF_UNIX) as behind:
            behind.connect(server)
            behind.sendall(struct.pack("!I", len(body) + 4) + body)
            back = threading.Thread(target=pass_on, args=(behind, client), daemon=True)
            back.start()
            pass_on(client, behind)
            back.join()

    def accepting() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=served, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accepting, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    yield f"postgresql://postgres@127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_pool_that_drops_the_search_path_is_refused(postgres_database: str, refuses: bool) -> None:
    first = PostgresStore(postgres_database)
    await first.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await first.close()
    with pool(postgres_database, refuses=refuses) as url:
        store = PostgresStore(url)
        for attempt in (store.open(), store.transact(WORKSPACE, None, inserted(pending(asked(2))))):
            with pytest.raises(StoreError, match="PgBouncer") as caught:
                await attempt
            assert "\n" not in str(caught.value)
        await store.close()
    assert schemas(postgres_database) == {"assentry_data"}


def remedy(error: BaseException) -> str:
    """The statement that the message says to run."""
    found = re.search(r"run ((?:GRANT|ALTER) .+), then try again", str(error))
    assert found is not None, str(error)
    assert "\n" not in str(error)
    return found[1]


async def test_what_to_grant_is_said_and_then_suffices(postgres_database: str) -> None:
    name = f"Odd {secrets.token_hex(4)}"
    execute(postgres_database, f'CREATE ROLE "{name}" LOGIN')
    url = as_login(postgres_database, quote(name))
    with pytest.raises(StoreError) as caught:
        await PostgresStore(url).open()
    assert remedy(caught.value).startswith("GRANT CREATE ON DATABASE")
    execute(postgres_database, remedy(caught.value))
    await life(url)
    execute(postgres_database, f'DROP OWNED BY "{name}" CASCADE', f'DROP ROLE "{name}"')


async def test_a_schema_made_for_us_is_used_once_we_may_create_tables_in_it(postgres_database: str) -> None:
    name = f"u_{secrets.token_hex(4)}"
    execute(postgres_database, f"CREATE ROLE {name} LOGIN", "CREATE SCHEMA assentry_data")
    url = as_login(postgres_database, name)
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            await PostgresStore(url).open()
        assert remedy(caught.value) == f"GRANT USAGE, CREATE ON SCHEMA assentry_data TO {name}"
        execute(postgres_database, f"GRANT USAGE ON SCHEMA assentry_data TO {name}")
    execute(postgres_database, remedy(caught.value))
    await life(url)


async def test_a_schema_of_somebody_else_is_not_used(postgres_database: str) -> None:
    other, name = f"o_{secrets.token_hex(4)}", f"u_{secrets.token_hex(4)}"
    execute(postgres_database, f"CREATE ROLE {other} LOGIN", f"CREATE ROLE {name} LOGIN")
    execute(postgres_database, f"CREATE SCHEMA assentry_data AUTHORIZATION {other}")
    execute(postgres_database, f"GRANT USAGE, CREATE ON SCHEMA assentry_data TO {name}")
    url = as_login(postgres_database, name)
    with pytest.raises(StoreError, match=other) as caught:
        await PostgresStore(url).open()
    execute(postgres_database, remedy(caught.value))
    await life(url)


SQUATTED = (
    "CREATE FUNCTION {0}.taken() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN CREATE ROLE {1}_taken; RETURN NEW; END$$",
    "CREATE TRIGGER taken BEFORE INSERT ON assentry_data.requests FOR EACH ROW EXECUTE FUNCTION {0}.taken()",
)


@pytest.mark.parametrize("opener", ["superuser", "owner"])
async def test_what_a_lesser_login_set_up_is_not_run_with_greater_rights(opener: str, postgres_database: str) -> None:
    name = f"m_{secrets.token_hex(4)}"
    url = owner_login(postgres_database, "somebody") if opener == "owner" else postgres_database
    execute(postgres_database, f"CREATE ROLE {name} LOGIN")
    execute(postgres_database, f"GRANT CREATE ON DATABASE {urlsplit(postgres_database).path[1:]} TO {name}")
    theirs = as_login(postgres_database, name)
    await life(theirs)
    execute(theirs, *(each.format("assentry_data", name) for each in SQUATTED))
    store = PostgresStore(url)
    with pytest.raises(StoreError, match=f"open it with the login {name}") as caught:
        await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await store.close()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["assentry_data", "public"])
async def test_a_function_of_a_lesser_login_in_our_schema_or_in_a_trigger_of_it_is_refused(
    place: str, postgres_database: str
) -> None:
    name = f"m_{secrets.token_hex(4)}"
    await life(postgres_database)
    execute(postgres_database, f"CREATE ROLE {name} LOGIN", f"GRANT CREATE, USAGE ON SCHEMA {place} TO {name}")
    execute(postgres_database, f"GRANT USAGE ON SCHEMA assentry_data TO {name}")
    execute(postgres_database, f"GRANT TRIGGER ON assentry_data.requests TO {name}")
    execute(as_login(postgres_database, name), *(each.format(place, name) for each in SQUATTED))
    with pytest.raises(StoreError, match=f"belongs to {name}"):
        await PostgresStore(postgres_database).open()
    execute(postgres_database, f"DROP OWNED BY {name} CASCADE")
    await life(postgres_database)


async def test_what_the_owner_of_the_database_set_up_is_opened_by_an_administrator(postgres_database: str) -> None:
    await life(owner_login(postgres_database, "somebody"))
    await life(postgres_database)


@pytest.mark.parametrize(
    "thing", ["TABLE assentry_data.requests ()", "FUNCTION assentry_data.now() RETURNS int LANGUAGE sql AS 'SELECT 1'"]
)
async def test_a_schema_with_something_in_it_is_not_used(postgres_database: str, thing: str) -> None:
    execute(postgres_database, "CREATE SCHEMA assentry_data", f"CREATE {thing}")
    with pytest.raises(StoreError, match="that Assentry did not make") as caught:
        await PostgresStore(postgres_database).open()
    assert "\n" not in str(caught.value)
    with psycopg.connect(postgres_database) as connection:
        assert connection.execute("SELECT to_regclass('assentry_data.migrations')").fetchone() == (None,)


@pytest.mark.parametrize("who", ["PUBLIC", "evil"])
async def test_a_schema_in_which_others_may_create_something_is_refused(postgres_database: str, who: str) -> None:
    with suppress(psycopg.errors.DuplicateObject):
        execute(postgres_database, "CREATE ROLE evil LOGIN")
    url = owner_login(postgres_database, "somebody")
    grant = f"GRANT CREATE ON SCHEMA assentry_data TO {who}"
    execute(postgres_database, "CREATE SCHEMA assentry_data AUTHORIZATION somebody", grant)
    for _ in ("before it is set up", "afterwards"):
        with pytest.raises(StoreError, match=f"REVOKE CREATE ON SCHEMA assentry_data FROM {who}"):
            await PostgresStore(url).open()
        execute(postgres_database, f"REVOKE CREATE ON SCHEMA assentry_data FROM {who}")
        await life(url)
        execute(postgres_database, grant)
    execute(postgres_database, f"REVOKE CREATE ON SCHEMA assentry_data FROM {who}")


async def test_a_function_of_a_better_fitting_type_is_not_called_in_place_of_the_systems(
    postgres_database: str,
) -> None:
    url = owner_login(postgres_database, "somebody")
    await life(url)
    execute(
        postgres_database,
        "CREATE FUNCTION assentry_data.hashtextextended(text, int) RETURNS bigint LANGUAGE plpgsql "
        "AS 'BEGIN RAISE EXCEPTION ''trapped''; END'",
    )
    execute(postgres_database, "ALTER FUNCTION assentry_data.hashtextextended(text, int) OWNER TO somebody")
    await life(url)
    store = PostgresStore(url)
    await store.apply_policy(WORKSPACE, "text", "alice", policy_entry)
    await store.sequence(WORKSPACE)
    await store.close()


async def test_another_login_is_told_which_one_to_use(postgres_database: str) -> None:
    store = PostgresStore(postgres_database)
    await store.open()
    name = f"u_{secrets.token_hex(4)}"
    execute(postgres_database, f"CREATE ROLE {name} LOGIN")
    with pytest.raises(
        StoreError, match=f"{name} may not use the tables of Assentry .+ use the login that owns"
    ) as caught:
        await PostgresStore(as_login(postgres_database, name)).open()
    assert "\n" not in str(caught.value)
    await store.close()


async def test_many_open_a_new_database_at_once(postgres_database: str) -> None:
    stores = [PostgresStore(postgres_database) for _ in range(6)]
    assert len(set(await asyncio.gather(*(store.identity() for store in stores)))) == 1
    for store in stores:
        await store.close()


async def test_our_schema_alone_is_backed_up_and_restored_beside_what_others_have(
    postgres_database: str, tmp_path: Path
) -> None:
    execute(postgres_database, "CREATE TABLE public.checkpoints AS SELECT 1 AS theirs")
    store = PostgresStore(postgres_database)
    request = await propose(store, ask_for(1))
    with pytest.raises(StoreError) as caught:
        await store.backup(str(tmp_path / "ours.dump"))
    await store.close()
    words = re.search(r"`(pg_dump .+) <", str(caught.value))
    assert words is not None
    program, *rest = words[1].split()
    tools = find_binaries()
    subprocess.run([tools / program, *rest, postgres_database], check=True, capture_output=True)
    execute(postgres_database, "UPDATE public.checkpoints SET theirs = 2")
    later = PostgresStore(postgres_database)
    await happen(later, request, Cancel("agent", "too late"))
    await later.close()
    again = [
        "--clean",
        "--if-exists",
        "--single-transaction",
        "--exit-on-error",
        "-d",
        postgres_database,
        tmp_path / "ours.dump",
    ]
    subprocess.run([tools / "pg_restore", *again], check=True, capture_output=True)
    back = PostgresStore(postgres_database)
    assert await back.request(WORKSPACE, request.id) == request
    assert (await happen(back, request, Decided(Approve(), by="bob"))).state is State.APPROVED
    await back.close()
    with psycopg.connect(postgres_database) as connection:
        assert connection.execute("SELECT theirs FROM public.checkpoints").fetchone() == (2,)


async def test_what_the_page_about_postgresql_says_can_be_done_as_it_stands(
    postgres_database: str, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text()
    [schema] = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    dump, restore = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    execute(postgres_database, schema)
    url = as_login(postgres_database, "assentry_app")
    await life(url)
    store = PostgresStore(url)
    request = await propose(store, ask_for(1))

    def shell(line: str, administrator: str = postgres_database) -> None:
        env = {**os.environ, "PATH": f"{find_binaries()}:{os.environ['PATH']}"}
        env |= {"ASSENTRY_DATABASE": url, "ADMIN_DATABASE": administrator}
        subprocess.run(["sh", "-ec", line], cwd=tmp_path, env=env, check=True, capture_output=True)

    await asyncio.to_thread(shell, dump)
    assert (await happen(store, request, Decided(Approve(), by="alice"))).state is State.APPROVED
    await store.close()
    with pytest.raises(subprocess.CalledProcessError):
        await asyncio.to_thread(shell, restore, url)
    as_it_was = PostgresStore(url)
    kept = await as_it_was.request(WORKSPACE, request.id)
    assert kept is not None
    assert kept.state is State.APPROVED, "a restore by a login that may not do it changes nothing"
    await as_it_was.close()
    await asyncio.to_thread(shell, restore)
    again = PostgresStore(url)
    assert await again.request(WORKSPACE, request.id) == request
    await again.close()
    execute(postgres_database, "DROP OWNED BY assentry_app CASCADE", "DROP ROLE assentry_app")
