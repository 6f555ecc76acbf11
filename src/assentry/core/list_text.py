"""Lists that are written as one text: how many things they name."""

import re
from typing import Any

import msgspec

LONGEST_JSON = 40_000
_MARKS = (",", ";", "\n", "|")
_BETWEEN_PATHS = re.compile(r"[\n\r,;|\0]+")
_WORDY = 40
"""Items longer than this, on average, are sentences."""
_decode = msgspec.json.Decoder().decode


def items_in(text: str, *, prose: bool) -> int:
    """How many items `text` lists, 1 if it does not look like a list; `prose` where it may also be sentences."""
    bare = text.strip()
    items = 1
    for mark in _MARKS:
        items = max(items, bare.count(mark) + (not bare.endswith(mark)))
    if items == 1 and not prose:
        items = max(1, len(bare.split()))
    return 1 if prose and len(bare) > items * _WORDY else items


def paths_in(text: str) -> int:
    """How many paths `text` lists; blanks part them only where each part looks like one."""
    parts = [part for part in _BETWEEN_PATHS.split(text) if part.strip()]
    words = text.split()
    blanks = all("/" in word or "." in word[1:] for word in words)
    return max(len(parts), len(words) if blanks else 1, 1)


def parsed(text: str) -> Any:
    """The list or object that `text` writes as JSON, or nothing."""
    if text[:1] not in "[{" or text[-1:] not in "]}" or len(text) > LONGEST_JSON:
        return None
    try:
        found = _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    return found if isinstance(found, list | dict) else None
