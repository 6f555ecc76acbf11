"""The steps of an attached graph: none is taken outside of a run, and a breakpoint is a request that its steps meet.

The gate is at the step. So it does not matter how a thread is begun, resumed, sent back or sent elsewhere: whatever
takes the step meets the request as it stands. LangGraph's own breakpoints only stop a call, and let the next one pass.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels import Topic
from langgraph.errors import GraphInterrupt
from langgraph.pregel import Pregel
from langgraph.pregel._read import ChannelRead, PregelNode
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry

from assentry.adapters.langgraph.shapes import as_json
from assentry.adapters.langgraph.tools import interrupted_for
from assentry.adapters.tool_calls import Standing
from assentry.core.action import Json
from assentry.core.request import Request, State
from assentry.engine.gate import Gate
from assentry.engine.holding import CURRENT
from assentry.engine.outcomes import refusal
from assentry.engine.runs import ActiveRun
from assentry.errors import Denied, GuardError, Parked, RunStopped

RAN = "assentry:ran"
"""The channel in which a graph keeps the names of the nodes of its last step."""


@dataclass(slots=True)
class Nodes:
    """Names of nodes, or all that are not hidden."""

    names: frozenset[str] = frozenset()
    every: bool = False

    @classmethod
    def of(cls, said: Any) -> "Nodes":
        """As LangGraph takes them: `"*"`, or names."""
        return cls(every=True) if said == "*" else cls(frozenset(said or ()))

    def __or__(self, other: "Nodes") -> "Nodes":
        return Nodes(self.names | other.names, self.every or other.every)

    def __contains__(self, name: str) -> bool:
        return self.every or name in self.names

    def as_json(self) -> Json:
        """As they are kept."""
        return "*" if self.every else sorted(self.names)


@dataclass(slots=True)
class Seat:
    """A thread that this process takes on: its run, and how its breakpoints stand."""

    gate: Gate
    run: ActiveRun
    kept: dict[str, Any]
    """What is kept of it, as JSON; a worker begins with that."""
    opened: set[str] = field(default_factory=set)
    """Checkpoints whose approval was taken up here: one that another process took up lets nothing more pass."""
    asked: set[str] = field(default_factory=set)
    """Requests that were made on the way; none stays pending once the run is over."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def before(self) -> Nodes:
        """Nodes of the graph itself before which this call stops."""
        return Nodes.of(self.kept.get("interrupt_before"))

    @property
    def after(self) -> Nodes:
        """Nodes of the graph itself after which this call stops."""
        return Nodes.of(self.kept.get("interrupt_after"))

    @property
    def refused(self) -> dict[str, str]:
        """The requests of breakpoints that a person denied: there the thread goes no further, in no later run."""
        found: dict[str, str] = self.kept.setdefault("refused", {})
        return found

    def task(self, name: str) -> dict[str, int]:
        """How a task stands: how often it paused here, under which checkpoint it was last begun, whether it waits."""
        found: dict[str, int] = self.kept.setdefault("tasks", {}).setdefault(name, {"paused": 0, "begun": 0, "in": 0})
        return found

    def keep(self) -> None:
        """It is kept as it is now when the run parks or ends."""
        self.run.snapshot(self.kept)


class Steps:
    """The threads of one attached graph, by their runs."""

    def __init__(self) -> None:
        self._seats: dict[str, Seat] = {}

    @contextmanager
    def taken(self, seat: Seat) -> Iterator[None]:
        """Inside, this process takes the steps of the thread."""
        self._seats[seat.run.id] = seat
        try:
            yield
        finally:
            if self._seats.get(seat.run.id) is seat:
                del self._seats[seat.run.id]

    def seat(self, node: str) -> Seat:
        """The thread that the calling code belongs to."""
        active = CURRENT.get()
        found = self._seats.get(active.id) if active is not None else None
        if found is None:
            raise GuardError(
                f"the node {node} belongs to a graph that is attached, and was called past it; nothing ran. Use "
                "invoke, ainvoke, stream or astream of what `attach` gave"
            )
        return found

    def watched(self, graph: Pregel[Any, Any, Any, Any], nodes: Mapping[str, PregelNode], *, inner: bool) -> Any:
        """`graph` made of these nodes, each of which is taken through a gate. Its own breakpoints are in those."""
        before, after = Nodes.of(graph.interrupt_before_nodes), Nodes.of(graph.interrupt_after_nodes)
        shown, made, channel = graph.stream_channels_asis, copy(graph), Topic(str)
        channel.key = RAN
        made.nodes = {
            name: node if name == "__start__" else node.copy({
                "bound": Step(self, name, node.bound, before, after, shown, inner),
                "writers": [*node.writers, _mark(name, node.writers)],
                "subgraphs": node.subgraphs,
            })
            for name, node in nodes.items()
        }  # fmt: skip
        made.channels = {**graph.channels, RAN: channel}
        made.stream_channels = shown
        made.interrupt_before_nodes, made.interrupt_after_nodes = [], []
        return made


class Step(Runnable[Any, Any]):
    """A node of an attached graph."""

    def __init__(
        self, steps: Steps, name: str, bound: Runnable[Any, Any], before: Nodes, after: Nodes,
        shown: str | Sequence[str], inner: bool,
    ) -> None:  # fmt: skip
        self._steps, self.name, self._node, self._bound, self._inner = steps, name, name, bound, inner
        self._before, self._after, self._shown = before, after, shown

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """What the node gave, once it may be taken."""
        with self._passed(config):
            return self._bound.invoke(input, config, **more)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """The same with asyncio."""
        with await self._passed_async(config):
            return await self._bound.ainvoke(input, config, **more)

    def stream(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Iterator[Any]:
        """What the node gives, once it may be taken."""
        with self._passed(config):
            yield from self._bound.stream(input, config, **more)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> AsyncIterator[Any]:
        """The same with asyncio."""
        with await self._passed_async(config):
            async for chunk in self._bound.astream(input, config, **more):
                yield chunk

    def _passed(self, config: Any) -> Any:
        seat = self._steps.seat(self._node)
        standing = self._standing(seat, config)
        while standing is not None and (request := seat.run.run_from_thread(standing.next())) is not None:
            interrupted_for(request)
        return _body(standing)

    async def _passed_async(self, config: Any) -> Any:
        standing = self._standing(self._steps.seat(self._node), config)
        while standing is not None and (request := await standing.next()) is not None:
            interrupted_for(request)
        return _body(standing)

    def _standing(self, seat: Seat, config: Any) -> "_Breakpoint | None":
        """The breakpoint before which the node is, if there is one."""
        before = self._before if self._inner else self._before | seat.before
        after = self._after if self._inner else self._after | seat.after
        title = f"before {self._node}" if self._node in before else ""
        if not title:
            ran = (ChannelRead.do_read(config, select=[RAN]) or {}).get(RAN) or []
            found = sorted({name for name in ran if name in after})
            title = f"after {', '.join(found)}" if found else ""
        if not title:
            return None
        task = str(config["configurable"]["checkpoint_ns"])
        outer = task.rpartition("|")[0]
        kept = (config["configurable"].get("checkpoint_map") or {}).get(outer) or task
        select = self._shown if isinstance(self._shown, str) else list(self._shown)
        return _Breakpoint(seat, task, f"breakpoint {outer} {kept} {title}", title, lambda: _read(config, select))


class _Breakpoint:
    """A step that stands at a breakpoint, each time that it is taken."""

    def __init__(self, seat: Seat, task: str, key: str, title: str, state: Callable[[], Any]) -> None:
        self._seat, self._task, self._key, self._title = seat, task, key, title
        self._state, self._number, self._paused = state, 0, 0
        self._shown: Json = None

    async def next(self) -> Request | None:
        """The request that the step is interrupted for now; none where it may be taken. Raises `Denied`.

        Interrupts of a task are answered in their order, also when it is taken again: as often as it paused here
        before, it has to pass through a pause again, or the node's own questions would hear those answers.
        """
        return await asyncio.shield(self._alone())  # what fails beside it leaves no request that nobody knows of

    async def _alone(self) -> Request | None:
        async with self._seat.lock:
            return await self._next()

    async def _next(self) -> Request | None:
        seat, task = self._seat, self._seat.task(self._task)
        if denied := seat.refused.get(self._key):
            raise refusal(await seat.gate.outcome(denied))
        if not self._number:
            self._shown = as_json(self._state())
            self._number = await self._numbered(task)
        continues = task["in"] == self._number
        key = f"{self._key} {self._number}"
        request = await seat.run.stands_before(self._title, self._shown, key=key)
        if request is None:
            return None  # nobody has to be asked
        seat.asked.add(request.id)
        task["paused"] = max(task["paused"], self._number)
        is_held = Standing(request).is_held and not continues
        if is_held and self._paused >= task["paused"]:
            task["paused"] = self._paused + 1
        if self._paused < task["paused"]:
            self._paused += 1
            seat.keep()
            return request
        if request.id not in seat.opened and not continues:
            try:
                await seat.run.checkpoint(self._title, self._shown, key=key)
            except Denied:
                if (await seat.gate.outcome(request.id)).state is State.DENIED:
                    seat.refused[self._key] = request.id
                    seat.keep()
                raise
            seat.opened.add(request.id)
        task["begun"], task["in"] = self._number, 0
        seat.keep()
        return None

    async def _numbered(self, task: Mapping[str, int]) -> int:
        """Which of the checkpoints at this place counts: one approval lets a step be taken once.

        A step that waits for somebody inside goes on under the one that it was begun under.
        """
        if task["in"]:
            return task["in"]
        number = task["begun"] + 1
        while True:
            known = await self._seat.gate.on_record(f"{self._key} {number}")
            if known is None or known.state is not State.DONE or known.id in self._seat.opened:
                return number
            number += 1

    def waits_inside(self) -> None:
        """The step was begun, and stopped inside to wait; it is the same step when it is taken again."""
        task = self._seat.task(self._task)
        task["in"] = task["begun"]
        self._seat.keep()


def _mark(name: str, beside: Sequence[Any]) -> ChannelWrite:
    """Writes that the node ran. LangGraph joins writers that follow each other, so it is of their kind."""
    last = getattr(beside[-1], "writes", ()) if beside else ()
    entries = (ChannelWriteEntry(RAN, name),)
    return ChannelWrite(list(entries) if isinstance(last, list) else entries)


@contextmanager
def _body(standing: _Breakpoint | None) -> Iterator[None]:
    try:
        yield
    except (GraphInterrupt, Parked, RunStopped):
        if standing is not None:
            standing.waits_inside()
        raise


def _read(config: Any, select: str | list[str]) -> Any:
    return ChannelRead.do_read(config, select=select)
