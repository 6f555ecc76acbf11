"""The Merkle tree against the RFC's definition and known answers, and the verifier against planted damage."""

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from assentry.core.audit import Checkpoint, Entry, Fault, Report, Walk, Wrong, leaf, origin, verify
from assentry.core.merkle import (
    Tree,
    consistency,
    inclusion,
    is_extension,
    is_included,
    leaf_hash,
    node_hash,
)
from assentry.core.signing import PublicKeys, key_id, read, spell
from assentry.errors import TamperFound

# The eight leaves of the reference tests of Certificate Transparency, and the roots and proofs over them.
LEAVES = [
    leaf_hash(bytes.fromhex(data))
    for data in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}


def by_definition(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, written down as it stands there."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(by_definition(leaves[:k]), by_definition(leaves[k:]))


def some_leaves(count: int) -> list[bytes]:
    return [leaf_hash(str(number).encode()) for number in range(count)]


def test_the_roots_are_those_of_the_reference_tests() -> None:
    assert Tree().root.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert [Tree().extend(LEAVES[:size]).root.hex() for size in range(1, 9)] == ROOTS


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_inclusion_proofs_are_those_of_the_reference_tests(index: int, size: int) -> None:
    proof = inclusion(Tree().extend(LEAVES[:index]), LEAVES[index:size])
    assert [node.hex() for node in proof] == INCLUSION[index, size]
    assert is_included(LEAVES[index], index, size, proof, bytes.fromhex(ROOTS[size - 1]))


@pytest.mark.parametrize(("old", "new"), CONSISTENCY)
def test_consistency_proofs_are_those_of_the_reference_tests(old: int, new: int) -> None:
    proof = consistency(Tree().extend(LEAVES[:old]), LEAVES[old:new])
    assert [node.hex() for node in proof] == CONSISTENCY[old, new]
    assert is_extension(old, bytes.fromhex(ROOTS[old - 1]), new, bytes.fromhex(ROOTS[new - 1]), proof)


def test_growing_one_by_one_gives_the_root_of_the_definition_at_every_size() -> None:
    leaves, tree = some_leaves(300), Tree()
    for size in range(301):
        assert tree.root == by_definition(leaves[:size])
        assert Tree.restore(size, tree.frontier()) == tree
        if size < 300:
            tree = tree.append(leaves[size])


def test_every_proof_of_every_small_tree_verifies_and_fits_nothing_else() -> None:
    leaves = some_leaves(40)
    trees = [Tree().extend(leaves[:size]) for size in range(41)]
    for size in range(1, 41):
        root = trees[size].root
        for index in range(size):
            proof = inclusion(trees[index], leaves[index:size])
            assert is_included(leaves[index], index, size, proof, root)
            assert not is_included(leaves[index], index + 1, size, proof, root) or size == 1
            assert not is_included(leaves[(index + 1) % 40], index, size, proof, root)
            assert not is_included(leaves[index], index, size, (*proof, root), root)
            assert not proof or not is_included(leaves[index], index, size, proof[:-1], root)
        for old in range(size + 1):
            proof = consistency(trees[old], leaves[old:size])
            assert is_extension(old, trees[old].root, size, root, proof)
            assert not is_extension(old, trees[old].root, size, root, (*proof, root))
            assert not proof or not is_extension(old, trees[old].root, size, root, proof[1:])


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 300), st.data())
def test_a_proof_with_one_bit_changed_fails(size: int, data: st.DataObject) -> None:
    leaves = some_leaves(size)
    whole = Tree().extend(leaves)
    index = data.draw(st.integers(0, size - 1))
    before = Tree().extend(leaves[:index])
    for proof, holds in (
        (inclusion(before, leaves[index:]), lambda p: is_included(leaves[index], index, size, p, whole.root)),
        (
            consistency(before, leaves[index:]),
            lambda p: is_extension(index, before.root, size, whole.root, p),
        ),
    ):
        assert holds(proof)
        if proof:
            place, bit = data.draw(st.integers(0, len(proof) - 1)), data.draw(st.integers(0, 255))
            node = bytearray(proof[place])
            node[bit // 8] ^= 1 << bit % 8
            assert not holds((*proof[:place], bytes(node), *proof[place + 1 :]))


@pytest.mark.parametrize(
    ("size", "frontier"),
    [(1, ""), (0, "00" * 32), (1, "00" * 31), (1, "AB" * 32), (2, " " + "00" * 32), (3, "00" * 64), (1, "zz" * 32)],
)
def test_a_frontier_that_cannot_be_one_is_refused(size: int, frontier: str) -> None:
    with pytest.raises(ValueError):
        Tree.restore(size, frontier)


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ORIGIN = origin("db", "main")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEYS = PublicKeys().adding([KEY.public_key()])


@dataclass(frozen=True, slots=True)
class Row:
    index: int
    text: str
    leaf: str


@dataclass(frozen=True, slots=True)
class Mark:
    size: int
    text: str
    key_id: str
    signature: str


def row(index: int, word: str = "seen") -> Row:
    text = Entry("request.seen", AT, "main", f"r{index}", "ana", {"word": word}).text()
    return Row(index, text, leaf(text).hex())


def mark(rows: Sequence[Row], size: int, key: Ed25519PrivateKey = KEY, name: str = ORIGIN) -> Mark:
    checkpoint = Checkpoint.of(name, Tree().extend(leaf(one.text) for one in rows[:size]), AT)
    signature = key.sign(checkpoint.text().encode()).hex()
    return Mark(size, checkpoint.stored(), key_id(key.public_key()), signature)


ROWS = [row(index) for index in range(30)]
MARKS = [mark(ROWS, size) for size in (10, 20, 27)]


def found(rows: Sequence[Row], marks: Sequence[Mark] = MARKS) -> Report:
    return verify(rows, marks, KEYS.check, origin=ORIGIN)


def spans(report: Report) -> list[tuple[Wrong, int | None, int | None]]:
    return [(fault.wrong, fault.first, fault.last) for fault in report.faults]


def test_an_untouched_log_is_in_order_and_its_tail_is_called_unsealed() -> None:
    report = found(ROWS)
    assert report.require() is report
    assert (report.size, report.sealed, report.unsealed, report.checkpoints) == (30, 27, 3, 3)
    assert "3 entries are not yet sealed" in report.notes[0]


def test_an_empty_log_without_checkpoints_is_in_order() -> None:
    assert found([], []) == Report(0, 0, 0, Tree().root.hex())


def swapped(rows: list[Row], one: int, other: int) -> list[Row]:
    a, b = rows[one], rows[other]
    rows[one], rows[other] = replace(b, index=a.index), replace(a, index=b.index)
    return rows


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda rows: [*rows[:4], replace(rows[4], text=rows[4].text + " "), *rows[5:]], [(Wrong.ENTRY, 4, 4)]),
        (
            lambda rows: [*rows[:4], replace(rows[4], leaf="0" * 64), *rows[5:]],
            [(Wrong.ENTRY, 4, 4), (Wrong.ROOT, 0, 9)],
        ),
        (lambda rows: [*rows[:4], replace(rows[4], leaf="nonsense"), *rows[5:]], [(Wrong.ENTRY, 4, 4)]),
        (lambda rows: [*rows[:4], replace(rows[4], leaf=rows[4].leaf.upper()), *rows[5:]], [(Wrong.ENTRY, 4, 4)]),
        (lambda rows: [*rows[:4], *rows[5:]], [(Wrong.GAP, 4, 4)]),
        (lambda rows: [*rows[:4], *rows[7:]], [(Wrong.GAP, 4, 6)]),
        (lambda rows: [*rows[:4], *rows[14:]], [(Wrong.GAP, 4, 9), (Wrong.GAP, 10, 13)]),
        (lambda rows: [*rows[:5], *rows[4:]], [(Wrong.ORDER, 4, 5)]),
        (lambda rows: [*rows[:4], rows[5], rows[4], *rows[6:]], [(Wrong.GAP, 4, 4)]),
        (lambda rows: swapped(rows, 4, 8), [(Wrong.ROOT, 0, 9)]),
        (lambda rows: swapped(rows, 4, 15), [(Wrong.ROOT, 0, 9), (Wrong.ROOT, 10, 19)]),
        (lambda rows: [*rows[:12], row(12, "forged"), *rows[13:]], [(Wrong.ROOT, 10, 19)]),
        (
            lambda rows: [*rows[:3], row(3, "forged"), *rows[4:22], row(22, "forged"), *rows[23:]],
            [(Wrong.ROOT, 0, 9), (Wrong.ROOT, 20, 26)],
        ),
        (
            lambda rows: [*rows[:15], *(row(index, "new") for index in range(15, 30))],
            [(Wrong.ROOT, 10, 19), (Wrong.ROOT, 20, 26)],
        ),
        (lambda rows: rows[:25], [(Wrong.CUT, 25, 26)]),
        (lambda rows: rows[:5], [(Wrong.CUT, 5, 26)]),
        (lambda rows: [], [(Wrong.CUT, 0, 26)]),
        (lambda rows: [*rows[:29], replace(rows[29], text="")], [(Wrong.ENTRY, 29, 29)]),
        (lambda rows: [replace(rows[0], index=-1), *rows[1:]], [(Wrong.ORDER, 0, 0)]),
        (lambda rows: [*rows, replace(rows[3], index=10**15)], [(Wrong.GAP, 30, 10**15 - 1)]),
    ],
)  # fmt: skip
def test_damage_is_named(damage: Callable[[list[Row]], list[Row]], expected: list[tuple[Wrong, int, int]]) -> None:
    report = found(damage(list(ROWS)))
    assert spans(report)[: len(expected)] == expected
    with pytest.raises(TamperFound, match="ent"):
        report.require()


def test_damage_in_one_interval_does_not_hide_that_others_are_whole() -> None:
    report = found([*ROWS[:4], row(4, "forged"), *ROWS[5:]])
    assert spans(report) == [(Wrong.ROOT, 0, 9)]
    assert report.checkpoints == 2


OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


@pytest.mark.parametrize(
    ("damaged", "wrong"),
    [
        (replace(MARKS[1], signature="00" * 64), Wrong.SIGNATURE),
        (replace(MARKS[1], signature=MARKS[1].signature.upper()), Wrong.SIGNATURE),
        (replace(MARKS[1], signature="?"), Wrong.SIGNATURE),
        (replace(MARKS[1], signature=MARKS[2].signature), Wrong.SIGNATURE),
        (replace(MARKS[1], key_id="0" * 16), Wrong.KEY),
        (mark(ROWS, 20, OTHER), Wrong.KEY),
        (replace(mark(ROWS, 20, OTHER), key_id=MARKS[1].key_id), Wrong.SIGNATURE),
        (mark(ROWS, 20, KEY, origin("db", "other")), Wrong.CHECKPOINT),
        (mark(ROWS, 20, KEY, origin("other", "main")), Wrong.CHECKPOINT),
        (replace(MARKS[1], size=19), Wrong.CHECKPOINT),
        (replace(MARKS[1], text=MARKS[1].text[:-1]), Wrong.CHECKPOINT),
        (replace(MARKS[1], text=MARKS[1].text.replace("size", "sise")), Wrong.CHECKPOINT),
        (replace(MARKS[1], text=MARKS[1].text.partition("\n")[0]), Wrong.CHECKPOINT),
        (replace(MARKS[1], text=MARKS[1].text.replace("2026", "2027")), Wrong.SIGNATURE),
        (replace(MARKS[1], text="[" * 100_000), Wrong.CHECKPOINT),
    ],
)
def test_a_checkpoint_that_is_not_what_was_signed_is_told(damaged: Mark, wrong: Wrong) -> None:
    report = found(ROWS, [MARKS[0], damaged, MARKS[2]])
    assert [(fault.wrong, fault.checkpoint) for fault in report.faults] == [(wrong, damaged.size)]


def test_a_log_signed_in_two_versions_is_told() -> None:
    forged = [*ROWS[:12], row(12, "forged"), *ROWS[13:]]
    report = found(ROWS, [*MARKS, mark(forged, 20)])
    assert spans(report) == [(Wrong.ROOT, 10, 19)]
    assert "two versions" in report.faults[0].says


def test_the_same_checkpoint_twice_is_harmless() -> None:
    assert found(ROWS, [*MARKS, *MARKS]).ok


def test_an_unreadable_entry_is_named_and_the_rest_still_checked() -> None:
    walk = Walk(ORIGIN, KEYS.check)
    for one in MARKS:
        walk.mark(one)
    walk.feed(ROWS[:4])
    walk.lost(4, "not text")
    walk.feed([*ROWS[5:12], row(12, "forged"), *ROWS[13:]])
    assert spans(walk.report()) == [(Wrong.ENTRY, 4, 4), (Wrong.ROOT, 10, 19)]


def test_a_fault_found_elsewhere_is_in_the_report() -> None:
    walk = Walk(ORIGIN, KEYS.check)
    walk.accuse(Fault(Wrong.FILE, "the file was changed"))
    assert not walk.report().ok


def test_verifying_a_long_log_takes_no_more_memory_than_a_short_one() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            assert verify((row(index) for index in range(count)), [], KEYS.check, origin=ORIGIN).size == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(20_000) < 2 * peak(2_000)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 26), st.data())
def test_any_single_character_changed_in_a_sealed_entry_is_named(index: int, data: st.DataObject) -> None:
    text = ROWS[index].text
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.characters().filter(lambda char: char != text[place]))
    changed = text[:place] + char + text[place + 1 :]
    fixed = data.draw(st.booleans())
    rows = list(ROWS)
    rows[index] = Row(index, changed, leaf(changed).hex() if fixed else ROWS[index].leaf)
    first = found(rows).faults[0]
    assert first.first is not None
    assert first.last is not None
    assert first.first <= index <= first.last


def test_a_checkpoint_is_read_back_as_it_was_written() -> None:
    checkpoint = Checkpoint.of(ORIGIN, Tree().extend(LEAVES), AT)
    assert Checkpoint.parse(checkpoint.stored()) == checkpoint
    assert Checkpoint.parse(checkpoint.text()) == replace(checkpoint, tree=None)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1,"type":"t","v":1}', '{"type":"t","v":1}', '{"a":1,"b":2,"type":"t","v":1}',
        '{"a": 1,"type":"t","v":1}', '{"type":"t","a":1,"v":1}', '{"a":1.0,"type":"t","v":1}', "[]", "", "null",
        '{"a":NaN,"type":"t","v":1}', '{"a":-1,"type":"t","v":1}', '{"a":true,"type":"t","v":1}',
        '{"a":1,"type":"t","v":2}', '{"a":1,"type":"u","v":1}', '{"a":1,"type":"t","v":true}',
        '{"a":1,"type":["t"],"v":1}', '{"a":1,"type":"\\u0074","v":1}', "[" * 100_000, '{"a":' + "9" * 5000 + "}",
        ' {"a":1,"type":"t","v":1}', '{"a":1,"type":"t","v":1}\n', '{"a":1,"type":"t","v":1,"\udc00":1}',
    ],
)  # fmt: skip
def test_only_the_one_spelling_of_a_value_is_read(text: str) -> None:
    with pytest.raises(ValueError):
        read(text, {"t": {"a": int}})


def test_what_was_spelled_is_read() -> None:
    value = {"type": "t", "v": 1, "a": 7}
    assert read(spell(value), {"t": {"a": int}}) == value
