"""Idempotency keys: a call happens once, however often and wherever it is repeated."""

import asyncio
import dataclasses
import json
from typing import Any

from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.credential import CredentialKind
from assentry.server.repeats import ABANDONED_AFTER
from tests.server.reception import Reception
from tests.stage import PATIENCE

GRANT = {"actions": ["tidy_*"], "life": "2h"}


async def given(desk: Reception) -> int:
    return len((await desk.get("/grants"))["grants"])


async def test_a_repeated_call_gets_the_same_answer_and_happens_once(desk: Reception) -> None:
    first = await desk.call("operator", "POST", "/grants", GRANT, idempotency_key="k1")
    again = await desk.call("operator", "POST", "/grants", GRANT, idempotency_key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert await given(desk) == 1


async def test_another_call_with_the_same_key_is_refused(desk: Reception) -> None:
    await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
    problem = await desk.post("/grants", {**GRANT, "life": "3h"}, "operator", 422, idempotency_key="k1")
    assert "another call" in problem["detail"]
    await desk.post("/policy/check", {"text": ""}, "operator", 422, idempotency_key="k1")
    assert await given(desk) == 1


async def test_nothing_is_kept_for_what_does_not_exist_or_did_not_happen(desk: Reception) -> None:
    store, headers = (
        desk.premises.store,
        {"authorization": f"Bearer {desk.secrets['operator']}", "idempotency-key": "k1"},
    )

    async def kept() -> list[Any]:
        return [each.about["stage"] for each in await store.credentials("default", CredentialKind.REPLY)]

    for path in ("/nothing", "/agent/nothing/notes"):
        assert (await desk.client.post(f"/api/v1{path}", json={}, headers=headers)).status_code == 404
    assert await kept() == []
    await desk.post("/grants", {"actions": []}, "operator", 422, idempotency_key="k2")
    assert await kept() == ["free"]
    await store.forget_credentials("default", await store.now())
    assert await kept() == []


async def test_the_same_call_many_times_at_once_happens_once(desk: Reception) -> None:
    calls = (desk.call("operator", "POST", "/grants", GRANT, idempotency_key="k1") for _ in range(12))
    answers = await asyncio.gather(*calls)
    assert {each.status_code for each in answers} <= {201, 409}
    assert all(each.headers["retry-after"] for each in answers if each.status_code == 409)
    assert len({each.content for each in answers if each.status_code == 201}) == 1
    assert await given(desk) == 1
    await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
    assert await given(desk) == 1


async def test_two_people_with_the_same_key_do_not_meet(desk: Reception) -> None:
    for who, name in (("operator", "ann"), ("reviewer", "bea")):
        turned = await desk.post("/switches", {"setting": "stop", "agent": who}, who, idempotency_key="k1")
        assert name in {each["by"] for each in turned["switches"]}
    assert len((await desk.get("/switches"))["switches"]) == 2


async def test_an_error_changed_nothing_and_frees_the_key(desk: Reception) -> None:
    await desk.post("/grants", {**GRANT, "life": "long"}, "operator", 422, idempotency_key="k1")
    await desk.post("/grants", GRANT, "reviewer", 403, idempotency_key="k1")
    await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
    assert await given(desk) == 1


async def test_who_died_holds_the_key_for_a_minute_and_not_longer(desk: Reception) -> None:
    await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
    kept = await desk.reply("ann")
    store = desk.premises.store

    async def claimed(seconds: float) -> None:
        now = await store.now()
        current = await desk.reply("ann")
        about = {"stage": "running", "request": kept.about["request"], "since": now.timestamp() - seconds}
        moved = dataclasses.replace(current, version=current.version + 1, about=about)
        await store.transact("default", None, lambda _: Change(credentials=(moved,)))

    await claimed(ABANDONED_AFTER.total_seconds() - 30)
    problem = await desk.post("/grants", GRANT, "operator", 409, idempotency_key="k1")
    assert "under way" in problem["detail"]
    await claimed(ABANDONED_AFTER.total_seconds() + 1)
    await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
    assert (await desk.reply("ann")).about["stage"] == "kept"


async def test_an_answer_is_kept_sealed(desk: Reception) -> None:
    request = await desk.asked(note="the blue folder")
    word = {"word": "approve", "seen_digest": request.shown_digest}
    path = f"/requests/{request.id}/decision"
    first = await desk.post(path, word, idempotency_key="k1")
    kept = await desk.reply("bea")
    assert first["request"]["args"] == {"note": "the blue folder"}
    assert "blue" not in json.dumps(dict(kept.about))
    assert await desk.post(path, word, idempotency_key="k1") == first


async def test_a_secret_is_given_once_and_kept_nowhere(desk: Reception) -> None:
    made = await desk.post("/tokens", {"agent": "mopper"}, "operator", 201, idempotency_key="k1")
    problem = await desk.post("/tokens", {"agent": "mopper"}, "operator", 409, idempotency_key="k1")
    assert "given once" in problem["detail"]
    kept = await desk.reply("ann")
    assert kept.about["stage"] == "given"
    assert made["secret"] not in json.dumps(dict(kept.about))
    tokens = (await desk.get("/tokens", "operator"))["tokens"]
    assert [each["agent"] for each in tokens].count("mopper") == 1


async def test_what_is_no_key_is_refused(desk: Reception) -> None:
    for key in ("", "x" * 201, "\x01"):
        answer = await desk.call("operator", "POST", "/grants", GRANT, idempotency_key=key)
        assert answer.status_code == 400
    assert await given(desk) == 0


async def test_nobody_gets_an_answer_that_was_kept_for_somebody(desk: Reception) -> None:
    await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
    assert (await desk.call("none", "POST", "/grants", GRANT, idempotency_key="k1")).status_code == 401
    assert (await desk.call("agent", "POST", "/grants", GRANT, idempotency_key="k1")).status_code == 403


async def test_a_kept_answer_is_no_news_for_whoever_listens(desk: Reception) -> None:
    heard: list[str] = []
    stop = desk.premises.store.watch(lambda changed: heard.extend(changed or ()))
    try:
        await desk.post("/grants", GRANT, "operator", 201, idempotency_key="k1")
        async with asyncio.timeout(PATIENCE):
            while not any(key.startswith("grant:") for key in heard):
                await asyncio.sleep(0.005)
    finally:
        stop()
    assert not any(key.startswith("identity:") for key in heard)


async def test_a_session_that_is_begun_is_kept_in_no_reply(desk: Reception) -> None:
    link = await desk.identities.link(Principal("ann"), "bea")
    began = await desk.post("/sessions", {"link": link}, "operator", 201, idempotency_key="k1")
    kept = await desk.reply("ann")
    assert kept.about["stage"] == "given"
    assert began["session"] not in json.dumps(dict(kept.about))
