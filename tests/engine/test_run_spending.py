"""What a run uses up: money, files and days, also what workers do for it; and what is refused clearly."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import assentry
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.core.run_life import Continue, Pause
from assentry.engine.agent_calls import Described
from assentry.engine.holding import CURRENT
from assentry.engine.judgement import Context
from assentry.errors import InvalidArguments
from tests.engine.conftest import BLINK, House
from tests.engine.run_world import World

pytestmark = pytest.mark.both_databases


async def test_the_daily_budget_counts_what_others_spend_meanwhile(house: House) -> None:
    await house.policy("limits: {daily: 1.5}\n")
    world = World(house.gate)
    other = house.another_gate(agent="cleanup")

    async def spend_elsewhere() -> None:
        CURRENT.set(None)
        async with other.run("Meanwhile") as meanwhile:
            await meanwhile.spent("0.9")

    async def agent() -> None:
        async with house.gate.run("Now", patience=0):
            await world.move.with_(cost=0.3)("a")
            await asyncio.create_task(spend_elsewhere())
            await world.move.with_(cost=0.3)("b")
            await world.move.with_(cost=0.3)("c")

    with pytest.raises(assentry.Parked) as parked:
        await agent()
    assert world.did == ["move a", "move b"]
    card = await house.inbox.brief(parked.value.request_id)
    assert any("leanup today has spent 1.5, this costs 0.3" in why for why in card.why), card.why


@pytest.mark.parametrize("hosted", [False, True])
async def test_what_a_worker_does_for_a_run_is_charged_to_it(house: House, hosted: bool) -> None:
    @house.gate.guard(reversible=False, detached=True)
    async def shred_files(files: list[str]) -> int:
        return len(files)

    @house.gate.guard(reversible=True, reach="local", detached=True)
    async def move_files(files: list[str]) -> int:
        return len(files)

    @house.gate.host("loop")
    async def work(state: Any, resumption: Any) -> Any:
        await move_files.with_(cost=1)(["a"])
        return await shred_files.with_(cost=2)(["a", "b"])

    async def agent() -> Any:
        if hosted:
            return await house.gate.begin("loop", None, goal="Tidy up", scope={"files": 1})
        async with house.gate.run("Tidy up", scope={"files": 1}):
            return await work(None, None)

    async with house.gate.worker():
        task = house.start(agent())
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        record = await house.until_run(RunState.FINISHED)
        await asyncio.gather(task, return_exceptions=True)
    assert (record.spend, record.used["files"]) == (3, 3)


async def test_a_worker_begins_nothing_for_a_run_that_is_paused_in_that_moment(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def shred(path: str) -> str:
        did.append(path)
        return path

    with pytest.raises(assentry.Parked):
        async with house.gate.run("Tidy up", patience=0):
            await shred("a")
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    objection = house.gate._judgement.objection

    async def slow(*call: Any) -> str:
        found = await objection(*call)
        if (await house.run()).state is RunState.PARKED:
            await house.said(Pause("ann"))
        return found

    monkeypatch.setattr(house.gate._judgement, "objection", slow)
    async with house.gate.worker():
        await house.until_run(RunState.PAUSED)
        await asyncio.sleep(0.2)
        assert did == []
        monkeypatch.undo()
        await house.said(Continue("ann"))
        await house.in_state(request.id, State.DONE)
    assert did == ["a"]


@pytest.mark.parametrize("amount", ["1e999999", "inf", "nan", -1, "much", 1e16])
async def test_what_was_spent_is_a_number_that_can_be_meant(house: House, amount: Any) -> None:
    async with house.gate.run("Tidy up") as run:
        with pytest.raises(InvalidArguments, match="what was spent must be a number"):
            await run.spent(amount)
    assert (await house.run()).spend == 0


async def test_a_failed_step_is_told_by_its_kind_of_error_when_it_is_taken_again(house: House) -> None:
    @house.gate.guard(reversible=True, reach="local")
    async def upload(path: str) -> str:
        raise OSError("disk on fire")

    async def agent() -> None:
        async with house.gate.run("Tidy up", key="k", patience=0):
            with suppress(OSError):
                await upload("a")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await agent()
    with pytest.raises(assentry.ActionFailed, match="ran and failed with OSError; `error` has what it said") as failed:
        await agent()
    assert failed.value.error == "OSError: disk on fire"


async def test_revise_says_what_it_wants(house: House) -> None:
    world = World(house.gate)
    async with house.gate.run("Write") as run:
        for given in ((print, lambda _: {}), (world.move, {"path": "a"}), (3, None)):
            with pytest.raises(InvalidArguments, match=r"run.revise\(send_email, write\)"):
                await run.revise(*given)  # type: ignore[arg-type]
        with pytest.raises(InvalidArguments, match="at least one round"):
            await run.revise("letter", lambda _: "a", rounds=0)


async def test_what_is_tried_again_is_charged_to_its_run_once(house: House) -> None:
    await house.policy("agents: {bot: {}}\nrules: [{name: pays, actions: [pay], gate: hard}]\n")
    agent = house.gate.agent("bot")
    run = await agent.begin_run("Pay", attempt="r1", key="k", scope={"actions": ["x"], "EUR": 100})
    made, _ = agent.described(Described("pay", idempotent=True))
    context = Context(agent="bot", run=run.id, key="s1", cost=5)
    request = await agent.propose(made, {"amount": 30, "currency": "EUR", "to": "x"}, context, fence=run.fence)
    await house.approve(request)
    for attempt in ("one", "two", "three"):
        await agent.begin(request.id, attempt=attempt, lease=BLINK, fence=run.fence)
        await house.unknown(request.id)
    charged = await agent.run(run.id)
    assert (charged.spend, charged.used["EUR"], charged.used["steps"]) == (5, 30, 1)
