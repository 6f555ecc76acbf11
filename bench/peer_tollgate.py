"""What tollgate adds to a call that is allowed, set up as in its README."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from tollgate import (
    AgentContext,
    AutoApprover,
    ControlTower,
    Effect,
    Intent,
    JsonlAuditSink,
    ToolRegistry,
    ToolRequest,
    YamlPolicyEvaluator,
)

from bench.tasks import serve

PLACES = [f"city {number}" for number in range(997)]
AGENT = AgentContext(agent_id="my-agent", version="1.0", owner="my-team")
INTENT = Intent(action="fetch_data", reason="User requested weather info")


class NoSink:
    """An audit sink that keeps nothing."""

    def emit(self, event: Any) -> None:
        """Nothing is written."""


async def fetch_weather(city: str) -> str:
    return city


def tower(rules: int, kind: str, sink: Any) -> ControlTower:
    """A tower whose last rule allows the call."""
    name = f"tollgate-{kind}-{rules}"
    written: list[dict[str, Any]] = []
    for number in range(rules - 1):
        rule: dict[str, Any] = {"id": f"r{number}", "action": "get", "decision": "DENY", "reason": "other"}
        if kind == "named":
            rule["tool"] = f"api:other{number}"
        else:
            rule |= {"tool": "api:weather", "when": {"count": {">": 100 + number}, "city": f"x{number}"}}
        written.append(rule)
    written.append({"id": "w", "tool": "api:weather", "action": "get", "decision": "ALLOW", "reason": "weather"})
    Path(f"{name}.yaml").write_text(yaml.safe_dump({"rules": written}))
    tools = {"api:weather": {"effect": "read", "resource_type": "weather"}}
    Path("tollgate-manifest.yaml").write_text(yaml.safe_dump({"version": "1.0.0", "tools": tools}))
    registry = ToolRegistry("tollgate-manifest.yaml")
    return ControlTower(YamlPolicyEvaluator(f"{name}.yaml"), AutoApprover(), sink, registry=registry)


def measured(gate: ControlTower, calls: int) -> float:
    def request(city: str) -> ToolRequest:
        return ToolRequest(
            tool="api:weather", action="get", resource_type="weather", effect=Effect.READ,
            params={"city": city}, metadata={"count": 1, "city": city}, manifest_version="1.0.0",
        )  # fmt: skip

    def late(city: str) -> Callable[[], Any]:
        return lambda: fetch_weather(city)

    async def run() -> float:
        for place in PLACES[:200]:
            await gate.execute_async(AGENT, INTENT, request(place), late(place))
        start = time.perf_counter()
        for number in range(calls):
            place = PLACES[number % 997]
            await gate.execute_async(AGENT, INTENT, request(place), late(place))
        total = time.perf_counter() - start
        start = time.perf_counter()
        for number in range(calls):
            await fetch_weather(PLACES[number % 997])
        return (total - (time.perf_counter() - start)) / calls

    return asyncio.run(run())


def audited(rules: int, kind: str, calls: int) -> float:
    """Seconds added per call, with its JSON-lines audit file (which it never syncs)."""
    with JsonlAuditSink("tollgate-audit.jsonl") as sink:
        return measured(tower(rules, kind, sink), calls)


def unaudited(rules: int, kind: str, calls: int) -> float:
    """Seconds added per call, keeping no record."""
    return measured(tower(rules, kind, NoSink()), calls)


if __name__ == "__main__":
    serve({"audited": audited, "unaudited": unaudited})
