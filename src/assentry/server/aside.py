"""What somebody sends to be looked at (a policy, a condition) is evaluated in a process of its own, with limits.

Such a process has no database, no keys and none of the server's environment. It may take `PROCESSOR_SECONDS` and
`MEMORY`; what takes more ends, and nothing else does. Where the system has no such limits (Windows) it is killed after
`SECONDS`. What is evaluated for calls needs none of this: conditions are bounded by themselves.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from assentry import errors
from assentry.core.authority import Principal
from assentry.core.canonical import canonical
from assentry.core.condition import Condition, compile_condition
from assentry.core.grant import Grant, why_not
from assentry.core.request import Request
from assentry.core.view import Looking
from assentry.engine.threads import in_thread
from assentry.errors import PolicyError
from assentry.ports import StoredPolicy
from assentry.server.problems import Problem
from assentry.telling.explaining import Call

SECONDS = 60.0
"""Longer than the processor time that it may take, because other processes take some too."""
PROCESSOR_SECONDS = 10
MEMORY = 512 << 20
"""Of addresses. The interpreter and a policy of 500,000 characters take less than 200 MB of them."""
AT_ONCE, MOST_WAITING = 2, 16
MOST_SENT = 8_000_000
"""Characters of all requests that a condition is tried on."""
_NOT_EVALUATED = "its condition could not be evaluated"
_KEPT = ("SYSTEMROOT", "TEMP", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
TOO_MUCH = "it takes too long or too much memory to evaluate; write fewer or simpler rules and conditions"


class Aside:
    """Two at a time; whoever would have to wait for more than a few others is sent away."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def checked(self, text: str, now: datetime, active: StoredPolicy | None, person: Principal) -> dict[str, Any]:
        """What is wrong with a policy, and what it would change; `complaints` is empty where it can be loaded."""
        was = [active.text, active.version] if active is not None else None
        found: dict[str, Any] = await self._done(
            "check", {"text": text, "now": now.isoformat(), "active": was, "person": asdict(person)}
        )
        return found

    async def explained(self, text: str, call: Call, now: datetime) -> dict[str, Any]:
        """What a policy would make of a call."""
        asked = {**asdict(call), "args": canonical(call.args)}
        found: dict[str, Any] = await self._done("explain", {"text": text, "call": asked, "now": now.isoformat()})
        return found

    async def reasons(self, grant: Grant, requests: Sequence[Request], now: datetime) -> list[str]:
        """Of each request why the grant would not cover it, in a sentence; empty where it would."""
        bare = replace(grant, condition="")
        found = [why_not(bare, each.candidate.action, each.candidate.assessment, now) or "" for each in requests]
        if not grant.condition:
            return found
        asked: list[int] = []
        views: list[str] = []
        condition, size = compile_condition(grant.condition), 0
        for place, each in enumerate(requests):
            if found[place]:
                continue
            view = canonical(_seen(condition, Looking(each.candidate.action, each.candidate.assessment)))
            size += len(view)
            if size > MOST_SENT:
                found[place] = "its condition was not tried: all these requests together are too large for a preview"
                continue
            asked.append(place)
            views.append(view)
        for place, held in zip(asked, await self._held(grant.condition, views) if views else (), strict=True):
            if held is not True:
                found[place] = "its condition does not hold" if held is False else f"{_NOT_EVALUATED}: {held}"
        return found

    async def _held(self, condition: str, views: list[str]) -> list[bool | str]:
        """Of each view whether the condition holds, or why that could not be said."""
        found: list[bool | str] = await self._done("hold", {"condition": condition, "views": views})
        return found

    async def _done(self, job: str, given: Mapping[str, Any]) -> Any:
        async with self._a_turn():
            answer = await in_thread(_answered, json.dumps({"job": job, **given}, default=str).encode())
        if "problem" in answer:
            raise _problem(answer)
        return answer["made"]

    @asynccontextmanager
    async def _a_turn(self) -> AsyncIterator[None]:
        if self._waiting >= MOST_WAITING:
            raise Problem(429, "too many policies are being looked at; try again", headers={"Retry-After": "5"})
        self._waiting += 1
        try:
            async with self._turns:
                yield
        finally:
            self._waiting -= 1


def _seen(condition: Condition, view: Looking) -> dict[str, Any]:
    """What the condition can look at, and no more."""
    seen: dict[str, Any] = {}
    for name in condition.variables:
        keys = condition.keys(name)
        seen[name] = {key: view[name][key] for key in (view[name] if keys is None else keys) if key in view[name]}
    return seen


def _answered(question: bytes) -> dict[str, Any]:
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-P", "-s", "-B", "-m", "assentry.server.aside_process"]
    try:
        done = subprocess.run(  # noqa: S603  the command is ours, and what was sent goes in as data
            [*command, str(PROCESSOR_SECONDS), str(MEMORY)],
            input=question, capture_output=True, timeout=SECONDS, env=environment, check=False,
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return {"problem": "PolicyError", "says": TOO_MUCH, "complaints": [TOO_MUCH]}
    return answer


def _problem(answer: Mapping[str, Any]) -> errors.AssentryError:
    if answer["problem"] == "PolicyError":
        return PolicyError(answer["says"], complaints=tuple(answer["complaints"]))
    kind = getattr(errors, answer["problem"], errors.AssentryError)
    made: errors.AssentryError = kind(answer["says"])
    return made
