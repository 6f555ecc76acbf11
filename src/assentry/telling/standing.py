"""What stands until somebody ends it, for scripts: grants and stop switches."""

from datetime import timedelta

from assentry.core.action import Declaration, Json, Reach, Risk
from assentry.core.grant import Grant
from assentry.core.judge import why_void
from assentry.core.policy import Policy
from assentry.core.switch import EVERYTHING, Switch
from assentry.core.text import counted
from assentry.core.vouching import Definition, OfferedTool, reading


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


def grant_document(grant: Grant, policy: Policy) -> dict[str, Json]:
    """A grant for scripts, and why it does not count by this policy."""
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
        "does_not_count": why_void(policy, grant) or "",
    }


def everywhere_words(within: timedelta) -> str:
    """From when on everybody goes by what was just changed: a policy, a stop switch, a grant."""
    if within <= timedelta(0):
        return "every instance follows it now"
    return (
        "it holds at once for decisions and approved calls; calls that need no approval follow it everywhere within "
        f"{within.total_seconds():.3g} s"
    )


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


def tool_document(tool: OfferedTool) -> dict[str, Json]:
    """A tool that somebody offers, for scripts."""
    risk, says = tool_reading(tool)
    return {
        "source": tool.source, "name": tool.name, "digest": tool.digest, "state": str(tool.state), "by": tool.by,
        "at": tool.at.isoformat(), "reading": says, "risk": risk,
        "description": tool.body.get("description", ""), "arguments": tool.body.get("arguments"),
        "effect": tool.body.get("effect", {}), "hints": tool.body.get("about", {}),
    }  # fmt: skip


def tool_reading(tool: OfferedTool) -> tuple[str, str]:
    """What we make of it, as a guess: its risk, and what it probably does."""
    said = dict(tool.body.get("effect", {}))
    for name, kind in (("reach", Reach), ("risk", Risk)):
        if name in said:
            said[name] = kind(said[name])
    made = Definition(tool.name, tool.body.get("description", ""), tool.body.get("arguments"), Declaration(**said))
    risk, says = reading(made)
    return str(risk), says
