"""The active policy and standing grants of a workspace, and what they say of a call."""

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from assentry.core.action import Action, Assessment, Fact, Json
from assentry.core.canonical import canonical, digest
from assentry.core.classify import Profile, classify, profile
from assentry.core.decision import Candidate, Rejudged
from assentry.core.declared import Said
from assentry.core.grant import Grant, concerns, is_live
from assentry.core.judge import is_stricter, judge, merged, why_void
from assentry.core.policy import SHORTEST_KNOWN, Mode, Policy, builtin_policy
from assentry.core.request import STOPS, Kind, Request
from assentry.core.run import RunState
from assentry.core.situation import Standing, in_situation
from assentry.core.switch import Setting, Switch, holding
from assentry.core.text import render
from assentry.core.title import default_title
from assentry.core.verdict import GateKind, Trigger, Verdict
from assentry.core.votes import demanded, no_longer, shortfall, standing, stricter_by
from assentry.core.vouching import Definition, Vouched, source_of
from assentry.engine.office import READ_SECONDS, HeldUp
from assentry.engine.sealing import unsealed
from assentry.engine.threads import beside, in_thread
from assentry.engine.waiting import SWEEP_SECONDS, Ear
from assentry.errors import AssentryError, InvalidArguments, KeyProblem, PolicyError, RunStopped, StoreError
from assentry.ports import Store, StoredPolicy, Vault
from assentry.system import clock

if TYPE_CHECKING:
    from assentry.engine.holding import HeldRun
    from assentry.engine.tool import Tool

T = TypeVar("T")
Submit = Callable[[Coroutine[Any, Any, None]], "Future[None]"]
"""Has the work done on some event loop that goes on."""

log = logging.getLogger("assentry.judgement")

_READ_TRIES = 5
_TOO_SLOW = "reading it takes longer than limits.known_for; raise that, or see what is slow"


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, for which run and step, and what the agent says about it. What it says are claims, not facts."""

    agent: str = "agent"
    run: str = ""
    key: str = ""
    goal: str = ""
    why: str = ""
    confidence: float | None = None
    cost: float | None = None
    alternatives: tuple[str, ...] = ()
    draft_of: str = ""
    active: "HeldRun | None" = field(default=None, compare=False, repr=False)
    """The run that the call belongs to, where this process holds one."""

    def __post_init__(self) -> None:
        """What cannot be put on record is refused here, where whoever said it can be told."""
        for name in ("agent", "run", "key", "goal", "why", "draft_of"):
            _text(name, getattr(self, name))
        if self.agent in ("", "*"):
            raise InvalidArguments("an agent has a name, and * stands for all of them; pass agent=")
        for name in ("confidence", "cost"):
            value = getattr(self, name)
            if value is not None and (type(value) not in (int, float) or not abs(value) <= _HUGE):
                raise InvalidArguments(f"{name} must be a number; leave it out where there is none")
            if value is not None and name == "cost" and value < 0:
                raise InvalidArguments("a cost is not negative")
        if not isinstance(self.alternatives, tuple):
            raise InvalidArguments("alternatives must be a list of texts")
        for each in self.alternatives:
            _text("an alternative", each)


_HUGE = 1e15
_KEPT_PROFILES = 4_096
"""Names that an agent makes up must not fill the memory."""


def _text(name: str, value: object) -> None:
    if type(value) is not str:
        raise InvalidArguments(f"{name} must be text, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidArguments(f"{name} contains half a surrogate pair; pass valid Unicode") from None


class Judgement:
    """Judges calls by the policy that is active in the store, or the built-in one where there is none.

    What it knows of policy, grants and switches is good for `limits.known_for` from when it was read. Later nothing
    runs by it: it is read again first. `submit` is where that is done; without it, on the loop of whoever waits.
    """

    def __init__(
        self,
        store: Store,
        workspace: str,
        fallback: Policy | None = None,
        vault: Vault | None = None,
        *,
        submit: Submit | None = None,
    ) -> None:
        self._store, self._workspace = store, workspace
        self._vault = vault
        """Opens what is sealed in a call on record, where that is judged again."""
        self._submit = submit or _on_this_loop
        self.until = 0.0
        """Until when what is known here may be gone by, as `clock` counts."""
        self._half = 0.0
        """From when on it is read again while it is still good."""
        self._reading: Future[None] | None = None
        self._unusable: tuple[int, PolicyError] | None = None
        self._fallback = fallback or builtin_policy()
        self.policy: Policy = self._fallback
        self.version = self._latest = 0
        """The version of the active policy, as last heard; 0 where none was ever applied."""
        self.grants: tuple[Grant, ...] = ()
        self.vouched: frozenset[Vouched] = frozenset()
        """Tools of sources that nobody trusts, for which a person vouched."""
        self.switches: tuple[Switch, ...] = ()
        """Those that hold somebody up."""
        self.denied: frozenset[str] = frozenset()
        """Agents that people denied something since they last allowed them anything."""
        self._locked: Trigger | None = None
        """Why what would run by itself waits, while the active policy cannot be used."""
        self._holds_reads = self._was_read = False
        self._held_up: list[Ear] = []
        self._asked, self._told, self._judges_by, self._taking = count(1), 0, 0, threading.Lock()
        self._starting = threading.Lock()
        self._profiles: dict[tuple[str, int], tuple[Tool, Profile]] = {}

    async def refresh(self) -> None:
        """The policy, the grants and the switches are those of the store."""
        store, workspace = self._store, self._workspace
        mine, began = next(self._asked), clock()
        switches, stored, grants, vouched = await asyncio.gather(
            store.switches(workspace), store.policy(workspace), store.grants(workspace), store.vouched(workspace)
        )
        # The gate's own loop hears of changes, and its callers look by themselves: two threads, one after the other.
        with self._taking:
            # Somebody who asked later may have been told already.
            if mine > self._told:
                self._told = mine
                # First of all, since they hold whatever may be wrong with the rest.
                self.switches = tuple(switch for switch in switches if switch.is_held)
                self.denied = frozenset(switch.agent for switch in switches if switch.denials)
                for ear in tuple(self._held_up):
                    ear.hear(None)
                self._latest = 0 if stored is None else stored.version
        policy = await self._read(stored)
        with self._taking:
            if mine > self._judges_by:
                self._judges_by = mine
                self.policy, self.version, self.grants = policy, 0 if stored is None else stored.version, grants
                self.vouched = vouched
                self._locked, self._was_read = None, True
                self._good_for(began, policy.limits.known_for.total_seconds())

    def _good_for(self, began: float, seconds: float) -> None:
        """What was read from `began` on may be gone by for so long. Set last, after what it is about."""
        self._half = began + seconds / 2
        self.until = began + seconds

    def known_for(self) -> float:
        """How many seconds what was read may be gone by, by the policy known here."""
        return self.policy.limits.known_for.total_seconds()

    @property
    def is_current(self) -> bool:
        """What is known here was read recently enough to go by it."""
        return clock() < self.until

    def holds(self, until: float) -> bool:
        """Whether what was judged by what was known `until` then may run now; asked last, right before it does.

        Where more than half of the time is used up it is read again meanwhile, so that a busy gate never waits for it.
        """
        now = clock()
        if now >= self._half:
            self._half = math.inf  # once: what fails is tried again by whoever finds that the time is up
            with suppress(AssentryError, RuntimeError):
                self._begin_reading()
        return now < until

    async def renewed(self) -> None:
        """What is known here is current, read again if need be; `StoreError` where it cannot be, and nothing runs."""
        for _ in range(_READ_TRIES):
            if self.is_current:
                return
            try:
                # The reading ends by itself before that, unless the loop that it is done on stands still.
                async with asyncio.timeout(READ_SECONDS + 1):
                    await asyncio.shield(asyncio.wrap_future(self._begin_reading()))
            except TimeoutError:
                raise _nothing_runs("the database does not answer") from None
            except StoreError as problem:
                raise _nothing_runs(str(problem)) from problem
        if not self.is_current:
            raise _nothing_runs(_TOO_SLOW)

    def renew_beside(self) -> None:
        """The same for a thread whose own event loop must not be waited on: it is read in another one."""
        if self.is_current:
            return
        try:
            beside(self._read_again(), READ_SECONDS)
        except StoreError as problem:
            raise _nothing_runs(str(problem)) from problem
        if not self.is_current:
            raise _nothing_runs(_TOO_SLOW)

    def _begin_reading(self) -> "Future[None]":
        """The reading that goes on, begun here if there was none."""
        with self._starting:
            if self._reading is None or self._reading.done():
                self._reading = self._submit(self._read_again())
            return self._reading

    async def _read_again(self) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self.look_again()
        except TimeoutError:
            raise StoreError(f"{self._store.address} does not answer; see that the database runs there") from None

    async def look_again(self) -> None:
        """As `refresh`; where the active policy cannot be used here, what would run by itself waits for a person."""
        began = clock()
        try:
            await self.refresh()
        except PolicyError as problem:
            if self._locked is None:
                log.error("the active policy cannot be loaded, so everything that changes something waits: %s", problem)  # noqa: TRY400
            self.lock_down("it does not load in this version; see the log", began)

    async def _read(self, stored: StoredPolicy | None) -> Policy:
        """The stored policy, read beside the loop, where a large file would keep everything else waiting."""
        if stored is None:
            return self._fallback
        if stored.version == self.policy.version:
            return self.policy
        if self._unusable is not None and self._unusable[0] == stored.version:
            raise self._unusable[1].with_traceback(None)
        from assentry.core.policy_file import stored_policy

        try:
            return await in_thread(stored_policy, stored.text, stored.version)
        except PolicyError as problem:
            self._unusable = (stored.version, problem)
            raise

    def held_up(self, agent: str) -> Switch | None:
        """The stop switch that holds this agent up."""
        return holding(self.switches, agent) if self.switches else None

    async def until_go(self, agent: str, patience: float | None = None) -> None:
        """No switch holds the agent up. Paused, it waits as long as it has patience; stopped, it is turned away."""
        if not self.is_current:
            await self.renewed()
        end = None if patience is None else time.monotonic() + patience
        while (switch := self.held_up(agent)) is not None:
            left = SWEEP_SECONDS if end is None else min(SWEEP_SECONDS, end - time.monotonic())
            if switch.setting is Setting.STOP or left <= 0:
                raise RunStopped("", switch.by, switch.reason, says=switch.says)
            ear = Ear()
            self._held_up.append(ear)
            try:
                if self.held_up(agent) is switch:
                    async with asyncio.timeout(left):
                        await ear.event.wait()
            except TimeoutError:
                await self.refresh()
            finally:
                self._held_up.remove(ear)

    def turn_away(self, agent: str) -> None:
        """No switch holds the agent up; raises `RunStopped` where one does, for callers that cannot wait."""
        switch = self.held_up(agent)
        if switch is not None:
            raise RunStopped("", switch.by, switch.reason, says=switch.says)

    async def once_going(self, agent: str, patience: float | None, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gave, called while no switch holds the agent up; set in that very moment, it holds still."""
        while True:
            if self.switches:
                await self.until_go(agent, patience)
            try:
                return await make()
            except HeldUp:
                await self.refresh()

    def lock_down(self, reason: str, began: float | None = None) -> None:
        """What the last policy that could be used let run by itself waits for a person: the active one cannot be used.

        The last one goes on judging, so that nothing is looser than it was. Reads run as it says; where there never was
        one they wait, too.
        """
        says = f"the active policy cannot be used: {reason}"
        self._locked = Trigger("locked down", says, GateKind.HARD)
        self._holds_reads = not self._was_read
        self.policy = replace(self.policy, mode=Mode.ENFORCE, version=-1)
        self.version = self._latest
        self.grants, self.vouched = (), frozenset()
        # How long an instance may go on is said by a policy that cannot be read here: the shortest is never too long.
        self._good_for(clock() if began is None else began, SHORTEST_KNOWN.total_seconds())

    def profile_of(self, tool: "Tool") -> Profile:
        """What is known of the tool before any call, with what the policy's `actions:` section says of it."""
        found = self.policy.declaration_for(tool.name) if self.policy.declared else None
        if found is None:
            return tool.profile
        key = (tool.name, self.policy.version)
        known = self._profiles.get(key)
        # Only for this very tool: another of the same name may be less trusted, or have another schema.
        if known is not None and known[0] is tool:
            return known[1]
        said = Said(
            tool.declared, found.declaration, found.instead_of_code, found.because, tool.claimed, tool.trusted,
            tool.believed,
        )  # fmt: skip
        made = profile(tool.name, tool.description, tool.schema, said)
        if len(self._profiles) >= _KEPT_PROFILES:
            self._profiles.clear()
        self._profiles[key] = (tool, made)
        return made

    def _unclaimed_profile(self, tool: "Tool") -> Profile:
        """What would be known of the tool if whoever offers it had said nothing of it."""
        found = self.policy.declaration_for(tool.name) if self.policy.declared else None
        if found is None:
            return profile(tool.name, "", tool.schema, Said(tool.declared, trusted=tool.trusted))
        said = Said(tool.declared, found.declaration, found.instead_of_code, found.because, trusted=tool.trusted)
        return profile(tool.name, "", tool.schema, said)

    def vouches_for(self, agent: str) -> bool:
        """The operator lists the agent in the policy and vouches for it."""
        entry = self.policy.agent_named(agent)
        return entry is not None and entry.trusted

    def judged(
        self,
        tool: "Tool",
        args: Mapping[str, Json],
        context: Context,
        now: datetime,
        facts: Sequence[Fact] = (),
        fired: tuple[Trigger, ...] = (),
        without: Collection[str] = (),
        standing: Standing | None = None,
        grants: tuple[Grant, ...] | None = None,
    ) -> tuple[Action, Assessment, Verdict]:
        """The call as an action, what it would do, and what policy says.

        `without` names grants not to use; `standing` is where its run stood, if not where it stands now; `grants` are
        those that may be used, if not those that stand.
        """
        policy = self.policy
        if tool.vouched_as_agent and not self.vouches_for(context.agent):
            from assentry.engine.tool import unvouched

            tool = unvouched(tool)
        action = Action(
            tool.name,
            args,
            context.agent,
            tool.description,
            tool.schema,
            tool.declared,
            tool.trusted,
            context.why,
            context.goal,
            context.confidence,
            context.cost,
            context.alternatives,
            tool.claimed,
            tool.vouched_as_agent,
            tool.source if tool.trusted or tool.source else source_of(context.agent),
            tool.definition if tool.trusted or tool.definition else definition_of(tool).digest,
            tool.believed,
        )
        assessment = classify(self.profile_of(tool), args, domains=policy.domains)
        if facts:
            assessment = replace(assessment, facts=(*assessment.facts, *facts))

        def unclaimed() -> Assessment:
            found = classify(self._unclaimed_profile(tool), args, domains=policy.domains)
            return replace(found, facts=(*found.facts, *facts)) if facts else found

        grants = self.grants if grants is None else grants
        if without:
            grants = tuple(grant for grant in grants if grant.id not in without)
        situation = in_situation(self.standing(context, now) if standing is None else standing, grants, self.vouched)
        if self._locked is not None and (self._holds_reads or not assessment.only_reads):
            fired = (*fired, self._locked)
        verdict = judge(policy, action, assessment, situation, now, fired, None if action.trusted else unclaimed)
        return action, assessment, verdict

    def standing(self, context: Context, now: datetime) -> Standing:
        """Where the run of a call stands now; outside of runs, what the agent says."""
        if context.active is not None:
            return context.active.standing(now)
        return Standing(context.run, context.goal, context.agent)

    def judged_again(
        self,
        tool: "Tool",
        request: Request,
        now: datetime,
        facts: Sequence[Fact] = (),
        candidate: Candidate | None = None,
        grants: tuple[Grant, ...] | None = None,
    ) -> tuple[Action, Assessment, Verdict]:
        """The same for a call that is on record, by the policy of now.

        It is judged on all that its agent said and on where its run stood when it was proposed. `candidate` is what
        would run instead of what is to run; `grants` as for `judged`.
        """
        ask, action = request.ask, (candidate or request.candidate).action
        context = Context(
            ask.agent, ask.run, ask.step, action.goal, action.why, action.confidence, action.cost, action.alternatives
        )
        judged = self.judged(tool, action.args, context, now, facts, standing=ask.standing, grants=grants)
        return (
            self._with_what_is_sealed(judged, tool, request, context, now, facts, grants) if request.sealed else judged
        )

    def _with_what_is_sealed(
        self, judged: tuple[Action, Assessment, Verdict], tool: "Tool", request: Request, context: Context,
        now: datetime, facts: Sequence[Fact], grants: tuple[Grant, ...] | None,
    ) -> tuple[Action, Assessment, Verdict]:  # fmt: skip
        """Judged on what is sealed in it as well: the stricter holds. What cannot be opened here cannot be allowed."""
        action, shown, verdict = judged
        try:
            if self._vault is None:
                raise KeyProblem("no keys")
            args = unsealed(self._vault, request.id, action.args, request.sealed)
        except KeyProblem:
            says = "what is sealed in it cannot be opened here, so it cannot be judged by the policy of now"
            sealed = Trigger("sealed", says, GateKind.FORBID)
            standing = request.ask.standing
            given = self.judged(tool, action.args, context, now, facts, (sealed,), standing=standing, grants=grants)
            return action, shown, given[2]
        _, full, on_all = self.judged(tool, args, context, now, facts, standing=request.ask.standing, grants=grants)
        risk = max(shown.risk, full.risk, key=lambda risk: risk.rank)
        shown = replace(shown, effect=full.effect, risk=risk, vouched=full.vouched)
        return action, shown, merged(on_all, verdict)

    def demands(self, tool: "Tool", request: Request, now: datetime) -> Verdict:
        """What a request demands of people by the policy of now: never less than it was asked with."""
        candidate = request.candidate
        stored = candidate.verdict
        if request.ask.kind is not Kind.ACTION or candidate.action.name in STOPS:
            return replace(stored, policy_version=self.policy.version)  # a run or its agent asks, whatever policy says
        facts = tuple(fact for fact in candidate.assessment.facts if fact.looked_up)
        _, _, fresh = self.judged_again(tool, request, now, facts)
        return demanded(fresh, merged(stored, fresh))

    async def is_paused(self, request: Request) -> bool:
        """A switch, or the run that it belongs to, holds up what is approved."""
        held = self.held_up(request.ask.agent)
        if held is not None and held.setting is Setting.PAUSE:
            return True
        run = await self._store.run(self._workspace, request.ask.run) if request.ask.run else None
        return run is not None and run.state is RunState.PAUSED

    async def objection(self, tool: "Tool", request: Request) -> tuple[str, int]:
        """Why what is approved may not begin by the policy known here, empty if it may; and that policy's version.

        Only while that version is the active one may it begin.
        """
        while True:
            version = self.version
            reason = await self._objection(tool, request)
            if version == self.version:
                return reason, version

    async def asked_anew(self, tool: "Tool", request: Request) -> Rejudged | None:
        """How people are asked again about what they approved, where more is demanded by now than they gave.

        Nothing where it may begin, where nobody voted, and where nobody may allow it any more.
        """
        if not request.is_voted or await self._stopped(request):
            return None
        demands = self.demands(tool, request, await self._store.now())
        _, void = standing(self.policy, request, demands)
        changes = (*stricter_by(request.candidate.verdict, demands), *no_longer(void))
        if demands.gate is GateKind.FORBID or not changes:
            return None
        return Rejudged(replace(request.candidate, verdict=demands), changes, "policy")

    async def _stopped(self, request: Request) -> str:
        """Who stopped what the request belongs to, in a sentence; empty if nobody did."""
        run = await self._store.run(self._workspace, request.ask.run) if request.ask.run else None
        held = self.held_up(request.ask.agent)
        if held is not None and held.setting is Setting.STOP:
            return held.says
        if run is not None and run.state in (RunState.STOPPING, RunState.STOPPED):
            return f"its run was stopped by {run.by}"
        return ""

    async def _objection(self, tool: "Tool", request: Request) -> str:
        """Judged anew where nobody decided, whatever its proposer made of it, and where the policy has changed."""
        candidate, permit = request.candidate, request.permit
        if stopped := await self._stopped(request):
            return stopped
        if not request.is_voted and (used := candidate.verdict.grant) is not None:
            return await self._not_granted(tool, request, used)
        if request.is_voted and permit is not None and permit.policy_version == self.policy.version:
            return shortfall(self.policy, request, candidate.verdict)
        now = await self._store.now()
        if request.is_voted:
            demands, most = self.demands(tool, request, now), candidate.verdict.gate
            if not is_stricter(demands.gate, most):
                return shortfall(self.policy, request, demands)
            return f"policy says {demands.gate}: {demands.because}"
        most = GateKind.SOFT if request.word == "silence" else GateKind.WATCH
        return self._beyond(most, tool, request, now)

    def _beyond(
        self, most: GateKind, tool: "Tool", request: Request, now: datetime, grants: tuple[Grant, ...] | None = None
    ) -> str:
        """What policy says of a call on which nobody voted, where that is more than `most`; empty if it is not."""
        facts = tuple(fact for fact in request.candidate.assessment.facts if fact.looked_up)
        _, _, verdict = self.judged_again(tool, request, now, facts, grants=grants)
        return f"policy says {verdict.gate}: {verdict.because}" if is_stricter(verdict.gate, most) else ""

    async def _not_granted(self, tool: "Tool", request: Request, grant_id: str) -> str:
        """Why the grant that a request names does not allow it by now. It must have been charged for this very request.

        Each charge counts the grant up and leaves an entry; more entries than that were not made by charging.
        """
        given = await self._store.grants(self._workspace, live_only=False)
        grant = next((each for each in given if each.id == grant_id), None)
        if grant is None or not concerns(grant, request.candidate.action):
            return "no such grant was given"
        if grant.revoked_at is not None:
            return "its grant was revoked"
        if request.candidate.assessment.risk > grant.max_risk:
            return f"its grant is for actions up to {grant.max_risk}"
        if void := why_void(self.policy, grant):
            return f"its grant does not count: {void}"
        if not is_live(grant, now := await self._store.now()):
            return "its grant has expired"
        # What it was charged for this call is not held against it once more.
        if says := self._beyond(GateKind.WATCH, tool, request, now, (replace(grant, used=0, spent=Decimal(0)),)):
            return says
        await self._store.sequence(self._workspace)
        charged: list[str] = []
        start = 0
        while page := await self._store.entries(self._workspace, subject=grant_id, start=start, limit=1000):
            told = [json.loads(entry.text) for entry in page]
            charged += [each["body"].get("request", "") for each in told if each["kind"] == "grant.used"]
            start = page[-1].index + 1
        if request.id not in charged or len(charged) > grant.used:
            return "its grant was not charged for it"
        return ""

    def candidate(
        self,
        tool: "Tool",
        action: Action,
        assessment: Assessment,
        verdict: Verdict,
        context: Context,
        at_least: Verdict | None = None,
    ) -> Candidate:
        """Exactly what would run, with its digests. `at_least` is a verdict that may not be undercut."""
        args_text = canonical(action.args)
        content = digest(action.name, tool.schema_text, args_text)
        permit = digest(content, self._workspace, context.agent, context.run, context.key)
        rule = self.policy.rule_named(verdict.rule)
        # How the tool is worded counts for as long as somebody vouches for whoever worded it.
        own = tool.says if tool.trusted == action.trusted else ""
        template = (rule.says if rule else "") or own
        says = (
            render(template, action.args, assessment.facts)
            if template
            else default_title(action.name, assessment.facts, action.args)
        )
        verdict = verdict if at_least is None else stricter(at_least, verdict)
        return Candidate(action, args_text, content, permit, assessment, verdict, says)


def _on_this_loop(work: Coroutine[Any, Any, None]) -> "Future[None]":
    return asyncio.run_coroutine_threadsafe(work, asyncio.get_running_loop())


def _nothing_runs(why: str) -> StoreError:
    return StoreError(f"nothing runs here until the policy can be read again: {why}")


def definition_of(tool: "Tool") -> Definition:
    """The tool as whoever offers it describes it."""
    return Definition(tool.name, tool.description, tool.schema, tool.claimed)


def stricter(first: Verdict, second: Verdict) -> Verdict:
    """The verdict for changed bytes: `second`, judged on them, unless the first is stricter; never a smaller quorum."""
    return replace(merged(first, second), observed=None, grant=None)
