"""What an agent hides of its call, by calling it a secret, although it decides how dangerous the call is.

A secret that opens something (a password, a key) is nobody's business. Where, whom, how much, how many and what are:
hidden by the agent, they hold the call. What the operator declares secret is none of this.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from assentry.core import argument_kinds as kinds
from assentry.core.action import Json
from assentry.core.list_text import LONGEST_JSON, parsed
from assentry.core.names import words
from assentry.core.place_text import looks_like_path
from assentry.core.recipient_text import addresses_in, closed
from assentry.core.secret_text import is_secret_key, is_secret_name
from assentry.core.text import shortened, visible
from assentry.core.verdict import GateKind, Trigger
from assentry.engine.sealing import secret_everywhere
from assentry.engine.tool import Tool

_LONGEST = 320
"""A longer text with blanks in it is prose, and an address in it is no recipient."""
_MOST_SOUGHT = 100
_BEHIND = frozenset("list lists set array string str template prefix suffix pattern value values arg due raw".split())
"""Words behind the one that says what a field is for: `recipients_list`, `amount_due`."""
_NAMED = 5
"""So many of them are named."""

Place: TypeAlias = tuple[str, ...]
"""The names of the fields that lead to a value."""


def holding_what_hides(
    made: Tool, args: Mapping[str, Json], fired: tuple[Trigger, ...]
) -> tuple[Tool, tuple[Trigger, ...]]:
    """The tool of a call that an agent proposes, and the triggers: one more where it hides what decides."""
    hidden = dict.fromkeys(hidden_by_agent(made.secret, args))
    if not callable(made.options):
        for each in made.options:
            if isinstance(each.change, Mapping) and not each.instead:
                hidden |= dict.fromkeys(hidden_by_agent(made.secret, {**args, **each.change}))
    if not hidden:
        return made, fired
    names = [visible(shortened(".".join(place), 60), lines=False) for place in hidden]
    told = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
    says = f"the agent hides what decides how dangerous it is: {told}"
    hides = frozenset(place[0] for place in hidden)
    return replace(made, hides=hides), (*fired, Trigger("hidden", says, GateKind.HARD))


def hidden_by_agent(declared: Collection[str], args: Mapping[str, Json]) -> tuple[Place, ...]:
    """Where in `args` something is sealed that decides how dangerous the call is.

    The agent says that it is a secret: by what it declared, by the name of a field, or because the same text stands in
    such a field.
    """
    everywhere, shaped = secret_everywhere(args, declared)
    found: dict[Place, None] = {}
    waiting: list[tuple[Place, Json, bool, bool]] = [
        ((name,), value, name in declared or is_secret_name(name), False) for name, value in args.items()
    ]
    while waiting:
        place, value, is_sealed, within = waiting.pop()
        key = place[-1]
        decides_by_name = within or _decides(key)
        if isinstance(value, Mapping):
            if len(everywhere) > _MOST_SOUGHT or any(text in name for name in value for text in everywhere):
                found[place] = None
            for name, inner in value.items():
                waiting.append(
                    ((*place, name), inner, is_sealed or is_secret_name(name), is_sealed and decides_by_name)
                )
        elif isinstance(value, list | tuple):
            waiting.extend((place, inner, is_sealed, within) for inner in value)
        elif value is None or isinstance(value, bool) or value == "":
            continue
        elif isinstance(value, str):
            if is_sealed or is_secret_key(key, value):
                is_hidden = decides_by_name or _leads_somewhere(key, value) or _holds_what_decides(value)
            else:
                is_hidden = decides_by_name and _is_hidden_in(key, value, everywhere, shaped)
            if is_hidden:
                found[place] = None
        elif is_sealed and decides_by_name:
            found[place] = None
    return tuple(sorted(found))


def _decides(key: str) -> bool:
    """What stands in a field of this name decides how dangerous a call is."""
    kind = kinds.of(key)
    if kind & (kinds.DECIDES | kinds.SECRET):
        return bool(kind & kinds.DECIDES)
    *parts, last = words(key) or ("",)
    return last in _BEHIND and bool(kinds.of("_".join(parts)) & kinds.DECIDES)


def _is_hidden_in(key: str, value: str, everywhere: Collection[str], shaped: Collection[str]) -> bool:
    """Something is sealed in `value` that need not be a password. Of very many, any may be."""
    if len(everywhere) > _MOST_SOUGHT or any(text in value for text in everywhere):
        return True
    return any(text in value and not _is_userinfo(text) and _leads_somewhere(key, text) for text in shaped)


def _is_userinfo(text: str) -> bool:
    """The name and the password of a web address; where it leads stands behind them, in sight."""
    return text.endswith("@") and "://" in text


def _leads_somewhere(key: str, value: str) -> bool:
    """The value is a path, a link or an address, whatever its field is called. Prose may hold some, and is none."""
    text = value.strip()
    if "\n" in text or (" " in text and (len(text) > _LONGEST or kinds.of(key) & kinds.PROSE)):
        return False
    return "://" in text or looks_like_path(text) or bool(addresses_in(closed(text)))


def _holds_what_decides(value: str) -> bool:
    """The text is an object or a list, written as JSON, that holds what decides."""
    text = value.strip()
    if text[:1] not in {"[", "{"}:
        return False
    inner = parsed(text)
    return len(text) > LONGEST_JSON if inner is None else bool(hidden_by_agent(("value",), {"value": inner}))
