"""Lists that are written as one text: how many things they name."""

from typing import Any

import msgspec

LONGEST_JSON = 40_000
_MARKS = (",", ";", "\n", "|")
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


def parsed(text: str) -> Any:
    """The list or object that `text` writes as JSON, or nothing."""
    if text[:1] not in "[{" or text[-1:] not in "]}" or len(text) > LONGEST_JSON:
        return None
    try:
        found = _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    return found if isinstance(found, list | dict) else None
