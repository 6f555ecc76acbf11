"""What is refused once the whole policy is known: gates that must not exist, people who are not there or not enough.

What loads and never does what it says is warned about in `policy_warnings`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from assentry.core.action import Risk
from assentry.core.authority import OPERATOR, changers
from assentry.core.catalogue import CATALOGUE, find_entry
from assentry.core.condition import compile_condition
from assentry.core.coverage import Above, TooMuch, Work
from assentry.core.deciders import Asked, asked_by_rule, shortened, usual_asked
from assentry.core.judge import is_stricter
from assentry.core.panel import Circle, Panel, People
from assentry.core.pattern import is_wild, pattern
from assentry.core.policy import ONE_PERSON, Policy, Rule
from assentry.core.policy_text import Complaints, Lines, did_you_mean, quoted
from assentry.core.policy_warnings import is_never_true, warn_of_idle_words
from assentry.core.verdict import GateKind, Ladder

_MOST_WORK = 500_000
"""Small steps for each part of the checks: about a third of a second."""


def check_policy(policy: Policy, lines: Lines, complaints: Complaints, now: datetime | None = None) -> None:
    """Adds every complaint and warning that the policy as a whole deserves; `load_policy` says what the rest means.

    With many thousands of rules only as much is looked at as takes about a second, and a warning says so.
    """
    try:
        _check_all(policy, lines, complaints, now)
    except TooMuch:
        complaints.rule = ""
        complaints.warn(
            1, "the file is too large to check all of it, so there may be more to say; use fewer rules, or patterns"
        )


def _check_all(policy: Policy, lines: Lines, complaints: Complaints, now: datetime | None) -> None:
    selectors = _Selectors(policy, complaints)
    _check_levels(policy, lines, complaints)
    selectors.check(policy.reviewers, lines.get(("", "reviewers"), 1))
    selectors.check_ladder(policy.ladder, lines.get(("", "ladder"), 1))
    _check_rotas(policy, lines.get(("", "rotas"), 1), complaints)
    _check_agents(policy, lines.get(("", "agents"), 1), complaints)
    _check_second_person(policy, lines.get(("", "second_person"), 1), complaints)
    work = Work(_MOST_WORK)
    for rule in policy.rules:
        complaints.rule = rule.name
        where = {key: lines.get((rule.name, key), rule.line) for key in ("reviewers", "ladder", "gate")}
        selectors.check(rule.reviewers, where["reviewers"])
        if (rule.name, "ladder") in lines and rule.ladder is not None:
            selectors.check_ladder(rule.ladder, where["ladder"])
        unread = (rule.name, "when") in lines and not rule.when
        if rule.gate is GateKind.SOFT and not unread:
            _check_soft(policy, rule, where["gate"], complaints, work)
    complaints.rule = ""
    _warn_instead(policy, lines.get(("", "actions"), 1), complaints)
    _warn_of_nobody_listed(policy, lines, complaints)
    coming = policy
    if now is not None and (rotas := tuple(rota.since(now) for rota in policy.rotas)) != policy.rotas:
        coming = replace(policy, rotas=rotas)
    _Quorums(coming, lines, complaints, selectors).check()
    if not complaints.found:
        warn_of_idle_words(policy, lines, complaints, Work(2 * _MOST_WORK))


def _warn_of_nobody_listed(policy: Policy, lines: Lines, complaints: Complaints) -> None:
    """Warns of reviewers who are only names, where the first of them stands."""
    if policy.people:
        return
    naming = next((rule for rule in policy.rules if rule.reviewers or rule.quorum.roles), None)
    if policy.reviewers:
        line = lines.get(("", "reviewers"), 1)
    elif naming is not None:
        key = "reviewers" if naming.reviewers else "quorum"
        complaints.rule, line = naming.name, lines.get((naming.name, key), naming.line)
    else:
        return
    complaints.warn(
        line,
        "reviewers are named but there is no people: section, so anyone at this machine may decide; "
        "list them under people:",
    )
    complaints.rule = ""


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
    able = [each.name for each in changers(policy)]
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


class _Selectors:
    """The reviewers that a policy names, held to the people that it lists."""

    def __init__(self, policy: Policy, complaints: Complaints) -> None:
        roles = {f"role:{role}" for person in policy.people for role in person.roles}
        teams = {f"team:{team}" for person in policy.people for team in person.teams}
        rotas = {f"rota:{rota.name}" for rota in policy.rotas}
        self._known = {person.name for person in policy.people} | roles | teams | rotas
        self._sorted = sorted(self._known)
        self._listed = bool(policy.people)
        self._complaints = complaints
        names = {person.name for person in policy.people}
        self.empty = {f"rota:{rota.name}" for rota in policy.rotas if names.isdisjoint(rota.members)}
        """Rotas with nobody in them whom the policy lists: it was said already what is wrong with them."""

    def selects_nobody(self, selector: str) -> bool:
        return self._listed and (selector not in self._known or selector in self.empty)

    def check(self, selectors: Iterable[str], line: int) -> None:
        for selector in selectors:
            kind, colon, name = selector.partition(":")
            if colon and (kind not in ("role", "team", "rota") or not name):
                self._complaints.add(
                    line, f"{quoted(selector)} selects nobody; write alice, role:manager, team:platform or rota:nights"
                )
            elif self._listed and selector not in self._known:
                near = next((each for each in self._sorted if each.partition(":")[2] == selector), None)
                remedy = f"did you mean {quoted(near)}?" if near else did_you_mean(selector, self._sorted)
                self._complaints.add(line, f"unknown reviewer {quoted(selector)}; {remedy}")

    def check_ladder(self, ladder: Ladder, line: int) -> None:
        for rung in ladder.rungs:
            self.check(rung.tell + rung.rota, line)


class _Quorums:
    """Refuses what nobody could ever decide, and warns of what only some people's requests would make undecidable.

    What is refused is certain. Where a rule may never be reached, it is a warning.
    """

    def __init__(self, policy: Policy, lines: Lines, complaints: Complaints, selectors: _Selectors) -> None:
        self._policy, self._lines, self._complaints, self._selectors = policy, lines, complaints, selectors
        self._work = Work(_MOST_WORK)
        self._panel = Panel(policy, self._work)
        self._owned = [_Owned(each.name, self._panel.named((each.owner,))) for each in policy.agents if each.owner]
        self._owners = {each.owner for each in self._owned}
        self._usual = usual_asked(policy)
        self._seen_usual = False
        """Whether it was looked at already who decides where no rule matches, or by a rule that asks the same."""
        self._told_of_agent = False
        """Whether an agent was named whose requests nobody could decide there."""

    def check(self) -> None:
        rules, everything = self._policy.rules, Above(self._work)
        for rule in rules:
            everything.add(rule)
        line = self._lines.get(("", "reviewers"), self._lines.get(("", "people"), 1))
        self._check(self._usual, Rule(""), line, everything)
        above = Above(self._work)
        for rule in rules:
            if rule.gate is not GateKind.FORBID:
                self._complaints.rule = rule.name
                keys = (
                    self._lines[rule.name, key] for key in ("quorum", "reviewers") if (rule.name, key) in self._lines
                )
                self._check(asked_by_rule(self._policy, rule), rule, next(keys, rule.line), above)
            above.add(rule)
        self._complaints.rule = ""

    def _check(self, asked: Asked, rule: Rule, line: int, above: Above) -> None:
        if any(map(self._selectors.selects_nobody, asked.reviewers)) or len(asked.quorum.roles) > asked.quorum.count:
            return  # What is wrong with them was said already.
        if not self._policy.people:
            if asked.quorum.count > 1:
                self._complaints.warn(
                    line,
                    f"quorum is {asked.quorum.count}, and there is no people: section, so any {asked.quorum.count} "
                    "users who can sign in count; list who may decide under people:",
                )
            return
        is_usual = asked.is_like(self._usual)
        circle = self._panel.circle(asked.reviewers, asked.quorum, asked.ladder)
        reached = _Reached(self._policy, rule, above)
        what = "its requests" if asked.rule else "requests that no rule matches"
        if not circle.enough():
            if (is_usual and self._seen_usual) or reached.never():
                return
            self._seen_usual |= is_usual
            remedy = "add reviewers, lower quorum, or give somebody the role"
            problem = asked.of(self._policy, panel=self._panel).problem
            self._say(line, f"{what} can never be approved: {problem}; {remedy}", certain=reached.surely())
            return
        if self._policy.allows_self_review:
            return
        needed = circle.needed()
        agents = [] if is_usual and self._told_of_agent else self._agents(rule, circle, needed)
        owned = next((each for each in agents if each.owner & needed and not reached.never((each.name,))), None)
        if owned is not None:
            self._told_of_agent |= is_usual
            problem = asked.of(self._policy, owned.name, panel=self._panel).problem
            text = f"{what} can never be approved for the agent {quoted(owned.name)}: {problem}"
            certain = reached.surely((owned.name,))
            self._say(line, f"{text}; add reviewers, or write self_review: allow", certain=certain)
            return
        if not self._complaints.has_room:
            self._complaints.left_out += bool(needed)
            return
        if needed and not (is_usual and self._seen_usual) and not reached.never():
            self._seen_usual |= is_usual
            says = asked.of(self._policy, panel=self._panel).says
            text = f"if {self._either(needed)} owns the agent or made the request, {what} cannot be approved ({says})"
            self._complaints.warn(line, f"{text}; add reviewers, or write self_review: allow")
        for each in agents:
            askers = circle.needed(each.owner) & ~needed
            if askers and not reached.never((each.name,)):
                self._told_of_agent |= is_usual
                says = asked.of(self._policy, each.name, panel=self._panel).says
                text = (
                    f"if {self._either(askers)} made a request of the agent {quoted(each.name)}, it cannot be approved"
                )
                self._complaints.warn(line, f"{text} ({says}); add reviewers, or write self_review: allow")
                return

    def _agents(self, rule: Rule, circle: Circle, needed: People) -> list["_Owned"]:
        """The agents of this rule of which it matters who owns them."""
        matter = {each for each in self._owners if each & needed or circle.needed(each)}
        names = pattern(rule.agents)
        found = []
        for each in self._owned if matter else ():
            self._work.spend()
            if each.owner in matter and names.match(each.name):
                found.append(each)
        return found

    def _either(self, people: People) -> str:
        names = shortened(self._panel.names(people), "others")
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))

    def _say(self, line: int, text: str, *, certain: bool) -> None:
        (self._complaints.add if certain else self._complaints.warn)(line, text)


@dataclass(frozen=True, slots=True)
class _Owned:
    """An agent and who owns it."""

    name: str
    owner: People


@dataclass(frozen=True, slots=True)
class _Reached:
    """Whether calls get to a rule, and whether those that do wait for somebody."""

    policy: Policy
    rule: Rule
    above: Above

    def never(self, agents: tuple[str, ...] | None = None) -> bool:
        """No call does, or none of these agents."""
        return bool(self.above.covering(self.rule, agents)) or is_never_true(self.policy, self.rule, self.above.work)

    def surely(self, agents: tuple[str, ...] | None = None) -> bool:
        """Nothing above it and not its gate may keep them all away; nor its condition these agents."""
        rule = self.rule
        waits = rule.gate.holds or rule.reviewers or rule.quorum != ONE_PERSON
        chosen = compile_condition(rule.when).variables if rule.when and agents is not None else ()
        by_agent = "action" in chosen or "run" in chosen
        return bool(waits) and not by_agent and not self.above.may_cover(rule, agents)


def _check_soft(policy: Policy, rule: Rule, line: int, complaints: Complaints, work: Work) -> None:
    """A soft gate must not stand on what is known to be irreversible. What a condition excludes is not known."""
    excluded = "effect" in compile_condition(rule.when).variables if rule.when else False
    for glob in rule.actions:
        if is_wild(glob):
            work.spend(len(policy.declared) + len(_catalogue_names()))
            bad = next((name for name in _names_like(policy, glob) if _irreversible(policy, name, work)), None)
            if bad is None or excluded:
                continue
            text = f"{quoted(glob)} includes {bad}, which cannot be undone, and a soft gate lets it pass in silence"
            (complaints.warn if rule.when else complaints.add)(
                line, f"{text}; add when: effect.reversible, or use hard"
            )
        elif _irreversible(policy, glob, work):
            text = f"{quoted(glob)} cannot be undone, so a soft gate may not let it pass in silence; use hard"
            complaints.add(line, text)


def _irreversible(policy: Policy, name: str, work: Work) -> bool:
    work.spend(1 + len(policy.declared))
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
