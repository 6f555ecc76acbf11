"""The active policy and standing grants of a workspace, and what they say of a call."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from assentry.core.action import Action, Assessment, Fact, Json
from assentry.core.canonical import canonical, digest
from assentry.core.classify import Profile, classify, profile
from assentry.core.decision import Candidate
from assentry.core.declared import Said
from assentry.core.grant import Grant, concerns
from assentry.core.judge import is_stricter, judge, strictest
from assentry.core.policy import Mode, Policy, builtin_policy
from assentry.core.request import STOPS, Kind, Request
from assentry.core.run import RunState
from assentry.core.situation import Standing, in_situation
from assentry.core.switch import Setting, Switch, holding
from assentry.core.text import render
from assentry.core.title import default_title
from assentry.core.verdict import GateKind, Quorum, Trigger, Verdict, joined
from assentry.core.votes import demanded, shortfall
from assentry.engine.office import HeldUp
from assentry.engine.threads import in_thread
from assentry.engine.waiting import SWEEP_SECONDS, Ear
from assentry.errors import InvalidArguments, RunStopped
from assentry.ports import Store, StoredPolicy

if TYPE_CHECKING:
    from assentry.engine.holding import HeldRun
    from assentry.engine.tool import Tool

T = TypeVar("T")


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
    """Judges calls by the policy that is active in the store, or the built-in one where there is none."""

    def __init__(self, store: Store, workspace: str, fallback: Policy | None = None) -> None:
        self._store, self._workspace = store, workspace
        self._fallback = fallback or builtin_policy()
        self.policy: Policy = self._fallback
        self.version = self._latest = 0
        """The version of the active policy, as last heard; 0 where none was ever applied."""
        self.grants: tuple[Grant, ...] = ()
        self.switches: tuple[Switch, ...] = ()
        """Those that hold somebody up."""
        self.denied: frozenset[str] = frozenset()
        """Agents that people denied something since they last allowed them anything."""
        self._locked: Trigger | None = None
        """Why what would run by itself waits, while the active policy cannot be used."""
        self._holds_reads = self._was_read = False
        self._held_up: list[Ear] = []
        self._asked, self._told, self._judges_by, self._taking = count(1), 0, 0, threading.Lock()
        self._profiles: dict[tuple[str, int], tuple[Tool, Profile]] = {}

    async def refresh(self) -> None:
        """The policy, the grants and the switches are those of the store."""
        store, workspace = self._store, self._workspace
        mine = next(self._asked)
        switches, stored, grants = await asyncio.gather(
            store.switches(workspace), store.policy(workspace), store.grants(workspace)
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
                self._locked, self._was_read = None, True

    async def _read(self, stored: StoredPolicy | None) -> Policy:
        """The stored policy, read beside the loop, where a large file would keep everything else waiting."""
        if stored is None:
            return self._fallback
        if stored.version == self.policy.version:
            return self.policy
        from assentry.core.policy_file import stored_policy

        return await in_thread(stored_policy, stored.text, stored.version)

    def held_up(self, agent: str) -> Switch | None:
        """The stop switch that holds this agent up."""
        return holding(self.switches, agent) if self.switches else None

    async def until_go(self, agent: str, patience: float | None = None) -> None:
        """No switch holds the agent up. Paused, it waits as long as it has patience; stopped, it is turned away."""
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

    async def once_going(self, agent: str, patience: float | None, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gave, called while no switch holds the agent up; set in that very moment, it holds still."""
        while True:
            if self.switches:
                await self.until_go(agent, patience)
            try:
                return await make()
            except HeldUp:
                await self.refresh()

    def lock_down(self, reason: str) -> None:
        """What the last policy that could be used let run by itself waits for a person: the active one cannot be used.

        The last one goes on judging, so that nothing is looser than it was. Reads run as it says; where there never was
        one they wait, too.
        """
        says = f"the active policy cannot be used: {reason}"
        self._locked = Trigger("locked down", says, GateKind.HARD)
        self._holds_reads = not self._was_read
        self.policy = replace(self.policy, mode=Mode.ENFORCE, version=-1)
        self.version = self._latest
        self.grants = ()

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
            tool.declared, found.declaration, found.instead_of_code, found.because, tool.claimed, tool.trusted
        )  # fmt: skip
        made = profile(tool.name, tool.description, tool.schema, said)
        if len(self._profiles) >= _KEPT_PROFILES:
            self._profiles.clear()
        self._profiles[key] = (tool, made)
        return made

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
    ) -> tuple[Action, Assessment, Verdict]:
        """The call as an action, what it would do, and what policy says.

        `without` names grants not to use; `standing` is where its run stood, if not where it stands now.
        """
        policy = self.policy
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
        )
        assessment = classify(self.profile_of(tool), args, domains=policy.domains)
        if facts:
            assessment = replace(assessment, facts=(*assessment.facts, *facts))
        grants = self.grants
        if without:
            grants = tuple(grant for grant in grants if grant.id not in without)
        situation = in_situation(self.standing(context, now) if standing is None else standing, grants)
        if self._locked is not None and (self._holds_reads or not assessment.only_reads):
            fired = (*fired, self._locked)
        return action, assessment, judge(policy, action, assessment, situation, now, fired)

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
    ) -> tuple[Action, Assessment, Verdict]:
        """The same for a call that is on record, by the policy of now.

        It is judged on all that its agent said and on where its run stood when it was proposed. `candidate` is what
        would run instead of what is to run.
        """
        ask, action = request.ask, (candidate or request.candidate).action
        context = Context(
            ask.agent, ask.run, ask.step, action.goal, action.why, action.confidence, action.cost, action.alternatives
        )
        return self.judged(tool, action.args, context, now, facts, standing=ask.standing)

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

    async def _objection(self, tool: "Tool", request: Request) -> str:
        """Judged anew where nobody decided, whatever its proposer made of it, and where the policy has changed."""
        candidate, ask = request.candidate, request.ask
        permit = request.permit
        run = await self._store.run(self._workspace, ask.run) if ask.run else None
        held = self.held_up(ask.agent)
        if held is not None and held.setting is Setting.STOP:
            return held.says
        if run is not None and run.state in (RunState.STOPPING, RunState.STOPPED):
            return f"its run was stopped by {run.by}"
        if request.votes and permit is not None and permit.policy_version == self.policy.version:
            return ""
        if not request.votes and candidate.verdict.grant is not None:
            return await self._not_granted(request, candidate.verdict.grant)
        now = await self._store.now()
        if request.votes:
            demands, most = self.demands(tool, request, now), candidate.verdict.gate
            if not is_stricter(demands.gate, most):
                return shortfall(self.policy, request, demands)
            return f"policy says {demands.gate}: {demands.because}"
        facts = tuple(fact for fact in candidate.assessment.facts if fact.looked_up)
        _, _, verdict = self.judged_again(tool, request, now, facts)
        most = GateKind.SOFT if request.word == "silence" else GateKind.WATCH
        return f"policy says {verdict.gate}: {verdict.because}" if is_stricter(verdict.gate, most) else ""

    async def _not_granted(self, request: Request, grant_id: str) -> str:
        """Why the grant that a request names does not allow it: it must have been charged for this very request.

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
        template = (rule.says if rule else "") or tool.says
        says = (
            render(template, action.args, assessment.facts)
            if template
            else default_title(action.name, assessment.facts, action.args)
        )
        verdict = verdict if at_least is None else stricter(at_least, verdict)
        return Candidate(action, args_text, content, permit, assessment, verdict, says)


def stricter(first: Verdict, second: Verdict) -> Verdict:
    """The verdict for changed bytes: `second`, judged on them, unless the first is stricter; never a smaller quorum."""
    return replace(merged(first, second), observed=None, grant=None)


def merged(first: Verdict, second: Verdict) -> Verdict:
    """Both verdicts at once: the stricter gate, every trigger, and all the people that either asks for.

    Of two lists of reviewers the stricter verdict's holds, unless it asks nobody in particular; whoever holds a role
    that the other one's quorum demands may vote as well.
    """
    chosen, other = (first, second) if is_stricter(first.gate, second.gate) else (second, first)
    seen = {trigger.name for trigger in chosen.triggers}
    triggers = chosen.triggers + tuple(trigger for trigger in other.triggers if trigger.name not in seen)
    roles = tuple(dict.fromkeys(chosen.quorum.roles + other.quorum.roles))
    quorum = Quorum(max(first.quorum.count, second.quorum.count), roles)
    asking = chosen if chosen.reviewers else other
    watched = [gate for gate in (first.observed, second.observed) if gate is not None]
    reviewers, quorum = joined(asking.reviewers, asking.quorum, quorum)
    return replace(
        chosen,
        triggers=triggers,
        reviewers=reviewers,
        quorum=quorum,
        observed=strictest(watched) if watched else None,
        grant=first.grant if first.grant == second.grant else None,
    )
