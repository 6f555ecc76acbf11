"""An agent of the OpenAI Agents SDK as a run: begun, parked as its RunState, and gone on with in any process."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agents import Agent, Runner, RunResult, RunResultStreaming, RunState, ToolApprovalItem

from assentry.adapters.hosted import Attachment, Hosted, one_decided
from assentry.adapters.openai_agents.graph import Graph
from assentry.adapters.openai_agents.state import closed, opened
from assentry.adapters.tool_calls import Standing, ToolCalls, kept, plain_args
from assentry.core.action import Declaration, Json
from assentry.core.canonical import restore
from assentry.engine.gate import Gate, store_of
from assentry.engine.hosting import Resumption
from assentry.engine.runs import current_run
from assentry.errors import GuardError

Result = RunResult | RunResultStreaming
DESCRIBED = ("goal", "original", "scope", "key", "agent")
"""What `run` takes that is the run's and not the framework's."""


@dataclass(slots=True)
class _Seat:
    """What only the process has in which a run was begun."""

    options: Mapping[str, Any]
    events: "asyncio.Queue[Any] | None" = None
    result: Result | None = None


_SEAT: ContextVar[_Seat | None] = ContextVar("assentry_openai_agents_seat", default=None)


class Streamed:
    """A run whose events are heard as they happen."""

    def __init__(self, work: "asyncio.Task[Result]", events: "asyncio.Queue[Any]") -> None:
        self._work, self._events = work, events

    async def stream_events(self) -> AsyncIterator[Any]:
        """Every event of the framework. `Parked` is raised after the last one where the run waits elsewhere."""
        try:
            while (event := await self._events.get()) is not None:
                yield event
            await self._work
        finally:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    @property
    def result(self) -> Result:
        """The framework's own result, once every event was heard."""
        return self._work.result()


_RUN = "use run or run_streamed of what `attach` gave"
_BUILD = "build that into the agent, and attach it again"
READS = frozenset({"name", "handoff_description", "output_type"})
"""What of an agent only reads, and hands out nothing that runs."""
INSTEAD = {
    **dict.fromkeys(("agent", "get_all_tools", "get_mcp_tools", "get_prompt", "get_system_prompt"), _RUN),
    "as_tool": "give the agent that is not attached yet to another one as a tool, and attach that one",
    **dict.fromkeys((
        "clone", "tools", "handoffs", "mcp_servers", "mcp_config", "model", "model_settings", "instructions", "prompt",
        "hooks", "input_guardrails", "output_guardrails", "tool_use_behavior", "reset_tool_choice",
    ), _BUILD),
}  # fmt: skip
"""What of an agent would lead past the gate, or is of no use behind it, and what to do instead."""


class Attached(Attachment):
    """An agent whose tools pass a gate and whose work is a run. `attach` makes it.

    The rest of what the framework's agents offer is refused, and says what to use instead.
    """

    _reads, _instead = READS, INSTEAD

    def __init__(
        self,
        gate: Gate,
        agent: Agent[Any],
        name: str,
        calls: ToolCalls,
        *,
        wait: bool,
        capacity: int,
        options: Mapping[str, Any],
    ) -> None:
        self._gate, self._name, self._options = gate, name, dict(options)
        self._graph = Graph(calls)
        self._agent = self._graph.guarded(agent)
        """The guarded copy of the agent: its tools pass the gate whoever runs it."""
        self._hosted = Hosted(gate, name, self._go_on, wait=wait, capacity=capacity)

    def _inner(self) -> Any:
        return self._agent

    async def run(
        self,
        input: str | list[Any],
        *,
        goal: str = "",
        original: str = "",
        scope: Any = None,
        key: str = "",
        agent: str = "",
        **options: Any,
    ) -> Result:
        """The framework's own result. Raises `Parked` where the run waits elsewhere from now on.

        `goal`, `original`, `scope`, `key` and `agent` are the run's; other `options` are those of the framework's own
        `Runner.run`, for an agent that waits. One that parks has them from `attach`, so that any process can go on.
        """
        described = {"goal": goal, "original": original, "scope": scope, "key": key, "agent": agent}
        return await self._begun(input, described, _Seat(self._allowed(options)))

    def run_streamed(self, input: str | list[Any], **more: Any) -> Streamed:
        """The same, with its events: `async for event in agent.run_streamed("…").stream_events():`"""
        described = {name: more.pop(name, None if name == "scope" else "") for name in DESCRIBED}
        events: asyncio.Queue[Any] = asyncio.Queue()
        work = asyncio.create_task(self._begun(input, described, _Seat(self._allowed(more), events)))
        work.add_done_callback(lambda _: events.put_nowait(None))
        return Streamed(work, events)

    def _allowed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        if options and not self._hosted.waits:
            raise GuardError(
                f"{', '.join(sorted(options))}: any process may go on with a run of {self._name}, so pass that to "
                "attach(...), or attach with wait=True"
            )
        return {**self._options, **options}

    async def _begun(self, input: str | list[Any], described: dict[str, Any], seat: _Seat) -> Result:
        described["goal"] = described["goal"] or _first_line(input) or self._name
        token = _SEAT.set(seat)
        try:
            await self._hosted.begin({"input": kept(input)}, **described)
        finally:
            _SEAT.reset(token)
        if seat.result is None:
            raise GuardError(f"this run of {self._name} had finished before; what it came to is on its record")
        return seat.result

    async def _go_on(self, state: Json, resumption: Resumption | None) -> Json:
        """The whole agent: from its beginning, or from where it had got to."""
        run = current_run()
        if resumption is None and not self._hosted.waits:
            # Begun again under the same key, it goes on as well: a model that is asked again says something else.
            left = await store_of(self._gate).snapshot(self._gate.workspace, run.id)
            state = restore(left) if left else state
        while True:
            result = await self._taken_on(state)
            if not result.interruptions:
                seat = _SEAT.get()
                if seat is not None:
                    seat.result = result
                return kept(result.final_output)
            waits = [_call_of(item) for item in result.interruptions]
            state = {"state": opened(result.to_state()), "waiting": waits}
            run.snapshot(state)
            found = [await self._gate.on_record(each) for each in waits]
            if all(found):  # what is not on record was asked for in no way that can be read, and is turned away
                await one_decided(self._gate, [request for request in found if request is not None])

    async def _taken_on(self, state: Any) -> Result:
        """What the framework's agent came to from this state on."""
        seat = _SEAT.get()
        options = dict(self._options if seat is None else seat.options)
        input = state.get("input")
        if "state" in state:
            asked = {each: await self._as_asked(each) for each in state["waiting"]}
            input = await RunState.from_json(self._agent, closed(state["state"], asked))
            for item in input.get_interruptions():
                if not Standing(await self._gate.on_record(_call_of(item))).is_held:
                    input.approve(item)  # so that it is called; what becomes of it is for the record to say
        if seat is None or seat.events is None:
            return await Runner.run(self._agent, input, **options)
        streamed = Runner.run_streamed(self._agent, input, **options)
        async for event in streamed.stream_events():
            seat.events.put_nowait(event)
        return streamed

    async def _as_asked(self, call_id: str) -> Json:
        """The arguments of a call on record: what was kept of them in the state is without secrets."""
        found = await self._gate.on_record(call_id)
        return None if found is None or found.ask.question is not None else plain_args(self._gate.as_asked(found))


def attach(
    gate: Gate,
    agent: Agent[Any],
    *,
    name: str = "",
    wait: bool = False,
    effects: Mapping[str, Declaration] | None = None,
    capacity: int = 10,
    **options: Any,
) -> Attached:
    """The agent, with every tool call through the gate: `agent = attach(gate, agent, name="mailer")`.

    A run parks where it has to wait, and workers of the gate that have the same agent attached under this name go on
    with it; with `wait` it stays in its process. `effects` declares what tools do. `options` (context, session,
    run_config, …) go to each `Runner.run`.
    """
    calls = ToolCalls(gate, effects)
    return Attached(gate, agent, name or agent.name, calls, wait=wait, capacity=capacity, options=options)


def _call_of(item: ToolApprovalItem) -> str:
    """The framework's name for the call that it stopped for."""
    raw = item.raw_item
    said = raw if isinstance(raw, dict) else raw.model_dump()
    call = said.get("call_id")
    if said.get("type") != "function_call" or not isinstance(call, str):
        raise GuardError(
            f"{item.name or 'a tool'} is carried out by a server of the model's and asks for approval in its own way, "
            "which does not pass the gate; attach the MCP server to the agent itself"
        )
    return call


def _first_line(input: str | Collection[Any]) -> str:
    text = input
    if not isinstance(input, str):
        said = [each.get("content") for each in input if isinstance(each, dict) and each.get("role") == "user"]
        text = said[-1] if said and isinstance(said[-1], str) else ""
    return str(text).strip().partition("\n")[0][:200]
