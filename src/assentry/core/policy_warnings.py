"""What loads and never does what it says: rules that are hardened, never reached or never match, words without effect.

A rule is judged here by `judge` itself, for the calls that its own condition can tell apart. Only what holds for every
such call is said. Code may declare more of an action than the policy does, so these are warnings and not complaints.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise, product

from assentry.core.action import Action, Assessment, Basis, Effect, Fact, Json, Reach, Risk
from assentry.core.classify import Profile, profile
from assentry.core.condition import Condition, Failed, compile_condition
from assentry.core.coverage import Above, Work
from assentry.core.deciders import deciders, shortened
from assentry.core.declared import Said
from assentry.core.facts import DEFAULTS
from assentry.core.judge import is_stricter, judge
from assentry.core.pattern import is_wild
from assentry.core.policy import Mode, Policy, Rule
from assentry.core.policy_text import Complaints, Lines, did_you_mean, duration_text, quoted
from assentry.core.rota import WEEK, Rota
from assentry.core.situation import EMPTY
from assentry.core.verdict import GateKind, Verdict
from assentry.core.view import Looking

_MOST_CALLS = 256
"""Calls that one rule is judged for. A condition that tells more of them apart is not looked at any further."""
_JUDGING = 40
"""What judging one call takes, in the small steps of which others are one each."""
_KINDEST = Effect(reversible=True, reach=Reach.NOTHING)
_SOME_ACTION = "some_action"


def warn_of_idle_words(policy: Policy, lines: Lines, complaints: Complaints, work: Work) -> None:
    """Adds a warning for everything that the policy says and that never comes about."""
    _warn_unreachable(policy.rules, complaints, work)
    _look_at_limits(policy, lines, complaints)
    for rule in policy.rules:
        complaints.rule = rule.name
        where = _Where(rule, lines)
        _look_at_times(policy, rule, where, complaints)
        if rule.when:
            _look_at_condition(policy, rule, where("when"), complaints, work)
        _look_at_gate(policy, rule, where, complaints, work)
        _look_at_duty(policy, rule, where("quorum"), complaints, work)
    complaints.rule = ""


@dataclass(frozen=True, slots=True)
class _Where:
    """The lines of a rule's keys."""

    rule: Rule
    lines: Lines

    def __call__(self, key: str) -> int:
        return self.lines.get((self.rule.name, key), self.rule.line)

    def has(self, key: str) -> bool:
        return (self.rule.name, key) in self.lines


_COMPARED = re.compile(r"""\beffect\.(risk|reach)\s*(==|!=|<=|>=|<|>)\s*(["'])(\w*)\3""")
_WORDS = {"risk": [str(each) for each in Risk], "reach": [str(each) for each in Reach]}


def _look_at_condition(policy: Policy, rule: Rule, line: int, complaints: Complaints, work: Work) -> None:
    condition = compile_condition(rule.when)
    work.spend(_JUDGING)
    for key in condition.keys("facts") or ():
        if key not in DEFAULTS:
            remedy = did_you_mean(key, sorted(DEFAULTS), "facts.")
            text = f"facts has no {quoted(key)} unless a lookup gives one, and without it the action waits; {remedy}"
            complaints.warn(line, text)
    if "external" in (condition.keys("facts") or ()) and not policy.domains:
        text = (
            "facts.external is always 0, because no organisation.domains says who is inside; write "
            "organisation: {domains: [example.com]}"
        )
        complaints.warn(line, text)
    for what, sign, _, word in _COMPARED.findall(rule.when):
        if word not in _WORDS[what]:
            complaints.warn(line, f"effect.{what} is never {quoted(word)}; {did_you_mean(word, _WORDS[what])}")
        elif sign not in ("==", "!="):
            ranks = _WORDS[what]
            meant = ranks[ranks.index(word) :] if ">" in sign else ranks[: ranks.index(word) + 1]
            meant = [each for each in meant if each != word or "=" in sign]
            text = (
                f"effect.{what} is text, and {sign} compares its letters; write effect.{what} in "
                f"[{', '.join(quoted(each) for each in meant)}]"
            )
            complaints.warn(line, text)
    if "args" in condition.variables or not set(condition.keys("facts") or ()) <= DEFAULTS.keys():
        return
    held = condition.holds(_view(_made(_SOME_ACTION, "", None, {})))
    unfit = isinstance(held, Failed) and held.says.startswith(("the types do not fit", "invalid regular"))
    if isinstance(held, Failed) and (unfit or _is_never_boolean(policy, rule, condition, work)):
        why = f"{held.says}; correct it" if unfit else "it gives neither true nor false; compare it with something"
        text = f"{quoted(rule.when)} can never be evaluated, so the action always waits: {why}"
        complaints.warn(line, text)


_ONE_FIELD = re.compile(r"\s*\w+\s*\.\s*\w+\s*")


def _is_never_boolean(policy: Policy, rule: Rule, condition: Condition, work: Work) -> bool:
    """Whatever it is given, the condition gives a value, and one that is neither true nor false."""
    choices = _choices(policy, rule, condition, None, "")
    if choices is None and _ONE_FIELD.fullmatch(rule.when):
        choices = {}
    number = 0 if choices is None else math.prod(len(values) for values in choices.values())
    if choices is None or number > _MOST_CALLS:
        return False
    work.spend(_JUDGING * number)
    calls = (
        _made(_SOME_ACTION, "", None, dict(zip(choices, values, strict=True))) for values in product(*choices.values())
    )
    given = [condition.holds(_view(call)) for call in calls]
    return all(isinstance(each, Failed) and each.is_value for each in given)


def _look_at_gate(policy: Policy, rule: Rule, where: _Where, complaints: Complaints, work: Work) -> None:
    """Warns where the rule's gate is never the one that holds, or where the rule never matches."""
    if rule.gate is GateKind.ASK:
        complaints.warn(where("gate"), "ask is for questions, which an agent puts itself; use hard")
        return
    alone = replace(policy, rules=(replace(rule, when="", actions=("*",), agents=("*",)),), mode=Mode.ENFORCE)
    never = True
    for glob in _kinds(rule):
        calls = _calls(policy, rule, glob, work)
        never = never and calls == []
        work.spend(_JUDGING * len(calls or ()))
        verdicts = [judge(alone, call.action, call.assessment) for call in calls or ()]
        if verdicts and all(is_stricter(verdict.gate, rule.gate) for verdict in verdicts):
            _warn_of_gate(policy, rule, glob, verdicts[-1], where("gate"), complaints)
    if never:
        text = f"{quoted(rule.when)} is never true, so the rule never matches; correct it or remove the rule"
        complaints.warn(where("when"), text)


def is_never_true(policy: Policy, rule: Rule, work: Work) -> bool:
    """No call can meet the rule's condition, by all that is known here."""
    return bool(rule.when) and all(_calls(policy, rule, glob, work) == [] for glob in _kinds(rule))


def _kinds(rule: Rule) -> Iterator[str]:
    """Its actions. Of patterns nothing is known, so that what is true of one is true of all."""
    globs = [glob for glob in rule.actions if is_wild(glob)]
    yield from globs[:1]
    yield from (glob for glob in rule.actions if not is_wild(glob))


def _warn_of_gate(policy: Policy, rule: Rule, glob: str, verdict: Verdict, line: int, complaints: Complaints) -> None:
    if is_wild(glob):
        what = "this rule"
    else:
        effect = _known(policy, glob).base.effect
        undo = "can be undone" if effect.reversible else "cannot be undone"
        ends = (", leaves our systems" if effect.outside else "") + (", costs money" if effect.money else "")
        what = f"{quoted(glob)} (as far as is known here: {undo}, reaches {effect.reach}{ends})"
    raised = next((each for each in verdict.triggers if is_stricter(each.gate, rule.gate)), None)
    says = raised.says if raised is not None else verdict.because
    name = raised.name if raised is not None else ""
    text = f"{what} never gets the gate {rule.gate}, because {says}; {_HAPPENS[verdict.gate]}"
    complaints.warn(line, f"{text}; {_remedy(name, glob, verdict.gate)}")


_HAPPENS = {
    GateKind.WATCH: "it runs and is logged instead",
    GateKind.SOFT: "it waits for an objection instead",
    GateKind.HARD: "it waits for a person instead",
    GateKind.MANUAL: "it waits for a person who types a confirmation instead",
    GateKind.FORBID: "it is refused instead",
}


def _remedy(trigger: str, glob: str, gate: GateKind) -> str:
    match trigger:
        case "scale" | "confidence" | "cost":
            return f"change limits.{trigger}, or use {gate}"
        case "floor":
            return f"lower the floor if you mean it, or use {gate}"
        case "silence" | "unknown" if not is_wild(glob):
            return f"say what it does under actions:, or use {gate}"
        case _:
            return f"use {gate}"


@dataclass(frozen=True, slots=True)
class _Call:
    """One of the calls that a condition can tell apart."""

    action: Action
    assessment: Assessment


def _calls(policy: Policy, rule: Rule, glob: str, work: Work) -> list[_Call] | None:
    """Calls of this action that the rule matches, one of each kind; `None` where its condition says too much to tell.

    Of a pattern nothing is known, so that each call is as harmless as the condition allows; of a name, what the policy
    and the catalogue say of it.
    """
    work.spend(_JUDGING if is_wild(glob) else 4 * _JUDGING + len(policy.declared))
    known = None if is_wild(glob) else _known(policy, glob)
    if known is not None and (known.text or known.base.effect.is_read):
        return None  # What it does depends on its arguments.
    agent = rule.agents[0] if len(rule.agents) == 1 and not is_wild(rule.agents[0]) else ""
    name = _SOME_ACTION if known is None else glob
    condition = compile_condition(rule.when) if rule.when else None
    choices = {} if condition is None else _choices(policy, rule, condition, known, agent)
    if choices is None:
        return [_made(name, agent, known, {})]
    number = math.prod(len(values) for values in choices.values())
    if number > _MOST_CALLS:
        return None
    work.spend(_JUDGING * number)
    found, failed = [], False
    for values in product(*choices.values()):
        call = _made(name, agent, known, dict(zip(choices, values, strict=True)))
        holds = condition is None or condition.holds(_view(call))
        failed = failed or isinstance(holds, Failed)
        if holds is True:
            found.append(call)
    # Arguments may raise an effect, and then it could hold after all.
    raised = known is not None and condition is not None and "effect" in condition.variables
    return found or (None if failed or raised else [])


def _view(call: _Call) -> Looking:
    return Looking(call.action, call.assessment, EMPTY.as_variable)


def _known(policy: Policy, name: str) -> Profile:
    said = policy.declaration_for(name)
    return profile(name) if said is None else profile(name, said=Said(policy=said.declaration))


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_RECKONS = re.compile(r"[-*/%+]|\w\s*\(|\b0[xX]")
"""Numbers are more than compared, so that the ones in the text are not all that matter."""
_EFFECTS: dict[str, tuple[Json, ...]] = {
    "reversible": (True, False),
    "reach": tuple(Reach),
    "outside": (False, True),
    "money": (False, True),
    "risk": tuple(Risk),
    "known": (True, False),
}


def _choices(
    policy: Policy, rule: Rule, condition: Condition, known: Profile | None, agent: str
) -> dict[str, tuple[Json, ...]] | None:
    """What each thing that the condition looks at may be; `None` where that cannot be listed."""
    found: dict[str, tuple[Json, ...]] = {}
    reckons = _RECKONS.search(rule.when) is not None
    numbers = [float(number) for number in _NUMBER.findall(rule.when)]
    for variable in condition.variables:
        keys = condition.keys(variable)
        if keys is None or variable in ("args", "run"):
            return None
        for key in keys:
            values = _values(policy, variable, key, numbers, known, agent)
            if values is None or (reckons and any(type(each) in (int, float) for each in values)):
                return None
            found[f"{variable}.{key}"] = values
    return found


def _values(
    policy: Policy, variable: str, key: str, numbers: list[float], known: Profile | None, agent: str
) -> tuple[Json, ...] | None:
    limits = policy.limits
    match variable, key:
        case "effect", _:
            if known is not None:
                return (None,)  # it is what the policy and the catalogue say
            return _EFFECTS.get(key)
        case "action", "confidence":
            return _around([*numbers, limits.confidence, 0.0, 1.0], 0.01, 1.0)
        case "action", "cost":
            return _around([*numbers, limits.cost or 0.0, 0.0], 0.01)
        case "action", "name" | "tokens":
            return None if known is None else (None,)
        case "action", "agent":
            return (None,) if agent else None
        case "facts", _:
            match DEFAULTS.get(key):
                case bool():
                    return (False, True)
                case int():
                    whole = _around([*numbers, float(limits.scale), 0.0], 1.0)
                    return tuple(int(each) for each in whole if each == int(each))
                case float():
                    return _around([*numbers, 0.0], 0.01)
                case _:
                    return None
        case _:
            return None


def _around(numbers: Iterable[float], step: float, most: float = math.inf) -> tuple[float, ...]:
    """Each number, a little less and more than it, what lies between two of them, and what is beyond the largest."""
    exact = sorted({each for each in numbers if each <= most})
    near = {each + by for each in exact for by in (-step, 0.0, step)}
    near |= {(one + other) / 2 for one, other in pairwise(exact)} | {math.nextafter(exact[-1], math.inf)}
    return tuple(sorted(each for each in near if 0 <= each <= most and math.isfinite(each)))


def _made(name: str, agent: str, known: Profile | None, values: dict[str, Json]) -> _Call:
    facts = tuple(Fact(key.partition(".")[2], value, "") for key, value in values.items() if key.startswith("facts."))
    if known is not None:
        assessment = replace(known.base, facts=facts)
    else:
        said = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("effect.")}
        risk = said.pop("risk", None)
        basis = Basis.DECLARED if said.pop("known", True) else Basis.UNKNOWN
        effect = replace(_KINDEST, **said)
        # A risk that is declared outright may be milder than the answers; the kindest one is what nothing rules out.
        assessment = Assessment(effect, risk or Risk.SAFE, basis, facts=facts)
    action = Action(
        name, {}, agent or "agent",
        confidence=values.get("action.confidence"), cost=values.get("action.cost"),
    )  # fmt: skip
    return _Call(action, assessment)


_ONLY_FOR_HELD = (
    "reviewers",
    "quorum",
    "ladder",
    "loops",
    "limit",
    "at_end",
    "undo",
    "review",
    "if_changed",
    "options",
)


def _look_at_times(policy: Policy, rule: Rule, where: _Where, complaints: Complaints) -> None:
    if rule.gate is GateKind.FORBID:
        for key in filter(where.has, _ONLY_FOR_HELD):
            complaints.warn(
                where(key), f"{key} has no effect: what is forbidden never runs and nobody is asked; remove it"
            )
        return
    if rule.gate is GateKind.SOFT:
        window = policy.soft_ladder(rule).limit
        for key in ("limit", "loops"):
            if where.has(key):
                text = f"{key} has no effect on a soft gate, which ends with its window; use window, or gate: hard"
                complaints.warn(where(key), text)
        late = [
            rung
            for rung in (rule.ladder.rungs if rule.ladder and where.has("ladder") else ())
            if window and rung.after >= window
        ]
        if late and window:
            text = (
                f"the step of the ladder after {duration_text(late[0].after)} is never reached: the window closes "
                f"after {duration_text(window)}; raise window or remove the step"
            )
            complaints.warn(where("ladder"), text)
        return
    if rule.ladder is None:
        return
    if where.has("loops") and rule.ladder.loops and not rule.ladder.rungs:
        complaints.warn(where("loops"), "loops has no effect without a ladder; add ladder: or remove loops")
    if where.has("at_end") and where.has("limit") and rule.ladder.limit is None and rule.ladder.at_end.value == "deny":
        complaints.warn(where("at_end"), "at_end: deny never happens, because limit is never; set a limit")


def _look_at_duty(policy: Policy, rule: Rule, line: int, complaints: Complaints, work: Work) -> None:
    """Warns where a quorum needs more people at once than its rotas ever have on duty."""
    reviewers, ladder = rule.reviewers or policy.reviewers, rule.ladder or policy.ladder
    if not policy.people or rule.quorum.count < 2 or rule.gate is GateKind.FORBID:
        return
    named = {each.removeprefix("rota:") for each in reviewers if each.startswith("rota:")}
    work.spend(len(policy.rotas))
    moments = {moment for rota in policy.rotas if rota.name in named for moment in _changes(rota)}
    turns = sum(len(rota.turns) for rota in policy.rotas)
    work.spend(len(moments) * (len(policy.people) + len(ladder.rungs) + len(policy.rotas) + turns))
    asked = " and ".join(shortened(reviewers, "others"))
    if moments and not any(deciders(policy, reviewers, rule.quorum, ladder, now=moment).enough for moment in moments):
        text = (
            f"quorum is {rule.quorum.count}, and {asked} never have so many on duty at one time, so "
            "it waits until others take over; add reviewers or lower quorum"
        )
        complaints.warn(line, text)


def _changes(rota: Rota) -> Iterator[datetime]:
    """The moments at which somebody goes on duty."""
    yield from (turn.begins for turn in rota.turns)
    if rota.begins is not None:
        yield from (rota.begins + WEEK * number for number in range(len(rota.weekly)))


def _look_at_limits(policy: Policy, lines: Lines, complaints: Complaints) -> None:
    gates = {rule.gate for rule in policy.rules} | {policy.defaults.of(risk) for risk in Risk}
    if ("", "limits.window") in lines and GateKind.SOFT not in gates:
        text = "limits.window has no effect: no rule and no default is soft; remove it or use gate: soft"
        complaints.warn(lines["", "limits.window"], text)
    if ("", "at_end") in lines and policy.ladder.limit is None and policy.ladder.at_end.value == "deny":
        complaints.warn(lines["", "at_end"], "at_end: deny never happens, because limits.time is never; set a time")


def _warn_unreachable(rules: tuple[Rule, ...], complaints: Complaints, work: Work) -> None:
    above = Above(work)
    for rule in rules:
        if before := above.covering(rule):
            names = " and ".join(shortened([quoted(each.name) for each in before], "others"))
            whole = "rule" if len(before) == 1 else "rules"
            verb = "matches" if len(before) == 1 else "together match"
            text = f"is never reached, because {whole} {names} above {verb} all of it; move it up or remove it"
            complaints.rule = rule.name
            complaints.warn(rule.line, text)
        above.add(rule)
    complaints.rule = ""
