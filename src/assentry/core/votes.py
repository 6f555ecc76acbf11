"""Which votes on a request count, and what a request demands, by the policy that is in force now.

A vote is on record as it was given. Whether it counts is asked again at the deciding vote and before anything begins:
its person must still be there, be a reviewer and not be excluded. Who was on duty, and whom the ladder had added, is
judged as of the vote. Nothing here decides anything; `advance` does.
"""

from collections.abc import Mapping
from dataclasses import replace

from assentry.core.authority import Principal, may_decide, principal_named, quorum_met
from assentry.core.deciders import deciders
from assentry.core.judge import is_stricter
from assentry.core.policy import Policy
from assentry.core.request import Request, State
from assentry.core.text import counted
from assentry.core.verdict import Quorum, Verdict, joined


def reviewers_of(request: Request, verdict: Verdict) -> tuple[str, ...]:
    """Whom it waits for: the reviewers, and those whom the ladder has added; empty if it waits for anyone."""
    return (*verdict.reviewers, *request.told) if verdict.reviewers else ()


def roles_now(policy: Policy, name: str, before: tuple[str, ...]) -> tuple[str, ...]:
    """The roles that the policy gives this person; where it names nobody, those that a surface vouched for."""
    known = principal_named(policy, name) if policy.people else None
    return known.roles if known is not None else () if policy.people else before


def standing(policy: Policy, request: Request, verdict: Verdict) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The people whose approval counts, with their roles; and those whose approval does not, each with the reason."""
    ask, counting, void = request.ask, dict[str, tuple[str, ...]](), dict[str, str]()
    for vote in request.votes:
        person = Principal(vote.by, roles=vote.roles)
        why = may_decide(policy, person, reviewers_of(request, verdict), ask.agent, ask.asked_by, now=vote.at)
        if why is None:
            counting[vote.by] = roles_now(policy, vote.by, vote.roles)
        else:
            void[vote.by] = why
    return counting, void


def shortfall(policy: Policy, request: Request, verdict: Verdict) -> str:
    """Why the approvals of an approved request do not suffice for `verdict`; empty if they do."""
    counting, void = standing(policy, request, verdict)
    if quorum_met(verdict.quorum, [Principal(name, roles=roles) for name, roles in counting.items()]):
        return ""
    return "; ".join((*no_longer(void), f"it needs {_people(verdict.quorum)} by now"))


def out_of_reach(policy: Policy, request: Request, verdict: Verdict) -> str:
    """Why nobody will ever complete it by this policy, whoever votes and however long it waits; empty if it can be."""
    ask = request.ask
    found = deciders(
        policy, reviewers_of(request, verdict), verdict.quorum, verdict.ladder, ask.agent, ask.asked_by
    )  # fmt: skip
    if found.enough or request.state is not State.PENDING:
        return ""
    return f"nobody can complete this: {found.problem}; deny it, or change the policy"


def no_longer(void: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each approval that does not count any more."""
    return tuple(f"the approval of {name} no longer counts: {why}" for name, why in void.items())


def demanded(now: Verdict, both: Verdict) -> Verdict:
    """What a request demands that would be judged `now`; `both` is the stricter of that and what it was asked with.

    So it is never less than what was asked for. The reviewers are those of now, where there are any, and whoever holds
    a role that was asked for before.
    """
    if not now.reviewers:
        return replace(both, policy_version=now.policy_version)
    reviewers, quorum = joined(now.reviewers, now.quorum, both.quorum)
    return replace(both, reviewers=reviewers, quorum=quorum, policy_version=now.policy_version)


def stricter_by(stored: Verdict, now: Verdict) -> tuple[str, ...]:
    """What `now` demands beyond `stored`, a sentence each. Other reviewers alone are not more."""
    found = []
    if is_stricter(now.gate, stored.gate):
        found.append(f"it {now.gate.words} (before: {stored.gate.words}), because {now.because}")
    if now.quorum.count > stored.quorum.count or set(now.quorum.roles) - set(stored.quorum.roles):
        found.append(f"it needs {_people(now.quorum)} (before: {_people(stored.quorum)})")
    return tuple(found)


def _people(quorum: Quorum) -> str:
    roles = f", including {' and '.join(f'role:{role}' for role in quorum.roles)}" if quorum.roles else ""
    return f"the approval of {counted(quorum.count, 'person')}{roles}"
