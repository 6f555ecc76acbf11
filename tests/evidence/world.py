"""The outside world, as a file that only grows, and the guarded actions whose effect is a line in it.

A line is written with one append, so it is there even if the process dies right after, and it names the request
by its idempotency key: who acted is known without asking the database.
"""

import asyncio
import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import assentry
from assentry.core.action import Declaration, Risk
from assentry.engine.gate import Gate
from assentry.keys import KeyRing
from assentry.stores.sqlite import SqliteStore

LEASE = timedelta(seconds=0.3)
UNHURRIED = timedelta(minutes=5)
"""A lease for suites in which nobody dies: a starved process is not taken for a dead one."""
DATABASES = ("sqlite", "postgres")
"""The databases."""
AGENT = "cleanup"


@dataclass(frozen=True, slots=True)
class Place:
    """A database, the keys beside it, and the ledger outside."""

    database: str
    directory: str

    @property
    def ledger(self) -> Path:
        return Path(self.directory) / "ledger"

    def enter(self) -> None:
        """This process has its keys and settings here."""
        for name in [name for name in os.environ if name.startswith("ASSENTRY_")]:
            if not name.startswith("ASSENTRY_TEST_"):
                del os.environ[name]
        os.environ["ASSENTRY_HOME"] = str(Path(self.directory) / "home")
        os.chdir(self.directory)

    def gate(self, lease: timedelta = LEASE) -> assentry.Gate:
        return assentry.open(self.database, agent=AGENT, lease=lease)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the agent does. `before` and `after` are how long it takes on each side of the effect, in ms."""

    kind: str
    key: str
    word: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Line:
    """One effect."""

    key: str
    step: str
    word: str

    @property
    def request(self) -> str:
        return self.key.partition(".")[0]


class Ledger:
    """Effects, in order."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, step: str, word: str) -> str:
        """The effect: a line that says which approval it acts on."""
        return self.write(assentry.idempotency_key(), step, word)

    def write(self, key: str, step: str, word: str) -> str:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, json.dumps([key, step, word]).encode() + b"\n")
        finally:
            os.close(file)
        return key

    def lines(self, run: str) -> dict[str, list[Line]]:
        """The effects of one run, by request."""
        found: dict[str, list[Line]] = defaultdict(list)
        if self._path.exists():
            for text in self._path.read_text().splitlines():
                if f'"{run}.' in text:
                    line = Line(*json.loads(text))
                    found[line.request].append(line)
        return found

    def holds(self, key: str) -> bool:
        return self._path.exists() and f'["{key}"' in self._path.read_text()


KINDS = ("watched", "blocking", "held", "proposed", "posted", "queued", "verified", "repeatable")
"""watched, blocking: run at once, intent on record first. held, proposed: wait for a person, run by the caller.
posted: waits, then runs in a worker. queued, verified, repeatable: run in a worker at once; the outcome of the
second can be looked up, the third may be run again with the same key."""

BY_WORKER = frozenset({"posted", "queued", "verified", "repeatable"})
WAITS = frozenset({"held", "proposed", "posted"})
DANGEROUS = Declaration(risk=Risk.DANGEROUS)


def guarded(gate: assentry.Gate, ledger: Ledger, trace: Any = lambda _: None) -> dict[str, Any]:
    """The actions, guarded by `gate`. `trace` is told where in an action we are."""

    async def effect(step: str, word: str, before: int, after: int) -> str:
        trace("acting")
        await asyncio.sleep(before / 1000)
        key = ledger.append(step, word)
        trace("acted")
        await asyncio.sleep(after / 1000)
        return key

    def effect_in_a_thread(step: str, word: str, before: int, after: int) -> str:
        trace("acting")
        time.sleep(before / 1000)
        key = ledger.append(step, word)
        trace("acted")
        time.sleep(after / 1000)
        return key

    risky: dict[str, Any] = {"risk": "risky", "patience": 0}
    there: dict[str, Any] = {**risky, "detached": True}
    return {
        "watched": gate.guard(effect, name="watched", **risky),
        "blocking": gate.guard(effect_in_a_thread, name="blocking", **risky),
        "held": gate.guard(effect, name="held", risk="dangerous", patience=0),
        "posted": gate.guard(effect_in_a_thread, name="posted", risk="dangerous", patience=0, detached=True),
        "queued": gate.guard(effect, name="queued", **there),
        "verified": gate.guard(effect, name="verified", verify=lambda done: ledger.holds(done.key), **there),
        "repeatable": gate.guard(effect, name="repeatable", idempotent=True, **there),
    }


def warm() -> None:
    """What the first guard and the first judgement cost is paid here, before children are forked. Opens nothing."""
    nowhere = Path("nowhere")
    gate = Gate(SqliteStore(nowhere / "assentry.db"), KeyRing(nowhere))
    for tool in guarded(gate, Ledger(nowhere / "ledger")).values():
        tool._prepared(("step", "word", 0, 0), {})
