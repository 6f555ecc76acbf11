"""What Assentry adds to a call that is allowed."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import assentry
from bench.tasks import serve

PLACES = [f"city {number}" for number in range(997)]
_opened: dict[str, tuple[assentry.Gate, Callable[[str], Awaitable[str]], Callable[[str], str]]] = {}


async def get_weather(city: str) -> str:
    """The weather in a city."""
    return city


def read_weather(city: str) -> str:
    """The weather in a city."""
    return city


def policy(rules: int, kind: str) -> str:
    """A policy whose last rule lets the call run; those before it name others, or apply and do not hold."""
    lines = ["rules:"]
    for number in range(rules - 1):
        lines.append(f"  - name: rule {number}")
        if kind == "named":
            lines += [f"    actions: [get_other_{number}, read_other_{number}]", "    gate: hard"]
        else:
            lines += [
                '    actions: ["*_weather"]',
                f"    when: facts.count > {100 + number} && args.city.startsWith('x{number}')",
                "    gate: hard",
            ]
    lines += ["  - name: weather", "    actions: [get_weather, read_weather]", "    gate: run"]
    return "\n".join(lines) + "\n"


def gate_for(rules: int, kind: str) -> tuple[assentry.Gate, Callable[[str], Awaitable[str]], Callable[[str], str]]:
    name = f"allowed-{kind}-{rules}"
    if name not in _opened:
        Path(f"{name}.yaml").write_text(policy(rules, kind))
        gate = assentry.open(f"{name}.db", policy=f"{name}.yaml")
        _opened[name] = gate, gate.guard(get_weather), gate.guard(read_weather)
    return _opened[name]


def allowed(rules: int, kind: str, calls: int) -> float:
    """Seconds added per call of an `async def`, until every line about these calls is durable."""
    gate, guarded, _ = gate_for(rules, kind)

    async def measured() -> float:
        for place in PLACES[:200]:
            await guarded(place)
        await gate._store.flush()
        start = time.perf_counter()
        for number in range(calls):
            await guarded(PLACES[number % 997])
        await gate._store.flush()
        total = time.perf_counter() - start
        start = time.perf_counter()
        for number in range(calls):
            await get_weather(PLACES[number % 997])
        return (total - (time.perf_counter() - start)) / calls

    return asyncio.run(measured())


def allowed_plain(rules: int, kind: str, calls: int) -> float:
    """Seconds added per call of a `def`, measured alike."""
    gate, _, guarded = gate_for(rules, kind)
    for place in PLACES[:200]:
        guarded(place)
    asyncio.run(gate._store.flush())
    start = time.perf_counter()
    for number in range(calls):
        guarded(PLACES[number % 997])
    asyncio.run(gate._store.flush())
    total = time.perf_counter() - start
    start = time.perf_counter()
    for number in range(calls):
        read_weather(PLACES[number % 997])
    return (total - (time.perf_counter() - start)) / calls


if __name__ == "__main__":
    serve({"allowed": allowed, "allowed_plain": allowed_plain})
