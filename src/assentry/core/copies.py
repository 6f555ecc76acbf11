"""Changed copies of frozen values. A request moves by being copied, so a copy should cost little.

`replace` is `dataclasses.replace` at half its price: fields are read in one call and written to their slots, without
an `__init__` that takes the long way round for frozen classes.
"""

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

_Plan = tuple[Callable[[Any], Sequence[Any]], dict[str, int], tuple[Callable[[Any, Any], None], ...]]
_plans: dict[type, _Plan | None] = {}


def _plan(kind: type) -> _Plan | None:
    """How to copy a `kind`; none if its fields are not simply slots that `__init__` fills."""
    fields = dataclasses.fields(kind)
    if len(fields) < 2 or hasattr(kind, "__post_init__") or not all(field.init for field in fields):
        return None
    names = [field.name for field in fields]
    slots = [vars(kind).get(name) for name in names]
    if not all(hasattr(slot, "__objclass__") for slot in slots):
        return None
    return attrgetter(*names), {name: at for at, name in enumerate(names)}, tuple(slot.__set__ for slot in slots)  # type: ignore[union-attr]


if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414  so that a type checker knows the fields
else:

    def replace(value, /, **changes):
        """`value` with these fields changed."""
        kind = type(value)
        if kind not in _plans:
            _plans[kind] = _plan(kind)
        plan = _plans[kind]
        if plan is None:
            return dataclasses.replace(value, **changes)
        read, places, writes = plan
        items = list(read(value))
        for name, item in changes.items():
            items[places[name]] = item
        made = object.__new__(kind)
        for write, item in zip(writes, items, strict=True):
            write(made, item)
        return made
