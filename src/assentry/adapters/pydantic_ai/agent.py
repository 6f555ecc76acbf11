"""A Pydantic AI agent as a run: begun, parked as its messages, and gone on with in any process that has it too."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import AgentRunResult, AgentRunResultEvent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.tools import RunContext, ToolApproved
from pydantic_ai.usage import RunUsage

from assentry.adapters.hosted import Attachment, Hosted, one_decided
from assentry.adapters.pydantic_ai.history import dumped, first_line, prompt_as_json, prompt_of
from assentry.adapters.pydantic_ai.tools import PLACE, Guarding, Place, Waits
from assentry.adapters.tool_calls import ToolCalls, kept
from assentry.core.action import Declaration, Json
from assentry.core.canonical import restore
from assentry.engine.gate import Gate, store_of
from assentry.engine.holding import CURRENT
from assentry.engine.hosting import Resumption
from assentry.engine.runs import current_run
from assentry.errors import GuardError

USAGE = TypeAdapter(RunUsage)
DESCRIBED = ("goal", "original", "scope", "key", "agent")
"""What `run` takes that is the run's and not the framework's."""


@dataclass(slots=True)
class _Seat:
    """What only the process has in which a run was begun."""

    options: Mapping[str, Any]
    events: "asyncio.Queue[Any] | None" = None
    result: AgentRunResult[Any] | None = None


_SEAT: ContextVar[_Seat | None] = ContextVar("assentry_pydantic_ai_seat", default=None)


_RUN = "use run or run_stream_events of what `attach` gave"
_BUILD = "build that into the agent, and attach it"
_OPTION = "pass that to attach(...), or with wait=True to run(...)"
READS = frozenset({"name", "description", "render_description", "output_json_schema", "output_type", "deps_type"})
"""What of an agent only reads, and hands out nothing that runs."""
INSTEAD = {
    **dict.fromkeys((
        "agent", "run_sync", "run_stream", "run_stream_sync", "iter", "realtime", "to_cli", "to_cli_sync", "to_web",
        "is_call_tools_node", "is_end_node", "is_model_request_node", "is_user_prompt_node",
    ), _RUN),
    **dict.fromkeys((
        "override", "model", "model_settings", "event_stream_handler", "parallel_tool_call_execution_mode",
        "using_sleep", "using_thread_executor", "validation_context",
    ), _OPTION),
    **dict.fromkeys((
        "tool", "tool_plain", "toolset", "toolsets", "instructions", "system_prompt", "system_prompt_parts",
        "output_validator", "instrument", "instrument_all", "from_file", "from_spec", "on_event", "root_capability",
        "set_mcp_sampling_model", "end_strategy",
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
        agent: AbstractAgent[Any, Any],
        name: str,
        calls: ToolCalls,
        *,
        wait: bool,
        delegates: Collection[str],
        capacity: int,
        options: Mapping[str, Any],
    ) -> None:
        self._gate, self._agent, self._name, self._calls = gate, agent, name, calls
        self._delegates, self._options = frozenset(delegates), dict(options)
        self._hosted = Hosted(gate, name, self._go_on, wait=wait, capacity=capacity)

    def _inner(self) -> Any:
        return self._agent

    async def run(
        self,
        user_prompt: str | Sequence[Any] | None = None,
        *,
        message_history: Sequence[Any] | None = None,
        goal: str = "",
        original: str = "",
        scope: Any = None,
        key: str = "",
        agent: str = "",
        **options: Any,
    ) -> AgentRunResult[Any]:
        """The framework's own result. Raises `Parked` where the run waits elsewhere from now on.

        `goal`, `original`, `scope`, `key` and `agent` are the run's; other `options` are those of the framework's own
        `run`, for an agent that waits. One that parks has them from `attach`, so that any process can go on.
        """
        described = {"goal": goal, "original": original, "scope": scope, "key": key, "agent": agent}
        return await self._begun(user_prompt, message_history, described, _Seat(self._allowed(options)))

    @asynccontextmanager
    async def run_stream_events(
        self, user_prompt: str | Sequence[Any] | None = None, **more: Any
    ) -> AsyncIterator[AsyncIterator[Any]]:
        """The events of `run` as they happen, the result last; `Parked` is raised after the last one here."""
        events: asyncio.Queue[Any] = asyncio.Queue()
        described = {name: more.pop(name, None if name == "scope" else "") for name in DESCRIBED}
        history = more.pop("message_history", None)
        seat = _Seat(self._allowed(more), events)
        work = asyncio.create_task(self._begun(user_prompt, history, described, seat))
        work.add_done_callback(lambda _: events.put_nowait(None))

        async def told() -> AsyncIterator[Any]:
            while (event := await events.get()) is not None:
                yield event
            yield AgentRunResultEvent(await work)

        try:
            yield told()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _allowed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        if options and not self._hosted.waits:
            raise GuardError(
                f"{', '.join(sorted(options))}: any process may go on with a run of {self._name}, so pass that to "
                "attach(...), or attach with wait=True"
            )
        return {**self._options, **options}

    async def _begun(
        self, prompt: Any, history: Sequence[Any] | None, described: dict[str, Any], seat: _Seat
    ) -> AgentRunResult[Any]:
        state = {"prompt": prompt_as_json(prompt), "messages": dumped(history or [])}
        place, active = PLACE.get(), CURRENT.get()
        token = _SEAT.set(seat)
        try:
            if place is not None and active is not None:
                return await self._inside(place, state)
            described["goal"] = described["goal"] or first_line(prompt) or self._name
            outcome = await self._hosted.begin(state, **described)
        finally:
            _SEAT.reset(token)
        return seat.result or AgentRunResult(outcome)

    async def _inside(self, place: Place, state: Json) -> AgentRunResult[Any]:
        """The same as a part of the run of the agent whose tool this is called in."""
        key = place.next(self._name)
        result, state = await self._taken_on(place.states.get(key) or state)
        waits = _waits(result)
        if waits is None:
            place.states.pop(key, None)
            return result
        place.states[key] = state
        place.waits.extend(waits)
        raise Waits

    async def _go_on(self, state: Json, resumption: Resumption | None) -> Json:
        """The whole agent: from its beginning, or from where it had got to."""
        run = current_run()
        if resumption is None and not self._hosted.waits:
            # Begun again under the same key, it goes on as well: a model that is asked again says something else.
            left = await store_of(self._gate).snapshot(self._gate.workspace, run.id)
            state = restore(left) if left else state
        while True:
            result, state = await self._taken_on(state)
            waits = _waits(result)
            if waits is None:
                seat = _SEAT.get()
                if seat is not None:
                    seat.result = result
                return kept(result.output)
            run.snapshot(state)
            found = [await store_of(self._gate).request(self._gate.workspace, each) for each in waits]
            await one_decided(self._gate, [request for request in found if request is not None])

    async def _taken_on(self, state: Any) -> tuple[AgentRunResult[Any], Json]:
        """What the framework's agent came to from this state on, and the state that it left."""
        seat = _SEAT.get()
        options = dict(self._options if seat is None else seat.options)
        inner = {call: dict(states) for call, states in state.get("inner", {}).items()}
        guarding = Guarding(self._calls, self._delegates, inner)
        options["capabilities"] = [*(options.get("capabilities") or ()), guarding]
        if not self._hosted.waits:
            options["output_type"] = _that_defers(options.get("output_type") or self._agent.output_type)
        if seat is not None and seat.events is not None:
            options["event_stream_handler"] = _teller(seat.events)
        if "usage" in state:
            options["usage"] = USAGE.validate_python(state["usage"])
        messages = ModelMessagesTypeAdapter.validate_python(state["messages"])
        waiting: list[str] = state.get("waiting", [])
        if waiting:
            # Each is called again, and finds out for itself how it stands.
            options["deferred_tool_results"] = DeferredToolResults(approvals={each: ToolApproved() for each in waiting})
            messages = await self._as_asked(messages, waiting)
        options.setdefault("infer_name", False)
        result = await self._agent.run(prompt_of(state), message_history=messages or None, **options)
        left: dict[str, Any] = {
            "messages": dumped(result.all_messages()), "usage": USAGE.dump_python(result.usage, mode="json"),
        }  # fmt: skip
        if isinstance(result.output, DeferredToolRequests):
            left["waiting"] = [call.tool_call_id for call in result.output.approvals]
            left["inner"] = {call: inner[call] for call in left["waiting"] if inner.get(call)}
        return result, left

    async def _as_asked(self, messages: list[Any], waiting: Collection[str]) -> list[Any]:
        """The messages with the arguments on record: what was kept of them here is without secrets."""
        for message in messages:
            for part in message.parts:
                if part.part_kind == "tool-call" and part.tool_call_id in waiting:
                    found = await self._gate.on_record(part.tool_call_id)
                    if found is not None and found.ask.question is None:
                        part.args = self._gate.as_asked(found)
        return messages


def attach(
    gate: Gate,
    agent: AbstractAgent[Any, Any],
    *,
    name: str = "",
    wait: bool = False,
    effects: Mapping[str, Declaration] | None = None,
    delegates: Collection[str] = (),
    capacity: int = 10,
    **options: Any,
) -> Attached:
    """The agent, with every tool call through the gate: `agent = attach(gate, agent, name="mailer")`.

    A run parks where it has to wait, and workers of the gate that have the same agent attached under this name go on
    with it; with `wait` it stays in its process. `effects` declares what tools do. `delegates` names tools that only
    call agents that are attached themselves. `options` (deps, model, …) go to each of the framework's own runs.
    """
    name = name or agent.name or ""
    if not name:
        raise GuardError('attach needs a name that stays the same in every process: attach(gate, agent, name="mailer")')
    if not wait and getattr(agent, "_output_validators", None) and not _defers(agent.output_type):
        raise GuardError(
            f"{name} has output validators, so the framework wants DeferredToolRequests in its own output_type: "
            f"Agent(..., output_type=[..., DeferredToolRequests]), or attach it with wait=True"
        )
    calls = ToolCalls(gate, effects)
    return Attached(
        gate, agent, name, calls, wait=wait, delegates=delegates, capacity=capacity, options=options,
    )  # fmt: skip


def _waits(result: AgentRunResult[Any]) -> list[str] | None:
    """The requests that the agent stopped for; none where it ended."""
    asked = result.output
    if not isinstance(asked, DeferredToolRequests) or not asked.approvals:
        return None
    if asked.calls:
        raise GuardError(
            "tools that are carried out elsewhere were called together with what waits for a person; resolve them "
            "in the run, with the capability HandleDeferredToolCalls"
        )
    return [each for call in asked.approvals for each in asked.metadata.get(call.tool_call_id, {}).get("waits", ())]


def _that_defers(output: Any) -> Any:
    if _defers(output):
        return output
    return [*(output if isinstance(output, Sequence) else [output]), DeferredToolRequests]


def _defers(output: Any) -> bool:
    return isinstance(output, Sequence) and DeferredToolRequests in output


def _teller(events: "asyncio.Queue[Any]") -> Any:
    async def tell(_: RunContext[Any], stream: AsyncIterator[Any]) -> None:
        async for event in stream:
            events.put_nowait(event)

    return tell
