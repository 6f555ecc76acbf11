"""A policy as values: rules, defaults, limits, people. Judging an action by it lives in `judge`.

A `Policy` that exists can be used: its conditions are compiled when it is made, and its rules are indexed by
action and agent, so that a call only ever meets the rules that could match it.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum

from assentry.core.action import Declaration, Json, Risk
from assentry.core.condition import Condition, compile_condition
from assentry.core.pattern import Pattern, is_wild, pattern
from assentry.core.rota import Rota
from assentry.core.verdict import DEFAULT, AtEnd, GateKind, IfChanged, Ladder, Quorum, Verdict
from assentry.errors import PolicyError

_INDEXED_NAMES = 4_096
"""How many pairs of action and agent are remembered; a flood of made-up names only costs the flooder time."""
_LONGEST_INDEXED = 512


ONE_PERSON = Quorum()
ONE_HOUR = Ladder()


class Mode(Enum):
    """Whether verdicts hold anything, or are only noted down."""

    ENFORCE = "enforce"
    OBSERVE = "observe"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PerRisk:
    """One gate for each risk level."""

    safe: GateKind = GateKind.RUN
    risky: GateKind = GateKind.WATCH
    dangerous: GateKind = GateKind.HARD
    critical: GateKind = GateKind.MANUAL

    def of(self, risk: Risk) -> GateKind:
        match risk:
            case Risk.SAFE:
                return self.safe
            case Risk.RISKY:
                return self.risky
            case Risk.DANGEROUS:
                return self.dangerous
            case _:
                return self.critical


DEFAULT_FLOOR = PerRisk(GateKind.RUN, GateKind.RUN, GateKind.RUN, GateKind.HARD)
"""The floor unless a policy sets one: rules may loosen anything except that a critical action waits for a person."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers behind the built-in triggers, and how long things take unless a rule says otherwise."""

    scale: int = 100
    confidence: float = 0.7
    cost: float | None = None
    """The most that one call may cost."""
    budget: float | None = None
    """The most that a run may cost."""
    daily: float | None = None
    """The most that an agent may cost in a day, in all its runs."""
    steps: int | None = None
    """After so many steps of a run a person looks in."""
    every: timedelta | None = None
    """After so long a person looks in."""
    pending: int | None = 1_000
    """How many requests of one agent may wait for people at once."""
    per_minute: int | None = None
    """How often one agent may ask people in a minute."""
    denials: int | None = 10
    """After so many denials in a row an agent is paused."""
    fresh: timedelta = timedelta(minutes=10)
    """How old what a person saw may be before `refresh=` looks again."""
    time: timedelta | None = timedelta(hours=1)
    window: timedelta = timedelta(minutes=5)
    undo: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Option:
    """Something a reviewer may choose instead: other arguments, or another action. Neither: nothing runs."""

    label: str
    consequence: str = ""
    set: Mapping[str, Json] = field(default_factory=dict)
    action: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """For these actions of these agents, when this holds: that gate, these people, this much time."""

    name: str
    actions: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("*",)
    when: str = ""
    gate: GateKind = GateKind.HARD
    because: str = ""
    reviewers: tuple[str, ...] = ()
    quorum: Quorum = ONE_PERSON
    ladder: Ladder | None = None
    """For when it holds; `None` is the policy's. What a soft gate does in the end is not asked: it proceeds."""
    window: timedelta | None = None
    """How long a soft gate waits for an objection."""
    undo: timedelta | None = None
    review_after: bool = False
    if_changed: IfChanged = IfChanged.ASK
    options: tuple[Option, ...] = ()
    says: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may be asked."""

    name: str
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    os_users: tuple[str, ...] = ()
    email: str = ""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """What the operator says of an agent."""

    name: str
    owner: str = ""
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Declared:
    """What the operator says of every action whose name matches."""

    pattern: str
    declaration: Declaration
    because: str = ""
    instead_of_code: bool = False
    """Its answers replace what the code declares, also where they are milder."""
    confidence: float | None = None
    """How sure an agent must be of it; `None` is what holds for every action."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule ready to be asked: its patterns and its condition compiled."""

    rule: Rule
    actions: Pattern
    agents: Pattern
    condition: Condition | None
    verdict: Verdict
    """What it says where nothing else fires."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything an operator decided in advance."""

    rules: tuple[Rule, ...] = ()
    defaults: PerRisk = PerRisk()
    floor: PerRisk = DEFAULT_FLOOR
    """The loosest gate that a rule or a default may choose for each risk level."""
    limits: Limits = Limits()
    mode: Mode = Mode.ENFORCE
    autonomy: str = "balanced"
    reviewers: tuple[str, ...] = ()
    """Who is asked where the rule does not say."""
    ladder: Ladder = ONE_HOUR
    domains: tuple[str, ...] = ()
    people: tuple[Person, ...] = ()
    rotas: tuple[Rota, ...] = ()
    agents: tuple[AgentEntry, ...] = ()
    declared: tuple[Declared, ...] = ()
    self_review: bool | None = None
    """Whether an agent's owner, or who asked for the run, may decide; `None`: only if nobody else is known."""
    second_person: bool = False
    """Whether a change of the policy waits until another person confirms it."""
    retention: timedelta | None = None
    version: int = 0
    warnings: tuple[str, ...] = field(default=(), compare=False)
    compiled: tuple[CompiledRule, ...] = field(init=False, repr=False, compare=False)
    _index: dict[tuple[str, str], tuple[CompiledRule, ...]] = field(init=False, repr=False, compare=False)
    _plain: tuple[Verdict, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", tuple(self._compiled_rule(rule) for rule in self.rules))
        object.__setattr__(self, "_index", {})
        object.__setattr__(self, "_plain", (*(self._default(risk) for risk in Risk), self._read()))
        if self.ladder.at_end is AtEnd.PROCEED:
            raise PolicyError("a ladder cannot end in proceed; use at_end: deny or stay")

    def warned(self, warnings: tuple[str, ...]) -> "Policy":
        """The same with these warnings; nothing is compiled again."""
        made = copy(self)
        object.__setattr__(made, "warnings", warnings)
        return made

    def compiled_for(self, action: str, agent: str) -> tuple[CompiledRule, ...]:
        """The rules whose patterns match, in order. Remembered per pair of names."""
        key = (action, agent)
        found = self._index.get(key)
        if found is None:
            found = tuple(each for each in self.compiled if each.actions.match(action) and each.agents.match(agent))
            if len(self._index) >= _INDEXED_NAMES:
                self._index.clear()
            if len(action) + len(agent) <= _LONGEST_INDEXED:
                self._index[key] = found
        return found

    def default_for(self, risk: Risk) -> Verdict:
        """What holds for this risk when no rule matches and nothing else fires."""
        return self._plain[risk.rank]

    @property
    def read_verdict(self) -> Verdict:
        """What holds for a plain read when no rule matches and nothing else fires."""
        return self._plain[-1]

    def rule_named(self, name: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.name == name), None)

    def declaration_for(self, action: str) -> Declared | None:
        """What the operator declared of this action: an exact name goes first, then the first pattern that fits."""
        exact = next((each for each in self.declared if each.pattern == action), None)
        globs = (each for each in self.declared if is_wild(each.pattern))
        return exact or next((each for each in globs if pattern((each.pattern,)).match(action)), None)

    def confidence_for(self, action: str) -> float:
        """How sure an agent must be of this action not to be asked about it."""
        said = self.declaration_for(action) if self.declared else None
        return self.limits.confidence if said is None or said.confidence is None else said.confidence

    def rota_named(self, name: str) -> Rota | None:
        return next((rota for rota in self.rotas if rota.name == name), None)

    def agent_named(self, name: str) -> AgentEntry | None:
        return next((entry for entry in self.agents if entry.name == name), None)

    @property
    def allows_self_review(self) -> bool:
        return not self.people if self.self_review is None else self.self_review

    def _compiled_rule(self, rule: Rule) -> CompiledRule:
        if rule.ladder is not None and rule.ladder.at_end is AtEnd.PROCEED:
            raise PolicyError(f'rule "{rule.name}": a ladder cannot end in proceed; use at_end: deny or stay')
        verdict = Verdict(
            rule.gate,
            rule.name,
            rule.because or f'by rule "{rule.name}" it {rule.gate.words}',
            reviewers=rule.reviewers or self.reviewers,
            quorum=rule.quorum,
            ladder=self.soft_ladder(rule) if rule.gate is GateKind.SOFT else rule.ladder or self.ladder,
            undo_window=self.limits.undo if rule.undo is None else rule.undo,
            review_after=rule.review_after,
            if_changed=rule.if_changed,
            policy_version=self.version,
        )
        condition = compile_condition(rule.when) if rule.when else None
        return CompiledRule(rule, pattern(rule.actions), pattern(rule.agents), condition, verdict)

    def _default(self, risk: Risk) -> Verdict:
        gate = self.defaults.of(risk)
        return Verdict(
            gate,
            f"{DEFAULT}{risk}",
            f"no rule speaks of it, and {risk} actions {_WHAT_HAPPENS[gate]}",
            reviewers=self.reviewers,
            ladder=self.soft_ladder(None) if gate is GateKind.SOFT else self.ladder,
            undo_window=self.limits.undo,
            policy_version=self.version,
        )

    def _read(self) -> Verdict:
        return replace(
            self._default(Risk.SAFE),
            gate=GateKind.RUN,
            rule=f"{DEFAULT}read",
            because="it only reads, and reads are not interrupted",
            ladder=self.ladder,
        )

    def soft_ladder(self, rule: Rule | None) -> Ladder:
        """A soft gate's ladder: it proceeds when the window closes; there is nothing to loop."""
        own = rule.ladder if rule is not None and rule.ladder is not None else Ladder()
        window = rule.window if rule is not None and rule.window is not None else self.limits.window
        return Ladder(own.rungs, 0, window, AtEnd.PROCEED)


_WHAT_HAPPENS = {
    GateKind.RUN: "run",
    GateKind.WATCH: "run and are logged",
    GateKind.SOFT: "proceed unless somebody objects",
    GateKind.HARD: "wait for a person",
    GateKind.MANUAL: "wait for a person who types what they confirm",
    GateKind.FORBID: "are forbidden",
    GateKind.ASK: "are asked about",
}


PRESETS: dict[str, Policy] = {}
"""What `autonomy:` sets together; keys written out in a policy file override each of them."""


def _preset(name: str, risky: GateKind, confidence: float, scale: int, time: timedelta) -> None:
    PRESETS[name] = Policy(
        defaults=PerRisk(risky=risky),
        limits=Limits(scale=scale, confidence=confidence, time=time),
        ladder=Ladder(limit=time),
        autonomy=name,
    )


_preset("cautious", GateKind.SOFT, confidence=0.85, scale=20, time=timedelta(hours=4))
_preset("balanced", GateKind.WATCH, confidence=0.7, scale=100, time=timedelta(hours=1))
_preset("autonomous", GateKind.RUN, confidence=0.5, scale=1_000, time=timedelta(minutes=15))


def builtin_policy() -> Policy:
    """The policy that holds where nobody wrote one: safe runs, risky is watched, the rest waits, an hour at most."""
    return replace(PRESETS["balanced"])
