"""The same on a phone: one thing at a time, everything within reach of a thumb, nothing wider than the screen."""

import asyncio
from typing import Any
from urllib.parse import urljoin

from playwright.async_api import expect

import assentry
from assentry.core.request import State
from assentry.ports import Filter
from tests.browser.house import PEOPLE, PHONE, Guest, House

HAND: dict[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


async def fits(guest: Guest) -> None:
    wide = await guest.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390, f"{guest.page.url}: {wide} pixels wide"


async def test_from_the_list_to_the_card_and_back(house: House) -> None:
    first, second = await house.asks(), await house.asks(args={"files": ["x" * 300]}, says="Delete {files}")
    alice = await house.guest(**HAND)
    await expect(alice.at("#card")).to_be_hidden()
    await alice.pictured("phone-list")
    await fits(alice)
    await alice.at("#queue a").nth(1).tap()
    await alice.shows(second)
    await expect(alice.at("#list")).to_be_hidden()
    await alice.pictured("phone-card")
    await fits(alice)
    await alice.at(".back").tap()
    await expect(alice.at("#list")).to_be_visible()
    await alice.at("#queue a").first.tap()
    await alice.shows(first)
    box = await alice.page.get_by_role("button", name="Approve").bounding_box()
    assert box is not None
    assert box["height"] >= 40
    assert box["y"] + box["height"] <= PHONE["height"]
    await alice.page.get_by_role("button", name="Approve").tap()
    await house.in_state(first, State.APPROVED)
    await expect(alice.at("#list")).to_be_visible()


async def test_deny_modify_and_send_back(house: House) -> None:
    denied, changed, back = [await house.asks(args={"path": f"/tmp/{name}"}) for name in "abc"]
    alice = await house.guest(**HAND)
    await alice.opens(denied)
    await alice.at('[data-act="deny"] > summary').tap()
    await alice.page.get_by_label("Wrong target").tap()
    await alice.pictured("phone-deny")
    await fits(alice)
    await alice.at('[data-act="deny"] button').tap()
    assert (await house.in_state(denied, State.DENIED)).reason == "Wrong target"
    await alice.opens(changed)
    await alice.at('[data-act="modify"] > summary').tap()
    await alice.at('[name="arg:path"]').fill("/tmp/z")
    await fits(alice)
    await alice.page.get_by_role("button", name="Look at the change").tap()
    await alice.at(".changes").wait_for()
    await alice.pictured("phone-preview")
    await fits(alice)
    await alice.previews()
    await alice.page.get_by_role("button", name="Let it run like this").tap()
    assert (await house.in_state(changed, State.APPROVED)).candidate.args_text == '{"path":"/tmp/z"}'
    await alice.sees("approved", within="#card .due")
    await alice.opens(back)
    await alice.at('[data-act="revise"] > summary').tap()
    await alice.page.get_by_label("What should be different?").fill("elsewhere")
    await alice.at('[data-act="revise"] button').tap()
    await house.in_state(back, State.REVISED)


async def test_choose_answer_and_confirm(house: House) -> None:
    chosen = await house.asks(
        options=(assentry.option("Less", "Fewer go.", {"files": ["a"]}), assentry.option("No", "All stay."))
    )
    alice = await house.guest(**HAND)
    await alice.opens(chosen)
    await fits(alice)
    await alice.pictured("phone-options")
    await alice.page.get_by_role("button", name="Less").tap()
    await house.in_state(chosen, State.APPROVED)
    code = await house.wonders("Which?", choices=["this", "that"])
    await alice.opens(code)
    await alice.page.get_by_role("button", name="that").tap()
    await expect(alice.at("#list")).to_be_visible()
    found = await house.gate._store.requests(house.gate.workspace, Filter((State.ANSWERED,)))
    assert [each.answer for each in found.requests] == ["that"]
    critical = await house.pays()
    await alice.opens(critical)
    await alice.at('[data-act="approve"] > summary').tap()
    await alice.at('[name="confirm"]').fill("pay 12400.00")
    await alice.pictured("phone-critical")
    await fits(alice)
    await alice.at('[data-act="approve"] button').tap()
    await house.in_state(critical, State.APPROVED)


async def test_folds_quorum_and_live_news(house: House) -> None:
    await house.policy(PEOPLE + "rules: [{name: two, actions: [delete_files], gate: hard, quorum: 2}]\n")
    request = await house.asks(args={"files": [f"{n}.tmp" for n in range(40)]})
    alice, bob = await house.guest("alice", **HAND), await house.guest("bob", **HAND)
    await expect(bob.at("#live")).to_have_class("live on")
    for each in (alice, bob):
        await each.at("#queue a").first.tap()
        await each.shows(request)
        await each.page.get_by_role("link", name="Open all").tap()
    await alice.page.get_by_role("button", name="Approve").tap()
    await bob.sees("1 of 2 approvals", within="#card")
    await bob.page.get_by_role("button", name="Approve").tap()
    await house.in_state(request, State.APPROVED)
    await expect(bob.at("#list")).to_be_visible()
    late = await house.asks("drop_table", {"name": "users"})
    await expect(bob.at(f'#queue [data-code="{late.code}"]')).to_be_visible()


async def test_undo_and_review(house: House) -> None:
    content = {"a": "old"}

    def put_back(done: assentry.Done) -> None:
        content[done.args["path"]] = done.result

    @house.gate.guard(reversible=True, reach="local", undo=put_back, says="Write {path}")
    async def update_file(path: str, text: str) -> str:
        before, content[path] = content[path], text
        return before

    await house.policy(PEOPLE + "rules: [{name: small, actions: ['update_*'], gate: watch, review: after}]\n")
    async with house.gate.worker():
        await asyncio.gather(update_file("a", "new"))
        alice = await house.guest(**HAND)
        await alice.page.get_by_role("link", name="Afterwards").tap()
        await alice.at("#queue a").first.tap()
        await alice.page.get_by_role("button", name="Fine").tap()
        await alice.sees("accepted it", within="#card")
        await alice.page.get_by_role("button", name="Undo").tap()
        await alice.sees("undone", within="#card .due")
    assert content == {"a": "old"}


async def test_pages_with_tables_are_no_wider_than_the_screen(house: House) -> None:
    await house.policy(PEOPLE + "rules: [{name: two, actions: [delete_files], gate: hard, because: files stay gone}]\n")
    alice = await house.guest(**HAND)
    for path in ("settings", "policy", "api"):
        await alice.page.goto(urljoin(alice.page.url, f"/{path}"))
        await fits(alice)
