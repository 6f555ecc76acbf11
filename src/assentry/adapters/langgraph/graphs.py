"""Graphs whose threads are runs: they park as rows, go on in any worker, and are answered by id."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt, StateSnapshot

from assentry.adapters.hosted import Attachment, one_decided
from assentry.adapters.langgraph.gating import gated_graph
from assentry.adapters.langgraph.shapes import answer, as_json, request_in, wanted
from assentry.adapters.langgraph.steps import Nodes, Seat, Steps
from assentry.adapters.langgraph.tools import HELD, place
from assentry.adapters.langgraph.version import version_of
from assentry.adapters.tool_calls import Standing
from assentry.adapters.wanted import Asker
from assentry.core.action import Declaration, Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request, State
from assentry.core.run import Run
from assentry.engine.gate import Gate, store_of
from assentry.engine.hosting import Fits, Resumption
from assentry.engine.outcomes import refusal
from assentry.engine.runs import ActiveRun, current_run
from assentry.engine.threads import in_thread
from assentry.errors import Conflict, GuardError, InvalidArguments, NotFound, Parked, RunStopped

STOPS = ("interrupt_before", "interrupt_after")
"""Where a call says that it stops."""


def attach(
    gate: Gate, graph: Pregel[Any, Any, Any, Any], *, name: str = "", wait: bool = False, tools: bool = True,
    effects: Mapping[str, Declaration] | None = None, version: str = "", capacity: int = 10,
) -> "AttachedGraph":  # fmt: skip
    """The graph, with every thread of it a run of the gate, and every call of its tool nodes proposed first.

    It is invoked as before. Where it waits for a person its thread is parked, and a worker of the gate that has the
    same graph attached goes on with it; with `wait` the call stays until it has ended. `effects` declares what tools
    do, by name; with `tools=False` only what the graph itself asks is shown. `version` says which code this is, where
    parked threads may go on with changed code; else the source of what it is made of does.
    """
    if not graph.checkpointer or graph.checkpointer is True:
        raise GuardError("a graph that can wait needs a checkpointer: compile it with one")
    known = version or version_of(graph)
    steps = Steps()
    made = gated_graph(graph, steps, gate, effects, tools)
    return AttachedGraph(gate, made, steps, name or graph.name or "graph", wait, known, capacity)


READS = frozenset({
    "name", "get_name", "checkpointer", "InputType", "OutputType", "input_schema", "output_schema", "context_schema",
    "get_input_schema", "get_output_schema", "get_input_jsonschema", "get_output_jsonschema", "get_context_jsonschema",
    "get_config_jsonschema", "config_schema", "config_specs", "get_state", "aget_state", "get_state_history",
    "aget_state_history", "stream_mode", "stream_channels", "stream_channels_asis", "stream_channels_list",
    "step_timeout", "debug", "retry_policy", "cache_policy", "store", "cache", "clear_cache", "aclear_cache",
})  # fmt: skip
"""What of a graph only reads, and hands out nothing that runs."""

_CALL = "call invoke, ainvoke, stream or astream of what `attach` gave, once for each thread"
_BUILD = "build that into the graph, and attach what compile() gives"
_CONFIG = "give that with each call, or attach the graph that has it: attach(gate, graph.with_config(...))"
_NODE = "call the attached graph in a function of your own, and make that the step, the tool or the fallback"
INSTEAD = {
    **dict.fromkeys((
        "batch", "abatch", "batch_as_completed", "abatch_as_completed", "map", "transform", "atransform",
        "astream_events", "stream_events", "astream_log",
    ), _CALL),
    **dict.fromkeys((
        "with_config", "bind", "with_listeners", "with_alisteners", "with_types", "copy", "config", "context",
    ), _CONFIG),
    **dict.fromkeys((
        "pipe", "as_tool", "assign", "pick", "with_fallbacks", "with_retry",
    ), _NODE),
    **dict.fromkeys((
        "graph", "builder", "nodes", "channels", "attach_node", "attach_edge", "attach_branch", "validate",
        "get_subgraphs", "aget_subgraphs", "get_prompts", "interrupt_before_nodes", "interrupt_after_nodes",
        "input_channels", "output_channels", "trigger_to_nodes", "stream_eager", "schema_to_mapper",
        "stream_transformers", "node_error_handler_map",
    ), _BUILD),
}  # fmt: skip
"""What of a graph would lead past the gate, or is of no use behind it, and what to do instead."""


class AttachedGraph(Attachment):
    """A graph whose threads are runs: every way to begin one, to go on with it and to go back passes the gate.

    What only reads is the graph's own. The rest of what LangGraph offers is refused, and says what to use instead.
    """

    _reads, _instead = READS, INSTEAD

    def __init__(
        self, gate: Gate, graph: Pregel[Any, Any, Any, Any], steps: Steps, name: str, wait: bool, version: str,
        capacity: int,
    ) -> None:  # fmt: skip
        self._graph, self._steps, self.version = graph, steps, version
        self._gate, self._wait, self._host = gate, wait, "" if wait else f"langgraph:{name}"
        self._name, self._asker = name, Asker(gate)
        self._blocks: bool | None = None
        if self._host:
            gate.host(self._host, capacity=capacity, fits=self._is_its_code)(self._go_on)

    def _inner(self) -> Any:
        return self._graph

    def __or__(self, other: Any) -> Any:
        """Refused: a sequence would take the graph for a step of its own."""
        raise self._refused("|", _NODE)

    __ror__ = __or__

    def get_graph(self, config: Any = None, *, xray: int | bool = False) -> Any:
        """The graph to be drawn, without what runs in it."""
        return _drawn(self._graph.get_graph(config, xray=xray))

    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> Any:
        """The same with asyncio."""
        return _drawn(await self._graph.aget_graph(config, xray=xray))

    def update_state(self, config: Any, values: Any, as_node: str | None = None, task_id: str | None = None) -> Any:
        """As the graph's own, which takes no step; refused while the thread stands where a person was asked."""
        self._stands_free(self._graph.get_state(_newest(config)))
        return self._graph.update_state(config, values, as_node, task_id)

    async def aupdate_state(
        self, config: Any, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> Any:
        """The same with asyncio."""
        self._stands_free(await self._graph.aget_state(_newest(config)))
        return await self._graph.aupdate_state(config, values, as_node, task_id)

    def bulk_update_state(self, config: Any, supersteps: Sequence[Sequence[Any]]) -> Any:
        """Several updates of the state, as with `update_state`."""
        self._stands_free(self._graph.get_state(_newest(config)))
        return self._graph.bulk_update_state(config, supersteps)

    async def abulk_update_state(self, config: Any, supersteps: Sequence[Sequence[Any]]) -> Any:
        """The same with asyncio."""
        self._stands_free(await self._graph.aget_state(_newest(config)))
        return await self._graph.abulk_update_state(config, supersteps)

    def _stands_free(self, state: StateSnapshot) -> None:
        """The thread does not stand where a person was asked: an update would set it past that."""
        if state.interrupts:
            raise GuardError(
                "the thread stands where a person was asked, and an update of its state would set it past that; let "
                "them decide first. After a denial, call it with new input, or with the checkpoint_id of a step before"
            )

    async def ainvoke(
        self, input: Any, config: Any = None, *, goal: str = "", original: str = "", scope: Any = None, **more: Any
    ) -> Any:
        """As the graph's own. Where it waits, what it had to say so far, with `__interrupt__`."""
        made: list[Any] = []
        fits = await self._fits(input, config)
        try:
            async with self._running(input, config, goal, original, scope, more, fits) as run:
                await self._gone(run, input, config, more, made.append)
        except Parked:
            if not made or self._wait:
                raise
        return made[-1]

    def invoke(self, input: Any, config: Any = None, **more: Any) -> Any:
        """The same for code without asyncio."""
        return self._gate.portal.run(self.ainvoke(input, config, **more))

    async def astream(
        self, input: Any, config: Any = None, *, goal: str = "", original: str = "", scope: Any = None, **more: Any
    ) -> AsyncIterator[Any]:
        """As the graph's own; with `wait` it goes on streaming once a person has decided."""
        chunks: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        fits = await self._fits(input, config)

        async def work() -> None:
            try:
                async with self._running(input, config, goal, original, scope, more, fits) as run:
                    await self._gone(run, input, config, more, lambda chunk: chunks.put_nowait((chunk,)), stream=True)
            except Parked:
                if self._wait:
                    raise
            finally:
                chunks.put_nowait(())

        task = asyncio.create_task(work())
        try:
            while chunk := await chunks.get():
                yield chunk[0]
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def stream(self, input: Any, config: Any = None, **more: Any) -> Iterator[Any]:
        """The same for code without asyncio."""
        stream, portal = self.astream(input, config, **more), self._gate.portal

        async def following() -> tuple[Any, ...]:
            async for chunk in stream:
                return (chunk,)
            return ()

        while chunk := portal.run(following()):
            yield chunk[0]

    # A thread as a run

    def _running(
        self, input: Any, config: Any, goal: str, original: str, scope: Any, more: dict[str, Any], fits: "_Fits"
    ) -> Any:
        kept = _kept_config(config)
        stops = {name: Nodes.of(more.pop(name, None)) for name in STOPS}
        thread = str(kept["configurable"]["thread_id"])
        entered = self._gate.run(
            goal or _goal(input) or self._name, original=original, scope=scope, key=thread, host=self._host, fits=fits
        )

        def state(run: ActiveRun) -> dict[str, Any]:
            return {"config": kept, "version": self.version, **_carried(fits, run, stops)}

        return _Running(self._gate, self._steps, entered, state)

    async def _go_on(self, state: Any, told: Resumption | None) -> Json:
        """A worker goes on with a parked thread."""
        assert told is not None  # noqa: S101  threads are begun by invoking the graph
        run = current_run()
        run.steps_within(place)
        made: list[Any] = []
        async with _seated(self._gate, self._steps, Seat(self._gate, run, state)):
            await self._gone(run, None, state["config"], {}, made.append)
        return as_json(made[-1]) if made else None

    async def _gone(
        self, run: ActiveRun, input: Any, config: Any, more: Mapping[str, Any], take: Callable[[Any], Any],
        *, stream: bool = False,
    ) -> None:  # fmt: skip
        """The graph has ended; or `Parked` is raised."""
        state = await self._state(config)
        is_back = bool(config["configurable"].get("checkpoint_id"))
        if not is_back:
            await self._not_denied(state)
        if isinstance(input, Command):
            input = await self._taken_over(state, input)
        if input is not None or is_back or not state.interrupts:
            await self._called(input, config, more, take, stream=stream)
            config = _newest(config)  # a step back is taken once
            state = await self._state(config)
        before = run.record.waits  # what it parked on, where a worker takes it up
        while True:
            beside, before = await self._held_beside(run, state) or before, ()
            if not state.interrupts:
                break
            answers = await self._answered(state, beside)
            run.taken_again()
            await self._called(Command(resume=answers), config, more, take, stream=stream)
            state = await self._state(config)
            if answers.keys() & {each.id for each in state.interrupts}:
                raise GuardError("LangGraph asks again what it was answered; it takes answers by id since 1.2.20")
        if state.next:
            raise GuardError(
                f"the graph stopped before {', '.join(state.next)}, where nobody is asked; breakpoints of graphs that "
                "a node calls by itself are not seen: add that graph as a node, or ask in it with interrupt(...)"
            )
        run.outcome = as_json(state.values)

    async def _not_denied(self, state: StateSnapshot) -> None:
        """The thread does not stand at a breakpoint that a person denied: there it ends, whatever it is given."""
        for each in state.interrupts:
            request = await self._ours(each)
            if request is not None and request.candidate.action.name == "checkpoint" and request.state is State.DENIED:
                raise refusal(request)

    async def _held_beside(self, run: ActiveRun, state: StateSnapshot) -> tuple[str, ...]:
        """The requests of calls that stopped a node here; of several calls in one node its interrupt names the first.

        What was interrupted for a person has stopped; a node that caught its pause has gone on without it.
        """
        stopped = {task.id for task in state.tasks if task.interrupts}
        held = HELD.pop(run.id, {})
        lost = [request for request, place in held.items() if not stopped & set(re.split("[|:]", place))]
        open_ones = [request for request in [await self._gate.outcome(each) for each in lost] if _is_held(request)]
        if open_ones:
            for request in open_ones:
                await self._gate.withdraw(request, "the graph went on without waiting for it")
            codes = ", ".join(request.code for request in open_ones)
            raise GuardError(
                f"the pause for {codes} was swallowed: a node caught what `interrupt` raises and went on; let "
                "GraphInterrupt through (`except GraphBubbleUp: raise`). It did not run"
            )
        return tuple(held)

    async def _called(self, input: Any, config: Any, more: Mapping[str, Any], take: Any, *, stream: bool) -> None:
        if await self._is_blocking(config):
            await in_thread(self._called_here, input, config, more, take, stream)
        elif stream:
            async for chunk in self._graph.astream(input, config, **more):
                take(chunk)
        else:
            take(await self._graph.ainvoke(input, config, **more))

    def _called_here(self, input: Any, config: Any, more: Mapping[str, Any], take: Any, stream: bool) -> None:
        if stream:
            for chunk in self._graph.stream(input, config, **more):
                take(chunk)
        else:
            take(self._graph.invoke(input, config, **more))

    async def _state(self, config: Any) -> StateSnapshot:
        if await self._is_blocking(config):
            return await in_thread(self._graph.get_state, config)
        return await self._graph.aget_state(config)

    async def _is_blocking(self, config: Any) -> bool:
        """The checkpointer knows no asyncio."""
        if self._blocks is None:
            try:
                await self._graph.checkpointer.aget_tuple(config)  # type: ignore[union-attr]
                self._blocks = False
            except NotImplementedError:
                self._blocks = True
        return self._blocks

    # What it waits for

    async def _answered(self, state: StateSnapshot, beside: Sequence[str]) -> dict[str, Any]:
        """Answers by the ids of their interrupts, of those that were decided; at least one, or `Parked` is raised.

        A node with several calls stops once, and takes its answer when any of them, `beside` the others, is decided.
        """
        while True:
            answers: dict[str, Any] = {}
            waiting: list[Request] = []
            ours: list[tuple[str, Any]] = []
            for each in state.interrupts:
                found, value = await self._decided(each)
                if any(map(_is_held, found)):
                    waiting += filter(_is_held, found)
                    ours += [(each.id, value)] if request_in(each.value) else []
                else:
                    answers[each.id] = value
            seen = {request.id for request in waiting}
            others = [await self._gate.outcome(known) for known in beside if known not in seen]
            if len(ours) == 1 and not answers and not all(map(_is_held, others)):
                answers.update(ours)
            if answers:
                return answers
            waiting += others
            await one_decided(self._gate, list({request.id: request for request in waiting}.values()))

    async def _decided(self, each: Interrupt) -> tuple[list[Request], Any]:
        """The requests of an interrupt, and its answer once all of them are decided."""
        if request := await self._ours(each):
            # The step looks at the record by itself; to others this says no. A run that is over is not waited for.
            return [request] if request.ask.run == current_run().id else [], False
        found = await self._asker.decided(
            wanted(each.value, getattr(each, "response_schema", None)), each.id, lambda said: answer(each.value, said)
        )
        self._steps.seat(self._name).asked.update(request.id for request in found[0])
        return found

    async def _ours(self, each: Interrupt) -> Request | None:
        """The request of this thread that one of our own steps waits for; none where others say such a thing."""
        known = request_in(each.value)
        with suppress(NotFound):
            request = await self._gate.outcome(known) if known else None
            if request is None or not request.ask.run:
                return None
            here = current_run().record
            run = here if request.ask.run == here.id else await store_of(self._gate).run(
                self._gate.workspace, request.ask.run
            )  # fmt: skip
            return request if run is not None and (run.key, run.agent) == (here.key, here.agent) else None
        return None

    def _is_its_code(self, run: Run, kept: Json) -> None:
        """The graph is the one that the run's thread went through; else that is said, and nothing has changed."""
        version = kept.get("version", self.version) if isinstance(kept, Mapping) else self.version
        if version == self.version:
            return
        instead = "call it with a new input, which begins anew"
        if run.state.is_open:
            instead = f"cancel the run (`assentry run cancel {run.code}`)"
        raise GuardError(
            f"the graph {self._name} has changed since run {run.code} went through it, and would go on at another "
            f"place; nothing was done. Bring the old code back, or {instead}; if both go on alike, attach the new one "
            f'with version="{version}"'
        )

    async def _fits(self, input: Any, config: Any) -> "_Fits":
        """What the graph is called with can be meant for the place where the thread stands.

        What depends on the thread's last run is asked before that is taken up.
        """
        _kept_config(config)
        is_back = bool(config["configurable"].get("checkpoint_id"))
        waiting = {each.id for each in (await self._state(_newest(config))).interrupts}
        here = {each.id for each in (await self._state(config)).interrupts} if is_back else waiting
        resume = input.resume if isinstance(input, Command) else None
        if resume is not None and not here:
            raise GuardError("the thread asks nothing now, so it takes no answer; call it with None, or with an input")

        def fits(run: Run, kept: Json) -> None:
            waits = f"the thread waits for a person; let them decide, or `assentry run cancel {run.code}`"
            if waiting and run.state.is_open and is_back:
                raise GuardError(f"{waits}, before you go back")
            if waiting and run.state.is_open and input is not None and resume is None:
                raise GuardError(f"{waits}, first")
            # Other input begins at the graph's start; and whoever has mended a node that failed may take it again.
            if (input is None or isinstance(input, Command)) and (waiting or run.state.is_open):
                self._is_its_code(run, kept)

        keyed = isinstance(resume, Mapping) and bool(resume) and set(resume) <= here
        if resume is not None and not keyed and len(here) > 1:
            raise GuardError(
                f"{len(here)} interrupts wait, and an answer without an id could go to any of them; "
                "use Command(resume={interrupt.id: answer})"
            )
        return _Fits(fits, is_anew=input is not None and not isinstance(input, Command))

    async def _taken_over(self, state: StateSnapshot, command: Any) -> Any:
        """What of the program's own answers counts: of what the graph asked, where no person has decided yet.

        Nobody else is asked about that any more. What waits for Assentry still does.
        """
        resume, waiting = command.resume, {each.id: each for each in state.interrupts}
        if resume is None or not waiting:
            return command
        keyed = isinstance(resume, Mapping) and bool(resume) and set(resume) <= set(waiting)
        given = dict(resume) if keyed else {next(iter(waiting)): resume}
        for each in [waiting[name] for name in given]:
            if await self._ours(each):
                continue
            known = await self._asker.known(len(wanted(each.value, getattr(each, "response_schema", None))), each.id)
            if any(not _is_held(request) for request in known):
                del given[each.id]  # a person was first
                continue
            for request in known:
                await self._gate.withdraw(request, "the program answered by itself")
        return replace(command, resume=given) if given else None


class _Fits:
    """Asks what a call is given about the thread's last run, and remembers what is kept of that."""

    def __init__(self, asks: Fits, *, is_anew: bool) -> None:
        self._asks, self.is_anew = asks, is_anew
        self.run, self.kept = "", dict[str, Any]()

    def __call__(self, run: Run, kept: Json) -> None:
        self._asks(run, kept)
        self.run, self.kept = run.id, dict(kept) if isinstance(kept, Mapping) else {}


def _carried(fits: _Fits, run: ActiveRun, stops: Mapping[str, Nodes]) -> dict[str, Any]:
    """What is known of the thread from before, and where this call stops.

    Breakpoints of earlier calls hold for whatever goes on from there; only new input begins without them.
    """
    found: dict[str, Any] = {"refused": fits.kept.get("refused") or {}}
    if run.id == fits.run:
        found["tasks"] = fits.kept.get("tasks") or {}
    for name, now in stops.items():
        ever = Nodes.of(fits.kept.get(f"ever_{name}")) | now
        found[name], found[f"ever_{name}"] = (now if fits.is_anew else ever).as_json(), ever.as_json()
    return {name: each for name, each in found.items() if each}


class _Running:
    """The run of a thread, entered."""

    def __init__(
        self, gate: Gate, steps: Steps, entered: AbstractAsyncContextManager[ActiveRun],
        state: Callable[[ActiveRun], dict[str, Any]],
    ) -> None:  # fmt: skip
        self._gate, self._steps, self._entered, self._state = gate, steps, entered, state
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> ActiveRun:
        async with self._stack:
            run = await self._stack.enter_async_context(self._entered)
            seat = Seat(self._gate, run, self._state(run))
            await self._stack.enter_async_context(_seated(self._gate, self._steps, seat))
            run.steps_within(place)
            seat.keep()
            await run.keep_snapshot()
            self._stack = self._stack.pop_all()
        return run

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stack.__aexit__(*raised)


@asynccontextmanager
async def _seated(gate: Gate, steps: Steps, seat: Seat) -> AsyncIterator[None]:
    """Inside, the steps of the thread are taken here. A run that is over leaves nothing pending."""
    run = seat.run
    seat.asked.update(run.record.waits)
    try:
        with steps.taken(seat):
            yield
    except (Parked, RunStopped, asyncio.CancelledError):
        raise
    except BaseException:
        await _withdrawn(gate, run, seat, "the run of the graph failed")
        raise
    await _withdrawn(gate, run, seat, "the graph ended without it")


async def _withdrawn(gate: Gate, run: ActiveRun, seat: Seat, reason: str) -> None:
    async with seat.lock:
        known = {*seat.asked, *HELD.pop(run.id, {})}
    for each in known:
        with suppress(NotFound, Conflict):
            request = await gate.outcome(each)
            if request.state is State.PENDING and request.ask.run == run.id:
                await gate.withdraw(request, reason)


def _is_held(request: Request) -> bool:
    return Standing(request).is_held


def _newest(config: Any) -> Any:
    """Where the thread stands now: a step back is taken once."""
    given = {name: each for name, each in config["configurable"].items() if name != "checkpoint_id"}
    return {**config, "configurable": given}


def _drawn(graph: Any) -> Any:
    graph.nodes = {name: node._replace(data=None) for name, node in graph.nodes.items()}
    return graph


def _kept_config(config: Any) -> dict[str, Any]:
    """What a worker needs of a config, as JSON."""
    given = dict((config or {}).get("configurable") or {})
    if not given.get("thread_id"):
        raise GuardError('a thread has an id: invoke the graph with {"configurable": {"thread_id": "…"}}')
    plain = {name: each for name, each in given.items() if not name.startswith("__") and name != "checkpoint_id"}
    try:
        kept: dict[str, Any] = {"configurable": restore(canonical({**plain, "thread_id": str(given["thread_id"])}))}
    except InvalidArguments as problem:
        raise GuardError(f"a thread that can park has a config of JSON only ({problem})") from None
    if "recursion_limit" in (config or {}):
        kept["recursion_limit"] = config["recursion_limit"]
    return kept


def _goal(input: Any) -> str:
    """What the person said last."""
    messages = input.get("messages") if isinstance(input, Mapping) else None
    last = messages[-1] if isinstance(messages, Sequence) and not isinstance(messages, str) and messages else messages
    content = getattr(last, "content", None) if not isinstance(last, str) else last
    if isinstance(last, Mapping):
        content = last.get("content")
    if isinstance(last, tuple) and len(last) == 2:
        content = last[1]
    return content[:200] if isinstance(content, str) else ""
