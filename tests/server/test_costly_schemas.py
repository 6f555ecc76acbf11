"""What an agent sends costs the server little: schemas that take long to check, wide lists, and names that are secrets."""

# ruff: noqa: F811  fixtures that are imported by name

import asyncio
import re
import time
from typing import Any

import httpx
import pytest

from assentry.engine.schemas import check_fits
from assentry.errors import InvalidDecision
from assentry.server.looks import values
from assentry.server.looks.values import any_folded, arguments, opened, value_look
from tests.remote.place import Place, place  # noqa: F401  a fixture
from tests.server.reception import Reception

TOKEN = "AKIA" + "ABCDEFGH12345678"
PAGE = {"accept": "text/html"}


def of_items(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"xs": {"type": "array", "items": items}}}


COSTLY = of_items({"allOf": [{"minimum": 0}] * 400})


def refused(answer: httpx.Response, words: str) -> None:
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]
    assert TOKEN not in answer.text


async def test_a_stranger_proposes_nothing_that_takes_long_to_check(place: Place) -> None:
    said = {"action": "tidy_up", "args": {"xs": [1] * 5_000}, "arguments": COSTLY}
    async with place.agent() as agent:
        refused(await agent.post("/proposals", json=said), "take too long")
        small = {**said, "args": {"xs": [1] * 100}}
        assert (await agent.post("/proposals", json=small)).status_code == 201
        long = {"action": "tidy_up", "args": {"xs": ["a"] * 10_000}, "arguments": of_items({"type": "string"})}
        assert (await agent.post("/proposals", json=long)).status_code == 201


@pytest.mark.parametrize("first", [1, -1])
async def test_a_change_that_takes_long_to_check_is_refused_and_nobody_waits_for_it(
    desk: Reception, first: int
) -> None:
    asked = await desk.gate.propose("tidy_shelf", {"xs": [first] * 5_000}, agent="sweeper", schema=COSTLY)
    request = asked.request
    assert request is not None
    began = time.process_time()
    body = {"word": "modify", "args": {"xs": [first] * 4_999}, "seen_digest": request.shown_digest}
    changing = asyncio.create_task(desk.call("reviewer", "POST", f"/requests/{request.id}/decision", body))
    await asyncio.sleep(0)
    assert (await desk.client.get("/healthz")).status_code == 200
    answer = await changing
    assert time.process_time() - began < 5
    assert answer.status_code == 422
    assert ("too long" if first > 0 else "must be at least") in answer.json()["detail"]


def refs(depth: int) -> dict[str, Any]:
    names = [f"#/$defs/{number}" for number in range(depth + 1)]
    inner = {str(number): {"allOf": [{"$ref": names[number + 1]}] * 2} for number in range(depth)}
    return {"$defs": {**inner, str(depth): {"type": "object"}}, "$ref": names[0]}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"xs": [1] * 5_000}, COSTLY),
        ({"xs": [[1, 2]] * 5_000}, of_items({"enum": [[1, 3]] * 900 + [[1, 2]]})),
        ({"xs": [{str(n): n for n in range(1_000)}] * 20}, of_items({"allOf": [{"additionalProperties": True}] * 400})),
        ({"xs": [[1, "a"]] * 5_000}, {"properties": {"xs": {"uniqueItems": True}}}),
        ({"xs": [list(range(1_000))] * 20}, of_items({"allOf": [{"contains": {"minimum": 1}}] * 200})),
        ({}, refs(40)),
    ],
    ids=["allOf", "enum", "additionalProperties", "uniqueItems", "contains", "$ref"],
)  # fmt: skip
def test_every_check_ends_soon(value: dict[str, Any], schema: dict[str, Any]) -> None:
    check_fits({"xs": []}, of_items({}), "arguments")  # the library is loaded
    began = time.thread_time()
    with pytest.raises(InvalidDecision, match="too long"):
        check_fits(value, schema, "arguments")
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    ("value", "items"),
    [(["a"] * 10_000, {"type": "string"}), ([{"a": "x", "b": 1}] * 3_000, {"properties": {"a": {"type": "string"}}}),
     (["de"] * 2_000, {"enum": [f"{n}" for n in range(249)] + ["de"]})],
)  # fmt: skip
def test_what_is_only_long_is_checked(value: list[Any], items: dict[str, Any]) -> None:
    check_fits({"xs": value}, of_items(items), "arguments")
    with pytest.raises(InvalidDecision, match=rf"`xs\.{len(value)}[`.]"):
        check_fits({"xs": [*value, {"a": 7}]}, of_items({**items, "not": {"const": {"a": 7}}}), "arguments")


# Names


async def test_no_name_that_an_agent_gives_is_a_secret(place: Place) -> None:
    delete = {"action": "delete_files", "args": {"paths": ["/a"]}}
    async with place.agent() as agent:
        run = (await agent.post("/runs", json={"goal": "Tidy up", "key": "tidy"})).json()
        told = (await agent.post("/proposals", json=delete)).json()
        await place.approve(told["id"])
        stop = {"fence": run["fence"], "args": {"checkpoint": "ready"}}
        for path, body in (
            ("/proposals", {**delete, "action": TOKEN}),
            ("/proposals", {**delete, "action": f"delete {TOKEN}"}),
            ("/proposals", {**delete, "key": TOKEN}),
            ("/proposals", {**delete, "draft_of": TOKEN}),
            ("/proposals", {**delete, "attempt": TOKEN}),
            (f"/proposals/{told['id']}/begin", {"attempt": TOKEN}),
            ("/questions", {"text": "Which?", "key": TOKEN}),
            ("/questions", {"text": "Which?", "draft_of": TOKEN}),
            ("/runs", {"goal": "x", "key": TOKEN}),
            ("/runs", {"goal": "x", "attempt": TOKEN}),
            (f"/runs/{run['id']}/enter", {"attempt": TOKEN}),
            (f"/runs/{run['id']}/stops", {**stop, "key": TOKEN}),
            (f"/runs/{run['id']}/stops", {**stop, "draft_of": TOKEN}),
        ):
            refused(await agent.post(path, json=body), "looks like a secret")
        for path, body in (("/proposals", delete), ("/runs", {"goal": "x"})):
            refused(await agent.post(path, json=body, headers={"Idempotency-Key": TOKEN}), "looks like a secret")
        assert (await agent.post(f"/proposals/{told['id']}/begin", json={"attempt": "first"})).status_code == 200
    entries = await place.desk.store.entries("default")
    assert not any(TOKEN in entry.text for entry in entries)


# Cards


async def test_a_wide_list_makes_no_large_card_and_all_of_it_is_there(desk: Reception) -> None:
    asked = await desk.asked(paths=[f"file {number}" for number in range(50_000)])
    page = await desk.client.get(f"/r/{asked.code}", headers={**await desk.browsing(), **PAGE})
    assert page.status_code == 200
    assert page.text.count("<li>") < values.MOST_DRAWN + 200
    assert "49,500 more that are not drawn one by one" in page.text
    assert len(page.text) < 3_000_000
    raw = re.findall(r'<pre class="raw">(.*?)</pre>', page.text, re.DOTALL)
    assert len(raw) == 2
    assert all("file 49999" in each for each in raw)
    assert re.search(r"data-needs-open disabled[^>]*><kbd>a</kbd> Approve", page.text)


@pytest.mark.parametrize(
    "args",
    [
        {"xs": [str(n) for n in range(20_000)]},
        {"xs": {f"k{n}": n for n in range(20_000)}},
        {f"k{n}": n for n in range(20_000)},
        {"xs": [[f"{n} {m}" for m in range(200)] for n in range(200)]},
        {"xs": [{"a": {str(m): [m] for m in range(40)}} for _ in range(300)]},
    ],
    ids=["list", "object", "arguments", "lists in a list", "objects in a list"],
)
def test_what_is_not_drawn_is_there_folded(args: dict[str, Any]) -> None:
    looks = arguments(args)
    assert any_folded(looks)
    assert pieces(looks) < 10_000
    text = said(looks)
    for word in words(args):
        assert word in text, word
    assert not any_folded(opened(looks))


def test_what_is_narrow_is_drawn_as_before() -> None:
    look = value_look([str(number) for number in range(values.MOST_DRAWN)])
    assert [part.text for part in look.parts] == [str(number) for number in range(values.MOST_DRAWN)]
    wider = value_look([1] * (values.MOST_DRAWN + 1))
    assert (wider.count, len(wider.parts), wider.parts[-1].folded) == (501, 501, True)


def pieces(looks: tuple[values.Look, ...]) -> int:
    return sum(1 + pieces(look.parts) for look in looks)


def said(looks: tuple[values.Look, ...]) -> set[str]:
    found: set[str] = set()
    for look in looks:
        found |= {look.name, *re.findall(r"[\w ]+", look.text.replace(",", "") if look.form == "number" else look.text)}
        found |= said(look.parts)
    return {word.strip() for word in found}


def words(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(word for each in value.values() for word in words(each))}
    if isinstance(value, list):
        return {word for each in value for word in words(each)}
    return {str(value)}
