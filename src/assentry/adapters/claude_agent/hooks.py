"""The hooks of a session of Claude: each call is proposed before it runs, and what came of it is on record after."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

from assentry.adapters.claude_agent.servers import Known
from assentry.adapters.claude_code import WITHIN, errand_in
from assentry.adapters.tool_calls import Given, Standing, ToolCall, ToolCalls, for_model, kept, whole
from assentry.core.action import Json
from assentry.core.canonical import canonical
from assentry.core.request import Request
from assentry.core.text import visible
from assentry.engine.errands import changed_words
from assentry.errors import AssentryError, Denied, GuardError, Parked, RunStopped

log = logging.getLogger("assentry.claude")

LONGEST = 2_000_000.0
"""Seconds that a hook may wait; its runtime's clock cannot count many more."""

OVER = ("Stop", "SubagentStop")
"""When an agent, or one inside it, has nothing more to do for now."""


@dataclass(slots=True)
class _Flight:
    """A call that Claude carries out."""

    began: asyncio.Future[dict[str, Any]]
    ended: asyncio.Future[Any]
    task: "asyncio.Task[Given]"
    whose: tuple[str, str]
    """The session and, where it is one inside, the agent that makes it."""


class _ToolFailed(Exception):
    """Claude's runtime says that the tool failed."""


class RanOtherwise(_ToolFailed):
    """What ran is not what was approved: another hook came after ours."""


@dataclass(slots=True)
class Hooks:
    """The hooks of one session."""

    calls: ToolCalls
    parks: bool = False
    known: Mapping[str, Known] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    """The ids of calls that wait and were not deferred, by what they are about."""
    deferred: Request | None = None
    stopped: BaseException | None = None
    _flights: dict[str, _Flight] = field(default_factory=dict)

    def matchers(self) -> dict[str, list[HookMatcher]]:
        """As the options take them; what fails here blocks the call."""
        before = HookMatcher(hooks=[self.before], timeout=LONGEST, on_failure="block")
        after = HookMatcher(hooks=[self.after], timeout=LONGEST)
        over = HookMatcher(hooks=[self.over])
        ended = {each: [over] for each in OVER}
        return {"PreToolUse": [before], "PostToolUse": [after], "PostToolUseFailure": [after], **ended}

    async def before(self, event: Any, call_id: str | None, _: Any) -> Any:
        """Whether the call may be made, and with what."""
        if event["tool_name"] in WITHIN:
            return {}
        try:
            return await self._judged(event, call_id or "")
        except AssentryError as problem:
            try:
                return _answer("deny", for_model(problem))
            except AssentryError as final:
                return self._ended(final)
        except (RunStopped, Parked) as pause:
            return self._ended(pause)

    async def after(self, event: Any, call_id: str | None, _: Any) -> Any:
        """What came of a call that was let go is on record."""
        flight = self._flights.get(call_id or "")
        if flight is None or not flight.began.done():
            return {}
        del self._flights[call_id or ""]
        said: dict[str, Any] = {}
        if changed := _changed(flight.began.result(), event.get("tool_input")):
            words = (
                f"another hook changed {changed} of this call after Assentry let it go: "
                "what ran is not what was approved"
            )
            log.warning("%s: %s", visible(str(event["tool_name"]), lines=False), words)
            flight.ended.set_exception(RanOtherwise(words))
            told = f"Assentry: {words}. It is on record as failed. Tell whoever you work for."
            said = {"hookSpecificOutput": {"hookEventName": event["hook_event_name"], "additionalContext": told}}
        elif event["hook_event_name"] == "PostToolUseFailure":
            flight.ended.set_exception(_ToolFailed(whole(str(event.get("error") or "it failed")[:20_000])))
        else:
            flight.ended.set_result(kept(event.get("tool_response")))
        with suppress(_ToolFailed, AssentryError):
            await flight.task
        return said

    async def over(self, event: Any, _: str | None, __: Any) -> Any:
        """An agent has ended its turn: a call of it that is not heard of by now was turned away by somebody else."""
        mine = [each for each, flight in self._flights.items() if flight.whose == _whose(event)]
        await self._forgotten([self._flights.pop(each) for each in mine if self._flights[each].began.done()])
        return {}

    async def close(self) -> None:
        """The session is over; of calls that were let go and not heard of, nobody knows."""
        await self._forgotten([*self._flights.values()])

    async def _forgotten(self, flights: list[_Flight]) -> None:
        """Their requests are unknown once their leases lapse, and a person or `verify` finds out."""
        for flight in flights:
            flight.task.cancel()
        await asyncio.gather(*(flight.task for flight in flights), return_exceptions=True)

    async def _judged(self, event: Any, call_id: str) -> Any:
        errand = errand_in(event)
        ours, about = self.known.get(errand.name), errand.digest
        call = ToolCall(
            errand.action, errand.args, self.asked.get(about, call_id),
            ours.description if ours else errand.description, ours.schema if ours else None,
            trusted=errand.trusted or ours is not None, is_question=ours is not None and ours.asks,
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
            asked = {each: errand.args[each] for each in ("question", "choices") if each in errand.args}
            return _answer("allow", "answered", {**asked, "answer": given.text()}, says="")
        return await self._let_go(call, call_id, standing, stays, _whose(event))

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

    async def _let_go(
        self, call: ToolCall, call_id: str, standing: Standing, stays: float | None, whose: tuple[str, str]
    ) -> Any:
        loop = asyncio.get_running_loop()
        began, ended = loop.create_future(), loop.create_future()

        async def make(args: dict[str, Any]) -> Any:
            began.set_result(args)
            return await ended

        task = asyncio.ensure_future(self.calls.given(call, make, standing, patience=stays))
        self._flights[call_id] = _Flight(began, ended, task, whose)
        await asyncio.wait([began, task], return_when=asyncio.FIRST_COMPLETED)
        if not began.done():
            del self._flights[call_id]
            given = await task
            return _answer("deny", given.says if not given.ran or given.failed else f"It ran before: {given.text()}")
        args = began.result()
        changed = canonical(args) != canonical(call.args)
        return _answer("allow", "Assentry: it may run.", args if changed else None)

    def _ended(self, problem: BaseException) -> Any:
        """The whole session ends here, whatever the model would make of it."""
        self.stopped = problem
        reason = "the run was stopped" if isinstance(problem, RunStopped | Denied) else str(problem)
        return {**_answer("deny", reason), "continue_": False, "stopReason": reason}


def _whose(event: Any) -> tuple[str, str]:
    return str(event.get("session_id")), str(event.get("agent_id") or "")


def _changed(let_go: Mapping[str, Any], ran: Any) -> str:
    """The names of the arguments that are not as they were let go; their values may be secrets."""
    if not isinstance(ran, Mapping):
        return "the input"
    here, there = ({each: repr(kept(value)) for each, value in args.items()} for args in (let_go, ran))
    return ", ".join(sorted(repr(each) for each in {*here, *there} if here.get(each) != there.get(each)))


async def _never(_: Any) -> Any:
    raise AssertionError  # nobody carries out a question


def _answer(
    decision: str, reason: str, args: Mapping[str, Json] | None = None, says: str | None = None
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }  # fmt: skip
    if args is not None:
        said["updatedInput"] = dict(args)
        if told := changed_words(args) if says is None else says:
            said["additionalContext"] = told
    return {"hookSpecificOutput": said}


def refuse_others(options: ClaudeAgentOptions, others: bool) -> None:
    """Hooks of others beside ours can change what was approved, so whoever has some says that they may be there."""
    if (options.hooks or {}).get("PreToolUse") and not others:
        raise GuardError(
            "the options have PreToolUse hooks of their own: one that returns updatedInput changes a call after "
            "a person approved it. Leave them out, or pass others=True if none of them changes a call"
        )


def with_hooks(options: ClaudeAgentOptions, hooks: Hooks, **more: Any) -> ClaudeAgentOptions:
    merged: dict[Any, Any] = {**(options.hooks or {})}
    for event, matchers in hooks.matchers().items():
        merged[event] = [*matchers, *merged.get(event, [])]
    return replace(options, hooks=merged, **more)
