"""JSON Schema, in the one place that knows the library. It is large, so it is loaded when the first schema is met."""

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager

from assent.core.action import Json
from assent.errors import InvalidArguments, InvalidDecision


def check_schema(schema: Mapping[str, Json]) -> None:
    """It is one; the error says which of its words is wrong."""
    from jsonschema import Draft202012Validator, exceptions

    try:
        Draft202012Validator.check_schema(dict(schema))
    except exceptions.SchemaError as problem:
        raise InvalidArguments(f"the schema is none: {problem.validator} is broken; write JSON Schema") from None


def check_fits(value: Json, schema: Mapping[str, Json] | None, what: str, sealed: Container[str] = ()) -> None:
    """`value` fits the schema; the error names places, never values. What stands for a secret is not checked."""
    if schema is None:
        return
    from jsonschema import Draft202012Validator

    with _broken(what):
        problems = [
            problem
            for problem in Draft202012Validator(dict(schema)).iter_errors(value)
            if not (isinstance(problem.instance, str) and problem.instance in sealed)
        ]
    if problems:
        said = "; ".join(
            f"{'.'.join(map(str, p.absolute_path)) or what}: must satisfy {p.validator}" for p in problems[:5]
        )
        raise InvalidDecision(f"{what} do not fit the schema: {said}")


@contextmanager
def _broken(what: str) -> Iterator[None]:
    """What a schema does that is none is told as what it is."""
    import referencing.exceptions
    from jsonschema import exceptions

    try:
        yield
    except (exceptions.SchemaError, re.error, RecursionError, referencing.exceptions.Unresolvable, OSError, ValueError):
        raise InvalidDecision(f"{what} cannot be checked: the action's own schema is broken; deny it") from None
