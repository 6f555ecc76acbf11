"""What one server says of its tools, and how each was described when it was last let through."""

import json
from collections.abc import Mapping, Set
from hashlib import sha256
from typing import Any

from assentry.adapters.mcp_proxy.held import Manner
from assentry.adapters.mcp_proxy.wire import part
from assentry.core.action import NOTHING_DECLARED, Declaration, Json, Risk
from assentry.core.verdict import GateKind
from assentry.engine.errands import Errand, Errands, Notebook

GATE = "assentry/gate"
"""Under this name a tool's `_meta` tells its gate."""
_CHANGED = "what the server says of this tool has changed since it was last allowed"
_UNLESS = ", unless its arguments say otherwise"


class Toolbox:
    """The tools of one server."""

    def __init__(self, manner: Manner, notebook: Notebook) -> None:
        self.server, self.trusted, self._notebook = manner.server, manner.trusted, notebook
        self._identity, self._place = manner.identity, manner.place
        self._tools: dict[str, dict[str, Any]] = {}
        self._digests: dict[str, str] = {}

    def note(self, message: Mapping[str, Any], before: Set[str] | None = None) -> set[str]:
        """What an answer to `tools/list` says is known; the tools that it names.

        Where it is the last page, with what was on those `before` it, whatever is not listed is forgotten.
        """
        tools = _listed(message)
        for tool in tools:
            self._tools[tool["name"]], self._digests[tool["name"]] = tool, _digest(tool)
        names = {tool["name"] for tool in tools}
        if before is not None and isinstance(part(message, "result").get("tools"), list):
            for name in self._tools.keys() - names - before:
                del self._tools[name], self._digests[name]
        return names

    def schema(self, name: str) -> dict[str, Any]:
        """What the tool takes; empty where that is not known."""
        return part(self._tools.get(name, {}), "inputSchema")

    def definition(self, name: str) -> str:
        """A digest of how the tool is described now; empty where it is not."""
        return self._digests.get(name, "")

    def errand(self, name: str, args: Mapping[str, Json]) -> Errand:
        """The call of a tool as it is judged."""
        tool = self._tools.get(name, {})
        return self._described(tool, name, args, self._alarm(name, tool))

    def _described(self, tool: Mapping[str, Any], name: str, args: Mapping[str, Json], alarm: str) -> Errand:
        schema, description = tool.get("inputSchema"), tool.get("description")
        return Errand(
            name, args, f"{self._identity}/{self.server}/{name}",
            description if isinstance(description, str) else "",
            schema if isinstance(schema, dict) else None,
            trusted=self.trusted, effect=_effect(tool.get("annotations"), self.trusted), alarm=alarm,
            definition=self.definition(name), why=f"a tool of the MCP server {self.server}{self._place}",
        )  # fmt: skip

    def _alarm(self, name: str, tool: Mapping[str, Any]) -> str:
        """A tool that is described otherwise than when it was first called may be another one."""
        if not tool:
            return f"the server {self.server} lists no such tool"  # its name, which may be anything, is on the card
        known = self._notebook.look().pins.get(name)
        if known is None:
            with self._notebook.opened() as noted:
                known = noted.pins.setdefault(name, self._digests[name])
        return "" if known == self._digests[name] else _CHANGED

    def pin(self, name: str) -> None:
        """From now on the tool is expected to be described as it is now."""
        with self._notebook.opened() as noted:
            if name in self._tools:
                noted.pins[name] = self._digests[name]

    async def annotated(self, errands: Errands, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to `tools/list` with the gate of each tool in it; none where there is nothing to tell.

        A gate that the server itself tells of is not passed on.
        """
        tools = _listed(message)
        found = await errands.gates([self._without_arguments(tool) for tool in tools])
        gates = {tool["name"]: gate for tool, gate in zip(tools, found, strict=True) if gate is not None}
        if not gates and not any(GATE in part(tool, "_meta") for tool in tools):
            return None
        result, known = message["result"], {id(tool) for tool in tools}
        told = [_with_gate(tool, gates.get(tool["name"])) if id(tool) in known else tool for tool in result["tools"]]
        return {**message, "result": {**result, "tools": told}}

    def _without_arguments(self, tool: Mapping[str, Any]) -> Errand:
        """A call without arguments; those can only be judged when they are there."""
        name = tool["name"]
        known = self._notebook.look().pins.get(name)
        alarm = _CHANGED if known is not None and known != _digest(tool) else ""
        return self._described(tool, name, {}, alarm)


def _listed(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = part(message, "result").get("tools")
    tools = found if isinstance(found, list) else []
    return [tool for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]


def _with_gate(tool: dict[str, Any], gate: GateKind | None) -> dict[str, Any]:
    meta = {name: value for name, value in part(tool, "_meta").items() if name != GATE}
    if gate is None:
        return {**tool, "_meta": meta} if "_meta" in tool else tool
    says = f"Assentry: a call {gate.words}{'' if gate.holds or gate is GateKind.FORBID else _UNLESS}."
    description = tool.get("description")
    told = f"{description.rstrip()}\n\n{says}" if isinstance(description, str) and description.strip() else says
    return {**tool, "description": told, "_meta": {**meta, GATE: str(gate)}}


def _digest(tool: Mapping[str, Any]) -> str:
    """What a model reads of a tool, and what it would do."""
    read = {name: tool.get(name) for name in ("description", "inputSchema", "outputSchema", "annotations", "title")}
    return sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _effect(hints: Any, trusted: bool) -> Declaration:
    """What the server's hints say; from one that nobody vouches for, only what raises the risk."""
    if not isinstance(hints, Mapping):
        return NOTHING_DECLARED
    reads, destroys, outside = (hints.get(name) for name in ("readOnlyHint", "destructiveHint", "openWorldHint"))
    if not trusted:
        return Declaration(reversible=False if destroys is True else None, outside=True if outside is True else None)
    if reads is True:
        return Declaration(risk=Risk.SAFE, reversible=True, outside=False)
    return Declaration(
        reversible=not destroys if isinstance(destroys, bool) else None,
        outside=outside if isinstance(outside, bool) else None,
    )
