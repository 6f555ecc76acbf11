"""The database's clock, estimated between the times it was read.

What is decided on an estimate is committed only if the database's own clock, in the statement that commits, agrees
that no deadline lies between the two.
"""

import time
from datetime import UTC, datetime

_DRIFT = 0.0002
"""How fast two clocks part, seconds per second; quartz is ten times better."""

_SHARP = 0.02
"""Seconds by which an estimate may be off and still be told as the time."""


class EstimatedClock:
    """Learns from every answer that carries the database's time."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._error = float("inf")
        self._learned = 0.0

    def learn(self, then: datetime, sent: float) -> None:
        """The database said `then`, at some moment between `sent` and now (by the monotonic clock)."""
        received = time.monotonic()
        error = (received - sent) / 2
        offset = then.timestamp() - (sent + received) / 2
        expected = self._off_by(received)
        # A sharper answer is taken; so is one that shows that the database's clock was set.
        if error <= expected or abs(offset - self._offset) > error + expected:
            self._offset, self._error, self._learned = offset, error, received

    def now(self) -> datetime:
        """What the database's clock shows, about."""
        return datetime.fromtimestamp(time.monotonic() + self._offset, UTC)

    @property
    def is_sharp(self) -> bool:
        """Whether nobody would notice the difference."""
        return self._off_by(time.monotonic()) < _SHARP

    def _off_by(self, at: float) -> float:
        return self._error + _DRIFT * (at - self._learned)
