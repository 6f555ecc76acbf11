"""What a module may do while a worker imports it: define functions, hosts and gates, and begin nothing.

A guarded call at the top of a module would wait in the import for a person, and be proposed again by every worker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from assentry.errors import GuardError


@dataclass(slots=True)
class _Import:
    module: str
    lasts: bool = True
    refused: GuardError | None = None


_IMPORT: ContextVar[_Import | None] = ContextVar("assentry_import", default=None)


@contextmanager
def importing(module: str) -> Iterator[None]:
    """What begins something inside is refused; also a module that went on after the refusal was not imported."""
    here = _Import(module)
    token = _IMPORT.set(here)
    try:
        yield
    finally:
        _IMPORT.reset(token)
        # Background work that the module started has a copy of this context, and may act once the import is over.
        here.lasts = False
    if here.refused is not None:
        raise here.refused


def not_while_importing(what: str) -> None:
    """Raises where `what` would begin because a worker imports the module that says so."""
    here = _IMPORT.get()
    if here is None or not here.lasts:
        return
    here.refused = GuardError(
        f"{what} at the top level of {here.module}: a worker imports that module only to find its functions, and the "
        'import would wait for a person; move the call into a function, or under `if __name__ == "__main__":`'
    )
    raise here.refused
