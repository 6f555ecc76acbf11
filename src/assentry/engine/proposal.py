"""A call that is not a function here: judged and held like any other, and carried out by whoever proposed it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from assentry.core.canonical import restore
from assentry.core.let_by import LetBy, let_by, request_let_by
from assentry.core.request import Request, State
from assentry.engine.asking import Prepared
from assentry.engine.calls import Calls
from assentry.engine.clearing import cleared
from assentry.engine.office import HeldUp, inside
from assentry.engine.outcomes import refusal, result_of
from assentry.engine.sealing import unsealed
from assentry.errors import AlreadyDecided, Conflict, Parked, PolicyMoved


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
    def let_by(self) -> LetBy | None:
        """Who or what lets it run; nothing while it waits, or where it may not."""
        if self._request is not None:
            return request_let_by(self._request)
        return let_by(self._prepared.verdict, self._prepared.assessment)

    @property
    def is_done(self) -> bool:
        """It was carried out before: a run that was taken again finds it so, with its `result`."""
        return self._request is not None and self._request.state is State.DONE

    @property
    def result(self) -> Any:
        """What came back when it was carried out; `None` before that."""
        return result_of(self._request, self._prepared.tool) if self._request and self.is_done else None

    async def outcome(self, patience: float | None = None) -> Any:
        """The arguments that may run now. Raises `Denied`, `Refused`, `SentBack`, or `Parked` after `patience`.

        What simply ran when it was proposed is judged again where that was too long ago, and may have to wait now.
        """
        while self._request is None and not self._calls.may_run_now(self._prepared):
            self._prepared = await self._calls.judged_anew(self._prepared, 0)
            if not self._calls.runs_at_once(self._prepared):
                self._request = await put_on_record(self._calls, self._prepared)
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
                    latest, version = await cleared(calls.judgement, calls.execution, tool, was)
                    if latest.state is State.PENDING:
                        await calls.callers.findable(latest)
                        raise Parked(latest.id, latest.code, latest.candidate.says)
                    if latest.state is not State.APPROVED:
                        raise refusal(latest)
                    return await calls.begun(latest, active, policy=version, counts=self._counts)

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
            try:
                request, version = await cleared(judgement, calls.execution, self._prepared.tool, request)
                if request.state is State.PENDING:
                    await self._allowed(request, patience)
                    request = self._request or request
                    continue
                if request.state is not State.APPROVED:
                    raise refusal(request)
                return await calls.begun(request, None, policy=version)
            except (HeldUp, PolicyMoved):
                await judgement.refresh()
            except Conflict:
                # A server says so that it waits again.
                found = await calls.store.request(calls.workspace, request.id)
                if found is None or found.state is not State.PENDING:
                    raise
                await self._allowed(found, patience)
                request = self._request or found


async def put_on_record(calls: Calls, prepared: Prepared) -> Request:
    """The request for a call that does not simply run; whoever proposed it waits for it from now on."""
    active, caller = prepared.context.active, calls.caller_of(prepared.context)

    def put() -> Awaitable[tuple[Request, bool]]:
        return calls.submit(prepared, start=False, caller=caller)

    request, _ = await (
        calls.judgement.once_going(prepared.context.agent, 0, put) if active is None else active.once_going(put)
    )
    return await calls.callers.waits(request)


def refused_again(request: Request) -> AlreadyDecided:
    """A proposal is carried out once; a second attempt hears that it has been."""
    return AlreadyDecided(
        f"request {request.code} is {request.state}: it was carried out already; propose again for another",
        request_id=request.id, code=request.code, state=str(request.state), by=request.worker, at=request.finished_at,
    )  # fmt: skip
