"""A function's signature as an argument schema: what may be passed, how it is written as JSON, how it is read back."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from typing_extensions import TypedDict

from assentry.core.action import Json
from assentry.core.canonical import MAX_DEPTH, canonical
from assentry.core.kind_words import kind_of
from assentry.errors import GuardError, InvalidArguments


class _Marker:
    """A word in `Annotated[...]` that tells Assentry how to treat a parameter."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return f"assentry.{self._word}"


Injected = _Marker("Injected")
"""`Annotated[Client, assentry.Injected]`: no argument of the action; not judged, not stored, not shown."""

Secret = _Marker("Secret")
"""`Annotated[str, assentry.Secret]`: sealed before anything is stored, shown only as a fingerprint."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How calls of one function are bound, written and read back."""

    order: tuple[str, ...]
    """Names that may be given by position, in order."""
    defaults: Mapping[str, Any]
    arguments: frozenset[str]
    injected: frozenset[str]
    secret: frozenset[str]
    positional_only: tuple[str, ...]
    schema: Mapping[str, Json]
    schema_text: str
    adapter: TypeAdapter[dict[str, Any]]
    returns: TypeAdapter[Any] | None
    python: inspect.Signature = field(compare=False, repr=False)
    as_is: bool = False
    """Every parameter is of plain JSON types, so that what was validated is already what is written."""
    is_flat: bool = False
    """As it is, and no argument can be changed by whoever is handed it."""

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Json], dict[str, Any]]:
        """The call's arguments as plain JSON data, and apart from them what was injected."""
        given = dict(zip(self.order, args, strict=False))
        if len(args) > len(self.order) or not given.keys().isdisjoint(kwargs):
            self.python.bind(*args, **kwargs)
        given.update(kwargs)
        injected: dict[str, Any] = {}
        for name in self.injected:
            if name in given:
                injected[name] = given.pop(name)
        if not given.keys() >= self.arguments:
            for name, value in self.defaults.items():
                given.setdefault(name, value)
            if not given.keys() >= self.arguments:
                missing = ", ".join(sorted(self.arguments - given.keys()))
                raise TypeError(f"missing arguments: {missing}")
        return self.plain(given), injected

    def plain(self, given: Mapping[str, Any]) -> dict[str, Json]:
        """Arguments validated by their types and written as JSON data."""
        adapter = self.adapter
        if len(given) < len(self.arguments):
            given = {**self.defaults, **given}
        try:
            checked: dict[str, Any] = adapter.validator.validate_python(given)
            if self.as_is and all(map(_is_json, checked.values())):
                return checked
            for value in checked.values():
                if type(value) is not str:
                    _refuse_infinite(value)
            plain: dict[str, Json] = adapter.serializer.to_python(checked, mode="json", warnings="error")
        except ValidationError as problem:
            raise InvalidArguments(_problems(problem)) from None
        except ValueError as problem:  # pydantic_core's serialization errors name types, never values we could leak
            raise InvalidArguments(
                f"an argument cannot be written as JSON ({type(problem).__name__}); pass plain data, or mark the "
                "parameter as injected if it is a client or a connection"
            ) from None
        return plain

    def values(self, plain: Mapping[str, Json]) -> dict[str, Any]:
        """Arguments as the function's own types, read back from JSON data."""
        try:
            checked: dict[str, Any] = self.adapter.validator.validate_python(dict(plain))
        except ValidationError as problem:
            raise InvalidArguments(_problems(problem)) from None
        return checked

    def same_after_round_trip(self, plain: Mapping[str, Json]) -> bool:
        """Reading the written arguments back gives the same arguments."""
        if self.as_is:
            return True
        return canonical(self.plain(self.values(plain))) == canonical(plain)


_SCALARS = (str, int, bool, type(None))


def _is_flat_type(hint: Any) -> bool:
    """Values of this type are JSON, and immutable."""
    if get_origin(hint) in (Union, UnionType):
        return all(map(_is_flat_type, get_args(hint)))
    return hint is None or any(hint is kind for kind in _SCALARS)


def _is_plain_type(hint: Any) -> bool:
    """Validation makes values of this type into JSON that is their own, and reading them back changes nothing."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is list:
        return _is_plain_type(inner[0])
    if origin is dict:
        return inner[0] is str and _is_plain_type(inner[1])
    return _is_flat_type(hint)


def _is_json(value: Any) -> bool:
    """Exactly JSON's types: an enumeration or another subclass has to be written first."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is list:
        return all(map(_is_json, value))
    return kind is dict and all(map(_is_json, value.values())) and all(type(key) is str for key in value)


def _refuse_infinite(value: Any, depth: int = 0) -> None:
    """Serialisation would turn NaN into null without a word, and the reviewer would see something else."""
    if depth > MAX_DEPTH:
        raise InvalidArguments(f"arguments are nested deeper than {MAX_DEPTH} levels; flatten them")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArguments("a number is NaN or infinite; pass a finite number or leave it out")
    elif isinstance(value, Mapping):
        for item in value.values():
            _refuse_infinite(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            _refuse_infinite(item, depth + 1)
    elif isinstance(value, BaseModel):
        _refuse_infinite(value.__dict__, depth + 1)
    elif is_dataclass(value):
        for each in fields(value):
            _refuse_infinite(getattr(value, each.name), depth + 1)


def _problems(problem: ValidationError) -> str:
    """What does not fit, by parameter. Of what was given only the kind is said, never the value."""
    found = problem.errors(include_context=False, include_url=False)[:5]
    return f"invalid arguments: {'; '.join(_problem(error) for error in found)}"


def _problem(error: Mapping[str, Any]) -> str:
    kind, name = error["type"], ".".join(map(str, error["loc"])) or "arguments"
    if kind == "missing":
        return f"`{name}` is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"`{name}` is not a parameter"
    expected = next((words for start, words in _EXPECTED.items() if kind.startswith(start)), "")
    if not expected:
        return f"`{name}`: {kind.replace('_', ' ')}"
    return f"`{name}` must be {expected}, got {kind_of(error['input'])}"


_EXPECTED = {
    "int_": "an integer", "float_": "a number", "decimal_": "a number", "string_type": "text", "string_sub": "text",
    "bool_": "true or false", "list_type": "a list", "tuple_type": "a list", "set_type": "a list",
    "dict_type": "a mapping", "model_type": "a mapping", "dataclass_type": "a mapping", "datetime_": "a date and time",
    "date_": "a date", "time_": "a time", "time_delta_": "a duration", "uuid_": "a UUID", "bytes_type": "bytes",
    "literal_error": "one of the allowed values", "enum": "one of the allowed values", "none_required": "null",
}  # fmt: skip


def read_signature(function: Callable[..., Any], *, inject: frozenset[str] = frozenset()) -> Signature:
    """The schema of `function`, or an error that says which parameter cannot be guarded and what to do."""
    python = inspect.signature(function)
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as problem:
        raise GuardError(
            f"{function.__qualname__}: an annotation cannot be resolved ({problem}); import the name"
        ) from None
    shown: dict[str, Any] = {}
    injected, secret, order, positional_only, defaults = set(inject), set(), [], [], {}
    for position, (name, parameter) in enumerate(python.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise GuardError(
                f"{function.__qualname__}: *args and **kwargs cannot be shown to a reviewer; name the parameters"
            )
        hint = hints.get(name, Any)
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        if Injected in marks or (position == 0 and name in ("self", "cls")):
            injected.add(name)
        if Secret in marks:
            if get_args(hint)[0] is not str:
                raise GuardError(
                    f"{function.__qualname__}: the secret {name} must be a str to be sealed; pass it as text"
                )
            secret.add(name)
        if "SecretStr" in repr(hint) or "SecretBytes" in repr(hint):
            raise GuardError(
                f"{function.__qualname__}: pydantic writes {name} as asterisks, and those would run; "
                "use `Annotated[str, assentry.Secret]`"
            )
        if parameter.kind is not parameter.KEYWORD_ONLY:
            order.append(name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional_only.append(name)
        if name in injected:
            continue
        if parameter.default is not parameter.empty:
            defaults[name] = parameter.default
        shown[name] = hint
    unknown = set(inject) - python.parameters.keys()
    if unknown:
        raise GuardError(f"{function.__qualname__} has no parameter {sorted(unknown)[0]!r} to inject")
    adapter, schema = _adapter(function.__qualname__, shown, defaults)
    return Signature(
        order=tuple(order),
        defaults=defaults,
        arguments=frozenset(shown),
        injected=frozenset(injected),
        secret=frozenset(secret),
        positional_only=tuple(positional_only),
        schema=schema,
        schema_text=canonical(schema),
        adapter=adapter,
        returns=_returns(hints.get("return", Any)),
        python=python,
        as_is=all(map(_is_plain_type, shown.values())),
        is_flat=all(map(_is_flat_type, shown.values())),
    )


def _adapter(
    name: str, fields: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], Mapping[str, Json]]:
    shape = {key: NotRequired[hint] if key in defaults else hint for key, hint in fields.items()}
    arguments = with_config(ConfigDict(extra="forbid"))(TypedDict("arguments", shape))  # type: ignore[operator]
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(arguments)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as problem:
        first = str(problem).splitlines()[0]
        raise GuardError(
            f"{name}: a parameter's type has no JSON form ({first}); use plain types, or "
            "`Annotated[..., assentry.Injected]` for clients and connections"
        ) from None
    for key, value in defaults.items():
        try:
            schema["properties"][key]["default"] = adapter.serializer.to_python({key: value}, mode="json")[key]
        except (ValueError, KeyError):
            continue
    schema["required"] = sorted(fields)  # what is stored and shown is always the whole call
    return adapter, schema


def _returns(hint: Any) -> TypeAdapter[Any] | None:
    if hint is Any or hint is None or hint is type(None):
        return None
    try:
        return TypeAdapter(hint)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError):
        return None
