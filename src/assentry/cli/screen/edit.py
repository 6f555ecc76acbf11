"""Changing arguments: a form made from the JSON schema, or the person's own editor on JSON.

What was not touched goes back exactly as it was stored. Text that holds anything invisible is edited as JSON,
where such characters are escapes that can be seen.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Select, TextArea

from assentry.cli.screen.dialogs import Dialog
from assentry.cli.screen.fields import pretty
from assentry.cli.screen.lines import Piece, flow, inert
from assentry.cli.screen.look import Look
from assentry.cli.screen.paper import Slab
from assentry.cli.screen.writing import Area, Line
from assentry.core.action import Json
from assentry.core.canonical import restore
from assentry.core.text import visible
from assentry.errors import AssentryError
from assentry.system import editor_command

Check = Callable[[Mapping[str, Json]], object]
"""Raises the reason why these arguments cannot be taken."""

_TOO_LONG = 20_000
_LONG_LINE = 60
_MISSING: Any = object()
_SEALED = "⟨secret "


@dataclass(frozen=True, slots=True)
class Field:
    """One argument in the form: what it was, how it is edited, and what its editor began with."""

    name: str
    value: Json
    kind: str
    """text, lines, number, integer, choice, json, or fixed."""
    begin: str = ""
    choices: tuple[Json, ...] = ()
    told: str = ""


class Unreadable(ValueError):
    """What stands in a field cannot be read."""


def fields_of(args: Mapping[str, Json], schema: Mapping[str, Json] | None) -> list[Field]:
    """The fields of a form: what the schema names, in its order, and whatever else is there."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    properties = properties if isinstance(properties, Mapping) else {}
    names = [*properties, *(name for name in args if name not in properties)]
    return [_field(name, args.get(name, _MISSING), properties.get(name)) for name in names]


def _field(name: str, value: Json, schema: Json) -> Field:
    shape: Mapping[str, Json] = schema if isinstance(schema, Mapping) else {}
    told, kind = str(shape.get("description") or ""), shape.get("type")
    given, is_text = value is not _MISSING, isinstance(value, str)
    if given and _SEALED in str(value)[:_TOO_LONG]:
        return Field(name, value, "fixed", told="sealed; it stays as it is")
    if given and len(pretty(value)) > _TOO_LONG:
        return Field(name, value, "fixed", told="too long for a form; ctrl+e opens your editor")
    choices = shape.get("enum")
    if isinstance(choices, list) and choices and (value in choices or not given):
        return Field(name, value, "choice", choices=tuple(choices), told=told)
    if isinstance(value, bool) or (kind == "boolean" and not given):
        return Field(name, value, "choice", choices=(False, True), told=told)
    if kind in ("integer", "number") and (not given or isinstance(value, int | float)):
        return Field(name, value, str(kind), str(value) if given else "", told=told)
    if (is_text and visible(value) == value and kind in ("string", None)) or (kind == "string" and not given):
        return Field(name, value, "text", value if given else "", told=told)
    items = shape.get("items")
    of_text = isinstance(items, Mapping) and items.get("type") == "string" and "enum" not in items
    if kind == "array" and of_text and (not given or _are_lines(value)):
        return Field(name, value, "lines", "\n".join(value) if given else "", told=f"{told} one per line".strip())
    return Field(name, value, "json", pretty(value) if given else "", told=f"{told} as JSON".strip())


def _are_lines(value: Json) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and item and "\n" not in item and visible(item) == item for item in value
    )


def read(field: Field, now: Any) -> Json:
    """The value that the editor of `field` holds now; `_MISSING` where there is none."""
    match field.kind:
        case "fixed":
            return field.value
        case "choice":
            return field.choices[now] if isinstance(now, int) else field.value
    if now == field.begin:
        return field.value
    try:
        match field.kind:
            case "text":
                return now
            case "lines":
                return [row for row in now.split("\n") if row.strip()]
            case "integer":
                return int(now.replace(",", "").replace("_", "")) if now.strip() else _MISSING
            case "number":
                return _number(now.strip()) if now.strip() else _MISSING
            case _:
                return restore(now) if now.strip() else _MISSING
    except (ValueError, RecursionError, AssentryError) as problem:
        what = {"integer": "a whole number", "number": "a number"}.get(field.kind, "JSON")
        place = f" (line {problem.lineno})" if isinstance(problem, json.JSONDecodeError) else ""
        raise Unreadable(f"{inert(field.name)[:40]} is not {what}{place}") from None


def _number(text: str) -> int | float:
    text = text.replace(",", "").replace("_", "")
    return float(text) if any(char in text for char in ".eE") else int(text)


class Form(Dialog[Mapping[str, Json]]):
    """The arguments, each in an editor that fits it. What comes back was checked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "check", show=False),
        Binding("ctrl+e", "editor", show=False),
    ]
    IN_ORDER: ClassVar[dict[str, str]] = {"ctrl+s": "check", "ctrl+e": "editor"}

    def __init__(
        self, heading: str, look: Look, args: Mapping[str, Json], schema: Mapping[str, Json] | None, check: Check
    ) -> None:
        super().__init__(heading, look)
        self._args, self._check = args, check
        self._fields = fields_of(args, schema)

    def parts(self) -> ComposeResult:
        with VerticalScroll(id="form", can_focus=False):
            for number, field in enumerate(self._fields):
                yield Slab(self._label(field), classes="label")
                if (editor := _editor(field, number)) is not None:
                    yield editor
            if not self._fields:
                yield Slab(lambda width: flow([("it takes no arguments", self.look.soft)], width))

    def on_mount(self) -> None:
        found = self.query(".field")
        if found:
            found.first(Widget).focus()

    def keys(self) -> list[Piece]:
        return [
            *self.key("tab", "next"),
            *self.key("ctrl+s", "check and show what changes"),
            *self.key("ctrl+e", "editor"),
        ]

    def _label(self, field: Field) -> Callable[[int], Any]:
        def draw(width: int) -> Any:
            name, told = inert(field.name)[:200], inert(field.told)[:300]
            return flow([(name, self.look.strong), (f"  {told}" if told else "", self.look.faint)], width)

        return draw

    def values(self) -> dict[str, Json]:
        """The arguments as the form has them."""
        made = {}
        for number, field in enumerate(self._fields):
            value = read(field, _held(self, number) if field.kind != "fixed" else None)
            if value is not _MISSING:
                made[field.name] = value
        return made

    def action_check(self) -> None:
        try:
            self._done(self.values())
        except Unreadable as problem:
            self.complain(str(problem))

    def action_editor(self) -> None:
        try:
            args = self.values()
        except Unreadable:
            args = dict(self._args)
        try:
            with self.app.suspend():
                edited = in_editor(args, self._check)
        except (SuspendNotSupported, OSError) as problem:
            self.complain(f"no editor could be opened here ({type(problem).__name__}); set EDITOR")
            return
        self.app.refresh()
        if edited is not None:
            self._done(edited)

    def _done(self, args: Mapping[str, Json]) -> None:
        try:
            self._check(args)
        except AssentryError as problem:
            self.complain(str(problem))
        else:
            self.dismiss(args)


def _editor(field: Field, number: int) -> Widget | None:
    name = f"field-{number}"
    match field.kind:
        case "fixed":
            return None
        case "choice":
            options = [
                (Text(inert(json.dumps(choice) if isinstance(choice, bool) else choice)[:200]), spot)
                for spot, choice in enumerate(field.choices)
            ]
            if field.value is _MISSING:
                return Select(options, prompt="not given", id=name, classes="field")
            return Select(options, value=field.choices.index(field.value), allow_blank=False, id=name, classes="field")
        case "integer" | "number":
            return Line(field.begin, id=name, classes="field", select_on_focus=False)
        case "text" if "\n" not in field.begin and len(field.begin) <= _LONG_LINE and "\t" not in field.begin:
            placeholder = "not given" if field.value is _MISSING else ""
            return Line(field.begin, placeholder=placeholder, id=name, classes="field", select_on_focus=False)
        case _:
            return Area(field.begin, id=name, classes="field", soft_wrap=True, tab_behavior="focus")


def _held(form: Form, number: int) -> Any:
    match form.query_one(f"#field-{number}"):
        case Input(value=value) | Select(value=value):
            return value
        case TextArea(text=text):
            return text
        case other:
            raise AssertionError(type(other))


def in_editor(args: Mapping[str, Json], check: Check) -> Mapping[str, Json] | None:
    """The arguments as the person left them in their editor, checked; nothing if they gave up.

    The file is readable by its owner only and gone afterwards. An error is shown and the editor opens again.
    """
    command = editor_command()
    handle, name = tempfile.mkstemp(prefix="assentry-", suffix=".json")
    os.close(handle)
    file = Path(name)
    try:
        file.write_text(pretty(args) + "\n", encoding="utf-8")
        while True:
            subprocess.run([*command, name], check=False)  # noqa: S603  the person's own editor
            try:
                edited: dict[str, Json] = _object(file.read_text(encoding="utf-8"))
                check(edited)
            except (ValueError, RecursionError, AssentryError) as problem:
                print(f"\n{visible(str(problem), lines=False)}")
            else:
                return edited
            if input("Press enter to edit again, or type q and enter to give up: ").strip().lower().startswith("q"):
                return None
    except EOFError:
        return None
    finally:
        file.unlink(missing_ok=True)


def _object(text: str) -> dict[str, Json]:
    found = restore(text)
    if not isinstance(found, dict):
        raise Unreadable("the arguments must be an object: { … }")
    return found
