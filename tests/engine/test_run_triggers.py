"""What makes a run stop for a person: its scope, its budgets and its check-ins, each with its silent twin."""

import pytest

import assentry
from assentry.core.request import State
from tests.engine.conftest import House
from tests.engine.run_world import World

pytestmark = pytest.mark.usefixtures("house")


@pytest.mark.parametrize(("files", "holds"), [(20, False), (21, True)])
async def test_what_the_scope_gives_leave_for_is_not_asked_and_what_exceeds_it_is(
    house: House, files: int, holds: bool
) -> None:
    world = World(house.gate)
    names = [f"{n}.tmp" for n in range(files)]
    scope = {"actions": ["delete_files"], "files": 20}

    async def agent() -> int:
        async with house.gate.run("Tidy up", scope=scope, patience=0 if holds else None):
            return await world.delete(names)

    if not holds:
        assert await agent() == files
        assert (await house.run()).used["files"] == files
        return
    with pytest.raises(assentry.Parked) as parked:
        await agent()
    card = await house.inbox.brief(parked.value.request_id)
    assert any("the run was given 20" in why.lower() for why in card.why)


async def test_a_scope_counts_over_the_whole_run(house: House) -> None:
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up", scope={"actions": ["delete_files"], "files": 5}, patience=0):
            await world.delete(["a", "b", "c"])
            await world.delete(["d", "e", "f"])

    with pytest.raises(assentry.Parked):
        await agent()
    assert world.did == ["delete 3"]


@pytest.mark.parametrize(("limits", "cost", "why"), [
    ("budget: 1.0", 0.5, None), ("budget: 0.9", 0.5, "the run has spent"),
    ("steps: 2", 0.0, None), ("steps: 1", 0.0, "since somebody looked in"),
])  # fmt: skip
async def test_budgets_and_check_ins_fire_at_their_threshold_and_not_below(
    house: House, limits: str, cost: float, why: str | None
) -> None:
    await house.policy(f"limits: {{{limits}}}\n")
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up", patience=0):
            await world.move.with_(cost=cost)("a")
            await world.move.with_(cost=cost)("b")

    if why is None:
        await agent()
        return
    with pytest.raises(assentry.Parked) as parked:
        await agent()
    assert any(why in each.lower() for each in (await house.inbox.brief(parked.value.request_id)).why)
    request = await house.desk.store.request("default", parked.value.request_id)
    assert request is not None
    assert request.state is State.PENDING


async def test_two_triggers_give_one_card_with_both_reasons(house: House) -> None:
    await house.policy("limits: {budget: 0.1}\n")
    world = World(house.gate)
    with pytest.raises(assentry.Parked) as parked:
        async with house.gate.run("Tidy up", scope={"files": 1}, patience=0):
            await world.delete.with_(cost=1.0, confidence=0.2)(["a", "b"])
    card = await house.inbox.brief(parked.value.request_id)
    for text in ("the run was given 1", "the run has spent", "sure"):
        assert any(text in each.lower() for each in card.why), (text, card.why)
    assert len((await house.inbox.page()).requests) == 1


@pytest.mark.parametrize(("daily", "holds"), [(1.5, False), (1.4, True)])
async def test_the_daily_budget_counts_all_runs_of_an_agent(house: House, daily: float, holds: bool) -> None:
    await house.policy(f"limits: {{daily: {daily}}}\n")
    world = World(house.gate)
    async with house.gate.run("Before") as before:
        await before.spent(1)
    async with house.gate.run("Another", agent="other") as other:
        await other.spent(50)

    async def agent() -> None:
        async with house.gate.run("Now", patience=0):
            await world.move.with_(cost=0.5)("a")

    if not holds:
        await agent()
        return
    with pytest.raises(assentry.Parked) as parked:
        await agent()
    card = await house.inbox.brief(parked.value.request_id)
    assert any("leanup today has spent 1, this costs 0.5" in why for why in card.why), card.why
