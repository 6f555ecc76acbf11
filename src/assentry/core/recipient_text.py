"""Whom a text addresses, and whether every mail program would say the same of it.

What is written plainly is read; of everything else each address that any program might find is told, and that it could
not be read for certain.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from assentry.core.link_text import host_of, hosts_in, without_userinfo

MOST_ADDRESSES = 500
LONGEST = 300
_LABEL = r"[A-Za-z0-9]++(?:-++[A-Za-z0-9]++)*+"
_ADDRESS = rf"[A-Za-z0-9_+][A-Za-z0-9_+-]*+(?:[.'][A-Za-z0-9_+-]++)*+@{_LABEL}(?:\.{_LABEL})*+\.?"
_PLAIN = re.compile(_ADDRESS)
_NAME = r"\"[^\"\\@<>\r\n]*+\"|[^\W\d_][\w .'&-]*+"
_ENTRY = re.compile(
    rf"[ \t]*+(?:(?:{_NAME})?[ \t]*+<(?P<named>{_ADDRESS})>|(?P<bare>{_ADDRESS}))[ \t]*+(?:[,;\r\n]++|\Z)"
)
_GAPS = re.compile(r"[,;\r\n]+")
_ASCII_SPACE = frozenset(" \t\r\n")
_LOCAL = re.compile(r"[^\s<>,;:\"'()\[\]@|\\/=&?]{1,64}$")
_DOMAIN = re.compile(r"[^\s<>,;:\"'()\[\]@|\\/=&?!]++")
_LAST_LABEL = re.compile(r"[^\W\d_][\w-]+")
_BEHIND = ".\u2026*`~}\u201d\u2019\u00bb-_"
_HEAD_LINE = re.compile(
    r"^[ \t]*(?:to|cc|bcc|resent-to)[ \t]*:([^\n]{1,2000}(?:\n[ \t][^\n]{0,2000}){0,50})", re.I | re.M
)


@dataclass(frozen=True, slots=True)
class Whom:
    """Who is addressed by a text."""

    all: tuple[str, ...]
    """Every recipient of every reading."""
    sure: bool = True
    """There is one reading, and these are all of them."""
    entries: int = 1
    is_name: bool = False
    """It is no address at all, so that nobody can say where it leads."""


def whom_in(text: str) -> Whom:
    """Who `text` addresses."""
    if len(text) <= LONGEST and _PLAIN.fullmatch(text) is not None:
        return Whom((text.lower().rstrip("."),))
    bare = _with_at(text).strip()
    if not bare:
        return Whom((), entries=0)
    if "://" in bare:
        return _linked(bare)
    if "@" not in bare:
        if "%40" not in bare:
            return Whom((bare,), is_name=True) if len(bare) <= LONGEST else Whom((), sure=False)
        return Whom((*dict.fromkeys((*addresses_in(unquote(bare)), bare[:LONGEST])),), sure=False)
    found = _listed(bare)
    if found and bare == text.strip():
        return Whom(tuple(dict.fromkeys(found)), entries=len(found))
    plain = closed(bare)
    readings = dict.fromkeys((*addresses_in(bare), *addresses_in(plain), *addresses_in(unquote(plain)), *_quoted(bare)))
    return Whom(tuple(readings) or (bare[:LONGEST],), sure=False, entries=max(len(readings), 1))


def _linked(text: str) -> Whom:
    parts = text.split()
    if text.isascii() and all(len(part) <= LONGEST and (host_of(part) or _PLAIN.fullmatch(part)) for part in parts):
        return Whom(tuple(dict.fromkeys(parts)), entries=len(parts))
    found: dict[str, None] = {}
    for part in parts:
        # What stands before an @ in a link may be a password.
        read = (f"https://{host}" for host in hosts_in(part)[0]) if "://" in part else addresses_in(part)
        found |= dict.fromkeys(read)
        if len(found) > MOST_ADDRESSES:
            break
    if not found and len(without_userinfo(text)) <= LONGEST and "@" not in text:
        found = dict.fromkeys((text,))
    return Whom(tuple(found), sure=False, entries=max(1, len(found)))


def _listed(text: str) -> list[str]:
    """The addresses of a list that is written plainly; nothing if it is not."""
    found: list[str] = []
    if not text.isascii() and any(char.isspace() and char not in _ASCII_SPACE for char in text):
        return found
    parts = [bare for part in _GAPS.split(text) if (bare := part.strip(" \t"))]
    if all(len(part) <= LONGEST and _PLAIN.fullmatch(part) for part in parts):
        return [part.lower().rstrip(".") for part in parts]
    spot = 0
    while spot < len(text):
        entry = _ENTRY.match(text, spot)
        if entry is None:
            return []
        whom = entry["named"] or entry["bare"]
        if len(whom) > LONGEST:
            return []
        found.append(whom.lower().rstrip("."))
        spot = entry.end()
    return found


def _quoted(text: str) -> tuple[str, ...]:
    """A list with quoted parts, which may hold commas and an @ of their own: the last @ of each says where it goes."""
    found, start, quoted = [], 0, False
    for spot, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif letter in ",;\n" and not quoted:
            found.append(text[start:spot])
            start = spot + 1
    found.append(text[start:])
    named = (part.rpartition("<")[2].strip().rstrip(">. ").lower() for part in found[:MOST_ADDRESSES])
    return tuple(whom for whom in named if "@" in whom and " " not in whom and len(whom) <= LONGEST)


def _with_at(text: str) -> str:
    """`text` with every sign that mail programs take for an @ written as one."""
    return text if text.isascii() else text.replace("\uff20", "@").replace("\ufe6b", "@")


def closed(text: str) -> str:
    """`text` without the blanks beside an @, which mail programs do not mind."""
    return "@".join(part.strip(" \t\r\n\u00a0\u200b\u200c\u200d\u2060\ufeff") for part in _with_at(text).split("@"))


def addresses_in(text: str) -> tuple[str, ...]:
    """The mail addresses in `text`, wherever they stand; of very many only the first."""
    text = without_userinfo(_with_at(text))
    found: dict[str, None] = {}
    spot, signs = text.find("@"), 0
    while spot >= 0 and signs < MOST_ADDRESSES:
        signs += 1
        before = _LOCAL.search(text[max(0, spot - 64) : spot])
        after = _DOMAIN.match(text, spot + 1)
        if before is not None and after is not None:
            domain = after[0].rstrip(_BEHIND)
            if domain[:1] != "." and "." in domain and _LAST_LABEL.match(domain.rpartition(".")[2]):
                found[f"{before[0]}@{domain}".lower()] = None
        spot = text.find("@", spot + 1)
    return tuple(found)


def addressed_in(text: str) -> tuple[str, ...]:
    """The addresses in the head lines of a mail that stands in `text`: To, Cc and Bcc."""
    if ":" not in text:
        return ()
    return tuple(whom for line in _HEAD_LINE.finditer(_with_at(text)) for whom in addresses_in(line[1]))


def is_outside(recipient: str, domains: Sequence[str]) -> bool:
    """`recipient` is a mail or web address at none of our `domains` nor below one of them, or may lead elsewhere."""
    if "://" in recipient:
        return not _is_ours(host_of(recipient), domains)
    if "@" not in recipient[1:]:
        return "%40" in recipient
    return _PLAIN.fullmatch(recipient) is None or not _is_ours(recipient.rpartition("@")[2].lower(), domains)


def _is_ours(host: str, domains: Sequence[str]) -> bool:
    host = host.rstrip(".")
    return host in domains or host.endswith(tuple("." + ours for ours in domains))
