"""What is kept of an agent of the OpenAI Agents SDK while it waits: its RunState, as JSON without secrets."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from agents import RunState
from agents._tool_invocation import tool_invocation_identity_and_scope

from assentry.core.action import Json

NO_FINGERPRINT = "0" * 64


def opened(state: RunState[Any, Any]) -> Any:
    """The state as it is kept. Arguments stand by their names, so that secrets among them are known as such.

    The application's own context is left out: every process has it from `attach`. So are the framework's fingerprints
    of calls, which would tell a short secret to whoever tries them all.
    """
    made = state.to_json(context_serializer=lambda _: {})
    for each in _parts(made):
        if isinstance(each.get("arguments"), str):
            with suppress(ValueError):
                read = json.loads(each["arguments"])
                each["arguments"] = read if isinstance(read, dict) else each["arguments"]
        for _, call in _ledger(each):
            call["fingerprint"] = NO_FINGERPRINT
        if "context_meta" in each:
            each.update(context=None, context_meta=None)
    return made


def closed(kept: Any, asked: Mapping[str, Json]) -> Any:
    """The state as the framework had it, with the arguments on record of what it waits for."""
    parts = list(_parts(kept))
    calls = {}
    for each in parts:
        if "arguments" in each:
            args = asked.get(str(each.get("call_id"))) or each["arguments"]
            each["arguments"] = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            if each.get("type") == "function_call":
                calls[each.get("call_id")] = each
    for each in parts:
        for name, call in _ledger(each):
            call["fingerprint"] = _fingerprint(calls.get(name), call)
    return kept


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _ledger(part: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The function calls that the framework knows again, by their ids, where this is its list of them."""
    found = part.get("tool_invocations")
    known = found.items() if isinstance(found, dict) else ()
    return [(name, call) for name, call in known if isinstance(call, dict) and call.get("type") == "function_call"]


def _fingerprint(raw: Any, call: Mapping[str, Any]) -> str:
    """What the framework knows this call by, as it stands here."""
    for role in (None, "handoff"):
        found = None if raw is None else tool_invocation_identity_and_scope(raw, invocation_role=role)
        if found is not None and found[2] == call["approval_scope"]:
            return found[3]
    return NO_FINGERPRINT
