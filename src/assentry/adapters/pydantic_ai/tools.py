"""The tools of a Pydantic AI agent, each call through a gate."""

import inspect
from collections.abc import Collection
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import AgentRunError, ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, UserError
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import RunContext, ToolDenied
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from assentry.adapters.tool_calls import (
    Given,
    Standing,
    StartsAgain,
    ToolCall,
    ToolCalls,
    as_text,
    for_model,
    kept,
    plain_args,
)
from assentry.core.action import Json
from assentry.core.canonical import canonical
from assentry.core.request import Request
from assentry.engine.holding import CURRENT
from assentry.errors import AssentryError

INSISTS = "assentry_insists"
"""Under this name a tool remembers, in its metadata, that it was made to require approval."""
FRAMEWORKS_OWN = (AgentRunError, CallDeferred, ModelRetry, ToolFailed, UserError)
"""What a tool says to the framework by raising it."""


class Waits(BaseException):
    """An agent inside a tool waits for a person; the tool is called again from its start when somebody has decided."""


@dataclass(slots=True)
class Place:
    """A tool that is being called: where agents inside it had got to, and what they wait for."""

    states: dict[str, Json]
    waits: list[str] = field(default_factory=list)
    entered: dict[str, int] = field(default_factory=dict)

    def next(self, name: str) -> str:
        self.entered[name] = self.entered.get(name, 0) + 1
        return f"{name}:{self.entered[name]}"


PLACE: ContextVar[Place | None] = ContextVar("assentry_pydantic_ai_place", default=None)


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """A toolset whose calls pass a gate. Outside of a run they wait for as long as it takes."""

    calls: ToolCalls = field(kw_only=True)
    delegates: Collection[str] = field(default=(), kw_only=True)
    """Tools that only call agents that are attached themselves: they are not judged."""
    inner: dict[str, dict[str, Json]] = field(default_factory=dict, kw_only=True)
    """Where agents inside had got to, by the call of the tool they are in."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools; one that requires approval is called, and holds here."""
        return {name: _callable(tool) for name, tool in (await super().get_tools(ctx)).items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """What the tool returned for what was approved, or a word for the model; deferred where it waits."""
        place = Place(self.inner.setdefault(ctx.tool_call_id or "", {}))
        token = PLACE.set(place)
        try:
            if name in self.delegates:
                return await self._handed_on(place, name, tool_args, ctx, tool)
            return await self._guarded(name, tool_args, ctx, tool)
        finally:
            PLACE.reset(token)

    async def _handed_on(
        self, place: Place, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        with suppress(Waits):
            made = await super().call_tool(name, tool_args, ctx, tool)
            if not place.waits:  # whatever the tool's code made of it: what waits inside still waits
                return made
        raise ApprovalRequired(metadata={"waits": place.waits})

    async def _guarded(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
        definition = tool.tool_def
        insists = (definition.metadata or {}).get(INSISTS, "")
        while True:
            asks: list[ApprovalRequired] = []
            try:
                call = ToolCall(
                    name, plain_args(to_jsonable_python(tool_args)), ctx.tool_call_id or "",
                    definition.description or "", plain_args(definition.parameters_json_schema), insists=insists,
                )  # fmt: skip
                standing = await self.calls.proposed(call)
                if standing.is_held and _parks():
                    raise _deferred(standing.request)
                return _native(await self.calls.given(call, self._maker(standing, ctx, tool, asks), standing, _kept))
            except StartsAgain:
                if insists:
                    raise asks[0] from None
                insists = f"{name} itself asks for a person"
            except AssentryError as problem:
                return ToolDenied(for_model(problem))
            except (ApprovalRequired, *FRAMEWORKS_OWN):
                raise
            except Exception as problem:
                raise ToolFailed(f"{type(problem).__name__}: {problem}") from problem

    def _maker(
        self, standing: Standing, ctx: RunContext[Any], tool: ToolsetTool[Any], asks: list[ApprovalRequired]
    ) -> Any:
        async def make(args: dict[str, Any]) -> Any:
            values = tool.args_validator.validate_json(canonical(args), context=ctx.validation_context)
            if tool.args_validator_func is not None:
                checked = tool.args_validator_func(ctx, **values)
                if inspect.isawaitable(checked):
                    await checked
            request = standing.request
            seen = request is not None and request.candidate.verdict.gate.holds
            now = replace(ctx, tool_call_approved=seen)
            try:
                return await WrapperToolset.call_tool(self, tool.tool_def.name, values, now, tool)
            except ApprovalRequired as asked:
                asks.append(asked)
                raise StartsAgain from asked

        return make


@dataclass
class Guarding(AbstractCapability[Any]):
    """Wraps the tools of one run, closest to them: what other capabilities change is changed before it is judged."""

    calls: ToolCalls
    delegates: Collection[str]
    inner: dict[str, dict[str, Json]]

    def get_ordering(self) -> CapabilityOrdering:
        """Nothing stands between it and the tools."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The tools, guarded."""
        return GuardedToolset(toolset, calls=self.calls, delegates=self.delegates, inner=self.inner)


def _parks() -> bool:
    """Where a call has to wait the run ends here; else its process waits."""
    active = CURRENT.get()
    return active is not None and active.patience_for(None) == 0


def _deferred(request: Request | None) -> ApprovalRequired:
    return ApprovalRequired(metadata={"waits": [request.id] if request is not None else []})


def _callable(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    if tool.tool_def.kind != "unapproved":
        return tool
    said = {**(tool.tool_def.metadata or {}), INSISTS: "the tool requires approval"}
    return replace(tool, tool_def=replace(tool.tool_def, kind="function", metadata=said))


def _kept(value: Any) -> Json:
    return kept(value.return_value if isinstance(value, ToolReturn) else value)


def _native(given: Given) -> Any:
    """What came of a call, as the framework wants to have it."""
    if not given.ran:
        return ToolDenied(given.says)
    if given.failed:
        raise ToolFailed(given.says)
    if not given.says:
        return given.value
    if isinstance(given.value, ToolReturn):
        return replace(given.value, return_value=given.text(as_text(given.value.return_value)))
    return given.text()
