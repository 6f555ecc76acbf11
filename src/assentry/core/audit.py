"""The audit log: entries, the Merkle tree over them (RFC 6962), and what a verifier checks.

An entry holds digests and names, never payloads, so payloads can be purged without breaking a proof.

The verifier deliberately draws no conclusion from times: the database's clock may be set back, so an
entry that is older than the one before it is not evidence of anything. Order is what the tree proves.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol

from assentry.core.action import Json
from assentry.core.canonical import canonical
from assentry.core.merkle import HASH_BYTES, Tree, leaf_hash
from assentry.core.signing import Check, read, spell
from assentry.errors import TamperFound

_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit log: what happened, to what, when, and by whom."""

    kind: str
    at: datetime
    workspace: str
    subject: str
    """The id of the request, grant, policy version … that this is about."""
    actor: str
    body: Mapping[str, Json] = field(default_factory=dict)

    def text(self) -> str:
        """The canonical bytes that are hashed, stored and exported."""
        return canonical(
            {
                "v": 1,
                "kind": self.kind,
                "at": self.at.isoformat(),
                "workspace": self.workspace,
                "subject": self.subject,
                "actor": self.actor,
                "body": self.body,
            }
        )


def leaf(text: str) -> bytes:
    """The leaf hash of an entry's text."""
    # A lone surrogate cannot have been written by us; it must give a wrong hash here, not an exception.
    return leaf_hash(text.encode("utf-8", "surrogatepass"))


def origin(identity: str, workspace: str) -> str:
    """The name of one log: which database, and which workspace in it."""
    return f"{identity}/{workspace}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The log as it stood at some time: so many entries, with this root.

    Stored as two lines: what is signed, then the frontier. The frontier need not be signed, since it can
    only be the right one if it gives the signed root.
    """

    origin: str
    size: int
    root: str
    at: datetime
    tree: Tree | None = None

    @classmethod
    def of(cls, origin: str, tree: Tree, at: datetime) -> "Checkpoint":
        return cls(origin, tree.size, tree.root.hex(), at, tree)

    def text(self) -> str:
        """What is signed."""
        return spell(
            {
                "type": "assentry.checkpoint",
                "v": 1,
                "origin": self.origin,
                "size": self.size,
                "root": self.root,
                "at": self.at.isoformat(),
            }
        )

    def stored(self) -> str:
        """What is signed, and under it the frontier from which the tree can grow."""
        return f"{self.text()}\n{self.tree.frontier()}" if self.tree else self.text()

    @classmethod
    def parse(cls, stored: str) -> "Checkpoint":
        """The checkpoint that `stored` or `text` wrote, its frontier giving its root; else `ValueError`."""
        text, newline, frontier = stored.partition("\n")
        fields = read(text, {"assentry.checkpoint": {"origin": str, "size": int, "root": str, "at": str}})
        size, root = fields["size"], fields["root"]
        at = datetime.fromisoformat(fields["at"])
        if at.isoformat() != fields["at"] or at.tzinfo is None:
            raise ValueError("its time is not written as Assentry writes it")
        if len(bytes.fromhex(root)) != HASH_BYTES or bytes.fromhex(root).hex() != root or not size:
            raise ValueError("its root or its size cannot be one")
        tree = Tree.restore(size, frontier) if newline else None
        if tree and tree.root.hex() != root:
            raise ValueError("its frontier does not give its root")
        return cls(fields["origin"], size, root, at, tree)


class Line(Protocol):
    """An entry as it stands in a log."""

    @property
    def index(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def leaf(self) -> str: ...


class Seal(Protocol):
    """A signed checkpoint as stored."""

    @property
    def size(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    @property
    def signature(self) -> str: ...


class Wrong(Enum):
    """What can be wrong with a log."""

    ENTRY = "entry changed"
    GAP = "entries missing"
    ORDER = "entry out of place"
    ROOT = "not what was signed"
    CUT = "log cut off"
    SIGNATURE = "bad signature"
    KEY = "unknown key"
    CHECKPOINT = "bad checkpoint"
    FILE = "file changed"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, in words, and the entries among which it is (`last` included)."""

    wrong: Wrong
    says: str
    first: int | None = None
    last: int | None = None
    checkpoint: int | None = None
    """The size of the checkpoint that is bad or that showed it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a verifier found."""

    size: int
    """How many entries there are, by the last one's index."""
    sealed: int
    """How many of them, from the first, the last matching checkpoint covers."""
    checkpoints: int
    """How many signed checkpoints matched."""
    root: str
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    """What is true and not proved."""

    @property
    def ok(self) -> bool:
        """Nothing below the last checkpoint was changed, removed, added or moved."""
        return not self.faults

    @property
    def unsealed(self) -> int:
        """How many entries came after the last checkpoint; nothing is proved about those yet."""
        return self.size - self.sealed

    def require(self) -> "Report":
        """This report if nothing is wrong; else `TamperFound` with the first fault."""
        if self.faults:
            more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
            raise TamperFound(self.faults[0].says + more)
        return self


class Walk:
    """A verifier that is handed checkpoints and entries as they come, and remembers one frontier.

    What is wrong between two checkpoints is told once, at its first entry where that is known; the walk
    then goes on from the frontier of the next checkpoint, so damage in one place hides none in another.
    """

    def __init__(self, origin: str, check: Check) -> None:
        self._origin, self._check = origin, check
        self._tree = Tree()
        self._batch: list[bytes] = []
        self._marks: list[tuple[int, str, int, Checkpoint]] = []
        self._known: set[tuple[int, str, str, str]] = set()
        self._next = 0
        self._from = 0
        """The size of the last checkpoint passed."""
        self._broken = False
        """The frontier is not known here, because something is missing or out of place."""
        self._told = False
        self._sealed = self._matched = 0
        self._faults: list[Fault] = []

    def mark(self, seal: Seal, where: str = "") -> None:
        """This checkpoint is checked, and held against the log once that has reached its size."""
        copy = (seal.size, seal.text, seal.key_id, seal.signature)
        if copy in self._known:
            return None
        name = f"the checkpoint of size {seal.size}{where}"
        try:
            checkpoint = Checkpoint.parse(seal.text)
        except ValueError as error:
            return self._bad(Wrong.CHECKPOINT, f"{name} cannot be read: {error}", seal.size)
        if checkpoint.tree is None:
            return self._bad(Wrong.CHECKPOINT, f"{name} has lost its frontier", seal.size)
        if checkpoint.size != seal.size or checkpoint.origin != self._origin:
            says = f"{name} says that it is of size {checkpoint.size} and of the log {checkpoint.origin!r}"
            return self._bad(Wrong.CHECKPOINT, says, seal.size)
        match self._check(seal.key_id, checkpoint.text().encode(), seal.signature):
            case None:
                says = f"{name} was signed with key {seal.key_id!r}, which is not known here; give its public key"
                return self._bad(Wrong.KEY, says, seal.size)
            case False:
                return self._bad(Wrong.SIGNATURE, f"the signature of {name} is not right", seal.size)
        if checkpoint.size < self._next:
            return self._bad(Wrong.CHECKPOINT, f"{name} stands after entry {self._next - 1}", seal.size)
        self._known.add(copy)
        heapq.heappush(self._marks, (checkpoint.size, checkpoint.root, len(self._known), checkpoint))
        return self._settle()

    def feed(self, lines: Iterable[Line]) -> None:
        """These entries were checked and have joined the tree."""
        for line in lines:
            if line.index != self._next and not self._skip_to(line.index):
                continue
            computed = leaf(line.text)
            if computed.hex() != line.leaf:
                self._tell(
                    Wrong.ENTRY, f"entry {line.index} was changed: its text does not give its leaf hash", line.index
                )
                computed = _as_stored(line.leaf, computed)
            self._batch.append(computed)
            self._next += 1
            if len(self._batch) >= _BATCH or (self._marks and self._marks[0][0] <= self._next):
                self._settle()

    def lost(self, index: int, why: str) -> None:
        """The entry at `index` is there and cannot be read."""
        if index >= self._next and self._skip_to(index):
            self._tell(Wrong.ENTRY, f"entry {index} cannot be read: {why}", index)
            self._skip_to(index + 1, tell=False)

    def accuse(self, fault: Fault) -> None:
        """This fault, which somebody else found, is in the report."""
        self._faults.append(fault)

    def report(self, notes: Iterable[str] = ()) -> Report:
        """What was found, the log having ended here."""
        self._settle()
        notes = list(notes)
        if self._marks:
            size, _, _, checkpoint = max(self._marks)
            self._faults.append(
                Fault(
                    Wrong.CUT,
                    f"the log has {self._next} entries, and the checkpoint of {checkpoint.at.isoformat()} signed "
                    f"{size}: entries {self._next} to {size - 1} are gone",
                    self._next,
                    size - 1,
                    size,
                )
            )
        if unsealed := self._next - self._sealed:
            notes.append(f"{unsealed} entries are not yet sealed: nothing is proved about them until the next seal")
        return Report(self._next, self._sealed, self._matched, self._tree.root.hex(), tuple(self._faults), tuple(notes))

    def _skip_to(self, index: int, *, tell: bool = True) -> bool:
        """Whether the walk can go on at `index`, which is not the one that should come next."""
        if type(index) is not int or index < self._next:
            says = f"entry {index!r} stands where entry {self._next} should be"
            first = max(index, 0) if type(index) is int else self._next
            self._tell(Wrong.ORDER, says, first, self._next)
            self._broken = True
            return False
        while self._next < index:
            # Up to each checkpoint in the gap in turn: the entries before and after it are told apart.
            until = min([index, *(mark[0] for mark in self._marks[:1])])
            if tell:
                gone = (
                    f"entry {self._next} is" if until - self._next == 1 else f"entries {self._next} to {until - 1} are"
                )
                self._tell(Wrong.GAP, f"{gone} missing", self._next, until - 1)
            self._broken, self._next = True, until
            self._settle()
        return True

    def _settle(self) -> None:
        """The batch is in the tree, and the checkpoints of exactly this size were held against it."""
        if not self._broken:
            self._tree = self._tree.extend(self._batch)
        self._batch.clear()
        here = []
        while self._marks and self._marks[0][0] <= self._next:
            here.append(heapq.heappop(self._marks)[3])
        if not here:
            return
        matching = [one for one in here if self._matches(one)]
        self._matched += len(matching)
        if len(matching) < len(here) and not self._broken:
            self._faults.append(self._differs(here, matching))
        if matching:
            self._sealed = self._next
        elif (tree := here[-1].tree) is not None:
            self._tree, self._broken = tree, False
        self._from, self._told = self._next, False

    def _matches(self, checkpoint: Checkpoint) -> bool:
        return not self._broken and checkpoint.root == self._tree.root.hex()

    def _differs(self, here: list[Checkpoint], matching: list[Checkpoint]) -> Fault:
        wrong = next(one for one in here if one not in matching)
        among = f"entry {self._from}" if wrong.size - self._from == 1 else f"entries {self._from} to {wrong.size - 1}"
        says = f"{among}: not what the checkpoint of {wrong.at.isoformat()} signed for the first {wrong.size}"
        if matching:
            says += "; another checkpoint signed what is there now, so the log was signed in two versions"
        return Fault(Wrong.ROOT, says, self._from, wrong.size - 1, wrong.size)

    def _tell(self, wrong: Wrong, says: str, first: int, last: int | None = None) -> None:
        if not self._told:
            self._faults.append(Fault(wrong, says, first, first if last is None else last))
        self._told = True

    def _bad(self, wrong: Wrong, says: str, size: int) -> None:
        self._faults.append(Fault(wrong, says, checkpoint=size))


def verify(entries: Iterable[Line], checkpoints: Iterable[Seal], check: Check, *, origin: str) -> Report:
    """What is wrong with the log, if anything is. One pass; memory does not grow with the entries."""
    walk = Walk(origin, check)
    for seal in checkpoints:
        walk.mark(seal)
    walk.feed(entries)
    return walk.report()


def _as_stored(stored: str, computed: bytes) -> bytes:
    """The stored leaf, so that a checkpoint can still show whether the text or the leaf was changed."""
    try:
        given = bytes.fromhex(stored)
    except (ValueError, TypeError):
        return computed
    return given if len(given) == HASH_BYTES else computed
