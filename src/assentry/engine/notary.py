"""The notary: seals the audit log, verifies it, exports it, and gives receipts for decisions.

What is right is decided in the core; here the log is read, and what was signed is put in two places, the
database and a file outside it, so that cutting both entries and checkpoints from the database shows.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from assentry.core.audit import Checkpoint, Entry, Fault, Report, Walk, Wrong, leaf, origin
from assentry.core.change import Change
from assentry.core.export import Exported, Writer, check_export
from assentry.core.merkle import Tree, inclusion
from assentry.core.receipt import DECIDED, Receipt, check_receipt, in_words
from assentry.core.signing import PublicKeys
from assentry.core.text import counted
from assentry.errors import NotFound, TamperFound
from assentry.ports import Logged, Signed, Store

_PAGE = 1000


class Keys(Protocol):
    """What a notary needs of the keys outside the database (`assentry.keys.KeyRing`)."""

    @property
    def key_id(self) -> str: ...

    def signed(self, data: bytes) -> tuple[str, str]:
        """The current key's id and its signature in hex."""
        ...

    def public_keys(self) -> PublicKeys: ...

    def introduce(self, workspace: str, at: datetime, by: str) -> Entry: ...

    def promote(self, name: str) -> None: ...

    def keep(self, identity: str, signed: Signed) -> None: ...

    def kept(self, identity: str, workspace: str) -> tuple[tuple[Signed, ...], tuple[str, ...]]: ...


class Notary:
    """Vouches for the audit log of one workspace. Several may work on one log at once."""

    def __init__(self, store: Store, keys: Keys, workspace: str) -> None:
        self._store, self._keys, self._workspace = store, keys, workspace
        self._last: tuple[Checkpoint, Signed] | None = None
        self._identity_once = ""

    async def seal(self) -> Signed | None:
        """Every entry so far is below a signed checkpoint, here and outside the database; `None`: no entries.

        Reads only what came after the last checkpoint. Two notaries that seal at once sign the same tree,
        and one checkpoint more does no harm. A log shorter than what was signed is not sealed again.
        """
        identity = await self._identity()
        size = await self._store.sequence(self._workspace)
        last = self._last or await self._latest(identity)
        tree = last[0].tree if last and last[0].tree else Tree()
        if last and size < tree.size:
            raise TamperFound(
                f"the log has {counted(size, 'entry')}, and {tree.size} were signed at {last[0].at.isoformat()}; "
                "nothing was sealed; run `assentry audit verify`"
            )
        if size > tree.size or last is None:
            if not size:
                return None
            checkpoint = Checkpoint.of(
                origin(identity, self._workspace), await self._grown(tree, size), await self._store.now()
            )
            key, signature = await asyncio.to_thread(self._keys.signed, checkpoint.text().encode())
            signed = Signed(self._workspace, size, checkpoint.stored(), key, signature)
            # First inside, then outside: what is outside and not inside was removed from the inside.
            await self._store.put_checkpoint(signed)
            await asyncio.to_thread(self._keys.keep, identity, signed)
            last = (checkpoint, signed)
        self._last = last
        return last[1]

    async def verify(self) -> Report:
        """What is wrong with the whole log, held against the checkpoints in the database and outside it."""
        identity = await self._identity()
        # In this order everything in the file was in the database before, also while others seal.
        kept, wrong = await asyncio.to_thread(self._keys.kept, identity, self._workspace)
        walk = Walk(origin(identity, self._workspace), self._keys.public_keys().check)
        try:
            stored = await self._store.checkpoints(self._workspace)
        except UnicodeDecodeError:
            stored = ()
            walk.accuse(Fault(Wrong.CHECKPOINT, "a checkpoint in the database is not text any more"))
        for signed in stored:
            walk.mark(signed)
        for signed in kept:
            walk.mark(signed, " in the file outside the database")
        for says in wrong:
            walk.accuse(Fault(Wrong.FILE, says))
        if gone := _absent(kept, stored):
            says = f"of the signed checkpoints {len(gone):,} are missing in the database, the first of size {gone[0]}"
            walk.accuse(Fault(Wrong.CHECKPOINT, says, checkpoint=gone[0]))
        async for page in self._pages(0, walk):
            walk.feed(page)
        return walk.report(_notes(stored, kept))

    async def rotate(self, by: str) -> str:
        """A new key signs from now on, and the old one vouched for it in the log; the new key's id."""
        await self.seal()
        entry = await asyncio.to_thread(self._keys.introduce, self._workspace, await self._store.now(), by)
        await self._store.transact(self._workspace, None, lambda _: Change(entries=(entry,)))
        await asyncio.to_thread(self._keys.promote, entry.subject)
        await self.seal()
        return entry.subject

    async def export(self, write: Callable[[str], object]) -> int:
        """The whole log, sealed, was handed to `write` line by line; how many entries."""
        count = 0
        async for line, entries in self._export():
            write(line)
            count = entries
        return count

    async def lines(self) -> AsyncIterator[str]:
        """The lines of an export, each with its newline."""
        async for line, _ in self._export():
            yield line

    async def receipt(self, request_id: str) -> str:
        """A signed receipt for the last decision on this request, as `verify_receipt` reads it."""
        await self.seal()
        identity = await self._identity()
        decided = await self._decision(request_id)
        before, cover = await self._around(identity, decided.index)
        leaves: list[bytes] = []
        async for page in self._pages(before.size):
            for line in page[: cover[0].size - before.size - len(leaves)]:
                leaves.append(_checked(line, before.size + len(leaves)))
            if before.size + len(leaves) >= cover[0].size:
                break
        position = decided.index - before.size
        tree = before.extend(leaves[:position])
        if before.extend(leaves).root.hex() != cover[0].root:
            raise TamperFound(
                f"entries {before.size} to {cover[0].size - 1} are not what was signed, so there is no receipt; "
                "run `assentry audit verify`"
            )
        proof = tuple(node.hex() for node in inclusion(tree, leaves[position:]))
        return await asyncio.to_thread(self._issue, decided, request_id, proof, *cover)

    def _issue(
        self, decided: Logged, request_id: str, proof: tuple[str, ...], cover: Checkpoint, signed: Signed
    ) -> str:
        """The receipt, both signatures in it by one key, so that one public key suffices to check it."""
        key = self._keys.key_id
        text, signature = cover.text(), signed.signature
        if signed.key_id != key:
            key, signature = self._keys.signed(text.encode())
        says = in_words(json.loads(decided.text))
        bare = Receipt(says, request_id, decided.text, decided.index, proof, text, signature, key)
        again, own = self._keys.signed(bare.text().encode())
        if again != key:
            # Somebody rotated keys just now; the new one signs both.
            return self._issue(decided, request_id, proof, cover, signed)
        receipt = replace(bare, signature=own).text()
        check_receipt(receipt, self._keys.public_keys())
        return receipt

    async def _export(self) -> AsyncIterator[tuple[str, int]]:
        sealed = await self.seal()
        identity = await self._identity()
        kept, _ = await asyncio.to_thread(self._keys.kept, identity, self._workspace)
        stored = await self._stored()
        marks = sorted({*stored, *kept}, key=lambda signed: (signed.size, signed.key_id, signed.text))
        size = sealed.size if sealed else 0
        writer, place, count = Writer(), 0, 0
        yield writer.header(origin(identity, self._workspace), self._keys.public_keys()), count
        async for page in self._pages(0):
            for line in page:
                if line.index >= size:
                    break
                count += 1
                yield writer.entry(line), count
                while place < len(marks) and marks[place].size <= line.index + 1:
                    yield writer.checkpoint(marks[place]), count
                    place += 1
        for signed in marks[place:]:
            if signed.size <= size:
                yield writer.checkpoint(signed), count
        yield await asyncio.to_thread(self._signed_end, writer), count

    def _signed_end(self, writer: Writer) -> str:
        end = writer.end(self._keys.key_id)
        key, signature = self._keys.signed(end.encode())
        if key != json.loads(end)["key"]:
            # Somebody rotated keys just now.
            return self._signed_end(writer)
        return Writer.signed_end(end, signature)

    async def _identity(self) -> str:
        self._identity_once = self._identity_once or await self._store.identity()
        return self._identity_once

    async def _latest(self, identity: str) -> tuple[Checkpoint, Signed] | None:
        """The largest checkpoint that a known key signed, wherever it is kept."""
        kept, _ = await asyncio.to_thread(self._keys.kept, identity, self._workspace)
        stored = await self._stored()
        known = self._keys.public_keys().by_id
        ours = [signed for signed in (*stored, *kept) if signed.key_id in known]
        if not ours:
            return None
        signed = max(ours, key=lambda one: one.size)
        checkpoint = self._believed(identity, signed)
        if signed not in kept:
            # A process died between the two places.
            await asyncio.to_thread(self._keys.keep, identity, signed)
        return checkpoint, signed

    async def _stored(self) -> tuple[Signed, ...]:
        try:
            return await self._store.checkpoints(self._workspace)
        except UnicodeDecodeError:
            raise TamperFound("a checkpoint is not text any more; run `assentry audit verify`") from None

    async def _around(self, identity: str, index: int) -> tuple[Tree, tuple[Checkpoint, Signed]]:
        """The tree of a checkpoint at or before `index`, and the first checkpoint after it."""
        known = self._keys.public_keys().by_id
        stored = [signed for signed in await self._stored() if signed.key_id in known]
        earlier = [signed for signed in stored if signed.size <= index]
        later = [signed for signed in stored if signed.size > index]
        if not later:
            raise TamperFound("no checkpoint covers the decision any more; run `assentry audit verify`")
        before = self._believed(identity, earlier[-1]).tree if earlier else None
        return before or Tree(), (self._believed(identity, later[0]), later[0])

    def _believed(self, identity: str, signed: Signed) -> Checkpoint:
        """The checkpoint in `signed`, which is of this log and was signed by a known key."""
        try:
            checkpoint = Checkpoint.parse(signed.text)
        except ValueError as error:
            raise TamperFound(f"the checkpoint of size {signed.size} cannot be read: {error}") from None
        right = checkpoint.size == signed.size and checkpoint.origin == origin(identity, self._workspace)
        data = checkpoint.text().encode()
        if not right or not self._keys.public_keys().check(signed.key_id, data, signed.signature):
            raise TamperFound(
                f"the checkpoint of size {signed.size} is not what was signed; run `assentry audit verify`"
            )
        return checkpoint

    async def _decision(self, request_id: str) -> Logged:
        """The newest entry that decided this request."""
        start = 0
        while page := await self._store.entries(
            self._workspace, start=start, limit=_PAGE, subject=request_id, newest_first=True
        ):
            for line in page:
                if _is_decision(line.text, request_id):
                    return line
            start = page[-1].index
            if start == 0:
                break
        raise NotFound(f"there is no decision on request {request_id} in the log, so there is no receipt yet")

    async def _grown(self, tree: Tree, size: int) -> Tree:
        """`tree` with the entries up to `size`, each of them what its leaf hash says."""
        async for page in self._pages(tree.size):
            wanted = page[: size - tree.size]
            tree = tree.extend([_checked(line, tree.size + place) for place, line in enumerate(wanted)])
            if tree.size == size:
                return tree
        raise TamperFound(f"entries {tree.size} to {size - 1} are missing; run `assentry audit verify`")

    async def _pages(self, start: int, walk: Walk | None = None) -> AsyncIterator[tuple[Logged, ...]]:
        """The entries from `start` on. One that is not even text is told to `walk`, and passed over."""
        limit = _PAGE
        while True:
            try:
                page = await self._store.entries(self._workspace, start=start, limit=limit)
            except UnicodeDecodeError:
                if walk is None:
                    raise TamperFound("an entry is not text any more; run `assentry audit verify`") from None
                if limit == 1:
                    walk.lost(start, "it is not text any more")
                    start, limit = start + 1, _PAGE
                else:
                    limit = limit // 2
                continue
            if not page:
                return
            yield page
            if len(page) < limit:
                return
            start = page[-1].index + 1


def verify_export(lines: Iterable[str | bytes], public_keys: Iterable[str] | None = None) -> Exported:
    """What is wrong with an export, judged by these keys (PEM or hex), or else by those in the file."""
    return check_export(lines, None if public_keys is None else PublicKeys.of(*public_keys))


def verify_receipt(receipt: str | bytes, public_key: str) -> Receipt:
    """The receipt, if the owner of this key (PEM or hex) signed exactly this; else `TamperFound`."""
    return check_receipt(receipt, PublicKeys.of(public_key))


def _checked(line: Logged, index: int) -> bytes:
    """The leaf hash of the entry that must stand at `index`."""
    computed = leaf(line.text)
    if line.index != index or computed.hex() != line.leaf:
        raise TamperFound(f"entry {index} is missing or was changed; run `assentry audit verify`")
    return computed


def _absent(kept: tuple[Signed, ...], stored: tuple[Signed, ...]) -> list[int]:
    """The sizes of the checkpoints in `kept` that `stored` has lost."""
    texts = {signed.text for signed in stored}
    unequal = [signed for signed in kept if signed.text not in texts]
    trees = {_tree_of(signed) for signed in stored} if unequal else set()
    return [signed.size for signed in unequal if _tree_of(signed) not in trees]


def _tree_of(signed: Signed) -> tuple[int, str]:
    """What was signed: so many entries with this root. Signed twice, it is the same."""
    try:
        return signed.size, Checkpoint.parse(signed.text).root
    except (ValueError, AttributeError):
        return signed.size, ""


def _is_decision(text: str, request_id: str) -> bool:
    try:
        entry: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and entry.get("kind") == DECIDED and entry.get("subject") == request_id


def _notes(stored: tuple[Signed, ...], kept: tuple[Signed, ...]) -> list[str]:
    """What is true and not proved."""
    if kept or not stored:
        return []
    note = (
        "no checkpoint of this log is kept outside the database here: if the end of the log had been cut off "
        "together with its checkpoints, this would not show"
    )
    return [note]
