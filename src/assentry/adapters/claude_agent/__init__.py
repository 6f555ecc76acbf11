"""The Claude Agent SDK under Assentry: every tool that Claude uses is proposed in its `PreToolUse` hook.

The tool itself is carried out by Claude's own runtime: it is let go with what was approved, and its end is reported
from `PostToolUse`. `hooked(gate, options)` waits in the hook. `attach(gate, options)` makes a run of a session, which
defers the call, ends, and is resumed by any worker that has the session.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from assentry.adapters.claude_code import WITHIN, errand_in
from assentry.adapters.hosted import one_decided
from assentry.adapters.tool_calls import ToolCall, ToolCalls
from assentry.core.action import Declaration, Json
from assentry.engine.gate import Gate
from assentry.engine.hosting import Resumption
from assentry.engine.runs import current_run
from assentry.errors import AssentryError, Denied, GuardError, Parked, RunStopped
from assentry.extras import needs

with needs("claude", __name__):
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        PermissionResultAllow,
        PermissionResultDeny,
        ResultMessage,
        SystemMessage,
    )

    from assentry.adapters.claude_agent.hooks import Hooks, refuse_others, with_hooks
    from assentry.adapters.claude_agent.servers import ask_person, tools_in

__all__ = ["AttachedClaude", "Hooks", "ask_person", "attach", "hooked", "permissions"]


def hooked(
    gate: Gate, options: ClaudeAgentOptions | None = None, *, effects: Mapping[str, Declaration] | None = None,
    others: bool = False,
) -> ClaudeAgentOptions:  # fmt: skip
    """The options with our hooks in them: what must wait waits in the hook, and the session with it.

    `others` says that PreToolUse hooks which the options have already may stay: none of them changes a call.
    """
    given = options or ClaudeAgentOptions()
    refuse_others(given, others)
    return with_hooks(given, Hooks(ToolCalls(gate, effects), known=tools_in(given)))


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
        call = ToolCall(
            errand.action, errand.args, call_id, errand.description, trusted=errand.trusted, is_question=False
        )
        allowed: list[dict[str, Any]] = []

        async def make(approved: dict[str, Any]) -> str:
            allowed.append(approved)
            return "handed to Claude, which carries it out"

        try:
            given = await calls.given(call, make)
        except AssentryError as problem:
            return PermissionResultDeny(message=str(problem), interrupt=isinstance(problem, Denied) and problem.stop)
        except (RunStopped, Parked) as pause:
            return PermissionResultDeny(message=str(pause), interrupt=True)
        if not allowed:
            return PermissionResultDeny(message=given.says or "it ran before")
        return PermissionResultAllow(updated_input=allowed[0])

    return can_use_tool


# Sessions as runs


def attach(
    gate: Gate, options: ClaudeAgentOptions | None = None, *, name: str = "claude", wait: bool = False,
    effects: Mapping[str, Declaration] | None = None, capacity: int = 10, others: bool = False,
) -> "AttachedClaude":  # fmt: skip
    """An agent whose sessions are runs of the gate.

    Where one waits for a person it is deferred and ends, and a worker of the gate resumes it, on a machine that has the
    session (or with a `session_store` in the options). With `wait` it stays in its process.
    `others` is as for `hooked`.
    """
    refuse_others(options or ClaudeAgentOptions(), others)
    return AttachedClaude(gate, options or ClaudeAgentOptions(), name, wait, effects, capacity)


class AttachedClaude:
    """Claude with these options, under a gate."""

    def __init__(
        self, gate: Gate, options: ClaudeAgentOptions, name: str, wait: bool,
        effects: Mapping[str, Declaration] | None, capacity: int,
    ) -> None:  # fmt: skip
        self._gate, self._options, self._wait = gate, options, wait
        self._calls, self._known = ToolCalls(gate, effects), tools_in(options)
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
        if state is None:
            raise GuardError(
                "its process ended before the session was on record, so nobody can go on with it: see in the requests "
                "of this run what it had done, and begin it again with another key"
            )
        prompt = "" if state["deferred"] else told.summary if state["session"] else state["prompt"]
        return await self._gone(state, prompt, lambda _: None)

    async def _gone(self, state: dict[str, Any], prompt: str, take: Callable[[Any], Any]) -> Json:
        while True:
            hooks = Hooks(self._calls, not self._wait, self._known, dict(state["asked"]))
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
        options = with_hooks(self._options, hooks, resume=state["session"] or self._options.resume)
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
