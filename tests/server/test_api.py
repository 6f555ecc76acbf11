"""The API for people: what each call does, on both databases. Every answer is held against the OpenAPI document."""

import asyncio
import json
from typing import Any

import pytest
from markupsafe import escape

from assentry.core.receipt import check_receipt
from assentry.engine.notary import verify_export
from assentry.errors import RunStopped
from tests.server.reception import POLICY, RISKY, Reception
from tests.stage import PATIENCE


def shown(request: Any, **more: Any) -> dict[str, Any]:
    return {"id": request.id, "seen_digest": request.shown_digest, **more}


async def test_looking_changes_nothing_and_says_which_version_was_seen(desk: Reception) -> None:
    request = await desk.asked(shelf=1)
    answer = await desk.call("reviewer", "GET", f"/requests/{request.code}")
    card = answer.json()
    assert answer.headers["etag"] == f'"{request.version}"'
    assert (card["version"], card["you"], card["why_not"]) == (request.version, "bea", "")
    assert card["request"]["args"] == {"shelf": 1}
    listed = await desk.get("/requests")
    assert [each["code"] for each in listed["requests"]] == [request.code]
    assert (await desk.get(f"/requests/{request.code}"))["version"] == request.version
    assert "team:platform" in (await desk.get(f"/requests/{request.code}", "other team"))["why_not"]


async def test_a_decision_that_insists_on_a_version_is_refused_once_anything_happened(desk: Reception) -> None:
    request = await desk.asked("merge_branch", name="main")
    word = {"word": "approve", "seen_digest": request.shown_digest}
    path = f"/requests/{request.code}/decision"
    await desk.post(path, word, "operator", if_match=f'"{request.version}"')
    problem = await desk.post(path, word, status=412, if_match=f'"{request.version}"')
    assert problem["type"] == "/problems/stale"
    assert (await desk.get(f"/requests/{request.code}"))["request"]["state"] == "pending"
    await desk.post(path, word, status=412, if_match='W/"2", "nonsense"')
    done = await desk.post(path, word, if_match=f'"{request.version + 1}"')
    assert done["request"]["state"] == "approved"


async def test_of_two_decisions_on_one_version_only_one_stands(desk: Reception) -> None:
    request = await desk.asked("merge_branch", name="main")
    word = {"word": "approve", "seen_digest": request.shown_digest}
    path, tag = f"/requests/{request.code}/decision", f'"{request.version}"'
    answers = await asyncio.gather(
        *(desk.call(who, "POST", path, word, if_match=tag) for who in ("operator", "reviewer"))
    )
    assert sorted(each.status_code for each in answers) == [200, 412]


async def test_many_of_one_shape_are_decided_each_on_its_own_digest(desk: Reception) -> None:
    requests = [await desk.asked(shelf=number) for number in range(4)]
    await desk.post(f"/requests/{requests[1].id}/decision", {"word": "deny", "reason": "no"}, "operator")
    items = [shown(each) for each in requests]
    items[2]["seen_digest"] = requests[3].shown_digest
    done = await desk.post("/decisions", {"word": "approve", "items": items})
    assert [each["ok"] for each in done["items"]] == [True, False, False, True]
    assert [each["state"] for each in done["items"]] == ["approved", "denied", "pending", "approved"]
    assert done["items"][1]["problem"]["type"] == "/problems/already-decided"
    assert done["items"][2]["problem"]["type"] == "/problems/stale"
    assert done["decided"] == 2


@pytest.mark.parametrize("odd", ["other action", "other agent", "critical", "twice", "question"])
async def test_one_of_another_shape_and_nothing_is_decided(desk: Reception, odd: str) -> None:
    first = await desk.asked(shelf=1)
    match odd:
        case "other action":
            second = await desk.asked("paint_shelf", shelf=1)
        case "other agent":
            second = await desk.asked(agent="mopper", shelf=1)
        case "critical":
            second = await desk.asked("launch_rocket", shelf=1)
        case "question":
            task = asyncio.create_task(desk.gate.ask("Which shelf?", agent="sweeper"))
            second = await waiting_question(desk)
            task.cancel()
        case _:
            second = first
    problem = await desk.post(
        "/decisions", {"word": "deny", "reason": "no", "items": [shown(first), shown(second)]}, status=422
    )
    assert (problem["item"], problem["code"]) == (2, second.code)
    assert "nothing was decided" in problem["detail"]
    assert (await desk.get(f"/requests/{first.code}"))["request"]["state"] == "pending"


async def waiting_question(desk: Reception) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            page = await desk.desk.inbox.page()
            if found := [each for each in page.requests if each.ask.question is not None]:
                return found[0]
            await asyncio.sleep(0.005)


async def test_what_was_seen_reviewed_and_taken_back_is_on_record(desk: Reception) -> None:
    request = await desk.asked(shelf=1)
    await desk.post(f"/requests/{request.code}/seen", who="other team")
    assert (await desk.get(f"/requests/{request.code}"))["version"] == request.version
    await desk.post(f"/requests/{request.code}/seen")
    assert (await desk.get(f"/requests/{request.code}"))["version"] == request.version + 1
    ran = await desk.carried_out("note_visit", text="hello")
    assert [each["code"] for each in (await desk.get("/requests?review=true"))["requests"]] == [ran.code]
    done = await desk.post(f"/requests/{ran.code}/review", {"opinion": "flagged", "note": "should have asked"})
    assert done["request"]["review"] == "flagged"
    assert (await desk.post(f"/requests/{ran.code}/undo", status=409))["type"] == "/problems/conflict"
    finding = {"finding": "done"}
    assert (await desk.post(f"/requests/{ran.code}/reconcile", finding, status=409))["state"] == "done"

    @desk.gate.guard(name="stack_boxes", risk="risky", undo=lambda: None)
    async def stack() -> str:
        return "stacked"

    with desk.gate.context(agent="sweeper"):
        call = asyncio.create_task(stack())
    async with asyncio.timeout(PATIENCE):
        while not (found := (await desk.get("/requests?action=stack_boxes"))["requests"]):
            await asyncio.sleep(0.005)
    card = found[0]
    await desk.post(f"/requests/{card['id']}/decision", {"word": "approve", "seen_digest": card["digest"]})
    assert await call == "stacked"
    assert (await desk.post(f"/requests/{card['id']}/undo", {"reason": "wrong"}))["request"]["state"] == "undo asked"


async def test_a_grant_is_previewed_given_used_and_revoked(desk: Reception) -> None:
    for number in range(3):
        await desk.asked(shelf=number)
    await desk.asked("paint_shelf", shelf=9)
    terms = {"actions": ["tidy_*"], "agents": ["sweeper"], "life": "2h", "limit": 2, "condition": "args.shelf < 2"}
    seen = await desk.post("/grants/preview", terms)
    assert (seen["looked_at"], seen["covered"]) == (4, 2)
    assert [each["covered"] for each in seen["requests"]] == [False, False, True, True]
    assert seen["requests"][0]["why_not"] == "it is for other actions"
    assert (await desk.get("/grants"))["grants"] == []
    grant = (await desk.post("/grants", terms, "operator", 201))["grant"]
    assert (grant["granted_by"], grant["limit"], grant["used"]) == ("ann", 2, 0)
    assert [each["id"] for each in (await desk.get("/grants"))["grants"]] == [grant["id"]]
    ended = await desk.post(f"/grants/{grant['id']}/revoke", who="operator")
    assert ended["grant"]["revoked_at"]
    assert (await desk.get("/grants"))["grants"] == []
    assert len((await desk.get("/grants?ended=true"))["grants"]) == 1
    bad = await desk.post("/grants", {**terms, "condition": "args.shelf <"}, "operator", 422)
    assert bad["type"] == "/problems/policy-error"


async def test_approving_and_allowing_similar_covers_the_next_and_never_what_is_critical(desk: Reception) -> None:
    request = await desk.asked(shelf=1)
    similar = {"seen_digest": request.shown_digest, "limit": 1, "life": "1h"}
    path = f"/requests/{request.code}/allow-similar"
    await desk.post(path, {**similar, "seen_digest": "0" * 64}, "operator", 409)
    assert (await desk.get("/grants"))["grants"] == []
    done = await desk.post(path, similar, "operator")
    assert done["request"]["state"] == "approved"
    assert (done["grant"]["actions"], done["grant"]["agents"], done["grant"]["max_risk"]) == (
        ["tidy_shelf"], ["sweeper"], "risky",
    )  # fmt: skip
    await desk.gate._judgement.refresh()
    ran = await desk.carried_out("tidy_shelf", shelf=2)
    assert ran.candidate.verdict.grant == done["grant"]["id"]
    long = await desk.asked("tidy_" + "shelf" * 50, shelf=3)
    await desk.post(f"/requests/{long.code}/allow-similar", {**similar, "seen_digest": long.shown_digest}, "operator")
    rocket = await desk.asked("launch_rocket", to="moon")
    refused = {**similar, "seen_digest": rocket.shown_digest}
    assert "critical" in (await desk.post(f"/requests/{rocket.code}/allow-similar", refused, "operator", 422))["detail"]


async def test_a_head_of_the_front_page_is_answered_like_a_get(desk: Reception) -> None:
    got, head = await desk.client.get("/"), await desk.client.head("/")
    assert head.status_code == got.status_code != 405


async def test_the_stop_switch_holds_and_lets_go(desk: Reception) -> None:
    turned = await desk.post("/switches", {"setting": "stop", "agent": "sweeper", "reason": "wrong shelf"})
    assert [(each["agent"], each["setting"], each["by"]) for each in turned["switches"]] == [("sweeper", "stop", "bea")]
    assert turned["withdrawn"] == 0
    assert (await desk.get("/switches"))["switches"] == turned["switches"]
    everything = await desk.post("/switches", {"setting": "pause", "everything": True})
    assert len(everything["switches"]) == 2
    await desk.post("/switches", {"setting": "go", "everything": True})
    assert (await desk.post("/switches", {"setting": "go", "agent": "sweeper"}))["switches"] == []
    for wrong in ({"agent": "a", "everything": True}, {}, {"agent": "*"}):
        await desk.post("/switches", {"setting": "stop", **wrong}, status=422)


async def test_runs_are_listed_told_and_held(desk: Reception) -> None:
    with pytest.raises(RunStopped, match="enough"):
        await a_run_that_is_held(desk)
    assert (await desk.get("/runs"))["runs"] == []
    assert len((await desk.get("/runs?ended=true"))["runs"]) == 1


async def a_run_that_is_held(desk: Reception) -> None:
    async with desk.gate.run("Tidy up", agent="sweeper", patience=0) as run:
        await desk.gate.propose("tidy_shelf", {"shelf": 1}, declared=RISKY)
        listed = await desk.get("/runs")
        assert [each["code"] for each in listed["runs"]] == [run.code]
        told = await desk.get(f"/runs/{run.code}/timeline")
        assert [step["action"] for step in told["steps"]] == ["tidy_shelf"]
        assert (await desk.post(f"/runs/{run.code}/pause", {"reason": "wait"}))["run"]["state"] == "paused"
        assert (await desk.post(f"/runs/{run.code}/go"))["run"]["state"] == "running"
        await desk.post(f"/runs/{run.code}/go", status=409)
        assert (await desk.post(f"/runs/{run.code}/stop", {"reason": "enough"}))["run"]["state"] == "stopping"


async def test_the_log_is_read_page_by_page_verified_exported_and_receipted(desk: Reception) -> None:
    request = await desk.asked(shelf=1)
    await desk.post(
        f"/requests/{request.id}/decision", {"word": "approve", "seen_digest": request.shown_digest, "note": "fine"}
    )
    kinds, before = [], ""
    while True:
        page = await desk.get(f"/log?limit=2{before}")
        kinds += [each["kind"] for each in page["entries"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert kinds[0] == "request.decided"
    assert "policy.applied" in kinds
    about = await desk.get(f"/log?request={request.code}&kind=request.decided")
    assert [each["says"] for each in about["entries"]] == [f"{request.code} tidy_shelf: approved by bea"]
    receipt = await desk.call("reviewer", "POST", f"/requests/{request.code}/receipt")
    keys = desk.premises.keys.public_keys()
    assert check_receipt(receipt.text, keys).request == request.id
    export = await desk.call("reviewer", "POST", "/log/export")
    checked = verify_export(export.text.splitlines(keepends=True))
    assert checked.report.ok
    found = await desk.get("/log/verification")
    assert found["ok"]
    assert found["entries"] >= len(kinds)
    assert found["sealed"] > 0


async def test_people_are_told_with_what_they_may_do(desk: Reception) -> None:
    people = {each["name"]: each for each in (await desk.get("/people"))["people"]}
    assert {name: each["operates"] for name, each in people.items()} == {"ann": True, "bea": False, "cem": False}
    assert people["ann"]["agents"] == ["sweeper"]
    assert (await desk.get("/me", "other team"))["teams"] == ["billing"]


async def test_a_token_is_shown_once_works_and_ends(desk: Reception) -> None:
    given = await desk.post("/tokens", {"agent": "mopper", "life": "8h", "note": "for the demo"}, "operator", 201)
    desk.secrets["mopper"] = given["secret"]
    listed = (await desk.get("/tokens", "operator"))["tokens"]
    assert given["token"] in listed
    assert given["secret"] not in json.dumps(listed)
    assert (await desk.call("mopper", "GET", "/requests")).status_code == 403
    ended = await desk.post(f"/tokens/{given['token']['id']}/end", who="operator")
    assert not ended["token"]["live"]
    assert (await desk.call("mopper", "GET", "/requests")).status_code == 401
    for name in ("ann", "*"):
        await desk.post("/tokens", {"agent": name}, "operator", 422)


async def test_the_policy_is_read_checked_explained_and_changed_on_record(desk: Reception) -> None:
    shown = await desk.get("/policy")
    assert (shown["version"], shown["text"]) == (1, POLICY)
    new = POLICY.replace("quorum: 2, ", "")
    checked = await desk.post("/policy/check", {"text": new})
    assert checked["ok"]
    assert any("two" in each for each in checked["changes"]), checked
    wrong = await desk.post("/policy/check", {"text": "rules: 7"})
    assert not wrong["ok"]
    assert wrong["complaints"]
    told = await desk.post("/policy/explain", {"action": "launch_rocket", "args": {"to": "moon"}})
    assert (told["gate"], told["rule"]) == ("manual", "launch")
    mine = {"action": "launch_rocket", "text": "autonomy: cautious"}
    assert (await desk.post("/policy/explain", mine))["policy"] == "the text given"
    await desk.post("/policy", {"text": "rules: 7"}, "operator", 422)
    await desk.post("/policy", {"text": new, "based_on": 7}, "operator", 412)
    locked = "people:\n  bea: {roles: [operator]}\n"
    assert "change it back" in (await desk.post("/policy", {"text": locked}, "operator", 409))["detail"]
    applied = await desk.post("/policy", {"text": new, "based_on": 1}, "operator")
    assert (applied["version"], applied["applied"]) == (2, True)
    assert not (await desk.post("/policy", {"text": new}, "operator"))["applied"]
    history = (await desk.get("/policy/history"))["versions"]
    assert [(each["version"], each["applied_by"]) for each in history] == [(2, "ann"), (1, "root")]
    assert (await desk.get("/policy?version=1"))["text"] == POLICY
    assert (await desk.call("reviewer", "GET", "/policy?version=9")).status_code == 404


async def test_a_quorum_that_nobody_can_meet_is_refused_and_explain_names_who_can_decide(desk: Reception) -> None:
    first = "rules:\n  - {name: alone, actions: [drop_table], gate: hard, reviewers: [ann], quorum: 2}\n"
    alone = POLICY.replace("rules:\n", first)
    checked = await desk.post("/policy/check", {"text": alone})
    assert not checked["ok"]
    says = 'rule "alone": its requests can never be approved: needs 2 of ann: ann, so only 1 can decide'
    assert says in checked["complaints"][0]
    refused = await desk.post("/policy", {"text": alone}, "operator", 422)
    assert says in refused["detail"]
    assert (await desk.get("/policy"))["version"] == 1
    fine = alone.replace("reviewers: [ann], quorum: 2", "reviewers: [ann]")
    dead = fine + "  - {name: never, actions: [merge_x], gate: run}\n"
    warnings = (await desk.post("/policy/check", {"text": dead}))["warnings"]
    assert any(
        'rule "never": is never reached, because rule "two" above matches all of it' in each for each in warnings
    )
    told = await desk.post("/policy/explain", {"action": "drop_table", "text": fine})
    assert (told["deciders"]["able"], told["deciders"]["enough"]) == (["ann"], True)
    assert "approvals: needs 1 of ann: ann" in told["lines"]


async def test_the_page_of_the_api_lists_every_operation(desk: Reception) -> None:
    page = await desk.client.get("/api")
    assert page.status_code == 200
    assert "<script" not in page.text.replace('<script type="module" src="/static/', "")
    for path, operations in desk.app.openapi()["paths"].items():
        for operation in operations.values():
            assert escape(operation["summary"]) in page.text
        assert path in page.text


async def test_every_operation_is_described_so_that_a_person_would_enjoy_it(desk: Reception) -> None:
    document = desk.app.openapi()
    described = {tag["name"]: tag["description"] for tag in document["tags"]}
    seen: set[str] = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = f"{method} {path}"
            assert operation["summary"], name
            assert operation["description"], name
            assert all(described[tag] for tag in operation["tags"]), f"{name}: say in described.TAGS what its tag means"
            assert operation["operationId"] not in seen, f"{name}: {operation['operationId']} is taken"
            seen.add(operation["operationId"])
            good = [told for status, told in operation["responses"].items() if status.startswith("2")]
            assert good, name
            assert all(each.get("schema") for one in good for each in one.get("content", {}).values()), name
            if path.startswith("/api/v1"):
                assert "security" in operation, name
                assert "application/problem+json" in operation["responses"]["4XX"]["content"], name
            if method == "post":
                assert any(each["name"].lower() == "idempotency-key" for each in operation["parameters"]), name
