"""Live: what arrives and what others decide is seen at once, nothing moves under the hand, one connection is enough."""

import asyncio
from pathlib import Path

import httpx
from playwright.async_api import Browser, Page, expect

from assentry.core.request import State
from assentry.server.serving import Address, standing
from assentry.settings import Settings
from tests.browser.house import Guest, House, built
from tests.stage import until

WATCH = """
window.moved = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries())
    window.moved.push({ value: each.value, of: each.sources.map((one) => one.node?.outerHTML?.slice(0, 120) ?? one.node?.data) });
}).observe({ type: "layout-shift", buffered: true });
"""


async def streams(house: House) -> float:
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{house.url}/metrics")).text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith("assentry_event_streams ")))


async def test_the_second_browser_sees_the_decision_of_the_first(either: House) -> None:
    request = await either.asks()
    alice, bob = await either.guest("alice"), await either.guest("bob")
    await alice.is_live()
    await bob.is_live()
    await bob.shows(request)
    await alice.page.get_by_role("button", name="Approve").click()
    await either.in_state(request, State.APPROVED)
    await expect(bob.at("#card")).to_have_attribute("data-state", "approved")
    await bob.sees("alice", within="#toast")
    await expect(bob.at("#queue .item")).to_have_class("item dangerous over")
    await expect(bob.at("#decide button:visible")).to_have_count(0)


async def test_what_is_asked_arrives_without_loading_the_page(either: House) -> None:
    alice = await either.guest()
    await alice.is_live()
    await alice.page.evaluate("window.same = true")
    await expect(alice.page).to_have_title("Assentry inbox")
    request = await either.asks()
    await alice.shows(request)
    await expect(alice.page).to_have_title("(1) Assentry inbox")
    await expect(alice.at("link[rel=icon]")).to_have_attribute("href", "/icon.svg?waiting=1")
    await expect(alice.at("#count")).to_have_text("1")
    await either.asks(args={"files": ["another"]})
    await alice.sees("1 new at the end", within="#news")
    await alice.shows(request)
    await expect(alice.page).to_have_title("(2) Assentry inbox")
    assert await alice.page.evaluate("window.same")
    icon = await alice.page.request.get(f"{either.url}/icon.svg?waiting=2")
    assert ">2</text>" in await icon.text()


async def test_more_than_ninety_nine_are_not_counted(house: House) -> None:
    await asyncio.gather(*(house.asks(args={"files": [str(n)]}, agent=f"agent {n % 5}") for n in range(101)))
    alice = await house.guest()
    await expect(alice.page).to_have_title("(99+) Assentry inbox")
    await expect(alice.at("#count")).to_have_text("99+")


async def test_two_tabs_hold_one_connection_and_both_hear(house: House) -> None:
    alice = await house.guest()
    await alice.is_live()
    second = Guest(house, await alice.page.context.new_page())
    await second.page.goto(house.url)
    await second.is_live()
    assert await streams(house) == 1
    request = await house.asks()
    await alice.shows(request)
    await second.shows(request)
    assert await streams(house) == 1
    await alice.page.close()

    async def one() -> bool:
        return await streams(house) == 1

    await until(one)
    other = await house.asks(args={"files": ["other"]})
    await expect(second.at(f'#queue [data-code="{other.code}"]')).to_be_visible()


async def test_a_page_finds_the_server_again_after_a_restart(browser: Browser, tmp_path: Path) -> None:
    database = str(tmp_path / "assentry.db")
    async with built(browser, database) as house:
        port = int(house.url.rsplit(":", 1)[1])
        alice = await house.guest()
        await alice.is_live()
        await alice.page.evaluate("window.same = true")
        # This server ends before its house does; another one takes its place.
        house.server.stop()
        await expect(alice.at("#live")).to_have_text("not live")
        missed = await house.asks()

        async def is_free() -> bool:
            try:
                async with httpx.AsyncClient() as client:
                    await client.get(f"{house.url}/healthz")
            except httpx.TransportError:
                return True
            return False

        await until(is_free)
        async with standing(Settings(database=database), Address(port=port)):
            await alice.is_live()
            await alice.shows(missed)
            later = await house.asks(args={"files": ["later"]})
            await expect(alice.at(f'#queue [data-code="{later.code}"]')).to_be_visible()
            assert await alice.page.evaluate("window.same")
            await alice.page.get_by_role("button", name="Approve").click()
            await house.in_state(missed, State.APPROVED)
            await alice.page.close()


async def still(page: Page) -> list[object]:
    found: list[object] = await page.evaluate("window.moved")
    return found


async def test_nothing_moves_while_requests_arrive_and_are_decided_elsewhere(house: House) -> None:
    await house.policy("autonomy: cautious\n")  # 4 h left for half an hour, so that no clock is what moves
    first = await house.asks()
    alice, bob = await house.guest("alice"), await house.guest("bob")
    await alice.page.add_init_script(WATCH)
    await alice.page.goto(house.url)
    await alice.is_live()
    await alice.shows(first)
    for number in range(6):
        await house.asks(args={"files": [f"{number}.tmp"] * 3}, says=f"Delete number {number} of several files")
    await expect(alice.at("#queue .item")).to_have_count(7)
    await bob.is_live()
    await expect(bob.at("#queue .item")).to_have_count(7)
    await bob.at("#queue .item a").nth(3).click()
    await bob.sees("Delete number", within="#card h1")
    await expect(bob.at("#card:not([data-fresh])")).to_be_visible()
    await bob.page.get_by_role("button", name="Approve").click()
    await expect(alice.at("#queue .item.over")).to_have_count(1)
    await alice.shows(first)
    assert await still(alice.page) == []


async def test_what_was_opened_and_typed_stays_when_the_card_is_drawn_anew(house: House) -> None:
    await house.policy(
        "people: {alice: {}, bob: {}}\nrules: [{name: two, actions: [delete_files], gate: hard, quorum: 2}]\n"
    )
    await house.asks(args={"files": [f"{n}.tmp" for n in range(40)]})
    alice, bob = await house.guest("alice"), await house.guest("bob")
    await alice.is_live()
    await alice.press("o")
    await alice.press("d")
    await alice.page.keyboard.type("half a sen")
    await bob.press("o")
    await bob.page.get_by_role("button", name="Approve").click()
    await alice.sees("bob approved", within="#card")
    await alice.page.keyboard.type("tence")
    await expect(alice.page.get_by_label("In your words")).to_have_value("half a sentence")
    await expect(alice.at("#decide .approve")).to_be_enabled()
