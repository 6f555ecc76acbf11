"""What a server does for one agent that calls from elsewhere: propose, begin, report, withdraw, ask.

The agent is who its token says. It sees what it asked for through a server, and nothing else; where it does not
exist for this agent, it does not exist. There is no method here that decides.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from assentry.core.action import NOTHING_DECLARED, Declaration, Json
from assentry.core.advance import advance
from assentry.core.canonical import canonical, restore
from assentry.core.change import Change
from assentry.core.decision import Awaited, Cancel, Fail, Findable, Finish, Renew
from assentry.core.request import STOPS, Kind, Request, State
from assentry.core.run import RunState
from assentry.core.run_life import Progress
from assentry.core.running import LEASE
from assentry.core.switch import Setting
from assentry.core.verdict import GateKind, Trigger
from assentry.engine.asking import Named
from assentry.engine.callers import every, moved, name_at_server
from assentry.engine.calls import Calls
from assentry.engine.execution import Execution
from assentry.engine.guard import in_run
from assentry.engine.holding import HeldRun
from assentry.engine.judgement import Context
from assentry.engine.office import Held, HeldUp, Office
from assentry.engine.outcomes import refusal, result_of
from assentry.engine.proposal import refused_again
from assentry.engine.questions import question
from assentry.engine.schemas import check_schema
from assentry.engine.sealing import no_secret, redacted
from assentry.engine.tool import OptionSpec, Tool, tool, tool_of
from assentry.errors import Conflict, InvalidArguments, NotFound, PolicyMoved, RunPaused, RunStopped
from assentry.ports import View

T = TypeVar("T")

RESERVED = STOPS | {"question"}
HELD = (Trigger("asked for", "the agent itself wants a person to look, whatever the policy says", GateKind.HARD),)
"""Fires where an agent says so; why, it says in its own words, which stand beside it."""
FIRST_SIGN = LEASE
"""How soon a process that a proposal names as its caller has to show for the first time that it lives."""
_SCHEMA_BYTES = 64 * 1024
_SCHEMA_NODES = 1_000
_MOST_CHECKS = 200_000
"""Parts of a schema times parts of what it describes: as many things there are to check when a person changes it."""
_COSTLY = frozenset({"uniqueItems", "pattern", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef"})
"""What can make checking a value against a schema take for ever."""


@dataclass(frozen=True, slots=True)
class Described:
    """What an agent says of the action that it proposes. Some of it counts only where the operator vouches for it."""

    action: str
    description: str = ""
    schema: Mapping[str, Json] | None = None
    secret: frozenset[str] = frozenset()
    declared: Declaration = NOTHING_DECLARED
    says: str = ""
    options: tuple[OptionSpec, ...] = ()
    if_denied: str = ""
    needed_by: datetime | None = None
    idempotent: bool = False


class Unheld(Execution):
    """Executions whose lease the agent itself renews, from where it runs."""

    def hold(self, request: Request) -> None:
        """Nothing is renewed here: an agent that vanishes leaves an unknown outcome."""

    async def renewed(self, request: Request, fence: int) -> Request:
        """It lasts for another lease."""
        return await self._move(request, Renew(fence, self.lease))

    async def finished(self, tool: Tool, request: Request, fence: int, result: Json) -> Request:
        """What came back is on record; told twice, it is so once."""
        told = self._result_text(tool, request, result)
        if request.state is State.DONE and request.fence == fence:
            return request
        return await self._end(request, Finish(fence, told))

    async def failed(self, request: Request, fence: int, error: str) -> Request:
        """The error is on record; told twice, it is so once."""
        if request.state is State.FAILED and request.fence == fence:
            return request
        told = str(redacted(self._vault, error, self._secrets(request)))[:2000]
        return await self._end(request, Fail(fence, told))


class AgentCalls:
    """The calls of one agent through a server."""

    def __init__(self, calls: Calls, office: Office, agent: str) -> None:
        self.agent, self.asked_by = agent, f"agent:{agent}"
        # No operating-system user has a colon in its name, so what a process of this machine asked for is not found.
        self._calls = copy(calls)
        self._calls.asked_by = self.asked_by
        self._office = replace(office, asked_by=self.asked_by)
        self._store, self._judgement, self._hub = office.store, calls.judgement, office.hub

    @property
    def is_trusted(self) -> bool:
        """The operator lists the agent in the policy and vouches for it."""
        entry = self._judgement.policy.agent_named(self.agent)
        return entry is not None and entry.trusted

    # Proposing

    def described(self, said: Described) -> tuple[Tool, tuple[str, ...]]:
        """The action as it will be judged, and what the agent said of it that does not count."""
        if said.action.strip().casefold() in RESERVED:
            raise InvalidArguments(f"{said.action} is a word of Assentry's own; propose the action under another name")
        _fits_here(said.schema, self.is_trusted)
        ignored: tuple[str, ...] = ()
        vouched = said
        if not self.is_trusted:
            vouched = replace(said, says="", options=(), if_denied="", idempotent=False, declared=NOTHING_DECLARED)
            names = ("says", "options", "if_denied", "idempotent")
            ignored = tuple(name for name in names if getattr(said, name))
        vault = self._office.vault
        options = tuple(
            replace(each, label=str(redacted(vault, each.label)), consequence=str(redacted(vault, each.consequence)))
            for each in vouched.options
        )
        made = tool(
            said.action, description=str(redacted(vault, said.description)), schema=said.schema,
            schema_text=canonical(said.schema) if said.schema is not None else "",
            declared=vouched.declared, trusted=self.is_trusted,
            claimed=NOTHING_DECLARED if self.is_trusted else said.declared,
            says=str(redacted(vault, vouched.says)), options=options,
            if_denied=str(redacted(vault, vouched.if_denied)), needed_by=said.needed_by,
            secret=said.secret, idempotent=vouched.idempotent,
        )  # fmt: skip
        return made, ignored

    async def propose(
        self, made: Tool, args: Mapping[str, Json], context: Context, *, fence: int = 0, patience: float = 0,
        fired: tuple[Trigger, ...] = (), caller: str = "",
    ) -> Request | None:  # fmt: skip
        """The call is judged and on record: it waits, may begin, or is refused. `None`: it simply runs.

        In a run only for whoever holds it. While a person has paused the agent it waits for `patience` seconds. The
        `caller` is the process of the agent that waits, where nothing but that process can find the request again.
        """
        plain = restore(canonical(args))
        if not isinstance(plain, dict):
            raise InvalidArguments("the arguments of an action are given by name, as an object")
        if not self.is_trusted:
            _cheap_together(made.schema, plain)
        _told_plainly(context)
        await self._until_go(patience)
        active = await self.held(context.run, fence) if context.run else None
        if active is not None:
            context = in_run(context, active, made.name, plain)
        prepared = self._calls.prepare(made, plain, context, {}, fired)
        if self._calls.runs_at_once(prepared):
            self._calls.note(prepared)
            if active is not None:
                await active.read_once()
            return None
        named = self._named(caller)
        request, _ = await self._once_going(patience, lambda: self._calls.submit(prepared, start=False, caller=named))
        return self._own(request)

    def foreseen(self, made: Tool, args: Mapping[str, Json], fired: tuple[Trigger, ...] = ()) -> GateKind:
        """The gate that policy would have for the call. Nothing is proposed, and nobody hears of it."""
        return self._calls.prepare(made, args, Context(agent=self.agent), {}, fired).verdict.gate

    def foreseen_as(self, said: Described, fired: tuple[Trigger, ...] = ()) -> GateKind | None:
        """The same for calls of a kind, without arguments; none where the schema is too large to be looked at.

        Whether the schema can be used is found out only when a call is proposed: nothing is checked against it here.
        """
        if said.schema is not None and _size_of(said.schema) > _SCHEMA_NODES:
            return None
        trusted = self.is_trusted
        made = tool(
            said.action, description=said.description, schema=said.schema, trusted=trusted,
            declared=said.declared if trusted else NOTHING_DECLARED,
            claimed=NOTHING_DECLARED if trusted else said.declared,
        )  # fmt: skip
        return self.foreseen(made, {}, fired)

    async def ask(
        self, text: str, context: Context, *, choices: tuple[str, ...] = (), schema: Mapping[str, Json] | None = None,
        guess: tuple[Json, ...] = (), time: timedelta | None = None, reviewers: tuple[str, ...] = (), fence: int = 0,
        patience: float = 0, caller: str = "", shown: Mapping[str, Json] | None = None,
    ) -> Request:  # fmt: skip
        """The question is on record. Whom to ask is the agent's to say only where the operator vouches for it."""
        _fits_here(schema, self.is_trusted)
        _told_plainly(context)
        await self._until_go(patience)
        active = await self.held(context.run, fence) if context.run else None
        if active is not None:
            context = in_run(context, active, "question", {"question": text})
            if active.is_over:
                await active.step_on_record(context.key)
        asked = question(
            self._calls, context, text, choices, schema, guess, time, reviewers if self.is_trusted else (),
            shown=shown,
        )  # fmt: skip
        return self._own(await self._calls.put(asked, self._named(caller)))

    # Carrying out

    async def begin(
        self, request_id: str, *, attempt: str, lease: timedelta = LEASE, fence: int = 0, patience: float = 0
    ) -> Request:
        """The permit is used and the agent may act now. The same `attempt` may ask again, should it not have heard."""
        no_secret("attempt", attempt)
        request = await self.request(request_id)
        worker = f"{self.asked_by}:{attempt}"
        if self.is_begun_by(request, attempt):
            return request
        made = tool_of(request.candidate.action)
        _is_ready(request, made)
        # A key without a run stands below the agent's own name, and there is nothing to hold.
        run = request.ask.run if request.ask.run != self.agent else ""
        active = await self.held(run, fence) if run else None
        calls = copy(self._calls)
        calls.execution = self._execution(worker, lease)

        async def begun() -> Request:
            if await self._judgement.is_paused(request):
                raise RunPaused("", "", "what it belongs to is paused")
            reason, version = await self._judgement.objection(made, request)
            if reason:
                raise refusal(await calls.execution.withdraw(request, reason))
            counts = request.candidate.action.name not in STOPS
            return await calls.begun(request, active, policy=version, counts=counts)

        return await self._once_going(patience, begun)

    def is_begun_by(self, request: Request, attempt: str) -> bool:
        """It runs, and this very attempt began it."""
        return request.state is State.RUNNING and request.worker == f"{self.asked_by}:{attempt}"

    async def renew(self, request_id: str, fence: int, lease: timedelta = LEASE) -> Request:
        """The agent still works on it."""
        request = await self.request(request_id)
        return await self._execution(request.worker, lease).renewed(request, fence)

    async def finish(self, request_id: str, fence: int, result: Json) -> Request:
        """It is done, and what came back is on record, without secrets."""
        request = await self.request(request_id)
        return await self._execution(request.worker).finished(tool_of(request.candidate.action), request, fence, result)

    async def fail(self, request_id: str, fence: int, error: str) -> Request:
        """It went wrong, and how is on record, without secrets."""
        request = await self.request(request_id)
        return await self._execution(request.worker).failed(request, fence, error)

    async def cancel(self, request_id: str, reason: str = "") -> Request:
        """The agent no longer wants it."""
        request = await self.request(request_id)
        if request.state is State.CANCELLED:
            return request
        event = Cancel(self.agent, str(redacted(self._office.vault, reason)) or "the agent withdrew it")

        def step(view: View) -> Change | None:
            return None if view.request is None else advance(view.request, event, view.now)

        change = await self._store.transact(request.workspace, request.id, step)
        return change.request if change is not None and change.request is not None else request

    # Waiting

    async def show_caller(self, name: str, lease: timedelta, *, new: bool = False, instead: str = "") -> bool:
        """The agent's process of this name lives for so long from now; false where it was taken for gone before.

        It waits for what the process waited for that it is there `instead` of.
        """
        workspace, known = self._office.workspace, name_at_server(self.agent, name)
        lives = await self._store.show_caller(workspace, known, lease, new=new)
        if lives and instead:
            before = name_at_server(self.agent, instead)
            await every(self._store, workspace, before, Awaited(known, instead=before))
        return lives

    async def awaited(self, request_id: str, name: str) -> Request:
        """The process of this name waits for the request; without a name it is found again without any process."""
        request, named = await self.request(request_id), self._named(name)
        event = Findable() if named is None else Awaited(await named())
        return await moved(self._store, request.workspace, request.id, event) or request

    def _named(self, caller: str) -> Named | None:
        """The name of the agent's process, which is known from now on: it may die before it shows itself."""

        async def name() -> str:
            known = name_at_server(self.agent, caller)
            await self._store.expect_caller(self._office.workspace, known, FIRST_SIGN)
            return known

        return name if caller else None

    # Looking

    async def request(self, request_id: str) -> Request:
        """The agent's own request."""
        found = await self._store.request(self._office.workspace, request_id)
        if found is None or not self._is_own(found):
            raise NotFound("you have no such request")
        return found

    async def changed(self, request: Request, patience: float, version: int = 0) -> Request:
        """The request once it is newer than `version`, or without one once nobody has to move it; at most so long.

        Only looks: moving time on is left to workers.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        with self._hub.hearing(request.id) as ear:
            while True:
                ear.event.clear()
                request = await self.request(request.id)
                left = until - loop.time()
                news = request.version > version if version else request.state not in (State.PENDING, State.RUNNING)
                if news or left <= 0:
                    return request
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await ear.event.wait()

    async def by_step(self, run: str, key: str) -> Request | None:
        """The request that this step made; outside runs, the call with this key."""
        found = await self._store.by_step(self._office.workspace, run or self.agent, key)
        return found if found is not None and self._is_own(found) else None

    async def held(self, run_id: str, fence: int) -> "ProxiedRun":
        """The agent's own run, held under this fence; it may do its next thing."""
        run = await self._store.run(self._office.workspace, run_id)
        if run is None or run.agent != self.agent or run.asked_by != self.asked_by:
            raise NotFound("you have no such run")
        if not fence:
            raise InvalidArguments(f"run {run.code} is held under a fence; send the one that you were given with it")
        active = ProxiedRun(self._office, run, 0)
        active.take(fence)
        if run.state is RunState.PAUSED:
            raise RunPaused(run.code, run.by, run.reason)
        active.enter_gate()
        await active.count_day()
        return active

    # What all of that shares

    async def _once_going(self, patience: float, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gave while nothing holds the agent up; held up in that very moment, nothing was written."""
        while True:
            await self._until_go(patience)
            try:
                return await make()
            except (HeldUp, PolicyMoved):
                await self._judgement.refresh()
            except Held as held:
                raise stopped_or_paused(held) from None

    async def _until_go(self, patience: float) -> None:
        try:
            await self._judgement.until_go(self.agent, patience)
        except RunStopped as stopped:
            switch = self._judgement.held_up(self.agent)
            if switch is not None and switch.setting is Setting.PAUSE:
                raise RunPaused("", switch.by, switch.reason, says=switch.says) from stopped
            raise

    def _execution(self, worker: str, lease: timedelta = LEASE) -> Unheld:
        office = self._office
        return Unheld(office.store, office.vault, office.portal, worker, lease)

    def _is_own(self, request: Request) -> bool:
        return request.ask.agent == self.agent and request.ask.asked_by == self.asked_by

    def _own(self, request: Request) -> Request:
        if not self._is_own(request):
            raise Conflict(
                "this step was used by somebody else; give it another key", request_id="", code="", state="taken"
            )
        return request


class ProxiedRun(HeldRun):
    """A run whose process is elsewhere, for as long as one call of it takes here."""

    def take(self, fence: int) -> None:
        """Everything is done under the fence that its process was given."""
        self._fence = fence
        self._lost = fence != self._record.fence

    async def count_day(self) -> None:
        """What the agent's other runs cost today is known, where policy looks at that."""
        await self._tally.count_the_day()

    async def read_once(self) -> None:
        """A call that simply runs is a step too."""
        await self._move(lambda fence: Progress(fence, steps=1))


def stopped_or_paused(held: Held) -> RunStopped:
    """What to tell an agent whose run was held up in that very moment."""
    run = held.run
    kind = RunPaused if run.state is RunState.PAUSED else RunStopped
    return kind(run.code, run.by, run.reason)


def _is_ready(request: Request, made: Tool) -> None:
    """It may begin, or the error says what became of it."""
    if request.state is State.APPROVED or (request.state is State.UNKNOWN and request.is_idempotent):
        return
    named = {"request_id": request.id, "code": request.code, "state": str(request.state)}
    if request.ask.kind is Kind.QUESTION:
        raise Conflict(f"request {request.code} is a question; there is nothing to carry out", **named)
    if request.state is State.PENDING:
        raise Conflict(f"request {request.code} waits for a person; wait for its outcome first", **named)
    if request.state is not State.RUNNING:
        result_of(request, made)
    raise refused_again(request)


def _fits_here(schema: Mapping[str, Json] | None, trusted: bool) -> None:
    """People's changes are checked against the schema, so one from a stranger must be cheap to check."""
    if schema is None:
        return
    if len(canonical(schema)) > _SCHEMA_BYTES:
        raise InvalidArguments(f"the schema is larger than {_SCHEMA_BYTES // 1024} KiB; leave out what is not needed")
    if _size_of(schema) > _SCHEMA_NODES:
        raise InvalidArguments(f"the schema has more than {_SCHEMA_NODES:,} parts; describe less of it")
    check_schema(schema)
    if not trusted and (costly := _keys_of(schema) & _COSTLY):
        raise InvalidArguments(
            f"the schema uses {sorted(costly)[0]}, which is taken only from agents that the policy lists under "
            "agents:; write it without, or ask an operator to list this agent"
        )


def _cheap_together(schema: Mapping[str, Json] | None, args: Mapping[str, Json]) -> None:
    """Each part of a schema may be held against each value, and both come from a stranger."""
    if schema is None:
        return
    parts = _size_of(schema)
    if parts * _size_of(args, _MOST_CHECKS // parts) > _MOST_CHECKS:
        raise InvalidArguments(
            f"the schema has {parts:,} parts, and the arguments have more than {_MOST_CHECKS // parts:,}: checking "
            "what a person changes would take too long; propose it in smaller parts, or leave the schema out"
        )


def _told_plainly(context: Context) -> None:
    no_secret("key", context.key)
    no_secret("draft_of", context.draft_of)


def _size_of(value: Json, most: int = _SCHEMA_NODES) -> int:
    """How many parts there are: checking a schema takes as long as there are many of them, not as it is long."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        item = waiting.pop()
        count += 1
        waiting.extend(item.values() if isinstance(item, Mapping) else item if isinstance(item, list) else ())
    return count


def _keys_of(value: Json) -> set[str]:
    found: set[str] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            found.update(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found
