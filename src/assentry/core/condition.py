"""Conditions over an action: CEL text in, a boolean out, and anything else is a failure with a sentence.

The expression language is Google's Common Expression Language, which has no side effects and always ends. What
it does not bound is the data it is given, so this module does: see `_too_much`. Nothing else in Assentry knows
which language a condition is written in.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol

from assentry.core.action import Json
from assentry.core.condition_errors import misfit, missing_field, plain_complaint, type_words
from assentry.errors import PolicyError

FIELDS: dict[str, tuple[str, ...] | None] = {
    "action": ("name", "agent", "description", "tokens", "trusted", "confidence", "cost"),
    "args": None,
    "effect": ("reversible", "reach", "outside", "money", "risk", "read", "known"),
    "facts": None,
    "run": ("id", "goal", "agent", "steps", "spend", "scope"),
}
"""Every variable, and the fields it has where that is fixed. What an agent merely says (why, goal) is not there."""

MAX_TEXT = 2_000
MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_CHARACTERS = 1_000_000
MAX_WORK = 5_000_000
MAX_SUMS = 20
"""A condition may add so often: each time may copy as much text as it is given."""
_ITERATIONS = 10_000
"""The evaluator's own budget: a condition may go round its loops this often in all."""


class View(Protocol):
    """Looks variables up by name. Asked only for those that a condition mentions."""

    def __getitem__(self, name: str, /) -> Mapping[str, Json]: ...


@dataclass(frozen=True, slots=True)
class Failed:
    """A condition that gave neither true nor false, and why. Never contains a payload value."""

    says: str
    is_value: bool = False
    """It could be evaluated, and gave something else: a number, a text, a list."""


class _Unfit(Exception):
    """A value that the evaluator would refuse or, worse, misread."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition. Compare its result with `is True`: a `Failed` is not a `False`."""

    text: str
    _program: Any = field(repr=False, compare=False)
    _needs: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Variables mentioned, each with the keys mentioned, or `None` where the whole map may be looked at."""
    _loops: int = 0
    """How deep loops nest whose body looks at more than its own element; 0 when none does."""
    _weight: int = 1

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._needs)

    def keys(self, variable: str) -> tuple[str, ...] | None:
        """The fields of `variable` that the text names, or `None` if it may look at all of them."""
        return dict(self._needs).get(variable, ())

    def holds(self, view: View) -> bool | Failed:
        """True or false if the condition says so of `view`; otherwise why it could not be evaluated."""
        try:
            size = [0, 0]
            data: dict[str, Any] = {}
            for name, keys in self._needs:
                source = view[name]
                if keys is None:
                    data[name] = _plain(source, size, MAX_DEPTH)
                else:
                    data[name] = {key: _plain(source[key], size, MAX_DEPTH) for key in keys if key in source}
            if self._loops and _too_much(size, self._loops, self._weight):
                return Failed("the data is too large for a loop inside a loop")
            value = self._program.eval(data=data).value()
        except _Unfit as unfit:
            return Failed(str(unfit))
        except Exception as error:  # noqa: BLE001  Total by design: whatever is thrown is a failure, never a crash.
            return Failed(_thrown(error))
        if value is True or value is False:
            return bool(value)
        return Failed(_not_boolean(value, self.text), is_value=not (isinstance(value, str) and ":" in value))


@lru_cache(maxsize=2_048)
def compile_condition(text: str) -> Condition:
    """The compiled condition, or a `PolicyError` that names the column and the remedy."""
    if not text.strip():
        raise PolicyError("the condition is empty; leave `when` out to match always")
    if len(text) > MAX_TEXT:
        raise PolicyError(f"the condition has {len(text)} characters, more than {MAX_TEXT}; split it into rules")
    if not text.isprintable() and not text.replace("\n", " ").replace("\t", " ").isprintable():
        raise PolicyError("the condition contains invisible characters; retype it in plain text")
    try:
        program = _environment().compile(text)
    except Exception as error:  # noqa: BLE001  The evaluator documents no error types of its own.
        raise PolicyError(plain_complaint(str(error), text, FIELDS)) from None
    from cel_expr_python import cel

    kind = program.return_type()
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        raise PolicyError(
            f"the condition gives {type_words(kind.name())}, not true or false; compare it, as in `facts.count > 100`"
        )
    bare = _STRING_OR_COMMENT.sub('""', text)
    _check_fields(text, _STRING_OR_COMMENT.sub(lambda found: '"' * len(found[0]), text))
    _refuse_growth(bare)
    loops, weight = _heavy_loops(bare)
    return Condition(text, program, _needs(text), loops, weight)


@lru_cache(maxsize=1)
def _environment() -> Any:
    from cel_expr_python import cel  # 50 MB; a policy without conditions needs none of them

    table = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    lower = cel.Overload("string_lower_ascii", cel.Type.STRING, [cel.Type.STRING], True, _lower_ascii)
    return cel.NewEnv(variables=dict.fromkeys(FIELDS, table), functions=[cel.FunctionDecl("lowerAscii", [lower])])


_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def _lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


_VARIABLE = re.compile(rf"(?<!\w)({'|'.join(FIELDS)})(?!\w)(?:\s*\.\s*([A-Za-z_]\w*)(?!\w)(?!\s*\())?", re.ASCII)
_ROOT = re.compile(rf"(?<![\w.])({'|'.join(FIELDS)})(?!\w)", re.ASCII)
_STRING_OR_COMMENT = re.compile(
    r"""(?<!\w)(?:[rR][bB]?|[bB][rR])(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')"""
    r"""|(?:(?<!\w)[bB])?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|//[^\n]*""",
    re.DOTALL,
)
"""As the language reads them: in a raw string a backslash is a backslash, and does not hide the quote behind it."""
_LOOP_OR_PAREN = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(|[()]")


def _needs(text: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    """What to hand over. Found in the raw text, strings and all: too much is harmless, too little would lie."""
    found: dict[str, set[str] | None] = {}
    for match in _VARIABLE.finditer(text):
        name, key = match[1], match[2]
        if key is None:
            found[name] = None
        elif (keys := found.setdefault(name, set())) is not None:
            keys.add(key)
    return tuple((name, None if keys is None else tuple(sorted(keys))) for name, keys in sorted(found.items()))


def _check_fields(text: str, bare: str) -> None:
    """`bare` is the text without what strings and comments say, character for character."""
    for match in _VARIABLE.finditer(bare):
        name, key, fields = match[1], match[2], FIELDS[match[1]]
        rooted = match.start() == 0 or bare[: match.start()].rstrip()[-1:] != "."
        if key and fields and key not in fields and rooted:
            raise PolicyError(missing_field(text, match.start(), name, key, fields))


_TOKEN = re.compile(r'""|\d[\w.]*|[A-Za-z_]\w*|`[^`]*`|\S')
_LOOPS = frozenset(("all", "exists", "exists_one", "map", "filter"))
_CONSTANTS = frozenset(("true", "false", "null"))
_ENDS = {"(": ")", "[": "]", "{": "}"}


def _refuse_growth(bare: str) -> None:
    """No value of the condition can become much larger than its data.

    Values double where a round of `map` gives more than it was given (`a + a`, `[a, a]`), or where a loop goes over
    what another one made (`[a + a].exists(b, …)`): 331 characters like that took 4 GB. So inside `map` only numbers
    are added, and inside any loop lists and maps are written of constants alone.
    """
    parts = ["", "", *_TOKEN.findall(bare), ""]
    if (sums := parts.count("+")) > MAX_SUMS:
        raise PolicyError(f"the condition adds {sums} times, more than {MAX_SUMS}; split it into rules")
    open_: list[tuple[str, str]] = []
    for place in range(2, len(parts) - 1):
        first, before, part, after = parts[place - 2 : place + 2]
        inside = {kind for kind, _ in open_}
        if open_ and part == open_[-1][1]:
            open_.pop()
        elif part == "(":
            is_loop = first == "." and before in _LOOPS
            open_.append((("map" if before == "map" else "loop") if is_loop else "", _ENDS[part]))
        elif part in ("[", "{"):
            is_looping = "map" in inside or "loop" in inside
            open_.append(("literal" if is_looping and not (part == "[" and _ends_value(before)) else "", _ENDS[part]))
        elif part == "+" and "map" in inside and not (before[:1].isdigit() or after[:1].isdigit()):
            raise PolicyError("inside map(), + may only add a number such as `+ 1`: texts and lists would grow")
        elif "literal" in inside and part not in _CONSTANTS and _is_word(part):
            raise PolicyError(
                f"inside a loop, a list or map may hold constants only, not {part}; "
                "compare with `==` and `||`, or write the list in front of the loop"
            )


def _is_word(part: str) -> bool:
    return part[:1].isalpha() or part[:1] in ("_", "`")


def _ends_value(part: str) -> bool:
    """A bracket behind it looks something up, and is not the beginning of a list."""
    return part in (")", "]", "}", '""') or (_is_word(part) and part != "in")


def _heavy_loops(bare: str) -> tuple[int, int]:
    """How deep loops nest whose body looks beyond its element, and how many such looks there are."""
    open_loops: list[bool] = []
    deepest, weight, last = 0, 0, 0
    for match in _LOOP_OR_PAREN.finditer(bare):
        inside = sum(open_loops)
        if inside:
            weight += len(_ROOT.findall(bare, last, match.start()))
        last = match.end()
        if match[0] == ")":
            if open_loops:
                open_loops.pop()
            continue
        is_loop = match[0] != "("
        if is_loop and inside:
            weight += 1
        open_loops.append(is_loop)
        deepest = max(deepest, sum(open_loops))
    return (deepest, weight) if weight else (0, 1)


def _too_much(size: list[int], loops: int, weight: int) -> bool:
    """Rounds times what one round may look at exceeds the budget (about a third of a second at worst).

    Comparing one node costs about 70 ns and matching one character about 4 ns, hence the 16. A loop that looks
    only at its own element is linear in the data and needs no bound beyond `MAX_NODES` and `MAX_CHARACTERS`.
    """
    nodes, characters = size
    rounds: int = min(_ITERATIONS, max(nodes, 1) ** min(loops, 4))
    return rounds * (nodes + characters // 16) * weight > MAX_WORK


def _plain(value: Json, size: list[int], depth: int) -> Any:
    """`value` in types that the evaluator reads faithfully, or `_Unfit`."""
    size[0] += 1
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _plain_text(value, size)
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return value
        raise _Unfit("a number is too large to compare")
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise _Unfit("a number is not finite")
    if isinstance(value, Decimal):
        return _plain_decimal(value)
    if depth == 0 or size[0] > MAX_NODES:
        raise _Unfit("the data is too deep or too large to look at")
    if isinstance(value, Mapping):
        if size[0] + len(value) > MAX_NODES:
            raise _Unfit("the data is too large to look at")
        return {_plain_key(key, size): _plain(item, size, depth - 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        if size[0] + len(value) > MAX_NODES:
            raise _Unfit("the data is too large to look at")
        return [_plain(item, size, depth - 1) for item in value]
    raise _Unfit(f"{_a(type(value).__name__)} is not JSON")


def _plain_decimal(value: Decimal) -> float:
    """The number that stands for `value`, if one does so to the last digit."""
    if not value.is_finite():
        raise _Unfit("a number is not finite")
    number = float(value)
    if not math.isfinite(number) or Decimal(repr(number)) != value:
        raise _Unfit("a number has too many digits to compare")
    return number


def _plain_text(value: str, size: list[int]) -> str:
    size[1] += len(value)
    if size[1] > MAX_CHARACTERS:
        raise _Unfit("the text is too long to look at")
    # The evaluator stops reading at a NUL: "staging\0production" would compare equal to "staging".
    if "\0" in value:
        raise _Unfit("a text contains a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Unfit("a text contains half of a character") from None
    return value


def _plain_key(key: Any, size: list[int]) -> str:
    if not isinstance(key, str):
        raise _Unfit("a key is not a text")
    return _plain_text(key, size)


def _thrown(error: Exception) -> str:
    if "Iteration budget" in str(error):
        return f"it went round its loops more than {_ITERATIONS} times"
    return f"the evaluator gave up ({type(error).__name__})"


def _not_boolean(value: Any, text: str) -> str:
    """Why, without repeating anything that came from the data."""
    if not isinstance(value, str) or ":" not in value:
        return "it gave neither true nor false"
    if found := re.search(r'Key not found in map : "([A-Za-z_]\w*)"', value):
        if re.search(rf"(?<!\w){found[1]}(?!\w)", text):
            return f"{_quoted(found[1])} is not there; test it first with has(…)"
        return "a key it looks up is not there; test it first with has(…) or `in`"
    if found := re.search(r"No matching overloads found : ([^'\n]+)$", value):
        return ": ".join(filter(None, ("the types do not fit", misfit(found[1]))))
    for known in ("divide by zero", "modulus by zero", "integer overflow", "invalid regular expression"):
        if known in value:
            return known
    return "it gave neither true nor false"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _a(noun: str) -> str:
    noun = noun.lower()
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"
