"""Whether a call keeps within what its run was allowed: how much it uses, what exceeds, and what was asked for."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from assent.core.action import Action, Assessment
from assent.core.grant import decimal, spending
from assent.core.money_text import CODES
from assent.core.names import split_name
from assent.core.pattern import pattern
from assent.core.run import NO_SCOPE, Scope
from assent.errors import InvalidArguments

STEPS = "steps"


def uses(action: Action, assessment: Assessment) -> dict[str, Decimal]:
    """How much of each thing a call uses up: `files: 3`, `EUR: 12.50`. Reading uses nothing but a step.

    Things go by the name of the list that holds them and by the noun of the action (`delete_report` uses a report);
    whatever has a path is a file.
    """
    used = {STEPS: Decimal(1)}
    if assessment.effect.is_read:
        return used
    facts = {fact.name: fact for fact in assessment.facts}
    count = decimal(facts["count"].value) if "count" in facts else None
    if count is not None:
        used[_noun(facts["count"].says)] = count
    if nouns := split_name(action.name).nouns:
        used.setdefault(_plural(nouns[-1]), Decimal(1) if count is None else count)
    if "paths" in facts and isinstance(paths := facts["paths"].value, list):
        used.setdefault("files", Decimal(len(paths)))
    if (amount := spending(assessment)) is not None and "currency" in facts:
        used[str(facts["currency"].value)] = amount
    return used


def _noun(says: str) -> str:
    """The plural in `847 files` or `1 file`."""
    return _plural(says.partition(" ")[2].split(",")[0].strip() or "things")


def _plural(noun: str) -> str:
    return noun if noun.endswith("s") else f"{noun}s"


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
            found.append(f"{amount:f} {name}{before}, and the run was given {most:f}")
    if assessment.effect.is_read:
        return found
    if scope.actions and not pattern(scope.actions).match(action.name):
        found.append(f"{action.name} is not among the actions it was given ({', '.join(scope.actions[:5])})")
    facts = {fact.name: fact.value for fact in assessment.facts}
    if scope.recipients and isinstance(whom := facts.get("recipients"), list):
        strangers = [each for each in whom if not _is_among(str(each), scope.recipients)]
        if strangers:
            found.append(f"{', '.join(str(each) for each in strangers[:3])} is nobody it was given to write to")
    if scope.paths and isinstance(paths := facts.get("paths"), list):
        beyond = [each for each in paths if not _is_inside(str(each), scope.paths)]
        if beyond:
            found.append(f"{', '.join(str(each) for each in beyond[:3])} lies outside {', '.join(scope.paths[:3])}")
    return found


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
    """Below one of the directories, read as text: whatever climbs out is outside."""
    parts = _parts(path)
    return ".." not in parts and any(parts[: len(_parts(each))] == _parts(each) for each in allowed)


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
    lists = {name: _texts(name, given.get(name, ())) for name in ("actions", "recipients", "paths")}
    limits = {}
    for name, most in given.items():
        if name in lists:
            continue
        if isinstance(most, bool) or not isinstance(most, int | float | Decimal):
            raise InvalidArguments(f"the limit {name} of a scope is a number, such as 20")
        limits[str(name)] = Decimal(str(most))
    return Scope(limits=limits, **lists)


def _texts(name: str, given: Any) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(each, str) for each in found):
        raise InvalidArguments(f"{name} of a scope are texts")
    return found
