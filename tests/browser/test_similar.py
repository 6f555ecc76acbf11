"""Approve and allow similar, from the card through the preview to the next card: by keyboard, by mouse and on a phone."""

import pytest
from playwright.async_api import expect

from assentry.core.action import Declaration, Reach
from assentry.core.request import Request, State
from tests.browser.house import PEOPLE, House
from tests.browser.test_phone import HAND, fits
from tests.browser.test_without_script import BARE

USES, HOURS, BUDGET = (f'#decide [name="{name}"]' for name in ("uses", "hours", "budget"))
SUMMARY = '#decide [data-act="grant"] > summary'
PRESS_AT_ONCE = """
addEventListener("DOMContentLoaded", () => new MutationObserver((changes, observer) => {
    if (!document.querySelector("#main[data-fresh]")) return;
    observer.disconnect();
    document.querySelector("#main button.primary").click();
}).observe(document.documentElement, { subtree: true, attributes: true }));
"""


async def limits(house: House) -> list[int | None]:
    """How often each permission that was created may be used."""
    return [each.limit for each in await house.gate._store.grants(house.gate.workspace)]


async def three(house: House) -> list[Request]:
    return [await house.asks(args={"files": [name]}, says="Delete {files}") for name in ("one", "two", "three")]


async def test_the_whole_of_it_by_keyboard_and_the_next_card_has_the_focus(house: House) -> None:
    first, second, _ = await three(house)
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("g")
    await expect(alice.at(USES)).to_be_focused()
    await alice.page.keyboard.type("3")
    await expect(alice.at(USES)).to_have_value("3")
    await alice.press("Tab")
    await alice.page.keyboard.type("2")
    await expect(alice.at(HOURS)).to_have_value("2")
    await alice.press("Enter")
    await alice.previews()
    await alice.sees(
        "Delete one", "up to 3 times", "For the next 2 hours", "up to risk level Dangerous", within="#main"
    )
    await expect(alice.page.get_by_role("button", name="Approve and create this permission")).to_be_focused()
    assert (await house.now(first)).state is State.PENDING
    await alice.press("Enter")
    await alice.shows(second)
    await expect(alice.at("#card")).to_be_focused()
    assert (await house.now(first)).state is State.APPROVED
    assert await limits(house) == [3]
    await alice.sees("Approved: Delete one", within="#toast")
    await alice.press("a")
    await house.in_state(second, State.APPROVED)
    assert not alice.said


async def test_escape_leaves_at_every_step_and_what_was_typed_stays(house: House) -> None:
    first, *_ = await three(house)
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("g", "Escape")
    await expect(alice.at(SUMMARY)).to_be_focused()
    link = alice.at("#queue a").first
    await link.focus()
    await alice.press("g")
    await alice.page.keyboard.type("4")
    await alice.press("Escape")
    await expect(link).to_be_focused()
    await expect(alice.at(USES)).to_be_hidden()
    await alice.press("g", "Enter")
    await alice.previews()
    await alice.sees("up to 4 times", within="#main")
    await alice.press("Escape")
    await expect(alice.at(USES)).to_be_focused()
    await expect(alice.at(USES)).to_have_value("4")
    await alice.page.keyboard.type("5")
    await expect(alice.at(USES)).to_have_value("5")
    await alice.press("Escape")
    await expect(alice.at(SUMMARY)).to_be_focused()
    assert (await house.now(first)).state is State.PENDING
    assert await limits(house) == []


async def test_what_does_not_fit_is_said_and_typed_over(house: House) -> None:
    declared = Declaration(reversible=True, reach=Reach.SERVICE, money=True)
    args = {"order": "A-1", "amount": 5, "currency": "EUR"}
    request = await house.asks("refund_order", args, declared=declared, says="Refund {order}")
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("g", "Enter")
    await alice.sees("this action spends money: set a total spending limit", within="#decide .complaint")
    await expect(alice.at(USES)).to_be_focused()
    await alice.press("Tab", "Tab")
    await expect(alice.at(BUDGET)).to_be_focused()
    await alice.page.keyboard.type("250")
    await alice.press("Enter")
    await alice.previews()
    await alice.sees("for at most 250 EUR in total", within="#main")


async def test_a_key_held_down_or_pressed_at_once_approves_no_preview(house: House) -> None:
    first, *_ = await three(house)
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("g")
    await alice.page.keyboard.down("Enter")
    await alice.previews()
    button = alice.page.get_by_role("button", name="Approve and create this permission")
    await expect(button).to_be_focused()
    await alice.page.keyboard.down("Enter")
    await alice.page.keyboard.up("Enter")
    await expect(button).to_be_focused()
    await alice.press("Escape")
    await expect(alice.at(USES)).to_be_focused()
    await alice.page.add_init_script(PRESS_AT_ONCE)
    await alice.press("Enter")
    await alice.sees("only just opened", within="#toast")
    await alice.previews()
    assert (await house.now(first)).state is State.PENDING
    assert await limits(house) == []


async def test_what_is_collapsed_is_expanded_before_a_permission_is_made_of_it(house: House) -> None:
    request = await house.asks(args={"files": [f"{n}.tmp" for n in range(40)]})
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("g")
    await alice.sees("Press g again", within="#toast")
    await expect(alice.at("#card .args").get_by_text("39.tmp", exact=True)).to_be_visible()
    await expect(alice.at('[data-act="grant"] button')).to_be_enabled()
    await alice.shows(request)
    await alice.press("g", "Enter")
    await alice.previews()
    assert (await house.now(request)).state is State.PENDING


async def test_the_next_card_comes_from_the_list_that_was_filtered(house: House) -> None:
    _, _, last = await three(house)
    wanted = [await house.asks("drop_table", {"name": name}) for name in ("users", "logs")]
    alice = await house.guest()
    await alice.page.goto(f"{house.url}/?text=drop_table")
    await alice.shows(wanted[0])
    await alice.press("g", "Enter")
    await alice.previews()
    await alice.press("Escape")
    await expect(alice.at(USES)).to_be_focused()
    await expect(alice.at("#queue .item")).to_have_count(2)
    await alice.press("Enter")
    await alice.previews()
    await alice.press("Enter")
    await house.in_state(wanted[0], State.APPROVED)
    await alice.shows(wanted[1])
    await expect(alice.at(f'#queue [data-code="{last.code}"]')).to_have_count(0)


async def test_after_the_last_one_the_page_that_says_so_has_the_focus(house: House) -> None:
    request = await house.asks()
    alice = await house.guest()
    await alice.shows(request)
    await alice.press("g", "Enter")
    await alice.previews()
    await alice.press("Enter")
    await alice.sees("Nothing for you to decide", within="#card")
    await expect(alice.at("#card")).to_be_focused()


@pytest.mark.parametrize("look", ["light", "dark"])
async def test_with_the_mouse_a_number_is_typed_over_too(house: House, look: str) -> None:
    first, second, _ = await three(house)
    alice = await house.guest(color_scheme=look)
    await alice.shows(first)
    await alice.at(SUMMARY).click()
    await expect(alice.at(USES)).to_be_focused()
    await alice.page.keyboard.type("3")
    await expect(alice.at(USES)).to_have_value("3")
    await alice.at(HOURS).click()
    await alice.page.keyboard.type("12")
    await expect(alice.at(HOURS)).to_have_value("12")
    await alice.at(HOURS).click()
    await alice.press("End", "Backspace")
    await expect(alice.at(HOURS)).to_have_value("1")
    await alice.pictured(f"similar-form-{look}")
    await alice.page.get_by_role("button", name="Preview").click()
    await alice.previews()
    await alice.sees("For the next hour", within="#main")
    await alice.pictured(f"similar-preview-{look}")
    await alice.page.get_by_role("button", name="Approve and create this permission").click()
    await alice.shows(second)
    await alice.pictured(f"similar-next-{look}")
    assert await limits(house) == [3]


@pytest.mark.parametrize("look", ["light", "dark"])
async def test_on_a_phone(house: House, look: str) -> None:
    first, second, _ = await three(house)
    alice = await house.guest(**HAND, color_scheme=look)
    await alice.opens(first)
    await alice.shows(first)
    await alice.at(SUMMARY).tap()
    await alice.at(USES).tap()
    await alice.page.keyboard.type("3")
    await expect(alice.at(USES)).to_have_value("3")
    await alice.pictured(f"similar-phone-form-{look}")
    await fits(alice)
    await alice.page.get_by_role("button", name="Preview").tap()
    await alice.previews()
    await alice.pictured(f"similar-phone-preview-{look}")
    await fits(alice)
    await alice.page.get_by_role("button", name="Back to the form").tap()
    await expect(alice.at(USES)).to_have_value("3")
    await alice.page.get_by_role("button", name="Preview").tap()
    await alice.previews()
    await alice.page.get_by_role("button", name="Approve and create this permission").tap()
    await house.in_state(first, State.APPROVED)
    await expect(alice.at(f'#queue [data-code="{second.code}"]')).to_be_visible()
    await alice.sees("Approved: Delete one", within="#toast")
    await alice.pictured(f"similar-phone-next-{look}")
    await fits(alice)
    assert await limits(house) == [3]


async def test_without_javascript(house: House) -> None:
    first, second, _ = await three(house)
    alice = await house.guest(**BARE)
    await alice.opens(first)
    await alice.at(SUMMARY).click()
    await alice.at(USES).fill("3")
    await alice.press("Enter")
    await alice.page.get_by_role("button", name="Back to the form").click()
    await expect(alice.at(USES)).to_have_value("3")
    await alice.page.get_by_role("button", name="Preview").click()
    await alice.page.get_by_role("button", name="Approve and create this permission").click()
    await alice.sees("approved. Next", within="#card")
    assert await limits(house) == [3]
    await alice.page.get_by_role("link", name="Next").click()
    await alice.shows(second)


async def test_one_approval_of_two_says_that_no_permission_was_created(house: House) -> None:
    await house.policy(PEOPLE + "rules: [{name: two, actions: [delete_files], gate: hard, quorum: 2}]\n")
    first, second, _ = await three(house)
    alice = await house.guest()
    await alice.shows(first)
    await alice.press("g", "Enter")
    await alice.previews()
    await alice.sees("1 more person has to approve", within="#main")
    await alice.press("Enter")
    await alice.sees("no permission was created", within="#toast")
    await alice.shows(second)
    assert (await house.now(first)).state is State.PENDING
    assert await limits(house) == []
