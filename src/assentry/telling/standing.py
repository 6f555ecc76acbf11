"""What stands until somebody ends it, for scripts: grants and stop switches."""

from assentry.core.action import Json
from assentry.core.grant import Grant
from assentry.core.switch import EVERYTHING, Switch
from assentry.core.text import counted


def grant_what(grant: Grant) -> str:
    """What it allows whom, in words."""
    agents = f" by {', '.join(grant.agents)}" if grant.agents != ("*",) else ""
    when = f" when {grant.condition}" if grant.condition else ""
    return f"{', '.join(grant.actions)}{agents}{when}, up to {grant.max_risk}"


def grant_use(grant: Grant) -> str:
    """How much of it is used up, and whether it covers what spends money."""
    times = f"{grant.used} of {grant.limit} uses" if grant.limit is not None else counted(grant.used, "use")
    return f"{times}, {f'{grant.spent} of {grant_money(grant)}' if grant.budget is not None else 'no spending'}"


def grant_bounds(grant: Grant) -> str:
    """How often and for how much it may be used."""
    times = f"at most {counted(grant.limit, 'use')}" if grant.limit is not None else "any number of uses"
    if grant.budget is None:
        return f"{times}; without a budget it covers nothing that spends money"
    return f"{times}, at most {grant_money(grant)} in all"


def grant_money(grant: Grant) -> str:
    """The budget with its currency."""
    return f"{grant.budget} {grant.currency or 'without a currency'}"


def grant_document(grant: Grant) -> dict[str, Json]:
    """A grant for scripts."""
    return {
        "id": grant.id,
        "actions": list(grant.actions),
        "agents": list(grant.agents),
        "condition": grant.condition,
        "max_risk": grant.max_risk,
        "limit": grant.limit,
        "used": grant.used,
        "budget": grant.budget,
        "spent": grant.spent,
        "currency": grant.currency,
        "reason": grant.reason,
        "granted_by": grant.granted_by,
        "expires_at": grant.expires_at,
        "revoked_at": grant.revoked_at,
    }


def switch_document(switch: Switch) -> dict[str, Json]:
    """A switch for scripts."""
    return {
        "agent": "" if switch.agent == EVERYTHING else switch.agent,
        "everything": switch.agent == EVERYTHING,
        "setting": str(switch.setting),
        "by": switch.by,
        "reason": switch.reason,
        "at": switch.at.isoformat(),
    }
