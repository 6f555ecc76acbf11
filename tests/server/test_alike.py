"""Many requests of one shape on one page: each is seen, each is decided on its own digest, and only low risk is there."""

import re

from assentry.core.request import State
from tests.server.reception import Reception


async def test_what_is_alike_is_decided_with_one_word_each_on_what_was_shown(desk: Reception) -> None:
    asked = [await desk.asked(n=number) for number in range(3)]
    sent = await desk.browsing()
    shown = await desk.client.get(f"/r/{asked[0].code}/alike", headers=sent)
    assert shown.status_code == 200
    items = re.findall(r'name="item" value="([^"]+)"', shown.text)
    assert {item.partition(" ")[0] for item in items} == {each.id for each in asked}
    stale = [items[0], items[1].rpartition(" ")[0] + " " + "0" * 64]
    path = f"/r/{asked[0].code}/alike"
    done = await desk.client.post(path, data={"word": "approve", "item": stale}, headers=sent)
    assert done.status_code == 200
    states = {each.id: (await desk.now(each)).state for each in asked}
    decided = items[0].partition(" ")[0]
    assert states.pop(decided) is not State.PENDING
    assert set(states.values()) == {State.PENDING}


async def test_nothing_is_decided_where_one_is_of_another_shape(desk: Reception) -> None:
    low, other = await desk.asked(n=1), await desk.asked("note_visit", n=2)
    sent = await desk.browsing()
    items = [f"{each.id} {each.shown_digest}" for each in (low, other)]
    answer = await desk.client.post(
        f"/r/{low.code}/alike", data={"word": "approve", "item": items}, headers={**sent, "accept": "text/html"}
    )
    assert answer.status_code == 422
    assert (await desk.now(low)).state is State.PENDING


async def test_nothing_is_decided_where_one_is_named_twice_or_is_not_there(desk: Reception) -> None:
    low = await desk.asked(n=1)
    sent = await desk.browsing() | {"accept": "text/html"}
    item = f"{low.id} {low.shown_digest}"
    for items, status in (([item, item], 422), ([item, f"gone {low.shown_digest}"], 404)):
        answer = await desk.client.post(f"/r/{low.code}/alike", data={"word": "approve", "item": items}, headers=sent)
        assert answer.status_code == status
        assert (await desk.now(low)).state is State.PENDING
