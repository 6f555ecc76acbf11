"""The Claude Agent SDK under Assent: every tool that Claude uses is proposed in its `PreToolUse` hook.

The tool itself is carried out by Claude's own runtime: it is let go with what was approved, and its end is reported
from `PostToolUse`. `hooked(gate, options)` waits in the hook. `attach(gate, options)` makes a run of a session, which
defers the call, ends, and is resumed by any worker that has the session.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from assent.adapters.claude_code import WITHIN, errand_in
from assent.adapters.hosted import one_decided
from assent.adapters.tool_calls import ASK, Given, Standing, ToolCall, ToolCalls, for_model
from assent.core.action import Declaration, Json
from assent.core.canonical import canonical, restore
from assent.core.request import Request
from assent.engine.errands import changed_words
from assent.engine.gate import Gate
from assent.engine.hosting import Resumption
from assent.engine.runs import current_run
from assent.errors import AssentError, Denied, GuardError, Parked, RunStopped

try:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        HookMatcher,
        PermissionResultAllow,
        PermissionResultDeny,
        ResultMessage,
        SystemMessage,
        tool,
    )
except ModuleNotFoundError as problem:
    raise GuardError(
        f"Claude's agents need the Claude Agent SDK: `pip install assent[claude]` ({problem.name} is missing)"
    ) from None

LONGEST = 2_000_000.0
"""Seconds that a hook may wait; its runtime's clock cannot count many more."""
LEAVE_SECONDS = 10.0


@tool(
    ASK,
    "Asks a person a question, and returns what they answer. `choices` are answers to choose from, if any.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "choices": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["question"],
    },
)
async def ask_person(args: dict[str, Any]) -> dict[str, Any]:
    """For an MCP server of one's own: `create_sdk_mcp_server("people", tools=[ask_person])`."""
    return {"content": [{"type": "text", "text": str(args.get("answer", "Nobody was asked."))}]}


@dataclass(slots=True)
class _Flight:
    """A call that Claude carries out."""

    began: asyncio.Future[dict[str, Any]]
    ended: asyncio.Future[Any]
    task: "asyncio.Task[Given]"


class _ToolFailed(Exception):
    """Claude's runtime says that the tool failed."""


@dataclass(slots=True)
class Hooks:
    """The hooks of one session."""

    calls: ToolCalls
    parks: bool = False
    schemas: Mapping[str, tuple[str, Mapping[str, Json]]] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    """The ids of calls that wait and were not deferred, by what they are about."""
    deferred: Request | None = None
    stopped: BaseException | None = None
    _flights: dict[str, _Flight] = field(default_factory=dict)

    def matchers(self) -> dict[str, list[HookMatcher]]:
        """As the options take them; what fails here blocks the call."""
        before = HookMatcher(hooks=[self.before], timeout=LONGEST, on_failure="block")
        after = HookMatcher(hooks=[self.after], timeout=LONGEST)
        return {"PreToolUse": [before], "PostToolUse": [after], "PostToolUseFailure": [after]}

    async def before(self, event: Any, call_id: str | None, _: Any) -> Any:
        """Whether the call may be made, and with what."""
        if event["tool_name"] in WITHIN:
            return {}
        try:
            return await self._judged(event, call_id or "")
        except AssentError as problem:
            try:
                return _answer("deny", for_model(problem))
            except AssentError as final:
                return self._ended(final)
        except (RunStopped, Parked) as pause:
            return self._ended(pause)

    async def after(self, event: Any, call_id: str | None, _: Any) -> Any:
        """What came of a call that was let go is on record."""
        flight = self._flights.pop(call_id or "", None)
        if flight is None:
            return {}
        if event["hook_event_name"] == "PostToolUseFailure":
            flight.ended.set_exception(_ToolFailed(str(event.get("error") or "it failed")[:20_000]))
        else:
            flight.ended.set_result(restore(canonical({"response": event.get("tool_response")}))["response"])
        with suppress(_ToolFailed, AssentError):
            await flight.task
        return {}

    async def close(self) -> None:
        """The session is over; of calls that were let go and not heard of, nobody knows."""
        for flight in self._flights.values():
            flight.task.cancel()
        await asyncio.gather(*(flight.task for flight in self._flights.values()), return_exceptions=True)

    async def _judged(self, event: Any, call_id: str) -> Any:
        errand = errand_in(event)
        description, schema = self.schemas.get(errand.name, (errand.description, None))
        about = errand.digest
        known = self.asked.get(about, call_id)
        call = ToolCall(
            errand.action, errand.args, known, description, schema,
            trusted=errand.trusted or errand.name in self.schemas,
        )  # fmt: skip
        standing = await self.calls.proposed(call)
        # Only the main agent's calls can be deferred; an agent inside it waits where it is.
        stays = LONGEST if event.get("agent_id") else None
        if standing.is_held and self.parks and stays is None:
            return self._put_off(call, standing, about)
        self.asked.pop(about, None)
        if standing.proposal is None:
            given = await self.calls.given(call, _never, standing, patience=stays)
            if not given.ran:
                return _answer("deny", given.says)
            return _answer("allow", "answered", {**errand.args, "answer": given.text()})
        return await self._let_go(call, call_id, standing, stays)

    def _put_off(self, call: ToolCall, standing: Standing, about: str) -> Any:
        """A session can defer one call at a time; of others the model hears that they wait."""
        assert standing.request is not None  # noqa: S101  what is held is on record
        if self.deferred is None or self.deferred.id == standing.request.id:
            self.deferred = standing.request
            return _answer("defer", f"request {standing.request.code} waits for a person")
        self.asked[about] = call.id
        return _answer(
            "deny",
            f"Request {standing.request.code} waits for a person who has not decided yet, so it did not run. Go on "
            "with what does not need it; to hear the decision, make exactly the same call again later.",
        )

    async def _let_go(self, call: ToolCall, call_id: str, standing: Standing, stays: float | None) -> Any:
        loop = asyncio.get_running_loop()
        began, ended = loop.create_future(), loop.create_future()

        async def make(args: dict[str, Any]) -> Any:
            began.set_result(args)
            return await ended

        task = asyncio.ensure_future(self.calls.given(call, make, standing, patience=stays))
        self._flights[call_id] = _Flight(began, ended, task)
        await asyncio.wait([began, task], return_when=asyncio.FIRST_COMPLETED)
        if not began.done():
            del self._flights[call_id]
            given = await task
            return _answer("deny", given.says if not given.ran or given.failed else f"It ran before: {given.text()}")
        args = began.result()
        changed = canonical(args) != canonical(call.args)
        return _answer("allow", "Assent: it may run.", args if changed else None)

    def _ended(self, problem: BaseException) -> Any:
        """The whole session ends here, whatever the model would make of it."""
        self.stopped = problem
        reason = "the run was stopped" if isinstance(problem, RunStopped | Denied) else str(problem)
        return {**_answer("deny", reason), "continue_": False, "stopReason": reason}


async def _never(_: Any) -> Any:
    raise AssertionError  # nobody carries out a question


def _answer(decision: str, reason: str, args: Mapping[str, Json] | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }  # fmt: skip
    if args is not None:
        said["updatedInput"] = dict(args)
        if "answer" not in args:
            said["additionalContext"] = changed_words(args)
    return {"hookSpecificOutput": said}


def hooked(
    gate: Gate, options: ClaudeAgentOptions | None = None, *, effects: Mapping[str, Declaration] | None = None
) -> ClaudeAgentOptions:
    """The options with our hooks in them: what must wait waits in the hook, and the session with it."""
    given = options or ClaudeAgentOptions()
    return _with(given, Hooks(ToolCalls(gate, effects), schemas=_schemas(given)))


def permissions(
    gate: Gate, *, effects: Mapping[str, Declaration] | None = None
) -> Callable[[str, dict[str, Any], Any], Any]:
    """A `can_use_tool` callback: what Claude's own rules leave open is asked in the inbox.

    Claude asks it only about calls that its settings neither allow nor deny, and tells nobody what came of them; where
    every call is to be judged and reported, use `hooked`.
    """
    calls = ToolCalls(gate, effects)

    async def can_use_tool(name: str, args: dict[str, Any], context: Any) -> Any:
        if name in WITHIN:
            return PermissionResultAllow()
        errand = errand_in({"tool_name": name, "tool_input": args, "session_id": "permission"})
        call_id = getattr(context, "tool_use_id", None) or secrets.token_hex(8)
        call = ToolCall(errand.action, errand.args, call_id, errand.description, trusted=errand.trusted)
        allowed: list[dict[str, Any]] = []

        async def make(approved: dict[str, Any]) -> str:
            allowed.append(approved)
            return "handed to Claude, which carries it out"

        try:
            given = await calls.given(call, make)
        except AssentError as problem:
            return PermissionResultDeny(message=str(problem), interrupt=isinstance(problem, Denied) and problem.stop)
        except (RunStopped, Parked) as pause:
            return PermissionResultDeny(message=str(pause), interrupt=True)
        if not allowed:
            return PermissionResultDeny(message=given.says or "it ran before")
        return PermissionResultAllow(updated_input=allowed[0])

    return can_use_tool


def _with(options: ClaudeAgentOptions, hooks: Hooks, **more: Any) -> ClaudeAgentOptions:
    merged: dict[Any, Any] = {**(options.hooks or {})}
    for event, matchers in hooks.matchers().items():
        merged[event] = [*matchers, *merged.get(event, [])]
    return replace(options, hooks=merged, **more)


def _schemas(options: ClaudeAgentOptions) -> dict[str, tuple[str, Mapping[str, Json]]]:
    """What the tools of servers in this process are, by the name that Claude has for them."""
    found: dict[str, tuple[str, Mapping[str, Json]]] = {}
    servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
    for server, config in servers.items():
        if config.get("type") == "sdk":
            for each in _tools_of(config.get("instance")):
                schema = getattr(each, "input_schema", None) or getattr(each, "inputSchema", None)
                found[f"mcp__{server}__{each.name}"] = (str(each.description or ""), restore(canonical(schema or {})))
    return found


def _tools_of(server: Any) -> list[Any]:
    """The tools that a server in this process was made with; the SDK keeps them in what answers for it."""
    waiting = [*(getattr(server, "_request_handlers", None) or getattr(server, "request_handlers", {})).values()]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if (
            isinstance(each, list)
            and each
            and all(hasattr(one, "name") and hasattr(one, "description") for one in each)
        ):
            return each
        waiting += [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
        waiting += [getattr(each, "handler", None), getattr(each, "func", None)]
    return []


# Sessions as runs


def attach(
    gate: Gate, options: ClaudeAgentOptions | None = None, *, name: str = "claude", wait: bool = False,
    effects: Mapping[str, Declaration] | None = None, capacity: int = 10,
) -> "AttachedClaude":  # fmt: skip
    """An agent whose sessions are runs of the gate.

    Where one waits for a person it is deferred and ends, and a worker of the gate resumes it, on a machine that has the
    session (or with a `session_store` in the options). With `wait` it stays in its process.
    """
    return AttachedClaude(gate, options or ClaudeAgentOptions(), name, wait, effects, capacity)


class AttachedClaude:
    """Claude with these options, under a gate."""

    def __init__(
        self, gate: Gate, options: ClaudeAgentOptions, name: str, wait: bool,
        effects: Mapping[str, Declaration] | None, capacity: int,
    ) -> None:  # fmt: skip
        self._gate, self._options, self._wait = gate, options, wait
        self._calls, self._schemas = ToolCalls(gate, effects), _schemas(options)
        self._host = "" if wait else f"claude:{name}"
        if self._host:
            gate.host(self._host, capacity=capacity)(self._go_on)

    async def run(
        self, prompt: str, *, key: str = "", goal: str = "", original: str = "", scope: Any = None
    ) -> ResultMessage:
        """What the session came to. Raises `Parked` where it waits elsewhere from now on."""
        last: ResultMessage | None = None
        async for message in self.query(prompt, key=key, goal=goal, original=original, scope=scope):
            last = message if isinstance(message, ResultMessage) else last
        if last is None:
            raise GuardError("the session ended without a result; see what its runtime printed")
        return last

    async def query(
        self, prompt: str, *, key: str = "", goal: str = "", original: str = "", scope: Any = None
    ) -> AsyncIterator[Any]:
        """The messages of the session, as the SDK's own `query` gives them."""
        messages: asyncio.Queue[Any] = asyncio.Queue()

        async def work() -> None:
            described = {"original": original or prompt, "scope": scope, "key": key, "host": self._host}
            try:
                async with self._gate.run(goal or prompt[:200], **described) as run:
                    state = {"prompt": prompt, "session": "", "deferred": False, "asked": {}}
                    run.snapshot(state)
                    run.outcome = await self._gone(state, prompt, messages.put_nowait)
            finally:
                messages.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (message := await messages.get()) is not None:
                yield message
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _go_on(self, state: Any, told: Resumption | None) -> Json:
        assert told is not None  # noqa: S101  sessions are begun by asking
        prompt = "" if state["deferred"] else told.summary if state["session"] else state["prompt"]
        return await self._gone(state, prompt, lambda _: None)

    async def _gone(self, state: dict[str, Any], prompt: str, take: Callable[[Any], Any]) -> Json:
        while True:
            hooks = Hooks(self._calls, not self._wait, self._schemas, dict(state["asked"]))
            result = await self._spoken(state, prompt, hooks, take)
            if hooks.stopped is not None:
                raise hooks.stopped
            if result is None or result.deferred_tool_use is None or hooks.deferred is None:
                if result is not None and result.is_error:
                    raise GuardError(f"the session ended with {result.subtype}: {result.result}")
                return result.result if result is not None else None
            state |= {"deferred": True, "asked": dict(hooks.asked)}
            current_run().snapshot(state)
            await one_decided(self._gate, [hooks.deferred])
            prompt = ""

    async def _spoken(self, state: dict[str, Any], prompt: str, hooks: Hooks, take: Any) -> ResultMessage | None:
        """One session of Claude's runtime, to its end or to a call that it defers."""
        options = _with(self._options, hooks, resume=state["session"] or self._options.resume)
        last: ResultMessage | None = None
        try:
            async with ClaudeSDKClient(options) as client:
                if prompt:
                    await client.query(prompt)
                async for message in client.receive_response():
                    if isinstance(message, SystemMessage) and message.subtype == "init":
                        state |= {"session": message.data.get("session_id", ""), "deferred": False}
                        current_run().snapshot(state)
                    last = message if isinstance(message, ResultMessage) else last
                    take(message)
        finally:
            await hooks.close()
        return last
