"""What agents elsewhere ask for in AG-UI, ADK and Microsoft's framework, and what they get back."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Interrupt, ResumeEntry

from assentry.adapters.protocols import answered
from assentry.errors import InvalidArguments, InvalidDecision
from tests.adapters.contract import House, house_of
from tests.adapters.test_langgraph import LangGraph

ADK = {
    "id": "adk-1", "name": "adk_request_confirmation",
    "args": {
        "originalFunctionCall": {"id": "f-1", "name": "delete_file", "args": {"path": "/srv/a"}},
        "toolConfirmation": {"hint": "Delete it?", "confirmed": False},
    },
}  # fmt: skip
MICROSOFT = {
    "type": "function_approval_request", "id": "ms-1",
    "function_call": {"call_id": "c-1", "name": "send_mail", "arguments": '{"to": "all@example.com"}'},
}  # fmt: skip


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(LangGraph(tmp_path / "g.db"), str(tmp_path / "assentry.db"), wait=True) as made:
        yield made
        await made.rest()


async def test_an_ag_ui_interrupt_about_a_call(house: House) -> None:
    metadata = {"toolCallName": "send_mail", "args": {"to": "all@example.com"}}
    interrupt = Interrupt(id="i-1", reason="tool_call", message="Send it?", tool_call_id="c-1", metadata=metadata)
    payload = interrupt.model_dump(mode="json", by_alias=True, exclude_none=True)
    gate = await house.opened()
    work = house.start(answered(gate, payload))
    (request,) = await house.waiting()
    assert (request.candidate.action.name, request.candidate.action.args) == ("send_mail", metadata["args"])
    assert request.ask.claims == {"why": "Send it?"}
    await house.modify(request, to="ann@example.com")
    entry = ResumeEntry.model_validate(await work)
    assert (entry.interrupt_id, entry.status) == ("i-1", "resolved")
    assert entry.payload == {"approved": True, "editedArgs": {"to": "ann@example.com"}}
    # The same payload again finds what was decided, and asks nobody.
    assert (await answered(gate, payload))["payload"] == entry.payload
    assert len(await house.requests()) == 1


async def test_an_ag_ui_interrupt_that_asks(house: House) -> None:
    schema = {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]}
    interrupt = Interrupt(id="i-2", reason="input_required", message="Which folder?", response_schema=schema)
    work = house.start(
        answered(await house.opened(), interrupt.model_dump(mode="json", by_alias=True, exclude_none=True))
    )
    (request,) = await house.waiting()
    with pytest.raises(InvalidDecision):
        await house.answer(request, {"other": 1})
    await house.answer(request, {"folder": "old"})
    assert await work == {"interruptId": "i-2", "status": "resolved", "payload": {"folder": "old"}}


async def test_an_ag_ui_interrupt_that_is_denied_is_cancelled(house: House) -> None:
    metadata = {"toolCallName": "delete_file", "args": {"path": "a"}}
    work = house.start(answered(await house.opened(), {"id": "i-3", "reason": "tool_call", "metadata": metadata}))
    await house.deny((await house.waiting())[0], "keep it")
    entry = ResumeEntry.model_validate(await work)
    assert (entry.status, entry.payload["approved"]) == ("cancelled", False)
    assert "keep it" in entry.payload["reason"]


async def test_an_adk_confirmation_can_be_given_or_not_and_changes_nothing(house: House) -> None:
    work = house.start(answered(await house.opened(), ADK))
    (request,) = await house.waiting()
    assert (request.candidate.action.name, request.candidate.action.args) == ("delete_file", {"path": "/srv/a"})
    assert request.ask.claims == {"why": "Delete it?"}
    with pytest.raises(InvalidDecision, match="the program that asks allows no changes"):
        await house.modify(request, path="/srv/b")
    await house.approve(request)
    told = {"hint": "Delete it?", "confirmed": True, "payload": None}
    assert await work == {"id": "adk-1", "name": "adk_request_confirmation", "response": told}
    work = house.start(answered(await house.opened(), {**ADK, "id": "adk-2"}))
    await house.deny((await house.waiting())[0], "keep it")
    response: Any = (await work)["response"]
    assert response["confirmed"] is False
    assert "keep it" in response["hint"]


async def test_a_microsoft_approval(house: House) -> None:
    work = house.start(answered(await house.opened(), MICROSOFT))
    (request,) = await house.waiting()
    await house.modify(request, to="ann@example.com")
    made: Any = await work
    assert (made["type"], made["id"], made["approved"]) == ("function_approval_response", "ms-1", True)
    assert made["function_call"]["call_id"] == "c-1"
    assert json.loads(made["function_call"]["arguments"]) == {"to": "ann@example.com"}
    work = house.start(answered(await house.opened(), {**MICROSOFT, "id": "ms-2"}))
    await house.deny((await house.waiting())[0], "not to all")
    made = await work
    assert (made["approved"], "not to all" in made["reason"]) == (False, True)
    assert made["function_call"] == MICROSOFT["function_call"]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"id": 3, "reason": "x"},
        {**ADK, "args": {}},
        {**MICROSOFT, "function_call": {"name": "x", "arguments": "no json"}},
        {**MICROSOFT, "function_call": {"name": "x", "arguments": "[]"}},
    ],
)
async def test_what_cannot_be_shown_to_anybody_is_refused(house: House, odd: Any) -> None:
    with pytest.raises(InvalidArguments):
        await answered(await house.opened(), odd)
    assert await house.requests() == []
