"""Tools of an agent that nobody trusts: listed over HTTP, vouched for in a browser or over the API."""

from typing import Any

import pytest

from assentry.core.request import Request, State
from assentry.core.vouching import UNKNOWN_TOOL, on_card
from tests.server.reception import Reception

TOOLS = {
    "tools": [
        {"name": "get_weather", "description": "Tells the weather <b>of</b> today.", "hints": {"title": "Weather"}},
        {"name": "list_files"},
        {"name": "pay_invoice", "arguments": {"type": "object"}, "effect": {"reach": "nothing", "money": False}},
    ]
}
SOURCE = "agent:stranger"
CALL = {"action": "get_weather", "description": "Tells the weather <b>of</b> today.", "hints": {"title": "Weather"}}


async def listed(desk: Reception) -> Request:
    told = await desk.post("/agent/tools", TOOLS, "other agent")
    assert [each["state"] for each in told["tools"]] == ["waiting"] * 3
    return await desk.card(SOURCE)


async def is_known(desk: Reception) -> bool:
    """Whether a call of the tool is judged by policy alone; what is proposed is withdrawn again."""
    await desk.premises.gate._judgement.refresh()  # type: ignore[union-attr]
    told = await desk.post("/agent/proposals", {**CALL, "args": {}}, "other agent", status=201)
    request = await desk.now(told["id"])
    await desk.post(f"/agent/proposals/{told['id']}/cancel", {}, "other agent")
    assert told["waits"]  # the policy of this place holds whatever a stranger calls a read
    return UNKNOWN_TOOL not in {each.name for each in request.candidate.verdict.triggers}


async def test_an_agent_lists_its_tools_and_an_operator_vouches_over_the_api(desk: Reception) -> None:
    card = await listed(desk)
    assert not await is_known(desk)
    told = await desk.get(f"/requests/{card.code}")
    assert (told["request"]["kind"], told["request"]["args"]["source"]) == ("tools", SOURCE)
    said = {"word": "answer", "answer": ["get_weather"], "seen_digest": card.shown_digest}
    refused = await desk.post(f"/requests/{card.code}/decision", said, "reviewer", 403)
    assert "operator" in refused["detail"]
    for who, status in (("other agent", 403), ("agent", 403)):
        await desk.post(f"/requests/{card.code}/decision", said, who, status)
    done = await desk.post(f"/requests/{card.code}/decision", said, "operator")
    assert (done["request"]["state"], done["request"]["kind"]) == ("answered", "tools")
    assert await is_known(desk)
    found = {each["name"]: each for each in (await desk.get("/tools"))["tools"]}
    assert [found[name]["state"] for name in ("get_weather", "list_files")] == ["vouched", "refused"]
    assert (found["get_weather"]["by"], found["get_weather"]["reading"]) == ("ann", "probably reads")
    again = await desk.post("/agent/tools", TOOLS, "other agent")
    assert [each["state"] for each in again["tools"]] == ["vouched", "refused", "refused"]


async def test_tools_are_vouched_for_and_revoked_without_a_card(desk: Reception) -> None:
    await listed(desk)
    said: dict[str, Any] = {"source": SOURCE, "word": "vouch", "tools": ["get_weather"]}
    for who in ("reviewer", "agent"):
        await desk.post("/tools", said, who, 403)
    made = await desk.post("/tools", said, "operator")
    assert [(each["name"], each["state"]) for each in made["tools"]] == [("get_weather", "vouched")]
    assert await is_known(desk)
    await desk.post("/tools", {**said, "word": "revoke"}, "operator")
    assert not await is_known(desk)
    await desk.post("/tools", {**said, "source": "agent:nobody"}, "operator", 404)
    await desk.post("/tools", {**said, "tools": ["get_x"]}, "operator", 404)
    assert (await desk.get(f"/tools?source={SOURCE}"))["tools"][0]["state"] == "revoked"


@pytest.mark.parametrize("chooses", ["some", "all", "none"])
async def test_a_person_checks_tools_on_the_card_in_a_browser(desk: Reception, chooses: str) -> None:
    card = await listed(desk)
    sent = await desk.browsing("operator")
    page = (await desk.client.get(f"/r/{card.code}", headers=sent)).text
    assert "Vouch for all 3" in page
    assert page.count('type="checkbox" name="tool.') == 3
    assert "checked" not in page.split('name="tool.1"')[1].split("</fieldset>")[0]
    assert "&lt;b&gt;of&lt;/b&gt;" in page
    assert "probably reads" in page
    digests = [each["digest"] for each in on_card(card)]
    form = {"word": "answer", "seen_digest": card.shown_digest}
    form |= {"some": {"tool.1": digests[0]}, "all": {"all": "yes"}, "none": {}}[chooses]
    answer = await desk.client.post(f"/r/{card.code}/decide", data=form, headers=sent)
    states = [each["state"] for each in (await desk.get("/tools"))["tools"]]
    if chooses == "none":
        assert answer.status_code == 422
        assert states == ["waiting"] * 3
        denied = {"word": "deny", "seen_digest": card.shown_digest, "reason": "not these"}
        await desk.client.post(f"/r/{card.code}/decide", data=denied, headers=sent)
        assert [each["state"] for each in (await desk.get("/tools"))["tools"]] == ["refused"] * 3
    else:
        assert states == (["vouched"] * 3 if chooses == "all" else ["vouched", "refused", "refused"])
        assert (await desk.now(card)).state is State.ANSWERED
    assert await is_known(desk) is (chooses != "none")


async def test_who_may_not_vouch_sees_the_card_without_a_form(desk: Reception) -> None:
    card = await listed(desk)
    page = (await desk.client.get(f"/r/{card.code}", headers=await desk.browsing("reviewer"))).text
    assert "get_weather" in page
    assert "You may not decide this" in page
    assert 'name="tool.1"' not in page


async def test_what_an_agent_is_told_beforehand_is_what_it_meets(desk: Reception) -> None:
    await listed(desk)
    foreseen = await desk.post("/agent/foreseen", {"calls": [CALL]}, "other agent")
    assert foreseen == {"gates": ["hard"]}
