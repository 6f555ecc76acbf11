"""What an agent's code can reach without a private name: nothing that writes to the store, decides, or says that a
person looked. In its own process the gate is cooperative; this keeps an honest agent from doing it by accident."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import assentry
from assentry.blocking import BlockingGate
from tests.remote.place import Place, place

__all__ = ["place"]

DECIDES = {
    "transact", "apply_policy", "approve", "deny", "decide", "modify", "choose", "answer", "reconcile",
    "review", "seen", "checked_in", "decided", "give", "allow", "saw", "recorded", "begins", "progress",
}  # fmt: skip
DEPTH = 8


def reachable(start: Any) -> dict[int, tuple[str, Any]]:
    """Everything that public attributes lead to, and how."""
    found: dict[int, tuple[str, Any]] = {}
    ahead = [(type(start).__name__, start, 0)]
    while ahead:
        path, value, depth = ahead.pop()
        if id(value) in found or depth > DEPTH or isinstance(value, str | bytes | int | float | type | None):
            continue
        found[id(value)] = (path, value)
        if isinstance(value, Mapping):
            ahead += [(f"{path}[{key!r}]", each, depth + 1) for key, each in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            ahead += [(f"{path}[…]", each, depth + 1) for each in value]
        elif type(value).__module__.startswith("assentry"):
            for name in dir(value):
                if name.startswith("_"):
                    continue
                try:
                    each = getattr(value, name)
                except Exception:
                    continue
                ahead.append((f"{path}.{name}", each, depth + 1))
    return found


def walk(*starts: Any) -> int:
    """How much was looked at; fails where something of it decides or writes."""
    seen = 0
    for start in starts:
        for path, value in reachable(start).values():
            seen += 1
            assert not hasattr(value, "transact"), f"{path} can write to the store"
            name = path.rpartition(".")[2]
            assert name not in DECIDES or not callable(value), f"{path} decides"
    return seen


async def test_a_gate_and_what_it_gives_lead_to_nothing_that_decides(house):
    @house.gate.guard(reversible=False, undo=lambda done: None)
    async def delete_files(files: list[str]) -> str:
        return "ran"

    @house.gate.host("later")
    async def later(state: Any, resumption: Any) -> None: ...

    async with house.gate.run("Tidy up") as run:
        proposal = await house.gate.propose("delete_more", {"files": ["a"]})
        other = delete_files.with_(why="it is old")
        assert walk(house.gate, run, proposal, delete_files, other, house.gate.worker()) > 100
        assert walk(house.gate.agent("cleanup"), await house.gate.question("Which?")) > 20
        assert not hasattr(run, "stop"), "a run that says who stopped it is a decision"
        house.start(proposal.outcome())


async def test_neither_do_those_for_code_without_asyncio_or_behind_a_server(place: Place):
    here = await asyncio.to_thread(assentry.open, place.database)
    far = await asyncio.to_thread(assentry.connect, place.url, await place.token("cleanup"))
    async with far.run("Tidy up") as run:
        assert walk(BlockingGate(here), far, run, await far.propose("delete_more", {"files": ["a"]})) > 100
    await far.close()
    await here.close()


@pytest.mark.parametrize("taken_out", ["store", "checked_in"])
async def test_the_walk_would_find_them(house, monkeypatch, taken_out):
    if taken_out == "store":
        monkeypatch.setattr(assentry.Gate, "store", property(lambda self: self._store), raising=False)
    async with house.gate.run("Tidy up") as run:
        if taken_out == "checked_in":
            monkeypatch.setattr(type(run), "checked_in", lambda self: None, raising=False)
        with pytest.raises(AssertionError, match=r"store can write to the store|checked_in decides"):
            walk(house.gate, run)
