"""Entries of calls that simply ran, on their way to the log: handed over cheaply, written in groups."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from assentry.core.audit import Entry
from assentry.errors import AssentryError, StoreError
from assentry.stores.rows import Row, When, entry_columns

log = logging.getLogger(__name__)

LOSS_WINDOW = 0.2
"""Seconds for which a recorded entry may wait in memory: what a crash can lose of calls that simply ran."""

AT_ONCE = 256
"""So many recorded entries are written without waiting for the window to end."""

AT_MOST = 65_536
"""Beyond this, recording fails, and with it the call that wanted to be recorded."""


class Recorder:
    """What was recorded and is not durable yet. `nudge` is called when the store's thread should look."""

    def __init__(self, nudge: Callable[[], None], when: When, address: str) -> None:
        self._nudge, self._when, self._address = nudge, when, address
        self._made: deque[Callable[[], Entry]] = deque()
        self._nudged = False
        self.rows: list[Row] = []
        """Made into rows and not yet committed; belongs to the store's thread."""

    def __bool__(self) -> bool:
        return bool(self._made or self.rows)

    @property
    def is_full(self) -> bool:
        """Enough for a group of its own."""
        return len(self._made) >= AT_ONCE

    def record(self, entry: Callable[[], Entry]) -> None:
        """The entry will be made and written soon. Costs its caller no more than handing it over."""
        made = self._made
        if len(made) + len(self.rows) >= AT_MOST:
            raise StoreError(
                f"{AT_MOST:,} entries wait to be written to {self._address} and none can be; "
                "see that the database can be written, then try again"
            )
        made.append(entry)
        # The entry is appended before the flag is read, and `take` clears the flag before it looks:
        # one of the two always sees the other.
        if not self._nudged or len(made) == AT_ONCE:
            self._nudged = True
            self._nudge()

    def take(self) -> list[Row]:
        """Everything recorded so far, as rows. They stay here until `written`."""
        self._nudged = False
        while self._made:
            make = self._made.popleft()
            try:
                self.rows.append(self._row(make()))
            except Exception:
                log.exception("a recorded entry could not be made and is not in the log")
        return self.rows

    def written(self, count: int) -> None:
        """The first `count` rows are durable."""
        del self.rows[:count]

    def _row(self, entry: Entry) -> Row:
        """The entry as a row; of one that cannot be written as JSON the head remains, so that it blocks nothing."""
        try:
            return entry_columns(entry, self._when)
        except AssentryError:
            log.exception("an entry of kind %s cannot be written as JSON; it is logged without its body", entry.kind)
            return entry_columns(replace(entry, body={"unwritable": True}), self._when)
