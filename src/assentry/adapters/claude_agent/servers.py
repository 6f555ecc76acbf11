"""What the tools of MCP servers in this process are, and which of them is our own `ask_person`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, SdkMcpTool, tool

from assentry.adapters.tool_calls import ASK
from assentry.core.action import Json
from assentry.core.canonical import canonical, restore


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


@dataclass(frozen=True, slots=True)
class Known:
    """A tool of a server in this process."""

    description: str
    schema: Mapping[str, Json]
    asks: bool = False
    """It is our own `ask_person`, whatever else has that name."""


def tools_in(options: ClaudeAgentOptions) -> dict[str, Known]:
    """The tools of servers in this process, by the name that Claude has for them."""
    found: dict[str, Known] = {}
    servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
    for server, config in servers.items():
        if config.get("type") == "sdk":
            parts = [*_parts(config.get("instance"))]
            asks = _is_ours(parts) and "__" not in server  # with it the name could be that of another server's tool
            for each in _tools_in(parts):
                schema = getattr(each, "input_schema", None) or getattr(each, "inputSchema", None)
                found[f"mcp__{server}__{each.name}"] = Known(
                    str(each.description or ""), restore(canonical(schema or {})), asks and each.name == ASK
                )
    return found


def _parts(server: Any) -> Iterator[Any]:
    """Everything that answers for a server in this process; the SDK keeps its tools in there."""
    waiting = [*(getattr(server, "_request_handlers", None) or getattr(server, "request_handlers", {})).values()]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
        waiting += [getattr(each, "handler", None), getattr(each, "func", None)]


def _tools_in(parts: list[Any]) -> list[Any]:
    """The tools that a server was made with."""
    for each in parts:
        if (
            isinstance(each, list)
            and each
            and all(hasattr(one, "name") and hasattr(one, "description") for one in each)
        ):
            return each
    return []


def _is_ours(parts: list[Any]) -> bool:
    """What runs as `ask_person` in this server is the tool above, and no other of that name is near."""
    held = [one for each in parts if isinstance(each, dict) for one in each.values()]
    held += [one for each in parts if isinstance(each, list) for one in each]
    named = [one for one in held if isinstance(one, SdkMcpTool) and one.name == ASK]
    return bool(named) and all(one is ask_person for one in named)
