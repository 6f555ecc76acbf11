"""Everything Assentry knows about one kind of action: schema, words, the way back, and the function if it is here."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from assentry.core.action import NOTHING_DECLARED, Action, Declaration, Fact, Json
from assentry.core.canonical import canonical
from assentry.core.classify import Profile, profile
from assentry.core.declared import Said
from assentry.core.secret_text import schema_without_secrets
from assentry.core.text import template_fields
from assentry.engine.sealing import no_secret
from assentry.engine.signature import Signature
from assentry.errors import GuardError

Changes = Mapping[str, Json] | Callable[[Mapping[str, Json]], Mapping[str, Json]]
Lookup = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """Something to offer: `change` of the arguments, or `instead` another action; neither runs nothing."""

    label: str
    consequence: str = ""
    change: Changes | None = None
    instead: str = ""


def option(label: str, consequence: str = "", change: Changes | None = None, *, instead: Any = None) -> OptionSpec:
    """An option for the reviewer.

    `change` is a mapping of argument changes, or a function from the arguments to them. With `instead` (a
    guarded function or its name), `change` gives that action's whole arguments. With neither, choosing the
    option runs nothing.
    """
    name = instead if isinstance(instead, str) else instead.name if instead is not None else ""
    return OptionSpec(label, consequence, change, name)


@dataclass(frozen=True, slots=True)
class Tool:
    """One kind of action, as its operator described it."""

    name: str
    profile: Profile
    description: str = ""
    schema: Mapping[str, Json] | None = None
    schema_text: str = ""
    declared: Declaration = NOTHING_DECLARED
    """What the code says of it. What the policy says is added where it is judged."""
    trusted: bool = True
    claimed: Declaration = NOTHING_DECLARED
    """What whoever offers it says of it: a server's hints, or an agent over HTTP that nobody vouches for."""
    says: str = ""
    options: tuple[OptionSpec, ...] | Callable[..., Any] = ()
    if_denied: str = ""
    needed_by: datetime | timedelta | None = None
    facts: Lookup | None = None
    refresh: Lookup | None = None
    """Looks up again what an approval depended on, where it is old by the time it runs."""
    secret: frozenset[str] = frozenset()
    function: Callable[..., Any] | None = None
    signature: Signature | None = None
    inject: Mapping[str, Any] = field(default_factory=dict)
    undo: Callable[..., Any] | None = None
    verify: Callable[..., Any] | None = None
    idempotent: bool = False
    detached: bool = False
    is_async: bool = False

    def call(self, values: Mapping[str, Any], injected: Mapping[str, Any]) -> Any:
        """What the function returned (a coroutine, if it is async), called with its own types."""
        if self.function is None or self.signature is None:
            raise GuardError(f"{self.name} has no function in this process; run it where it is guarded")
        given = {**self._provided(injected), **values}
        positional = [given.pop(name) for name in self.signature.positional_only if name in given]
        return self.function(*positional, **given)

    def _provided(self, injected: Mapping[str, Any]) -> dict[str, Any]:
        provided = dict(injected)
        for name, source in self.inject.items():
            if name not in provided:
                provided[name] = source() if callable(source) else source
        return provided


def tool(
    name: str,
    *,
    description: str = "",
    schema: Mapping[str, Json] | None = None,
    schema_text: str = "",
    declared: Declaration | None = None,
    trusted: bool = True,
    claimed: Declaration = NOTHING_DECLARED,
    says: str = "",
    **more: Any,
) -> Tool:
    """A `Tool` with its profile computed once; a template that reads unknown arguments is refused.

    So is a name that looks like a secret: it reaches the log and the audit export, from which nothing is removed.
    """
    no_secret("name of the action", name)
    declared = declared or Declaration()
    if schema is not None and (clean := schema_without_secrets(schema, more.get("secret", ()))) is not schema:
        schema, schema_text = clean, canonical(clean)
    if says and schema is not None:
        known = set(schema.get("properties", {})) | {"facts"}
        for field_name in template_fields(says):
            head = field_name.partition(".")[0]
            if head not in known:
                raise GuardError(
                    f"{name}: says= refers to {head!r}, which is not a parameter; available: {', '.join(sorted(known))}"
                )
    return Tool(
        name=name,
        profile=profile(name, description, schema, Said(declared, source=claimed, trusted=trusted)),
        description=description,
        schema=schema,
        schema_text=schema_text,
        declared=declared,
        trusted=trusted,
        claimed=claimed,
        says=says,
        **more,
    )


def tool_of(action: Action) -> Tool:
    """The tool of a call that is on record, as it was described when it was proposed."""
    return tool(
        action.name,
        description=action.description,
        schema=action.schema,
        schema_text=canonical(action.schema) if action.schema is not None else "",
        declared=action.declared,
        trusted=action.trusted,
        claimed=action.claimed,
    )


async def resolved(value: Any) -> Any:
    """`value`, awaited if it can be."""
    return await value if inspect.isawaitable(value) else value


def looked_up(found: Any) -> tuple[Fact, ...]:
    """What a `facts=` lookup returned, as facts: a mapping of name to value, or `Fact`s."""
    if isinstance(found, Mapping):
        return tuple(Fact(str(name), value, f"{name}: {value}", looked_up=True) for name, value in found.items())
    return tuple(Fact(fact.name, fact.value, fact.says, fact.hurts, looked_up=True) for fact in found or ())
