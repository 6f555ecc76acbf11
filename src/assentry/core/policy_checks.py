"""What is refused once the whole policy is known: gates that must not exist, people who are not there or not enough.

What loads and never does what it says is warned about in `policy_warnings`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from assentry.core.action import Risk
from assentry.core.authority import OPERATOR, Principal, may_change
from assentry.core.catalogue import CATALOGUE, find_entry
from assentry.core.condition import compile_condition
from assentry.core.deciders import Asked, everybody_asked
from assentry.core.judge import is_stricter
from assentry.core.pattern import is_wild, pattern
from assentry.core.policy import Policy, Rule
from assentry.core.policy_text import Complaints, Lines, did_you_mean, quoted
from assentry.core.policy_warnings import warn_of_idle_words
from assentry.core.verdict import GateKind, Ladder


def check_policy(
    policy: Policy, lines: Lines, complaints: Complaints, now: datetime | None = None, *, stored: bool = False
) -> None:
    """Adds every complaint and warning that the policy as a whole deserves; `load_policy` says what the rest means."""
    _check_levels(policy, lines, complaints)
    _check_selectors(policy, policy.reviewers, lines.get(("", "reviewers"), 1), complaints)
    _check_ladder(policy, policy.ladder, lines.get(("", "ladder"), 1), complaints)
    _check_rotas(policy, lines.get(("", "rotas"), 1), complaints)
    _check_agents(policy, lines.get(("", "agents"), 1), complaints)
    _check_second_person(policy, lines.get(("", "second_person"), 1), complaints)
    for rule in policy.rules:
        complaints.rule = rule.name
        where = {key: lines.get((rule.name, key), rule.line) for key in ("reviewers", "ladder", "gate")}
        _check_selectors(policy, rule.reviewers, where["reviewers"], complaints)
        if (rule.name, "ladder") in lines and rule.ladder is not None:
            _check_ladder(policy, rule.ladder, where["ladder"], complaints)
        unread = (rule.name, "when") in lines and not rule.when
        if rule.gate is GateKind.SOFT and not unread:
            _check_soft(policy, rule, where["gate"], complaints)
    complaints.rule = ""
    _warn_instead(policy, lines.get(("", "actions"), 1), complaints)
    coming = policy if now is None else replace(policy, rotas=tuple(rota.since(now) for rota in policy.rotas))
    _check_deciders(coming, lines, complaints, stored=stored)
    named = any(rule.reviewers or rule.quorum.roles for rule in policy.rules) or bool(policy.reviewers)
    if named and not policy.people:
        text = (
            "reviewers are named but there is no people: section, so anyone at this machine may decide; "
            "list them under people:"
        )
        complaints.warn(lines.get(("", "reviewers"), lines.get(("", "rules"), 1)), text)
    if not complaints.found:
        warn_of_idle_words(policy, lines, complaints)


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


def _selects_nobody(policy: Policy, selector: str) -> bool:
    return bool(policy.people) and selector not in _selectors(policy)


def _selectors(policy: Policy) -> list[str]:
    """Everybody and every group that a reviewer can be."""
    roles = {f"role:{role}" for person in policy.people for role in person.roles}
    teams = {f"team:{team}" for person in policy.people for team in person.teams}
    rotas = {f"rota:{rota.name}" for rota in policy.rotas}
    return sorted({person.name for person in policy.people} | roles | teams | rotas)


def _check_selectors(policy: Policy, selectors: Iterable[str], line: int, complaints: Complaints) -> None:
    known = _selectors(policy)
    for selector in selectors:
        kind, colon, name = selector.partition(":")
        if colon and (kind not in ("role", "team", "rota") or not name):
            complaints.add(
                line, f"{quoted(selector)} selects nobody; write alice, role:manager, team:platform or rota:nights"
            )
        elif _selects_nobody(policy, selector):
            near = next((each for each in known if each.partition(":")[2] == selector), None)
            remedy = f"did you mean {quoted(near)}?" if near else did_you_mean(selector, known)
            complaints.add(line, f"unknown reviewer {quoted(selector)}; {remedy}")


def _check_deciders(policy: Policy, lines: Lines, complaints: Complaints, *, stored: bool) -> None:
    """Refuses what nobody could ever decide, and warns of what only some people's requests would make undecidable."""
    usual = lines.get(("", "reviewers"), lines.get(("", "people"), 1))
    for asked in everybody_asked(policy):
        complaints.rule = asked.rule
        rule = policy.rule_named(asked.rule)
        keys = (lines[asked.rule, key] for key in ("quorum", "reviewers") if (asked.rule, key) in lines)
        line = usual if rule is None else next(keys, rule.line)
        _check_asked(policy, asked, line, complaints, complaints.warn if stored else complaints.add)
    complaints.rule = ""


def _check_asked(
    policy: Policy, asked: Asked, line: int, complaints: Complaints, refuse: Callable[[int, str], None]
) -> None:
    if any(_selects_nobody(policy, each) for each in asked.reviewers):
        return  # Which of them is wrong was said already.
    what = "its requests" if asked.rule else "requests that no rule matches"
    anybody = asked.of(policy)
    if not anybody.listed:
        if asked.quorum.count > 1:
            text = (
                f"quorum is {asked.quorum.count}, and there is no people: section, so any {asked.quorum.count} users "
                "who can sign in count; list who may decide under people:"
            )
            complaints.warn(line, text)
        return
    if not anybody.enough:
        remedy = "add reviewers, lower quorum, or give somebody the role"
        refuse(line, f"{what} can never be approved: {anybody.problem}; {remedy}")
        return
    for agent in asked.owned(policy):
        if not (found := asked.of(policy, agent)).enough:
            text = f"{what} can never be approved for the agent {quoted(agent)}: {found.problem}"
            refuse(line, f"{text}; add reviewers, or write self_review: allow")
            return
    if policy.allows_self_review:
        return
    needed = [name for name in anybody.everybody if not asked.of(policy, without=(name,)).enough]
    if needed:
        whoever = " or ".join(filter(None, (", ".join(needed[:-1]), needed[-1])))
        text = f"if {whoever} owns the agent or made the request, {what} cannot be approved ({anybody.says})"
        complaints.warn(line, f"{text}; add reviewers, or write self_review: allow")


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


def _irreversible(policy: Policy, name: str) -> bool:
    declared = policy.declaration_for(name)
    if declared is not None and declared.declaration.reversible is not None:
        return not declared.declaration.reversible
    entry = find_entry(name)
    return entry is not None and not entry.effect.reversible


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


def _warn_instead(policy: Policy, line: int, complaints: Complaints) -> None:
    """What somebody wrote beside a function is replaced knowingly, not by a pattern that happens to match."""
    for each in policy.declared:
        if each.instead_of_code and is_wild(each.pattern):
            text = (
                f"{quoted(each.pattern)} has instead_of_code, so it overrides what the code declares of every action "
                "that matches, those written later too; name the actions instead"
            )
            complaints.warn(line, text)
