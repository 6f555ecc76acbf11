"""The API for agents, runs: begun, parked, resumed, stopped, given up, by an agent that is only an HTTP client."""

# ruff: noqa: F811  fixtures that are imported by name

import asyncio

import pytest

from assentry.core.request import State
from assentry.core.run import RunState
from assentry.engine.oversight import Oversight
from tests.remote.place import Place, place  # noqa: F401  a fixture
from tests.server.test_agents_api import DELETE, ok, problem
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


async def test_what_a_run_spent_is_counted_once_however_often_it_is_told(place: Place):
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "x"}), 201)
        for _ in range(3):
            note = {"fence": run["fence"], "spent": 2}
            told = ok(await agent.post(f"/runs/{run['id']}/notes", json=note, headers={"Idempotency-Key": "note-1"}))
        assert float(told["spend"]) == 2
        assert float(ok(await agent.get(f"/runs/{run['id']}"))["spend"]) == 2


async def test_start_await_a_person_resume_complete(place: Place):
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "Tidy up", "key": "tidy-41", "plan": [{"says": "look"}]}), 201)
        held = {"run": run["id"], "run_fence": run["fence"]}
        problem(await agent.post("/proposals", json={**DELETE, **held}), 422, "invalid-arguments")
        told = ok(await agent.post("/proposals", json={**DELETE, **held, "key": "delete"}), 201)
        parked = ok(
            await agent.post(
                f"/runs/{run['id']}/park", json={"fence": run["fence"], "waits": [told["id"]], "state": {"step": 3}}
            )
        )
        assert (parked["state"], parked["ready"]) == ("parked", False)
        waiting = place.start(agent.get(f"/runs/{run['id']}", params={"wait": 50}))
        await place.approve(told["id"])
        assert ok(await asyncio.wait_for(waiting, PATIENCE))["ready"]
        entered = ok(await agent.post(f"/runs/{run['id']}/enter", json={"attempt": "again"}))
        assert entered["state"] == {"step": 3}
        assert entered["decided"][0]["id"] == told["id"]
        assert "goes on now" in entered["summary"]
        fence = entered["fence"]
        old = await agent.post(f"/proposals/{told['id']}/begin", json={"run_fence": run["fence"]})
        assert old.status_code == 409
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={"run_fence": fence}))
        ok(await agent.post(f"/proposals/{told['id']}/finish", json={"fence": begun["fence"], "result": "done"}))
        ok(
            await agent.post(
                f"/runs/{run['id']}/notes", json={"fence": fence, "observed": {"text": "2 gone"}, "spent": 1}
            )
        )
        for _ in range(2):
            over = ok(await agent.post(f"/runs/{run['id']}/finish", json={"fence": fence, "outcome": {"gone": 2}}))
        assert (over["state"], over["outcome"], float(over["spend"])) == ("finished", {"gone": 2}, 1)


async def test_a_checkpoint_stops_a_run(place: Place):
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "Tidy up"}), 201)
        stop = {"fence": run["fence"], "args": {"checkpoint": "halfway", "show": [1]}, "editable": ["show"]}
        told = ok(await agent.post(f"/runs/{run['id']}/stops", json=stop), 201)
        assert told["says"] == "Checkpoint, named by the agent “halfway”"
        await place.approve(told["id"])
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={"run_fence": run["fence"]}))
        ok(await agent.post(f"/proposals/{told['id']}/finish", json={"fence": begun["fence"]}))
        problem(await agent.post("/proposals", json={"action": "checkpoint"}), 422, "invalid-arguments")


async def test_an_agent_gives_itself_no_scope_unless_the_operator_vouches(place: Place):
    async with place.agent() as agent:
        said = {"goal": "x", "scope": {"actions": ["delete_*"]}}
        problem(await agent.post("/runs", json=said), 403, "not-allowed")
        await place.policy("agents: {cleanup: {}}\n")
        run = ok(await agent.post("/runs", json=said), 201)
        held = {"run": run["id"], "run_fence": run["fence"], "key": "1"}
        assert ok(await agent.post("/proposals", json={**DELETE, **held}), 201)["gate"] == "watch"


async def test_a_run_denied_as_a_whole_is_over_whatever_its_agent_does(place: Place):
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "Tidy up"}), 201)
        held = {"run": run["id"], "run_fence": run["fence"]}
        allowed = ok(await agent.post("/proposals", json={**DELETE, **held, "key": "1"}), 201)
        await place.approve(allowed["id"])
        denied = ok(await agent.post("/proposals", json={**DELETE, **held, "key": "2"}), 201)
        waits = ok(await agent.post("/proposals", json={**DELETE, **held, "key": "3"}), 201)
        await place.inbox.deny(place.me, denied["id"], "enough", stop=True)
        problem(await agent.post(f"/proposals/{allowed['id']}/begin", json={"run_fence": run["fence"]}), 409, "stopped")
        problem(await agent.post("/proposals", json={**DELETE, **held, "key": "4"}), 409, "stopped")
        found = await place.desk.store.run("default", run["id"])
        assert found is not None
        assert (found.state, found.by) == (RunState.STOPPING, place.me.name)
        other = await place.desk.store.request("default", waits["id"])
        assert other is not None
        assert other.state is State.CANCELLED


async def test_a_stopped_run_ends_at_its_next_call(place: Place):
    over = Oversight(place.desk.store, "default")
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "x"}), 201)
        held = {"run": run["id"], "run_fence": run["fence"]}
        found = await place.desk.store.run("default", run["id"])
        assert found is not None
        await over.pause(place.me, found)
        problem(await agent.post("/proposals", json={**DELETE, **held, "key": "1"}), 409, "paused")
        waiting = place.start(agent.get(f"/runs/{run['id']}", params={"wait": 50, "version": run["version"] + 1}))
        await over.go(place.me, found)
        assert ok(await asyncio.wait_for(waiting, PATIENCE))["state"] == "running"
        await over.stop(place.me, found, "enough")
        told = problem(await agent.post("/proposals", json={**DELETE, **held, "key": "1"}), 409, "stopped")
        assert "end here" in told["detail"]


async def test_a_run_given_up_withdraws_what_waits(place: Place):
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "x"}), 201)
        told = ok(
            await agent.post(
                "/proposals", json={**DELETE, "run": run["id"], "run_fence": run["fence"], "key": "1"}
            ), 201,
        )  # fmt: skip
        assert ok(await agent.post(f"/runs/{run['id']}/cancel", json={}))["state"] == "stopped"
        assert ok(await agent.get(f"/proposals/{told['id']}"))["state"] == "cancelled"


async def test_what_an_agent_proposed_in_its_run_begins_under_the_rules_that_allowed_it(place: Place):
    """Judged again when it begins, it is judged on the goal, the steps and the spending that it was proposed with."""
    await place.policy(
        "rules:\n"
        "  - {name: other goal, when: '!run.goal.startsWith(\"Tidy\")', gate: hard}\n"
        "  - {name: other standing, when: 'run.steps != 1 || run.spend != 1.25', actions: [move_files], gate: hard}\n"
        "  - {name: fine, actions: [move_files], gate: watch}\n"
    )
    async with place.agent() as agent:
        run = ok(await agent.post("/runs", json={"goal": "Tidy up"}), 201)
        held = {"run": run["id"], "run_fence": run["fence"]}
        note = {"action": "write_log", "args": {"line": "x"}, "key": "log", **held}
        ok(await agent.post("/proposals", json=note), 201)
        ok(await agent.post(f"/runs/{run['id']}/notes", json={"fence": run["fence"], "spent": 1.25}))
        move = {"action": "move_files", "args": {"files": ["a"]}, "key": "move", "cost": 1, **held}
        told = ok(await agent.post("/proposals", json=move), 201)
        assert told["state"] == "approved"
        begun = ok(await agent.post(f"/proposals/{told['id']}/begin", json={"run_fence": run["fence"]}))
        assert begun["state"] == "running"
