"""Many requests of one shape on one page: each is seen, each is decided on its own digest, and only low risk is there."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assent.core.request import State
from assent.server.visitors import csrf_for
from tests.server.reception import Reception, reception


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Reception]:
    name = str(tmp_path / "assent.db")
    async with reception(name if request.param == "sqlite" else request.getfixturevalue("postgres_database")) as made:
        yield made


async def headers(desk: Reception, who: str = "reviewer") -> dict[str, str]:
    secret = desk.secrets[who]
    policy = (await desk.premises.room("default")).desk.judgement.policy
    session = await desk.identities.session(secret, policy)
    assert session is not None
    return {"cookie": f"assent-session={secret}", "x-assent-csrf": csrf_for(session)}


async def test_what_is_alike_is_decided_with_one_word_each_on_what_was_shown(desk: Reception) -> None:
    asked = [await desk.asked(n=number) for number in range(3)]
    sent = await headers(desk)
    shown = await desk.client.get(f"/r/{asked[0].code}/alike", headers=sent)
    assert shown.status_code == 200
    items = re.findall(r'name="item" value="([^"]+)"', shown.text)
    assert {item.partition(" ")[0] for item in items} == {each.id for each in asked}
    stale = [items[0], items[1].rpartition(" ")[0] + " " + "0" * 64]
    path = f"/r/{asked[0].code}/alike"
    done = await desk.client.post(path, data={"word": "approve", "item": stale}, headers=sent)
    assert done.status_code == 200
    states = {}
    for each in asked:
        now = await desk.premises.store.request("default", each.id)
        assert now is not None
        states[each.id] = now.state
    decided = items[0].partition(" ")[0]
    assert states.pop(decided) is not State.PENDING
    assert set(states.values()) == {State.PENDING}


async def test_nothing_is_decided_where_one_is_of_another_shape(desk: Reception) -> None:
    low, other = await desk.asked(n=1), await desk.asked("note_visit", n=2)
    sent = await headers(desk)
    items = [f"{each.id} {each.shown_digest}" for each in (low, other)]
    answer = await desk.client.post(
        f"/r/{low.code}/alike", data={"word": "approve", "item": items}, headers={**sent, "accept": "text/html"}
    )
    assert answer.status_code == 422
    now = await desk.premises.store.request("default", low.id)
    assert now is not None
    assert now.state is State.PENDING
