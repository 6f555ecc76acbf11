"""Glob patterns over names: `delete_*`, `github.*`. Case counts, and the whole name must match."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

Pattern = re.Pattern[str]


def pattern(globs: Sequence[str]) -> Pattern:
    """One pattern that matches a name if any of `globs` does; no globs match nothing."""
    return _compiled(tuple(globs))


def is_wild(glob: str) -> bool:
    """Whether it can match more than its own spelling."""
    return any(character in glob for character in "*?[")


@lru_cache(maxsize=4_096)
def _compiled(globs: tuple[str, ...]) -> Pattern:
    # `translate` matches runs between stars without going back, so a hostile name costs at most quadratic time.
    return re.compile("|".join(f"(?:{translate(glob)})" for glob in globs) or r"(?!)")
