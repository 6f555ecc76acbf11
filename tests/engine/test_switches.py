"""The stop switch of an agent and of everything: what is there waits or ends, and so does what comes later."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import assentry
from assentry.core.authority import Principal
from assentry.core.policy import Person, Policy
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.core.switch import EVERYTHING, Setting
from assentry.engine.oversight import Oversight
from assentry.errors import NotAllowed, RunStopped
from assentry.ports import RunFilter
from tests.engine.conftest import House
from tests.engine.run_world import World
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


def office(house: House) -> Oversight:
    return Oversight(house.desk.store, "default")


async def hold(house: House, agent: str, setting: Setting, reason: str = "") -> list[Any]:
    done = [run async for run in office(house).hold(house.me, agent, setting, reason)]
    await heard(house, lambda held: held is not None)
    return done


async def release(house: House, agent: str) -> list[Any]:
    done = [run async for run in office(house).release(house.me, agent)]
    await heard(house, lambda held: held is None)
    return done


async def heard(house: House, enough: Any) -> None:
    """The gate knows of it: notices take a moment."""
    async with asyncio.timeout(PATIENCE):
        while not enough(house.gate._judgement.held_up("cleanup")):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("agent", ["cleanup", EVERYTHING])
async def test_a_stopped_agent_is_turned_away_at_every_gate(house: House, agent: str) -> None:
    world = World(house.gate)
    await hold(house, agent, Setting.STOP, "enough")
    with pytest.raises(RunStopped, match=f"was stopped by {house.me.name}: enough"):
        await world.find("a")  # even what only reads
    with pytest.raises(RunStopped):
        await world.move("a")
    with pytest.raises(RunStopped):
        await house.gate.propose("transfer_money", {"amount": 5.0})
    with pytest.raises(RunStopped):
        await house.gate.ask("May I?")
    with pytest.raises(RunStopped):
        async with house.gate.run("Tidy up"):
            raise AssertionError("it did not begin")
    assert await house.desk.store.runs("default", RunFilter()) == ()
    await release(house, agent)
    assert await world.move("a") == "A"


async def test_another_agent_goes_on(house: House) -> None:
    world = World(house.gate)
    await hold(house, "cleanup", Setting.STOP)
    with house.gate.context(agent="reports"):
        assert await world.move("a") == "A"


async def test_a_paused_agent_waits_and_goes_on(house: House) -> None:
    world = World(house.gate)
    await hold(house, "cleanup", Setting.PAUSE)
    task = house.start(world.move("a"))
    begun = house.start(_one_run(house, world))
    done, _ = await asyncio.wait([task, begun], timeout=0.2)
    assert (done, world.did) == (set(), [])
    await release(house, "cleanup")
    assert (await task, await begun) == ("A", "B")


async def _one_run(house: House, world: World) -> Any:
    async with house.gate.run("Tidy up"):
        return await world.move("b")


async def test_one_without_patience_does_not_wait_for_a_paused_agent(house: House) -> None:
    @house.gate.guard(reversible=True, reach="local", patience=0)
    async def move(path: str) -> str:
        return path

    await hold(house, "cleanup", Setting.PAUSE)
    with pytest.raises(RunStopped, match="was paused"):
        await move("a")


async def test_time_stands_still_for_what_a_paused_agent_asked(house: House) -> None:
    world = World(house.gate)
    task = house.start(world.delete(["a"]))
    (request,) = await house.waiting()
    await hold(house, "cleanup", Setting.PAUSE)
    frozen = await house.desk.store.request("default", request.id)
    assert frozen is not None
    assert (frozen.frozen_at is not None, frozen.due_at) == (True, None)
    await house.inbox.approve(house.me, request.id)
    done, _ = await asyncio.wait([task], timeout=0.2)
    assert (done, world.did) == (set(), [])  # approved, and it waits for go
    await release(house, "cleanup")
    assert (await task, world.did) == (1, ["delete 1"])


async def test_what_a_stopped_agent_waited_for_is_withdrawn(house: House) -> None:
    world = World(house.gate)
    task = house.start(world.delete(["a"]))
    (request,) = await house.waiting()
    await hold(house, "cleanup", Setting.STOP)
    with pytest.raises(assentry.Denied, match="its agent was stopped"):
        await task
    assert (await house.in_state(request.id, State.CANCELLED)).decided_by == house.me.name


async def test_its_runs_stop_with_it(house: House) -> None:
    world = World(house.gate)

    async def work() -> None:
        async with house.gate.run("Tidy up"):
            await world.delete(["a"])

    task = house.start(work())
    await house.waiting()
    held = await hold(house, "cleanup", Setting.STOP, "enough")
    assert [run.goal for run in held] == ["Tidy up"]
    with pytest.raises((RunStopped, assentry.Denied)):
        await task
    assert (await house.until_run(RunState.STOPPED)).reason == "enough"


async def test_a_worker_takes_up_nothing_of_a_paused_agent(house: House) -> None:
    world = World(house.gate)

    @house.gate.host("loop")
    async def resume(state: Any, resumption: Any) -> Any:
        return await world.delete(["a"])

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def shred(path: str) -> str:
        world.did.append(f"shred {path}")
        return path

    async def begun() -> None:
        async with house.gate.run("Tidy up", host="loop"):
            await world.delete(["a"])

    with pytest.raises(assentry.Parked):
        await begun()
    with pytest.raises(assentry.Parked):
        await shred("b")
    requests = await house.waiting(2)
    await hold(house, EVERYTHING, Setting.PAUSE)
    async with house.gate.worker():
        for request in requests:
            await house.inbox.approve(house.me, request.id)
        await asyncio.sleep(0.3)
        assert world.did == []
        await release(house, EVERYTHING)
        await house.until_run(RunState.FINISHED)
        detached = next(request for request in requests if request.candidate.action.name == "shred")
        await house.in_state(detached.id, State.DONE)
    assert sorted(world.did) == ["delete 1", "shred b"]


async def test_a_plain_function_waits_as_well(house: House) -> None:
    @house.gate.guard(reversible=True, reach="local")
    def move(path: str) -> str:
        return path.upper()

    await hold(house, "cleanup", Setting.PAUSE)
    task = house.start(asyncio.to_thread(move, "a"))
    done, _ = await asyncio.wait([task], timeout=0.2)
    assert not done
    await release(house, "cleanup")
    assert await task == "A"


async def test_a_switch_holds_in_a_process_that_starts_later(house: House) -> None:
    await hold(house, "cleanup", Setting.STOP)
    other = await asyncio.to_thread(house.another_gate, agent="cleanup", lease=timedelta(seconds=30))
    world = World(other)
    with pytest.raises(RunStopped):
        await world.find("a")


async def test_a_run_of_a_paused_agent_is_paused_and_goes_on(house: House) -> None:
    world = World(house.gate)

    async def work() -> Any:
        async with house.gate.run("Tidy up"):
            return await world.delete(["a"])

    task = house.start(work())
    (request,) = await house.waiting()
    await hold(house, "cleanup", Setting.PAUSE)
    assert (await house.run()).state is RunState.PAUSED
    await house.inbox.approve(house.me, request.id)
    assert [run.goal for run in await release(house, "cleanup")] == ["Tidy up"]
    assert await task == 1


async def test_stopping_everything_is_not_stopped_by_a_run_that_ends_meanwhile(house: House) -> None:
    world = World(house.gate)
    over = office(house)
    async with house.gate.run("Over soon"):
        listed = await over.everything()
    task = house.start(_one_run(house, world))
    await task
    other = house.start(world.delete(["a"]))
    (request,) = await house.waiting()

    async def stale(agent: str = "") -> Any:
        return listed  # as it was a moment ago

    over.everything = stale  # type: ignore[method-assign]
    assert [run async for run in over.hold(house.me, EVERYTHING, Setting.STOP)] == []
    assert (await house.in_state(request.id, State.CANCELLED)).decided_by == house.me.name
    await asyncio.gather(other, return_exceptions=True)


async def test_a_switch_holds_what_is_proposed_and_resumed(house: House) -> None:
    @house.gate.guard(reversible=False, patience=0)
    async def drop(path: str) -> str:
        raise AssertionError("it was paused")

    with pytest.raises(assentry.Parked) as parked:
        await drop("a")
    proposal = await house.gate.propose("transfer_money", {"amount": 1.0})
    for request in await house.waiting(2):
        phrase = (await house.inbox.brief(request.id)).phrase
        await house.inbox.approve(house.me, request.id, confirm=phrase)
    await hold(house, "cleanup", Setting.PAUSE)
    with pytest.raises(assentry.Parked):
        await house.gate.resume(parked.value.request_id)
    with pytest.raises(RunStopped):
        async with proposal.execution(0.3):
            raise AssertionError("it was paused")
    with pytest.raises(RunStopped):
        await house.gate.propose("read_file", {"path": "a"})


async def test_a_switch_set_while_facts_are_looked_up_holds(house: House) -> None:
    looking, go_on = asyncio.Event(), asyncio.Event()

    async def look(args: Any) -> dict[str, int]:
        looking.set()
        await go_on.wait()
        return {"n": 1}

    @house.gate.guard(reversible=True, reach="local", facts=look)
    async def move(path: str) -> str:
        raise AssertionError("it was stopped")

    task = house.start(move("a"))
    await looking.wait()
    await hold(house, "cleanup", Setting.STOP)
    go_on.set()
    with pytest.raises(RunStopped):
        await task


class Deaf:
    """The gate hears nothing of what others do, as if its process slept from here on."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self._house, self._patch = house, monkeypatch

        async def nothing() -> None:
            return

        monkeypatch.setattr(house.gate, "_refresh", nothing)

    async def turn(self, setting: Setting) -> None:
        """Somebody turns the switch alone; the runs would follow."""
        await office(self._house)._turn(self._house.me, "cleanup", setting, "enough")
        assert self._house.gate._judgement.switches == ()

    async def hears_again(self) -> None:
        self._patch.undo()
        await self._house.gate._judgement.refresh()


async def test_nothing_is_begun_after_a_stop_that_was_not_heard_of(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(house.gate)
    quick = house.gate.guard(_drop, name="drop", reversible=False, patience=0)
    with pytest.raises(assentry.Parked) as parked:
        await quick("a")
    proposal = await house.gate.propose("transfer_money", {"amount": 1.0})
    waits = house.start(world.delete(["a"]))
    requests = await house.waiting(3)
    deaf = Deaf(house, monkeypatch)
    for request in requests:
        if request.candidate.action.name != "delete_files":
            phrase = (await house.inbox.brief(request.id)).phrase
            await house.inbox.approve(house.me, request.id, confirm=phrase)
    await deaf.turn(Setting.STOP)
    with pytest.raises(RunStopped, match="enough"):
        await world.move("a")
    house.gate._judgement.switches = ()
    with pytest.raises(RunStopped):
        await house.gate.propose("transfer_money", {"amount": 2.0})
    house.gate._judgement.switches = ()
    with pytest.raises(assentry.Denied, match="enough"):
        await house.gate.resume(parked.value.request_id)
    house.gate._judgement.switches = ()
    with pytest.raises(assentry.Denied, match="enough"):
        async with proposal.execution():
            raise AssertionError("it was stopped")
    house.gate._judgement.switches = ()
    await house.inbox.approve(house.me, next(r.id for r in requests if r.candidate.action.name == "delete_files"))
    with pytest.raises(assentry.Denied, match="enough"):
        await waits
    assert world.did == []


async def _drop(path: str) -> str:
    raise AssertionError("it was stopped")


@pytest.mark.parametrize("in_a_run", [False, True])
async def test_what_is_paused_unheard_waits_and_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch, in_a_run: bool
) -> None:
    world = World(house.gate)

    async def work() -> Any:
        if not in_a_run:
            return await world.move("a")
        async with house.gate.run("Tidy up"):
            await deaf.turn(Setting.PAUSE)
            return await world.move("a")

    deaf = Deaf(house, monkeypatch)
    if not in_a_run:
        await deaf.turn(Setting.PAUSE)
    task = house.start(work())
    done, _ = await asyncio.wait([task], timeout=0.3)
    assert (done, world.did) == (set(), [])
    await deaf.hears_again()
    await release(house, "cleanup")
    assert (await task, world.did) == ("A", ["move a"])


async def test_a_worker_begins_nothing_of_an_agent_paused_unheard(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def shred(path: str) -> str:
        ran.append(path)
        return path

    with pytest.raises(assentry.Parked):
        await shred("a")
    (request,) = await house.waiting()
    deaf = Deaf(house, monkeypatch)
    await house.inbox.approve(house.me, request.id)
    await deaf.turn(Setting.PAUSE)
    async with house.gate.worker():
        await asyncio.sleep(0.3)
        assert ran == []
        await deaf.hears_again()
        await release(house, "cleanup")
        await house.in_state(request.id, State.DONE)
    assert ran == ["a"]


@pytest.mark.parametrize("agent", ["cleanup", EVERYTHING])
async def test_a_run_that_somebody_paused_by_itself_is_not_lifted_with_its_agent(house: House, agent: str) -> None:
    world, over = World(house.gate), office(house)

    async def work(goal: str) -> Any:
        async with house.gate.run(goal):
            return await world.delete([goal])

    tasks = {goal: house.start(work(goal)) for goal in ("by hand", "by switch")}
    await house.waiting(2)
    runs = {run.goal: run for run in await house.desk.store.runs("default", RunFilter())}
    await over.pause(house.me, runs["by hand"])
    await hold(house, agent, Setting.PAUSE)
    assert [run.goal for run in await release(house, agent)] == ["by switch"]
    now = {run.goal: run for run in await house.desk.store.runs("default", RunFilter())}
    assert (now["by hand"].state, now["by switch"].state) == (RunState.PAUSED, RunState.RUNNING)
    pending = {request.ask.run: request for request in await house.waiting(2)}
    assert pending[now["by hand"].id].frozen_at is not None  # time stands still for it as well
    assert pending[now["by switch"].id].frozen_at is None
    await over.go(house.me, now["by hand"])
    for request in pending.values():
        await house.inbox.approve(house.me, request.id)
    assert [await task for task in tasks.values()] == [1, 1]


async def test_one_paused_with_its_agent_goes_on_when_everything_does(house: House) -> None:
    world = World(house.gate)

    async def work() -> Any:
        async with house.gate.run("Tidy up"):
            return await world.delete(["a"])

    task = house.start(work())
    (request,) = await house.waiting()
    await hold(house, "cleanup", Setting.PAUSE)
    await hold(house, EVERYTHING, Setting.PAUSE)
    assert [run async for run in office(house).release(house.me, "cleanup")] == []
    assert [run.goal for run in await release(house, EVERYTHING)] == ["Tidy up"]
    await house.inbox.approve(house.me, request.id)
    assert await task == 1


async def test_a_run_inside_that_somebody_paused_by_itself_is_not_lifted_either(house: House) -> None:
    over = office(house)
    async with house.gate.run("Outer"), house.gate.run("Inner") as inner:
        await over.pause(house.me, inner.record)
        await hold(house, "cleanup", Setting.PAUSE)
        await release(house, "cleanup")
        states = {run.goal: run.state for run in await house.desk.store.runs("default", RunFilter())}
        assert states == {"Outer": RunState.RUNNING, "Inner": RunState.PAUSED}


TEAM = Policy(people=(Person("ada", roles=("operator",)), Person("bob"), Person("eve")))


@pytest.mark.parametrize(
    ("set_by", "by", "may"),
    [("ada", "bob", False), ("ada", "ada", True), ("bob", "bob", True), ("bob", "eve", False), ("bob", "ada", True)],
)
async def test_whoever_set_a_switch_or_an_operator_lets_go(house: House, set_by: str, by: str, may: bool) -> None:
    over = Oversight(house.desk.store, "default", lambda: TEAM)
    async for _ in over.hold(Principal(set_by), "cleanup", Setting.STOP):
        pass
    if may:
        assert [run async for run in over.release(Principal(by), "cleanup")] == []
        assert await over.switches() == ()
        return
    with pytest.raises(NotAllowed, match=f"{set_by} or an operator"):
        async for _ in over.release(Principal(by), "cleanup"):
            pass
    with pytest.raises(NotAllowed):  # nor is a stop turned into a mere pause
        async for _ in over.hold(Principal(by), "cleanup", Setting.PAUSE):
            pass
    assert [(each.setting, each.by) for each in await over.switches()] == [(Setting.STOP, set_by)]


async def test_anybody_lets_go_what_assentry_paused_and_makes_a_pause_a_stop(house: House) -> None:
    over = Oversight(house.desk.store, "default", lambda: TEAM)
    await over.denied(Principal("ada"), "cleanup", 1)
    async for _ in over.release(Principal("bob"), "cleanup"):
        pass
    assert await over.switches() == ()
    async for _ in over.hold(Principal("ada"), "cleanup", Setting.PAUSE):
        pass
    async for _ in over.hold(Principal("bob"), "cleanup", Setting.STOP):
        pass
    # A pause may be made a stop; whoever held it before still says when it goes on.
    (held,) = await over.switches()
    assert (held.setting, held.by, held.reason) == (Setting.STOP, "ada", "bob made this a stop")
    with pytest.raises(NotAllowed):
        async for _ in over.release(Principal("bob"), "cleanup"):
            pass


async def test_a_switch_is_not_taken_over_by_setting_it_again_or_by_denials(house: House) -> None:
    over = Oversight(house.desk.store, "default", lambda: TEAM)
    async for _ in over.hold(Principal("ada"), "cleanup", Setting.PAUSE, "wait for me"):
        pass
    async for _ in over.hold(Principal("bob"), "cleanup", Setting.PAUSE, "mine now"):
        pass
    for _ in range(3):
        await over.denied(Principal("bob"), "cleanup", 2)
    async for _ in over.hold(Principal("assentry"), "cleanup", Setting.PAUSE, "denied too often"):
        pass
    (held,) = await over.switches()
    assert (held.by, held.reason) == ("ada", "wait for me")


async def test_a_run_does_not_go_on_by_itself_while_its_agent_is_held(house: House) -> None:
    world = World(house.gate)
    async with house.gate.run("Tidy up", agent="cleanup", patience=0):
        await world.find("a")
        over = Oversight(house.desk.store, "default", lambda: TEAM)
        (run,) = [run async for run in over.hold(Principal("ada"), "cleanup", Setting.PAUSE)]
        with pytest.raises(NotAllowed, match="has to be lifted first"):
            await over.go(Principal("bob"), run)
        assert (await house.run()).state is RunState.PAUSED
        (went,) = [run async for run in over.release(Principal("ada"), "cleanup")]
        assert went.state is RunState.RUNNING
