"""Files that commands write and read: never half a file, never over another one unasked; and public keys."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from assentry.errors import InvalidArguments, KeyProblem, StoreError


@contextmanager
def new_file(name: str, *, force: bool) -> Iterator[tuple[Path, Path]]:
    """A private path to write to and the goal to move it to; what is not moved is removed."""
    goal = Path(name)
    free(goal, force=force)
    part = goal.with_name(f".{goal.name}.{secrets.token_hex(4)}.part")
    try:
        part.touch(mode=0o600, exist_ok=False)
        yield part, goal
    except OSError as problem:
        raise StoreError(f"{name} cannot be written: {problem.strerror}; name another file") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def free(goal: Path, *, force: bool) -> None:
    """Nothing stands at `goal` that would be lost."""
    if goal.is_dir():
        raise InvalidArguments(f"{goal} is a directory; name a file in it")
    if goal.exists() and not force:
        raise InvalidArguments(f"{goal} exists; name another file, or pass --force to replace it")


def key_text(given: str) -> str:
    """The public key that was given: the text of a file, or the hex digits themselves."""
    text = given.strip()
    if len(text) == 64 and all(char in "0123456789abcdefABCDEF" for char in text):
        return text
    try:
        return Path(given).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise KeyProblem(
            f"{given} is neither a file with a public key nor 64 hex digits; `assentry keys show` prints one"
        ) from None
