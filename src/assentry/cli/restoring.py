"""A backup in the database's place: checked on a copy first, the old file kept, and what is lost said."""

import asyncio
import os
import re
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from assentry.assemble import keys_for
from assentry.core.action import Json
from assentry.core.audit import Entry, Walk, origin
from assentry.core.policy import builtin_policy
from assentry.core.policy_file import stored_policy
from assentry.core.text import counted
from assentry.engine.os_user import os_user
from assentry.engine.policies import may_operate
from assentry.errors import InvalidArguments, StoreBusy, StoreError, TamperFound
from assentry.keys import KeyRing
from assentry.ports import Signed
from assentry.settings import Settings
from assentry.stores.sqlite import SqliteStore
from assentry.system import sync_directory

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    database: Path
    entries: int
    kept: Path | None
    """The database that was there before."""
    checkpoints_kept: Path | None
    """The checkpoints that were signed after the backup: the evidence of what was lost."""
    lost: dict[str, int]
    """By workspace, how many entries were signed after the backup was made."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(
            f"workspace {name}: this backup lacks {counted(count, 'entry')} signed after it; decisions since then "
            f"are lost. The proof that they existed is {self.checkpoints_kept}"
            for name, count in self.lost.items()
        )

    def document(self) -> dict[str, Json]:
        return {
            "database": str(self.database),
            "entries": self.entries,
            "kept": str(self.kept) if self.kept else None,
            "checkpoints_kept": str(self.checkpoints_kept) if self.checkpoints_kept else None,
            "lost": self.lost,
        }


@dataclass(frozen=True, slots=True)
class _Checked:
    identity: str
    entries: int
    lost: dict[str, int]
    covered: tuple[Signed, ...]
    """The checkpoints outside the database that the backup still bears out."""


def restored(settings: Settings, backup: Path, *, force: bool) -> Restored:
    """The database is the backup, whose log is what was signed; the error says why nothing was replaced."""
    if settings.is_postgres:
        raise StoreError(
            "a PostgreSQL database is restored with its own tool, as a superuser: "
            "`pg_restore --clean --if-exists --single-transaction --exit-on-error -d <address> FILE`"
        )
    database = Path(settings.database).absolute()
    if not backup.is_file():
        raise InvalidArguments(f"there is no file {backup}; name a backup that `assentry backup` made")
    if database.exists() and database.samefile(backup):
        raise InvalidArguments("that is the database itself; name a backup")
    if database.exists() and not force:
        raise InvalidArguments(f"{database} exists; pass --force to replace it (it is kept beside the new one)")
    keys = keys_for(settings)
    part = database.with_name(f".{database.name}.{secrets.token_hex(4)}.part")
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    try:
        _copy(backup, part)
        checked = asyncio.run(_checked(part, settings.workspace, keys))
        kept = _set_aside(database, stamp) if database.exists() else None
        part.replace(database)
        sync_directory(database.parent)
    finally:
        for leftover in (part, *(part.with_name(part.name + tail) for tail in ("-wal", "-shm", "-wake"))):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)
    aside = _checkpoints_aside(keys, checked, stamp) if checked.lost else None
    return Restored(database, checked.entries, kept, aside, checked.lost)


def _copy(backup: Path, part: Path) -> None:
    try:
        part.touch(mode=0o600, exist_ok=False)
        shutil.copyfile(backup, part)
    except OSError as problem:
        raise StoreError(f"{backup} cannot be copied beside the database: {problem.strerror}") from None
    for tail in ("-wal", "-journal"):
        beside = backup.with_name(backup.name + tail)
        if beside.exists() and beside.stat().st_size:
            raise StoreError(f"{backup}{tail} lies beside it, so this is a database in use and not a backup of one")


async def _checked(part: Path, workspace: str, keys: KeyRing) -> _Checked:
    """The copy is whole, its logs are what was signed, and the restore is on its record."""
    store = SqliteStore(part)
    try:
        await store.open()
        _intact(part)
        stored = await store.policy(workspace)
        policy = stored_policy(stored.text, stored.version) if stored else builtin_policy()
        person = may_operate(policy, os_user())
        identity = await store.identity()
        lost: dict[str, int] = {}
        covered: list[Signed] = []
        for name in _workspaces(keys, identity, workspace):
            size = await store.sequence(name)
            kept, _ = keys.kept(identity, name)
            covered += [signed for signed in kept if signed.size <= size]
            missing = max((signed.size for signed in kept), default=0) - size
            if missing > 0:
                lost[name] = missing
            await _verify(store, name, identity, keys, [signed for signed in kept if signed.size <= size])
        entries = await store.sequence(workspace)
        body = {"entries": entries, "lost": lost.get(workspace, 0)}
        entry = Entry("log.restored", await store.now(), workspace, "", person.name, body)
        store.record(lambda: entry)
        await store.flush()
        return _Checked(identity, entries, lost, tuple(covered))
    finally:
        await store.close()


async def _verify(store: SqliteStore, workspace: str, identity: str, keys: KeyRing, kept: list[Signed]) -> None:
    """The log is what its checkpoints signed, as far as it goes: that it ends early is said, not refused."""
    walk = Walk(origin(identity, workspace), keys.public_keys().check)
    for signed in (*await store.checkpoints(workspace), *kept):
        walk.mark(signed)
    start = 0
    while page := await store.entries(workspace, start=start, limit=_PAGE):
        walk.feed(page)
        start = page[-1].index + 1
    report = walk.report()
    if not report.ok:
        raise TamperFound(f"the backup's log is not what was signed, so nothing was replaced: {report.faults[0].says}")


def _intact(path: Path) -> None:
    connection = apsw.Connection(str(path))
    try:
        if connection.pragma("quick_check") != "ok":
            raise StoreError("the backup is damaged, so nothing was replaced; use another one")
    finally:
        connection.close()


def _workspaces(keys: KeyRing, identity: str, workspace: str) -> list[str]:
    """The workspace we work in, and every other that was ever sealed from here."""
    path = keys.directory / "checkpoints" / f"{identity}.jsonl"
    named = (
        re.findall(r'"workspace": "([\w.-]+)"', path.read_text(encoding="utf-8", errors="replace"))
        if path.exists()
        else []
    )
    return sorted({workspace, *named})


def _set_aside(database: Path, stamp: str) -> Path:
    """The database under another name as well, with nothing left beside it that belongs to it."""
    kept = database.with_name(f"{database.name}.before-restore-{stamp}")
    try:
        connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            # Leaving write-ahead mode takes the file for ourselves, and folds the write-ahead log into it.
            connection.pragma("journal_mode", "delete")
        finally:
            connection.close(True)
    except (apsw.BusyError, apsw.LockedError):
        raise StoreBusy(
            f"another process uses {database} (`fuser {database}` names it); end it, then restore"
        ) from None
    except apsw.Error:
        # Damaged beyond opening, which may be why it is replaced: kept as it is, with its write-ahead log.
        for tail in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                database.with_name(database.name + tail).rename(kept.with_name(kept.name + tail))
    # A second name first, then one atomic replacement: there is a database at every moment.
    os.link(database, kept)
    return kept


def _checkpoints_aside(keys: KeyRing, checked: _Checked, stamp: str) -> Path:
    """The checkpoints of what was lost are kept apart, so that the log can be sealed and verified again."""
    path = keys.directory / "checkpoints" / f"{checked.identity}.jsonl"
    aside = path.with_name(f"{checked.identity}.before-restore-{stamp}.jsonl")
    path.rename(aside)
    for signed in checked.covered:
        keys.keep(checked.identity, signed)
    return aside
