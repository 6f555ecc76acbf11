"""The stage that every test above the stores plays on: agents, a person, a place, all on one real database.

The agent holds a gate, the person sits at a desk, and the place, where a test wants one, is a server that agents and
browsers reach. They share the database and nothing else. What only some tests need (a browser, a framework, a terminal) is
added in their folder, on top of this.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from fastapi import FastAPI

import assentry
from assentry.assemble import Desk, desk, keys_for
from assentry.core.action import Declaration, Reach
from assentry.core.advance import phrase
from assentry.core.authority import Principal
from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.core.run_life import RunEvent, advance_run
from assentry.engine.identity import Identities
from assentry.engine.policies import apply_policy
from assentry.ports import Filter, RunFilter, Store, View
from assentry.server.app import create_app
from assentry.server.premises import Premises
from assentry.server.serving import Address, standing
from assentry.settings import load

PATIENCE = 60.0
"""How long a test waits for what is bound to happen, such as a worker's slow sweep, which comes after 30 seconds. Only
what is broken takes longer, however busy the machine."""

GONE = Declaration(reversible=False, reach=Reach.LOCAL)
PAID = Declaration(reversible=False, reach=Reach.ORGANISATION, outside=True, money=True)
MILD = Declaration(reversible=True, reach=Reach.LOCAL)
BOSS = Principal("root", roles=("*",), teams=("*",))

T = TypeVar("T")


async def until(
    look: Callable[[], Awaitable[T]], what: str = "it did not come to that", seconds: float = PATIENCE
) -> T:
    """What `look` found, once it is neither nothing nor false."""
    try:
        async with asyncio.timeout(seconds):
            while (found := await look()) in (None, False):
                await asyncio.sleep(0.005)
            return found
    except TimeoutError:
        raise AssertionError(what) from None


async def asked(gate: assentry.Gate, action: str = "delete_files", args: Any = None, **said: Any) -> Request:
    """The request for this call, which waits; nobody waits for it."""
    given = {"files": ["a.tmp", "b.tmp"], "root": "~/projects"} if args is None else args
    said.setdefault("declared", GONE)
    proposal = await gate.propose(action, given, **said)
    assert proposal.request is not None
    return proposal.request


async def asked_to_pay(gate: assentry.Gate, amount: float = 12400.0, **said: Any) -> Request:
    """The request for a payment, which waits."""
    said.setdefault("declared", PAID)
    return await asked(gate, "pay", {"to": "Nordwind", "amount": amount, "currency": "EUR"}, **said)


async def wondered(gate: assentry.Gate, question: str = "Which one?", **more: Any) -> str:
    """The code of a question that waits."""
    try:
        await gate.ask(question, patience=0, **more)
    except assentry.Parked as parked:
        return parked.code
    raise AssertionError("the question did not wait")


@dataclass
class Stage:
    """What an agent asks, what a person sees and decides, and calls that go on meanwhile."""

    database: str
    desk: Desk
    gate: Any = None
    """The agent's."""
    server: Any = None
    tasks: list[asyncio.Task[Any]] = field(default_factory=list, kw_only=True)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack, kw_only=True)
    """Whatever was opened in the course of a test."""

    @property
    def store(self) -> Store:
        """The person's; the agent has one of its own."""
        return self.desk.store

    @property
    def inbox(self) -> assentry.Inbox:
        return self.desk.inbox

    @property
    def me(self) -> Principal:
        return self.desk.person()

    @property
    def workspace(self) -> str:
        return self.desk.settings.workspace

    @property
    def url(self) -> str:
        """Where the server is."""
        return str(self.server.url)

    @property
    def identities(self) -> Identities:
        return Identities(self.store, self.workspace)

    def start(self, call: Any) -> asyncio.Task[Any]:
        """The call goes on by itself."""

        async def run() -> Any:
            return await call

        task = asyncio.create_task(run())
        self.tasks.append(task)
        return task

    async def rest(self) -> None:
        """No call goes on any more, and what was opened meanwhile is closed."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.closing.aclose()

    def another_gate(self, **options: Any) -> assentry.Gate:
        """A gate as another process would open it."""
        gate = assentry.open(self.database, **options)
        self.closing.push_async_callback(gate.close)
        return gate

    async def policy(self, text: str, by: Principal = BOSS) -> None:
        """This policy is active, and everybody here has heard of it."""
        await apply_policy(self.store, self.workspace, text, by, "test")
        await self.inbox.refresh()
        if self.gate is not None:
            await self.gate._judgement.refresh()
        if self.server is not None:
            await (await self.server.premises.room(self.workspace)).desk.judgement.refresh()
            await self.server.premises.gate._judgement.refresh()

    async def token(self, agent: str, workspace: str = "default") -> str:
        """What an agent elsewhere shows the server."""
        _, secret = await Identities(self.store, workspace).give_token(Principal("root"), agent)
        return secret

    async def asks(self, action: str = "delete_files", args: Any = None, **said: Any) -> Request:
        """The request for this call, which waits."""
        return await asked(self.gate, action, args, **said)

    async def pays(self, amount: float = 12400.0, **said: Any) -> Request:
        return await asked_to_pay(self.gate, amount, **said)

    async def wonders(self, question: str = "Which one?", **more: Any) -> str:
        """The code of a question that waits."""
        return await wondered(self.gate, question, **more)

    async def found(self, wanted: Filter | None = None) -> list[Request]:
        return list((await self.inbox.page(wanted)).requests)

    async def waiting(self, number: int = 1) -> list[Request]:
        """The requests that wait, once there are as many."""
        return await self.until(lambda found: len(found) >= number, Filter(states=(State.PENDING,)))

    async def until(self, enough: Callable[[list[Request]], bool], wanted: Filter) -> list[Request]:
        async def look() -> list[Request] | None:
            return found if enough(found := await self.found(wanted)) else None

        return await until(look)

    async def requests(self) -> list[Request]:
        """Everything that was ever asked, oldest first, without what policy let run."""
        found = await self.found(Filter(states=tuple(State)))
        return sorted((each for each in found if each.candidate.verdict.gate.holds), key=lambda each: each.id)

    async def now(self, request: Request | str) -> Request:
        """The request as it is by now."""
        request_id = request if isinstance(request, str) else request.id
        found = await self.store.request(self.workspace, request_id)
        assert found is not None
        return found

    async def in_state(self, request: Request | str, *states: State) -> Request:
        """The request, once it is in one of these states."""

        async def look() -> Request | None:
            return found if (found := await self.now(request)).state in states else None

        try:
            return await until(look)
        except AssertionError:
            now, runs = await self.now(request), await self.store.runs(self.workspace, RunFilter())
            told = [(str(run.state), run.error, run.waits) for run in runs]
            raise AssertionError(
                f"it is {now.state} ({now.word} {now.reason!r} {now.error!r}), not one of {states}; runs: {told}"
            ) from None

    async def approve(self, request: Request | str) -> Request:
        request_id = request if isinstance(request, str) else request.id
        confirm = (await self.inbox.brief(request_id)).phrase
        return await self.inbox.approve(self.me, request_id, confirm=confirm)

    async def modify(self, request: Request, **args: Any) -> Request:
        """Approved with these arguments in place of what was asked."""
        changed = {**request.candidate.action.args, **args}
        confirm = phrase(self.inbox.changed(request, changed))
        return await self.inbox.modify(self.me, request.id, changed, confirm=confirm)

    async def deny(self, request: Request | str, reason: str = "not today", *, stop: bool = False) -> Request:
        return await self.inbox.deny(self.me, request if isinstance(request, str) else request.id, reason, stop=stop)

    async def answer(self, request: Request | str, value: Any) -> Request:
        return await self.inbox.answer(self.me, request if isinstance(request, str) else request.id, value)

    async def kinds(self, subject: str = "") -> list[str]:
        """The kinds of the entries about a request, in order."""
        await self.store.sequence(self.workspace)
        return [json.loads(entry.text)["kind"] for entry in await self.store.entries(self.workspace, subject=subject)]

    async def run(self) -> Run:
        """The run that began last; most tests have one only."""
        (run,) = await self.store.runs(self.workspace, RunFilter(), limit=1)
        return run

    async def until_run(self, *states: RunState) -> Run:
        """The run, once it is in one of these states."""

        async def look() -> Run | None:
            return found if (found := await self.run()).state in states else None

        return await until(look, f"the run never was one of {states}")

    async def said(self, event: RunEvent) -> None:
        """A person does this to the run."""
        run = await self.run()

        def step(view: View) -> Any:
            assert view.run is not None
            return advance_run(view.run, event, view.now)

        await self.store.transact(self.workspace, None, step, run=run.id)


S = TypeVar("S", bound=Stage)


@asynccontextmanager
async def stage(
    database: str,
    kind: type[S] = Stage,  # type: ignore[assignment]
    *,
    agent: str = "",
    lease: timedelta | None = None,
    serves: bool = False,
    policy: str = "",
    **more: Any,
) -> AsyncIterator[S]:
    """A person at a desk; an agent of this name with a gate beside it, and a server, where they are asked for."""
    async with AsyncExitStack() as stack:
        settings = load({"database": database})
        gate = server = None
        if agent:
            leased = {"lease": lease} if lease else {}
            gate = await asyncio.to_thread(assentry.open, database, agent=agent, **leased)
            stack.push_async_callback(gate.close)
        if serves:
            server = await stack.enter_async_context(standing(settings, Address(port=0)))
        table = await desk(settings)
        stack.push_async_callback(table.store.close)
        made = kind(database, table, gate, server, **more)
        stack.push_async_callback(made.rest)
        if policy:
            await made.policy(policy)
        yield made


@dataclass
class Application(Stage):
    """The server in this process and without a port, as HTTP clients that call it directly see it."""

    premises: Premises = field(kw_only=True)
    app: FastAPI = field(kw_only=True)


A = TypeVar("A", bound=Application)


@asynccontextmanager
async def application(
    database: str,
    kind: type[A],
    *,
    policy: str = "",
    by: Principal = BOSS,
    settings: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[A]:
    """An application with these options; the person sits in its own room, the agent has the gate beside it."""
    chosen = load({"database": database, **(settings or {})})
    async with AsyncExitStack() as stack:
        gate = await asyncio.to_thread(assentry.open, database, agent="cleanup")
        stack.push_async_callback(gate.close)
        premises = Premises(chosen, gate._store, keys_for(chosen), gate)
        app = create_app(premises, **options)
        await premises.open()
        stack.push_async_callback(premises.close)
        made = kind(database, (await premises.room(chosen.workspace)).desk, gate, premises=premises, app=app)
        stack.push_async_callback(made.rest)
        if policy:
            await made.policy(policy, by)
        yield made
