"""JSON Schema, in the one place that knows the library. It is large, so it is loaded when the first schema is met."""

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from assentry.core.action import Json
from assentry.core.kind_words import kind_of, kind_wanted
from assentry.errors import InvalidArguments, InvalidDecision

_MOST_PROBLEMS = 5
_MOST_STEPS = 120_000
"""Looking at this much takes less than half a second. Whoever checks keeps everybody else waiting meanwhile."""
_FAR, _LOOKING_UP = frozenset({"$ref", "$dynamicRef"}), 10
_PLAIN = 8
"""So many plain values are compared in the time of one step."""


def check_schema(schema: Mapping[str, Json]) -> None:
    """It is one; the error says which of its words is wrong."""
    from jsonschema import Draft202012Validator, exceptions

    try:
        Draft202012Validator.check_schema(dict(schema))
    except exceptions.SchemaError as problem:
        raise InvalidArguments(f"the schema is none: {problem.validator} is broken; write JSON Schema") from None


def check_fits(value: Json, schema: Mapping[str, Json] | None, what: str, sealed: Container[str] = ()) -> None:
    """`value` fits the schema; the error names places, never values. What stands for a secret is not checked.

    What would take too long to check does not fit: nobody else is served while it is looked at.
    """
    if schema is None:
        return
    with _broken(what):
        # A class for each check, so that each has its own budget.
        errors = _counting(_Budget(_MOST_STEPS))(dict(schema)).iter_errors(value)
        wrong = (each for each in errors if not (isinstance(each.instance, str) and each.instance in sealed))
        problems = list(islice(wrong, _MOST_PROBLEMS))
    if problems:
        said = "; ".join(dict.fromkeys(_told(each, what) for each in problems))
        raise InvalidDecision(f"{what} {'do' if what.endswith('s') else 'does'} not fit the schema: {said}")


def _told(problem: Any, what: str) -> str:
    """What does not fit, where, and what would. Of what was given only the kind is said, never the value."""
    path, instance, said = list(map(str, problem.absolute_path)), problem.instance, problem.validator_value
    name = f"`{'.'.join(path)}`" if path else what
    match problem.validator:
        case "required" if isinstance(instance, Mapping):
            return "; ".join(f"`{'.'.join([*path, each])}` is missing" for each in said if each not in instance)
        case "additionalProperties" if said is False and "patternProperties" not in problem.schema:
            odd = [each for each in instance if each not in problem.schema.get("properties", ())]
            return "; ".join(f"`{'.'.join([*path, each])}` is not a parameter" for each in odd[:_MOST_PROBLEMS])
        case "enum" | "const":
            return f"{name} must be one of the allowed values"
        case "type" | "anyOf" | "oneOf" if _is_of_another_kind(problem) and (wanted := kind_wanted(problem.schema)):
            return f"{name} must be {wanted}, got {kind_of(instance)}"
        case "minimum" | "maximum" if isinstance(said, int | float):
            return f"{name} must be at {'least' if problem.validator == 'minimum' else 'most'} {said}"
        case word:
            return f"{name} must satisfy {word}"


def _is_of_another_kind(problem: Any) -> bool:
    """Nothing but its kind keeps the value from fitting."""
    return problem.validator == "type" or (
        bool(problem.context) and all(each.validator == "type" and not each.relative_path for each in problem.context)
    )


class _TooLong(Exception):
    """The budget is used up."""


class _Budget:
    """How much may still be looked at."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, word: str, said: Any, instance: Any) -> None:
        """One word of a schema is held against one value; both may be wide."""
        wide, broad = _width(said), _width(instance)
        cost = wide + broad
        if word == "enum":
            cost = wide * broad if broad > 1 else wide // _PLAIN
        elif word == "uniqueItems" and said and not _sorts(instance):
            cost = broad * broad  # everything is compared with everything
        elif word in _FAR:
            cost += _LOOKING_UP
        self.left -= cost + 1
        if self.left < 0:
            raise _TooLong


def _width(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple | Mapping) else 1


def _sorts(value: Any) -> bool:
    return not isinstance(value, list) or all(type(each) is str for each in value)


def _counting(budget: _Budget) -> Any:
    """The library's validator, each step of which is paid for."""
    from jsonschema import Draft202012Validator, validators

    def paid(word: str, check: Any) -> Any:
        def step(validator: Any, said: Any, instance: Any, schema: Any) -> Any:
            budget.spend(word, said, instance)
            return check(validator, said, instance, schema)

        return step

    words = {word: paid(word, check) for word, check in Draft202012Validator.VALIDATORS.items()}
    return validators.extend(Draft202012Validator, words)  # type: ignore[no-untyped-call]


@contextmanager
def _broken(what: str) -> Iterator[None]:
    """What a schema does that is none is told as what it is."""
    import referencing.exceptions
    from jsonschema import exceptions

    try:
        yield
    except _TooLong:
        raise InvalidDecision(
            f"{what} cannot be checked: that would take too long with so many values and the action's own schema; "
            "deny it, and have the agent propose it in smaller parts or without a schema"
        ) from None
    except (exceptions.SchemaError, re.error, RecursionError, referencing.exceptions.Unresolvable, OSError, ValueError):
        raise InvalidDecision(f"{what} cannot be checked: the action's own schema is broken; deny it") from None
