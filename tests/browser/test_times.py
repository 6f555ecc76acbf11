"""Times in the page are rounded and worded as everywhere else, also while they count down."""

from datetime import timedelta

from playwright.async_api import expect

from assentry.core.text import span
from tests.browser.house import House
from tests.core.test_text import SPANS

CLOCK = "async (seconds) => { const { span } = await import('/static/clock.js'); return seconds.map(span); }"


async def test_the_page_says_spans_as_the_server_does(either: House) -> None:
    alice = await either.guest()
    seconds = [*(given for given, _ in SPANS), *range(0, 4_000, 7), *range(3_540, 180_000, 971)]
    said = await alice.page.evaluate(CLOCK, seconds)
    assert said == [span(timedelta(seconds=each)) for each in seconds]


async def test_a_fresh_request_has_its_whole_hour_left_and_was_asked_just_now_or_seconds_ago(either: House) -> None:
    request = await either.asks("cancel_order", {"order_id": "A-17"})
    alice = await either.guest()
    await alice.shows(request)
    await expect(alice.at("#card .due time")).to_have_text("1 h left")
    await expect(alice.at("#queue .due")).to_have_text("1 h left")
    await expect(alice.at("#card .meta")).not_to_contain_text("0 s")
    await expect(alice.at("#queue .what")).to_have_text("Cancel order A-17")
