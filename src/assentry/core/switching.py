"""Setting a stop switch: the change that does it, with the entry that says who did."""

from datetime import datetime

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.copies import replace
from assentry.core.switch import Setting, Switch

_KINDS = {Setting.GO: "switch.released", Setting.PAUSE: "switch.paused", Setting.STOP: "switch.stopped"}


def turned(switch: Switch, setting: Setting, by: str, reason: str, now: datetime, *, holder: str = "") -> Change:
    """The change that sets the switch; `holder` says when it goes on, where that is not who set it."""
    by_whom, version = holder or by, switch.version + 1
    moved = replace(switch, setting=setting, by=by_whom, reason=reason, at=now, version=version, denials=0)
    body = {"agent": switch.agent, "reason_given": bool(reason)}
    return Change(switch=moved, entries=(Entry(_KINDS[setting], now, switch.workspace, switch.agent, by, body),))


def counted(switch: Switch, denials: int, by: str, now: datetime) -> Change:
    """The change that keeps count of denials in a row."""
    moved = replace(switch, denials=denials, version=switch.version + 1)
    body = {"agent": switch.agent, "denials": denials}
    return Change(switch=moved, entries=(Entry("switch.counted", now, switch.workspace, switch.agent, by, body),))
