"""A form made from an action's schema, and what was typed into it read back as arguments."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assentry.core.action import Json
from assentry.core.request import Request
from assentry.core.text import visible
from assentry.errors import InvalidDecision
from assentry.telling.plain import as_json

PREFIX, WRITTEN = "arg:", "arg-json:"


@dataclass(frozen=True, slots=True)
class Field:
    """One argument to be changed."""

    name: str
    label: str
    form: str
    """line, text, number, flag, choice, lines, json"""
    value: str
    choices: tuple[str, ...] = ()
    hint: str = ""
    locked: bool = False
    required: bool = False

    @property
    def key(self) -> str:
        """What the form calls it: a name that comes back as it was sent."""
        plain = self.name.isascii() and self.name.isprintable()
        return f"{PREFIX}{self.name}" if plain else f"{WRITTEN}{as_json(self.name)}"


def form_for(request: Request, args: Mapping[str, Json]) -> tuple[Field, ...]:
    """A field for each argument that there is or could be."""
    schema = request.candidate.action.schema or {}
    found = schema.get("properties")
    properties: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    listed = schema.get("required")
    required = set(listed) if isinstance(listed, list) else set()
    names = dict.fromkeys((*(name for name in properties if name in args), *args, *properties))
    return tuple(_field(request, name, args, properties.get(name), name in required) for name in names)


def _field(request: Request, name: str, args: Mapping[str, Json], about: Any, required: bool) -> Field:
    about = about if isinstance(about, Mapping) else {}
    value, label = args.get(name), visible(name, lines=False)
    hint = visible(str(about.get("description", "")), lines=False)[:200]
    hint = hint if request.candidate.action.trusted or not hint else f"the agent says: {hint}"
    sealed = isinstance(value, str) and value in request.sealed
    if sealed or _hides_a_secret(request, value):
        return Field(name, label, "line", "sealed; it stays as it is", hint="a secret", locked=True)
    if "const" in about and name in args:
        shown = visible(as_json(value), lines=False)[:200]
        return Field(name, label, "line", shown, hint="cannot be changed", locked=True)
    choices = about.get("enum")
    given = name in args
    if (
        isinstance(choices, list)
        and (not given or value in choices)
        and all(isinstance(each, str) and _returns(each, "") for each in choices)
    ):
        return Field(name, label, "choice", str(value) if given else "", tuple(choices), hint, required=required)
    if isinstance(value, bool) or about.get("type") == "boolean":
        return Field(name, label, "flag", "yes" if value else "", hint=hint)
    kind = about.get("type", "number" if isinstance(value, int | float) else "")
    if (isinstance(value, int | float) or value is None) and kind in ("integer", "number"):
        return Field(name, label, "number", "" if value is None else as_json(value), hint=hint, required=required)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(each, str) and each.strip() and _returns(each, "") for each in value)
    ):
        return Field(name, label, "lines", "\n".join(map(str, value)), hint=hint or "one in each line")
    if (isinstance(value, str) and _returns(value)) or (value is None and about.get("type") == "string"):
        text = value if isinstance(value, str) else ""
        long = "\n" in text or len(text) > 80
        return Field(name, label, "text" if long else "line", text, hint=hint, required=required)
    return Field(name, label, "json", as_json(value, indent=2) if given else "", hint=hint or "as JSON")


def _returns(text: str, kept: str = "\n\t") -> bool:
    """A browser shows this text as it is and sends it back unchanged; anything else is written as JSON."""
    return visible(text) == text and all(char in kept for char in text if char in "\n\t")


def _hides_a_secret(request: Request, value: Json) -> bool:
    if not request.sealed or isinstance(value, str):
        return isinstance(value, str) and any(mark in value for mark in request.sealed)
    text = as_json(value)
    return any(mark in text or json.dumps(mark)[1:-1] in text for mark in request.sealed)


def typed_arguments(request: Request, args: Mapping[str, Json], form: Mapping[str, str]) -> dict[str, Json]:
    """The arguments as the form has them. What it does not have stays as it was."""
    made: dict[str, Json] = dict(args)
    for field in form_for(request, args):
        key = field.key
        if field.locked or (key not in form and field.form != "flag"):
            continue
        typed = form.get(key, "").replace("\r\n", "\n")
        given = field.name in args
        if field.form == "flag":
            if given or typed:
                made[field.name] = bool(typed)
        elif (not typed and not given) or typed == field.value:
            continue
        else:
            made[field.name] = _read(field, typed)
    return made


def _read(field: Field, typed: str) -> Json:
    match field.form:
        case "lines":
            return [line for line in typed.split("\n") if line.strip()]
        case "number" | "json":
            if field.form == "number" and not typed.strip():
                return None
            try:
                return json.loads(typed)
            except (ValueError, RecursionError):
                what = "a number" if field.form == "number" else "JSON"
                raise InvalidDecision(f"{field.label}: this is not {what}") from None
        case _:
            return typed
