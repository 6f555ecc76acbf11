"""Standing permissions: given and revoked by people, on record."""

from datetime import datetime, timedelta

from uuid_utils.compat import uuid7

from assentry.core.action import Risk
from assentry.core.audit import Entry
from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.grant import Grant, Terms, granted, revoke
from assentry.engine.policies import active_policy
from assentry.errors import InvalidDecision, NotAllowed, NotFound
from assentry.ports import Store, View


async def give(store: Store, workspace: str, by: Principal, terms: Terms) -> Grant:
    """The grant stands from now on, for as long, as often and as much as its terms say.

    What is critical nobody allows alone where the active policy wants a second person for its changes.
    """
    if not terms.actions or terms.life <= timedelta(0):
        raise InvalidDecision("a grant names at least one action and lasts for some time")
    if terms.max_risk is Risk.CRITICAL and (await active_policy(store, workspace)).second_person:
        raise NotAllowed(
            "this policy wants a second person, so nobody allows alone what is critical: put a rule for it into the "
            "policy, which a second person confirms, or give the grant up to dangerous", principal=by.name,
        )  # fmt: skip
    grant_id = str(uuid7())
    made: list[Grant] = []

    def step(view: View) -> Change:
        grant = granted(terms, grant_id, workspace, by.name, view.now)
        made[:] = [grant]
        return Change(grants=(grant,), entries=(_entry(grant, "grant.given", by.name, view.now),))

    await store.transact(workspace, None, step)
    return made[0]


async def take_back(store: Store, workspace: str, by: Principal, grant: Grant) -> Grant:
    """The grant is revoked."""
    made: list[Grant] = []

    def step(view: View) -> Change:
        current = view.grants[0] if view.grants else None
        if current is None:
            raise NotFound(f"there is no grant {grant.id}")
        ended = revoke(current, view.now)
        made[:] = [ended]
        if ended is current:
            return Change()
        return Change(grants=(ended,), entries=(_entry(ended, "grant.revoked", by.name, view.now),))

    await store.transact(workspace, None, step, grants=(grant.id,))
    return made[0]


def _entry(grant: Grant, kind: str, by: str, now: datetime) -> Entry:
    body = {
        "actions": list(grant.actions),
        "agents": list(grant.agents),
        "condition": grant.condition,
        "limit": grant.limit,
        "budget": grant.budget,
        "currency": grant.currency,
        "max_risk": str(grant.max_risk),
        "expires_at": grant.expires_at.isoformat(),
    }
    return Entry(kind, now, grant.workspace, grant.id, by, body)
