"""Everything by keyboard: no mouse is touched after the door."""

import asyncio
from typing import Any

from playwright.async_api import expect

import assentry
from assentry.core.canonical import canonical
from assentry.core.request import State
from assentry.ports import Filter
from tests.browser.house import PEOPLE, House
from tests.stage import PAID, until

OPTIONS = (
    assentry.option("Only the old ones", "The newer stay.", {"files": ["old"], "root": "~"}),
    assentry.option("Cancel", "Nothing changes."),
)


async def test_forty_decisions_in_a_row(house: House) -> None:
    """Here: five. Each decision brings the next card by itself."""
    requests = [await house.asks(args={"files": [f"{n}.tmp"]}) for n in range(5)]
    alice = await house.guest()
    for number, request in enumerate(requests):
        await alice.shows(request)
        if number == 2:
            await alice.press("d")
            await alice.page.keyboard.type("not this one")
            await alice.press("Tab", "Enter")
        else:
            await alice.press("a")
    await alice.sees("Nothing waits for you")
    states = [(await house.now(each)).state for each in requests]
    assert states == [State.APPROVED, State.APPROVED, State.DENIED, State.APPROVED, State.APPROVED]
    assert (await house.now(requests[2])).reason == "not this one"


async def test_moving_searching_sorting_in_and_help(house: House) -> None:
    first, second, third = [await house.asks("delete_files", {"files": [name]}) for name in ("one", "two", "three")]
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("j")
    await alice.shows(second)
    await alice.press("j")
    await alice.shows(third)
    await alice.press("j")
    await alice.shows(third)
    await alice.press("k")
    await alice.shows(second)
    await expect(alice.at("#queue [aria-current]")).to_have_attribute("data-code", second.code)
    await alice.press("Enter")
    await expect(alice.at("#card")).to_be_focused()
    await alice.press("?")
    await expect(alice.at("#help")).to_be_visible()
    await alice.press("a")
    assert (await house.now(second)).state is State.PENDING
    await alice.press("Escape")
    await expect(alice.at("#help")).to_be_hidden()
    await alice.is_live()
    late = await house.asks("delete_files", {"files": ["four"]})
    await alice.sees("1 new at the end", within="#news")
    await alice.press(".")
    await expect(alice.at("#news")).to_have_text("")
    await expect(alice.at(f'#queue [data-code="{late.code}"]')).to_be_visible()
    await alice.press("/")
    await expect(alice.at("#search")).to_be_focused()
    await alice.page.keyboard.type("three")
    await alice.press("Enter")
    await expect(alice.at("#queue .item")).to_have_count(1)
    await alice.shows(third)


async def test_options_questions_and_folds(house: House) -> None:
    chosen = await house.asks(options=OPTIONS)
    alice = await house.guest()
    await alice.shows(chosen)
    await alice.press("1")
    await house.in_state(chosen, State.APPROVED)
    folded = await house.asks(args={"files": [f"{n}.tmp" for n in range(40)]})
    await alice.shows(folded)
    await expect(alice.at("#decide .approve")).to_be_disabled()
    await alice.press("a")
    await alice.sees("Press a again", within="#toast")
    await expect(alice.at("#decide .approve")).to_be_enabled()
    assert (await house.now(folded)).state is State.PENDING
    await alice.shows(folded)
    await alice.press("a")
    await house.in_state(folded, State.APPROVED)
    code = await house.wonders("Which colour?", choices=["red", "green"])
    await alice.shows(code)
    await alice.press("2")
    await alice.sees("Nothing waits for you")
    code = await house.wonders("What name?", run="r", key="2")
    await alice.shows(code)
    await alice.press("a")
    await alice.page.keyboard.type("Ada")
    await alice.press("Tab", "Enter")
    await alice.sees("Nothing waits for you")
    found = await house.gate._store.requests(house.gate.workspace, Filter((State.ANSWERED,)))
    assert {each.answer for each in found.requests} == {"green", "Ada"}


async def test_a_number_opens_a_folded_option_and_chooses_it_the_second_time(house: House) -> None:
    many = {"files": [f"{n}.tmp" for n in range(40)]}
    request = await house.asks(args=many, options=(assentry.option("All of them", "Gone.", many), *OPTIONS))
    alice = await house.guest()
    await alice.shows(request)
    await expect(alice.at('[data-key="1"]')).to_be_disabled()
    await alice.press("1")
    await alice.sees("Press 1 again", within="#toast")
    await alice.sees("39.tmp", within=".options")
    await expect(alice.at('[data-key="1"]')).to_be_enabled()
    await alice.press("1")
    assert (await house.now(request)).state is State.PENDING
    await alice.shows(request)
    await alice.press("1")
    assert (await house.in_state(request, State.APPROVED)).candidate.args_text == canonical(many)


async def test_a_key_meant_for_the_last_card_does_not_decide_the_next(house: House) -> None:
    first, second = [await house.asks(args={"files": [name]}) for name in ("one", "two")]
    alice = await house.guest()
    await alice.shows(first)
    # Every key within a blink after the second card is there.
    await alice.page.evaluate("""() => new MutationObserver(() => {
        const card = document.querySelector("#card");
        if (card.inert || card.dataset.pressed) return;
        card.dataset.pressed = "yes";
        dispatchEvent(new KeyboardEvent("keydown", { key: "a" }));
    }).observe(document.querySelector("main"), { childList: true })""")
    await alice.press("a")
    await alice.sees("only just come", within="#toast")
    await alice.shows(second)
    assert (await house.now(first)).state is State.APPROVED
    assert (await house.now(second)).state is State.PENDING
    await alice.press("a")
    await house.in_state(second, State.APPROVED)


async def test_a_second_click_does_not_decide_the_card_that_came_under_it(house: House) -> None:
    first, second = [await house.asks(args={"files": [name]}) for name in ("one", "two")]
    alice = await house.guest()
    await alice.shows(first)
    box = await alice.at("#decide button.approve").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    await alice.page.mouse.click(x, y)
    await expect(alice.at(f'#card[data-code="{second.code}"]')).to_be_visible()
    await alice.page.mouse.click(x, y)
    await alice.sees("only just come", within="#toast")
    await alice.shows(second)
    assert (await house.now(second)).state is State.PENDING
    await alice.page.mouse.click(x, y)
    await house.in_state(second, State.APPROVED)


async def test_a_card_that_arrives_by_itself_takes_no_key_at_once(house: House) -> None:
    alice = await house.guest()
    await alice.sees("Nothing waits for you")
    await alice.is_live()
    request = await house.asks(args={"files": ["unseen"]})
    await alice.page.wait_for_selector(f'#card[data-code="{request.code}"]')
    await alice.press("a")
    await alice.sees("only just come", within="#toast")
    assert (await house.now(request)).state is State.PENDING


async def test_what_was_typed_to_confirm_one_request_confirms_no_other(house: House) -> None:
    first = await house.pays(agent="cleanup")
    other = await house.asks(args={"files": ["one"]})
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("a")
    await alice.page.keyboard.type("pay 12400.00")
    await alice.press("Escape", "j")
    await alice.shows(other)
    await alice.press("k")
    await alice.shows(first)
    await expect(alice.at('[data-act="approve"] [name="confirm"]')).to_have_value("")


async def test_what_was_begun_on_a_card_is_there_again(house: House) -> None:
    first, second = [await house.asks(args={"files": [name]}) for name in ("one", "two")]
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("d")
    await alice.page.keyboard.type("we still need")
    await alice.press("Escape", "j")
    await alice.shows(second)
    await alice.press("k")
    await alice.shows(first)
    await expect(alice.at('[name="reason"]')).to_have_value("we still need")
    await alice.at('[name="reason"]').focus()
    await alice.press("End")
    await alice.page.keyboard.type(" it")
    await alice.press("Control+Enter")
    assert (await house.in_state(first, State.DENIED)).reason == "we still need it"
    await alice.shows(second)
    await expect(alice.at('[name="reason"]')).to_have_value("")


async def test_kinds_of_requests_are_filtered(house: House) -> None:
    request = await house.asks()
    code = await house.wonders("Which colour?", choices=["red", "green"])
    alice = await house.guest()
    await alice.shows(request)
    await alice.at(".more-filters summary").click()
    await alice.at('[name="kind"]').select_option("ask")
    await alice.at(".more-filters button").click()
    await alice.shows(code)
    await expect(alice.at("#queue .item")).to_have_count(1)
    await expect(alice.at('[name="kind"]')).to_have_value("ask")


async def test_modify_and_send_back(house: House) -> None:
    request = await house.asks(args={"path": "/tmp/a"})
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("m")
    await expect(alice.at('[name="arg:path"]')).to_be_focused()
    await alice.press("Control+a")
    await alice.page.keyboard.type("/tmp/b")
    await alice.press("Enter")
    await alice.sees("/tmp/b", within=".changes .added")
    await alice.previews()
    await alice.page.get_by_role("button", name="Let it run like this").focus()
    await alice.press("Enter")
    after = await house.in_state(request, State.APPROVED)
    assert after.candidate.args_text == '{"path":"/tmp/b"}'
    await alice.sees("Nothing for you to decide", within="#card")
    back = await house.asks(args={"path": "/tmp/c"})
    await alice.opens(back)
    await alice.press("r")
    await alice.page.keyboard.type("another place")
    await alice.press("Tab", "Enter")
    assert (await house.in_state(back, State.REVISED)).reason == "another place"


async def test_what_is_critical(house: House) -> None:
    request = await house.pays()
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("a")
    await alice.page.keyboard.type("pay 12400.00")
    await expect(alice.at('[data-act="approve"] button')).to_be_enabled()
    await alice.press("Enter")
    await house.in_state(request, State.APPROVED)


async def test_the_key_that_sends_a_form_never_goes_around_its_button(house: House) -> None:
    request = await house.pays(why="x" * 4000, agent="payer")
    folded = await house.asks("pay", {"to": [f"p{n}" for n in range(60)], "amount": 12400.0, "currency": "EUR"},
                              declared=PAID, says="Pay many")  # fmt: skip
    alice = await house.guest()
    await alice.opens(folded)
    await alice.press("a")
    phrase = await alice.at("#decide form[data-phrase]").get_attribute("data-phrase")
    await alice.page.keyboard.type(phrase or "")
    await expect(alice.at('[data-act="approve"] .wait')).to_have_text("Open what is folded first")
    await expect(alice.at('[data-act="approve"] button')).to_be_disabled()
    await alice.press("Control+Enter")
    await alice.sees("Open what is folded first", within="#decide")
    await alice.opens(request)
    await alice.press("a")
    await alice.page.keyboard.type("pay 12400.00")
    await expect(alice.at('[data-act="approve"] button')).to_be_disabled()
    await alice.press("Control+Enter")
    assert (await house.now(folded)).state is State.PENDING
    assert (await house.now(request)).state is State.PENDING
    await expect(alice.at('[data-act="approve"] button')).to_be_enabled()
    await alice.press("Control+Enter")
    await house.in_state(request, State.APPROVED)
    assert (await house.now(folded)).state is State.PENDING


async def test_the_key_that_sends_a_form_takes_the_choice_that_has_the_focus(house: House) -> None:
    code = await house.wonders("Which colour?", choices=["red", "green"])
    alice = await house.guest()
    await alice.shows(code)
    await alice.at('[data-key="2"]').focus()
    await alice.press("Control+Enter")
    await alice.page.goto(f"{house.url}/stop")
    await alice.page.get_by_label("Why").first.fill("a look")
    await alice.press("Control+Enter")
    found = await house.gate._store.requests(house.gate.workspace, Filter())
    assert {each.answer for each in found.requests} <= {None, "green"}
    assert await (await house.server.premises.room("default")).oversight.switches() == ()


async def test_undo_and_review(house: House) -> None:
    content: dict[str, Any] = {"a": "old"}

    def put_back(done: assentry.Done) -> None:
        content[done.args["path"]] = done.result

    @house.gate.guard(reversible=True, reach="local", undo=put_back, says="Write {path}")
    async def update_file(path: str, text: str) -> str:
        before, content[path] = content[path], text
        return before

    await house.policy(PEOPLE + "rules: [{name: small, actions: ['update_*'], gate: watch, review: after}]\n")
    async with house.gate.worker():
        await update_file("a", "new")
        await update_file("a", "newer")
        alice = await house.guest()
        await alice.page.goto(f"{house.url}/?tab=review")
        await alice.is_live()
        await alice.press("a")
        await alice.sees("accepted it", within="#card")
        await alice.is_live()
        await alice.press("u")
        await alice.sees("undone", within="#card .due")
    assert content == {"a": "new"}


async def test_no_key_decides_while_somebody_types_or_holds_it_down(house: House) -> None:
    request = await house.asks()
    other = await house.asks(args={"files": ["other"]})
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("/")
    await alice.page.keyboard.type("aaad")
    await alice.press("Escape")
    assert (await house.now(request)).state is State.PENDING
    await alice.page.keyboard.down("a")
    await alice.page.keyboard.down("a")
    await house.in_state(request, State.APPROVED)
    await alice.shows(other)
    for _ in range(5):
        await alice.page.keyboard.down("a")
    await alice.page.keyboard.up("a")
    assert (await house.now(other)).state is State.PENDING


async def test_a_decision_taken_twice_in_haste_is_taken_once(house: House) -> None:
    first, second = await house.asks(args={"files": ["1"]}), await house.asks(args={"files": ["2"]})
    alice = await house.guest()
    await alice.shows(first)
    await asyncio.gather(alice.press("a"), alice.press("a"))
    await house.in_state(first, State.APPROVED)
    await alice.shows(second)
    assert (await house.now(second)).state is State.PENDING

    async def is_quiet() -> bool:
        return await alice.at("#decide .approve").is_enabled()

    await until(is_quiet)


async def test_a_line_is_typed_over_and_longer_text_goes_on_at_its_end(house: House) -> None:
    request = await house.asks(args={"path": "/tmp/a"})
    other = await house.asks(args={"path": "/tmp/b"})
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("m")
    await alice.page.keyboard.type("/tmp/z")
    await expect(alice.at('[name="arg:path"]')).to_have_value("/tmp/z")
    await alice.press("Escape", "d")
    await alice.page.keyboard.type("we still")
    await alice.press("Escape", "j")
    await alice.shows(other)
    await alice.press("k")
    await alice.shows(request)
    await alice.press("d")
    await alice.page.keyboard.type(" need it")
    await expect(alice.at('[name="reason"]')).to_have_value("we still need it")


async def test_escape_in_the_search_leaves_a_form_that_is_open_as_it_is(house: House) -> None:
    request = await house.asks()
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("d")
    await alice.page.keyboard.type("we still need it")
    await alice.at("#search").click()
    await alice.press("Escape")
    await expect(alice.at("#search")).not_to_be_focused()
    await expect(alice.at('[name="reason"]')).to_be_visible()
    await alice.press("Escape")
    await expect(alice.at('[name="reason"]')).to_be_hidden()
    await expect(alice.at('[data-act="deny"] > summary')).to_be_focused()


async def test_the_focus_is_on_the_card_that_comes_after_a_decision(house: House) -> None:
    first, second, third = [await house.asks(args={"files": [name]}) for name in ("one", "two", "three")]
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("d")
    await alice.page.keyboard.type("no")
    await alice.press("Tab", "Enter")
    await alice.shows(second)
    await expect(alice.at("#card")).to_be_focused()
    await alice.at("#search").focus()
    await alice.at("#decide button.approve").dispatch_event("click")
    await alice.shows(third)
    await expect(alice.at("#search")).to_be_focused()


async def test_what_is_wrong_with_a_form_leaves_the_focus_where_it_was(house: House) -> None:
    request = await house.asks()
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("r")
    await alice.page.keyboard.type("   ")
    await alice.press("Control+Enter")
    await expect(alice.at("#decide .complaint")).to_be_visible()
    await expect(alice.at('[name="instructions"]')).to_be_focused()
    await alice.press("Tab", "Enter")
    await expect(alice.at('[data-act="revise"] button')).to_be_enabled()
    await expect(alice.at('[data-act="revise"] button')).to_be_focused()
    assert (await house.now(request)).state is State.PENDING


async def test_a_changed_call_is_approved_from_its_preview_and_the_next_card_has_the_focus(house: House) -> None:
    first, second = [await house.asks(args={"path": path}) for path in ("/tmp/a", "/tmp/b")]
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("m")
    await alice.page.keyboard.type("/tmp/z")
    await alice.press("Enter")
    await alice.previews()
    await alice.press("Shift+Tab")
    await alice.page.keyboard.type("only there")
    await alice.press("Escape", "Escape")
    await expect(alice.at('[name="arg:path"]')).to_be_focused()
    await expect(alice.at('[name="arg:path"]')).to_have_value("/tmp/z")
    await alice.press("Enter")
    await alice.previews()
    await expect(alice.at('#main [name="note"]')).to_have_value("only there")
    await alice.press("Enter")
    await alice.shows(second)
    await expect(alice.at("#card")).to_be_focused()
    after = await house.now(first)
    assert (after.state, after.candidate.args_text) == (State.APPROVED, '{"path":"/tmp/z"}')
