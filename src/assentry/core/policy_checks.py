"""What only shows when the whole policy is known: gates that must not exist, people who are not there, dead rules."""

from collections.abc import Iterable
from functools import lru_cache

from assentry.core.action import Risk
from assentry.core.authority import OPERATOR, Principal, eligible, may_change, quorum_met
from assentry.core.catalogue import CATALOGUE, find_entry
from assentry.core.condition import compile_condition
from assentry.core.facts import DEFAULTS
from assentry.core.judge import is_stricter
from assentry.core.pattern import is_wild, pattern
from assentry.core.policy import Policy, Rule
from assentry.core.policy_text import Complaints, did_you_mean, quoted
from assentry.core.verdict import GateKind, Ladder, Quorum

Lines = dict[tuple[str, str], int]
"""Where a key stands, by rule and key; the policy's own keys stand under the empty name."""


def check_policy(policy: Policy, lines: Lines, complaints: Complaints) -> None:
    """Adds every complaint and warning that the policy as a whole deserves."""
    _check_levels(policy, lines, complaints)
    _check_selectors(policy, policy.reviewers, lines.get(("", "reviewers"), 1), complaints)
    _check_ladder(policy, policy.ladder, lines.get(("", "ladder"), 1), complaints)
    _check_rotas(policy, lines.get(("", "rotas"), 1), complaints)
    _check_agents(policy, lines.get(("", "agents"), 1), complaints)
    _check_second_person(policy, lines.get(("", "second_person"), 1), complaints)
    for rule in policy.rules:
        complaints.rule = rule.name
        where = {
            key: lines.get((rule.name, key), rule.line) for key in ("reviewers", "ladder", "quorum", "when", "gate")
        }
        _check_selectors(policy, rule.reviewers, where["reviewers"], complaints)
        if (rule.name, "ladder") in lines and rule.ladder is not None:
            _check_ladder(policy, rule.ladder, where["ladder"], complaints)
        _check_quorum(policy, rule, where["quorum"], complaints)
        _check_facts(rule, where["when"], complaints)
        unread = (rule.name, "when") in lines and not rule.when
        if rule.gate is GateKind.SOFT and not unread:
            _check_soft(policy, rule, where["gate"], complaints)
    complaints.rule = ""
    _warn_unreachable(policy.rules, complaints)
    if len(policy.people) == 1 and not policy.allows_self_review:
        alone = policy.people[0].name
        text = (
            f"{alone} is the only one named, and nobody decides what they asked for themselves: what {alone}'s own "
            "agents ask can be decided by nobody; name somebody else too, or write self_review: allow"
        )
        complaints.warn(lines.get(("", "people"), 1), text)
    named = any(rule.reviewers or rule.quorum.roles for rule in policy.rules) or bool(policy.reviewers)
    if named and not policy.people:
        text = "reviewers are named but there is no people: section, so anyone at this machine may decide"
        complaints.warn(lines.get(("", "reviewers"), lines.get(("", "rules"), 1)), text)


def _check_levels(policy: Policy, lines: Lines, complaints: Complaints) -> None:
    for risk in Risk:
        default, floor = policy.defaults.of(risk), policy.floor.of(risk)
        if is_stricter(floor, default):
            text = f"defaults.{risk} is {default}, looser than the floor {floor}; set floor: {{{risk}: {default}}} too"
            complaints.add(lines.get(("", "defaults"), lines.get(("", "floor"), 1)), f"{text} if you mean it")


def _check_agents(policy: Policy, line: int, complaints: Complaints) -> None:
    names = {person.name for person in policy.people}
    for entry in policy.agents:
        if entry.name in names:
            complaints.add(line, f"{quoted(entry.name)} is a person and an agent; an agent needs a name of its own")
        if entry.owner and names and entry.owner not in names:
            remedy = did_you_mean(entry.owner, sorted(names))
            complaints.add(line, f"agent {quoted(entry.name)} has the unknown owner {quoted(entry.owner)}; {remedy}")


def _check_second_person(policy: Policy, line: int, complaints: Complaints) -> None:
    """Where two have to agree there are two: else nobody could ever change the policy again."""
    if not policy.second_person:
        return
    able = [each.name for each in policy.people if may_change(policy, Principal(each.name)) is None]
    if len(able) < 2:
        who = f"only {able[0]} may" if able else "there is no people: section to tell two people apart"
        remedy = f"give somebody else the role {OPERATOR} too" if able else "name them"
        text = f"second_person needs two people who may change the policy, and {who}; {remedy}, or leave it out"
        complaints.add(line, text)


def _check_rotas(policy: Policy, line: int, complaints: Complaints) -> None:
    names = {person.name for person in policy.people}
    for rota in policy.rotas:
        for name in rota.members:
            if names and name not in names:
                remedy = did_you_mean(name, sorted(names))
                complaints.add(line, f"the rota {quoted(rota.name)} has the unknown person {quoted(name)}; {remedy}")


def _check_ladder(policy: Policy, ladder: Ladder, line: int, complaints: Complaints) -> None:
    for rung in ladder.rungs:
        _check_selectors(policy, rung.tell + rung.rota, line, complaints)


def _check_selectors(policy: Policy, selectors: Iterable[str], line: int, complaints: Complaints) -> None:
    roles = {f"role:{role}" for person in policy.people for role in person.roles}
    teams = {f"team:{team}" for person in policy.people for team in person.teams}
    rotas = {f"rota:{rota.name}" for rota in policy.rotas}
    known = sorted({person.name for person in policy.people} | roles | teams | rotas)
    for selector in selectors:
        kind, colon, name = selector.partition(":")
        if colon and (kind not in ("role", "team", "rota") or not name):
            complaints.add(
                line, f"{quoted(selector)} selects nobody; write alice, role:manager, team:platform or rota:nights"
            )
        elif policy.people and selector not in known:
            near = next((each for each in known if each.partition(":")[2] == selector), None)
            remedy = f"did you mean {quoted(near)}?" if near else did_you_mean(selector, known)
            complaints.add(line, f"unknown reviewer {quoted(selector)}; {remedy}")


def _check_quorum(policy: Policy, rule: Rule, line: int, complaints: Complaints) -> None:
    able = eligible(policy, rule.reviewers or policy.reviewers)
    if not able:
        return  # No people at all, or reviewers that nobody is: the latter was said already.
    if rule.quorum.count > len(able):
        text = f"quorum is {rule.quorum.count}, and only {len(able)} may decide; lower it or add reviewers"
        complaints.add(line, text)
    elif not quorum_met(Quorum(1, rule.quorum.roles), able):
        text = f"nobody who may decide can stand for the roles {', '.join(rule.quorum.roles)}; add reviewers"
        complaints.add(line, text)


def _check_facts(rule: Rule, line: int, complaints: Complaints) -> None:
    for key in (compile_condition(rule.when).keys("facts") if rule.when else ()) or ():
        if key not in DEFAULTS:
            remedy = did_you_mean(key, sorted(DEFAULTS))
            complaints.warn(line, f"facts has no {quoted(key)} unless a lookup gives one; {remedy}")


def _check_soft(policy: Policy, rule: Rule, line: int, complaints: Complaints) -> None:
    """A soft gate must not stand on what is known to be irreversible. What a condition excludes is not known."""
    excluded = "effect" in compile_condition(rule.when).variables if rule.when else False
    for glob in rule.actions:
        if is_wild(glob):
            bad = next((name for name in _names_like(policy, glob) if _irreversible(policy, name)), None)
            if bad is None or excluded:
                continue
            text = f"{quoted(glob)} includes {bad}, which cannot be undone, and a soft gate lets it pass in silence"
            (complaints.warn if rule.when else complaints.add)(
                line, f"{text}; add when: effect.reversible, or use hard"
            )
        elif _irreversible(policy, glob):
            text = f"{quoted(glob)} cannot be undone, so a soft gate may not let it pass in silence; use hard"
            complaints.add(line, text)
        elif _dangerous(policy, glob):
            text = f"{quoted(glob)} is dangerous, so it will wait instead of passing in silence; use hard"
            complaints.warn(line, f"{text}, or declare its risk under actions:")


def _irreversible(policy: Policy, name: str) -> bool:
    declared = policy.declaration_for(name)
    if declared is not None and declared.declaration.reversible is not None:
        return not declared.declaration.reversible
    entry = find_entry(name)
    return entry is not None and not entry.effect.reversible


def _dangerous(policy: Policy, name: str) -> bool:
    declared = policy.declaration_for(name)
    if declared is not None and declared.declaration.risk is not None:
        return declared.declaration.risk >= Risk.DANGEROUS
    entry = find_entry(name)
    return declared is None and entry is not None and entry.risk >= Risk.DANGEROUS


def _names_like(policy: Policy, glob: str) -> Iterable[str]:
    """Every declared or known name that the pattern matches, and its own spelling, which declarations may share."""
    fits = pattern((glob,))
    declared = (each.pattern for each in policy.declared)
    return (name for name in (*declared, *_catalogue_names()) if fits.match(name))


@lru_cache(maxsize=1)
def _catalogue_names() -> tuple[str, ...]:
    """The usual spellings of everything in the catalogue, the irreversible first."""
    entries = sorted(CATALOGUE, key=lambda entry: entry.effect.reversible)
    return tuple(
        dict.fromkeys(
            f"{verb}_{noun}" for entry in entries for verb in sorted(entry.verbs) for noun in sorted(entry.nouns)
        )
    )


def _warn_unreachable(rules: tuple[Rule, ...], complaints: Complaints) -> None:
    for index, rule in enumerate(rules):
        before = next((each for each in rules[:index] if _swallows(each, rule)), None)
        if before is not None:
            text = f"is never reached, because rule {quoted(before.name)} above matches all of it; move it up"
            complaints.rule = rule.name
            complaints.warn(rule.line, text)
    complaints.rule = ""


def _swallows(earlier: Rule, later: Rule) -> bool:
    return (
        earlier.when in ("", "true")
        and _includes(earlier.actions, later.actions)
        and _includes(earlier.agents, later.agents)
    )


def _includes(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    return all(any(_includes_one(one, each) for one in wide) for each in narrow)


def _includes_one(wide: str, narrow: str) -> bool:
    if wide in ("*", narrow):
        return True
    # A star can stand for another star or a question mark; beyond that, say only what is certain.
    certain = not any(character in wide for character in "?[") and "[" not in narrow
    return certain and pattern((wide,)).match(narrow) is not None
