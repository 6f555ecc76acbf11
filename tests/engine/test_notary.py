"""The notary on a real database and a real directory of keys."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from assentry.core.audit import Checkpoint, Entry, Wrong, leaf
from assentry.core.change import Change
from assentry.core.merkle import Tree
from assentry.core.receipt import in_words
from assentry.engine.notary import Notary, verify_export, verify_receipt
from assentry.errors import NotFound, TamperFound
from assentry.keys import KeyRing
from assentry.ports import Logged
from assentry.stores.sqlite import SqliteStore

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def entry(number: int, kind: str = "request.seen") -> Entry:
    body = {
        "code": f"K{number}", "action": "delete_files", "agent": "cleanup", "word": "approve", "state": "approved",
        "content_digest": "c" * 64, "permit_digest": "d" * 64, "policy_version": 3,
        "votes": [{"by": "ana", "word": "approve", "at": AT.isoformat(), "digest": "d" * 64}],
    }  # fmt: skip
    return Entry(kind, AT, "main", f"r{number}", "ana", body)


class Room:
    """A store, its keys and a notary, with some entries to come."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "assentry.db"
        self.store = SqliteStore(self.path)
        self.keys = KeyRing(directory / "home")
        self.notary = self.another()
        self.count = 0

    def another(self, keys: KeyRing | None = None) -> Notary:
        return Notary(self.store, keys or self.keys, "main")

    async def grow(self, count: int, kind: str = "request.seen") -> None:
        entries = tuple(entry(self.count + place, kind) for place in range(count))
        await self.store.transact("main", None, lambda _: Change(entries=entries))
        self.count += count

    async def exported(self) -> list[str]:
        lines: list[str] = []
        await self.notary.export(lines.append)
        return lines

    def damage(self, statement: str, *values: str) -> None:
        """This statement, by somebody who does not care for our triggers."""
        raw = apsw.Connection(str(self.path))
        for name in ("entries_are_not_changed", "entries_are_not_deleted"):
            raw.execute(f"DROP TRIGGER IF EXISTS {name}")
        raw.execute(statement, values)
        raw.close()


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    room = Room(tmp_path)
    await room.store.open()
    yield room
    await room.store.close()


async def test_an_empty_log_needs_no_seal(room: Room) -> None:
    assert await room.notary.seal() is None
    assert (await room.notary.verify()).ok


async def test_a_seal_covers_everything_so_far_and_is_kept_in_two_places(room: Room) -> None:
    await room.grow(5)
    signed = await room.notary.seal()
    assert signed is not None
    assert signed.size == 5
    assert await room.store.checkpoints("main") == (signed,)
    assert room.keys.kept(await room.store.identity(), "main") == ((signed,), ())
    await room.grow(2)
    report = (await room.notary.verify()).require()
    assert (report.size, report.sealed, report.unsealed) == (7, 5, 2)


async def test_sealing_again_without_new_entries_changes_nothing(room: Room) -> None:
    await room.grow(5)
    signed = await room.notary.seal()
    assert await room.notary.seal() == signed
    assert await room.another().seal() == signed
    assert len(await room.store.checkpoints("main")) == 1


async def test_a_seal_reads_only_what_came_after_the_last_one(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    await room.grow(2500)
    await room.notary.seal()
    await room.grow(10)
    starts: list[int] = []
    entries = room.store.entries

    async def watched(workspace: str, *, start: int = 0, limit: int = 1000) -> tuple[Logged, ...]:
        starts.append(start)
        return await entries(workspace, start=start, limit=limit)

    monkeypatch.setattr(room.store, "entries", watched)
    await room.another().seal()
    assert starts == [2500]
    await room.grow(1)
    await room.notary.seal()
    assert starts == [2500, 2500]
    monkeypatch.undo()
    report = (await room.notary.verify()).require()
    assert (report.sealed, report.checkpoints) == (2511, 3)


async def test_several_notaries_may_seal_at_once(room: Room) -> None:
    notaries = [room.another(KeyRing(room.keys.directory)) for _ in range(6)]
    for _ in range(5):
        await asyncio.gather(*(notary.seal() for notary in notaries), room.grow(3), room.grow(2))
    await room.notary.seal()
    report = (await room.notary.verify()).require()
    assert report.unsealed == 0


async def test_a_checkpoint_lost_between_the_two_places_is_put_right(room: Room) -> None:
    await room.grow(5)
    await room.notary.seal()
    path = room.keys.directory / "checkpoints" / f"{await room.store.identity()}.jsonl"
    path.unlink()
    report = (await room.notary.verify()).require()
    assert "kept outside" in report.notes[0]
    await room.another().seal()
    assert not (await room.notary.verify()).require().notes


@pytest.mark.parametrize(
    ("statement", "wrong", "first", "last"),
    [
        ("UPDATE entries SET text = replace(text, 'approve', 'deny   ') WHERE idx = 4", Wrong.ENTRY, 4, 4),
        ("UPDATE entries SET text = CAST(x'ff00fe' AS TEXT) WHERE idx = 4", Wrong.ENTRY, 4, 4),
        ("UPDATE entries SET leaf = 'x' WHERE idx = 14", Wrong.ENTRY, 14, 14),
        ("DELETE FROM entries WHERE idx = 4", Wrong.GAP, 4, 4),
        ("DELETE FROM entries WHERE idx >= 18", Wrong.CUT, 18, 19),
        ("UPDATE entries SET idx = 1000 WHERE idx = 12", Wrong.GAP, 12, 12),
    ],
)
async def test_damage_in_the_database_is_named(room: Room, statement: str, wrong: Wrong, first: int, last: int) -> None:
    await room.grow(10)
    await room.notary.seal()
    await room.grow(10)
    await room.notary.seal()
    room.damage(statement)
    fault = (await room.notary.verify()).faults[0]
    assert (fault.wrong, fault.first, fault.last) == (wrong, first, last)


async def test_cutting_entries_and_checkpoints_together_shows_and_is_not_sealed_over(room: Room) -> None:
    await room.grow(10)
    await room.notary.seal()
    await room.grow(10)
    await room.notary.seal()
    room.damage("DELETE FROM entries WHERE idx >= 10; DELETE FROM checkpoints WHERE size > 10")
    report = await room.notary.verify()
    assert {fault.wrong for fault in report.faults} == {Wrong.CUT, Wrong.CHECKPOINT}
    assert "the log has 10 entries" in report.faults[-1].says
    for notary in (room.notary, room.another()):
        with pytest.raises(TamperFound, match="20 were signed"):
            await notary.seal()
    await room.grow(15)
    await room.another().seal()
    [fault] = [fault for fault in (await room.notary.verify()).faults if fault.wrong is Wrong.ROOT]
    assert (fault.first, fault.last) == (10, 19)


async def test_after_a_restore_the_log_can_be_sealed_again_once_the_file_is_moved_aside(room: Room) -> None:
    await room.grow(10)
    await room.notary.seal()
    await room.grow(10)
    await room.notary.seal()
    room.damage("DELETE FROM entries WHERE idx >= 10; DELETE FROM checkpoints WHERE size > 10")
    path = room.keys.directory / "checkpoints" / f"{await room.store.identity()}.jsonl"
    path.rename(path.with_suffix(".before"))
    await room.grow(3)
    await room.another().seal()
    assert (await room.another().verify()).require().sealed == 13


async def test_a_checkpoint_removed_from_the_database_is_told(room: Room) -> None:
    await room.grow(10)
    await room.notary.seal()
    room.damage("DELETE FROM checkpoints")
    [fault] = (await room.notary.verify()).faults
    assert "missing in the database" in fault.says


async def test_a_damaged_entry_or_checkpoint_is_not_sealed_over(room: Room) -> None:
    await room.grow(10)
    room.damage("UPDATE entries SET text = text || ' ' WHERE idx = 4")
    with pytest.raises(TamperFound, match="entry 4"):
        await room.notary.seal()
    room.damage("UPDATE entries SET text = trim(text)")
    await room.notary.seal()
    room.damage("UPDATE checkpoints SET signature = 'x'")
    (room.keys.directory / "checkpoints" / f"{await room.store.identity()}.jsonl").unlink()
    with pytest.raises(TamperFound, match="not what was signed"):
        await room.another().seal()


async def test_a_rewritten_log_signed_with_another_key_is_not_believed(room: Room, tmp_path: Path) -> None:
    await room.grow(10)
    await room.another(KeyRing(tmp_path / "thief")).seal()
    faults = (await room.notary.verify()).faults
    assert [fault.wrong for fault in faults] == [Wrong.KEY]
    room.keys.trust(KeyRing(tmp_path / "thief").public_key())
    assert (await room.notary.verify()).ok


async def test_after_a_rotation_everything_still_verifies(room: Room) -> None:
    await room.grow(3)
    old = room.keys.public_key()
    new = await room.notary.rotate("ana")
    assert room.keys.key_id == new
    await room.grow(3)
    await room.notary.seal()
    report = (await room.notary.verify()).require()
    assert (report.sealed, report.checkpoints) == (7, 3)
    lines = await room.exported()
    found = verify_export(lines, [old])
    found.report.require()
    assert new in found.keys
    assert [fault.wrong for fault in verify_export(lines, [room.keys.public_key()]).report.faults] == [Wrong.KEY]
    verify_export(lines, [old, room.keys.public_key()]).report.require()


async def test_an_export_is_checked_with_nothing_but_the_file_and_a_key(room: Room, tmp_path: Path) -> None:
    await room.grow(10)
    await room.notary.seal()
    await room.grow(1200)
    file = tmp_path / "export.jsonl"
    with file.open("w", encoding="utf-8", newline="\n") as out:
        assert await room.notary.export(out.write) == 1210
    with file.open("rb") as lines:
        found = verify_export(lines, [room.keys.public_key()])
    report = found.report.require()
    assert (report.size, report.sealed, report.checkpoints) == (1210, 1210, 2)
    assert found.trusted
    assert not report.notes
    assert found.origin == f"{await room.store.identity()}/main"


async def test_an_export_without_a_key_says_that_it_vouches_for_itself(room: Room) -> None:
    await room.grow(3)
    found = verify_export([line async for line in room.notary.lines()])
    assert not found.trusted
    assert "came from the file itself" in found.report.require().notes[0]


async def test_an_empty_log_can_be_exported(room: Room) -> None:
    assert verify_export(await room.exported(), [room.keys.public_key()]).report.ok


async def test_an_export_in_which_any_line_is_lost_added_or_moved_is_rejected(room: Room) -> None:
    await room.grow(4)
    await room.notary.seal()
    await room.grow(4)
    lines = await room.exported()
    key = room.keys.public_key()
    assert verify_export(lines, [key]).report.ok
    for place in range(len(lines)):
        for changed in (
            [*lines[:place], *lines[place + 1 :]],
            [*lines[:place], lines[place], *lines[place:]],
            [*lines[:place], *lines[place + 1 :], lines[place]] if place < len(lines) - 1 else [],
            lines[:place],
            [*lines[:place], "{}\n", *lines[place:]],
        ):
            assert not verify_export(changed, [key]).report.ok


async def test_an_export_by_a_stranger_is_not_believed(room: Room, tmp_path: Path) -> None:
    await room.grow(4)
    lines: list[str] = []
    await room.another(KeyRing(tmp_path / "thief")).export(lines.append)
    assert verify_export(lines).report.ok
    assert not verify_export(lines, [room.keys.public_key()]).report.ok


async def test_a_receipt_is_checked_with_nothing_but_the_public_key(room: Room) -> None:
    await room.grow(10)
    await room.notary.seal()
    await room.grow(3)
    await room.grow(1, "request.decided")
    await room.grow(5)
    text = await room.notary.receipt("r13")
    receipt = verify_receipt(text, room.keys.public_key())
    assert (receipt.request, receipt.index) == ("r13", 13)
    assert receipt.facts()["subject"] == "r13"
    assert receipt.says == (
        "Request K13: delete_files, asked for by cleanup: approve by ana at 2026-01-02T03:04:05+00:00, now approved; "
        f"ana said approve at 2026-01-02T03:04:05+00:00; policy version 3; what may run has digest {'d' * 64}."
    )
    assert verify_receipt(text.encode() + b"\n", room.keys.public_key()) == receipt


async def test_every_decision_of_a_log_gets_a_receipt_that_verifies(room: Room) -> None:
    for size in (1, 2, 5, 9):
        await room.grow(size, "request.decided")
        await room.notary.seal()
    for number in range(room.count):
        receipt = verify_receipt(await room.notary.receipt(f"r{number}"), room.keys.public_key())
        assert receipt.index == number


async def test_a_receipt_after_a_rotation_needs_only_the_new_key(room: Room) -> None:
    await room.grow(3, "request.decided")
    await room.notary.rotate("ana")
    verify_receipt(await room.notary.receipt("r1"), room.keys.public_key())


async def test_there_is_no_receipt_without_a_decision(room: Room) -> None:
    await room.grow(1)
    with pytest.raises(NotFound, match="no receipt"):
        await room.notary.receipt("r0")


async def test_no_receipt_is_given_for_a_decision_that_was_tampered_with(room: Room) -> None:
    await room.grow(5, "request.decided")
    await room.notary.seal()
    forged = entry(2, "request.decided")
    text = replace(forged, body={**forged.body, "word": "deny"}).text()
    room.damage("UPDATE entries SET text = ? WHERE idx = 2", text)
    for number in (0, 2):
        with pytest.raises(TamperFound, match="entry 2"):
            await room.notary.receipt(f"r{number}")
    room.damage("UPDATE entries SET leaf = ? WHERE idx = 2", leaf(text).hex())
    with pytest.raises(TamperFound, match="entries 0 to 4"):
        await room.notary.receipt("r2")


async def test_any_changed_byte_of_a_receipt_is_rejected(room: Room) -> None:
    await room.grow(7, "request.decided")
    text = (await room.notary.receipt("r3")).encode()
    key = room.keys.public_key()
    verify_receipt(text, key)
    for place in range(len(text)):
        for byte in (text[place] ^ 1, text[place] ^ 32, 0x20, 0xFF):
            changed = text[:place] + bytes([byte]) + text[place + 1 :]
            if changed != text:
                with pytest.raises(TamperFound):
                    verify_receipt(changed, key)
    for changed in (text[:-1], b" " + text, text + b"\n\n", text + text, b""):
        with pytest.raises(TamperFound):
            verify_receipt(changed, key)


async def test_a_receipt_put_together_from_true_parts_is_rejected(room: Room, tmp_path: Path) -> None:
    await room.grow(7, "request.decided")
    one, other = [json.loads(await room.notary.receipt(name)) for name in ("r3", "r4")]
    key = room.keys.public_key()
    for name in one:
        mixed = json.dumps({**one, name: other[name]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if one[name] != other[name]:
            with pytest.raises(TamperFound):
                verify_receipt(mixed, key)
    thief = KeyRing(tmp_path / "thief")
    with pytest.raises(TamperFound, match="not the one given"):
        verify_receipt(json.dumps(one, sort_keys=True, separators=(",", ":")), thief.public_key())


def test_words_show_control_characters_instead_of_obeying_them() -> None:
    words = in_words({"subject": "r\u202e1", "actor": "a\x1b[31m", "at": None, "body": {"votes": "x", "action": "\n"}})
    assert words.isprintable()
    assert "\\u202e" in words
    assert in_words({}).startswith("Request None")


def test_what_is_signed_is_the_first_line_of_a_checkpoint() -> None:
    checkpoint = Checkpoint.of("db/main", Tree().append(bytes(32)), AT)
    assert checkpoint.stored().split("\n")[0] == checkpoint.text()
