"""A function as a tool: what its operator says of it, its own signature and words, and what would not work, told."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from assentry.core.action import Declaration, Reach, Risk
from assentry.core.text import shortened
from assentry.engine.signature import Signature, read_signature
from assentry.engine.tool import Lookup, OptionSpec, Tool, tool
from assentry.errors import GuardError


def described(
    function: Callable[..., Any],
    name: str,
    declared: Declaration,
    *,
    options: Iterable[OptionSpec] | Callable[..., Any],
    needed_by: datetime | timedelta | None,
    facts: Lookup | None,
    refresh: Lookup | bool,
    inject: Mapping[str, Any],
    detached: bool,
    **more: Any,
) -> Tool:
    """The tool that this function is, called `name` or as the function is; what cannot be guarded is refused."""
    _check_function(function)
    _check_given({
        "name": name, "options": options, "needed_by": needed_by, "facts": facts, "refresh": refresh, "inject": inject,
        "detached": detached, **more,
    })  # fmt: skip
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise GuardError(
            f"{function.__name__} is a generator: its body would run after it was permitted, bit by bit; "
            "guard a function that returns a list"
        )
    if refresh is True and facts is None:
        raise GuardError("refresh=True looks up the facts again, and there is no facts=; pass a function")
    if isinstance(needed_by, datetime) and needed_by.tzinfo is None:
        raise GuardError("needed_by has no time zone; pass one, such as datetime.now(UTC) + timedelta(hours=2)")
    signature = read_signature(function, inject=frozenset(inject))
    made = tool(
        name or function.__name__,
        description=inspect.getdoc(function) or "",
        schema=signature.schema,
        schema_text=signature.schema_text,
        declared=declared,
        options=options if callable(options) else tuple(options),
        needed_by=needed_by,
        facts=facts,
        refresh=facts if refresh is True else refresh or None,
        secret=signature.secret,
        function=function,
        signature=signature,
        inject=dict(inject),
        detached=detached,
        is_async=inspect.iscoroutinefunction(function),
        **more,
    )
    if detached:
        _check_a_worker_can_call(made.name, signature, inject)
    return made


def _check_a_worker_can_call(name: str, signature: Signature, inject: Mapping[str, Any]) -> None:
    missing = signature.injected - set(inject) - {"self", "cls"}
    if missing or {"self", "cls"} & signature.injected:
        raise GuardError(f"{name} is detached: a worker needs inject= for {', '.join(sorted(missing)) or 'self'}")


def declaration(
    reversible: bool | None,
    reach: Reach | str | None,
    outside: bool | None,
    money: bool | None,
    risk: Risk | str | None,
) -> Declaration:
    """The four answers as given; an unknown word is refused."""
    for name, flag in (("reversible", reversible), ("outside", outside), ("money", money)):
        if flag is not None and type(flag) is not bool:
            raise _wrong(name, flag, "True or False; leave it out where it is not known")
    return Declaration(reversible, _member("reach", reach, Reach), outside, money, _member("risk", risk, Risk))


Kind = TypeVar("Kind", bound=Enum)


def _member(name: str, value: object, kind: type[Kind]) -> Kind | None:
    if value is None or isinstance(value, kind):
        return value
    words = {str(member.value): member for member in kind}
    if isinstance(value, str) and value in words:
        return words[value]
    raise _wrong(name, value, f"one of {', '.join(words)}")


def check_patience(value: object) -> None:
    """`patience` can be waited for."""
    if value is not None and (type(value) not in (int, float) or not value >= 0):  # type: ignore[operator]
        raise _wrong("patience", value, "a number of seconds from 0, or None to wait as long as it takes")


_SHORTEST_AT_SERVER = timedelta(seconds=1)


def check_lease(lease: object, longest: timedelta | None = None) -> None:
    """`lease` is a duration in which a process can show that it lives."""
    if not isinstance(lease, timedelta) or lease <= timedelta(0):
        is_seconds = type(lease) in (int, float) and 0 < lease < timedelta.max.total_seconds()  # type: ignore[operator]
        shown = f"timedelta(seconds={lease.total_seconds():g})" if isinstance(lease, timedelta) else _shown(lease)
        such = f"timedelta(seconds={lease if is_seconds else 60})"
        raise GuardError(f"lease={shown}: lease must be a positive timedelta, such as {such}")
    if longest is not None and not _SHORTEST_AT_SERVER <= lease <= longest:
        raise GuardError(
            f"lease=timedelta(seconds={lease.total_seconds():g}): behind a server, lease must be between 1 second and "
            f"{longest.total_seconds() / 60:g} minutes, such as timedelta(seconds=60)"
        )


def no_such_argument(name: str, known: Iterable[str]) -> GuardError:
    """The error for an argument that `guard()` does not have, and where what it says belongs."""
    if name in _ELSEWHERE:
        return GuardError(f"guard() has no argument {name!r}: {_ELSEWHERE[name]}")
    known = sorted(known)
    near = get_close_matches(name, known, 1, 0.6)
    return GuardError(
        f"guard() has no argument {name!r}; {f'did you mean {near[0]}=?' if near else 'there are ' + ', '.join(known)}"
    )


_IN_POLICY = "is set by a rule in the policy file, under {}"
_BY_CALL = "belongs to a call; pass it as in delete_files.with_({})(...)"
_ELSEWHERE = {
    "reviewers": "who is asked " + _IN_POLICY.format("reviewers:"),
    "quorum": "how many must agree " + _IN_POLICY.format("quorum:"),
    "gate": "the gate " + _IN_POLICY.format("gate:"),
    "when": "a condition " + _IN_POLICY.format("when:"),
    "window": "the window of a soft gate " + _IN_POLICY.format("window:"),
    "because": "the reason " + _IN_POLICY.format("because:"),
    "ladder": "the ladder " + _IN_POLICY.format("ladder:"),
    "cost": "the cost " + _BY_CALL.format("cost=2.5"),
    "confidence": "the confidence " + _BY_CALL.format("confidence=0.8"),
    "why": "the agent's reason " + _BY_CALL.format('why="they are old"'),
    "goal": "the goal " + _BY_CALL.format('goal="tidy up"'),
    "agent": "the agent is named where the gate is opened, with assentry.open(agent=...)",
    "timeout": "how long a call waits is patience=, in seconds",
    "time": "how long a request waits for a person is limits.time in the policy file, or limit: of a rule",
}


def _wrong(name: str, value: object, expected: str) -> GuardError:
    return GuardError(f"guard({name}={_shown(value)}): {name} must be {expected}")


def _shown(value: object) -> str:
    """A value of the operator's own code, short and in one line."""
    if isinstance(value, str):
        shown = f'"{value}"' if '"' not in value else repr(value)
    elif value is None or isinstance(value, bool | int | float | list | tuple | dict | set):
        shown = repr(value)
    else:
        shown = f"a value of type {type(value).__name__}"
    shown = " ".join(shown.split())
    return shortened(shown, 60)


def _check_function(function: object) -> None:
    if isinstance(function, str):
        raise GuardError(f"guard({_shown(function)}): guard expects a function; for a name write guard(name=...)")
    if inspect.isclass(function):
        raise GuardError(f"guard expects a function, not the class {function.__name__}; guard its methods one by one")
    if not callable(function):
        raise GuardError(f"guard expects a function, not {_shown(function)}")


def _check_given(given: Mapping[str, Any]) -> None:
    """Every argument has the type that it is used as; the policy and people would meet the mistake much later."""
    for name, value in given.items():
        match name:
            case "name" | "says" | "if_denied" if not isinstance(value, str):
                raise _wrong(name, value, "text")
            case "idempotent" | "detached" if not isinstance(value, bool):
                raise _wrong(name, value, "True or False")
            case "facts" | "undo" | "verify" if value is not None and not callable(value):
                raise _wrong(name, value, "a function")
            case "refresh" if not (isinstance(value, bool) or value is None or callable(value)):
                raise _wrong(name, value, "True, or a function that looks again")
            case "needed_by" if not (value is None or isinstance(value, datetime | timedelta)):
                raise _wrong(name, value, "a datetime with a time zone, or a timedelta from the call on")
            case "needed_by" if isinstance(value, timedelta) and value <= timedelta(0):
                raise _wrong(name, value, "a timedelta that is longer than 0")
            case "inject" if not isinstance(value, Mapping):
                raise _wrong(name, value, "a mapping from parameter names to what they get")
            case "options" if not callable(value):
                if isinstance(value, str | OptionSpec) or not isinstance(value, Iterable):
                    raise _wrong(name, value, "a list of assentry.option(...), or a function that returns one")
                if isinstance(value, Sequence) and any(not isinstance(each, OptionSpec) for each in value):
                    odd = next(each for each in value if not isinstance(each, OptionSpec))
                    raise _wrong(name, [odd], "a list of assentry.option(...), or a function that returns one")
            case _:
                pass
