"""What Ctrl-C and its like mean while the demo plays."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupts:
    """They end the play in an orderly way, once; where something else is said, that instead."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._means: Callable[[], None] = self._end
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._heard)

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
