"""The log as a file: JSON lines that can be checked far from the database.

A header (which log, whose keys), the entries with each checkpoint right behind the last entry it covers,
and a signed end that counts them and holds the hash of every byte before it. So a file that was cut, or
changed anywhere, is told from a whole one, and checking needs one pass and constant memory.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from assentry.core.audit import Fault, Line, Report, Seal, Walk, Wrong
from assentry.core.signing import Fields, PublicKeys, raw, read, spell
from assentry.errors import KeyProblem

_HEADER: Fields = {"origin": str, "keys": list}
_BODY: dict[str, Fields] = {
    "assentry.entry": {"index": int, "text": str, "leaf": str},
    "assentry.sealed": {"size": int, "text": str, "key": str, "signature": str},
    "assentry.end": {"entries": int, "checkpoints": int, "sha256": str, "key": str, "signature": str},
}
ROTATED = "key.rotated"
"""The kind of entry with which a key hands over to its successor."""


@dataclass(frozen=True, slots=True)
class _Entry:
    index: int
    text: str
    leaf: str


@dataclass(frozen=True, slots=True)
class _Seal:
    size: int
    text: str
    key_id: str
    signature: str


class Writer:
    """Makes the lines of an export in order, each ending with a newline."""

    def __init__(self) -> None:
        self._hash = sha256()
        self._entries = self._checkpoints = 0

    def header(self, origin: str, keys: PublicKeys) -> str:
        public = [raw(key) for _, key in sorted(keys.by_id.items())]
        return self._line(spell({"type": "assentry.export", "v": 1, "origin": origin, "keys": public}))

    def entry(self, line: Line) -> str:
        self._entries += 1
        fields = {"type": "assentry.entry", "v": 1, "index": line.index, "text": line.text, "leaf": line.leaf}
        return self._line(spell(fields))

    def checkpoint(self, seal: Seal) -> str:
        self._checkpoints += 1
        fields = {"size": seal.size, "text": seal.text, "key": seal.key_id, "signature": seal.signature}
        return self._line(spell({"type": "assentry.sealed", "v": 1, **fields}))

    def end(self, key: str) -> str:
        """What is signed at the end, by the key with this id."""
        counts = {"entries": self._entries, "checkpoints": self._checkpoints}
        return spell({"type": "assentry.end", "v": 1, **counts, "sha256": self._hash.hexdigest(), "key": key})

    @staticmethod
    def signed_end(end: str, signature: str) -> str:
        return spell({**json.loads(end), "signature": signature}) + "\n"

    def _line(self, text: str) -> str:
        line = text + "\n"
        self._hash.update(line.encode("utf-8", "surrogatepass"))
        return line


@dataclass(frozen=True, slots=True)
class Exported:
    """What was found in an export."""

    report: Report
    origin: str
    keys: tuple[str, ...]
    """The ids of the keys that it was judged by, those included that a given key handed over to."""
    trusted: bool
    """Whether a key was given. If not, the file only vouches for itself, and the report's notes say so."""


def check_export(lines: Iterable[str | bytes], keys: PublicKeys | None = None) -> Exported:
    """What is wrong with this export, if anything is, judged by `keys` or else by the file's own.

    Hand it a file opened in binary: reading as text would hide some changes of line ends.
    """
    reader = _Reader(keys)
    try:
        for line in lines:
            reader.take(line if isinstance(line, str) else line.decode())
    except (ValueError, KeyProblem) as error:
        reader.fault(f"line {reader.line} of the export cannot be believed: {error}")
    else:
        if not reader.ended:
            reader.fault("the export was cut off: its signed end is missing")
    report = reader.walk.report(reader.notes)
    return Exported(report, reader.origin, tuple(sorted(reader.keys.by_id)), keys is not None)


class _Reader:
    """Takes the lines of an export in order."""

    def __init__(self, keys: PublicKeys | None) -> None:
        self._given = keys is not None
        self.keys = keys or PublicKeys()
        self.origin = ""
        self.notes: list[str] = []
        self.ended = self._begun = False
        self.line = 0
        self.walk = Walk("", self._check)
        self._hash = sha256()
        self._entries = self._checkpoints = 0

    def take(self, line: str) -> None:
        """The line was checked and counted; `ValueError` if it cannot be what an export holds here."""
        self.line += 1
        text = line.removesuffix("\n")
        if self.ended:
            raise ValueError("it comes after the signed end")
        if not self._begun:
            self._header(read(text, {"assentry.export": _HEADER}))
        else:
            match (fields := read(text, _BODY))["type"]:
                case "assentry.entry":
                    self._entry(fields["index"], fields["text"], fields["leaf"])
                case "assentry.sealed":
                    self._checkpoints += 1
                    self.walk.mark(_Seal(fields["size"], fields["text"], fields["key"], fields["signature"]))
                case _:
                    self._end(fields)
        self._hash.update(text.encode() + b"\n")

    def fault(self, says: str) -> None:
        self.walk.accuse(Fault(Wrong.FILE, says, self._entries, self._entries))

    def _header(self, fields: dict[str, Any]) -> None:
        self._begun, self.origin = True, fields["origin"]
        self.walk = Walk(self.origin, self._check)
        own = PublicKeys.of(*(key if type(key) is str else "" for key in fields["keys"]))
        if not self._given:
            self.keys = own
            self.notes.append(
                f"the keys ({', '.join(sorted(own.by_id))}) came from the file itself: this shows that the file is "
                "in itself whole, not who wrote it; give a public key that you got another way"
            )

    def _entry(self, index: int, text: str, leaf: str) -> None:
        self._entries += 1
        self.walk.feed((_Entry(index, text, leaf),))
        if f'"kind":"{ROTATED}"' in text:
            self.keys = with_successor(self.keys, text)

    def _end(self, fields: dict[str, Any]) -> None:
        self.ended = True
        signature = fields.pop("signature")
        match self._check(fields["key"], spell(fields).encode(), signature):
            case None:
                self.fault(f"the end of the export was signed with key {fields['key']!r}, which is not known here")
            case False:
                self.fault("the end of the export is not what was signed")
            case _:
                found = (self._entries, self._checkpoints, self._hash.hexdigest())
                if found != (fields["entries"], fields["checkpoints"], fields["sha256"]):
                    self.fault("the export is not the one whose end was signed: lines were changed, lost or added")

    def _check(self, key: str, data: bytes, signature: str) -> bool | None:
        return self.keys.check(key, data, signature)


def with_successor(keys: PublicKeys, text: str) -> PublicKeys:
    """`keys`, and the key that this `key.rotated` entry names if one of `keys` signed the handover."""
    try:
        entry = json.loads(text)
        body = entry["body"] if entry["kind"] == ROTATED else {}
        return keys.following(str(body["old"]), str(body["public"]), str(body["signature"]))
    except (ValueError, KeyError, TypeError, RecursionError, KeyProblem):
        return keys
