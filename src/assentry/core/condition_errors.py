"""What is wrong with a condition, in one plain sentence: where, what, and what to write instead.

What can be wrong is found where conditions are read and compiled; the words for it are here and nowhere else.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches

from assentry.core.action import Reach, Risk
from assentry.core.facts import DEFAULTS

_LOOPS = ("all", "exists", "exists_one", "map", "filter")
_FUNCTIONS = (
    *_LOOPS, "has", "size", "contains", "startsWith", "endsWith", "matches", "lowerAscii", "int", "double", "string",
    "bool", "timestamp", "duration", "type", "dyn",
)  # fmt: skip
_TYPES = {
    "int": "a whole number", "double": "a number", "string": "a text", "bool": "true or false", "null_type": "null",
    "list": "a list", "map": "a map", "dyn": "a value", "timestamp": "a time", "duration": "a duration",
    "type": "a type",
}  # fmt: skip
_ENUMERATED = {str(word) for kind in (Risk, Reach) for word in kind}
_INSTEAD = {"and": "&&", "or": "||", "not": "!", "is": "==", "equals": "==", "=": "==", "=>": ">=", "=<": "<=",
            "&": "&&", "|": "||", "<>": "!="}  # fmt: skip
_CONSTANTS = {"True": "true", "False": "false", "TRUE": "true", "FALSE": "false", "None": "null", "nil": "null"}
_CLOSING = (")", "]", "}")
_CURLED = ("\u201c", "\u201d", "\u2018", "\u2019", "`")
_CUT_OFF = "the condition ends too early"

Fields = Mapping[str, tuple[str, ...] | None]


def unknown_name(text: str, at: int, name: str, fields: Fields) -> str:
    """Nothing has this name; `at` is where it stands in the text."""
    return _unknown(text, at, name, fields, is_called=False)


def unknown_function(text: str, at: int, name: str, fields: Fields) -> str:
    """No function has this name, or not with so many values."""
    return _unknown(text, at, name, fields, is_called=True)


def unreadable(text: str, at: int, token: str, previous: str, missing: str) -> str:
    """The condition cannot be read further than `at`, where `token` stands; `missing` is what should be there."""
    return f"{_where(text, at)}: {_syntax(text, at, token, previous, missing)}"


def missing_field(text: str, start: int, variable: str, key: str, known: tuple[str, ...]) -> str:
    """A variable with fixed fields has none of this name; `start` is where the variable stands in the text."""
    return f"{_where(text, start)}: {variable} has no field {_quoted(key)}; {_nearest(key, known, f'{variable}.')}"


def misfit(text: str, at: int, sign: str, kinds: tuple[str, ...]) -> str:
    """What is written at `at` can never be used with values of these kinds."""
    return f"{_where(text, at)}: {unfit(sign, kinds)}; compare values of one kind"


def unfit(sign: str, kinds: tuple[str, ...]) -> str:
    """An operator or function could not be applied to values of these kinds."""
    if sign in ("&&", "||") and len(kinds) > 1:
        return f"{sign} needs true or false"
    if sign == "in" and kinds[-1] not in ("list", "map"):
        return f"in needs a list or a map on its right, and there is {type_words(kinds[-1])}"
    types = [type_words(each) for each in kinds]
    if len(types) == 2 and not sign.isalpha():
        return f"{sign} cannot be used between {types[0]} and {types[1]}"
    return f"{sign} cannot be used with {' and '.join(types)}"


def type_words(kind: str) -> str:
    """What people call a kind of value."""
    return _TYPES.get(kind, kind)


def _where(text: str, at: int) -> str:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"column {column}" if line == 1 else f"line {line}, column {column}"


_MISSING = {
    "field": "has(…) needs a field, as in has(args.name)",
    "bytes": "bytes are not used in conditions; write plain text",
    "large": "this number is too large",
}


def _syntax(text: str, at: int, token: str, previous: str, missing: str) -> str:
    if missing == "reserved":
        return f"{token} is not used in conditions; write the condition alone"
    if missing == "escape":
        return f"{token} has no meaning in a text; write \\\\ for a backslash, or r'…' for a text without escapes"
    if missing == "element":
        return f'{token} needs a name here, as in facts.paths.{token}(path, path != "/")'
    if missing in _MISSING:
        return _MISSING[missing]
    if not token:
        ends = f"there is no closing {missing}; add it"
        return ends if missing in _CLOSING else f"{_CUT_OFF}; write what it should hold"
    after = text[at + 1 : at + 2]
    for word in (previous[-1:] + token if text[at - 1 : at] == previous[-1:] else "", token + after, token, previous):
        if word.lower() in _INSTEAD:
            return f"write {_INSTEAD[word.lower()]} instead of {word}"
    if token[:1] in ("'", '"'):
        return "the text that begins here has no closing quote; add it"
    if token[:1] in _CURLED:
        return 'text is written in straight quotes, as in "production"'
    if re.match(r"[,_]", token) and re.search(r"\d$", previous):
        return "numbers are written without separators, as in 1000.5"
    return f"{_quoted(token[:40])} does not fit here; join conditions with && or ||, and put text in quotes"


def _unknown(text: str, at: int, name: str, fields: Fields, *, is_called: bool) -> str:
    where, shown = _where(text, at), name[:60]
    if is_called:
        if name in _LOOPS:
            return f'{where}: {name} needs a name and a condition, as in facts.paths.{name}(path, path != "/")'
        return f"{where}: unknown function {_quoted(shown)}; {_nearest(name, _FUNCTIONS)}"
    if name in _CONSTANTS:
        return f"{where}: write {_CONSTANTS[name]} instead of {name}"
    if name in _ENUMERATED:
        return f"{where}: text needs quotes; write {_quoted(name)}"
    every = _every_field(fields)
    alone = get_close_matches(name[:60], [each.partition(".")[2] for each in every], 1, 0.8)
    near = next((each for each in every if [each.partition(".")[2]] == alone), "")
    if not near:
        root, dot, rest = name.partition(".")
        roots = get_close_matches(root[:60], list(fields), 1, 0.6) if dot else []
        if roots:
            inside = [each for each in every if each.startswith(f"{roots[0]}.")]
            near = (get_close_matches(f"{roots[0]}.{rest}"[:60], inside, 1, 0.8) or [f"{roots[0]}.{rest}"])[0]
        else:
            near = (get_close_matches(name[:60], [*fields, *every], 1, 0.75) or [""])[0]
    names = ", ".join(sorted(fields))
    remedy = f"did you mean {near}?" if near else f"known are {names}, and text needs quotes"
    return f"{where}: unknown name {_quoted(shown)}; {remedy}"


def _every_field(fields: Fields) -> list[str]:
    known = {**fields, "facts": tuple(DEFAULTS)}
    return [f"{variable}.{key}" for variable, keys in known.items() for key in keys or ()]


def _nearest(word: str, known: tuple[str, ...], before: str = "") -> str:
    near = get_close_matches(word[:60], known, 1, 0.6)
    return f"did you mean {before}{near[0]}?" if near else f"known are {', '.join(known)}"


def _quoted(text: str) -> str:
    return f'"{text}"'
