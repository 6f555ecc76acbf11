"""What is wrong with a condition, in one plain sentence: where, what, and what to write instead.

The evaluator's own complaints are made for whoever knows its grammar. Their kinds are known here and nowhere else.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches

from assentry.core.action import Reach, Risk
from assentry.core.facts import DEFAULTS

_LOOPS = ("all", "exists", "exists_one", "map", "filter")
_FUNCTIONS = (
    *_LOOPS, "has", "size", "contains", "startsWith", "endsWith", "matches", "lowerAscii", "int", "double", "string",
    "bool", "timestamp", "duration",
)  # fmt: skip
_TYPES = {
    "int": "a whole number", "int64": "a whole number", "uint": "a whole number", "double": "a number",
    "string": "a text", "bool": "true or false",
    "null_type": "null", "null": "null", "list": "a list", "map": "a map", "dyn": "a value", "bytes": "bytes",
    "google.protobuf.Timestamp": "a time", "google.protobuf.Duration": "a duration", "type": "a type",
}  # fmt: skip
_ENUMERATED = {str(word) for kind in (Risk, Reach) for word in kind}
_INSTEAD = {"and": "&&", "or": "||", "not": "!", "is": "==", "equals": "==", "=": "==", "=>": ">=", "=<": "<=",
            "&": "&&", "|": "||", "<>": "!="}  # fmt: skip
_CONSTANTS = {"True": "true", "False": "false", "TRUE": "true", "FALSE": "false", "None": "null", "nil": "null"}
_ERROR = re.compile(r"<input>:(-?\d+):(-?\d+): ([^\n]*)")
_APPLIED = re.compile(r"([\w@!?:<>=+*/%&|.-]+)(?:' applied to ')?\(([^']*)\)")
_CURLED = ("\u201c", "\u201d", "\u2018", "\u2019", "`")
_CUT_OFF = "the condition ends too early"

Fields = Mapping[str, tuple[str, ...] | None]


def plain_complaint(message: str, text: str, fields: Fields) -> str:
    """The evaluator's complaint about `text` as a sentence."""
    found = [(int(line), int(column), what.removesuffix(" [INVALID_ARGUMENT]")) for line, column, what in
             _ERROR.findall(message)]  # fmt: skip
    if not found:
        return "the condition nests too deeply; simplify it" if "recursion" in message else "it cannot be read"
    if any("recursion" in what for _, _, what in found):
        return "the condition nests too deeply; simplify it"
    unknown = [(line, column, name[1]) for line, column, what in found
               if (name := re.search(r"undeclared reference to '([^']*)'", what))]  # fmt: skip
    if len(unknown) == len(found):
        # Inside a function that does not exist nothing else is known either, so that is said first.
        called = [each for each in unknown if _is_called(text, each)]
        return _unknown(text, (called or unknown)[0], fields)
    line, column, what = found[0]
    written = (text.split("\n")[line - 1 : line] or [""])[0]
    return f"{_where(line, column)}: {_syntax(what, written, column)}"


def missing_field(text: str, start: int, variable: str, key: str, known: tuple[str, ...]) -> str:
    """A variable with fixed fields has none of this name; `start` is where the variable stands in the text."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return f"{_where(line, column)}: {variable} has no field {_quoted(key)}; {_nearest(key, known, f'{variable}.')}"


def misfit(says: str) -> str:
    """What the evaluator could not apply to what, such as `_>_(int64, string)`, in words."""
    found = _APPLIED.search(says)
    if found is None:
        sign = says.strip().strip("_")
        return f"{sign} needs true or false" if sign in ("&&", "||", "!") else ""
    sign = found[1].strip("_@")
    types = [type_words(each) for each in re.split(r",\s*(?![^(]*\))", found[2])]
    if sign == "in":
        return f"in needs a list or a map on its right, and there is {types[-1]}"
    if len(types) == 2 and found[1].startswith("_"):
        return f"{sign} cannot be used between {types[0]} and {types[1]}"
    return f"{sign} cannot be used with {' and '.join(types)}"


def type_words(name: str) -> str:
    """What people call a type of the evaluator."""
    kind = re.split(r"[(<]", name.strip())[0]
    return _TYPES.get(kind, _TYPES.get(kind.lower(), kind.lower()))


def _where(line: int, column: int) -> str:
    return f"column {column}" if line == 1 else f"line {line}, column {column}"


def _syntax(what: str, written: str, column: int) -> str:
    if "matching overload" in what:
        return f"{misfit(what)}; compare values of one kind"
    if "'<EOF>'" in what:
        closing = re.search(r"missing '(.)' at", what)
        return f"there is no closing {closing[1]}; add it" if closing else f"{_CUT_OFF}; write what it should hold"
    if "reserved identifier" in what:
        return f"{what.rpartition(' ')[2]} is not used in conditions; write the condition alone"
    if "field selection" in what:
        return "has(…) needs a field, as in has(args.name)"
    at = re.search(r"input '(.+?)'(?: expecting|$)|error at: '(.+)'$", what)
    token = (at[1] or at[2] or "").strip() if at else ""
    before = re.search(r"(\S+?)\s*$", written[: column - 1])
    previous = before[1] if before else ""
    for word in (previous[-1:] + token, token, previous):
        if word.lower() in _INSTEAD:
            return f"write {_INSTEAD[word.lower()]} instead of {word}"
    if token[:1] in ("'", '"'):
        return "the text that begins here has no closing quote; add it"
    if token[:1] in _CURLED:
        return 'text is written in straight quotes, as in "production"'
    if re.match(r"[,_]", token) and re.search(r"\d$", previous):
        return "numbers are written without separators, as in 1000.5"
    if not token:
        return "it cannot be read here; compare values and join them with && or ||, as in `facts.count > 100`"
    return f"{_quoted(token[:40])} does not fit here; join conditions with && or ||, and put text in quotes"


def _is_called(text: str, unknown: tuple[int, int, str]) -> bool:
    return re.search(rf"(?<!\w){re.escape(unknown[2])}\s*\(", text) is not None


def _unknown(text: str, error: tuple[int, int, str], fields: Fields) -> str:
    line, column, name = error
    written = (text.split("\n")[line - 1 : line] or [""])[0]
    spelled = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    # The evaluator points at the dot or the parenthesis; people look for the name.
    starts = [found.start() + 1 for found in spelled.finditer(written)]
    where = _where(line, min(starts, key=lambda start: abs(start - column), default=column))
    shown = name[:60]
    if _is_called(written, error):
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
