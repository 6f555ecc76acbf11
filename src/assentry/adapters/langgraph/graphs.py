"""Graphs whose threads are runs: they park as rows, go on in any worker, and are answered by id."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt, StateSnapshot

from assentry.adapters.hosted import one_decided
from assentry.adapters.langgraph.gating import gated_graph
from assentry.adapters.langgraph.shapes import answer, request_in, wanted
from assentry.adapters.langgraph.tools import HELD, place
from assentry.adapters.langgraph.version import version_of
from assentry.adapters.tool_calls import Standing
from assentry.adapters.wanted import Asker
from assentry.core.action import Declaration, Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.engine.gate import Gate
from assentry.engine.hosting import Fits, Resumption
from assentry.engine.runs import ActiveRun, current_run
from assentry.engine.threads import in_thread
from assentry.errors import GuardError, InvalidArguments, NotFound, Parked


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
    made = gated_graph(graph, gate, effects) if tools else graph
    return AttachedGraph(gate, made, name or graph.name or "graph", wait, known, capacity)


class AttachedGraph:
    """A graph whose threads are runs. Everything else about it is the graph's own."""

    def __init__(
        self, gate: Gate, graph: Pregel[Any, Any, Any, Any], name: str, wait: bool, version: str, capacity: int
    ) -> None:
        self.graph, self.version = graph, version
        self._gate, self._wait, self._host = gate, wait, "" if wait else f"langgraph:{name}"
        self._name, self._asker = name, Asker(gate)
        self._blocks: bool | None = None
        if self._host:
            gate.host(self._host, capacity=capacity, fits=self._is_its_code)(self._go_on)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)

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
        self, input: Any, config: Any, goal: str, original: str, scope: Any, more: Mapping[str, Any], fits: Fits
    ) -> Any:
        kept = _kept_config(config)
        breakpoints = {name: _names(more[name]) for name in ("interrupt_before", "interrupt_after") if more.get(name)}
        state = {"config": kept, "version": self.version, **breakpoints}
        thread = str(kept["configurable"]["thread_id"])
        entered = self._gate.run(
            goal or _goal(input) or self._name, original=original, scope=scope, key=thread, host=self._host, fits=fits
        )
        return _Running(entered, state)

    async def _go_on(self, state: Any, told: Resumption | None) -> Json:
        """A worker goes on with a parked thread."""
        assert told is not None  # noqa: S101  threads are begun by invoking the graph
        run = current_run()
        run.steps_within(place)
        made: list[Any] = []
        breakpoints = {name: state[name] for name in ("interrupt_before", "interrupt_after") if name in state}
        await self._gone(run, None, state["config"], breakpoints, made.append)
        return _as_json(made[-1]) if made else None

    async def _gone(
        self, run: ActiveRun, input: Any, config: Any, more: Mapping[str, Any], take: Callable[[Any], Any],
        *, stream: bool = False,
    ) -> None:  # fmt: skip
        """The graph has ended; or `Parked` is raised."""
        state = await self._state(config)
        if isinstance(input, Command):
            input = await self._taken_over(state, input)
        if input is not None or not _paused(state, self.graph, more):
            await self._called(input, config, more, take, stream=stream)
            config = _newest(config)
            state = await self._state(config)
        before = run.record.waits  # what it parked on, where a worker takes it up
        while True:
            beside, before = await self._held_beside(run, state) or before, ()
            if not _paused(state, self.graph, more):
                break
            answers = await self._answered(run, state, beside)
            run.taken_again()
            await self._called(Command(resume=answers) if answers else None, config, more, take, stream=stream)
            state = await self._state(config)
            if answers.keys() & {each.id for each in state.interrupts}:
                raise GuardError("LangGraph asks again what it was answered; it takes answers by id since 1.2.20")
        run.outcome = _as_json(state.values)

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
            async for chunk in self.graph.astream(input, config, **more):
                take(chunk)
        else:
            take(await self.graph.ainvoke(input, config, **more))

    def _called_here(self, input: Any, config: Any, more: Mapping[str, Any], take: Any, stream: bool) -> None:
        if stream:
            for chunk in self.graph.stream(input, config, **more):
                take(chunk)
        else:
            take(self.graph.invoke(input, config, **more))

    async def _state(self, config: Any) -> StateSnapshot:
        if await self._is_blocking(config):
            return await in_thread(self.graph.get_state, config)
        return await self.graph.aget_state(config)

    async def _is_blocking(self, config: Any) -> bool:
        """The checkpointer knows no asyncio."""
        if self._blocks is None:
            try:
                await self.graph.checkpointer.aget_tuple(config)  # type: ignore[union-attr]
                self._blocks = False
            except NotImplementedError:
                self._blocks = True
        return self._blocks

    # What it waits for

    async def _answered(self, run: ActiveRun, state: StateSnapshot, beside: Sequence[str]) -> dict[str, Any]:
        """Answers by the ids of their interrupts, of those that were decided; at least one, or `Parked` is raised.

        A node with several calls stops once, and takes its answer when any of them, `beside` the others, is decided.
        """
        if not state.interrupts:
            await self._looked_at(run, state)
            return {}
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
            await one_decided(self._gate, waiting)

    async def _decided(self, each: Interrupt) -> tuple[list[Request], Any]:
        """The requests of an interrupt, and its answer once all of them are decided."""
        if request := await self._ours(each):
            return [request], False  # the tool looks at the record by itself; to others this says no
        return await self._asker.decided(
            wanted(each.value, getattr(each, "response_schema", None)), each.id, lambda said: answer(each.value, said)
        )

    async def _ours(self, each: Interrupt) -> Request | None:
        """The request of this run that one of our own tools waits for; none where anybody else says such a thing."""
        known = request_in(each.value)
        with suppress(NotFound):
            request = await self._gate.outcome(known) if known else None
            return request if request is not None and request.ask.run == current_run().id else None
        return None

    async def _looked_at(self, run: ActiveRun, state: StateSnapshot) -> None:
        """The graph stands at a breakpoint: a person lets it go on."""
        at = ", ".join(state.next)
        kept = (state.config.get("configurable") or {}).get("checkpoint_id", "")
        await run.checkpoint(f"before {at}", _as_json(state.values), key=f"breakpoint {kept} {at}")

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

    async def _fits(self, input: Any, config: Any) -> Fits:
        """What the graph is called with can be meant for the place where the thread stands.

        What depends on the thread's last run is asked before that is taken up.
        """
        _kept_config(config)
        waiting = {each.id for each in (await self._state(_newest(config))).interrupts}
        resume = input.resume if isinstance(input, Command) else None
        is_back = bool(config["configurable"].get("checkpoint_id"))

        def fits(run: Run, kept: Json) -> None:
            waits = f"the thread waits for a person; let them decide, or `assentry run cancel {run.code}`"
            if waiting and run.state.is_open and is_back:
                raise GuardError(f"{waits}, before you go back")
            if waiting and run.state.is_open and input is not None and resume is None:
                raise GuardError(f"{waits}, first")
            # Other input begins at the graph's start; and whoever has mended a node that failed may take it again.
            if (input is None or isinstance(input, Command)) and (waiting or run.state.is_open):
                self._is_its_code(run, kept)

        keyed = isinstance(resume, Mapping) and bool(resume) and set(resume) <= waiting
        if resume is not None and not keyed and len(waiting) > 1:
            raise GuardError(
                f"{len(waiting)} interrupts wait, and an answer without an id could go to any of them; "
                "use Command(resume={interrupt.id: answer})"
            )
        return fits

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


class _Running:
    """The run of a thread, entered."""

    def __init__(self, entered: AbstractAsyncContextManager[ActiveRun], state: Json) -> None:
        self._entered, self._state = entered, state

    async def __aenter__(self) -> ActiveRun:
        run = await self._entered.__aenter__()
        run.steps_within(place)
        run.snapshot(self._state)
        await run.keep_snapshot()
        return run

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._entered.__aexit__(*raised)


def _paused(state: StateSnapshot, graph: Pregel[Any, Any, Any, Any], more: Mapping[str, Any]) -> bool:
    """It waits for somebody: at an interrupt, or before or after a node that it was told to stop at."""
    if state.interrupts:
        return True
    before = more.get("interrupt_before") or graph.interrupt_before_nodes
    after = more.get("interrupt_after") or graph.interrupt_after_nodes
    stops = bool(after) or before == "*" or bool(set(before or ()) & set(state.next))
    return bool(state.next) and stops


def _is_held(request: Request) -> bool:
    return Standing(request).is_held


def _newest(config: Any) -> Any:
    """Where the thread stands now: a step back is taken once."""
    given = {name: each for name, each in config["configurable"].items() if name != "checkpoint_id"}
    return {**config, "configurable": given}


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


def _names(nodes: Any) -> Json:
    return nodes if isinstance(nodes, str) else list(nodes)


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


def _as_json(value: Any) -> Json:
    """State as people can look at it and as it can be kept."""
    if isinstance(value, BaseMessage):
        return {"type": value.type, "content": _as_json(value.content)}
    if isinstance(value, Mapping):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(each) for each in value]
    try:
        return restore(canonical(value.model_dump(mode="json") if hasattr(value, "model_dump") else value))
    except InvalidArguments:
        return str(value)
