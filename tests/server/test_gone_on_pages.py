"""What a page, the list and the API say of a request that nobody is waiting for any more."""

import asyncio
import html
import re

from assentry.core.request import State
from assentry.engine.callers import clear
from tests.server.reception import Reception
from tests.stage import PATIENCE

PAGE = {"accept": "text/html"}
SAYS = "nobody is waiting for this any more"


async def gone(desk: Reception, action: str = "tidy_shelf"):
    """A request of a process that has ended."""
    request = await desk.asked(action, shelf=1)
    await desk.gate._callers.close()
    await clear(desk.premises.store, "default")
    assert (await desk.now(request)).abandoned_at is not None
    return request


def words(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


async def test_the_card_the_list_and_the_api_say_so_and_only_dismissing_is_offered(desk: Reception) -> None:
    request = await gone(desk)
    sent = {**await desk.browsing("reviewer"), **PAGE}
    listed = (await desk.client.get("/", headers=sent)).text
    assert "nobody is waiting" in words(listed)
    card = (await desk.client.get(f"/r/{request.code}", headers=sent)).text
    assert SAYS in words(card)
    assert re.findall(r'name="word" value="(\w+)"', card) == ["deny"]
    assert "Dismiss" in words(card)
    found = (await desk.get(f"/requests/{request.code}"))["request"]
    assert found["abandoned_at"] is not None
    assert any(SAYS in each for each in found["warnings"])
    (row,) = (await desk.get("/requests"))["requests"]
    assert row["abandoned_at"] == found["abandoned_at"]


async def test_the_api_refuses_to_approve_it_and_dismisses_it(desk: Reception) -> None:
    request = await gone(desk)
    digest = request.shown_digest
    refused = await desk.post(
        f"/requests/{request.code}/decision", {"word": "approve", "seen_digest": digest}, status=409
    )
    assert refused["type"] == "/problems/caller-gone"
    assert "Deny it without a reason to dismiss it" in refused["detail"]
    assert (await desk.now(request)).state is State.PENDING
    await desk.post(f"/requests/{request.code}/decision", {"word": "deny", "seen_digest": digest})
    ended = await desk.now(request)
    assert (ended.state, ended.word) == (State.CANCELLED, "dismiss")


async def test_a_page_that_was_open_before_hears_why_approving_is_refused_and_its_button_dismisses(
    desk: Reception,
) -> None:
    request = await gone(desk)
    sent = await desk.browsing("reviewer")
    form = {"word": "approve", "seen_digest": request.shown_digest, "csrf": sent["x-assentry-csrf"]}
    refused = await desk.client.post(f"/r/{request.code}/decide", data=form, headers={**sent, **PAGE})
    assert refused.status_code in (200, 409, 422)
    assert "Deny it without a reason to dismiss it" in words(refused.text)
    done = await desk.client.post(f"/r/{request.code}/decide", data={**form, "word": "deny"}, headers={**sent, **PAGE})
    assert done.headers["location"] == f"/r/{request.code}?told=dismiss"
    log = words((await desk.client.get(f"/log?request={request.code}", headers={**sent, **PAGE})).text)
    assert "dismissed by bea; nobody was waiting for it any more" in log


async def test_a_server_finds_out_by_itself(desk: Reception) -> None:
    request = await desk.asked(shelf=1)
    await desk.gate._callers.close()
    task = asyncio.ensure_future(desk.premises._look_for_the_gone())
    async with asyncio.timeout(PATIENCE):
        while (await desk.now(request)).abandoned_at is None:
            await asyncio.sleep(0.02)
    task.cancel()
