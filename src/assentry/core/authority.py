"""Who may decide, and whether enough of them have.

One function answers for every surface. Identity comes from the edge; what a person may do comes from the policy.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Literal

from assentry.core.policy import Person, Policy
from assentry.core.verdict import Quorum

NOBODY: Mapping[str, Collection[str]] = MappingProxyType({})
"""Nobody is on duty in any rota."""
EVERYTHING = "*"
"""The role and team of the only person there is, where no people are configured."""
ASSENTRY = "assentry"
"""Who does what Assentry does by itself."""
OPERATOR = "operator"
"""The role that may change policy, people, tokens and grants, where people are configured and somebody holds it."""

_SOMEONE_ELSE = "so someone else must decide (or the policy says self_review: allow)"


class Excluded(Enum):
    """Why somebody who is a reviewer has no vote on a request."""

    ITSELF = "it is the agent itself"
    OWNER = "owner of the agent"
    ASKER = "made the request"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody, or something, that the edge has identified."""

    name: str
    kind: Literal["person", "agent"] = "person"
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()


def resolve(policy: Policy, os_user: str) -> Principal | None:
    """The person behind an operating-system user, or `None` if nobody is.

    Without `people:` whoever sits at the machine is a person and holds every role: the embedded mode of one.
    """
    if not os_user:
        return None
    if not policy.people:
        return Principal(os_user, "person", (EVERYTHING,), (EVERYTHING,))
    for person in policy.people:
        if os_user in person.os_users:
            return Principal(person.name, "person", person.roles, person.teams)
    return None


def principal_named(policy: Policy, name: str) -> Principal | None:
    """The person whom the policy calls `name`, with the roles and teams it gives them."""
    for person in policy.people:
        if person.name == name:
            return Principal(person.name, "person", person.roles, person.teams)
    return None


def person_with_email(policy: Policy, address: str) -> Principal | None:
    """The one person of the policy who has this address; nobody where two have."""
    found = [each for each in policy.people if each.email and each.email.casefold() == address.casefold()]
    return principal_named(policy, found[0].name) if len(found) == 1 else None


def may_decide(
    policy: Policy,
    principal: Principal | None,
    reviewers: Collection[str],
    agent: str,
    asked_by: str = "",
    already_voted: Collection[str] = (),
    now: datetime | None = None,
) -> str | None:
    """Why `principal` may not decide what `agent` asked for, in a sentence; `None` if they may.

    `asked_by` is the person, or the operating-system user, on whose behalf the agent runs. Where people are
    configured, roles and teams are looked up in the policy and not believed. Who is on duty depends on `now`; without
    it nobody is.
    """
    if principal is None:
        return "nobody is known by this identity; an operator can add it under people:"
    if principal.kind != "person":
        return "agents never decide"
    if policy.people:
        known = principal_named(policy, principal.name)
        if known is None:
            return f"{principal.name} is not among the people of the policy; an operator can add them"
        principal = known
    match why_excluded(policy, principal, agent, asked_by):
        case Excluded.ITSELF:
            return "the agent that asks cannot decide"
        case Excluded.OWNER:
            return f"{principal.name} owns {agent}, {_SOMEONE_ELSE}"
        case Excluded.ASKER:
            return f"{principal.name} made this request, {_SOMEONE_ELSE}"
        case None:
            pass
    duty = duties(policy, now)
    if reviewers and not any(selects(selector, principal, duty) for selector in reviewers):
        return f"this waits for {' or '.join(reviewers)}, and {principal.name} is not one of them"
    if principal.name in already_voted:
        return f"{principal.name} has already decided; another person is needed"
    return None


def may_change(policy: Policy, principal: Principal | None) -> str | None:
    """Why `principal` may not change policy, people, tokens and grants, in a sentence; `None` if they may.

    Where the policy names operators only they may, else everybody in it.
    """
    if principal is None or principal.kind != "person":
        return "agents change nothing about who may do what"
    if not policy.people:
        return None
    known = principal_named(policy, principal.name)
    if known is None:
        return f"{principal.name} is not among the people of the policy, so may not change it; ask one of them"
    if all(each.name != known.name for each in changers(policy)):
        return f"{known.name} does not have the role {OPERATOR}, which this policy reserves changes for"
    return None


def changers(policy: Policy) -> tuple[Person, ...]:
    """The people who may change the policy: its operators, or everybody where it names none."""
    operators = tuple(each for each in policy.people if OPERATOR in each.roles)
    return operators or policy.people


def may_release(policy: Policy, principal: Principal, set_by: str) -> str | None:
    """Why `principal` may not ease a stop switch that `set_by` set; `None` if they may.

    Everybody may stop. What a person stopped goes on when that person or somebody who may change the policy says so;
    what Assentry paused by itself goes on when anybody does.
    """
    if set_by in (principal.name, ASSENTRY) or (reason := may_change(policy, principal)) is None:
        return None
    return f"{set_by} set this switch, so {set_by} or an operator lets it go on: {reason}"


def duties(policy: Policy, now: datetime | None) -> dict[str, tuple[str, ...]]:
    """Who is on duty now, by the names of the rotas."""
    return {rota.name: rota.on_duty(now) for rota in policy.rotas} if now is not None else {}


def selects(selector: str, principal: Principal, duty: Mapping[str, Collection[str]] = NOBODY) -> bool:
    """Whether `alice`, `role:manager`, `team:platform` or `rota:nights` means this principal; `duty` is who is on."""
    kind, colon, name = selector.partition(":")
    if not colon:
        return principal.name == selector or EVERYTHING in principal.roles
    if kind == "role":
        return name in principal.roles or EVERYTHING in principal.roles
    if kind == "team":
        return name in principal.teams or EVERYTHING in principal.teams
    if kind == "rota":
        return principal.name in duty.get(name, ()) or EVERYTHING in principal.roles
    return False


def eligible(policy: Policy, reviewers: Collection[str], now: datetime | None = None) -> tuple[Principal, ...]:
    """Everybody in the policy whom these selectors mean; no selectors mean all.

    A rota means who is on duty `now`; without a time, everybody who is at some time.
    """
    duty = duties(policy, now) if now is not None else {rota.name: rota.members for rota in policy.rotas}
    people = (Principal(each.name, "person", each.roles, each.teams) for each in policy.people)
    return tuple(each for each in people if not reviewers or any(selects(one, each, duty) for one in reviewers))


def quorum_met(quorum: Quorum, approvals: Collection[Principal]) -> bool:
    """Enough distinct people approved, and each required role is held by a person of its own among them."""
    people = {each.name: each for each in approvals if each.kind == "person"}
    return len(people) >= quorum.count and _roles_filled(quorum.roles, tuple(people.values()))


def why_excluded(policy: Policy, principal: Principal, agent: str, asked_by: str = "") -> Excluded | None:
    """Why this person has no vote on what `agent` asks, whoever the reviewers are; `None` if they have one."""
    return excluded(policy, agent, asked_by).get(principal.name)


def excluded(policy: Policy, agent: str, asked_by: str = "") -> dict[str, Excluded]:
    """Everybody who has no vote on what `agent` asks, by name, whoever the reviewers are."""
    found: dict[str, Excluded] = {}
    if not policy.allows_self_review:
        if asked_by:
            asker = resolve(policy, asked_by)
            found |= dict.fromkeys((asked_by, *((asker.name,) if asker is not None else ())), Excluded.ASKER)
        entry = policy.agent_named(agent)
        if entry is not None and entry.owner:
            found[entry.owner] = Excluded.OWNER
    found[agent] = Excluded.ITSELF
    return found


def _roles_filled(roles: tuple[str, ...], people: tuple[Principal, ...]) -> bool:
    """Every role gets a person of its own (augmenting paths: who is taken moves over if they can)."""
    taken: dict[str, int] = {}

    def seat(role: int, tried: set[str]) -> bool:
        for person in people:
            if person.name in tried or not selects(f"role:{roles[role]}", person):
                continue
            tried.add(person.name)
            if person.name not in taken or seat(taken[person.name], tried):
                taken[person.name] = role
                return True
        return False

    return all(seat(role, set()) for role in range(len(roles)))
