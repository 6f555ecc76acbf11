"""What stands until somebody ends it, for scripts: grants and stop switches."""

from assentry.core.action import Json
from assentry.core.grant import Grant
from assentry.core.switch import EVERYTHING, Switch


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
