"""The tools of a LangGraph graph: every call is proposed first, and one that waits interrupts the graph."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from assentry.adapters.langgraph.shapes import OURS
from assentry.adapters.tool_calls import Given, StartsAgain, ToolCall, ToolCalls, as_text, for_model, kept, plain_args
from assentry.core.action import Declaration, Json
from assentry.core.request import Request
from assentry.engine.gate import Gate
from assentry.engine.holding import CURRENT
from assentry.engine.threads import in_thread
from assentry.errors import AssentryError, GuardError


class GatedTools:
    """Every call of a tool is proposed first; a call that waits interrupts the graph.

    `effects` declares what tools do, by name. `insist` says why a person has to look at a call whatever the policy
    says, or nothing.
    """

    gates_calls = True

    def __init__(
        self,
        gate: Gate,
        effects: Mapping[str, Declaration] | None = None,
        insist: Callable[[ToolCallRequest], str] = lambda _: "",
    ) -> None:
        self._gate, self._calls, self._insist = gate, ToolCalls(gate, effects), insist
        self._together: dict[tuple[str, str], _Together] = {}

    async def acall(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        """What the model gets for a call."""
        try:
            call = self._call(request)
            with self._beside() as beside:
                standing = await self._calls.proposed(call)
                while standing.is_held:
                    try:
                        interrupted_for(standing.request)
                    except GraphBubbleUp:
                        await beside.stopped()
                        raise
                    standing = await self._calls.proposed(call)
                if not _parks():
                    beside.ended()
                given = await self._calls.given(call, _made(request, handler), standing, _kept)
        except (_Failed, StartsAgain, AssentryError) as problem:
            return _instead(request, problem)
        return _message(request, given)

    def call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """The same for graphs that run without asyncio."""
        run = self._from_thread

        async def handled(changed: ToolCallRequest) -> Any:
            return await in_thread(handler, changed)

        try:
            call = self._call(request)
            standing = run(self._calls.proposed(call))
            while standing.is_held:
                interrupted_for(standing.request)
                standing = run(self._calls.proposed(call))
            given = run(self._calls.given(call, _made(request, handled), standing, _kept))
        except (_Failed, StartsAgain, AssentryError) as problem:
            return _instead(request, problem)
        return _message(request, given)

    @contextmanager
    def _beside(self) -> Iterator["_Beside"]:
        """Inside, other calls that this task of the graph makes at the same time do not stop it."""
        active = CURRENT.get()
        where = ("" if active is None else active.id, place())
        together = self._together.setdefault(where, _Together())
        try:
            with _Beside(together) as beside:
                yield beside
        finally:
            if not together.present:
                self._together.pop(where, None)

    def _from_thread(self, work: Any) -> Any:
        active = CURRENT.get()
        return self._gate.portal.run(work) if active is None else active.run_from_thread(work)

    def _call(self, request: ToolCallRequest) -> ToolCall:
        called, tool = request.tool_call, request.tool
        schema = tool.tool_call_schema if tool is not None else None
        if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        return ToolCall(
            called["name"], plain_args(called["args"]), called["id"] or "",
            description=tool.description if tool is not None else "",
            schema=schema if isinstance(schema, dict) else None, insists=self._insist(request), thread=_thread(),
        )  # fmt: skip


def gated(gate: Gate, effects: Mapping[str, Declaration] | None = None) -> dict[str, Any]:
    """What a `ToolNode` is given so that its calls are proposed: `ToolNode(tools, **gated(gate))`."""
    tools = GatedTools(gate, effects)
    return {"wrap_tool_call": tools.call, "awrap_tool_call": tools.acall}


class _Failed(Exception):
    """The tool failed, and the graph has made a message of that."""

    def __init__(self, message: ToolMessage) -> None:
        self.message = message
        super().__init__(as_text(message.content))


def _made(
    request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def make(args: dict[str, Any]) -> Any:
        changed: dict[str, Any] = {"tool_call": {**request.tool_call, "args": args}}
        if request.tool is not None:
            changed["tool"] = _once(request.tool)
        try:
            made = await handler(request.override(**changed))
        except GraphBubbleUp as pause:
            raise StartsAgain("it stopped inside to wait, and starts again") from pause
        if isinstance(made, ToolMessage) and made.status == "error":
            raise _Failed(made)
        return made

    return make


def _once(tool: Any) -> Any:
    """The tool, to be called once: whoever would try it again inside of an approval is turned away."""
    made = copy(tool)
    used: list[bool] = []

    def taken() -> None:
        if used:
            raise GuardError(f"{tool.name} was called for this approval already; a second time is another call")
        used.append(True)

    def invoke(*args: Any, **more: Any) -> Any:
        taken()
        return tool.invoke(*args, **more)

    async def ainvoke(*args: Any, **more: Any) -> Any:
        taken()
        return await tool.ainvoke(*args, **more)

    object.__setattr__(made, "invoke", invoke)
    object.__setattr__(made, "ainvoke", ainvoke)
    return made


def _thread() -> str:
    """The thread of the graph, which names calls that belong to no run."""
    try:
        return str((get_config().get("configurable") or {}).get("thread_id") or "")
    except RuntimeError:
        return ""


def place() -> str:
    """Which task of the graph is at work: the same when it is taken again."""
    try:
        return str((get_config().get("configurable") or {}).get("checkpoint_ns") or "")
    except RuntimeError:
        return ""


def _kept(made: Any) -> Json:
    """What is kept of a tool's answer: what the model reads of it."""
    return kept(made.content) if isinstance(made, ToolMessage) else kept(str(made))


def _instead(request: ToolCallRequest, problem: Exception) -> Any:
    """What the model gets where the tool's answer is none; a tool that stopped inside stops the graph."""
    match problem:
        case _Failed():
            return problem.message
        case AssentryError():
            return _message(request, Given(says=for_model(problem), ran=False))
    raise problem.__cause__ or problem from None


def _message(request: ToolCallRequest, given: Given) -> Any:
    """The answer to a call as the graph has it; what did not come from the tool here is a message of ours."""
    if given.ran and not given.failed and not given.says and isinstance(given.value, ToolMessage | Command):
        return given.value
    if isinstance(given.value, Command):
        return given.value
    if isinstance(given.value, ToolMessage):
        content = given.value.content
        told = given.text(content) if isinstance(content, str) else [*content, {"type": "text", "text": given.says}]
        return given.value.model_copy(update={"content": told})
    content = given.value if isinstance(given.value, list) and not given.says and given.ran else given.text()
    status = "success" if given.ran and not given.failed else "error"
    called = request.tool_call
    return ToolMessage(content=content, name=called["name"], tool_call_id=called["id"] or "", status=status)


class _Together:
    """Calls that a node makes at once. It ends with the first of them that stops, so that one stops after the others.

    Else a call that was still being proposed would be missing from what its run parks on, and the decision on it would
    wake nobody; and one that was about to run what is approved would find its run parked.
    """

    def __init__(self) -> None:
        self.present: set[object] = set()
        self.moving: set[object] = set()
        self.still = asyncio.Event()


class _Beside:
    """One call among those that are made at once."""

    def __init__(self, together: _Together) -> None:
        self._together = together

    def __enter__(self) -> "_Beside":
        self._together.present.add(self)
        self._together.moving.add(self)
        self._together.still.clear()
        return self

    def __exit__(self, *raised: object) -> None:
        self._together.present.discard(self)
        self.ended()

    def ended(self) -> None:
        """No other call needs to wait for this one."""
        self._together.moving.discard(self)
        if not self._together.moving:
            self._together.still.set()

    async def stopped(self) -> None:
        """This call waits for a person, and every other one does too or is over."""
        await asyncio.sleep(0)  # what was made at the same time has begun by now
        self.ended()
        await self._together.still.wait()


def _parks() -> bool:
    """The run that the calling code belongs to parks where it waits; then nothing of it goes on here."""
    active = CURRENT.get()
    return active is not None and bool(active.record.host)


HELD: dict[str, dict[str, str]] = {}
"""The requests that threads were interrupted for, by their runs, and the tasks that stopped for them."""


def interrupted_for(request: Request | None) -> None:
    """The graph stops here. What it is resumed with is not looked at: the decision is on record."""
    assert request is not None  # noqa: S101  what is held is on record
    HELD.setdefault(request.ask.run, {})[request.id] = place()
    interrupt({OURS: {"request": request.id, "code": request.code, "says": request.candidate.says}})
