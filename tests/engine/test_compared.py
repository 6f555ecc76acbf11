"""What is stored is held against the log: whatever was changed, deleted or added by hand is named, and nothing else."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import apsw
import pytest

from assentry.core.audit import Entry, Wrong
from assentry.core.grant import Terms
from assentry.core.request import State
from assentry.core.switch import Setting
from assentry.engine.agent_calls import Described
from assentry.engine.os_user import os_user
from assentry.stores import comparing
from tests.postgres import beside
from tests.stage import BOSS, GONE, Stage

pytestmark = pytest.mark.both_databases

POLICY = """
self_review: allow
people: {root: {roles: [lead], os_users: ["THIS_USER"]}}
rules: [{name: small, actions: [tick], gate: watch}]
""".replace("THIS_USER", os_user())
TERMS = Terms(actions=("tidy_*",), life=timedelta(hours=1))


class Stranger:
    """Somebody who opens the database without us, and puts everything back afterwards; the log itself is left alone."""

    TABLES = ("requests", "grants", "switches", "policies", "tools")

    def __init__(self, database: str) -> None:
        self.is_postgres = database.startswith("postgres")
        self.raw: Any = beside(database) if self.is_postgres else apsw.Connection(database)
        for table in (*self.TABLES, "asks"):
            self.do(f"CREATE TEMP TABLE kept_{table} AS SELECT * FROM {table}")

    def do(self, statement: str) -> None:
        self.raw.execute(statement.encode() if self.is_postgres else statement)

    def put_back(self) -> None:
        for table in self.TABLES:
            self.do(f"DELETE FROM {table}")
            self.do(f"INSERT INTO {table} SELECT * FROM kept_{table}")
        key = "id" if self.is_postgres else "seq"
        kept = f"FROM kept_asks k WHERE k.{key} = asks.{key}"
        self.do(f"UPDATE asks SET body = (SELECT k.body {kept}), title = (SELECT k.title {kept})")


@dataclass
class Lived:
    """What happened, by name, and where."""

    stage: Stage
    ids: dict[str, str]

    async def told(self) -> list[str]:
        report = await self.stage.desk.notary.verify()
        assert {fault.wrong for fault in report.faults} <= {Wrong.ROW}
        return [fault.says for fault in report.faults]


def purged(count: int, at: datetime) -> Entry:
    return Entry("payloads.purged", at, "default", "retention", "root", {"count": count})


@pytest.fixture
async def lived(house):
    """Requests that wait, ran, failed, were changed, denied, purged or never held; a grant, a switch and a policy."""
    await house.policy(POLICY)
    ids = {}

    @house.gate.guard(reversible=False)
    async def wipe(path: str) -> str:
        if path == "bad":
            raise OSError("no")
        return f"wiped {path}"

    for name, path in (("purged", "c"), ("done", "a"), ("failed", "bad"), ("changed", "d")):
        call = asyncio.create_task(wipe(path))
        (request,) = await house.waiting()
        await (house.modify(request, path="e") if name == "changed" else house.approve(request))
        await asyncio.wait([call])
        assert (call.exception() is None) == (path != "bad")
        ids[name] = request.id
        if name == "purged":
            ends = await house.store.now() + timedelta(microseconds=1)
            assert await house.store.purge(house.workspace, ends, purged) == 1
    ids["waits"] = (await house.asks(args={"files": ["z"]})).id
    denied = await house.asks()
    await house.deny(denied)
    ids["denied"] = denied.id
    await house.gate.propose("tick", {"n": 1}, declared=GONE)
    ids["grant"] = (await house.desk.rules.give(BOSS, TERMS)).id
    elsewhere = house.gate.agent("crawler")
    await elsewhere.offer([Described("get_weather", "The weather"), Described("post_note", "A note")])
    await house.desk.rules.vouch(BOSS, "agent:crawler", ["get_weather"])
    async for _ in house.desk.oversight.hold(BOSS, "bot", Setting.STOP, "enough"):
        pass
    return Lived(house, ids)


async def test_nothing_is_said_where_nothing_was_touched(lived, monkeypatch):
    assert await lived.told() == []
    monkeypatch.setattr(comparing, "AT_ONCE", 2)
    assert await lived.told() == []


BODY = "UPDATE requests SET body = replace(body, '{}', '{}') WHERE id = '{{}}'"
COLUMN = "UPDATE requests SET {} WHERE id = '{{}}'"
ASK = "UPDATE asks SET {} WHERE {}"
OF_SQLITE, OF_POSTGRES = "seq = (SELECT seq FROM requests WHERE id = '{}')", "id = '{}'"


DAMAGE = (
    ("done", BODY.format("approve", "decline"), "request {} was changed: its state, votes or result"),
    ("done", BODY.format("wiped a", "wiped b"), "request {} was changed: its state, votes or result"),
    ("failed", BODY.format("OSError: no", "OSError: NO"), "request {} was changed: its state, votes or result"),
    ("changed", BODY.format('\\"e\\"', '\\"f\\"'), "request {} was changed: its state, votes or result"),
    ("denied", BODY.format("not today", "not ever"), "request {} was changed: its state, votes or result"),
    ("purged", BODY.format('"purged":true', '"purged":false'), "request {} was changed: its state, votes or result"),
    ("waits", COLUMN.format("state = 'approved'"), "request {} was changed: its column state"),
    ("waits", COLUMN.format("urgency = 3"), "request {} was changed: its column urgency"),
    ("waits", COLUMN.format("agent = 'other'"), "request {} was changed: its column agent"),
    ("waits", ASK.format("body = replace(body, 'z', 'y')", "{where}"), "request {} was changed: what was asked for"),
    ("purged", ASK.format("body = replace(body, 'wipe', 'wope')", "{where}"), "request {} was changed: what was asked for"),
    ("waits", ASK.format("title = ' harmless '", "{where}"), "request {} was changed: its column title"),
    ("done", "DELETE FROM requests WHERE id = '{}'", "request {} was deleted"),
    ("grant", "UPDATE grants SET body = replace(body, 'tidy_', 'drop_') WHERE id = '{}'", "grant {} was changed"),
    ("grant", "DELETE FROM grants WHERE id = '{}'", "grant {} was deleted"),
    ("grant", "INSERT INTO grants SELECT workspace, 'x' || '', version, expires_at, revoked_at, used, spent, body FROM grants", "grant x is not in the log"),
    ("grant", "UPDATE switches SET body = replace(body, 'stop', 'go') WHERE '{}' <> ''", "the switch of bot was changed"),
    ("grant", "DELETE FROM switches WHERE agent = 'bot' AND '{}' <> ''", "the switch of bot was deleted"),
    ("grant", "UPDATE policies SET text = replace(text, 'watch', 'run') WHERE '{}' <> ''", "version 1 of the policy was changed"),
    (
        "grant", "UPDATE tools SET state = 'vouched' WHERE name = 'post_note' AND '{}' <> ''",
        "tool post_note of agent:crawler was changed: the log says waiting, not vouched",
    ),
    ("grant", "DELETE FROM tools WHERE name = 'post_note' AND '{}' <> ''", "a tool of agent:crawler was deleted"),
    ("grant", "DELETE FROM tools WHERE '{}' <> ''", "every tool of agent:crawler was deleted"),
    (
        "grant",
        "INSERT INTO tools SELECT workspace, source, 'rm', 'd', 1, state, body FROM tools WHERE version > 1 AND '{}' <> ''",
        "tool rm of agent:crawler is not in the log",
    ),
    ("grant", "DELETE FROM policies WHERE '{}' <> ''", "version 1 of the policy was deleted"),
    ("waits", "INSERT INTO requests SELECT * FROM copied", "request x is not in the log: it was added by hand"),
)  # fmt: skip


async def test_what_was_changed_deleted_or_added_by_hand_is_named(lived):
    stranger = Stranger(lived.stage.database)
    stranger.do(f"CREATE TEMP TABLE copied AS SELECT * FROM requests WHERE id = '{lived.ids['waits']}'")
    stranger.do(
        "UPDATE copied SET id = 'x', step = 'x', state = 'approved'" + ("" if stranger.is_postgres else ", seq = 999")
    )
    where = OF_POSTGRES if stranger.is_postgres else OF_SQLITE
    for name, statement, says in DAMAGE:
        key = lived.ids[name]
        stranger.do(statement.replace("{where}", where).replace("{}", key))
        told = await lived.told()
        assert len(told) == 1, (statement, told)
        assert told[0].startswith(says.format(key)), statement
        stranger.put_back()
        assert await lived.told() == []
    stranger.raw.close()


async def test_nobody_is_accused_while_others_write(lived):
    """What is committed between two looks is no damage."""
    stage = lived.stage
    over = asyncio.Event()

    async def write() -> int:
        count = 0
        while not over.is_set():
            request = await stage.asks(args={"files": [str(count)]})
            await stage.deny(request)
            count += 1
        return count

    writing = stage.start(write())
    for _ in range(5):
        assert await lived.told() == []
    over.set()
    assert await writing > 0
    assert {each.state for each in await stage.requests()} >= {State.DENIED, State.PENDING}


async def test_what_is_no_text_any_more_is_told_and_hides_nothing_else(lived):
    if lived.stage.database.startswith("postgres"):
        return  # which stores nothing that is no text
    raw = apsw.Connection(lived.stage.database)
    raw.execute("DROP TRIGGER entries_are_not_changed")
    key = lived.ids["waits"]
    raw.execute("UPDATE entries SET text = CAST(x'7bff7d' AS TEXT) WHERE subject = ?", (key,))
    raw.execute("UPDATE requests SET body = CAST(x'ff' AS TEXT) WHERE id = ?", (lived.ids["done"],))
    raw.close()
    report = await lived.stage.desk.notary.verify()
    assert {fault.wrong for fault in report.faults} == {Wrong.ENTRY, Wrong.ROW}
