"""A gate whose waiting methods block the calling thread."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from assentry.blocking.run import BlockingRun, entered, left
from assentry.core.action import Json
from assentry.core.request import Request
from assentry.engine.gate import Gate
from assentry.engine.holding import CURRENT
from assentry.engine.proposal import Proposal, Running


class BlockingProposal:
    """A proposal whose waiting blocks the calling thread."""

    def __init__(self, gate: Gate, proposal: Proposal) -> None:
        self._gate, self._proposal = gate, proposal

    @property
    def request(self) -> Request | None:
        """The request, as last seen; none for a call that simply runs."""
        return self._proposal.request

    def outcome(self, patience: float | None = None) -> Any:
        """The arguments that may run now; see `Proposal.outcome`."""
        return self._gate.portal.run(self._proposal.outcome(patience))

    @contextmanager
    def execution(self, patience: float | None = None) -> Iterator[Running]:
        """Intent is on record inside the block, its end after it; see `Proposal.execution`."""
        run = self._gate.portal.run
        scope = self._proposal.execution(patience)
        running = run(entered(scope))
        try:
            yield running
        except BaseException as problem:
            run(left(scope, problem))
            raise
        run(left(scope, None))


class BlockingGate:
    """What an agent without asyncio holds: `assentry.BlockingGate(gate)`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.guard, self.context, self.host = gate.guard, gate.context, gate.host

    @property
    def gate(self) -> Gate:
        """The gate behind it."""
        return self._gate

    def propose(self, action: str, args: Mapping[str, Json], **described: Any) -> BlockingProposal:
        """A call that is no function, judged and put on record; see `Gate.propose`."""
        return BlockingProposal(self._gate, self._gate.portal.run(self._gate.propose(action, args, **described)))

    def ask(self, question: str, *, time: timedelta | None = timedelta(hours=1), **described: Any) -> Any:
        """The answer of a person; see `Gate.ask`."""
        return self._gate.portal.run(self._gate.ask(question, time=time, **described))

    @contextmanager
    def run(self, goal: str, **described: Any) -> Iterator[BlockingRun]:
        """A run: every guarded call inside belongs to it; see `Gate.run`."""
        wait, scope, before = self._gate.portal.run, self._gate.run(goal, **described), CURRENT.get()
        active = wait(entered(scope))
        CURRENT.set(active)
        try:
            yield BlockingRun(active)
        except BaseException as problem:
            if not wait(left(scope, problem)):
                raise
        else:
            wait(left(scope, None))
        finally:
            CURRENT.set(before)

    def begin(self, host: str, state: Json = None, *, goal: str, **described: Any) -> Any:
        """What a host's function returned, at the beginning of a run of its own; see `Gate.begin`."""
        return self._gate.portal.run(self._gate.begin(host, state, goal=goal, **described))

    def outcome(self, request_id: str, patience: float | None = 0) -> Request:
        """The request as it is now, or once it is decided within `patience`."""
        return self._gate.portal.run(self._gate.outcome(request_id, patience))

    def resume(self, request_id: str, patience: float | None = 0, **injected: Any) -> Any:
        """The result of a parked call, run here if it was approved meanwhile."""
        return self._gate.portal.run(self._gate.resume(request_id, patience, **injected))

    @contextmanager
    def worker(self, *, capacity: int = 10) -> Iterator[None]:
        """A worker for the functions guarded here runs in the background while the block lasts."""
        worker = self._gate.worker(capacity=capacity)
        self._gate.portal.run(worker.__aenter__())
        try:
            yield
        finally:
            self._gate.portal.run(worker.stop())

    def close(self) -> None:
        """Nothing is held open; everything acknowledged is durable."""
        self._gate.portal.run(self._gate.close())
        self._gate.portal.close()
