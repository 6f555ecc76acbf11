"""The Merkle tree of the audit log (RFC 6962 hashing), its frontier, and proofs about it.

What is hashed is decided elsewhere; here are only leaves, nodes and roots.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf; its prefix keeps a node from passing for an entry."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash over two subtrees, the earlier one first."""
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of `size` leaves, known by its frontier: what is needed to grow it and to tell its root."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()
    """The roots of the complete subtrees it consists of, largest (and earliest) first."""

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.peaks) != self.size.bit_count():
            raise ValueError(f"a tree of {self.size} leaves cannot have {len(self.peaks)} complete subtrees")
        if any(len(peak) != HASH_BYTES for peak in self.peaks):
            raise ValueError(f"a subtree's hash has {HASH_BYTES} bytes")

    def append(self, leaf: bytes) -> "Tree":
        """The tree with this leaf hash behind the others."""
        return self.extend((leaf,))

    def extend(self, leaves: Iterable[bytes]) -> "Tree":
        """The tree with these leaf hashes behind the others, in this order."""
        size, peaks = self.size, list(self.peaks)
        for node in leaves:
            # Each low bit that is set is a complete subtree as large as the one in hand: they become one.
            rest = size
            while rest & 1:
                node = sha256(b"\x01" + peaks.pop() + node).digest()
                rest >>= 1
            peaks.append(node)
            size += 1
        return Tree(size, tuple(peaks))

    @property
    def root(self) -> bytes:
        """The Merkle tree hash over all leaves."""
        if not self.peaks:
            return sha256(b"").digest()
        *larger, root = self.peaks
        for peak in reversed(larger):
            root = node_hash(peak, root)
        return root

    def frontier(self) -> str:
        """The peaks as text, from which `restore` makes the tree again."""
        return " ".join(peak.hex() for peak in self.peaks)

    @classmethod
    def restore(cls, size: int, frontier: str) -> "Tree":
        """The tree whose frontier this is; `ValueError` if it cannot be one of that size.

        Compare its root with one that was signed before believing it.
        """
        tree = cls(size, tuple(bytes.fromhex(peak) for peak in frontier.split(" ") if frontier))
        if tree.frontier() != frontier:
            raise ValueError("a frontier is lower-case hexadecimal hashes with one space between them")
        return tree


def inclusion(before: Tree, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """The proof that `leaves[0]` has index `before.size` in the tree that `before` and `leaves` make.

    The siblings to the left of a leaf are the peaks of the tree before it, so nothing earlier is needed.
    """
    if not leaves:
        raise ValueError("there is no leaf to prove")
    peaks, path = list(before.peaks), list[bytes]()
    start, end, index = 0, before.size + len(leaves), before.size
    while end - start > 1:
        middle = start + _split(end - start)
        if index >= middle:
            path.append(peaks.pop(0))
            start = middle
        else:
            path.append(Tree().extend(leaves[middle - index : end - index]).root)
            end = middle
    return tuple(reversed(path))


def consistency(before: Tree, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """The proof that the tree which `before` and `leaves` make begins with exactly the leaves of `before`."""
    if not before.size or not leaves:
        return ()
    peaks, path = list(before.peaks), list[bytes]()
    start, end = 0, before.size + len(leaves)
    while end > before.size:
        middle = start + _split(end - start)
        if before.size > middle:
            path.append(peaks.pop(0))
            start = middle
        else:
            path.append(Tree().extend(leaves[middle - before.size : end - before.size]).root)
            end = middle
    if start:
        path.append(peaks.pop())
    return tuple(reversed(path))


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `proof` shows that `leaf` stands at `index` in the tree with this size and root."""
    if not 0 <= index < size or any(len(node) != HASH_BYTES for node in (leaf, root, *proof)):
        return False
    place, last, current = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            current = node_hash(sibling, current)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            current = node_hash(current, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and current == root


def is_extension(size: int, root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that the tree of `new_size` begins with the tree of `size`, nothing changed."""
    if not 0 <= size <= new_size or any(len(node) != HASH_BYTES for node in (root, new_root, *proof)):
        return False
    if size == new_size:
        return not proof and root == new_root
    if size == 0:
        return not proof and root == Tree().root
    path = [root, *proof] if size & (size - 1) == 0 else list(proof)
    if not path:
        return False
    place, last = size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and old == root and new == new_root


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)
