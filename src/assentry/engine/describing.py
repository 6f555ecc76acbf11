"""A function as a tool: what its operator says of it, its own signature and words, and what would not work, told."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from assentry.core.action import Declaration, Reach, Risk
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
    try:
        return Declaration(
            reversible,
            Reach(reach) if isinstance(reach, str) else reach,
            outside,
            money,
            Risk(risk) if isinstance(risk, str) else risk,
        )
    except ValueError as problem:
        raise GuardError(f"{problem}; reach is one of {_words(Reach)}, risk one of {_words(Risk)}") from None


def _words(kind: Any) -> str:
    return ", ".join(str(member) for member in kind)
