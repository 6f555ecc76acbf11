"""What graphs ask people with `interrupt(...)`, and the answers that they expect: the shapes in use, and any other.

Nothing here touches a graph or a gate.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage

from assentry.adapters.wanted import Decided, Said, Wanted
from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.errors import InvalidArguments

OURS = "assentry"
"""The name under which an interrupt of our own says which request it waits for."""
_TEXTS = ("question", "message", "prompt", "query", "instruction", "task", "text", "title", "description", "action")
"""Where graphs put what they want to know."""
_CHOICES = ("choices", "options", "allowed_responses", "allowed_values")
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


def request_in(value: Any) -> str:
    """The request that an interrupt of our own waits for; empty for one of the graph's."""
    ours = value.get(OURS) if isinstance(value, Mapping) else None
    found = ours.get("request") if isinstance(ours, Mapping) else None
    return found if isinstance(found, str) else ""


def wanted(value: Any, schema: Any = None) -> tuple[Wanted, ...]:
    """What an interrupt asks for, one by one."""
    match value:
        case {"action_requests": [*actions], "review_configs": [*configs]}:
            return tuple(_action(each, configs) for each in actions)
        case {"type": "tool_approval", "name": str(name), "args": Mapping() as args}:
            return (_call(name, args, str(value.get("description") or ""), _decisions_in(schema)),)
        case [{"action_request": Mapping()}, *_] | {"action_request": Mapping()}:
            return tuple(_human(each) for each in (value if isinstance(value, list) else [value]))
    return (_question(value, schema),)


def answer(value: Any, said: tuple[Said, ...]) -> Any:
    """What the graph expects to hear, in its own shape."""
    match value:
        case {"action_requests": [*actions], "review_configs": [*_]}:
            return {"decisions": [_decision(each, one) for each, one in zip(actions, said, strict=True)]}
        case {"type": "tool_approval"}:
            return _decision(value, said[0])
        case [{"action_request": Mapping()}, *_] | {"action_request": Mapping()}:
            several = value if isinstance(value, list) else [value]
            return [_human_answer(each, one) for each, one in zip(several, said, strict=True)]
    return False if said[0].kind == "reject" else said[0].value


def as_json(value: Any) -> Json:
    """State as people can look at it and as it can be kept."""
    if isinstance(value, BaseMessage):
        return {"type": value.type, "content": as_json(value.content)}
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(each) for each in value]
    try:
        return restore(canonical(value.model_dump(mode="json") if hasattr(value, "model_dump") else value))
    except InvalidArguments:
        return str(value)


def _action(action: Any, configs: list[Any]) -> Wanted:
    if not isinstance(action, Mapping) or not isinstance(action.get("name"), str):
        raise InvalidArguments("an action request of the graph has no name; nobody can be asked about it")
    allowed = [each for each in configs if isinstance(each, Mapping) and each.get("action_name") == action["name"]]
    decisions = frozenset(allowed[0].get("allowed_decisions") or ()) if allowed else Wanted().decisions
    return _call(action["name"], action.get("args") or {}, str(action.get("description") or ""), decisions)


def _human(each: Any) -> Wanted:
    """The Agent Inbox's form."""
    asked = each.get("action_request") if isinstance(each, Mapping) else None
    if not isinstance(asked, Mapping) or not isinstance(asked.get("action"), str):
        raise InvalidArguments("an interrupt of the graph names no action; nobody can be asked about it")
    config = each.get("config") or {}
    names: dict[str, Decided] = {"allow_accept": "approve", "allow_edit": "edit", "allow_respond": "respond"}
    allowed = {decision for name, decision in names.items() if config.get(name)}
    args = asked.get("args") if isinstance(asked.get("args"), Mapping) else {"input": asked.get("args")}
    said, hears = str(each.get("description") or ""), bool(config.get("allow_respond"))
    return replace(_call(asked["action"], args, said, frozenset({*allowed, "reject"})), hears_words=hears)


def _call(name: str, args: Any, description: str, decisions: frozenset[Any]) -> Wanted:
    plain = restore(canonical(args))
    if decisions and decisions <= {"respond", "reject"}:
        # The person is the tool: what they say is its result.
        shown = tuple((str(key), each) for key, each in plain.items())
        return Wanted(name, plain, question=description or f"{name}?", shown=shown, decisions=decisions)
    return Wanted(name, plain, description, decisions)


def _decisions_in(schema: Any) -> frozenset[Decided]:
    """The decisions that a response schema has branches for."""
    text = json.dumps(schema) if isinstance(schema, Mapping) else ""
    found = frozenset(each for each in Wanted().decisions if f'"{each}"' in text)
    return found or Wanted().decisions


def _decision(action: Mapping[str, Any], said: Said) -> dict[str, Any]:
    match said.kind:
        case "approve":
            return {"type": "approve"}
        case "edit":
            return {"type": "edit", "edited_action": {"name": action["name"], "args": dict(said.args or {})}}
        case "respond":
            return {"type": "respond", "message": said.text}
    return {"type": "reject", "message": said.text}


def _human_answer(each: Mapping[str, Any], said: Said) -> dict[str, Any]:
    match said.kind:
        case "approve":
            return {"type": "accept", "args": None}
        case "edit":
            return {"type": "edit", "args": {"action": each["action_request"]["action"], "args": dict(said.args or {})}}
        case "respond":
            return {"type": "response", "args": said.text}
    config = each.get("config") or {}
    if config.get("allow_respond"):
        return {"type": "response", "args": said.text}
    return {"type": "ignore", "args": None}


def _question(value: Any, schema: Any) -> Wanted:
    plain = _plain(value)
    schema = dict(schema) if isinstance(schema, Mapping) else None
    if isinstance(plain, str):
        return Wanted(question=plain or "?", schema=schema, says_yes_or_no=_speaks(plain))
    if not isinstance(plain, dict):
        return Wanted(question="The graph asks for a person.", shown=(("payload", plain),), schema=schema)
    named = next((name for name in _TEXTS if isinstance(plain.get(name), str) and plain[name].strip()), "")
    text = plain[named] if named else "The graph asks for a person."
    offered: list[Any] = next((plain[name] for name in _CHOICES if isinstance(plain.get(name), list)), [])
    choices = tuple(offered) if offered and all(isinstance(each, str) for each in offered) else ()
    rest = tuple((name, each) for name, each in plain.items() if name != named and not (choices and each == offered))
    speaks = _speaks(canonical(plain))
    return Wanted(question=text, choices=() if schema else choices, schema=schema, shown=rest, says_yes_or_no=speaks)


def _speaks(text: str) -> bool:
    return _YES_OR_NO.search(text) is not None


def _plain(value: Any) -> Any:
    try:
        return restore(canonical(value))
    except InvalidArguments:
        return str(value)
