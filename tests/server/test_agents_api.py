"""Agents over HTTP: what they may do, what they hear, and what does not exist for them."""

# ruff: noqa: F811  fixtures that are imported by name

import asyncio
import json
import uuid
from typing import Any

import httpx
import pytest

from assentry.core.authority import Principal
from assentry.core.credential import CredentialKind
from assentry.core.request import State
from assentry.core.switch import Setting
from assentry.engine.oversight import Oversight
from assentry.ports import Filter
from assentry.server.api.agent_runs import Stop, _headline
from tests.remote.place import Place, place  # noqa: F401  a fixture
from tests.stage import PATIENCE, stage

pytestmark = pytest.mark.both_databases

DELETE = {"action": "delete_files", "args": {"paths": ["/a", "/b"]}}


def ok(answer: httpx.Response, status: int = 200) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def problem(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    assert found["type"] == f"/problems/{name}"
    return found


async def test_what_only_reads_may_run_at_once(place: Place):
    async with place.agent() as agent:
        await place.policy("agents: {cleanup: {}}\n")
        told = ok(await agent.post("/proposals", json={"action": "list_files", "args": {"path": "/"}}))
        assert told["may_run"]
        assert told["id"] == ""


@pytest.mark.parametrize("action", ["get_rid_of_backups", "view_funds_move", "find_and_fire_employee", "export_report"])
async def test_what_a_stranger_calls_a_read_is_at_least_on_record(place: Place, action: str):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json={"action": action, "args": {"all": True}}), 201)
        assert told["id"]


async def test_what_is_answered_to_run_is_what_was_judged(place: Place):
    both = {"action": "read_file", "args": {"path": "/etc/shadow"}, "args_text": '{"path":"notes.txt"}'}
    async with place.agent() as agent:
        await place.policy("agents: {cleanup: {}}\n")
        assert "not both" in problem(await agent.post("/proposals", json=both), 422, "invalid-arguments")["detail"]
        told = ok(await agent.post("/proposals", json={"action": "read_file", "args_text": both["args_text"]}))
        assert told["args"] == {"path": "notes.txt"}


async def test_a_schema_of_very_many_parts_is_refused_at_once(place: Place):
    many = {"action": "tidy", "args": {}, "arguments": {"anyOf": [{}] * 15_000}}
    async with place.agent() as agent:
        assert "parts" in problem(await agent.post("/proposals", json=many), 422, "invalid-arguments")["detail"]


async def test_a_held_call_is_approved_begun_and_finished(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        assert (told["state"], told["may_run"], told["waits"]) == ("pending", False, True)
        early = problem(await agent.post(f"/proposals/{told['id']}/begin", json={}), 409, "conflict")
        assert "waits for a person" in early["detail"]
        waiting = place.start(agent.get(f"/proposals/{told['id']}", params={"wait": 50}))
        [request] = await place.waiting()
        assert (request.ask.agent, request.ask.asked_by) == ("cleanup", "agent:cleanup")
        await place.approve(request)
        outcome = ok(await asyncio.wait_for(waiting, PATIENCE))
        assert outcome["may_run"]
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={"attempt": "one"}))
        assert begun["args"] == DELETE["args"]
        again = ok(await agent.post(f"/proposals/{told['id']}/begin", json={"attempt": "one"}))
        assert again["fence"] == begun["fence"]  # the same attempt, which did not hear the first time
        other = await agent.post(f"/proposals/{told['id']}/begin", json={"attempt": "two"})
        problem(other, 409, "already-decided")
        ok(await agent.post(f"/proposals/{told['id']}/renew", json={"fence": begun["fence"]}))
        for _ in range(2):
            done = ok(await agent.post(f"/proposals/{told['id']}/finish", json={"fence": begun["fence"], "result": 2}))
        assert (done["state"], done["result"]) == ("done", 2)
        late = await agent.post(f"/proposals/{told['id']}/fail", json={"fence": begun["fence"], "error": "no"})
        problem(late, 409, "lease-lost")


async def test_a_denied_call_says_who_why_and_what_next(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        await place.deny(told["id"], "they are in use")
        outcome = ok(await agent.get(f"/proposals/{told['id']}", params={"wait": 20}))
        assert (outcome["state"], outcome["reason"]) == ("denied", "they are in use")
        assert "plan on without it" in outcome["told"]
        refused = problem(await agent.post(f"/proposals/{told['id']}/begin", json={}), 409, "denied")
        assert refused["reason"] == "they are in use"


async def test_what_a_person_changed_is_what_runs(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        await place.inbox.modify(place.me, told["id"], {"paths": ["/a"]})
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={}))
        assert begun["args"] == {"paths": ["/a"]}


async def test_a_retried_proposal_is_one_request(place: Place):
    async with place.agent() as agent:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        calls = [agent.post("/proposals", json=DELETE, headers=headers) for _ in range(5)]
        ids = {ok(answer, 201)["id"] for answer in await asyncio.gather(*calls)}
        assert len(ids) == 1
        assert len(await place.waiting()) == 1
        other = await agent.post("/proposals", json={**DELETE, "args": {"paths": ["/c"]}}, headers=headers)
        problem(other, 409, "conflict")


async def test_agents_do_not_see_each_others_requests_and_runs(place: Place):
    async with place.agent("cleanup") as one, place.agent("billing") as other:
        mine = ok(await one.post("/proposals", json={**DELETE, "key": "k"}), 201)
        run = ok(await one.post("/runs", json={"goal": "tidy", "key": "r"}), 201)
        looks = [
            other.get(f"/proposals/{mine['id']}"),
            other.post(f"/proposals/{mine['id']}/begin", json={}),
            other.post(f"/proposals/{mine['id']}/renew", json={"fence": 1}),
            other.post(f"/proposals/{mine['id']}/finish", json={"fence": 1}),
            other.post(f"/proposals/{mine['id']}/fail", json={"fence": 1, "error": "x"}),
            other.post(f"/proposals/{mine['id']}/cancel", json={}),
            other.get(f"/runs/{run['id']}"),
            other.get(f"/runs/{run['id']}/resumption"),
            other.post(f"/runs/{run['id']}/enter", json={}),
            other.post(f"/runs/{run['id']}/live", json={"fence": run["fence"]}),
            other.post(f"/runs/{run['id']}/notes", json={"fence": run["fence"], "spent": 1}),
            other.post(f"/runs/{run['id']}/stops", json={"fence": run["fence"], "args": {"checkpoint": "x"}}),
            other.post(f"/runs/{run['id']}/park", json={"fence": run["fence"]}),
            other.post(f"/runs/{run['id']}/finish", json={"fence": run["fence"]}),
            other.post(f"/runs/{run['id']}/fail", json={"fence": run["fence"], "error": "x"}),
            other.post(f"/runs/{run['id']}/cancel", json={}),
            other.post("/proposals", json={**DELETE, "run": run["id"], "run_fence": run["fence"], "key": "k"}),
            other.post("/runs", json={"goal": "x", "parent": run["id"]}),
        ]
        for answer in await asyncio.gather(*looks):
            problem(answer, 404, "not-found")
        # Not by another's name either: the run of a key outside runs is the agent itself.
        problem(
            await other.post("/proposals", json={**DELETE, "run": "cleanup", "run_fence": 1, "key": "k"}),
            404, "not-found",
        )  # fmt: skip
        assert ok(await other.get("/proposals", params={"key": "k", "run": "cleanup"}))["proposals"] == []
        assert ok(await one.get("/proposals", params={"key": "k"}))["proposals"][0]["id"] == mine["id"]


async def test_what_a_process_of_the_machine_asked_for_is_not_the_tokens(place: Place):
    gate = place.server.premises.gate
    assert gate is not None
    proposal = await gate.propose("delete_files", {"paths": ["/a"]}, agent="cleanup", key="local")
    assert proposal.request is not None
    async with place.agent("cleanup") as agent:
        problem(await agent.get(f"/proposals/{proposal.request.id}"), 404, "not-found")
        taken = await agent.post(
            "/proposals", json={"action": "delete_files", "args": {"paths": ["/a"]}, "key": "local"}
        )
        assert problem(taken, 409, "conflict")["detail"].startswith("this step was used by somebody else")


async def test_nothing_that_decides_answers_an_agent(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        api = agent.base_url.copy_with(path="/")
        # The paths come from the document that the server itself publishes.
        document = (await agent.get(str(api.join("/api/openapi.json")))).json()
        shown = (await place.inbox.brief(told["id"])).digest
        bodies: list[dict[str, Any]] = [
            {}, {"word": "approve", "seen_digest": shown}, {"word": "deny", "reason": "x", "seen_digest": shown},
        ]  # fmt: skip
        tried = 0
        for path, methods in document["paths"].items():
            for method in methods:
                if path.startswith("/api/v1/agent/") or method == "get":
                    continue
                real = path.replace("{request_id}", told["id"])
                for body in bodies:
                    answer = await agent.request(method, str(api.join(real)), json=body)
                    assert answer.status_code in (401, 403, 404, 405, 415, 422), (method, real, answer.status_code)
                    tried += 1
        assert tried >= 3
        assert (await place.in_state(told["id"], State.PENDING)).votes == ()


async def test_tokens_of_nobody_ended_ones_and_people_are_turned_away(place: Place):
    async with httpx.AsyncClient(base_url=f"{place.url}/api/v1/agent") as nobody:
        problem(await nobody.post("/proposals", json=DELETE), 401, "not-identified")
        wrong = {"Authorization": "Bearer aat_wrong.default"}
        problem(await nobody.post("/proposals", json=DELETE, headers=wrong), 401, "not-identified")


async def test_what_an_unlisted_agent_declares_can_only_raise(place: Place):
    harmless = {"reversible": True, "reach": "nothing", "outside": False, "money": False, "risk": "safe"}
    lies = {"says": "Nothing to see", "options": [{"label": "Fine"}], "if_denied": "x", "idempotent": True}
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json={**DELETE, "effect": harmless, **lies}), 201)
        assert told["waits"]
        assert sorted(told["ignored"]) == ["idempotent", "if_denied", "options", "says"]
        assert told["says"] != "Nothing to see"
        worse = {"action": "note_thing", "args": {"x": 1}, "effect": {"risk": "critical", "reversible": False}}
        assert ok(await agent.post("/proposals", json=worse), 201)["risk"] == "critical"
        await place.policy("agents: {cleanup: {}}\n")
        believed = await agent.post(
            "/proposals", json={**DELETE, "effect": harmless, "says": "Look at {paths}"}
        )  # fmt: skip
        assert ok(believed)["may_run"]


RUNS = "rules: [{name: fine, actions: ['delete_*'], gate: run}]\n"


async def test_an_agent_may_want_a_person_to_look_whatever_the_policy_says(place: Place):
    async with place.agent() as agent:
        await place.policy(RUNS)
        assert not ok(await agent.post("/proposals", json=DELETE), 201)["waits"]
        said = {**DELETE, "hold": True, "why": "SAFE: approved by the board"}
        assert ok(await agent.post("/proposals", json=said), 201)["waits"]
        [request] = await place.waiting()
        told = [trigger.says for trigger in request.candidate.verdict.triggers if trigger.name == "asked for"]
        assert told == ["the agent itself wants a person to look, whatever the policy says"]
        assert request.ask.claims["why"] == "SAFE: approved by the board"


async def test_gates_are_foreseen_without_arguments_and_nobody_hears_of_it(place: Place):
    costly = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    calls = [
        {"action": "delete_files", "description": "Deletes files for good."},
        {"action": "list_files", "effect": {"risk": "dangerous"}},
        {"action": "delete_files", "hold": True},
        {"action": "never"},
        {"action": "write_x", "arguments": costly},
        {"action": "write_x", "arguments": {"anyOf": [{}] * 1_500}},
    ]
    async with place.agent() as agent:
        assert ok(await agent.post("/foreseen", json={"calls": calls[:1]}))["gates"] == ["hard"]
        await place.policy(RUNS.replace("]\n", ", {name: no, actions: [never], gate: forbid}]\n"))
        told = ok(await agent.post("/foreseen", json={"calls": calls}))
        assert told["gates"] == ["watch", "hard", "hard", "forbid", "hard", None]
        assert not (await place.inbox.page(Filter())).requests
        problem(await agent.post("/foreseen", json={"calls": [{"action": "a"}] * 101}), 422, "invalid")
        problem(await agent.post("/foreseen", json={"calls": [{**DELETE}]}), 422, "invalid")


async def test_a_schema_from_a_stranger_must_be_cheap_to_check(place: Place):
    costly = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    async with place.agent() as agent:
        told = await agent.post("/proposals", json={"action": "write_x", "args": {"x": "a"}, "arguments": costly})
        assert "pattern" in problem(told, 422, "invalid-arguments")["detail"]


async def test_secrets_are_given_back_to_whoever_gave_them_and_to_nobody_else(place: Place):
    secret = "sk-live-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
    async with place.agent() as agent:
        said = {"action": "send_report", "args": {"to": "a@example.com", "api_key": secret}, "secret": ["api_key"]}
        answer = await agent.post("/proposals", json=said)
        told = ok(answer, 201)
        assert secret not in answer.text
        await place.approve(told["id"])
        assert secret not in (await agent.get(f"/proposals/{told['id']}")).text
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={}))
        assert begun["args"]["api_key"] == secret
        done = await agent.post(
            f"/proposals/{told['id']}/finish", json={"fence": begun["fence"], "result": f"sent with {secret}"}
        )
        assert secret not in done.text
        request = await place.in_state(told["id"], State.DONE)
        assert request.sealed == {}
        assert secret not in request.result_text


async def test_a_secret_in_a_plan_or_a_description_is_struck_out(place: Place):
    secret = "sk-live-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "Report", "plan": [{"says": f"log in with {secret}"}]}), 201)
        said = {**DELETE, "description": f"Deletes files. Uses {secret}.", "run": run["id"], "run_fence": run["fence"]}
        told = ok(await agent.post("/proposals", json={**said, "key": "delete"}), 201)
        store = place.server.premises.store
        request, kept = await store.request("default", told["id"]), await store.run("default", run["id"])
        assert request is not None
        assert kept is not None
        assert "Deletes files." in request.candidate.action.description
        assert kept.plan[0].says.startswith("log in with ⟨secret")
        assert secret not in f"{request} {kept}"


async def test_no_answer_with_a_secret_is_kept_for_a_repetition(place: Place):
    await place.policy("rules: [{name: watched, actions: ['write_*'], gate: watch}]\n")
    secret = "sk-live-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
    said = {"action": "write_note", "args": {"api_key": secret}, "secret": ["api_key"], "attempt": "one"}
    async with place.agent() as agent:
        headers = {"Idempotency-Key": "call-1"}
        first = ok(await agent.post("/proposals", json=said, headers=headers), 201)
        again = ok(await agent.post("/proposals", json=said, headers=headers), 201)
        assert (again["id"], again["fence"], again["args"]["api_key"]) == (first["id"], first["fence"], secret)
        for kind in CredentialKind:
            for each in await place.desk.store.credentials("default", kind):
                assert secret not in str(each)


async def test_an_agent_that_vanishes_leaves_an_unknown_outcome(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        await place.approve(told["id"])
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={"lease": 1}))
        await place.in_state(told["id"], State.UNKNOWN)
        again = await agent.post(f"/proposals/{told['id']}/begin", json={"attempt": "other"})
        problem(again, 409, "outcome-unknown")
        late = ok(await agent.post(f"/proposals/{told['id']}/finish", json={"fence": begun["fence"], "result": 1}))
        assert late["state"] == "done"  # under the same fence: it is still the one that began


async def test_a_question_is_answered(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/questions", json={"text": "Which?", "choices": ["a", "b"]}), 201)
        waiting = place.start(agent.get(f"/proposals/{told['id']}", params={"wait": 50}))
        await place.inbox.answer(place.me, told["id"], "b")
        assert ok(await asyncio.wait_for(waiting, PATIENCE))["answer"] == "b"
        problem(await agent.post(f"/proposals/{told['id']}/begin", json={}), 409, "conflict")


async def test_a_withdrawn_call_does_not_run(place: Place):
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        for _ in range(2):
            assert ok(await agent.post(f"/proposals/{told['id']}/cancel", json={}))["state"] == "cancelled"
        problem(await agent.post(f"/proposals/{told['id']}/begin", json={}), 409, "denied")


async def test_a_stopped_agent_is_told_so_and_a_paused_one_waits(place: Place):
    over = Oversight(place.desk.store, "default")
    async with place.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        await place.approve(told["id"])
        async for _ in over.hold(Principal("root"), "cleanup", Setting.PAUSE, "lunch"):
            pass
        await _heard(place, held=True)
        problem(await agent.post("/proposals", json={**DELETE, "key": "x"}), 409, "paused")
        problem(await agent.post(f"/proposals/{told['id']}/begin", json={}), 409, "paused")
        waiting = place.start(agent.post("/proposals", json={**DELETE, "key": "y"}, params={"wait": 50}))
        async for _ in over.release(Principal("root"), "cleanup"):
            pass
        ok(await asyncio.wait_for(waiting, PATIENCE), 201)
        async for _ in over.hold(Principal("root"), "cleanup", Setting.STOP, "enough"):
            pass
        await _heard(place, held=True)
        problem(await agent.post("/proposals", json={**DELETE, "key": "z"}), 409, "stopped")
        problem(await agent.post(f"/proposals/{told['id']}/begin", json={}), 409, "stopped")


async def _heard(place: Place, *, held: bool) -> None:
    gate = place.server.premises.gate
    assert gate is not None
    async with asyncio.timeout(PATIENCE):
        while (gate._judgement.held_up("cleanup") is not None) is not held:
            await asyncio.sleep(0.01)


async def test_a_waiting_call_is_let_go_when_the_server_ends(database: str):
    async with stage(database, Place, serves=True) as made, made.agent() as agent:
        told = ok(await agent.post("/proposals", json=DELETE), 201)
        waiting = made.start(agent.get(f"/proposals/{told['id']}", params={"wait": 55}))
        async with asyncio.timeout(PATIENCE):
            while not made.server.premises.agents._waiting:
                await asyncio.sleep(0.01)
        made.server.stop()
        assert ok(await asyncio.wait_for(waiting, PATIENCE))["state"] == "pending"


@pytest.mark.parametrize(
    "said",
    [
        {"args_text": "no JSON"},
        {"args_text": '{"x": {"$decimal": "x"}}'},
        {"args_text": "[1]"},
        {"args": {"x": "\ud800"}},
        {"action": "a\u0000b", "key": "\u0000"},
        {"arguments": {"properties": 5}, "says": "{x}"},
        {"run": "x\u0000", "run_fence": 1, "key": "k"},
    ],
)
async def test_nonsense_is_a_problem_of_the_caller(place: Place, said: dict[str, Any]):
    await place.policy("agents: {cleanup: {}}\n")
    async with place.agent() as agent:
        body = json.dumps({**DELETE, **said})
        told = await agent.post("/proposals", content=body, headers={"Content-Type": "application/json"})
        assert told.status_code < 500, told.text
        assert (await agent.get("/proposals/%00")).status_code == 404
        for scope in ({"actions": 5}, {"files": "x"}, {"files": []}, {"recipients": [5]}, {"": {}}):
            assert (await agent.post("/runs", json={"goal": "x", "scope": scope})).status_code < 500


@pytest.mark.parametrize("lease", [0, 601, "x"])
async def test_a_lease_is_neither_nothing_nor_for_ever(place: Place, lease: Any):
    async with place.agent() as agent:
        problem(await agent.post("/proposals", json={**DELETE, "lease": lease}), 422, "invalid")


async def test_no_word_of_an_agent_keeps_a_secret_in_the_clear(place: Place):
    secret = "password=hunter2hunter2"
    said = {
        **DELETE, "says": f"Delete with {secret}", "if_denied": f"else {secret}",
        "options": [{"label": f"Less {secret}", "consequence": f"then {secret}"}],
    }  # fmt: skip
    async with place.agent() as agent:
        await place.policy("agents: {cleanup: {}}\n")
        told = ok(await agent.post("/proposals", json=said), 201)
        found = await place.desk.store.request("default", told["id"])
        assert "Delete with" in repr(found)
        assert "Less" in repr(found)
        assert "hunter2" not in repr(found)


def test_a_secret_is_taken_out_of_a_headline_before_it_is_cut():
    key = "AKIA" + "ABCDEFGH12345678"
    said = Stop(fence=1, kind="checkpoint", args={"checkpoint": "x" * 87 + " " + key})
    assert "AKIAABC" not in _headline(said)
