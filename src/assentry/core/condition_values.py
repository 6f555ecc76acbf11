"""The values that conditions compute with, what may be done with them, and what each of that costs.

Every operation whose work or result grows with its data is paid for before it is done, from the meter of that one
evaluation. So an evaluation is bounded whatever the condition and whatever the data. A unit is about what one step of a
loop takes, 60 to 100 ns; the prices below are of the worst data that we know.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from assentry.core.action import Json
from assentry.core.condition_errors import unfit

MAX_STEPS = 2_000_000
"""What one evaluation may spend: about a fifth of a second."""
MAX_ROOM = 4_000_000
"""How many characters all values that one evaluation makes may have; a list costs 16 for each of its items."""
MAX_DEPTH = 32
MAX_PATTERN = 2_000
_FREE = 64
"""Texts up to this length cost nothing beyond the step that looks at them."""
_INT = re.compile(r"[-+]?[0-9]{1,19}")
_DIGITS = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)")
_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(h|ms|us|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_LONGEST = Decimal("1" * 76).__sizeof__()
"""The memory of a number that has so many digits that no other kind of number stands for it."""
WRONG = 60
"""What it takes to find out that a part gives no value, and to go on."""
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class Wrong(Exception):
    """This part gave no value. `false && …` and `true || …` may still hold without it."""


class TooMuch(Exception):
    """The evaluation has spent what it may. Nothing makes up for that."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What `type(…)` gives, and what `string` means where no value has that name."""

    name: str


@dataclass(slots=True)
class Purse:
    """What all conditions of one judgement may spend together: however many rules there are, a call is judged soon."""

    steps: int = 3 * MAX_STEPS


@dataclass(slots=True)
class Scope:
    """One evaluation: the data, the elements that its loops are at, and what may still be spent."""

    view: Any
    elements: list[Any]
    steps: int = MAX_STEPS
    room: int = MAX_ROOM
    roots: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    expressions: dict[str, "Expression"] = field(default_factory=dict)
    """Regular expressions that come from the data."""

    def spend(self, steps: int) -> None:
        """So many steps less; `TooMuch` where there are fewer."""
        self.steps -= steps
        if self.steps < 0:
            raise TooMuch("it takes too many steps; look at less data, or write fewer loops inside loops")

    def take(self, characters: int) -> None:
        """Room for a value of so many characters; `TooMuch` where there is none."""
        self.room -= characters
        if self.room < 0:
            raise TooMuch("the texts and lists that it makes are too large")
        self.spend(characters >> 5)


def read(value: Json, scope: Scope) -> Any:
    """`value` as conditions see it, or `Wrong` where it is nothing that they could compare faithfully."""
    kind = type(value)
    if kind is str:
        return _text(value, scope)
    if kind is bool or value is None or kind is dict or kind is list or kind is tuple:
        return value
    if kind is int:
        if -(2**63) <= value < 2**63:
            return value
        raise Wrong("a number is too large to compare")
    if kind is float:
        if math.isfinite(value):
            return value
        raise Wrong("a number is not finite")
    return _rarer(value, scope)


def _rarer(value: Any, scope: Scope) -> Any:
    if isinstance(value, Decimal):
        scope.spend(40)
        return _decimal(value)
    if isinstance(value, str):
        return _text(str(value), scope)
    if isinstance(value, int | float):  # an enumeration, or another kind of number
        return read(int(value) if isinstance(value, int) else float(value), scope)
    if isinstance(value, datetime | timedelta | Kind):
        return value
    if isinstance(value, Mapping) or (
        isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)
    ):
        return value
    name = type(value).__name__.lower()
    raise Wrong(f"{'an' if name[:1] in 'aeiou' else 'a'} {name} is not JSON")


def _decimal(value: Decimal) -> float:
    """The number that stands for `value`, if one does so to the last digit."""
    if not value.is_finite():
        raise Wrong("a number is not finite")
    if abs(value.adjusted()) > 400 or value.__sizeof__() > _LONGEST:
        raise Wrong("a number has too many digits to compare")
    number = float(value)
    if not math.isfinite(number) or Decimal(repr(number)) != value:
        raise Wrong("a number has too many digits to compare")
    return number


def _text(value: str, scope: Scope) -> str:
    if len(value) > _FREE:
        scope.spend(len(value) >> 8 if value.isascii() else len(value) >> 4)
    # Where texts are handed on, a NUL ends some of them: "staging\0production" would be read as "staging".
    if "\0" in value:
        raise Wrong("a text contains a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Wrong("a text contains half of a character") from None
    return value


def kind_of(value: Any) -> str:
    """What `type(…)` calls it."""
    if value is None:
        return "null_type"
    for kinds, name in _KINDS:
        if isinstance(value, kinds):
            return name
    return "list"


_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "bool"), (int, "int"), (float, "double"), (str, "string"), (Mapping, "map"), (datetime, "timestamp"),
    (timedelta, "duration"), (Kind, "type"),
)  # fmt: skip
KINDS = frozenset(name for _, name in _KINDS if name not in ("timestamp", "duration")) | {"list", "null_type"}


def misfit(sign: str, *values: Any) -> Wrong:
    """What is wrong where `sign` cannot be used with these values. Names their kinds, never the values."""
    return Wrong(f"the types do not fit: {unfit(sign, tuple(kind_of(value) for value in values))}")


def equal(one: Any, other: Any, scope: Scope, depth: int = MAX_DEPTH) -> bool:
    """Whether they are the same value; of two kinds they never are, except that 1 is 1.0."""
    kind, others = type(one), type(other)
    if kind is str and others is str:
        if len(one) == len(other) > _FREE:
            scope.spend(len(one) >> 8)
        return bool(one == other)
    if kind is bool or others is bool or one is None or other is None:
        return one is other
    if isinstance(one, int | float):
        return isinstance(other, int | float) and one == other
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and _same_map(one, other, scope, depth)
    if kind is str or isinstance(one, datetime | timedelta | Kind):
        return kind is others and bool(one == other)
    return kind_of(other) == "list" and _same_list(one, other, scope, depth)


def _same_map(one: Mapping[str, Any], other: Mapping[str, Any], scope: Scope, depth: int) -> bool:
    if not depth:
        raise Wrong("the data is too deep to look at")
    if len(one) != len(other):
        return False
    for key in one:
        scope.spend(8 + (len(key) >> 8))
        if key not in other or not equal(read(one[key], scope), read(other[key], scope), scope, depth - 1):
            return False
    return True


def _same_list(one: Sequence[Any], other: Sequence[Any], scope: Scope, depth: int) -> bool:
    if not depth:
        raise Wrong("the data is too deep to look at")
    if len(one) != len(other):
        return False
    for mine, theirs in zip(one, other, strict=True):
        scope.spend(8)
        if not equal(read(mine, scope), read(theirs, scope), scope, depth - 1):
            return False
    return True


def is_in(item: Any, holder: Any, scope: Scope) -> bool:
    """One of the items of a list, or one of the keys of a map."""
    if isinstance(holder, Mapping):
        if isinstance(item, str | int | float):
            return isinstance(item, str) and item in holder
        raise misfit("in", item, holder)
    if isinstance(holder, str) or kind_of(holder) != "list":
        raise misfit("in", item, holder)
    wrong: Wrong | None = None
    for each in holder:
        scope.spend(6)
        try:
            if equal(item, read(each, scope), scope):
                return True
        except Wrong as problem:
            scope.spend(WRONG)
            wrong = problem
    if wrong is not None:
        raise wrong
    return False


def ordered(sign: str, one: Any, other: Any, scope: Scope) -> None:
    """They can be compared by size; `Wrong` where not."""
    kind, others = type(one), type(other)
    if kind is str and others is str:
        scope.spend(min(len(one), len(other)) >> 8)
    elif not (
        (kind in (int, float) and others in (int, float)) or (kind is others and kind in (bool, datetime, timedelta))
    ):
        raise misfit(sign, one, other)


def added(one: Any, other: Any, scope: Scope) -> Any:
    """Numbers, texts, lists, durations and times, each with its like."""
    match one, other:
        case str(), str():
            scope.take(len(one) + len(other))
            return one + other
        case (datetime() | timedelta(), timedelta()) | (timedelta(), datetime()):
            return _span_sum(lambda: one + other)
    if isinstance(one, int | float):
        return _computed("+", one, other)
    if kind_of(one) == kind_of(other) == "list":
        scope.take(16 * (len(one) + len(other)))
        return [*one, *other]
    raise misfit("+", one, other)


def computed(sign: str, one: Any, other: Any) -> Any:
    """Two whole numbers or two others, or the time between two times."""
    if sign == "-" and isinstance(one, datetime | timedelta) and isinstance(other, datetime | timedelta):
        if not (isinstance(one, timedelta) and isinstance(other, datetime)):
            return _span_sum(lambda: one - other)  # type: ignore[operator]
        raise misfit(sign, one, other)
    return _computed(sign, one, other)


def _span_sum(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except OverflowError:
        raise Wrong("a time is out of range") from None


def _computed(sign: str, one: Any, other: Any) -> int | float:
    kind = type(one)
    if kind is not type(other) or kind not in (int, float) or (sign == "%" and kind is float):
        raise misfit(sign, one, other)
    if kind is float:
        return _fraction(sign, one, other)
    if sign in "/%" and other == 0:
        raise Wrong("divide by zero" if sign == "/" else "modulus by zero")
    match sign:
        case "+":
            made = one + other
        case "-":
            made = one - other
        case "*":
            made = one * other
        case "/":
            made = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
        case _:
            made = abs(one) % abs(other) * (-1 if one < 0 else 1)
    return whole(made)


def _fraction(sign: str, one: float, other: float) -> float:
    match sign:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
    if other == 0:
        return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
    return one / other


def whole(number: int) -> int:
    """The number, if it is one that conditions compute with."""
    if not -(2**63) <= number < 2**63:
        raise Wrong("integer overflow")
    return number


def negated(value: Any) -> Any:
    """The number with the other sign."""
    if type(value) is int:
        return whole(-value)
    if type(value) is float:
        return -value
    raise misfit("-", value)


def looked_up(holder: Any, key: Any, scope: Scope) -> Any:
    """What a map has under a key, or a list at a place."""
    if isinstance(holder, Mapping):
        if not isinstance(key, str):
            raise misfit("[]", holder, key)
        if key in holder:
            return read(holder[key], scope)
        raise Wrong("a key it looks up is not there; test it first with has(…) or `in`")
    if type(key) is float and key.is_integer():
        key = int(key)
    if isinstance(holder, str) or kind_of(holder) != "list" or type(key) is not int:
        raise misfit("[]", holder, key)
    if not 0 <= key < len(holder):
        raise Wrong("a list has no item at the place that it looks up")
    return read(holder[key], scope)


def items_of(holder: Any, sign: str) -> Any:
    """What a loop goes over: the items of a list, the keys of a map."""
    if isinstance(holder, str) or (not isinstance(holder, Mapping) and kind_of(holder) != "list"):
        raise misfit(sign, holder)
    return holder


def size(value: Any, _: Scope) -> int:
    """How many characters, items or keys."""
    if isinstance(value, str | Mapping) or kind_of(value) == "list":
        return len(value)
    raise misfit("size", value)


def contains(text: Any, part: Any, scope: Scope) -> bool:
    """The part is somewhere in the text."""
    if not (isinstance(text, str) and isinstance(part, str)):
        raise misfit("contains", text, part)
    if len(text) > _FREE:
        # Up to here the search may compare every place with every character; beyond it is linear.
        scope.spend((len(text) >> 4) + (len(text) * len(part) >> 6 if len(text) < 30_000 else 0))
    return part in text


def starts_with(text: Any, part: Any, scope: Scope) -> bool:
    """The text begins with the part."""
    if not (isinstance(text, str) and isinstance(part, str)):
        raise misfit("startsWith", text, part)
    scope.spend(len(part) >> 8)
    return text.startswith(part)


def ends_with(text: Any, part: Any, scope: Scope) -> bool:
    """The text ends with the part."""
    if not (isinstance(text, str) and isinstance(part, str)):
        raise misfit("endsWith", text, part)
    scope.spend(len(part) >> 8)
    return text.endswith(part)


def lower_ascii(text: Any, scope: Scope) -> str:
    """The text with A to Z in small letters, and nothing else changed."""
    if not isinstance(text, str):
        raise misfit("lowerAscii", text)
    if len(text) > _FREE:
        scope.take(len(text))
    if text.isascii():
        return text.lower()
    scope.spend(len(text) >> 2)
    return text.translate(_LOWER)


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression, compiled."""

    program: Any
    instructions: int
    """How many it has. In the worst case each looks at each character, which takes 4 ns."""


def expression(text: str) -> Expression:
    """The compiled expression. RE2 never goes back, and so takes time in proportion to both, text and expression."""
    import re2  # only where a condition needs it

    if len(text) > MAX_PATTERN:
        raise Wrong("a regular expression is too long")
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, 1 << 20
    try:
        program = re2.compile(text, options)
    except re2.error:
        raise Wrong("invalid regular expression, or too large") from None
    return Expression(program, max(10, program.programsize))


def matches(text: Any, wanted: Any, scope: Scope) -> bool:
    """Some part of the text matches the expression, which is compiled already if the condition says it."""
    if not (isinstance(text, str) and isinstance(wanted, str | Expression)):
        raise misfit("matches", text, wanted)
    if isinstance(wanted, str):
        known = scope.expressions.get(wanted)
        if known is None:
            scope.spend(50_000 + 200 * len(wanted))  # what compiling takes at worst, also where it fails
            known = scope.expressions[wanted] = expression(wanted)
        wanted = known
    scope.spend(50 + (wanted.instructions * (len(text) + 16) >> (4 if text.isascii() else 3)))
    return wanted.program.search(text.encode()) is not None


def as_int(value: Any, scope: Scope) -> int:
    """A whole number: of a number what is before the point, of a text what it reads, of a time its seconds."""
    if isinstance(value, int):
        return int(value)
    if type(value) is float:
        if not abs(value) < 2**63:
            raise Wrong("integer overflow")
        return int(value)
    if isinstance(value, datetime):
        return int(value.timestamp() // 1)
    if isinstance(value, str):
        scope.spend(10)
        if not _INT.fullmatch(value):
            raise Wrong("a text is not a whole number")
        return whole(int(value))
    raise misfit("int", value)


def as_double(value: Any, scope: Scope) -> float:
    """A number with a point."""
    if type(value) in (int, float):
        return float(value)
    if isinstance(value, str):
        scope.spend(10 + (min(len(value), 400) >> 2))
        if len(value) > 400 or not _DIGITS.fullmatch(value):
            raise Wrong("a text is not a number")
        return float(value)
    raise misfit("double", value)


def as_string(value: Any, scope: Scope) -> str:
    """A text as it is, a number or a time in writing."""
    scope.take(64)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{repr(value.total_seconds()).removesuffix('.0')}s"
    raise misfit("string", value)


def as_bool(value: Any, _: Scope) -> bool:
    """The texts true and false, in the spellings that CEL has for them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("true", "True", "TRUE", "t", "1"):
            return True
        if value in ("false", "False", "FALSE", "f", "0"):
            return False
        raise Wrong("a text is neither true nor false")
    raise misfit("bool", value)


def as_time(value: Any, scope: Scope) -> datetime:
    """A time with its distance from UTC, as RFC 3339 writes it; or a number of seconds since 1970."""
    scope.spend(40)
    try:
        if isinstance(value, datetime):
            return value
        if type(value) is int:
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str) and len(value) < 50 and _TIME.fullmatch(value):
            return datetime.fromisoformat(value.upper())
    except (ValueError, OverflowError, OSError):
        pass
    if isinstance(value, str | int):
        raise Wrong("a text is not a time such as 2026-01-31T12:00:00Z")
    raise misfit("timestamp", value)


def as_span(value: Any, scope: Scope) -> timedelta:
    """A duration such as 1h30m."""
    scope.spend(100)
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise misfit("duration", value)
    bare = value[1:] if value[:1] in ("-", "+") else value
    if len(value) > 50 or not bare or _SPAN.sub("", bare):
        raise Wrong("a text is not a duration such as 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _SPAN.findall(bare))
    return timedelta(seconds=-seconds if value[0] == "-" else seconds)


def kind(value: Any, _: Scope) -> Kind:
    """What kind of value it is."""
    return Kind(kind_of(value))


def same(value: Any, _: Scope) -> Any:
    """The value."""
    return value


_PARTS: dict[str, tuple[Callable[[datetime], int], Callable[[timedelta], int] | None]] = {
    "getFullYear": (lambda at: at.year, None),
    "getMonth": (lambda at: at.month - 1, None),
    "getDate": (lambda at: at.day, None),
    "getDayOfMonth": (lambda at: at.day - 1, None),
    "getDayOfWeek": (lambda at: at.isoweekday() % 7, None),
    "getHours": (lambda at: at.hour, lambda span: int(span.total_seconds() / 3600)),
    "getMinutes": (lambda at: at.minute, lambda span: int(span.total_seconds() / 60)),
    "getSeconds": (lambda at: at.second, lambda span: int(span.total_seconds())),
}


def _part(name: str) -> Callable[..., int]:
    of_time, of_span = _PARTS[name]

    def part(value: Any, scope: Scope) -> int:
        scope.spend(20)
        if isinstance(value, datetime):
            return of_time(value.astimezone(UTC))
        if isinstance(value, timedelta) and of_span is not None:
            return of_span(value)
        raise misfit(name, value)

    return part


@dataclass(frozen=True, slots=True)
class Function:
    """What a condition may call: how it is written, what it takes and what it gives."""

    work: Callable[..., Any]
    takes: tuple[tuple[str, ...], ...]
    """The kinds that each of its values may have."""
    gives: str
    forms: str = "member"
    """`a.f()`, `f(a)` or both."""


_SIZED, _WORDS, _TIMES = ("string", "list", "map"), ("string",), ("timestamp", "duration")
_ANY = ("int", "double", "string", "bool", "null_type", "list", "map", "timestamp", "duration", "type")
FUNCTIONS: dict[str, Function] = {
    "size": Function(size, (_SIZED,), "int", "both"),
    "contains": Function(contains, (_WORDS, _WORDS), "bool"),
    "startsWith": Function(starts_with, (_WORDS, _WORDS), "bool"),
    "endsWith": Function(ends_with, (_WORDS, _WORDS), "bool"),
    "matches": Function(matches, (_WORDS, _WORDS), "bool", "both"),
    "lowerAscii": Function(lower_ascii, (_WORDS,), "string"),
    "int": Function(as_int, (("int", "double", "string", "bool", "timestamp"),), "int", "plain"),
    "double": Function(as_double, (("int", "double", "string"),), "double", "plain"),
    "string": Function(as_string, (("int", "double", "string", "bool", *_TIMES),), "string", "plain"),
    "bool": Function(as_bool, (("bool", "string"),), "bool", "plain"),
    "timestamp": Function(as_time, (("string", "int", "timestamp"),), "timestamp", "plain"),
    "duration": Function(as_span, (("string", "duration"),), "duration", "plain"),
    "type": Function(kind, (_ANY,), "type", "plain"),
    "dyn": Function(same, (_ANY,), "dyn", "plain"),
    **{name: Function(_part(name), (_TIMES,), "int") for name in _PARTS},
}
