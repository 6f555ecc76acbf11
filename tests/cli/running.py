"""An agent at work in a run, which parks where it has to wait, so that a person can look at it."""

from collections.abc import Awaitable, Callable
from typing import Any

import assentry as package
from assentry.core.authority import Principal
from assentry.core.run import PlanStep
from assentry.engine.os_user import os_user
from assentry.engine.policies import apply_policy
from tests.cli.terminal import Agent

LOOKED_IN = "limits: {steps: 3}\n"
"""A person looks in at every third step."""


class Crew:
    """Guarded functions, and runs that make use of them."""

    def __init__(self, agent: Agent) -> None:
        self.gate = gate = agent.gate

        @gate.guard(reversible=True, reach="local", says="Note {text}")
        async def note(text: str) -> str:
            return text

        @gate.guard(reversible=False, says="Delete {files.count} files")
        async def delete_files(files: list[str]) -> int:
            return len(files)

        @gate.host("loop")
        async def resume(_: Any, __: Any) -> None:
            raise AssertionError("nobody resumes it here")

        self.note, self.delete_files = note, delete_files

    def policy(self, text: str) -> None:
        boss = Principal("root", roles=("*",), teams=("*",))
        self.does(apply_policy(self.gate._store, "default", text.replace("ME", os_user()), boss, "test"))
        self.does(self.gate._judgement.refresh())

    def does(self, work: Awaitable[Any]) -> Any:
        async def done() -> Any:
            return await work

        return self.gate.portal.run(done())

    def works(self, goal: str, body: Callable[[Any], Awaitable[Any]], **more: Any) -> str:
        """The code of a run that did `body`, until its end or until it had to wait."""

        async def work() -> str:
            run: Any = None
            try:
                async with self.gate.run(goal, host="loop", **more) as run:
                    await body(run)
            except package.Parked:
                pass
            return str(run.code)

        return str(self.gate.portal.run(work()))

    def looked_in(self, goal: str = "Tidy up", **more: Any) -> str:
        """The code of a run that waits because nobody has looked in for three steps."""
        self.policy(LOOKED_IN)

        async def body(run: Any) -> None:
            await run.plan([PlanStep("look", True), "delete"])
            for text in ("one", "two", "three"):
                await self.note(text)
            await self.delete_files(["a", "b"])

        more.setdefault("original", "a small cleanup")
        more.setdefault("scope", {"files": 20, "EUR": 50})
        return self.works(goal, body, **more)
