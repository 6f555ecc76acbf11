"""The one unit a store commits: the new request, the grants it used, and the entries that say so."""

from dataclasses import dataclass, replace

from assent.core.audit import Entry
from assent.core.grant import Grant
from assent.core.request import Request


@dataclass(frozen=True, slots=True)
class Change:
    """Committed whole or not at all."""

    request: Request | None = None
    entries: tuple[Entry, ...] = ()
    grants: tuple[Grant, ...] = ()
    new: bool = False
    """The request is inserted, not updated."""

    def also(self, *entries: Entry) -> "Change":
        """This change with more entries."""
        return replace(self, entries=self.entries + entries)
