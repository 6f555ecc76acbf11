"""Whether a call keeps within what its run was allowed: how much it uses, what exceeds, and what was asked for."""

from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote

from assentry.core.action import Action, Assessment
from assentry.core.argument_look import SEEN
from assentry.core.grant import decimal, spending
from assentry.core.money_text import CODES
from assentry.core.names import many_of, split_name
from assentry.core.pattern import pattern
from assentry.core.run import NO_SCOPE, Scope
from assentry.core.text import counted
from assentry.errors import InvalidArguments

STEPS = "steps"
_LISTS = ("actions", "recipients", "paths")
_ENCODED = 4
"""How often a path may be percent-encoded; nobody means more."""


def uses(action: Action, assessment: Assessment) -> dict[str, Decimal]:
    """How much of each thing a call uses up: `files: 3`, `EUR: 12.50`. Reading uses nothing but a step.

    Things go by the name of the list that holds them and by the noun of the action (`delete_report` uses a report);
    whatever has a path is a file. Nothing gives anything back: an amount below zero uses up as much as one above it.
    """
    used = {STEPS: Decimal(1)}
    if assessment.only_reads:
        return used
    facts = {fact.name: fact for fact in assessment.facts}
    count = decimal(facts["count"].value) if "count" in facts else None
    if count is not None:
        unit = next((fact.unit for fact in assessment.facts if fact.name == "count" and fact.unit), "things")
        used[unit] = count = abs(count)
    if nouns := split_name(action.name).nouns:
        used.setdefault(many_of(nouns[-1]), Decimal(1) if count is None else count)
    if "paths" in facts and isinstance(paths := facts["paths"].value, list):
        used.setdefault("files", Decimal(len(paths)))
    if (amount := spending(assessment)) is not None and "currency" in facts:
        used[str(facts["currency"].value)] = abs(amount)
    return used


def cost(action: Action) -> Decimal:
    """What a call is said to cost its run."""
    return Decimal(0) if action.cost is None else Decimal(str(action.cost))


def exceeded(scope: Scope, used: Mapping[str, Decimal], action: Action, assessment: Assessment) -> list[str]:
    """What of the scope this call would exceed, each in a sentence."""
    found = []
    for name, amount in uses(action, assessment).items():
        most = scope.limits.get(name)
        if most is None:
            continue
        total = used.get(name, Decimal(0)) + amount
        if total > most:
            before = f" after {used[name]:f}" if used.get(name) else ""
            found.append(f"{counted(amount, name)}{before}, and the run was given {most:f}")
    if assessment.only_reads:
        return found
    if scope.actions and not pattern(scope.actions).match(action.name):
        found.append(f"its scope ({', '.join(scope.actions[:5])}) does not name {action.name}")
    facts = {fact.name: fact.value for fact in assessment.facts}
    found += [says for name, says in _unread(scope).items() if name in facts.get("unreadable", ())]
    if scope.recipients and isinstance(whom := facts.get("recipients"), list):
        strangers = [each for each in whom if not _is_among(str(each), scope.recipients)]
        if strangers:
            found.append(f"it may not write to {', '.join(str(each) for each in strangers[:3])}: outside its scope")
    if scope.paths and isinstance(paths := facts.get("paths"), list):
        beyond = [each for each in paths if not _is_inside(str(each), scope.paths)]
        if beyond:
            told = ", ".join(str(each) for each in beyond[:3])
            found.append(f"it touches {told}, outside {', '.join(scope.paths[:3])}")
    return found


def _unread(scope: Scope) -> dict[str, str]:
    """What has to be read of a call so that it can keep within the scope, and what is said where it is not."""
    limits = ", ".join(f"{most:f} {name}" for name, most in scope.limits.items() if name in CODES)
    said = {"amount": f"how much money it moves could not be read, and the run was given {limits}"} if limits else {}
    if scope.recipients:
        said["recipients"] = "whom it reaches could not be read, and its scope says who that may be"
    if scope.paths:
        said["paths"] = "which paths it touches could not be read, and its scope says which those may be"
    return said


def authorises(scope: Scope, used: Mapping[str, Decimal], action: Action, assessment: Assessment) -> bool:
    """The operator's code named this action for this run, and the call keeps within everything else it said.

    Where it said how many of something, what cannot be counted as any of that is not given leave.
    """
    named = bool(scope.actions) and bool(pattern(scope.actions).match(action.name))
    counted = {name for name in scope.limits if name != STEPS and name not in CODES}
    if counted and not counted & uses(action, assessment).keys():
        return False
    return named and not exceeded(scope, used, action, assessment)


def _is_among(whom: str, allowed: tuple[str, ...]) -> bool:
    whom = whom.strip().lower()
    return any(
        whom == each.lower() or (each.startswith("@") and whom.endswith(each.lower()) and whom.count("@") == 1)
        for each in allowed
    )


def _is_inside(path: str, allowed: tuple[str, ...]) -> bool:
    """Below one of the directories, read as text: whatever climbs out is outside, in any way of writing it.

    What was cut short, or is encoded over and over, is not seen whole, so it is outside too.
    """
    if len(path) >= SEEN:
        return False
    readings = [path]
    while (plain := unquote(readings[-1])) != readings[-1]:
        readings.append(plain)
        if len(readings) > _ENCODED:
            return False
    for each in readings:
        parts = _parts(each)
        if ".." in _parts(each.replace("\\", "/")) or "\0" in each:
            return False
        if not any(parts[: len(_parts(place))] == _parts(place) for place in allowed):
            return False
    return True


def _parts(path: str) -> list[str]:
    return ["/" if path.startswith("/") else "."] + [part for part in path.split("/") if part not in ("", ".")]


def scope_of(given: Any) -> Scope:
    """A scope as code writes it: `{"actions": ["delete_*"], "files": 20, "EUR": 50, "recipients": [...]}`."""
    if given is None:
        return NO_SCOPE
    if isinstance(given, Scope):
        return given
    if not isinstance(given, Mapping):
        raise InvalidArguments('a scope is a mapping, such as {"actions": ["delete_files"], "files": 20}')
    lists = {name: _texts(name, given.get(name, ())) for name in _LISTS}
    limits = {}
    for name, most in given.items():
        if name in lists:
            continue
        if isinstance(most, bool) or not isinstance(most, int | float | Decimal):
            raise InvalidArguments(
                f"a scope has {', '.join(_LISTS)}, and numbers for what is counted (files: 20, EUR: 50, steps: 100); "
                f"{name!r} is none of the three, and it is given {type(most).__name__}, not a number"
                f"{_meant(str(name))}"
            )
        limit = Decimal(str(most))
        if not limit.is_finite() or limit < 0:
            raise InvalidArguments(f"the limit {name!r} of a scope is a number that is not negative, such as 20")
        limits[str(name)] = limit
    return Scope(limits=limits, **lists)


def _meant(name: str) -> str:
    close = get_close_matches(name.lower(), _LISTS, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _texts(name: str, given: Any) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in found):
        raise InvalidArguments(f"{name} of a scope are texts, such as {name}=[{_EXAMPLES[name]!r}]")
    return tuple(found)


_EXAMPLES = {"actions": "delete_*", "recipients": "@example.org", "paths": "/srv/reports"}
