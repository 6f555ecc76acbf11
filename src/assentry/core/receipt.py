"""Receipts: signed proof of one decision, which a stranger can check with nothing but a public key.

A receipt holds the log's entry of the decision, where it stands in the log, the path from it to the root
of a signed checkpoint, and the same facts in words. It has one spelling; every byte of it counts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assentry.core.action import Json
from assentry.core.audit import Checkpoint, leaf
from assentry.core.merkle import is_included
from assentry.core.signing import PublicKeys, read, spell
from assentry.errors import TamperFound

DECIDED = "request.decided"
"""The kind of entry that a receipt is about."""

_FIELDS = {
    "says": str,
    "request": str,
    "entry": str,
    "index": int,
    "proof": list,
    "checkpoint": str,
    "checkpoint_signature": str,
    "key": str,
}


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receipt holds. `text` without a signature is what is signed."""

    says: str
    request: str
    entry: str
    index: int
    proof: tuple[str, ...]
    checkpoint: str
    checkpoint_signature: str
    key: str
    """The id of the key that signed the checkpoint and the receipt."""
    signature: str = ""

    def text(self) -> str:
        """The one spelling of this receipt."""
        fields: dict[str, Json] = {name: getattr(self, name) for name in _FIELDS}
        fields |= {"type": "assentry.receipt", "v": 1, "proof": list(self.proof)}
        return spell({**fields, "signature": self.signature} if self.signature else fields)

    def facts(self) -> Mapping[str, Json]:
        """The entry as data."""
        facts: dict[str, Json] = json.loads(self.entry)
        return facts


def check_receipt(text: str | bytes, keys: PublicKeys) -> Receipt:
    """The receipt, which is exactly what one of `keys` signed; else `TamperFound` saying what is wrong."""
    try:
        whole = text.decode() if isinstance(text, bytes) else text
        fields = read(whole.removesuffix("\n"), {"assentry.receipt": {**_FIELDS, "signature": str}})
        receipt = Receipt(**{name: fields[name] for name in (*_FIELDS, "signature")} | {"proof": _proof(fields)})
        checkpoint = Checkpoint.parse(receipt.checkpoint)
        proof = [bytes.fromhex(node) for node in receipt.proof]
        root = bytes.fromhex(checkpoint.root)
        entry = json.loads(receipt.entry)
    except (ValueError, RecursionError) as error:
        raise TamperFound(f"this receipt cannot be believed: {error}") from None
    unsigned = Receipt(**{name: getattr(receipt, name) for name in _FIELDS})
    signed = keys.check(receipt.key, unsigned.text().encode(), receipt.signature)
    if signed is None:
        raise TamperFound(
            f"this receipt was signed with key {receipt.key!r}, which is not the one given; "
            "ask whoever issued it for that public key, by a way you trust"
        )
    if not signed:
        raise TamperFound("this receipt is not what was signed: something in it was changed")
    if not keys.check(receipt.key, receipt.checkpoint.encode(), receipt.checkpoint_signature):
        raise TamperFound("the checkpoint in this receipt is not what was signed")
    if not is_included(leaf(receipt.entry), receipt.index, checkpoint.size, proof, root):
        raise TamperFound("the entry in this receipt is not in the log that the checkpoint signed")
    if not isinstance(entry, dict) or entry.get("kind") != DECIDED or entry.get("subject") != receipt.request:
        raise TamperFound("the entry in this receipt is not the decision on its request")
    return receipt


def in_words(entry: Mapping[str, Any]) -> str:
    """The decision that `entry` records, as a sentence; control characters are shown, not obeyed."""
    body = entry.get("body")
    body = body if isinstance(body, Mapping) else {}
    name = body.get("code") or entry.get("subject")
    parts = [f"Request {name}"]
    if body.get("action"):
        parts.append(f": {body['action']}")
    if body.get("agent"):
        parts.append(f", asked for by {body['agent']}")
    parts.append(f": {body.get('word') or 'decided'} by {entry.get('actor')} at {entry.get('at')}")
    if body.get("state"):
        parts.append(f", now {body['state']}")
    votes = body.get("votes")
    said = [vote for vote in votes if isinstance(vote, Mapping)] if isinstance(votes, list) else []
    parts += [f"; {vote.get('by')} said {vote.get('word')} at {vote.get('at')}" for vote in said]
    if body.get("policy_version") is not None:
        parts.append(f"; policy version {body['policy_version']}")
    if body.get("permit_digest"):
        parts.append(f"; what may run has digest {body['permit_digest']}")
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in "".join(parts)) + "."


def _proof(fields: Mapping[str, Any]) -> tuple[str, ...]:
    nodes = tuple(fields["proof"])
    if not all(type(node) is str and bytes.fromhex(node).hex() == node for node in nodes):
        raise ValueError("its proof does not consist of hashes")
    return nodes
