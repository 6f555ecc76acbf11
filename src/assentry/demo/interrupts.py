"""What Ctrl-C and its like mean while the demo plays."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assentry.system import STOP_SIGNALS, told_to_stop


class Interrupts:
    """They end the play in an orderly way, once; where something else is said, that instead."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._means: Callable[[], None] = self._end

    @contextmanager
    def heard(self) -> Iterator["Interrupts"]:
        """Meanwhile they come here."""
        with told_to_stop(self._heard, (*STOP_SIGNALS, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))):
            yield self

    def _heard(self) -> None:
        self._means()

    def _end(self) -> None:
        if not self._task.cancelling():
            self._task.cancel()

    @contextmanager
    def mean(self, something: Callable[[], None]) -> Iterator[None]:
        """Meanwhile they mean this."""
        before, self._means = self._means, something
        try:
            yield
        finally:
            self._means = before
