"""A call that begins is judged again on the very run that it was proposed in: its goal, steps, spending and scope."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from assentry.core.action import Declaration, Reach
from assentry.core.request import State
from assentry.engine.errands import Errand, LocalErrands
from assentry.errors import Denied, Refused
from assentry.ports import Filter
from assentry.stores.retention import purged
from tests.engine.conftest import House

pytestmark = pytest.mark.both_databases

RULES = {
    "goal": '!run.goal.startsWith("Tidy up")',
    "steps": "run.steps != 1",
    "spend": "run.spend != 1.25",
    "scope": "!has(run.scope.files) || run.scope.files < 5.0",
    "agent": 'run.agent != "bot"',
    "cost": "!has(action.cost) || action.cost > 2.0",
}
"""Each holds for nothing that the run of these tests proposes, and for every call that is judged without its run."""


def policy(name: str, *, without: str = "watch") -> str:
    return (
        f"rules:\n  - {{name: odd, actions: [move_files], when: '{RULES[name]}', gate: hard}}\n"
        f"  - {{name: fine, actions: [move_files], gate: {without}}}\n"
    )


async def underway(house: House, run: Any) -> None:
    """The run has made a step and spent something."""
    mild = Declaration(reversible=True, reach=Reach.LOCAL)
    await house.gate.propose("write_log", {"line": "x"}, agent="bot", declared=mild)
    await run.spent("1.25")


async def proposed(house: House, name: str) -> Any:
    await house.policy(policy(name))
    return await house.gate.propose("move_files", {"files": ["a"]}, agent="bot", cost=1.0)


@pytest.mark.parametrize("name", RULES)
async def test_a_proposal_that_policy_allows_begins(house: House, name: str) -> None:
    async with house.gate.run("Tidy up", agent="bot", scope={"files": 9}) as run:
        await underway(house, run)
        call = await proposed(house, name)
        assert call.request is not None
        assert call.request.state is State.APPROVED
        async with call.execution() as running:
            running.result = "moved"
        assert call.is_done


@pytest.mark.parametrize("name", ["goal", "cost"])
async def test_so_does_one_outside_of_runs(house: House, name: str) -> None:
    await house.policy(policy(name))
    said = {"agent": "bot", "cost": 1.0, "goal": "Tidy up the old files"}
    call = await house.gate.propose("move_files", {"files": ["a"]}, **said)
    async with call.execution() as running:
        running.result = "moved"
    assert call.is_done


@pytest.mark.parametrize("name", RULES)
async def test_a_guarded_call_that_was_approved_begins_under_the_policy_that_came_meanwhile(
    house: House, name: str
) -> None:
    @house.gate.guard(reversible=True, reach="local")
    async def move_files(files: list[str]) -> int:
        return len(files)

    async def agent() -> Any:
        async with house.gate.run("Tidy up", agent="bot", scope={"files": 9}) as run:
            await underway(house, run)
            return await move_files.with_(cost=1.0)(["a"])

    await house.policy("rules: [{name: all, actions: [move_files], gate: soft}]\n")
    call = house.start(agent())
    (request,) = await house.waiting()
    forbids = policy(name).replace("gate: hard", "gate: forbid")
    await house.policy(forbids)
    await house.inbox.approve(house.me, request.id)
    assert await call == 1


async def test_the_policy_of_now_still_stops_what_it_would_not_have_let_pass(house: House) -> None:
    async with house.gate.run("Tidy up", agent="bot", scope={"files": 9}):
        call = await proposed(house, "goal")
        await house.policy(
            "rules: [{name: no, actions: [move_files], when: 'run.goal.contains(\"Tidy\")', gate: hard}]\n"
        )
        with pytest.raises(Denied):
            async with call.execution():
                raise AssertionError("ran although policy wants a person")


@pytest.mark.parametrize("name", RULES)
async def test_a_worker_begins_a_detached_call_of_a_run(house: House, name: str) -> None:
    @house.gate.guard(reversible=True, reach="local", detached=True)
    async def move_files(files: list[str]) -> int:
        return len(files)

    await house.policy(policy(name))
    async with house.gate.worker(), house.gate.run("Tidy up", agent="bot", scope={"files": 9}) as run:
        await underway(house, run)
        assert await move_files.with_(cost=1.0)(["a"]) == 1


async def test_a_run_that_is_taken_again_begins_what_it_had_proposed(house: House) -> None:
    await house.policy(policy("goal"))

    async def interrupted() -> None:
        async with house.gate.run("Tidy up", key="tidy", agent="bot", scope={"files": 9}):
            await house.gate.propose("move_files", {"files": ["a"]}, key="one")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await interrupted()
    (first,) = await house.until(bool, Filter())
    async with house.gate.run("Tidy up", key="tidy", agent="bot", scope={"files": 9}):
        call = await house.gate.propose("move_files", {"files": ["a"]}, key="one")
        assert call.request.id == first.id
        async with call.execution() as running:
            running.result = "moved"
        assert call.is_done


async def test_changed_arguments_are_judged_in_the_run_too(house: House) -> None:
    """A person's change goes through the same rules as the proposal, with the run that it belongs to."""
    await house.policy(
        "rules:\n  - {name: tidying, actions: [move_files], when: 'run.goal.startsWith(\"Tidy\")', gate: hard}\n"
        "  - {name: else, actions: [move_files], gate: forbid}\n"
    )
    async with house.gate.run("Tidy up", agent="bot", scope={"files": 2}):
        call = await house.gate.propose("move_files", {"files": ["a"]}, agent="bot")
        changed = house.inbox.changed(call.request, {"files": ["a", "b"]})
        assert changed.verdict.rule == "tidying"
        beyond = house.inbox.changed(call.request, {"files": ["a", "b", "c"]})
        assert "scope" in {trigger.name for trigger in beyond.verdict.triggers}


async def test_a_proposal_is_charged_to_its_run_once(house: House) -> None:
    await house.policy(policy("goal"))
    async with house.gate.run("Tidy up", agent="bot", scope={"files": 9}):
        call = await house.gate.propose("move_files", {"files": ["a", "b"]}, agent="bot", cost=1.0)
        async with call.execution() as running:
            running.result = "moved"
        run = await house.run()
    assert (run.used["files"], run.spend) == (Decimal(2), Decimal(1))


async def test_what_policy_forbids_is_not_charged_to_its_run(house: House) -> None:
    await house.policy("rules: [{name: no, actions: [move_files], gate: forbid}]\n")
    async with house.gate.run("Tidy up", agent="bot", scope={"files": 9}):
        call = await house.gate.propose("move_files", {"files": ["a", "b"]}, agent="bot", cost=1.0)
        with pytest.raises(Refused):
            await call.outcome()
        run = await house.run()
    assert (run.used, run.spend) == ({}, Decimal(0))


async def test_what_is_kept_of_the_run_is_purged_with_the_payload(house: House) -> None:
    async with house.gate.run("Tidy up what Ada left", agent="bot"):
        call = await proposed(house, "cost")
        async with call.execution() as running:
            running.result = "moved"
    request = await house.desk.store.request("default", call.request.id)
    assert request.ask.standing.goal == "Tidy up what Ada left"
    assert purged(request).ask.standing is None


async def test_what_a_hook_or_a_proxy_proposed_begins(house: House) -> None:
    await house.policy(policy("agent"))
    errands = LocalErrands(house.gate.agent("bot"), house.gate._vault)
    told = await errands.propose(Errand("move_files", {"files": ["a"]}, "move_files", trusted=True), "one")
    assert (await errands.begin(told, "first")).state == "running"
