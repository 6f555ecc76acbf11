"""A run for code without asyncio: the same methods, and each of them waits."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from assentry.core.action import Json
from assentry.core.run import PlanStep, Run
from assentry.engine.guard import Guarded
from assentry.engine.runs import ActiveRun, Draft, Phase


class BlockingRun:
    """What `with blocking.run(...) as run:` gives; see `ActiveRun` for what each method does."""

    def __init__(self, active: ActiveRun) -> None:
        self._active = active
        self._wait = active.run_from_thread

    @property
    def record(self) -> Run:
        """The run as last seen."""
        return self._active.record

    @property
    def code(self) -> str:
        return self._active.code

    @property
    def outcome(self) -> Json:
        """What the run came to; on record when it finishes."""
        return self._active.outcome

    @outcome.setter
    def outcome(self, value: Json) -> None:
        self._active.outcome = value

    def snapshot(self, state: Json) -> None:
        """What `resume` gets back if the run is parked from here on."""
        self._active.snapshot(state)

    def plan(self, steps: Iterable[str | PlanStep]) -> None:
        """What the agent intends, for people to read."""
        self._wait(self._active.plan(steps))

    def spent(self, amount: float | str | Decimal) -> None:
        """The run has cost so much more."""
        self._wait(self._active.spent(amount))

    def observed(self, source: str, text: str, *, trusted: bool = False) -> None:
        """Something came back from the world."""
        self._wait(self._active.observed(source, text, trusted=trusted))

    def checkpoint(self, name: str, show: Json = None, *, soft: bool = False, editable: bool = False) -> Json:
        """A person looks before the run goes on."""
        return self._wait(self._active.checkpoint(name, show, soft=soft, editable=editable))

    @contextmanager
    def phase(
        self, name: str, show: Json = None, *, before: bool | str = False, after: bool | str = False
    ) -> Iterator[Phase]:
        """A named part of the work, with a checkpoint before it, after it, or both."""
        scope = self._active.phase(name, show, before=before, after=after)
        phase = self._wait(entered(scope))
        try:
            yield phase
        except BaseException as problem:
            self._wait(left(scope, problem))
            raise
        self._wait(left(scope, None))

    def revise(self, call: Guarded[..., Any] | str, write: Callable[[Draft | None], Any], *, rounds: int = 10) -> Any:
        """What `call` returned for the draft that a person approved."""
        return self._wait(self._active.revise(call, write, rounds=rounds))

    def ask(self, question: str, **more: Any) -> Any:
        """The answer of a person."""
        return self._wait(self._active.ask(question, **more))

    def clarify(self) -> dict[str, str]:
        """What the task left open, asked before the work begins."""
        return self._wait(self._active.clarify())

    def attempt(self, call: Callable[..., Any], /, *, done: Json = None, **args: Any) -> Any:
        """What `call(**args)` returned; where it fails, a person says how to go on."""
        return self._wait(self._active.attempt(call, done=done, **args))

    def sampled(self, number: int, given: Json, made: Json, *, every: int = 0, share: float = 0.0) -> bool:
        """Whether a person looked at this item of a batch."""
        return self._wait(self._active.sampled(number, given, made, every=every, share=share))

    def cannot_go_on(self, reason: str, *, without: str = "") -> str:
        """The agent reports that it cannot go on; the instructions it gets."""
        return self._wait(self._active.cannot_go_on(reason, without=without))


async def entered(scope: Any) -> Any:
    """What an asynchronous block gives when it is entered."""
    return await scope.__aenter__()


async def left(scope: Any, problem: BaseException | None) -> bool:
    """The block was left, with this error or none; whether it took the error upon itself."""
    trace = None if problem is None else problem.__traceback__
    return bool(await scope.__aexit__(None if problem is None else type(problem), problem, trace))
