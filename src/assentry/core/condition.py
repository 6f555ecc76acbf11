"""Conditions over an action: a text in, a boolean out, and anything else is a failure with a sentence.

The language is the part of Google's Common Expression Language (CEL) that policies need. It has no side effects and
always ends, and it is bounded twice: what is dear whatever the data does not load (`_refuse_growth`, `_refuse_rounds`),
and while a condition is evaluated, every step and every character that it makes is paid for (`condition_values`).
Nothing else in Assentry knows which language a condition is written in.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from assentry.core.action import Json
from assentry.core.condition_errors import misfit as cannot
from assentry.core.condition_errors import missing_field, type_words, unknown_function, unknown_name
from assentry.core.condition_text import LOOPS, Node, parsed
from assentry.core.condition_values import (
    FUNCTIONS,
    KINDS,
    MAX_STEPS,
    WRONG,
    Expression,
    Kind,
    Purse,
    Scope,
    TooMuch,
    Wrong,
    added,
    computed,
    equal,
    expression,
    is_in,
    items_of,
    kind_of,
    looked_up,
    misfit,
    negated,
    ordered,
    read,
)
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
MAX_SUMS = 20
"""A condition may add so often: each time may copy as much text as it is given."""
MAX_ROUNDS = 10_000
"""Steps that loops over lists in the text itself may take, all in all: they are the same for every call."""
MAX_INSTRUCTIONS = 50_000
"""Of all regular expressions in the text together, as RE2 counts: one for a letter, 20 times as many for `{1,20}`."""

Step = Callable[[Scope], Any]


class View(Protocol):
    """Looks variables up by name. Asked only for those that a condition mentions."""

    def __getitem__(self, name: str, /) -> Mapping[str, Json]: ...


@dataclass(frozen=True, slots=True)
class Failed:
    """A condition that gave neither true nor false, and why. Never contains a payload value."""

    says: str
    is_value: bool = False
    """It could be evaluated, and gave something else: a number, a text, a list."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition. Compare its result with `is True`: a `Failed` is not a `False`."""

    text: str
    _step: Step = field(repr=False, compare=False)
    _needs: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Variables mentioned, each with the keys mentioned, or `None` where the whole map may be looked at."""
    _loops: int = 0

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._needs)

    def keys(self, variable: str) -> tuple[str, ...] | None:
        """The fields of `variable` that the text names, or `None` if it may look at all of them."""
        return dict(self._needs).get(variable, ())

    def holds(self, view: View, purse: Purse | None = None) -> bool | Failed:
        """True or false if the condition says so of `view`; otherwise why it could not be evaluated.

        It may spend what is left in the purse, if one is given, but never more than `MAX_STEPS`.
        """
        most = MAX_STEPS if purse is None else min(MAX_STEPS, purse.steps)
        scope = Scope(view, [None] * self._loops, most)
        try:
            value = self._step(scope)
        except (Wrong, TooMuch) as problem:
            return Failed(str(problem))
        except Exception as error:  # noqa: BLE001  Total by design: whatever is thrown is a failure, never a crash.
            return Failed(f"the evaluator gave up ({type(error).__name__})")
        finally:
            if purse is not None:
                purse.steps -= most - max(0, scope.steps)
        if value is True or value is False:
            return value
        return Failed("it gave neither true nor false", is_value=True)


@lru_cache(maxsize=2_048)
def compile_condition(text: str) -> Condition:
    """The compiled condition, or a `PolicyError` that names the column and the remedy."""
    if not text.strip():
        raise PolicyError("the condition is empty; leave `when` out to match always")
    if len(text) > MAX_TEXT:
        raise PolicyError(f"the condition has {len(text)} characters, more than {MAX_TEXT}; split it into rules")
    if not text.isprintable() and not text.replace("\n", " ").replace("\t", " ").isprintable():
        raise PolicyError("the condition contains invisible characters; retype it in plain text")
    tree = parsed(text)
    compiler = _Compiler(text)
    made = compiler.made(tree, {})
    if made.kind not in ("bool", "dyn"):
        raise PolicyError(
            f"the condition gives {type_words(made.kind)}, not true or false; compare it, as in `facts.count > 100`"
        )
    _refuse_growth(tree)
    _refuse_rounds(tree)
    needs = {name: None if keys is None else tuple(sorted(keys)) for name, keys in sorted(compiler.needs.items())}
    return Condition(text, made.step, tuple(needs.items()), compiler.loops)


def _refuse_growth(tree: Node) -> None:
    """No value of the condition can become much larger than its data.

    Values double where a round of `map` gives more than it was given (`a + a`, `[a, a]`), or where a loop goes over
    what another one made (`[a + a].exists(b, …)`): 331 characters like that took 4 GB. So inside `map` only numbers
    are added, and inside any loop lists and maps are written of constants alone.
    """
    sums = 0
    waiting: list[tuple[Node, bool, bool]] = [(tree, False, False)]
    while waiting:
        node, in_map, in_loop = waiting.pop()
        if node.what == "+":
            sums += 1
            if in_map and not any(part.what == "const" and not isinstance(part.value, str) for part in node.parts):
                raise PolicyError("inside map(), + may only add a number such as `+ 1`: texts and lists would grow")
        if node.what in ("list", "map") and in_loop and (word := _variable_part(node)):
            raise PolicyError(
                f"inside a loop, a list or map may hold constants only, not {word}; "
                "compare with `==` and `||`, or write the list in front of the loop"
            )
        if node.what == "call" and node.value in ("lowerAscii", "string") and in_map and not _names(node):
            raise PolicyError(
                f"inside map(), {node.value} may only be used on its element: the same text would be made in each round"
            )
        for place, part in enumerate(node.parts):
            is_body = node.what == "loop" and place > 0
            waiting.append((part, in_map or (is_body and node.value[0] == "map"), in_loop or is_body))
    if sums > MAX_SUMS:
        raise PolicyError(f"the condition adds {sums} times, more than {MAX_SUMS}; split it into rules")


def _variable_part(node: Node) -> str:
    """The first thing in a list or a map that is not a constant."""
    for part in node.parts:
        if part.what in ("list", "map", "neg"):
            if found := _variable_part(part):
                return found
        elif part.what != "const":
            return str(_root(part))
    return ""


def _root(node: Node) -> str:
    while node.parts and node.what != "call":
        node = node.parts[0]
    return str(node.value or node.what)


def _names(node: Node) -> bool:
    """It looks at the element of a loop."""
    return (node.what == "name" and node.value not in FIELDS) or any(_names(part) for part in node.parts)


def _refuse_rounds(tree: Node) -> None:
    """What loops over lists that are written out would cost, whatever the data, is within bounds."""
    cost = _least(tree)
    if cost > MAX_ROUNDS:
        raise PolicyError(
            f"its loops over lists in the text take {cost:,} steps, more than {MAX_ROUNDS:,}; nest fewer of them"
        )


def _least(node: Node) -> int:
    """Steps, if every list of the data had one item."""
    if node.what != "loop":
        return 1 + sum(_least(part) for part in node.parts)
    return _least(node.parts[0]) + _length(node.parts[0]) * (1 + sum(_least(part) for part in node.parts[1:]))


def _length(node: Node) -> int:
    """How many items it has at most, as far as the text says; otherwise 1."""
    match node.what:
        case "list":
            return len(node.parts)
        case "map":
            return len(node.parts) // 2
        case "loop" if node.value[0] in ("map", "filter"):
            return _length(node.parts[0])
        case "+":
            return _length(node.parts[0]) + _length(node.parts[1])
        case "if":
            return max(_length(part) for part in node.parts[1:])
        case "index" | "call" | "select":
            return max((_longest(part) for part in node.parts), default=1)
        case _:
            return 1


def _longest(node: Node) -> int:
    """Of any list in it."""
    return max([_length(node) if node.what in ("list", "map") else 1, *(_longest(part) for part in node.parts)])


@dataclass(frozen=True, slots=True)
class _Made:
    """A step of the evaluation, and the kind of value that it gives; `dyn` where only the data says."""

    step: Step
    kind: str = "dyn"


_NUMBERS = ("int", "double")
_ORDERED = (*_NUMBERS, "string", "bool", "timestamp", "duration")
_COMPARING: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class _Compiler:
    """Makes steps of a tree, and finds what could never work."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.needs: dict[str, set[str] | None] = {}
        self.loops = self.instructions = 0

    def made(self, node: Node, elements: Mapping[str, int]) -> _Made:
        """The step for `node`, where these elements of loops are known."""
        match node.what:
            case "const":
                value = node.value
                return _Made(lambda _: value, kind_of(value))
            case "name":
                return self._name(node, elements)
            case "select" | "has":
                return self._select(node, elements)
            case "call":
                return self._call(node, elements)
            case "loop":
                return self._loop(node, elements)
        parts = [self.made(part, elements) for part in node.parts]
        steps = [part.step for part in parts]
        match node.what:
            case "index":
                self._check("[]", node.at, parts[:1], ("list", "map"))
                return _Made(_index(steps[0], steps[1]))
            case "list":
                return _Made(_list(steps), "list")
            case "map":
                for place in range(0, len(parts), 2):
                    if parts[place].kind not in ("string", "dyn"):
                        raise PolicyError(cannot(self._text, node.parts[place].at, "a key", (parts[place].kind,)))
                return _Made(_map(steps), "map")
            case "and" | "or":
                sign = "&&" if node.what == "and" else "||"
                for part in parts:
                    if part.kind not in ("bool", "dyn"):
                        raise PolicyError(cannot(self._text, node.at, sign, (part.kind,)))
                return _Made(_joined(steps, sign), "bool")
            case "if":
                self._check("?", node.at, parts[:1], ("bool",))
                kinds = {part.kind for part in parts[1:]}
                if len(kinds - {"dyn", "null_type"}) > 1 and not kinds <= set(_NUMBERS):
                    raise PolicyError(cannot(self._text, node.at, ":", (parts[1].kind, parts[2].kind)))
                return _Made(_chosen(steps), kinds.pop() if len(kinds) == 1 else "dyn")
            case "not":
                self._check("!", node.at, parts, ("bool",))
                return _Made(_not(steps[0]), "bool")
            case "neg":
                self._check("-", node.at, parts, _NUMBERS)
                step = steps[0]
                return _Made(lambda scope: negated(step(scope)), parts[0].kind)
        return self._operator(node, parts)

    def _operator(self, node: Node, parts: list[_Made]) -> _Made:
        sign, one, other = node.what, parts[0].step, parts[1].step
        kinds = tuple(part.kind for part in parts)
        known = "dyn" not in kinds
        alike = kinds[0] == kinds[1] or (kinds[0] in _NUMBERS and kinds[1] in _NUMBERS)
        wrong = False
        if sign in ("==", "!="):
            wrong = known and not alike and "null_type" not in kinds
            made = _Made(_equal(one, other, wanted=sign == "=="), "bool")
        elif sign in _COMPARING:
            wrong = any(kind not in (*_ORDERED, "dyn") for kind in kinds) or (known and not alike)
            made = _Made(_compared(sign, one, other), "bool")
        elif sign == "in":
            wrong = kinds[1] not in ("list", "map", "dyn")
            made = _Made(lambda scope: is_in(one(scope), other(scope), scope), "bool")
        else:
            fits = {"+": (*_NUMBERS, "string", "list", "timestamp", "duration"), "-": (*_NUMBERS, "timestamp",
                    "duration"), "%": ("int",)}.get(sign, _NUMBERS)  # fmt: skip
            mixed = kinds[0] != kinds[1] and not ("duration" in kinds and "timestamp" in kinds)
            wrong = any(kind not in (*fits, "dyn") for kind in kinds) or (known and mixed)
            kind = kinds[0] if kinds[0] == kinds[1] and kinds[0] != "timestamp" else "dyn"
            if sign == "+":
                made = _Made(lambda scope: added(one(scope), other(scope), scope), kind)
            else:
                made = _Made(lambda scope: computed(sign, one(scope), other(scope)), kind)
        if wrong:
            raise PolicyError(cannot(self._text, node.at, sign, kinds))
        return made

    def _check(self, sign: str, at: int, parts: Sequence[_Made], fit: tuple[str, ...]) -> None:
        if any(part.kind not in (*fit, "dyn") for part in parts):
            raise PolicyError(cannot(self._text, at, sign, tuple(part.kind for part in parts)))

    def _name(self, node: Node, elements: Mapping[str, int]) -> _Made:
        name = node.value
        if name in elements:
            place = elements[name]
            return _Made(lambda scope: scope.elements[place])
        if name in FIELDS:
            self.needs[name] = None
            return _Made(_variable(name), "map")
        if name in KINDS:
            kind = Kind(name)
            return _Made(lambda _: kind, "type")
        raise PolicyError(unknown_name(self._text, node.at, name, FIELDS))

    def _select(self, node: Node, elements: Mapping[str, int]) -> _Made:
        target, key, is_test = node.parts[0], node.value, node.what == "has"
        if target.what == "name" and target.value not in elements:
            name, fields = target.value, FIELDS.get(target.value)
            if name not in FIELDS:
                raise PolicyError(unknown_name(self._text, target.at, f"{name}.{key}", FIELDS))
            if fields is not None and key not in fields:
                raise PolicyError(missing_field(self._text, target.at, name, key, fields))
            known = self.needs.setdefault(name, set())
            if known is not None:
                known.add(key)
            variable = _variable(name)
            return _Made(_tested(variable, key), "bool") if is_test else _Made(_field(variable, key))
        made = self.made(target, elements)
        self._check(".", node.at, [made], ("map",))
        return _Made(_tested(made.step, key), "bool") if is_test else _Made(_field(made.step, key))

    def _call(self, node: Node, elements: Mapping[str, int]) -> _Made:
        name, function = node.value, FUNCTIONS.get(node.value)
        form = "member" if node.is_member else "plain"
        if name in LOOPS or function is None or function.forms not in (form, "both"):
            raise PolicyError(unknown_function(self._text, node.at, name, FIELDS))
        if len(node.parts) != len(function.takes):
            raise PolicyError(unknown_function(self._text, node.at, name, FIELDS))
        parts = [self.made(part, elements) for part in node.parts]
        if any(part.kind not in (*fit, "dyn") for part, fit in zip(parts, function.takes, strict=True)):
            raise PolicyError(cannot(self._text, node.at, name, tuple(part.kind for part in parts)))
        steps = [part.step for part in parts]
        if name == "matches" and node.parts[1].what == "const":
            made = _expression(node.parts[1].value)
            self.instructions += made.instructions
            if self.instructions > MAX_INSTRUCTIONS:
                raise PolicyError("its regular expressions are too large; repeat less often in them (`{1,20}`)")
            steps[1] = lambda _: made
        return _Made(_called(function.work, steps), function.gives)

    def _loop(self, node: Node, elements: Mapping[str, int]) -> _Made:
        kind, name = node.value
        over = self.made(node.parts[0], elements)
        self._check(kind, node.at, [over], ("list", "map"))
        place, self.loops = self.loops, self.loops + 1
        bodies = [self.made(part, {**elements, name: place}) for part in node.parts[1:]]
        for body in bodies if kind != "map" else bodies[:-1]:
            self._check(kind, node.at, [body], ("bool",))
        # A round pays for all of its body; loops inside it pay for their rounds themselves.
        price = 4 + 2 * sum(_weight(part) for part in node.parts[1:])
        steps = [body.step for body in bodies]
        if kind in ("all", "exists"):
            return _Made(_searched(over.step, steps[0], place, price, kind), "bool")
        if kind == "exists_one":
            return _Made(_found_once(over.step, steps[0], place, price), "bool")
        if kind == "filter":
            return _Made(_mapped(over.step, steps[0], None, place, price, kind), "list")
        chosen = steps[0] if len(steps) == 2 else None
        return _Made(_mapped(over.step, chosen, steps[-1], place, price, kind), "list")


def _weight(node: Node) -> int:
    return 1 + sum(_weight(part) for part in node.parts)


def _expression(text: str) -> Expression:
    """A regular expression that is written out is compiled once."""
    try:
        return expression(text)
    except Wrong as problem:
        raise PolicyError(f"{problem}; matches() takes the syntax of RE2, without look-around") from None


def _variable(name: str) -> Step:
    def step(scope: Scope) -> Any:
        found = scope.roots.get(name)
        if found is None:
            found = scope.roots[name] = scope.view[name]
        return found

    return step


def _field(of: Step, key: str) -> Step:
    quoted = f'"{key}" is not there; test it first with has(…)'

    def step(scope: Scope) -> Any:
        holder = of(scope)
        if not isinstance(holder, Mapping):
            raise Wrong(f"the types do not fit: {type_words(kind_of(holder))} has no fields")
        if key in holder:
            return read(holder[key], scope)
        raise Wrong(quoted)

    return step


def _tested(of: Step, key: str) -> Step:
    def step(scope: Scope) -> bool:
        holder = of(scope)
        if not isinstance(holder, Mapping):
            raise Wrong(f"the types do not fit: {type_words(kind_of(holder))} has no fields")
        return key in holder

    return step


def _index(of: Step, by: Step) -> Step:
    return lambda scope: looked_up(of(scope), by(scope), scope)


def _list(steps: Sequence[Step]) -> Step:
    def step(scope: Scope) -> list[Any]:
        scope.take(16 * len(steps))
        return [each(scope) for each in steps]

    return step


def _map(steps: Sequence[Step]) -> Step:
    def step(scope: Scope) -> dict[str, Any]:
        scope.take(32 * len(steps))
        made: dict[str, Any] = {}
        for key, value in zip(steps[::2], steps[1::2], strict=True):
            name = key(scope)
            if not isinstance(name, str):
                raise misfit("a key", name)
            if name in made:
                raise Wrong("a map has a key twice")
            made[name] = value(scope)
        return made

    return step


def _joined(steps: Sequence[Step], sign: str) -> Step:
    """Whatever decides decides, wherever it stands: beside it a part that gives no value does not matter."""
    decides: bool = sign == "||"

    def step(scope: Scope) -> bool:
        wrong: Wrong | None = None
        for each in steps:
            try:
                value = each(scope)
            except Wrong as problem:
                wrong = wrong or problem
                scope.spend(WRONG)
                continue
            if value is decides:
                return bool(decides)
            if value is not True and value is not False:
                wrong = wrong or misfit(sign, True, value)
        if wrong is not None:
            raise wrong
        return not decides

    return step


def _not(of: Step) -> Step:
    def step(scope: Scope) -> bool:
        value = of(scope)
        if value is True or value is False:
            return not value
        raise misfit("!", value)

    return step


def _chosen(steps: Sequence[Step]) -> Step:
    test, yes, no = steps

    def step(scope: Scope) -> Any:
        value = test(scope)
        if value is True or value is False:
            return yes(scope) if value else no(scope)
        raise misfit("?", value)

    return step


def _equal(one: Step, other: Step, *, wanted: bool) -> Step:
    return lambda scope: equal(one(scope), other(scope), scope) is wanted


def _compared(sign: str, one: Step, other: Step) -> Step:
    compare = _COMPARING[sign]

    def step(scope: Scope) -> bool:
        left, right = one(scope), other(scope)
        if type(left) is not type(right) or type(left) is not int:
            ordered(sign, left, right, scope)
        return bool(compare(left, right))

    return step


def _called(work: Callable[..., Any], steps: Sequence[Step]) -> Step:
    if len(steps) == 1:
        only = steps[0]
        return lambda scope: work(only(scope), scope)
    one, other = steps
    return lambda scope: work(one(scope), other(scope), scope)


def _searched(over: Step, body: Step, place: int, price: int, kind: str) -> Step:
    decides: bool = kind == "exists"

    def step(scope: Scope) -> bool:
        wrong: Wrong | None = None
        for each in items_of(over(scope), kind):
            scope.spend(price)
            try:
                scope.elements[place] = read(each, scope)
                value = body(scope)
            except Wrong as problem:
                wrong = wrong or problem
                scope.spend(WRONG)
                continue
            if value is decides:
                return bool(decides)
            if value is not True and value is not False:
                wrong = wrong or misfit(kind, value)
        if wrong is not None:
            raise wrong
        return not decides

    return step


def _found_once(over: Step, body: Step, place: int, price: int) -> Step:
    def step(scope: Scope) -> bool:
        found = 0
        for each in items_of(over(scope), "exists_one"):
            scope.spend(price)
            scope.elements[place] = read(each, scope)
            found += _truth(body(scope), "exists_one")
        return found == 1

    return step


def _mapped(over: Step, test: Step | None, body: Step | None, place: int, price: int, kind: str) -> Step:
    def step(scope: Scope) -> list[Any]:
        made: list[Any] = []
        for each in items_of(over(scope), kind):
            scope.spend(price)
            scope.elements[place] = read(each, scope)
            if test is None or _truth(test(scope), kind):
                scope.take(16)
                made.append(scope.elements[place] if body is None else body(scope))
        return made

    return step


def _truth(value: Any, kind: str) -> bool:
    if value is True or value is False:
        return bool(value)
    raise misfit(kind, value)
