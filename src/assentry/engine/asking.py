"""From a call to its record: judged, with what is secret sealed, and asked about once."""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from uuid_utils.compat import uuid7

from assentry.core.action import Action, Assessment, Fact, Json
from assentry.core.advance import opened
from assentry.core.audit import Entry
from assentry.core.canonical import canonical, digest, restore
from assentry.core.change import Change
from assentry.core.decision import Awaited, Findable
from assentry.core.grant import covers, spending, use
from assentry.core.request import Ask, Executor, Kind, Option, Request, State
from assentry.core.situation import Standing
from assentry.core.verdict import GateKind, Trigger, Verdict
from assentry.engine.callers import Callers, depends, moved
from assentry.engine.execution import Execution
from assentry.engine.importing import not_while_importing
from assentry.engine.judgement import Context, Judgement, merged
from assentry.engine.office import Outpaced, nobody_holds
from assentry.engine.pressure import Throttle
from assentry.engine.sealing import holds_marks, marks_in, redacted, sealed
from assentry.engine.threads import in_thread
from assentry.engine.tool import OptionSpec, Tool, looked_up, resolved
from assentry.engine.wait_notice import notice
from assentry.engine.waiting import Hub
from assentry.errors import (
    Conflict,
    DuplicateStep,
    GrantSpent,
    InvalidArguments,
)
from assentry.ports import Store, Vault, View

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


Named = Callable[[], Awaitable[str]]
"""Gives the name under which the process that waits shows that it lives."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call, judged but not yet on record."""

    tool: Tool
    args: Mapping[str, Json]
    context: Context
    action: Action
    assessment: Assessment
    verdict: Verdict
    injected: Mapping[str, Any] = field(default_factory=dict)
    looked_up: tuple[Fact, ...] = ()
    fired: tuple[Trigger, ...] = ()
    """Triggers that judging alone would not find again."""
    standing: Standing | None = None
    """Where its run stood when it was judged."""


@dataclass(slots=True)
class CallLine:
    """An entry about a call that simply runs; its digest is computed where the entry is written, not in the call."""

    at: datetime
    workspace: str
    prepared: Prepared
    vault: Vault

    def entry(self) -> Entry:
        """The entry as it goes into the log."""
        prepared = self.prepared
        clean: Mapping[str, Json] = prepared.args
        if prepared.tool.secret or any(fact.name == "secret" for fact in prepared.assessment.facts):
            clean, _ = sealed(self.vault, "", clean, prepared.tool.secret)
        body = {
            "action": prepared.action.name,
            "agent": prepared.context.agent,
            "run": prepared.context.run,
            "rule": prepared.verdict.rule,
            "policy_version": prepared.verdict.policy_version,
            "content_digest": digest(prepared.action.name, prepared.tool.schema_text, canonical(clean)),
        }
        return Entry("call.ran", self.at, self.workspace, "", prepared.context.agent, body)


class Asking:
    """Puts calls of one process on record, in one workspace."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        judgement: Judgement,
        execution: Execution,
        hub: Hub,
        vault: Vault,
        asked_by: str,
        tools: Mapping[str, Tool],
        callers: Callers,
    ) -> None:
        self.store, self.workspace, self.judgement, self.execution, self.hub = (
            store,
            workspace,
            judgement,
            execution,
            hub,
        )
        self.asked_by = asked_by
        self.on_wait: Callable[[Request], None] = notice()
        self.vault, self.tools, self.callers = vault, tools, callers
        self.throttle = Throttle(store, workspace)

    def prepare(
        self,
        tool: Tool,
        args: Mapping[str, Json],
        context: Context,
        injected: Mapping[str, Any],
        fired: tuple[Trigger, ...] = (),
    ) -> Prepared:
        """The call, judged on what its arguments say. Touches nothing."""
        if context.key and not context.run:
            context = replace(context, run=context.agent)
        now = datetime.now(UTC)
        standing = self.judgement.standing(context, now)
        action, assessment, verdict = self.judgement.judged(tool, args, context, now, fired=fired, standing=standing)
        if context.active is not None and verdict.gate is GateKind.RUN and not assessment.only_reads:
            # In a run it is put on record with its result, so that a run that is taken again does not repeat it.
            verdict = replace(verdict, gate=GateKind.WATCH)
        return Prepared(tool, args, context, action, assessment, verdict, injected, fired=fired, standing=standing)

    def runs_at_once(self, prepared: Prepared) -> bool:
        """The call need not be on record before it runs; a line about it will be, soon."""
        return prepared.verdict.gate is GateKind.RUN and prepared.tool.facts is None and not prepared.tool.detached

    def note(self, prepared: Prepared) -> None:
        """A line about a call that simply runs is on its way to the log."""
        if prepared.context.active is not None:
            prepared.context.active._read()
        self.store.record(CallLine(datetime.now(UTC), self.workspace, prepared, self.vault).entry)

    async def look_up(self, prepared: Prepared) -> Prepared:
        """The call, judged again with what the operator's own lookup says; a lookup that fails makes it wait."""
        tool = prepared.tool
        if tool.facts is None:
            return prepared
        found: tuple[Fact, ...] = ()
        fired: tuple[Trigger, ...] = ()
        try:
            found = looked_up(await resolved(await in_thread(tool.facts, prepared.args)))
            fired = prepared.fired
        except Exception as problem:  # noqa: BLE001  whatever it is, not knowing is a reason to ask
            says = f"the lookup of facts failed ({type(problem).__name__}), so its reach is not known"
            fired = (*prepared.fired, Trigger("lookup failed", says, GateKind.HARD))
        return self._judged(replace(prepared, looked_up=found, fired=fired))

    def _judged(self, prepared: Prepared) -> Prepared:
        """The call, judged on where its run stands by now."""
        now, context = datetime.now(UTC), prepared.context
        standing = self.judgement.standing(context, now)
        action, assessment, verdict = self.judgement.judged(
            prepared.tool, prepared.args, context, now, prepared.looked_up, prepared.fired, standing=standing
        )
        return replace(prepared, action=action, assessment=assessment, verdict=verdict, standing=standing)

    async def submit(
        self, prepared: Prepared, *, start: bool = True, request_id: str | None = None, caller: Named | None = None
    ) -> tuple[Request, bool]:
        """The request is on record: waiting, running, approved for a worker, or refused; and whether it is new.

        A step that already made its request gets that one back. Only what is new and running is ours to run. `caller`
        gives the name of the process that waits for it, where nothing but that process can find it again.
        """
        not_while_importing(f"{prepared.tool.name} is called")
        request_id = request_id or str(uuid7())
        given = prepared.args
        clean, secret = sealed(self.vault, request_id, given, prepared.tool.secret)
        passed = [value for name in prepared.tool.secret if isinstance(value := prepared.args.get(name), str)]
        context = self.discreet(prepared.context, passed)
        hidden = [self.vault.unseal(request_id, each) for each in secret.values()]
        if secret or context is not prepared.context:
            prepared = self._rejudged(replace(prepared, args=clean, context=context), given, hidden)
        signature = prepared.tool.signature
        if signature is not None and not secret and not signature.same_after_round_trip(clean):
            raise InvalidArguments(
                f"the arguments of {prepared.tool.name} change when they are written as JSON and read back; "
                "use types that survive that, so that what is shown is what runs"
            )
        active = prepared.context.active
        if active is not None and active.is_over:
            known = await active.step_on_record(prepared.context.key)
            return _same_call(known, prepared), False
        spent: set[str] = set()
        while True:
            try:
                return await self._recorded(prepared, request_id, secret, start, caller), True
            except DuplicateStep as known:
                there = await self._existing(known, prepared)
                return await self._waited_for_too(there, None if prepared.tool.detached else caller), False
            except GrantSpent as gone:
                spent.add(gone.grant_id)
            except Outpaced as faster:
                assert active is not None  # noqa: S101  only a run is outpaced
                active._saw(faster.run)
            prepared = self._rejudged(prepared, given, hidden, spent)

    async def _recorded(
        self, prepared: Prepared, request_id: str, secret: dict[str, str], start: bool, caller: Named | None
    ) -> Request:
        """The request, put on record; people are asked no more than policy allows."""
        if not prepared.verdict.gate.holds:
            return await self._opened(prepared, request_id, secret, start)
        context, limits = prepared.context, self.judgement.policy.limits
        name = "" if caller is None or prepared.tool.detached else await caller()
        async with self.throttle.admitted(context.agent, limits, context.run, context.key):
            return await self._opened(prepared, request_id, secret, start, name)

    def discreet(self, context: Context, passed: Sequence[str]) -> Context:
        """What the agent says, without the secrets that it passes or that it blurts out."""
        said = {
            "why": context.why, "goal": context.goal, "alt": list(context.alternatives), "run": context.run,
            "step": context.key,
        }  # fmt: skip
        clean = redacted(self.vault, said, passed)
        if clean == said:
            return context
        return replace(
            context,
            why=clean["why"],
            goal=clean["goal"],
            alternatives=tuple(clean["alt"]),
            run=clean["run"],
            key=clean["step"],
        )

    def _rejudged(
        self,
        prepared: Prepared,
        given: Mapping[str, Json],
        hidden: Sequence[str] = (),
        without: Collection[str] = (),
    ) -> Prepared:
        """Judged on what was given, secrets and all, and on what is left when they are hidden: the stricter holds.

        The facts are those of what was given, since those are true, except where they would tell a secret.
        """
        now, context, known, fired = datetime.now(UTC), prepared.context, prepared.looked_up, prepared.fired
        judge, standing = self.judgement.judged, self.judgement.standing(context, now)
        action, shown, verdict = judge(prepared.tool, prepared.args, context, now, known, fired, without, standing)
        _, full, on_all = judge(prepared.tool, given, context, now, known, fired, without, standing)
        if prepared.args is not given:
            told = [fact for fact in full.facts if self._is_discreet(fact, hidden)]
            names = {fact.name for fact in told}
            facts = tuple(told) + tuple(fact for fact in shown.facts if fact.name not in names | {"only_reads"})
            shown = replace(
                shown, effect=full.effect, risk=max(shown.risk, full.risk), facts=facts, vouched=full.vouched
            )
            verdict = merged(on_all, verdict)
        else:
            verdict = on_all
        if context.active is not None and verdict.gate is GateKind.RUN and not shown.only_reads:
            verdict = replace(verdict, gate=GateKind.WATCH)
        return replace(prepared, action=action, assessment=shown, verdict=verdict, standing=standing)

    def _is_discreet(self, fact: Fact, hidden: Sequence[str]) -> bool:
        told: Json = [fact.says, fact.value]
        return bool(redacted(self.vault, told, hidden) == told) and not _tells(fact, hidden)

    async def _opened(
        self, prepared: Prepared, request_id: str, secret: dict[str, str], start: bool, caller: str = ""
    ) -> Request:
        context = prepared.context
        tool, verdict = prepared.tool, prepared.verdict
        candidate = self.judgement.candidate(tool, prepared.action, prepared.assessment, verdict, context)
        options = await self._options(prepared, request_id, secret) if verdict.gate.holds else ()
        template = Ask(
            id=request_id,
            code=new_code(),
            workspace=self.workspace,
            kind=Kind.ACTION,
            agent=context.agent,
            asked_by=self.asked_by,
            created_at=datetime.now(UTC),
            candidate=candidate,
            run=context.run,
            step=context.key,
            executor=Executor.WORKER if tool.detached else Executor.CALLER,
            options=options,
            if_denied=tool.if_denied,
            can_undo=tool.undo is not None,
            can_verify=tool.verify is not None,
            idempotent=tool.idempotent,
            claims=claims(context),
            template=tool.says,
            draft_of=context.draft_of,
            standing=prepared.standing,
            # What is passed beside the arguments (an object, a client) makes it another call.
            same="" if prepared.injected else digest(self.asked_by, "action", candidate.content_digest),
        )
        worker = self.execution.worker if start else ""

        def step(view: View) -> Change:
            nobody_holds(view)
            ask = replace(template, created_at=view.now, needed_by=_moment(tool.needed_by, view.now))
            change = opened(ask, view.now, worker=worker, lease=self.execution.lease, sealed=secret, caller=caller)
            if active is not None:
                change = replace(change, run=active._progress(view, candidate))
            return change if verdict.grant is None else _charged(change, prepared, view)

        active = context.active
        grants = () if verdict.grant is None else (verdict.grant,)
        run_id = None if active is None else active.id
        change = await self.store.transact(self.workspace, None, step, grants=grants, run=run_id, agent=context.agent)
        assert change is not None  # noqa: S101  the step always opens a request
        assert change.request is not None  # noqa: S101
        if active is not None:
            active._recorded(change.run)
        if change.request.state is State.RUNNING:
            self.execution.hold(change.request)
        return change.request

    async def put(self, ask: Ask, caller: Named | None = None) -> Request:
        """A request that was made by hand (a question) is on record. `caller` is as in `submit`."""
        not_while_importing("a question is asked")
        name = "" if caller is None else await caller()

        def step(view: View) -> Change:
            asked = replace(ask, created_at=view.now, needed_by=ask.needed_by)
            return opened(asked, view.now, worker="", lease=LEASE_NONE, caller=name)

        try:
            async with self.throttle.admitted(ask.agent, self.judgement.policy.limits, ask.run, ask.step):
                change = await self.store.transact(self.workspace, None, step)
        except DuplicateStep as known:
            existing = await self.store.request(self.workspace, known.request_id)
            if existing is None:
                raise
            return await self._waited_for_too(existing, caller)
        assert change is not None  # noqa: S101  the step always opens a request
        assert change.request is not None  # noqa: S101
        return change.request

    async def told_by_its_marks(self, prepared: Prepared) -> Request | None:
        """The request that exactly this call made before, where only the marks of its secrets are left of them."""
        context = prepared.context
        if not context.key or not holds_marks(prepared.args):
            return None
        known = await self.store.by_step(self.workspace, context.run, context.key)
        if known is None:
            return None
        # A secret that the agent left to the tool's own default has no mark yet.
        marks = dict.fromkeys(marks_in(known.ask.candidate.args_text), "")
        clean, _ = sealed(self.vault, known.id, prepared.args, prepared.tool.secret, marks)
        return _same_call(known, replace(prepared, args=clean))

    async def _waited_for_too(self, request: Request, caller: Named | None) -> Request:
        """The request, which whoever asked for the same again waits for as well, or can find again."""
        if not depends(request):
            return request
        event = Findable() if caller is None else Awaited(await caller())
        return await moved(self.store, self.workspace, request.id, event) or request

    async def _existing(self, known: DuplicateStep, prepared: Prepared) -> Request:
        request = await self.store.request(self.workspace, known.request_id)
        if request is None:
            raise known
        return _same_call(request, prepared)

    async def _options(self, prepared: Prepared, request_id: str, secret: dict[str, str]) -> tuple[Option, ...]:
        tool = prepared.tool
        specs: Sequence[OptionSpec] = (
            await resolved(tool.options(prepared.args)) if callable(tool.options) else tool.options
        )
        rule = self.judgement.policy.rule_named(prepared.verdict.rule)
        if rule is not None:
            specs = [*specs, *(OptionSpec(o.label, o.consequence, dict(o.set) or None, o.action) for o in rule.options)]
        return tuple(self._option(prepared, spec, request_id, secret) for spec in specs)

    def _option(self, prepared: Prepared, spec: OptionSpec, request_id: str, secret: dict[str, str]) -> Option:
        """The option with its exact bytes and their verdict, so that it can be seen before it is chosen."""
        if spec.change is None and not spec.instead:
            return Option(spec.label, spec.consequence, None)
        tool = prepared.tool if not spec.instead else self.tools.get(spec.instead)
        if tool is None:
            raise InvalidArguments(
                f"option {spec.label!r} names the action {spec.instead!r}, which is not guarded here"
            )
        changes = spec.change(prepared.args) if callable(spec.change) else spec.change or {}
        args = dict(changes) if spec.instead else {**prepared.args, **changes}
        plain = tool.signature.plain(args) if tool.signature is not None else restore(canonical(args))
        plain, hidden = sealed(self.vault, request_id, plain, tool.secret, secret)
        secret.update(hidden)
        action, assessment, verdict = self.judgement.judged(
            tool, plain, prepared.context, datetime.now(UTC), standing=prepared.standing
        )
        candidate = self.judgement.candidate(tool, action, assessment, replace(verdict, grant=None), prepared.context)
        return Option(spec.label, spec.consequence, candidate, tool.undo is not None, tool.idempotent)


LEASE_NONE = timedelta(0)


def claims(context: Context) -> dict[str, Json]:
    """What the agent says about its call, kept apart from facts. The goal of its run is told with the run."""
    known = context.active.record.goal if context.active is not None else ""
    said = {
        "why": context.why,
        "goal": context.goal if context.goal != known else "",
        "confidence": context.confidence,
        "cost": context.cost,
        "alternatives": list(context.alternatives),
    }
    return {name: value for name, value in said.items() if value not in ("", None, [])}


def _same_call(request: Request, prepared: Prepared) -> Request:
    """The request, if it was made by exactly this call."""
    content = digest(prepared.action.name, prepared.tool.schema_text, canonical(prepared.args))
    if request.ask.candidate.content_digest != content:
        raise Conflict(
            f"step {prepared.context.key!r} was used for another call (request {request.code}); "
            "give each call of a run a key of its own",
            request_id=request.id, code=request.code, state=str(request.state),
        )  # fmt: skip
    return request


def _charged(change: Change, prepared: Prepared, view: View) -> Change:
    """The change with the grant that allowed it used once, checked by the database's clock."""
    assert change.request is not None  # noqa: S101  it opens a request
    grant = view.grants[0] if view.grants else None
    if grant is None or not covers(grant, prepared.action, prepared.assessment, view.now):
        raise GrantSpent(
            "the grant no longer covers this; it is judged without it", grant_id=prepared.verdict.grant or ""
        )
    used = use(grant, spending(prepared.assessment) or 0, view.now)
    body = {"request": change.request.id, "used": used.used, "granted_by": grant.granted_by}
    line = Entry("grant.used", view.now, grant.workspace, grant.id, prepared.context.agent, body)
    return replace(change, grants=(used,)).also(line)


def _tells(fact: Fact, hidden: Sequence[str]) -> bool:
    """The fact repeats a secret in another spelling: in small letters, in part, or a number with its commas."""
    said = f"{fact.says}\n{fact.value}".casefold()
    numbers = said.replace(",", "")
    for secret in hidden:
        if secret.lstrip("-").replace(".", "", 1).isdecimal():
            if len(secret) >= _LEAST_TOLD and secret in numbers:
                return True
        elif any(len(part) >= _LEAST_TOLD and part.casefold() in said for part in (secret, *_in_address(secret))):
            return True
    return False


_LEAST_TOLD = 3
"""Anything shorter stands in every sentence."""


def _in_address(secret: str) -> tuple[str, ...]:
    """The name and the password in a web address."""
    _, scheme, rest = secret.partition("://")
    if not scheme or "@" not in rest:
        return ()
    user, _, password = rest.rpartition("@")[0].partition(":")
    return user, password, unquote(user), unquote(password)


def _moment(when: datetime | timedelta | None, now: datetime) -> datetime | None:
    return now + when if isinstance(when, timedelta) else when


def new_code() -> str:
    number, letters = secrets.randbelow(len(_ALPHABET) ** 8), ""
    for _ in range(8):
        number, letter = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[letter]
    return letters
