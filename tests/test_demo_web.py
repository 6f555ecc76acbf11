"""The demo in its browser form, played for real: by keys in a real Chromium, and with nothing but HTTP."""

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, sync_playwright

from assentry.demo.browser import CAST
from tests.browser import chromium

ASSENTRY = [sys.executable, "-m", "assentry"]
LONG = 240
STUCK = 120
LINK = re.compile(r"http://\S+/enter\?link=\S+")

pytestmark = [pytest.mark.proof, pytest.mark.timeout(LONG + 60)]


class Demo:
    """The demo as a machine without a terminal has it."""

    def __init__(self, folder: Path) -> None:
        self._story = folder / "story.txt"
        self._summary = folder / "summary.json"
        with self._story.open("w") as story, self._summary.open("w") as summary:
            self.process = subprocess.Popen(
                [*ASSENTRY, "demo", "--json", "--keep", "--speed", "10"],
                cwd=folder, env={**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"},
                stdin=subprocess.DEVNULL, stdout=summary, stderr=story,
            )  # fmt: skip
        self.link = self.until(LINK)

    @property
    def story(self) -> str:
        return self._story.read_text()

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def until(self, wanted: re.Pattern[str]) -> str:
        """What the story says that is like this, once it does."""
        end = time.monotonic() + LONG
        while not (found := wanted.search(self.story)):
            assert time.monotonic() < end, self.story
            assert not self.is_over, self.story
            time.sleep(0.05)
        return found.group(0)

    def summary(self) -> dict[str, Any]:
        """What it says at its end, which must be a good one."""
        assert self.process.wait(60) == 0, self.story
        return json.loads(self._summary.read_text())


@contextmanager
def playing(folder: Path) -> Iterator[Demo]:
    demo = Demo(folder)
    try:
        yield demo
    finally:
        if not demo.is_over:
            demo.process.terminate()
            demo.process.wait(60)


def by_says(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {line["says"]: line for line in summary["requests"]}


def checked(summary: dict[str, Any], home: Path) -> dict[str, dict[str, Any]]:
    """What holds for every good end: the log verifies, every run is over, nothing of the user's was touched."""
    assert summary["ok"]
    assert {run["agent"]: run["state"] for run in summary["runs"]} == dict.fromkeys(CAST, "finished")
    assert list(home.iterdir()) == []
    return by_says(summary)


class Keys:
    """Somebody who only has a keyboard."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def tab_to(self, wanted: str) -> None:
        """Tab was pressed until the focus is on the field of this name, or the button with this text."""
        found = "(wanted) => { const e = document.activeElement; return e && (e.name === wanted || e.innerText === wanted) }"
        for _ in range(80):
            if self.page.evaluate(found, wanted):
                return
            self.press("Tab")
        raise AssertionError(f"Tab never comes to {wanted!r}")

    def send(self, button: str) -> None:
        """The button was reached with Tab and pressed, and what comes of it is there."""
        self.tab_to(button)
        self.press("Enter")

    # What is said about each kind of card

    def choose(self, number: str) -> None:
        if self.page.locator(f'#card [data-key="{number}"]').is_disabled():
            self.press(number)
            self.page.wait_for_selector(f'#card:not([data-fresh]) [data-key="{number}"]:not([disabled])')
        self.press(number)

    def approve(self) -> None:
        if self.page.locator("#unread").is_visible():
            self.press("o")
        self.page.wait_for_selector("#card:not([data-fresh])")
        self.press("a")

    def type_phrase(self) -> None:
        self.press("a")
        self.type(self.page.locator("#decide form[data-phrase]").get_attribute("data-phrase") or "")
        self.page.wait_for_selector("#decide form[data-phrase] button:not([disabled])")
        self.press("Enter")

    def allow_similar(self) -> None:
        self.press("g")
        self.tab_to("budget")
        self.type("100")
        self.press("Enter")
        self.page.wait_for_selector("#main[data-preview]:not([data-fresh])")
        self.send("Approve and create this permission")
        self.page.wait_for_selector("body.inbox")
        self.ready()

    def answer(self, text: str) -> None:
        self.press("a")
        self.type(text)
        self.send("Send the answer")

    def send_back(self, text: str) -> None:
        self.press("r")
        self.type(text)
        self.send("Send back")

    def deny(self, text: str) -> None:
        self.press("d")
        self.type(text)
        self.send("Deny")

    def mail_less(self) -> None:
        self.press("m")
        self.tab_to("arg:to")
        self.press("Control+a")
        self.type("team@example.org")
        self.send("Look at the change")
        self.page.wait_for_selector("#main[data-preview]:not([data-fresh])")
        self.send("Let it run like this")
        self.page.wait_for_selector("body.inbox")
        self.ready()

    def come_in(self, link: str) -> None:
        self.page.goto(link)
        self.page.wait_for_selector("button:focus")
        self.press("Enter")
        self.page.wait_for_selector("body.inbox")
        self.ready()

    def ready(self) -> None:
        """The page hears of changes, and so of keys: what is pressed before is pressed at nothing."""
        self.page.wait_for_selector("#live.on")

    def waiting_card(self, before: str, demo: Demo) -> str:
        """The digest of the next card that waits; empty once the demo is over."""
        wanted = """(before) => {
            const card = document.querySelector("#card");
            if (!card || card.hasAttribute("inert") || card.dataset.fresh !== undefined) return "";
            if (card.classList.contains("pending")) return card.dataset.digest === before ? "" : card.dataset.digest;
            return document.querySelector("#queue .item:not(.over):not([aria-current])") ? "elsewhere" : "";
        }"""
        end = time.monotonic() + STUCK
        while not demo.is_over:
            assert time.monotonic() < end, f"{self.page.locator('body').inner_text()}\n{demo.story}"
            found = self.page.evaluate(wanted, before)
            if found and found != "elsewhere":
                return str(found)
            if found:  # it came while another card was looked at
                self.press(".")
                self.page.wait_for_selector("#queue:not(:has(.over))")
                self.press("j")
            self.page.wait_for_timeout(100)
        return ""


def decisions(keys: Keys) -> list[tuple[str, Callable[[], None]]]:
    """What a card's headline begins with, and what is said about it; each once, in this order where they are alike."""
    return [
        ("Delete 847 files", lambda: keys.choose("3")),
        ("Two releases are ready", lambda: keys.choose("1")),
        ("Deploy release 2026.11.0", keys.approve),
        ("Mail “Cleanup report”", keys.mail_less),
        ("Pay €12,400.00", keys.type_phrase),
        ("Pay €42.90 back", keys.allow_similar),
        ("When does the parcel", lambda: keys.answer("on Thursday")),
        ("Mail okafor@example.com", lambda: keys.send_back("say sorry, and name the day")),
        ("Mail okafor@example.com", keys.approve),
        ("Sample: item 4", keys.approve),
        ("Sample: item 8", lambda: keys.deny("a refund is no spam")),
        ("Checkpoint: labels ready", keys.approve),
    ]


def test_the_whole_demo_is_completed_with_the_keyboard(tmp_path: Path, assentry_home: Path) -> None:
    with playing(tmp_path) as demo, sync_playwright() as play:
        browser = play.chromium.launch(**chromium.launch(play))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        keys = Keys(page)
        keys.come_in(demo.link)
        left, extra = decisions(keys), ("Pay €18.50 back", keys.approve)
        seen = ""
        while seen := keys.waiting_card(seen, demo):
            title = page.locator("#card h1").inner_text()
            # On a very slow machine the agent asks for the second expense before the leave for it has been given.
            found = next((each for each in (*left, extra) if title.startswith(each[0])), None)
            assert found is not None, f"nobody expected {title!r}"
            left = [each for each in left if each is not found]
            found[1]()
        assert left == []
        summary = demo.summary()
        browser.close()
    told = checked(summary, assentry_home)
    assert said == []
    assert (summary["files_left"], summary["files_staged"], summary["deployed"]) == (0, 847, "2026.11.0")
    assert {each["to"]: each["subject"] for each in summary["mail"]} == {
        "team@example.org": "Cleanup report", "okafor@example.com": "Your parcel",
    }  # fmt: skip
    [parcel] = [each["body"] for each in summary["mail"] if each["subject"] == "Your parcel"]
    assert "on Thursday" in parcel
    assert told["Pay €12,400.00 to Hosting GmbH for invoice R-2041"]["state"] == "done"
    assert told["Pay €42.90 back to ann@example.org for train tickets"]["by"]
    assert told["Pay €18.50 back to bo@example.org for printer paper"]["state"] == "done"
    assert told["Sample: item 8"]["reason"] == "a refund is no spam"
    assert "Read projects/shop/.aws/credentials" in told


class Reader:
    """Somebody with nothing but HTTP: pages are read, forms are sent as they stand in them."""

    def __init__(self, link: str) -> None:
        self._client = httpx.Client(
            base_url=link.partition("/enter")[0], follow_redirects=True, headers={"accept": "text/html"}, timeout=60
        )
        self._link = link

    def come_in(self) -> None:
        page = self._client.get(self._link).text
        entered = self._client.post("/enter", data=hidden(page))
        assert (entered.status_code, entered.url.path) == (200, "/")
        again = self._client.post("/enter", data=hidden(page))
        assert again.status_code in (403, 410), "a link works once"

    def waiting(self) -> list[str]:
        page = self._client.get("/").text
        return re.findall(r'<li class="item[^"]*" data-id="[^"]*" data-code="([^"]+)"', page)

    def card(self, code: str) -> str:
        return self._client.get(f"/r/{code}").text

    def decide(self, code: str, card: str, word: str, **more: str) -> None:
        [form] = [each for each in forms(card) if each.get("word") == word and each.get("option") == more.get("option")]
        answer = self._client.post(f"/r/{code}/decide", data=form | more)
        assert answer.status_code == 200, answer.text


def forms(page: str) -> list[dict[str, str]]:
    """What each form of a page sends by itself."""
    return [hidden(form) for form in re.findall(r"<form.*?</form>", page, re.S)]


def hidden(form: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}


def words_for(card: str) -> tuple[str, dict[str, str]]:
    """What the bold reader says: yes to everything, in whichever form a yes has here."""
    if 'data-decides="choose"' in card:
        return "choose", {"option": "1"}
    if found := re.search(r'<button name="choice" value="([^"]+)"', card):
        return "answer", {"choice": html.unescape(found.group(1))}
    if 'name="answer"' in card:
        return "answer", {"answer": "on Friday"}
    phrase = re.search(r'data-phrase="([^"]+)"', card)
    return "approve", {"confirm": html.unescape(phrase.group(1))} if phrase else {}


def test_the_demo_is_decided_without_a_browser_and_without_a_terminal(tmp_path: Path, assentry_home: Path) -> None:
    with playing(tmp_path) as demo:
        reader = Reader(demo.link)
        reader.come_in()
        end = time.monotonic() + LONG
        while not demo.is_over:
            assert time.monotonic() < end, demo.story
            try:
                for code in reader.waiting():
                    word, more = words_for(card := reader.card(code))
                    reader.decide(code, card, word, **more)
            except httpx.TransportError:
                assert demo.process.wait(60) == 0, demo.story  # it is over, and its server with it
            time.sleep(0.05)
        summary = demo.summary()
    told = checked(summary, assentry_home)
    assert (summary["files_left"], summary["deployed"]) == (847 - 312, "2026.11.0")
    paid = [json.loads(line) for line in (Path(summary["folder"]) / "payments.jsonl").read_text().splitlines()]
    assert [each["amount"] for each in paid] == [12_400.0, 42.9, 18.5]
    assert told["Sample: item 8"]["decided"] == "approve"
    for agent in CAST:
        assert agent in demo.story


def test_a_signal_ends_it_in_order_and_says_what_still_waits(tmp_path: Path) -> None:
    with playing(tmp_path) as demo:
        demo.until(re.compile(r"Pay €12,400\.00"))
        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(60) == 130
    assert re.search(r"Pay €12,400\.00[^·]* · still waits; did not\s+run", demo.story)
    [folder] = tmp_path.glob("assentry-demo-*")
    assert not (folder / "payments.jsonl").exists()
