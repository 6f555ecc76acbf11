"""What several servers say, as if one had said it."""

from collections.abc import Mapping
from typing import Any

from assentry.adapters.mcp_proxy.wire import Message, part

JOINT = "__"
"""Between the name of a server and that of its tool or prompt."""
LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""Which capability a list needs, and what it is called in the answer."""
_RELAYED = ("tools", "prompts", "resources", "logging", "completions")


def introduction(hellos: Mapping[str, Message], version: str) -> dict[str, Any]:
    """What all of them said when hands were shaken: the oldest protocol, and whatever any of them can."""
    results = {name: part(hello, "result") for name, hello in hellos.items()}
    spoken = [said for each in results.values() if isinstance(said := each.get("protocolVersion"), str)]
    can: dict[str, Any] = {}
    for result in results.values():
        for name, detail in part(result, "capabilities").items():
            if name in _RELAYED and isinstance(detail, dict):
                flags = {each: value for each, value in detail.items() if value}
                can[name] = {**can.get(name, {}), **flags}
    told = [f"{name}: {said}" for name, each in results.items() if isinstance(said := each.get("instructions"), str)]
    return {
        "protocolVersion": min(spoken),
        "capabilities": can,
        "serverInfo": {"name": "assentry", "version": version},
        **({"instructions": "\n\n".join(told)} if told else {}),
    }


def named(server: str, kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """A tool, prompt or resource of one of several servers, by the name that the client is told."""
    return {**item, "name": f"{server}{JOINT}{item['name']}"} if kind in ("tools", "prompts") else dict(item)


def parted(name: Any) -> tuple[str, str]:
    """Which server is meant, and what that calls it; empty where none is."""
    server, joint, own = name.partition(JOINT) if isinstance(name, str) else ("", "", "")
    return (server, own) if joint and own else ("", "")
