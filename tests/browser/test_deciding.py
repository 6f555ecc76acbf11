"""Deciding in the browser, with a mouse: what is said there is what the agent gets and what runs."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Route, expect

import assentry
from assentry.core.authority import principal_named
from assentry.core.request import Review, State
from assentry.engine.identity import Identities
from assentry.ports import Filter
from tests.browser.house import PEOPLE, House
from tests.stage import BOSS

OPTIONS = (
    assentry.option("Only the old ones", "The newer stay.", {"files": ["old"], "root": "~"}),
    assentry.option("Cancel", "Nothing changes."),
)
SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "limit": {"type": "integer", "maximum": 100},
        "note": {"type": "string"},
        "loud": {"type": "boolean"},
    },
    "required": ["to", "limit"],
    "additionalProperties": False,
}


async def test_a_person_comes_in_through_a_link_and_approves(either: House) -> None:
    ran: list[Any] = []

    @either.gate.guard(reversible=False, reach="local", says="Delete {files.count} files")
    async def delete_files(files: list[str]) -> int:
        ran.append(files)
        return len(files)

    call = asyncio.create_task(delete_files(["a.tmp", "b.tmp"]))
    alice = await either.guest()
    await alice.sees("Delete 2 files", within="#queue")
    await alice.sees("Why you are asked", "Exactly this runs", "a.tmp", within="#card")
    await alice.pictured("approve")
    assert not ran
    await alice.page.get_by_role("button", name="Approve").click()
    assert await call == 2
    assert ran == [["a.tmp", "b.tmp"]]
    await alice.sees("Nothing waits for you")
    assert not alice.said


async def test_a_link_works_once(house: House) -> None:
    link = await house.link("alice")
    first, second = await house.context(), await house.context()
    page = await first.new_page()
    await page.goto(link)
    other = await second.new_page()
    await other.goto(link)
    await page.get_by_role("button", name="Come in").click()
    await page.wait_for_url(f"{house.url}/")
    await other.get_by_role("button", name="Come in").click()
    await expect(other.locator("body")).not_to_contain_text("Nothing waits for you")
    await other.goto(house.url)
    await expect(other).to_have_url(f"{house.url}/login?next=/")


async def test_deny_with_a_quick_reason(house: House) -> None:
    request = await house.asks()
    alice = await house.guest()
    await alice.at('[data-act="deny"] > summary').click()
    await alice.page.get_by_label("Too much at once").check()
    await alice.pictured("deny")
    await alice.at('[data-act="deny"] button').click()
    after = await house.in_state(request, State.DENIED)
    assert after.reason == "Too much at once"
    assert after.decided_by == "alice"


async def test_deny_in_own_words_and_stop_the_run(house: House) -> None:
    async def denied() -> None:
        async with house.gate.run("tidy up", host="", patience=0) as run:
            request = await house.asks(key="1")
            alice = await house.guest()
            await alice.shows(request)
            await alice.at('[data-act="deny"] > summary').click()
            await alice.page.get_by_label("In your words").fill("<b>not</b> these")
            await alice.page.get_by_label("and stop the whole run").check()
            await alice.at('[data-act="deny"] button').click()
            after = await house.in_state(request, State.DENIED)
            assert after.reason == "<b>not</b> these"
            await alice.opens(request)
            await alice.sees(run.code, within="#beside")

    with pytest.raises(assentry.RunStopped, match="alice"):
        await denied()


async def test_modify_keeps_what_was_typed_shows_the_difference_and_runs_the_new_bytes(house: House) -> None:
    ran: list[Any] = []

    @house.gate.guard(reversible=False, reach="local", says="Mail {to.count} people")
    async def mail(to: list[str], limit: int, note: str = "", loud: bool = False) -> str:
        ran.append((to, limit, note, loud))
        return "sent"

    call = asyncio.create_task(mail(["ann@example.com", "bo@example.com"], 10, "hello"))
    alice = await house.guest()
    await alice.at('[data-act="modify"] > summary').click()
    code = await alice.at("#card").get_attribute("data-code")
    assert code
    form = alice.at('[data-act="modify"] form')
    await form.locator('[name="arg:to"]').fill("ann@example.com")
    await form.locator('[name="arg:limit"]').fill("many")
    await form.locator('[name="arg:loud"]').check()
    await alice.pictured("modify")
    await form.get_by_role("button", name="Look at the change").click()
    await alice.sees("limit: this is not a number", within="#decide")
    await expect(form.locator('[name="arg:limit"]')).to_have_value("many")
    await expect(form.locator('[name="arg:to"]')).to_have_value("ann@example.com")
    await expect(form.locator('[name="arg:loud"]')).to_be_checked()
    await form.locator('[name="arg:limit"]').fill("5")
    await form.get_by_role("button", name="Look at the change").click()
    await alice.sees("Mail 1 person", within="h1")
    await expect(alice.at(".changes dt")).to_have_text(["limit", "loud", "to"])
    await alice.sees("bo@example.com", within=".changes dd:nth-of-type(3) .gone")
    await alice.pictured("preview")
    assert not ran
    await alice.previews()
    await alice.page.get_by_role("button", name="Let it run like this").click()
    assert await call == "sent"
    assert ran == [(["ann@example.com"], 5, "hello", True)]
    await alice.sees("Nothing for you to decide.", within="#card")  # the next one comes, and there is none
    await alice.opens(code)
    await alice.sees("Changed since it was asked", within="#card")


async def test_a_form_opened_with_the_mouse_has_the_focus_before_anything_can_be_typed(house: House) -> None:
    await house.asks("mail", {"to": ["a"], "limit": 3}, schema=SCHEMA)
    alice = await house.guest()
    await alice.at('[data-act="modify"] > summary').wait_for()
    entered = await alice.page.evaluate(
        """() => {
            const summary = document.querySelector('[data-act="modify"] > summary');
            summary.dispatchEvent(new PointerEvent("click", { bubbles: true, cancelable: true, pointerType: "mouse" }));
            return [summary.parentElement.open, document.activeElement.name];
        }"""
    )
    assert entered == [True, "arg:to"]
    await alice.at('[data-act="modify"] > summary').click()
    assert await alice.at('[data-act="modify"]').get_attribute("open") is None


async def test_who_types_before_the_page_is_awake_goes_on_typing_there(house: House) -> None:
    await house.asks("mail", {"to": ["a"], "limit": 3}, schema=SCHEMA)
    alice = await house.guest()
    await alice.at('[data-act="modify"] > summary').click()
    await alice.at('[name="arg:limit"]').fill("500")
    asleep = asyncio.Event()

    async def late(route: Route) -> None:
        await asleep.wait()
        await route.continue_()

    await alice.page.route("**/main.js*", late)
    await alice.page.get_by_role("button", name="Look at the change").click(no_wait_after=True)
    await expect(alice.at("#decide .complaint")).to_contain_text("limit")
    await alice.at('[name="arg:limit"]').focus()
    asleep.set()
    await alice.is_live()
    await expect(alice.at('[name="arg:limit"]')).to_be_focused()


async def test_arguments_that_do_not_fit_the_schema_are_complained_about(house: House) -> None:
    request = await house.asks("mail", {"to": ["a"], "limit": 3}, schema=SCHEMA)
    alice = await house.guest()
    await alice.at('[data-act="modify"] > summary').click()
    await alice.at('[name="arg:limit"]').fill("500")
    await alice.page.get_by_role("button", name="Look at the change").click()
    await expect(alice.at("#decide .complaint")).to_contain_text("limit")
    await expect(alice.at('[name="arg:limit"]')).to_have_value("500")
    assert (await house.now(request)).state is State.PENDING


async def test_what_a_form_cannot_carry_is_edited_as_json_and_stays_as_it_was(house: House) -> None:
    args = {"path": "a\r\nb\u202e", "odd\u202ename": True, "lines": ["a", " ", "b\nc"], "tail": "x\n", "n": 3}
    request = await house.asks("write_file", args)
    alice = await house.guest()
    await alice.at('[data-act="modify"] > summary').click()
    await expect(alice.at('[name="arg:path"]')).to_have_value(r'"a\r\nb\u202e"')
    await alice.at('[name="arg:n"]').fill("4")
    await alice.page.get_by_role("button", name="Look at the change").click()
    await expect(alice.at(".changes dt")).to_have_text(["n"])
    await alice.previews()
    await alice.page.get_by_role("button", name="Let it run like this").click()
    after = await house.in_state(request, State.APPROVED)
    assert after.candidate.args_text == (await house.asks("write_file", {**args, "n": 4})).candidate.args_text


async def test_an_option_is_chosen_and_exactly_its_bytes_are_approved(house: House) -> None:
    request = await house.asks(options=OPTIONS)
    alice = await house.guest()
    await alice.sees("What you can do", "Only the old ones", "The newer stay.", "Nothing runs.", within="#card")
    await expect(alice.at("#decide .approve")).to_have_count(0)
    await alice.at(".options details summary").first.click()
    await alice.sees("old", within=".options details")
    await alice.pictured("options")
    await alice.page.get_by_role("button", name="Only the old ones").click()
    after = await house.in_state(request, State.APPROVED)
    assert after.candidate.args_text == '{"files":["old"],"root":"~"}'
    assert after.word == "choose"


async def test_a_question_is_answered_by_choice_and_in_words(house: House) -> None:
    await house.wonders("Which colour?", choices=["red", "two\nlines"])
    alice = await house.guest()
    await alice.pictured("question")
    await alice.page.get_by_role("button", name="two").click()
    await alice.sees("Nothing waits for you")
    code = await house.wonders("How many?", schema={"type": "integer"}, key="2", run="r")
    await alice.shows(code)
    await alice.page.get_by_label("Your answer").fill("lots")
    await alice.page.get_by_role("button", name="Send the answer").click()
    await alice.sees("the answer", within="#decide .complaint")
    await expect(alice.page.get_by_label("Your answer")).to_have_value("lots")
    await alice.page.get_by_label("Your answer").fill("12")
    await alice.page.get_by_role("button", name="Send the answer").click()
    await alice.sees("Nothing waits for you")
    page = await house.gate._store.requests(house.gate.workspace, Filter((State.ANSWERED,)))
    assert {each.answer for each in page.requests} == {"two\nlines", 12}


async def test_it_is_sent_back_with_instructions(house: House) -> None:
    request = await house.asks()
    alice = await house.guest()
    await alice.at('[data-act="revise"] > summary').click()
    await alice.page.get_by_label("What should be different?").fill("only a.tmp")
    await alice.at('[data-act="revise"] button').click()
    after = await house.in_state(request, State.REVISED)
    assert after.reason == "only a.tmp"


async def test_what_is_critical_wants_its_target_typed_and_a_moment_to_pass(house: House) -> None:
    request = await house.pays()
    alice = await house.guest()
    await alice.at('[data-act="approve"] > summary').click()
    button = alice.at('[data-act="approve"] button')
    await expect(button).to_be_disabled()
    await alice.sees("Read it first", within='[data-act="approve"]')
    await alice.at('[name="confirm"]').fill("pay 12400")
    await expect(alice.at('[data-act="approve"] .wait')).to_have_text("Not yet what is to be typed: pay 12400.00")
    await expect(button).to_be_disabled()
    await alice.at('[name="confirm"]').fill("pay 12400.00")
    await expect(button).to_be_enabled()
    await alice.pictured("critical")
    await button.click()
    await house.in_state(request, State.APPROVED)


async def test_the_server_wants_the_target_too(house: House) -> None:
    request = await house.pays()
    alice = await house.guest(java_script_enabled=False)
    await alice.opens(request)
    await alice.at('[data-act="approve"] > summary').click()
    await alice.at('[name="confirm"]').fill("pay")
    await alice.at('[data-act="approve"] button').click()
    await alice.sees("type 'pay 12400.00' to confirm it", within="#decide")
    assert (await house.now(request)).state is State.PENDING


async def test_two_people_in_two_browsers_make_a_quorum(either: House) -> None:
    await either.policy(PEOPLE + "rules: [{name: two, actions: [delete_files], gate: hard, quorum: 2}]\n")
    request = await either.asks()
    alice, bob = await either.guest("alice"), await either.guest("bob")
    await alice.is_live()
    await bob.is_live()
    await alice.page.get_by_role("button", name="Approve").click()
    await bob.sees("1 of 2 approvals", "alice approved", within="#card")
    await bob.sees("1 of 2 approvals", within="#queue")
    await alice.opens(request)
    await alice.sees("You may not decide this", within="#decide")
    await alice.pictured("quorum")
    assert (await either.now(request)).state is State.PENDING
    await bob.page.get_by_role("button", name="Approve").click()
    await either.in_state(request, State.APPROVED)
    await alice.sees("approved", within="#card .due")


async def test_undo(house: House) -> None:
    content = {"a.txt": "old"}

    def put_back(done: assentry.Done) -> None:
        content[done.args["path"]] = done.result

    @house.gate.guard(reversible=True, reach="local", undo=put_back, says="Write {path}")
    async def write_file(path: str, text: str) -> str:
        before, content[path] = content[path], text
        return before

    await house.policy(PEOPLE + "rules: [{name: writes, actions: [write_file], gate: hard}]\n")
    async with house.gate.worker():
        call = asyncio.create_task(write_file("a.txt", "new"))
        alice = await house.guest()
        await alice.page.get_by_role("button", name="Approve").click()
        assert await call == "old"
        await alice.page.get_by_role("link", name="see it").click()
        await alice.page.get_by_role("button", name="Undo").click()
        await alice.sees("undone", within="#card .due")
    assert content == {"a.txt": "old"}


async def test_review_afterwards(house: House) -> None:
    await house.policy(PEOPLE + "rules: [{name: small, actions: ['update_*'], gate: watch, review: after}]\n")

    @house.gate.guard(reversible=True, reach="local", says="Update {name}")
    async def update_row(name: str) -> str:
        return name

    await update_row("first")
    await update_row("second")
    alice = await house.guest()
    await alice.page.get_by_role("link", name="Afterwards").click()
    await expect(alice.at("#queue .item")).to_have_count(2)
    await alice.pictured("afterwards")
    await alice.sees("Update second", within="#card h1")
    await alice.page.get_by_role("button", name="There is a problem").click()
    await alice.sees("flagged", within="#card")
    await alice.page.get_by_role("link", name="Afterwards").click()
    await expect(alice.at("#queue .item")).to_have_count(1)
    await alice.page.get_by_role("button", name="Fine").click()
    await alice.page.get_by_role("link", name="Afterwards").click()
    await alice.sees("Nothing here")
    found = await house.gate._store.requests(house.gate.workspace, Filter((State.DONE,)))
    assert {each.review for each in found.requests} == {Review.ACCEPTED, Review.FLAGGED}


async def test_what_is_folded_is_opened_before_it_is_approved(house: House) -> None:
    request = await house.asks(args={"files": [f"{n}.tmp" for n in range(40)], "script": "x\n" * 60})
    alice = await house.guest()
    approve = alice.at("#decide .approve")
    await expect(approve).to_be_disabled()
    await alice.sees("Open what is folded above", within="#decide")
    await alice.at("#card .args .fold > summary").first.click()
    await expect(approve).to_be_disabled()
    await alice.at("#card .args .fold > summary").last.click()
    await expect(approve).to_be_enabled()
    await alice.sees("39.tmp", within="#card .args")
    await approve.click()
    await house.in_state(request, State.APPROVED)


async def test_an_option_that_runs_something_long_is_opened_before_it_is_chosen(house: House) -> None:
    long = assentry.option("All", "Everything goes.", {"files": [f"{n}.tmp" for n in range(40)], "root": "~"})
    await house.asks(options=(long, OPTIONS[1]))
    alice = await house.guest()
    button = alice.page.get_by_role("button", name="Everything goes.")
    await expect(button).to_be_disabled()
    await alice.at(".options .exactly > summary").click()
    await alice.at(".options .fold > summary").click()
    await expect(button).to_be_enabled()


async def test_a_decision_on_what_changed_meanwhile_is_refused_and_says_so(house: House) -> None:
    request = await house.asks()
    alice = await house.guest()
    await alice.page.route("**/api/v1/events", lambda route: route.abort())
    await alice.opens(request)
    desk = (await house.server.premises.room("default")).desk
    bob = principal_named(desk.judgement.policy, "bob")
    await desk.inbox.deny(bob, request.id, "no")
    await alice.page.get_by_role("button", name="Approve").click()
    await alice.sees("bob", within="#toast")
    assert (await house.now(request)).state is State.DENIED


async def test_somebody_logs_in_with_a_password_and_is_led_to_the_card(house: House) -> None:
    await Identities(house.gate._store, house.gate.workspace).set_password(BOSS, "alice", "correct horse battery")
    request = await house.asks()
    page = await (await house.context()).new_page()
    await page.goto(f"{house.url}/r/{request.code}")
    await page.get_by_label("Name").fill("alice")
    await page.get_by_label("Password").fill("wrong horse battery")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_label("Name")).to_have_value("alice")
    await page.get_by_label("Password").fill("correct horse battery")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.locator("#card")).to_have_attribute("data-code", request.code)
