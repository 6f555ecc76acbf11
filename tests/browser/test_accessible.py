"""WCAG 2 A and AA by axe-core, in light and dark and on a phone; and how much the first page weighs."""

import json
from importlib.resources import files
from typing import Any

import pytest
from playwright.async_api import Page

import assentry
from assentry.core.authority import principal_named
from assentry.engine.identity import Identities
from tests.browser.house import PEOPLE, PHONE, Guest, House
from tests.stage import BOSS, MILD

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ASK = """
async (tags) => {
  const found = await axe.run(document, { runOnly: { type: "tag", values: tags } });
  return found.violations.map((each) => ({ rule: each.id, help: each.help, nodes: each.nodes.map((node) => node.html.slice(0, 160) + " | " + node.failureSummary) }));
}
"""


async def complaints(page: Page) -> Any:
    await page.wait_for_load_state()  # a page that a form led to has its text before its style sheet
    await page.evaluate(AXE)
    return await page.evaluate(ASK, RULES)


async def peopled(house: House) -> dict[str, str]:
    """A card of every sort, by what it is; with a run, claims, options, folds, differences and votes."""
    await house.policy(PEOPLE + "rules: [{name: all, actions: ['*_all'], gate: hard, quorum: 2}]\n")
    said = {"why": "they are old", "goal": "a tidy disk", "alternatives": ("archive them",), "confidence": 0.6}
    long = {
        "files": [f"{n}.tmp" for n in range(40)],
        "sql": "select 1 -- x\nfrom t where a = 'b'",
        "deep": {"a": [1, True, None]},
    }
    found = {}
    async with house.gate.run("tidy up", original="just a small cleanup", patience=0):
        found["dangerous"] = (await house.asks(args=long, key="1", **said)).code
    found["risky"] = (
        await house.asks("note_all", {"text": "x", "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y"}, declared=MILD)
    ).code
    mail = {"to": ["ann@example.com"], "subject": "Hello", "body": "We have moved.\n" * 3}
    options = (assentry.option("Less", "Fewer go.", {"to": ["bo@example.com"]}), assentry.option("No", "All stay."))
    found["options"] = (await house.asks("send_email", mail, options=options, **said)).code
    found["critical"] = (await house.pays(**said)).code
    found["choices"] = await house.wonders("Which?", choices=["this", "that"], best_guess="this")
    found["question"] = await house.wonders("What?", run="r", key="2")
    found["decided"] = (await house.asks(args={"files": ["x"]})).code
    desk = (await house.server.premises.room("default")).desk
    bob = principal_named(desk.judgement.policy, "bob")
    assert bob is not None
    await desk.inbox.deny(bob, (await desk.inbox.find(found["decided"])).id, "no")
    return found


LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "phone-dark": {"viewport": PHONE, "has_touch": True, "is_mobile": True, "color_scheme": "dark"},
}
"""Both layouts and both palettes."""


@pytest.mark.parametrize("look", LOOKS)
async def test_no_violations(house: House, look: str) -> None:
    cards = await peopled(house)
    alice = await house.guest(**LOOKS[look])
    wrong = {}
    await alice.page.goto(house.url)
    await alice.pictured(f"inbox-{look}")
    wrong["inbox"] = await complaints(alice.page)
    for name, code in cards.items():
        await alice.opens(code, "?whole=1")
        await alice.page.evaluate("for (const act of document.querySelectorAll('#decide .act')) act.open = true")
        wrong[f"{name}, deciding"] = await complaints(alice.page)
        await alice.pictured(f"{name}-{look}")
    await alice.opens(cards["dangerous"])
    await alice.at('[data-act="modify"] > summary').click()
    await alice.at('[name="arg:sql"]').fill("select 2")
    await alice.page.get_by_role("button", name="Look at the change").click()
    await alice.at(".changes").wait_for()
    wrong["preview"] = await complaints(alice.page)
    await alice.opens(cards["dangerous"], "?whole=1")
    await alice.at('[data-act="grant"] > summary').click()
    await alice.page.get_by_role("button", name="Preview").click()
    await alice.sees("Approve and allow similar?")
    wrong["preview of a permission"] = await complaints(alice.page)
    for sheet in ("runs", "log", "policy?action=delete_files", "settings", "stop", "you"):
        await alice.page.goto(f"{house.url}/{sheet}")
        await alice.pictured(f"{sheet.partition('?')[0]}-{look}")
        wrong[sheet] = await complaints(alice.page)
    await alice.page.goto(f"{house.url}/?tab=decided")
    wrong["decided list"] = await complaints(alice.page)
    await alice.page.goto(f"{house.url}/?text=nothing%20like%20it")
    wrong["empty"] = await complaints(alice.page)
    await alice.page.goto(f"{house.url}/r/zzzzzzzz")
    wrong["problem"] = await complaints(alice.page)
    found = {name: each for name, each in wrong.items() if each}
    assert not found, json.dumps(found, indent=1)


@pytest.mark.parametrize("look", LOOKS)
async def test_the_door_has_no_violations(house: House, look: str) -> None:
    await Identities(house.gate._store, house.gate.workspace).set_password(BOSS, "alice", "correct horse battery")
    page = Guest(house, await (await house.context(**LOOKS[look])).new_page()).page
    for address in (f"{house.url}/login", await house.link("alice"), f"{house.url}/enter?link=used"):
        await page.goto(address)
        assert await complaints(page) == []
    await page.goto(f"{house.url}/login")
    await page.get_by_label("Name").fill("alice")
    await page.get_by_label("Password").fill("wrong horse battery")
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("alert").wait_for()
    assert await complaints(page) == []
    await page.get_by_label("Password").fill("correct horse battery")
    await page.get_by_role("button", name="Log in").click()
    await page.goto(f"{house.url}/prove")
    assert await complaints(page) == []


async def test_the_first_page_weighs_less_than_seventy_kilobytes(house: House) -> None:
    for number in range(60):
        await house.asks(args={"files": [f"{number}-{n}.tmp" for n in range(5)]}, agent=f"agent {number % 4}")
    guest = await house.guest("alice")
    wire = await guest.page.context.new_cdp_session(guest.page)
    await wire.send("Network.enable")
    await wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
    kinds: dict[str, str] = {}
    weights: dict[str, float] = {}
    wire.on("Network.requestWillBeSent", lambda event: kinds.update({event["requestId"]: event["type"]}))
    wire.on("Network.loadingFinished", lambda event: weights.update({event["requestId"]: event["encodedDataLength"]}))
    await guest.page.reload()
    await guest.is_live()
    # What the page fetches afterwards, when something new is asked, depends on who asks meanwhile; and what was begun before
    # it was loaded again belongs to the page before.
    page = {
        each: weight
        for each, weight in weights.items()
        if kinds.get(each, "XHR") not in ("Fetch", "XHR", "EventSource")
    }
    assert {kinds[each] for each in page} >= {"Document", "Stylesheet", "Script"}
    assert 10_000 < sum(page.values()) < 70_000, sum(page.values())
