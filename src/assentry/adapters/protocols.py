"""What agents elsewhere ask for in the protocols that they speak, and the answers that they expect.

AG-UI's interrupts, the confirmations of Google's ADK and the approvals of Microsoft's Agent Framework: each is a
mapping, as it comes over the wire. `await answered(gate, payload)` puts it on record, waits or parks, and gives back
the answer in the same protocol. It carries an id, so that the same payload finds its request again.
"""

from collections.abc import Mapping
from typing import Any

from assentry.adapters.wanted import Asker, Said, Wanted
from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.engine.gate import Gate
from assentry.errors import InvalidArguments

CONFIRMATION = "adk_request_confirmation"
"""What ADK calls the function whose call asks for a confirmation."""


async def answered(gate: Gate, payload: Mapping[str, Any]) -> dict[str, Json]:
    """The answer to what an agent asks for, in the protocol it asks in."""
    plain = restore(canonical(payload))
    match plain:
        case {"type": "function_approval_request", "id": str(key), "function_call": dict(call)}:
            wanted, answer = _microsoft(call), lambda said: _microsoft_answer(plain, said[0])
        case {"name": name, "id": str(key), "args": dict(args)} if name == CONFIRMATION:
            wanted, answer = _adk(args), lambda said: _adk_answer(plain, said[0])
        case {"id": str(key), "reason": str(reason)}:
            wanted, answer = _ag_ui(plain, reason), lambda said: _ag_ui_answer(plain, said[0])
        case _:
            raise InvalidArguments(
                "this is no AG-UI interrupt (id, reason), no adk_request_confirmation (name, id, args) and no "
                "function_approval_request (type, id, function_call)"
            )
    return restore(canonical(await Asker(gate).answered((wanted,), key, answer)))  # type: ignore[no-any-return]


# AG-UI: Interrupt{id, reason, message?, toolCallId?, responseSchema?, expiresAt?, metadata?} → ResumeEntry


def _ag_ui(interrupt: Mapping[str, Any], reason: str) -> Wanted:
    more = interrupt.get("metadata") or {}
    if isinstance(more.get("toolCallName"), str) and isinstance(more.get("args"), dict):
        return Wanted(more["toolCallName"], more["args"], str(interrupt.get("message") or reason))
    schema = interrupt.get("responseSchema")
    shown = tuple((str(name), value) for name, value in more.items())
    return Wanted(
        question=str(interrupt.get("message") or reason),
        schema=schema if isinstance(schema, dict) else None,
        shown=shown,
    )


def _ag_ui_answer(interrupt: Mapping[str, Any], said: Said) -> dict[str, Any]:
    entry: dict[str, Any] = {"interruptId": interrupt["id"]}
    match said.kind:
        case "reject":
            return {**entry, "status": "cancelled", "payload": {"approved": False, "reason": said.text}}
        case "approve":
            return {**entry, "status": "resolved", "payload": {"approved": True}}
        case "edit":
            return {**entry, "status": "resolved", "payload": {"approved": True, "editedArgs": dict(said.args or {})}}
    return {**entry, "status": "resolved", "payload": said.value}


# ADK: the call of adk_request_confirmation{originalFunctionCall, toolConfirmation} → its response


def _adk(args: Mapping[str, Any]) -> Wanted:
    call, confirmation = args.get("originalFunctionCall"), args.get("toolConfirmation") or {}
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise InvalidArguments("the confirmation names no originalFunctionCall; nobody can be asked about it")
    hint = confirmation.get("hint") if isinstance(confirmation, dict) else ""
    # A confirmation carries no other arguments, so nobody may be led to believe that a change would count.
    return Wanted(call["name"], call.get("args") or {}, str(hint or ""), frozenset({"approve", "reject"}))


def _adk_answer(call: Mapping[str, Any], said: Said) -> dict[str, Any]:
    hint = call["args"].get("toolConfirmation") or {}
    confirmed = said.kind == "approve"
    told = {"hint": str(hint.get("hint") or "") if confirmed else said.text, "confirmed": confirmed, "payload": None}
    return {"id": call["id"], "name": CONFIRMATION, "response": told}


# Microsoft: function_approval_request{id, function_call} → function_approval_response


def _microsoft(call: Mapping[str, Any]) -> Wanted:
    args = call.get("arguments")
    if isinstance(args, str):
        try:
            args = restore(args)
        except ValueError:
            raise InvalidArguments("the arguments of the function_call are no JSON") from None
    if not isinstance(call.get("name"), str) or not isinstance(args, dict):
        raise InvalidArguments("the function_call has no name or no arguments by name; nobody can be asked about it")
    return Wanted(call["name"], args)


def _microsoft_answer(request: Mapping[str, Any], said: Said) -> dict[str, Any]:
    call = dict(request["function_call"])
    if said.kind == "edit":
        changed = dict(said.args or {})
        call["arguments"] = canonical(changed) if isinstance(call.get("arguments"), str) else changed
    approved = said.kind in ("approve", "edit")
    made = {"type": "function_approval_response", "id": request["id"], "approved": approved, "function_call": call}
    return made if approved else {**made, "reason": said.text}
