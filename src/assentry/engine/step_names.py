"""The names of a run's steps: the same whenever it is taken again from the start, so that no step runs twice."""

from collections import Counter
from collections.abc import Callable, Mapping

from assentry.core.action import Json
from assentry.core.canonical import canonical, digest


class StepNames:
    """What the steps of one run, and the runs inside it, are called."""

    def __init__(self, run_id: str) -> None:
        self._run = run_id
        self._taken: Counter[str] = Counter()
        self._inner: dict[str, tuple[int, Callable[[], bool] | None]] = {}
        """How many runs of a key there were, and whether the last of them is still open."""
        self.place: Callable[[], str] = str
        """Where the agent's framework is, for one that does not go on from the start."""

    def begin_again(self) -> None:
        """The steps that come are those that were taken before."""
        self._taken.clear()

    def step(self, name: str, args: Mapping[str, Json]) -> str:
        """The name of the next step that makes this call."""
        place = self.place()
        content = digest(f"{place} {name}" if place else name, canonical(args))[:16]
        self._taken[content] += 1
        return f"{name}:{content}:{self._taken[content]}"

    def inside(self, key: str, goal: str) -> str:
        """The name of a run that is entered inside this one.

        One that was left before its end goes on under the name that it had.
        """
        if not key:
            return f"{self._run}/{self.step('inner run', {'goal': goal})}"
        number, is_open = self._inner.get(key, (0, None))
        if is_open is None or not is_open():
            number += 1
        self._inner[key] = (number, None)
        return f"{self._run}/{key}/{number}"

    def entered(self, key: str, is_open: Callable[[], bool]) -> None:
        """The run of this key was entered; `is_open` tells later whether it has ended."""
        if key:
            self._inner[key] = (self._inner[key][0], is_open)
