"""What a new policy changes, in words: by section, and rule by rule."""

import difflib
from collections.abc import Mapping

from assent.core.action import Json
from assent.core.authority import resolve
from assent.core.policy import Policy
from assent.core.text import shortened
from assent.engine.policies import may_operate
from assent.errors import NotAllowed

_UNSAID = "not said"
_LONGEST = 60
_MOST_LINES = 2_000
"""Of a text that is compared line by line; more would take too long."""


def changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> tuple[str, ...]:
    """Every difference between two policy documents, a sentence each."""
    found: list[str] = []
    for section in dict.fromkeys((*old, *new)):
        if section == "rules":
            continue
        before, after = old.get(section), new.get(section)
        if isinstance(before or after, Mapping):
            found += _entries(section, before or {}, after or {})
        elif before != after:
            found.append(f"{section}: {_told(before)} -> {_told(after)}")
    return (*found, *_rules(old.get("rules") or [], new.get("rules") or []))


def line_changes(old: str, new: str) -> tuple[str, ...]:
    """What is different between two texts, line by line and uncut, as a unified difference; nothing where too long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return ()
    return tuple(difflib.unified_diff(before, after, "active", "proposed", lineterm="", n=2))


def lockout(new: Policy, os_user: str) -> tuple[str, ...]:
    """Warnings for whoever is about to apply `new` and could then not change it back, or not decide."""
    try:
        may_operate(new, os_user)
    except NotAllowed as problem:
        who = "" if resolve(new, os_user) else " and cannot decide anything"
        return (f"after this you may not change the policy again{who}: {problem}",)
    return ()


def _entries(section: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    found = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if name not in new:
            found.append(
                f"{section}: {name} is gone" if isinstance(before, Mapping) else _moved(section, name, before, after)
            )
        elif name not in old:
            found.append(f"{section}: {name} is new: {_told(after)}")
        else:
            found.append(_moved(section, name, before, after))
    return found


def _moved(section: str, name: str, before: Json, after: Json) -> str:
    return f"{section}: {name}: {_told(before)} -> {_told(after)}"


def _rules(old: list[Mapping[str, Json]], new: list[Mapping[str, Json]]) -> list[str]:
    before = {rule["name"]: rule for rule in old}
    after = {rule["name"]: rule for rule in new}
    found = [f'rule "{name}" is gone' for name in before if name not in after]
    for name, rule in after.items():
        if name not in before:
            found.append(f'rule "{name}" is new: {_rule(rule)}')
        elif rule != before[name]:
            keys = [key for key in dict.fromkeys((*before[name], *rule)) if before[name].get(key) != rule.get(key)]
            parts = [f"{key} {_told(before[name].get(key))} -> {_told(rule.get(key))}" for key in keys]
            found.append(f'rule "{name}" changes: {"; ".join(parts)}')
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        found.append("rules stand in another order; the first that matches chooses")
    return found


def _rule(rule: Mapping[str, Json]) -> str:
    actions = ", ".join(rule.get("actions") or ["every action"])
    when = f" when {rule['when']}" if rule.get("when") else ""
    return f"{rule['gate']} for {shortened(actions + when, _LONGEST * 2)}"


def _told(value: Json) -> str:
    match value:
        case None:
            return _UNSAID
        case bool():
            return "true" if value else "false"
        case list():
            return shortened(", ".join(_told(item) for item in value) or "none", _LONGEST)
        case Mapping():
            return shortened(", ".join(f"{key} {_told(item)}" for key, item in value.items()) or "nothing", _LONGEST)
        case _:
            return shortened(str(value), _LONGEST)
