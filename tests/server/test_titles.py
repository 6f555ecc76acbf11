"""Pages: the list names every target, guesses are marked with their reason, and data keeps its letters."""

import re

import pytest

from assentry.core.action import Declaration
from assentry.core.authority import Principal
from assentry.core.request import Request
from assentry.engine.policies import apply_policy
from tests.server.reception import Reception

PAGE = {"accept": "text/html"}


async def page(desk: Reception, path: str) -> str:
    answer = await desk.client.get(path, headers={**await desk.browsing("operator"), **PAGE})
    assert answer.status_code == 200, answer.text
    return " ".join(answer.text.split())


async def asked(desk: Reception, action: str, declared: Declaration | None = None, **args: object) -> Request:
    proposal = await desk.gate.propose(action, args, agent="sweeper", declared=declared)
    assert proposal.request is not None
    return proposal.request


async def test_the_list_and_the_card_name_the_target(desk: Reception) -> None:
    first = await asked(desk, "cancel_order", order_id="A-17", reason="late")
    await asked(desk, "cancel_order", order_id="B-18", reason="late")
    listed = re.findall(r'<span class="what">(.*?)</span>', await page(desk, "/"))
    assert sorted(listed) == ["Cancel order A-17", "Cancel order B-18"]
    assert "<h1>Cancel order A-17</h1>" in await page(desk, f"/r/{first.code}")
    assert (await desk.get(f"/requests/{first.code}"))["request"]["title"] == "Cancel order A-17"


async def test_a_guess_is_marked_on_the_card_and_a_declared_answer_is_not(desk: Reception) -> None:
    guessed = await page(desk, f"/r/{(await asked(desk, 'abort_delivery', delivery_id='A')).code}")
    assert '<li class="hurts guess">probably cannot be undone</li>' in guessed
    assert "guess from the name or description of abort_delivery; nobody declared it" in guessed
    assert "The name says “abort”" in guessed
    partly = await asked(desk, "abort_delivery", Declaration(reversible=False), delivery_id="B")
    shown = await page(desk, f"/r/{partly.code}")
    assert '<li class="hurts">cannot be undone</li>' in shown
    assert '<li class=" guess">probably changes a service</li>' in shown
    answers = (await desk.get(f"/requests/{partly.code}"))["request"]["effect"]
    assert [(each["says"], each["basis"]) for each in answers] == [
        ("cannot be undone", "declared"), ("changes a service", "names"),
    ]  # fmt: skip


async def test_a_number_that_is_not_money_is_not_shown_as_money(desk: Reception) -> None:
    shown = await page(desk, f"/r/{(await asked(desk, 'send_report', total=4000)).code}")
    assert "costs money" not in shown
    assert "4,000.00" not in shown
    assert "<h1>Send report: amount 4,000</h1>" in shown


async def test_a_reason_on_the_card_keeps_the_letters_of_data(desk: Reception) -> None:
    policy = (
        'rules: [{name: theirs, actions: ["*"], gate: hard, because: "x@evil.org and delete_files are watched"}]\n'
        "people: {ann: {roles: [operator]}}\nself_review: allow\n"
    )
    store = desk.premises.store
    await apply_policy(store, "default", policy, Principal("ann", roles=("operator",)))
    await desk.gate._judgement.refresh()
    shown = await page(desk, f"/r/{(await asked(desk, 'cancel_order', order_id='x@evil.org')).code}")
    assert "<h1>Cancel order x@evil.org</h1>" in shown
    assert "<li>x@evil.org and delete_files are watched</li>" in shown
    assert "X@evil.org" not in shown


@pytest.mark.parametrize(("more", "said"), [(1, "once"), (5, "up to 5 times")])
async def test_a_permission_is_told_in_the_right_number(desk: Reception, more: int, said: str) -> None:
    request = await desk.asked(shelf=1)
    terms = {"uses": str(more), "hours": "1", "seen_digest": request.shown_digest}
    sent = {**await desk.browsing("operator"), **PAGE}
    shown = await desk.client.post(f"/r/{request.code}/similar", data=terms, headers=sent)
    assert "For the next hour, " in shown.text
    assert f" {said}" in shown.text


async def test_the_log_page_counts_one_entry_in_the_singular(desk: Reception) -> None:
    await desk.asked(shelf=1)
    shown = await page(desk, "/log")
    assert not re.search(r"\b1 (entries|signed checkpoints)\b", shown)
