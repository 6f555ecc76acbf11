"""Texts that are signed: one spelling each, read back strictly; and whether a signature is theirs.

Only public keys live here. Signing needs a private key, which is an edge's business.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from assentry.core.action import Json
from assentry.errors import KeyProblem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Check = Callable[[str, bytes, str], bool | None]
"""(key id, data, signature in hex) -> whether it is that key's signature; `None` for a key not known."""

_spell = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_LARGEST = 1 << 53


def spell(value: Mapping[str, Json]) -> str:
    """The one spelling of `value`, whose names are ours (plain letters) and whose numbers are whole."""
    return _spell(dict(value))


Fields = Mapping[str, type]


def read(text: str, kinds: Mapping[str, Fields]) -> dict[str, Any]:
    """The value that `spell` wrote, of one of these types and with exactly its fields; else `ValueError`.

    Two texts never mean the same value, so whoever compares or signs texts compares and signs values.
    """
    try:
        text.encode()
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    kind = value.get("type") if type(value) is dict else None
    if type(kind) is not str or kind not in kinds:
        raise ValueError(f"it is not of type {' or '.join(kinds)}")
    if value.get("v") != 1 or type(value["v"]) is not int:
        raise ValueError("its version is not one that this version of Assentry reads; update Assentry")
    expected: Fields = {"type": str, "v": int, **kinds[kind]}
    if value.keys() != expected.keys():
        raise ValueError(f"its fields are not exactly {', '.join(sorted(expected))}")
    for name, kind_of in expected.items():
        if type(value[name]) is not kind_of or (kind_of is int and not 0 <= value[name] <= _LARGEST):
            raise ValueError(f"its field {name} does not hold what it should")
    if _spell(value) != text:
        raise ValueError("it is spelled differently from how Assentry writes it")
    found: dict[str, Any] = value
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name occurs twice")
    return value


def _refuse(_: str) -> None:
    raise ValueError("it holds a number that is not whole")


def public_key(text: str) -> "Ed25519PublicKey":
    """The Ed25519 public key that `text` holds, as PEM or as 64 hexadecimal digits."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        if not text.lstrip().startswith("-----"):
            return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text.strip()))
        key = load_pem_public_key(text.encode())
    except ValueError:
        raise KeyProblem(
            "this is not a public key; give the text that `assentry audit keys` prints (PEM or 64 hex digits)"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyProblem("this public key is not an Ed25519 key, and Assentry signs with no other kind")
    return key


def raw(key: "Ed25519PublicKey") -> str:
    """The key as 64 hexadecimal digits."""
    return key.public_bytes_raw().hex()


def key_id(key: "Ed25519PublicKey") -> str:
    """A short name for the key, the same everywhere; it finds a key, and proves nothing."""
    return sha256(bytes.fromhex(raw(key))).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """The public keys that somebody trusts."""

    by_id: "Mapping[str, Ed25519PublicKey]" = field(default_factory=dict)

    @classmethod
    def of(cls, *texts: str) -> "PublicKeys":
        """These keys, each given as PEM or hex."""
        return cls().adding(public_key(text) for text in texts)

    def adding(self, keys: "Iterable[Ed25519PublicKey]") -> "PublicKeys":
        return PublicKeys({**self.by_id, **{key_id(key): key for key in keys}})

    def check(self, name: str, data: bytes, signature: str) -> bool | None:
        """Whether `signature` (lower-case hex) over `data` is of the key with this id; `None`: unknown."""
        key = self.by_id.get(name)
        if key is None:
            return None
        from cryptography.exceptions import InvalidSignature

        try:
            given = bytes.fromhex(signature)
            key.verify(given, data)
        except (ValueError, InvalidSignature):
            return False
        return given.hex() == signature

    def following(self, old: str, new: str, signature: str) -> "PublicKeys":
        """These keys, and `new` (hex) too if the key `old` among them signed the handover."""
        if self.check(old, handover(old, new), signature):
            return self.adding([public_key(new)])
        return self


def handover(old: str, new: str) -> bytes:
    """What the key with id `old` signs to vouch for its successor `new` (hex)."""
    return spell({"type": "assentry.handover", "v": 1, "old": old, "new": new}).encode()
