"""LangChain's agents under Assentry: middleware for `create_agent` in the place of its human-in-the-loop middleware.

It takes the same configuration. What `interrupt_on` names is shown to a person whatever the policy says; all other
calls are judged by the policy.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from assentry.core.action import Declaration
from assentry.engine.gate import Gate
from assentry.errors import GuardError
from assentry.extras import needs

with needs("langchain", __name__):
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ToolCallRequest

    from assentry.adapters.langgraph import GatedTools, attach

__all__ = ["AssentryMiddleware", "attach"]

PREFIX = "Tool execution requires approval"


class AssentryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Every call of a tool is proposed first: `create_agent(model, tools, middleware=[AssentryMiddleware(gate)])`.

    `interrupt_on` is as for `HumanInTheLoopMiddleware`: a tool that is named there waits for a person, with `True`,
    or with a config whose `when` says so of the call. `False` says nothing: the policy decides.
    """

    gates_calls = True

    def __init__(
        self,
        gate: Gate,
        interrupt_on: Mapping[str, Any] | None = None,
        *,
        effects: Mapping[str, Declaration] | None = None,
        description_prefix: str = PREFIX,
        **as_theirs: Any,
    ) -> None:
        super().__init__()
        if unknown := as_theirs.keys() - {"edit_notice", "interrupt_mode"}:
            raise GuardError(f"AssentryMiddleware does not know {sorted(unknown)[0]!r}; see docs/langchain.md")
        self._prefix, self._named = description_prefix, {}
        for name, config in dict(interrupt_on or {}).items():
            if config is False:
                continue
            if config is not True and not (isinstance(config, Mapping) and config.get("allowed_decisions")):
                raise GuardError(
                    f"interrupt_on says of {name} neither True nor False nor which decisions are allowed; for example "
                    '{"allowed_decisions": ["approve", "reject"]}'
                )
            self._named[name] = {} if config is True else dict(config)
        self._tools = GatedTools(gate, effects, self._insists)

    def _insists(self, request: ToolCallRequest) -> str:
        """Why a person looks at this call, if the configuration says so."""
        config = self._named.get(request.tool_call["name"])
        if config is None or ((when := config.get("when")) is not None and not when(request)):
            return ""
        said = config.get("description")
        if callable(said):
            said = said(request.tool_call, request.state, request.runtime)
        return str(said or self._prefix)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """What the model gets for a call."""
        return self._tools.call(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """The same with asyncio."""
        return await self._tools.acall(request, handler)
