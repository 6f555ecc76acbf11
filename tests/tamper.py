"""Logs, receipts, exports and proofs, each damaged in one way at random: every damage must be told.

`run` is used at sample size by `test_tamper.py` and at full size for the evidence. Damage to the log is done
to a real SQLite database by a second connection that respects neither triggers nor the store, committed, and
looked for by the notary reading through the store. What is sped up is said in the result.
"""

import asyncio
import contextlib
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from assentry.core.audit import Checkpoint, Entry, Report, leaf, origin
from assentry.core.change import Change
from assentry.core.export import Writer
from assentry.core.merkle import Tree, consistency, inclusion, is_extension, is_included, leaf_hash
from assentry.core.signing import PublicKeys
from assentry.engine.notary import Notary, verify_export, verify_receipt
from assentry.errors import TamperFound
from assentry.keys import KeyRing
from assentry.ports import Logged, Signed
from assentry.stores.sqlite import SqliteStore

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PER_LOG = 1500
"""After so many cases a new log of another shape is made."""
TOLD = 20


class Remembered:
    """Public keys whose verdict on one and the same signature is computed once."""

    def __init__(self, keys: PublicKeys) -> None:
        self.keys, self.by_id = keys, keys.by_id
        self._verdicts: dict[tuple[str, bytes, str], bool | None] = {}

    def check(self, name: str, data: bytes, signature: str) -> bool | None:
        asked = (name, data, signature)
        if asked not in self._verdicts:
            self._verdicts[asked] = self.keys.check(name, data, signature)
        return self._verdicts[asked]


class Ring(KeyRing):
    """A key ring that reads its public keys once."""

    _public: Any = None

    def public_keys(self) -> Any:
        self._public = self._public or Remembered(super().public_keys())
        return self._public


@dataclass(slots=True)
class Log:
    """A sealed log in a real database, the rows as they should be, and a raw connection to damage them."""

    notary: Notary
    keys: Ring
    thief: KeyRing
    raw: apsw.Connection
    origin: str
    rows: tuple[Logged, ...]
    seals: tuple[Signed, ...]
    export: tuple[bytes, ...]
    receipts: tuple[str, ...]

    @property
    def sealed(self) -> int:
        return self.seals[-1].size

    def do(self, statement: str, *values: Any) -> None:
        self.raw.execute(statement, values)

    def restore(self) -> None:
        """The database is as it was."""
        self.raw.execute(
            "DELETE FROM entries; INSERT INTO entries SELECT * FROM temp.entries_before;"
            "DELETE FROM checkpoints; INSERT INTO checkpoints SELECT * FROM temp.checkpoints_before"
        )


def entry(rng: random.Random, number: int, kind: str) -> Entry:
    word = rng.choice(["approve", "deny", "modify", "ablehnen – später"])
    body = {
        "code": f"K{number}", "action": rng.choice(["delete_files", "send_email"]), "agent": "cleanup", "word": word,
        "state": "approved", "content_digest": rng.randbytes(32).hex(), "permit_digest": rng.randbytes(32).hex(),
        "policy_version": 3, "votes": [{"by": "ana", "word": word, "at": AT.isoformat(), "digest": "d" * 64}],
    }  # fmt: skip
    return Entry(kind, AT, "main", f"r{number}", rng.choice(["ana", "bo"]), body)


@asynccontextmanager
async def built(rng: random.Random) -> AsyncIterator[Log]:
    """A log with several checkpoints and a few entries after the last."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(Path(directory) / "assentry.db")
        keys = Ring(Path(directory) / "home")
        notary = Notary(store, keys, "main")
        count = 0
        # What is not sealed is not proved, so the last stretch is left open and never damaged.
        for stretch in (*(rng.randint(1, 12) for _ in range(rng.randint(3, 6))), 2):
            kinds = [rng.choice(["request.seen", "request.decided"]) for _ in range(stretch - 1)]
            entries = tuple(entry(rng, count + place, kind) for place, kind in enumerate([*kinds, "request.decided"]))
            await store.transact("main", None, lambda _, entries=entries: Change(entries=entries))
            sealed, count = count, count + stretch
            keys._public = None
            await notary.seal()
        lines: list[str] = []
        await notary.export(lines.append)
        rows = await store.entries("main")
        decided = [f"r{row.index}" for row in rows if '"kind":"request.decided"' in row.text]
        receipts = [await notary.receipt(name) for name in rng.sample(decided, min(3, len(decided)))]
        identity = await store.identity()
        raw = apsw.Connection(str(Path(directory) / "assentry.db"))
        raw.execute("PRAGMA synchronous = OFF")
        for trigger in ("entries_are_not_changed", "entries_are_not_deleted"):
            raw.execute(f"DROP TRIGGER {trigger}")
        # The last seal goes, from both places, so that the last stretch is open.
        raw.execute("DELETE FROM checkpoints WHERE size > ?", (sealed,))
        kept = Path(directory) / "home" / "checkpoints" / f"{identity}.jsonl"
        kept.write_bytes(b"".join(kept.read_bytes().splitlines(keepends=True)[:-1]))
        for table in ("entries", "checkpoints"):
            raw.execute(f"CREATE TEMP TABLE {table}_before AS SELECT * FROM {table}")
        log = Log(
            notary, keys, KeyRing(Path(directory) / "thief"), raw, origin(identity, "main"), rows,
            await store.checkpoints("main"), tuple(line.encode() for line in lines), tuple(receipts),
        )  # fmt: skip
        assert (await notary.verify()).require().unsealed == 2
        verify_export(log.export, [keys.public_key()]).report.require()
        try:
            yield log
        finally:
            raw.close()
            await store.close()


# Damage to the log. Each does one thing to the database and returns the lowest index it touched, or the sizes
# under which a touched checkpoint may be named.


def text_byte(log: Log, rng: random.Random) -> int:
    row = log.rows[rng.randrange(log.sealed)]
    data = one_byte_changed(rng, row.text.encode())
    log.do("UPDATE entries SET text = CAST(? AS TEXT) WHERE idx = ?", data, row.index)
    return row.index


def leaf_byte(log: Log, rng: random.Random) -> int:
    row = log.rows[rng.randrange(log.sealed)]
    data = one_byte_changed(rng, row.leaf.encode())
    log.do("UPDATE entries SET leaf = CAST(? AS TEXT) WHERE idx = ?", data, row.index)
    return row.index


def index_bit(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    taken = {row.index for row in log.rows}
    changed = [index ^ (1 << bit) for bit in range(62)] + [-index - 1]
    log.do("UPDATE entries SET idx = ? WHERE idx = ?", rng.choice([one for one in changed if one not in taken]), index)
    return index


def checkpoint_byte(log: Log, rng: random.Random) -> set[int]:
    seal = rng.choice(log.seals)
    column = rng.choice(["text", "text", "key_id", "signature", "workspace"])
    data = one_byte_changed(rng, getattr(seal, column).encode())
    log.do(f"UPDATE checkpoints SET {column} = CAST(? AS TEXT) WHERE size = ?", data, seal.size)
    return {seal.size}


def checkpoint_size(log: Log, rng: random.Random) -> set[int]:
    seal = rng.choice(log.seals)
    taken = {one.size for one in log.seals}
    size = rng.choice([one for bit in range(40) if (one := seal.size ^ (1 << bit)) not in taken])
    log.do("UPDATE checkpoints SET size = ? WHERE size = ?", size, seal.size)
    return {seal.size, size}


def checkpoint_gone(log: Log, rng: random.Random) -> set[int]:
    seal = rng.choice(log.seals)
    log.do("DELETE FROM checkpoints WHERE size = ?", seal.size)
    return {seal.size}


def checkpoint_forged(log: Log, rng: random.Random) -> set[int]:
    seal = rng.choice(log.seals)
    forged = sealed_by_thief(log, log.rows[: seal.size])
    log.do(
        "UPDATE checkpoints SET text = ?, key_id = ?, signature = ? WHERE size = ?",
        forged.text, rng.choice([forged.key_id, seal.key_id]), forged.signature, seal.size,
    )  # fmt: skip
    return {seal.size}


def deleted(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    log.do("DELETE FROM entries WHERE idx = ?", index)
    return index


def deleted_and_closed(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    log.do("DELETE FROM entries WHERE idx = ?", index)
    shift(log, index, -1)
    return index


def several_deleted(log: Log, rng: random.Random) -> int:
    first = rng.randrange(log.sealed)
    log.do("DELETE FROM entries WHERE idx BETWEEN ? AND ?", first, rng.randrange(first, log.sealed))
    return first


def swapped(log: Log, rng: random.Random) -> int:
    one, other = sorted(rng.sample(range(len(log.rows)), 2))
    if one >= log.sealed:
        one = rng.randrange(log.sealed)
    log.do("UPDATE entries SET idx = -1 WHERE idx = ?", one)
    log.do("UPDATE entries SET idx = ? WHERE idx = ?", one, other)
    log.do("UPDATE entries SET idx = ? WHERE idx = -1", other)
    return one


def cut(log: Log, rng: random.Random) -> int:
    size = rng.randrange(log.sealed)
    log.do("DELETE FROM entries WHERE idx >= ?", size)
    return size


def cut_with_checkpoints(log: Log, rng: random.Random) -> int:
    size = cut(log, rng)
    log.do("DELETE FROM checkpoints WHERE size > ?", size)
    return size


def cut_with_all_checkpoints(log: Log, rng: random.Random) -> int:
    size = cut(log, rng)
    log.do("DELETE FROM checkpoints")
    return size


def cut_and_grown_again(log: Log, rng: random.Random) -> int:
    first = cut_with_checkpoints(log, rng)
    for index in range(first, log.sealed + rng.randrange(3)):
        put(log, index, entry(rng, index, "request.seen").text())
    return first


def replaced(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    overwrite(log, index, entry(rng, 10_000, "request.decided").text())
    return index


def byte_and_leaf(log: Log, rng: random.Random) -> int:
    row = log.rows[rng.randrange(log.sealed)]
    place = rng.randrange(len(row.text))
    overwrite(log, row.index, row.text[:place] + other_char(rng, row.text[place]) + row.text[place + 1 :])
    return row.index


def duplicated(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    source = rng.choice([row for row in log.rows if row.index != index])
    shift(log, index, 1)
    put(log, index, source.text)
    return index


def copied_over(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    overwrite(log, index, rng.choice([row for row in log.rows if row.index != index]).text)
    return index


def inserted(log: Log, rng: random.Random) -> int:
    index = rng.randrange(log.sealed)
    shift(log, index, 1)
    put(log, index, entry(rng, 10_000, "request.decided").text())
    return index


def tail_rewritten(log: Log, rng: random.Random) -> int:
    first = rng.randrange(log.sealed)
    for index in range(first, len(log.rows)):
        overwrite(log, index, entry(rng, index, "request.decided").text())
    return first


def tail_rewritten_without_checkpoints(log: Log, rng: random.Random) -> int:
    first = tail_rewritten(log, rng)
    log.do("DELETE FROM checkpoints WHERE size > ?", first)
    return first


def tail_rewritten_and_signed_by_thief(log: Log, rng: random.Random) -> int:
    first = rng.randrange(log.sealed)
    rows = list(log.rows)
    for index in range(first, len(rows)):
        text = entry(rng, index, "request.decided").text()
        rows[index] = Logged(index, text, leaf(text).hex())
        overwrite(log, index, text)
    for seal in log.seals:
        if seal.size > first:
            forged = sealed_by_thief(log, tuple(rows[: seal.size]))
            log.do(
                "UPDATE checkpoints SET text = ?, key_id = ?, signature = ? WHERE size = ?",
                forged.text, forged.key_id, forged.signature, seal.size,
            )  # fmt: skip
    return first


LOG_DAMAGE: tuple[Callable[[Log, random.Random], int | set[int]], ...] = (
    text_byte, text_byte, text_byte, leaf_byte, index_bit, checkpoint_byte, checkpoint_byte, checkpoint_size,
    checkpoint_gone, checkpoint_forged, deleted, deleted_and_closed, several_deleted, swapped, cut,
    cut_with_checkpoints, cut_with_all_checkpoints, cut_and_grown_again, replaced, byte_and_leaf, duplicated,
    copied_over, inserted, tail_rewritten, tail_rewritten_without_checkpoints, tail_rewritten_and_signed_by_thief,
)  # fmt: skip


def shift(log: Log, start: int, by: int) -> None:
    """Every index from `start` on is moved, the long way round because they must stay unique."""
    log.do("UPDATE entries SET idx = -1000000 - idx WHERE idx >= ?", start)
    log.do("UPDATE entries SET idx = -1000000 - idx + ? WHERE idx <= -1000000", by)


def overwrite(log: Log, index: int, text: str) -> None:
    log.do("UPDATE entries SET text = ?, leaf = ? WHERE idx = ?", text, leaf(text).hex(), index)


def put(log: Log, index: int, text: str) -> None:
    log.do(
        "INSERT INTO entries (workspace, idx, subject, kind, at, text, leaf) VALUES ('main', ?, 's', 'k', 0, ?, ?)",
        index, text, leaf(text).hex(),
    )  # fmt: skip


def sealed_by_thief(log: Log, rows: tuple[Logged, ...]) -> Signed:
    checkpoint = Checkpoint.of(log.origin, Tree().extend(leaf(row.text) for row in rows), AT)
    key, signature = log.thief.signed(checkpoint.text().encode())
    return Signed("main", checkpoint.size, checkpoint.stored(), key, signature)


def one_byte_changed(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ rng.randrange(1, 256)]) + data[place + 1 :]


def other_char(rng: random.Random, char: str) -> str:
    return rng.choice([one for one in "abcxyz0189-é" if one != char])


def is_named(report: Report, touched: int | set[int]) -> bool:
    """Whether the report's first word on entries spans the entry, or the checkpoint is named."""
    if isinstance(touched, set):
        return any(fault.checkpoint in touched or "a checkpoint" in fault.says for fault in report.faults)
    for fault in report.faults:
        if fault.first is not None and fault.last is not None:
            return fault.first <= touched <= fault.last
    return False


# Damage to what leaves the database.


def forged_receipt(log: Log, rng: random.Random) -> bool:
    """Whether a damaged receipt was rejected."""
    text = rng.choice(log.receipts)
    changed = text.encode()
    while changed == text.encode():
        changed = one_forgery(log, rng, text)
    with contextlib.suppress(TamperFound):
        verify_receipt(changed, log.keys.public_key())
        return False
    return True


def one_forgery(log: Log, rng: random.Random, text: str) -> bytes:
    """The receipt changed in one way, or by chance not at all."""
    match rng.randrange(8):
        case 0:
            return mixed(rng, text, rng.choice(log.receipts)).encode()
        case 1:
            return resigned(log, text).encode()
        case 2:
            place = rng.randrange(len(text))
            return (text[:place] + rng.choice([text[place], " ", '"', "\\u0061", "\n"]) + text[place:]).encode()
        case _:
            return one_byte_changed(rng, text.encode())


def mixed(rng: random.Random, text: str, other: str) -> str:
    """A receipt with one field of another, otherwise spelled as it should be."""
    one, two = json.loads(text), json.loads(other)
    name = rng.choice(sorted(one))
    return json.dumps({**one, name: two[name]}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def resigned(log: Log, text: str) -> str:
    """A receipt whose decision was turned round and which a stranger signed under the true key's name."""
    fields = json.loads(text)
    del fields["signature"]
    fields["says"] = "Denied."
    bare = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    fields["signature"] = log.thief.sign(bare.encode()).hex()
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def forged_export(log: Log, rng: random.Random) -> bool:
    """Whether a damaged export was rejected, judged by the true key."""
    lines = list(log.export)
    match rng.randrange(8):
        case 0:
            del lines[rng.randrange(len(lines))]
        case 1:
            del lines[rng.randrange(len(lines)) :]
        case 2:
            one, other = rng.sample(range(len(lines)), 2)
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
        case 4:
            lines = whole_export_by_thief(log, rng)
        case _:
            lines = one_byte_changed(rng, b"".join(lines)).splitlines(keepends=True)
    return not verify_export(lines, [log.keys.public_key()]).report.ok


def whole_export_by_thief(log: Log, rng: random.Random) -> list[bytes]:
    """An export in which everything fits together, one entry is forged, and a stranger signed it."""
    rows = list(log.rows)
    text = entry(rng, 10_000, "request.decided").text()
    index = rng.randrange(log.sealed)
    rows[index] = Logged(index, text, leaf(text).hex())
    writer = Writer()
    lines = [writer.header(log.origin, log.thief.public_keys())]
    lines += [writer.entry(row) for row in rows]
    lines.append(writer.checkpoint(sealed_by_thief(log, tuple(rows))))
    end = writer.end(rng.choice([log.thief.key_id, log.keys.key_id]))
    lines.append(Writer.signed_end(end, log.thief.signed(end.encode())[1]))
    return [line.encode() for line in lines]


def forged_proof(_: Log, rng: random.Random) -> bool:
    """Whether a damaged proof of inclusion or consistency was rejected."""
    size = rng.randint(2, 64)
    leaves = [leaf_hash(rng.randbytes(8)) for _ in range(size)]
    index = rng.randint(1, size - 1)
    before, whole = Tree().extend(leaves[:index]), Tree().extend(leaves)
    if rng.random() < 0.5:
        proof = list(inclusion(before, leaves[index:]))
        assert is_included(leaves[index], index, size, proof, whole.root)
        if rng.random() < 0.2:
            return not is_included(rng.choice(leaves[:index]), index, size, proof, whole.root)
        return not is_included(leaves[index], index, size, bent(rng, proof), whole.root)
    proof = list(consistency(before, leaves[index:]))
    assert is_extension(index, before.root, size, whole.root, proof)
    if rng.random() < 0.2:
        other = before.extend([leaf_hash(b"other"), *leaves[index + 1 :]])
        return not is_extension(index, before.root, size, other.root, proof)
    return not is_extension(index, before.root, size, whole.root, bent(rng, proof))


def bent(rng: random.Random, proof: list[bytes]) -> list[bytes]:
    """The proof with one node changed, lost, added or doubled."""
    place = rng.randrange(len(proof))
    match rng.randrange(4):
        case 0:
            return [*proof[:place], *proof[place + 1 :]]
        case 1:
            return [*proof[:place], rng.randbytes(32), *proof[place:]]
        case 2:
            return [*proof, proof[place]]
        case _:
            return [*proof[:place], one_byte_changed(rng, proof[place]), *proof[place + 1 :]]


OUTSIDE = (forged_receipt, forged_export, forged_proof)


async def damaged_log(log: Log, rng: random.Random) -> tuple[str, bool]:
    """What was done to the log, and whether the notary told it and where."""
    damage = rng.choice(LOG_DAMAGE)
    with log.raw:
        touched = damage(log, rng)
    try:
        report = await log.notary.verify()
    finally:
        with log.raw:
            log.restore()
    return damage.__name__, is_named(report, touched)


async def _run(cases: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    tried, missed, unseen = Counter[str](), Counter[str](), list[str]()
    began, done, logs, in_database = time.perf_counter(), 0, 0, 0
    while done < cases:
        async with built(rng) as log:
            logs += 1
            for number in range(done, min(cases, done + PER_LOG)):
                if rng.random() < 0.7:
                    name, detected = await damaged_log(log, rng)
                    in_database += 1
                else:
                    forge = rng.choice(OUTSIDE)
                    name, detected = forge.__name__, forge(log, rng)
                tried[name] += 1
                if not detected:
                    missed[name] += 1
                    unseen.append(f"case {number}: {name}")
            done = min(cases, done + PER_LOG)
            assert (await log.notary.verify()).ok
    seconds = time.perf_counter() - began
    return {
        "suite": "mutated audit logs and forged proofs",
        "invariants": ["I9"],
        "seed": seed,
        "cases": cases,
        "detected": cases - missed.total(),
        "missed": missed.total(),
        "first_missed": unseen[:TOLD],
        "by_kind": {name: {"cases": tried[name], "missed": missed[name]} for name in sorted(tried)},
        "logs": logs,
        "how": {
            "in a real database, committed, read through the store": in_database,
            "on receipts, exports and proofs in memory": cases - in_database,
            "sped up": "verdicts on identical signatures and the list of public keys are remembered; "
            "the damaging connection does not sync",
        },
        "seconds": round(seconds, 1),
        "cases_per_second": round(cases / seconds),
    }


def run(cases: int, seed: int) -> dict[str, Any]:
    """What was tried and what was missed; `missed` must be 0."""
    return asyncio.run(_run(cases, seed))
