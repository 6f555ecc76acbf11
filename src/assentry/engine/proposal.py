"""A call that is not a function here: judged and held like any other, and carried out by whoever proposed it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from assentry.core.canonical import restore
from assentry.core.request import Request, State
from assentry.engine.asking import Prepared
from assentry.engine.calls import Calls
from assentry.engine.office import HeldUp, inside
from assentry.engine.outcomes import refusal, result_of
from assentry.engine.sealing import unsealed
from assentry.errors import AlreadyDecided, PolicyMoved


@dataclass(slots=True)
class Running:
    """What a proposer holds while it carries out what was approved; set `result` to what came back."""

    args: Any
    action: str
    key: str
    result: Any = field(default=None)


class Proposal:
    """A call that was proposed and is not a function; whoever proposed it carries it out."""

    def __init__(self, calls: Calls, prepared: Prepared, request: Request | None, *, counts: bool = True) -> None:
        self._calls, self._prepared, self._request, self._counts = calls, prepared, request, counts

    @property
    def request(self) -> Request | None:
        """The request, as last seen; none for a call that simply runs."""
        return self._request

    @property
    def is_done(self) -> bool:
        """It was carried out before: a run that was taken again finds it so, with its `result`."""
        return self._request is not None and self._request.state is State.DONE

    @property
    def result(self) -> Any:
        """What came back when it was carried out; `None` before that."""
        return result_of(self._request, self._prepared.tool) if self._request and self.is_done else None

    async def outcome(self, patience: float | None = None) -> Any:
        """The arguments that may run now. Raises `Denied`, `Refused`, `SentBack`, or `Parked` after `patience`."""
        if self._request is None:
            return dict(self._prepared.args)
        active = self._prepared.context.active
        if active is None:
            return await self._allowed(self._request, patience)
        await active.until_going()
        async with active.waiting():
            return await self._allowed(self._request, active.patience_for(patience))

    async def _allowed(self, request: Request, patience: float | None) -> Any:
        self._request = request = await self._calls.settled(request, patience)
        if request.state is not State.APPROVED:
            result_of(request, self._prepared.tool)
            raise refused_again(request)
        return restore(request.candidate.args_text)

    @asynccontextmanager
    async def execution(self, patience: float | None = None) -> AsyncIterator[Running]:
        """Intent is on record inside the block; its end, or the error it raises, is on record after it."""
        await self.outcome(patience)
        if self._request is None:
            yield Running(dict(self._prepared.args), self._prepared.action.name, "")
            return
        active = self._prepared.context.active
        if active is None:
            async with self._executed(self._request, patience) as running:
                yield running
            return
        await active.until_going(for_sure=True)
        async with active.in_flight(), self._executed(self._request) as running:
            with inside():
                yield running

    @asynccontextmanager
    async def _executed(self, request: Request, patience: float | None = None) -> AsyncIterator[Running]:
        calls, tool = self._calls, self._prepared.tool
        active, was = self._prepared.context.active, request
        try:
            if active is None:
                request = await self._begun(was, patience)
            else:

                async def begun() -> Request:
                    reason, version = await calls.judgement.objection(tool, was)
                    if reason:
                        raise refusal(await calls.execution.withdraw(was, reason))
                    return await calls.begun(was, active, policy=version, counts=self._counts)

                request = await active.once_going(begun, flying=True)
        except asyncio.CancelledError:
            await asyncio.shield(calls.withdrawn(was))
            raise
        candidate = request.candidate
        args = unsealed(calls.vault, request.id, restore(candidate.args_text), request.sealed)
        running = Running(args, candidate.action.name, request.idempotency_key)
        try:
            yield running
        except Exception as problem:
            self._request = await calls.execution.fail(request, problem)
            raise
        except BaseException:
            calls.execution.release(request)
            raise
        self._request = await calls.execution.finish(tool, request, running.result)

    async def _begun(self, request: Request, patience: float | None) -> Request:
        """Intent is on record, outside of any run, while no switch holds its agent up."""
        calls, judgement = self._calls, self._calls.judgement
        while True:
            if await judgement.is_paused(request):
                await judgement.until_go(request.ask.agent, patience)
            reason, version = await judgement.objection(self._prepared.tool, request)
            if reason:
                raise refusal(await calls.execution.withdraw(request, reason))
            try:
                return await calls.begun(request, None, policy=version)
            except (HeldUp, PolicyMoved):
                await judgement.refresh()


def refused_again(request: Request) -> AlreadyDecided:
    """A proposal is carried out once; a second attempt hears that it has been."""
    return AlreadyDecided(
        f"request {request.code} is {request.state}: it was carried out already; propose again for another",
        request_id=request.id, code=request.code, state=str(request.state), by=request.worker, at=request.finished_at,
    )  # fmt: skip
