"""How a command ends: exit codes, and every error as one line (or one JSON document) that says what to do."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from assentry.cli.plain import print_json
from assentry.core.action import Json
from assentry.errors import (
    AssentryError,
    ConfirmationNeeded,
    Conflict,
    MissingExtra,
    NotAllowed,
    PolicyError,
    TamperFound,
)
from assentry.telling.plain import one_line

OK = 0
FAILED = 1
USAGE = 2
CONFLICT = 3
NOT_ALLOWED = 4
TAMPERED = 5
UNCONFIRMED = 6
INTERRUPTED = 130

_CODES: tuple[tuple[type[AssentryError], int], ...] = (
    (Conflict, CONFLICT),
    (NotAllowed, NOT_ALLOWED),
    (TamperFound, TAMPERED),
    (ConfirmationNeeded, UNCONFIRMED),
    (MissingExtra, USAGE),
)
_TOLD = ("request_id", "code", "state", "by", "at", "principal", "phrase", "grant_id", "file", "line", "complaints")
"""The attributes of errors that a script may want."""


def exit_code(problem: AssentryError) -> int:
    """The documented exit code for this situation."""
    return next((code for kind, code in _CODES if isinstance(problem, kind)), FAILED)


def is_debugging() -> bool:
    """Whether whoever runs this wants tracebacks."""
    return os.environ.get("ASSENTRY_DEBUG", "") not in ("", "0")


def failed(problem: AssentryError, *, as_json: bool) -> int:
    """The error was told; its exit code."""
    code = exit_code(problem)
    told = {name: _plain(value) for name in _TOLD if (value := getattr(problem, name, None)) not in (None, "", ())}
    if as_json:
        tell_json(type(problem).__name__, str(problem), code, told)
    elif isinstance(problem, PolicyError):
        for complaint in problem.complaints:
            tell(complaint)
    else:
        tell(str(problem))
    return code


def misused(message: str, *, as_json: bool) -> int:
    """The mistake in the command line was told; its exit code."""
    if as_json:
        tell_json("Usage", message, USAGE, {})
    else:
        tell(message)
    return USAGE


def broken(problem: Exception, *, as_json: bool) -> int:
    """What should not have happened was told without any value of it, since it may hold a payload."""
    message = f"unexpected {type(problem).__name__}; run it again with ASSENTRY_DEBUG=1 and report what that prints"
    if as_json:
        tell_json("Unexpected", message, FAILED, {})
    else:
        tell(message)
    return FAILED


def unwritable(problem: OSError, *, as_json: bool) -> int:
    """A file, or our own output, could not be read or written; it was told, on standard error if need be."""
    what = str(problem.filename) if problem.filename is not None else "the output cannot be written"
    message = f"{what}: {problem.strerror or type(problem).__name__}; what was asked for may have been done: look first"
    if as_json and problem.filename is not None:
        tell_json("Unwritable", message, FAILED, {})
    else:
        tell(message)
    return FAILED


def tell(message: str) -> None:
    """The message is one line on standard error."""
    with suppress(OSError):  # nobody can be told
        print(f"assentry: {one_line(message)}", file=sys.stderr)


def tell_json(kind: str, message: str, code: int, told: Mapping[str, Json]) -> None:
    print_json({"error": {"kind": kind, "message": message, "exit": code, **told}})


def _plain(value: object) -> Json:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value
