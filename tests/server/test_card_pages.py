"""What a card's forms take and what its pages say: nothing wider, and nobody's words, than what was asked."""

import html
import re
from typing import Any

import pytest

from assentry.core.action import Declaration, Reach
from assentry.core.authority import Principal
from assentry.core.briefing import brief
from assentry.core.request import State
from assentry.engine.policies import apply_policy
from assentry.server.looks.forms import form_for
from tests.server.reception import POLICY, Reception

PAGE = {"accept": "text/html"}
DIGITS = ("²", "٣", "1٣", "①", "9" * 5_000)


@pytest.mark.parametrize("name", ["*", "delete_*", "tidy_shel?", "tidy_[a-z]*"])
async def test_a_name_with_a_wildcard_is_not_allowed_in_advance_from_a_card(desk: Reception, name: str) -> None:
    asked, other = await desk.asked(name, shelf=1), await desk.asked(shelf=2)
    sent = await desk.browsing("operator")
    terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest}
    for last in ("similar", "similar/give"):
        answer = await desk.client.post(f"/r/{asked.code}/{last}", data=terms, headers={**sent, **PAGE})
        assert answer.status_code == 422, last
        assert "would be read as a pattern" in answer.text
    similar = {"seen_digest": asked.shown_digest, "limit": 5, "life": "1h"}
    refused = await desk.post(f"/requests/{asked.code}/allow-similar", similar, "operator", 422)
    assert "would be read as a pattern" in refused["detail"]
    assert (await desk.get("/grants?ended=true"))["grants"] == []
    assert {(await desk.now(each)).state for each in (asked, other)} == {State.PENDING}


@pytest.mark.parametrize("name", ["agent *", "sweep?r"])
async def test_nor_is_an_agent_whose_name_has_one(desk: Reception, name: str) -> None:
    asked = await desk.asked(agent=name, shelf=1)
    terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest}
    answer = await desk.client.post(
        f"/r/{asked.code}/similar/give", data=terms, headers={**await desk.browsing("operator"), **PAGE}
    )
    assert (answer.status_code, (await desk.get("/grants?ended=true"))["grants"]) == (422, [])
    assert (await desk.now(asked)).state is State.PENDING


async def test_a_plain_name_is_allowed_in_advance_from_a_card_and_only_that_name(desk: Reception) -> None:
    asked = await desk.asked(shelf=1)
    sent = await desk.browsing("operator")
    terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest}
    shown = await desk.client.post(f"/r/{asked.code}/similar", data=terms, headers=sent)
    assert shown.status_code == 200
    assert "For the next hour" in shown.text
    assert "up to risk level Risky" in shown.text
    assert (await desk.get("/grants"))["grants"] == [], "a preview gives nothing"
    given = await desk.client.post(f"/r/{asked.code}/similar/give", data=terms, headers=sent)
    assert given.status_code == 303
    (grant,) = (await desk.get("/grants"))["grants"]
    assert (grant["actions"], grant["agents"], grant["max_risk"]) == (["tidy_shelf"], ["sweeper"], "risky")
    await desk.gate._judgement.refresh()
    assert (await desk.carried_out("tidy_shelf", shelf=2)).candidate.verdict.grant == grant["id"]
    assert (await desk.asked("tidy_shelf_now", shelf=2)).state is State.PENDING


async def test_a_permission_is_made_of_the_request_as_it_was_on_the_card_and_of_no_later_one(desk: Reception) -> None:
    asked = await desk.asked(shelf=1)
    sent = {**await desk.browsing("operator"), **PAGE}
    terms = {"uses": "5", "hours": "1", "seen_digest": "0" * 64}
    shown = await desk.client.post(f"/r/{asked.code}/similar", data=terms, headers=sent)
    form = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', shown.text))
    given = await desk.client.post(f"/r/{asked.code}/similar/give", data=form, headers=sent)
    assert given.status_code == 409
    assert (await desk.now(asked)).state is State.PENDING
    assert (await desk.get("/grants?ended=true"))["grants"] == []


async def test_a_condition_that_cannot_be_read_is_told_before_anything_is_decided(desk: Reception) -> None:
    asked = await desk.asked(shelf=1)
    sent = {**await desk.browsing("operator"), **PAGE}
    terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest, "condition": "args.shelf <"}
    for last in ("similar", "similar/give"):
        answer = await desk.client.post(f"/r/{asked.code}/{last}", data=terms, headers=sent)
        assert answer.status_code == 422, last
    assert (await desk.now(asked)).state is State.PENDING
    assert (await desk.get("/grants?ended=true"))["grants"] == []


async def test_one_approval_of_two_gives_no_permission_by_page_or_api(desk: Reception) -> None:
    sent = await desk.browsing("operator")
    for way in ("page", "api"):
        asked = await desk.asked("merge_branch", branch=way)
        terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest}
        if way == "page":
            shown = await desk.client.post(f"/r/{asked.code}/similar", data=terms, headers=sent)
            assert "1 more person has to approve this request after you" in shown.text
            given = await desk.client.post(f"/r/{asked.code}/similar/give", data=terms, headers=sent)
            told = (await desk.client.get(given.headers["location"], headers=sent)).text
        else:
            similar = {"seen_digest": asked.shown_digest, "limit": 5, "life": "1h"}
            made = await desk.post(f"/requests/{asked.code}/allow-similar", similar, "operator")
            assert made["grant"] is None
            told = made["says"]
        assert "Your approval counts" in told
        assert "no permission was created" in told
        now = await desk.now(asked)
        assert (now.state, [vote.by for vote in now.votes]) == (State.PENDING, ["ann"])
        assert (await desk.get("/grants?ended=true"))["grants"] == []
        other = (await desk.client.get(f"/r/{asked.code}?told=counted", headers=await desk.browsing())).text
        assert "Your approval counts" not in other


async def test_the_last_approval_of_two_gives_it(desk: Reception) -> None:
    asked = await desk.asked("merge_branch", branch="main")
    seen = {"seen_digest": asked.shown_digest}
    await desk.post(f"/requests/{asked.code}/decision", {"word": "approve", **seen})
    made = await desk.post(f"/requests/{asked.code}/allow-similar", {**seen, "limit": 5, "life": "1h"}, "operator")
    assert (made["request"]["state"], made["grant"]["actions"]) == ("approved", ["merge_branch"])


async def test_what_spends_is_not_allowed_without_a_budget_and_only_in_its_currency(desk: Reception) -> None:
    sent = await desk.browsing("operator")
    for currency, others in ((None, ("BTC", "KWD")), ("EUR", ("BTC", None))):
        named = {"currency": currency} if currency else {}
        name = f"refund_{currency or 'points'}".lower()
        asked = await desk.asked(name, amount=5, **named)
        terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest}
        refused = await desk.client.post(f"/r/{asked.code}/similar/give", data=terms, headers=sent)
        assert refused.status_code == 422
        similar = {"seen_digest": asked.shown_digest, "limit": 5, "life": "1h"}
        path = f"/requests/{asked.code}/allow-similar"
        assert "set a total spending limit" in (await desk.post(path, similar, "operator", 422))["detail"]
        assert (await desk.now(asked)).state is State.PENDING
        made = await desk.post(path, {**similar, "budget": 250}, "operator")
        assert made["grant"]["currency"] == (currency or "")
        await desk.gate._judgement.refresh()
        for other in others:
            args = {"amount": 240, "currency": other} if other else {"amount": 240}
            assert (await desk.asked(name, **args)).state is State.PENDING, (currency, other)
        assert (await desk.carried_out(name, amount=240, **named)).candidate.verdict.grant == made["grant"]["id"]


@pytest.mark.parametrize("args", [{"amount": "5k EUR"}, {"amount_minor": 500}], ids=["unreadable", "not read"])
async def test_an_amount_that_could_not_be_read_wants_a_budget_as_well(desk: Reception, args: dict[str, Any]) -> None:
    declared = Declaration(reversible=True, reach=Reach.SERVICE, outside=True, money=True)
    proposal = await desk.gate.propose("credit", {"to": "ann", **args}, agent="sweeper", declared=declared)
    assert proposal.request is not None
    similar = {"seen_digest": proposal.request.shown_digest, "limit": 5, "life": "1h"}
    path = f"/requests/{proposal.request.code}/allow-similar"
    assert "set a total spending limit" in (await desk.post(path, similar, "operator", 422))["detail"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "this action spends money: set a total spending limit"),
        ({"budget": "much"}, "Total spending limit must be a number"),
        ({"budget": "250", "uses": "often"}, "Maximum uses must be a whole number from 1 to 1,000"),
        ({"budget": "250", "condition": "args.amount <"}, "condition"),
    ],
)
async def test_a_form_that_does_not_fit_comes_back_on_the_card_as_it_was_typed(
    desk: Reception, wrong: dict[str, str], says: str
) -> None:
    asked = await desk.asked("refund_order", amount=5, currency="EUR")
    sent = {**await desk.browsing("operator"), **PAGE}
    terms = {"uses": "7", "hours": "3", "seen_digest": asked.shown_digest, **wrong}
    for last in ("similar", "similar/give"):
        answer = await desk.client.post(f"/r/{asked.code}/{last}", data=terms, headers=sent)
        assert answer.status_code == 422
        complaint = re.search(r'<p class="complaint" role="alert">(.*?)</p>', answer.text)
        assert complaint is not None
        assert says in complaint.group(1)
        form = re.search(r'<details class="act" data-act="grant" open>(.*?)</details>', answer.text, re.DOTALL)
        assert form is not None
        for name in ("uses", "hours", *wrong):
            typed = terms[name].replace("<", "&lt;")
            assert re.search(rf'name="{name}"[^>]* value="{typed}"', form.group(1)), name


async def test_what_an_agent_says_was_asked_for_is_never_told_as_the_persons_request(desk: Reception) -> None:
    words = "pay Mallory in full"
    run = await desk.post("/agent/runs", {"goal": "pay", "original": f"Please {words} today"}, "agent", 201)
    call = {"action": "pay_invoice", "args": {"memo": words}, "run": run["id"], "run_fence": run["fence"], "key": "a"}
    theirs = await desk.post("/agent/proposals", call, "agent", 201)
    sent = await desk.browsing()
    shown = (await desk.client.get(f"/r/{theirs['code']}", headers=sent)).text
    assert words in shown
    assert "from your request" not in shown
    async with desk.gate.run("pay", agent="sweeper", original=f"Please {words} today"):
        ours = await desk.asked("pay_invoice", memo=words)
        assert "from your request" in (await desk.client.get(f"/r/{ours.code}", headers=sent)).text


@pytest.mark.parametrize("digits", DIGITS)
async def test_digits_of_other_scripts_in_a_form_are_no_number_and_no_error(desk: Reception, digits: str) -> None:
    asked = await desk.asked(shelf=1)
    sent = {**await desk.browsing("operator"), **PAGE}
    terms = {"uses": "5", "hours": "1", "seen_digest": asked.shown_digest}
    forms = {
        "decide": {"word": "choose", "option": digits, "seen_digest": asked.shown_digest},
        "similar": {**terms, "uses": digits},
        "similar/give": {**terms, "hours": digits},
    }
    for last, fields in forms.items():
        answer = await desk.client.post(f"/r/{asked.code}/{last}", data=fields, headers=sent)
        assert answer.status_code == 422, f"{last}: {answer.status_code}"
    assert (await desk.now(asked)).state is State.PENDING
    told = await desk.client.post("/settings/tokens", data={"agent": "sweeper", "days": digits}, headers=sent)
    assert told.status_code == 422


async def test_a_choice_in_digits_of_another_script_is_no_choice(desk: Reception) -> None:
    question = await desk.post("/agent/questions", {"text": "Which?", "choices": ["one", "two", "three"]}, "agent", 201)
    sent = {**await desk.browsing(), **PAGE}
    asked = await desk.get(f"/requests/{question['id']}")
    fields = {"word": "answer", "choice": "٣", "seen_digest": asked["request"]["digest"]}
    answer = await desk.client.post(f"/r/{asked['request']['code']}/decide", data=fields, headers=sent)
    assert answer.status_code == 422
    assert (await desk.get(f"/requests/{question['id']}"))["request"]["state"] == "pending"


async def test_a_template_with_digits_of_another_script_counts_nothing(desk: Reception) -> None:
    call = {"action": "tidy_shelf", "args": {"names": ["a", "b"]}, "says": "Tidy {names.²}{names.1}"}
    told = await desk.post("/agent/proposals", call, "agent", 201)
    assert (await desk.get(f"/requests/{told['id']}"))["request"]["title"] == "Tidy ?b"


async def test_a_change_is_shown_with_everything_that_would_run(desk: Reception) -> None:
    asked = await desk.asked(shelf=1, label="north wing", recipients=["eve@example.com"])
    sent = await desk.browsing()
    answer = await desk.client.post(f"/r/{asked.code}/preview", data={"arg:shelf": "7"}, headers=sent)
    assert answer.status_code == 200
    changes = re.search(r'<dl class="changes">(.*?)</dl>', answer.text, re.DOTALL)
    whole = re.search(r'<section class="args">(.*?)</section>', answer.text, re.DOTALL)
    assert changes is not None
    assert whole is not None
    assert "north wing" not in changes.group(1)
    for text in ("tidy_shelf", "shelf", "7", "label", "north wing", "recipients", "eve@example.com"):
        assert text in whole.group(1), text
    assert (await desk.now(asked)).candidate.args_text == asked.candidate.args_text


async def test_the_way_back_from_a_change_keeps_what_was_typed(desk: Reception) -> None:
    asked = await desk.asked(shelf=1, label="north wing", whole=True)
    sent = await desk.browsing()
    typed = {"arg:shelf": "7", "arg:label": 'south "wing"'}  # and the box `whole` is empty now
    seen = await desk.client.post(f"/r/{asked.code}/preview", data=typed, headers=sent)
    form = re.search(r'<form [^>]*data-decides="modify">(.*?)</form>', seen.text, re.DOTALL)
    assert form is not None
    hidden = dict(re.findall(r'name="([^"]*)" value="([^"]*)"', form[1]))
    fields = {name: html.unescape(value) for name, value in hidden.items()}
    back = await desk.client.post(f"/r/{asked.code}/edit", data=fields, headers={**sent, **PAGE})
    assert back.status_code == 200
    assert re.search(r'data-act="modify" open', back.text)
    assert 'value="7"' in back.text
    assert "south &#34;wing&#34;" in back.text
    box = re.search(r'<input type="checkbox" name="arg:whole"[^>]*>', back.text)
    assert box is not None
    assert "checked" not in box[0]
    assert (await desk.now(asked)).state is State.PENDING


async def test_no_argument_comes_from_what_was_heard_after_it_was_asked(desk: Reception) -> None:
    async with desk.gate.run("pay", agent="sweeper") as run:
        await run.observed("catalogue", "the shelf is shelf-early")
        asked = await desk.asked(first="shelf-early", second="shelf-later")
        await run.observed("tidy_shelf", "done: shelf-later and shelf-early")
    sent = await desk.browsing("operator")
    page = (await desk.client.get(f"/r/{asked.code}", headers={**sent, **PAGE})).text
    assert "from what catalogue returned" in page
    assert "from what tidy_shelf returned" not in page


async def test_a_decimal_is_changed_on_the_page_like_any_number(desk: Reception) -> None:
    call = {"action": "tidy_shelf", "args_text": '{"amount":{"$decimal":"12.50"},"shelf":1}'}
    told = await desk.post("/agent/proposals", call, "agent", 201)
    code, digest = told["code"], (await desk.get(f"/requests/{told['id']}"))["request"]["digest"]
    sent = await desk.browsing()
    seen = await desk.client.post(f"/r/{code}/preview", data={"arg:shelf": "7"}, headers=sent)
    assert seen.status_code == 200
    args = re.search(r'name="args" value="([^"]*)"', seen.text)
    assert args is not None
    fields = {"word": "modify", "args": html.unescape(args[1]), "seen_digest": digest}
    done = await desk.client.post(f"/r/{code}/decide", data=fields, headers=sent)
    assert done.status_code == 303, done.text
    after = await desk.premises.store.request("default", told["id"])
    assert after is not None
    assert after.candidate.args_text == '{"amount":{"$decimal":"12.50"},"shelf":7}'


async def test_two_names_that_are_written_alike_have_fields_of_their_own(desk: Reception) -> None:
    asked = await desk.asked(**{"é": "safe", '"\\u00e9"': "evil", "z": "1"})
    keys = [field.key for field in form_for(asked, brief(asked, asked.ask.created_at).args)]
    assert len(set(keys)) == 3


async def test_a_strangers_word_about_a_field_or_a_person_is_told_as_that(desk: Reception) -> None:
    schema = {"type": "object", "properties": {"shelf": {"description": "Assentry has checked this shelf."}}}
    call = {"action": "tidy_shelf", "args": {"shelf": 1}, "arguments": schema}
    told = await desk.post("/agent/proposals", call, "other agent", 201)
    sent = await desk.browsing()
    page = (await desk.client.get(f"/r/{told['code']}", headers={**sent, **PAGE})).text
    assert "the agent says: Assentry has checked this shelf." in page
    begun = await desk.post("/agent/runs", {"goal": "x", "original": "wipe it, says Carol"}, "other agent", 201)
    assert (begun["original"], begun["ignored"]) == ("", ["original"])


async def test_a_card_offers_no_change_where_the_program_allows_none_and_no_draft_that_nobody_would_write(
    desk: Reception,
) -> None:
    fixed = {"properties": {"shelf": {"const": 1}}, "x-assentry-no-drafts": True}
    sent = await desk.browsing("operator")
    for schema, offered in ((fixed, False), (None, True)):
        proposal = await desk.gate.propose(
            "tidy_shelf", {"shelf": 1}, schema=schema, insists="a person looks", why="Is it full?"
        )
        assert proposal.request is not None
        page = (await desk.client.get(f"/r/{proposal.request.code}", headers={**sent, **PAGE})).text
        assert "Is it full?" in page
        assert 'data-act="deny"' in page
        for act in ("modify", "revise"):
            assert (f'data-act="{act}"' in page) is offered, act


async def test_page_and_api_say_who_declared_what_and_what_does_not_count(desk: Reception) -> None:
    text = f"{POLICY}actions:\n  tidy_shelf: {{risk: safe, reversible: true, because: <b>shelves</b> are refilled}}\n"
    await apply_policy(desk.gate._store, "default", text, Principal("ann"))
    await desk.gate._judgement.refresh()
    asked = await desk.asked(shelf=1)
    declared = [
        "can be undone: yes, says the policy (<b>shelves</b> are refilled)",
        "risk level: risky, says the code; the policy (<b>shelves</b> are refilled) says safe, not counted",
    ]
    assert (await desk.get(f"/requests/{asked.code}"))["request"]["declared"] == declared
    page = await desk.client.get(f"/r/{asked.code}", headers={**await desk.browsing(), **PAGE})
    for sentence in declared:
        assert html.escape(sentence) in page.text
    assert "<b>shelves" not in page.text
    call = {"action": "tidy_shelf", "declared": {"risk": "risky"}}
    assert (await desk.post("/policy/explain", call, "operator"))["declared"] == declared
