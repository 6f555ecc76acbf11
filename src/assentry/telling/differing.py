"""What a new policy changes, in words: by section, and rule by rule."""

import difflib
from collections.abc import Mapping

from assentry.core.action import Json
from assentry.core.authority import Principal, may_change, principal_named, resolve
from assentry.core.policy import Policy
from assentry.core.text import shortened

_UNSAID = "(unset)"
_LONGEST = 60
"""Of what is told as it was and as it is; of what is longer, only the part that differs."""
_AROUND = 20
_MOST = 600
"""Of what is new, or differs, in one sentence."""
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
            found.append(f"{section}: {_change(before, after)}")
    return (*found, *_rules(old.get("rules") or [], new.get("rules") or []))


def line_changes(old: str, new: str) -> tuple[str, ...]:
    """What is different between two texts, line by line and uncut, as a unified difference; nothing where too long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return ()
    return tuple(difflib.unified_diff(before, after, "active", "proposed", lineterm="", n=2))


def lockout(new: Policy, os_user: str, person: Principal) -> tuple[str, ...]:
    """Warnings for whoever is about to apply `new` and could then not change it back, or not decide.

    Who sits at the machine is known by `os_user`; who is logged in to a server, where that is empty, by name.
    """
    then = resolve(new, os_user) if os_user else person
    if then is None:
        problem: str | None = f"{os_user} is not among the people of the policy, so may not change it; ask one of them"
    else:
        problem = may_change(new, then)
    if problem is None:
        return ()
    known = then is not None and principal_named(new, then.name) is not None
    who = "" if known else " and cannot decide anything"
    return (f"after this you may not change the policy again{who}: {problem}",)


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
            found.append(f"{section}: {name} is new: {shortened(_told(after), _MOST)}")
        else:
            found.append(_moved(section, name, before, after))
    return found


def _moved(section: str, name: str, before: Json, after: Json) -> str:
    return f"{section}: {name}: {_change(before, after)}"


def _rules(old: list[Mapping[str, Json]], new: list[Mapping[str, Json]]) -> list[str]:
    before = {rule["name"]: rule for rule in old}
    after = {rule["name"]: rule for rule in new}
    found = [f'rule "{name}" is gone' for name in before if name not in after]
    for name, rule in after.items():
        if name not in before:
            found.append(f'rule "{name}" is new: {_rule(rule)}')
        elif rule != before[name]:
            keys = [key for key in dict.fromkeys((*before[name], *rule)) if before[name].get(key) != rule.get(key)]
            parts = [f"{key} {_change(before[name].get(key), rule.get(key))}" for key in keys]
            found.append(f'rule "{name}" changes: {"; ".join(parts)}')
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        found.append("rules stand in another order; the first that matches chooses")
    return found


def _rule(rule: Mapping[str, Json]) -> str:
    actions = ", ".join(rule.get("actions") or ["every action"])
    when = f" when {rule['when']}" if rule.get("when") else ""
    return f"{rule['gate']} for {shortened(actions + when, _MOST)}"


def _change(before: Json, after: Json) -> str:
    """From what to what; where that is long, what was added and dropped, or the part that differs."""
    old, new = _told(before), _told(after)
    if max(len(old), len(new)) <= _LONGEST:
        return f"{old} -> {new}"
    match before, after:
        case list(), list():
            return _listed(before, after)
        case Mapping(), Mapping():
            keys = [key for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)]
            return shortened("; ".join(f"{key} {_change(before.get(key), after.get(key))}" for key in keys), _MOST)
        case _:
            return " -> ".join(shortened(text, _MOST) for text in _around(old, new))


def _listed(before: list[Json], after: list[Json]) -> str:
    parts = []
    for word, these, those in (("adds", after, before), ("drops", before, after)):
        if only := [_told(each) for each in these if each not in those]:
            parts.append(f"{word} {shortened(', '.join(only), _MOST)}")
    return "; ".join(parts) or f"{shortened(_told(after), _MOST)}, the same as before in another order or number"


def _around(old: str, new: str) -> tuple[str, str]:
    """The part of both that differs, with a little of what is the same before and after it."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    end = next((at for at in range(shorter - start) if old[-1 - at] != new[-1 - at]), shorter - start)
    first, kept = max(start - _AROUND, 0), max(end - _AROUND, 0)
    before, after = "…" if first else "", "…" if kept else ""
    return f"{before}{old[first : len(old) - kept]}{after}", f"{before}{new[first : len(new) - kept]}{after}"


def _told(value: Json) -> str:
    match value:
        case None:
            return _UNSAID
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(_told(item) for item in value) or "none"
        case Mapping():
            return ", ".join(f"{key} {_told(item)}" for key, item in value.items()) or "nothing"
        case _:
            return str(value)
