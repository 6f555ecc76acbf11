"""Without JavaScript the essentials work: coming in, reading, deciding, and nothing is approved unread."""

import asyncio
from typing import Any

from playwright.async_api import expect

import assentry
from assentry.core.request import State
from assentry.ports import Filter
from tests.browser.house import Guest, House

BARE = {"java_script_enabled": False}


async def test_read_and_approve(house: House) -> None:
    request = await house.asks(why="they are old")
    other = await house.asks(args={"files": ["other"]})
    alice = await house.guest(**BARE)
    await alice.at("#queue a").nth(1).click()
    await alice.shows(other)
    await alice.at("#queue a").nth(0).click()
    await alice.sees("Why you are asked", "a.tmp", "they are old", within="#card")
    await alice.page.get_by_role("button", name="Approve").click()
    await house.in_state(request, State.APPROVED)
    await alice.sees("approved. Next", within="#card")
    await alice.page.get_by_role("link", name="Next").click()
    await alice.shows(other)


async def test_deny_and_send_back(house: House) -> None:
    denied, back = await house.asks(), await house.asks(args={"files": ["back"]})
    alice = await house.guest(**BARE)
    await alice.opens(denied)
    await alice.at('[data-act="deny"] > summary').click()
    await alice.page.get_by_label("Not now").check()
    await alice.at('[data-act="deny"] button').click()
    assert (await house.in_state(denied, State.DENIED)).reason == "Not now"
    await alice.opens(back)
    await alice.at('[data-act="revise"] > summary').click()
    await alice.page.get_by_label("What should be different?").fill("fewer")
    await alice.at('[data-act="revise"] button').click()
    await house.in_state(back, State.REVISED)


async def test_modify(house: House) -> None:
    ran: list[Any] = []

    @house.gate.guard(reversible=False, reach="local", says="Write {path}")
    async def write_file(path: str, size: int) -> str:
        ran.append((path, size))
        return path

    call = asyncio.create_task(write_file("/tmp/a", 1))
    alice = await house.guest(**BARE)
    await _until_there(alice)
    await alice.at('[data-act="modify"] > summary').click()
    await alice.at('[name="arg:size"]').fill("x")
    await alice.page.get_by_role("button", name="Look at the change").click()
    await alice.sees("size: this is not a number", within="#decide")
    await alice.at('[name="arg:size"]').fill("2")
    await alice.page.get_by_role("button", name="Look at the change").click()
    await alice.page.get_by_role("button", name="Let it run like this").click()
    assert await call == "/tmp/a"
    assert ran == [("/tmp/a", 2)]


async def _until_there(guest: Guest) -> None:
    while not await guest.at("#queue .item").count():
        await guest.page.reload()


async def test_answer_and_choose(house: House) -> None:
    code = await house.wonders("Which?", choices=["this", "that"])
    alice = await house.guest(**BARE)
    await alice.opens(code)
    await alice.page.get_by_role("button", name="that").click()
    await alice.sees("answered", within="#card")
    code = await house.wonders("What?", run="r", key="2")
    await alice.opens(code)
    await alice.page.get_by_label("Your answer").fill("this one")
    await alice.page.get_by_role("button", name="Send the answer").click()
    await alice.sees("answered", within="#card")
    found = await house.gate._store.requests(house.gate.workspace, Filter((State.ANSWERED,)))
    assert {each.answer for each in found.requests} == {"that", "this one"}
    request = await house.asks(
        options=(assentry.option("Less", "Fewer go.", {"files": ["a"]}), assentry.option("No", "-"))
    )
    await alice.opens(request)
    await alice.page.get_by_role("button", name="Less").click()
    assert (await house.in_state(request, State.APPROVED)).candidate.args_text == '{"files":["a"],"root":"~/projects"}'


async def test_what_is_folded_cannot_be_approved_before_the_whole_of_it_was_shown(house: House) -> None:
    request = await house.asks(args={"files": [f"{n}.tmp" for n in range(40)], "text": "x" * 5000 + "THE TAIL"})
    alice = await house.guest(**BARE)
    await alice.opens(request)
    await expect(alice.at("#decide .approve")).to_be_disabled()
    await expect(alice.at("#card .args .value").filter(has_text="THE TAIL")).not_to_be_visible()
    await alice.page.get_by_role("link", name="Open all").click()
    await expect(alice.at("#card .args .fold").first.get_by_text("39.tmp")).to_be_visible()
    await expect(alice.at("#card .args .value").filter(has_text="THE TAIL")).to_be_visible()
    await alice.page.get_by_role("button", name="Approve").click()
    await house.in_state(request, State.APPROVED)


async def test_critical_and_folded(house: House) -> None:
    request = await house.pays(why="x")
    alice = await house.guest(**BARE)
    await alice.opens(request)
    await alice.at('[data-act="approve"] > summary').click()
    await alice.at('[name="confirm"]').fill("pay 12400.00")
    await alice.at('[data-act="approve"] button').click()
    await house.in_state(request, State.APPROVED)
