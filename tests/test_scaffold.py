"""The ground the other tests stand on: a durable PostgreSQL, a fresh database each, a private home."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests import postgres


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_postgres_answers(postgres_database: str) -> None:
    assert ask(postgres_database, "SELECT 1") == 1


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_postgres_is_as_durable_as_in_production(postgres_url: str, setting: str) -> None:
    assert ask(postgres_url, f"SHOW {setting}") == "on"


@pytest.mark.parametrize("visit", [1, 2])
def test_each_test_gets_an_empty_database(postgres_database: str, visit: int) -> None:
    assert ask(postgres_database, "SELECT count(*) FROM pg_tables WHERE tablename = 'left_behind'") == 0
    with psycopg.connect(postgres_database) as connection:
        connection.execute("CREATE TABLE left_behind (visit int)")


def test_a_database_is_dropped_even_while_somebody_is_connected(postgres_url: str) -> None:
    with postgres.database(postgres_url) as url:
        straggler = psycopg.connect(url)
        name = straggler.info.dbname
    straggler.close()
    assert ask(postgres_url, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == 0


ROW = "INSERT INTO assentry_data.switches (workspace, agent, version, body) VALUES ('w', 'a', 1, '{}')"


def test_a_database_that_is_used_again_is_empty_and_those_of_before_do_not_find_it(
    postgres_reused: postgres.Reused,
) -> None:
    first = postgres_reused.fresh()
    number = ask(first, "SELECT oid FROM pg_database WHERE datname = current_database()")
    straggler = psycopg.connect(first, autocommit=True)
    straggler.execute(ROW)
    second = postgres_reused.fresh()
    assert ask(second, "SELECT oid FROM pg_database WHERE datname = current_database()") == number
    assert ask(second, "SELECT count(*) FROM assentry_data.switches") == 0
    assert ask(second, "SELECT count(*) FROM assentry_data.migrations") != 0
    with pytest.raises(psycopg.OperationalError):
        straggler.execute(ROW)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)


@pytest.mark.parametrize(
    "altering",
    [
        "ALTER TABLE entries DISABLE TRIGGER ALL",
        "CREATE TABLE left_behind ()",
        "CREATE TABLE public.left_behind ()",
        "CREATE SCHEMA left_behind",
        "GRANT ALL ON requests TO PUBLIC",
        "DELETE FROM about",
        "ALTER TABLE requests ADD COLUMN more int",
    ],
)
def test_a_database_that_was_altered_is_not_used_again(postgres_reused: postgres.Reused, altering: str) -> None:
    number = "SELECT oid FROM pg_database WHERE datname = current_database()"
    url = postgres_reused.fresh()
    before = ask(url, number)
    with postgres.beside(url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(altering)  # type: ignore[arg-type]
    assert ask(postgres_reused.fresh(), number) != before


def test_a_cluster_keeps_what_was_committed_when_it_is_crashed_and_restarted() -> None:
    with postgres.cluster() as running:
        with psycopg.connect(running.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        running.stop(signal.SIGQUIT)
        running.start()
        assert ask(running.url, "SELECT n FROM kept") == 7
        directory = running.directory
    assert not directory.exists()


def test_a_killed_test_run_leaves_neither_server_nor_data() -> None:
    script = (
        "import time; from tests import postgres\n"
        "with postgres.cluster() as running:\n"
        "    print(running.pid, running.directory, flush=True); time.sleep(600)"
    )
    root = Path(__file__).parent.parent
    with subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, directory = run.stdout.readline().strip().split(maxsplit=1)
        run.kill()
    end = time.monotonic() + 30
    while Path(directory).exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(directory).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_test_has_a_home_of_its_own(tmp_path: Path) -> None:
    assert Path(os.environ["ASSENTRY_HOME"]).is_relative_to(tmp_path)
