"""Runs: calls belong to them, they stop for people, park, and go on elsewhere without taking a step twice."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import assent
from assent.core.decision import Finding
from assent.core.request import State
from assent.core.run import Run, RunState
from assent.core.run_life import Continue, Enter, Pause, RunEvent, Stop, advance_run
from assent.engine.holding import CURRENT
from assent.engine.hosting import resumed
from assent.engine.oversight import Oversight
from assent.errors import GuardError, InvalidArguments, RunStopped
from assent.ports import Filter, RunFilter, View
from tests.engine.conftest import House

pytestmark = pytest.mark.usefixtures("house")


class World:
    """What guarded functions did."""

    def __init__(self, gate: assent.Gate) -> None:
        self.did: list[str] = []

        @gate.guard
        async def find_files(pattern: str) -> list[str]:
            """Find files."""
            return [f"{pattern}{n}" for n in range(3)]

        @gate.guard(reversible=True, reach="local")
        async def move_file(path: str) -> str:
            self.did.append(f"move {path}")
            return path.upper()

        @gate.guard(reversible=False)
        async def delete_files(files: list[str]) -> int:
            self.did.append(f"delete {len(files)}")
            return len(files)

        self.find, self.move, self.delete = find_files, move_file, delete_files


async def the_run(house: House) -> Run:
    (run,) = await house.desk.store.runs("default", RunFilter())
    return run


async def until(house: House, state: RunState) -> Run:
    """The only run, once it is in this state."""
    async with asyncio.timeout(20):
        while (run := await the_run(house)).state is not state:
            await asyncio.sleep(0.01)
    return run


async def said(house: House, event: RunEvent) -> None:
    """A person does this to the only run."""
    run = await the_run(house)

    def step(view: View) -> Any:
        assert view.run is not None
        return advance_run(view.run, event, view.now)

    await house.desk.store.transact("default", None, step, run=run.id)


async def test_a_run_is_on_record_with_its_steps(house: House) -> None:
    world = World(house.gate)
    async with house.gate.run("Tidy up", original="just a small cleanup", agent="cleanup") as run:
        await run.plan(["find", "move"])
        found = await world.find("a")
        await world.move(found[0])
        await run.spent("0.25")
        await run.observed("web", "see password=hunter2hunter2")
        run.outcome = {"moved": 1}
    record = await the_run(house)
    assert (record.state, record.agent, record.steps) == (RunState.FINISHED, "cleanup", 2)
    assert (str(record.spend), record.outcome, record.original) == ("0.25", {"moved": 1}, "just a small cleanup")
    assert "hunter2" not in repr(record)
    page = await house.desk.store.requests("default", Filter(run=record.id))
    assert [request.candidate.action.name for request in page.requests] == ["move_file"]
    assert await house.kinds(record.id) == ["run.began", "run.finished"]


async def test_a_run_that_fails_says_so(house: House) -> None:
    with pytest.raises(ValueError, match="bad"):
        async with house.gate.run("Tidy up"):
            raise ValueError("bad")
    record = await the_run(house)
    assert (record.state, record.error) == (RunState.FAILED, "ValueError: bad")


async def test_a_parked_run_goes_on_elsewhere_and_takes_no_step_twice(house: House) -> None:
    world = World(house.gate)
    told: list[Any] = []

    def agent(gate: assent.Gate, at: World) -> Callable[..., Any]:
        async def work() -> dict[str, int]:
            found = await at.find("a")
            await at.move(found[0])
            await at.move(found[0])  # the same call again is another step
            return {"deleted": await at.delete(found)}

        @gate.host("loop")
        async def resume(state: Any, resumption: Any) -> Any:
            told.append((state, resumption))
            return await work()

        return work

    work = agent(house.gate, world)

    async def begun() -> None:
        async with house.gate.run("Tidy up", host="loop") as run:
            run.snapshot({"messages": ["hello"]})
            await work()

    with pytest.raises(assent.Parked):
        await begun()
    assert world.did == ["move a0", "move a0"]
    parked = await the_run(house)
    assert (parked.state, len(parked.waits)) == (RunState.PARKED, 1)

    other = house.another_gate(agent="cleanup")
    elsewhere = World(other)
    agent(other, elsewhere)
    async with other.worker():
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        record = await until(house, RunState.FINISHED)
    assert (record.outcome, record.fence) == ({"deleted": 3}, 2)
    assert (world.did, elsewhere.did) == (["move a0", "move a0"], ["delete 3"])
    ((state, resumption),) = told
    assert state == {"messages": ["hello"]}
    assert f"approved by {house.me.name}" in resumption.summary


async def test_a_swallowed_pause_is_raised_again_and_later_calls_are_refused(house: House) -> None:
    world = World(house.gate)

    async def swallows() -> None:
        async with house.gate.run("Tidy up", patience=0):
            with suppress(BaseException):
                await world.delete(["a"])
            with pytest.raises(assent.Parked):
                await world.move("b")

    with pytest.raises(assent.Parked):
        await swallows()
    assert world.did == []
    assert (await the_run(house)).state is RunState.PARKED


async def test_parking_waits_for_siblings_and_keeps_their_results(house: House) -> None:
    did: list[str] = []
    go = asyncio.Event()

    @house.gate.guard(reversible=True, reach="local")
    async def slow(name: str) -> str:
        await go.wait()
        did.append(name)
        return name

    world = World(house.gate)

    async def both() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(slow("a")), group.create_task(world.delete(["x"]))]
        return [task.result() for task in tasks]

    async def first() -> None:
        async with house.gate.run("Both", key="k", patience=0):
            await both()

    task = house.start(first())
    await house.waiting()
    go.set()
    with pytest.raises((assent.Parked, BaseExceptionGroup)):
        await task
    assert did == ["a"]
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    async with house.gate.run("Both", key="k"):
        assert await both() == ["a", 1]
    assert did == ["a"]
    assert world.did == ["delete 1"]


async def test_a_person_stops_a_run_and_it_notices_at_its_next_gate(house: House) -> None:
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up"):
            await world.move("a")
            await said(house, Stop("ann", "enough"))
            for _ in range(2000):
                with suppress(Exception):  # a broad handler goes on regardless
                    await world.move("b")

    with pytest.raises(RunStopped):
        await agent()
    record = await the_run(house)
    assert (record.state, record.by, record.reason) == (RunState.STOPPED, "ann", "enough")
    assert world.did == ["move a"]


async def test_a_denial_that_stops_ends_the_run(house: House) -> None:
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up"):
            try:
                await world.delete(["a"])
            except assent.Denied:
                await world.move("b")

    task = house.start(agent())
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "no", stop=True)
    with pytest.raises(RunStopped):
        await task
    assert (await the_run(house)).state is RunState.STOPPED
    assert world.did == []


async def test_a_paused_run_that_is_parked_goes_on_only_when_told(house: House) -> None:
    world = World(house.gate)

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> Any:
        return await world.delete(["a"])

    with pytest.raises(assent.Parked):
        async with house.gate.run("Tidy up", host="loop"):
            await world.delete(["a"])
    await said(house, Pause("ann"))
    async with house.gate.worker():
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        await asyncio.sleep(0.2)
        assert (await the_run(house)).state is RunState.PAUSED
        await said(house, Continue("ann"))
        await until(house, RunState.FINISHED)
    assert world.did == ["delete 1"]


async def test_a_run_whose_process_vanished_is_orphaned_and_its_key_goes_on(house: House) -> None:
    gate = house.another_gate(agent="cleanup", lease=timedelta(seconds=0.3))
    world = World(gate)
    run = gate.run("Tidy up", key="k")
    active = await run.__aenter__()
    await world.move("a")
    assert active._keeper is not None
    active._keeper.cancel()  # as if its process were gone
    CURRENT.set(None)
    async with house.gate.worker():
        await until(house, RunState.ORPHANED)
    again = World(house.gate)
    async with house.gate.run("Tidy up", key="k") as entered:
        assert entered.id == active.id
        assert await again.move("a") == "A"
    assert again.did == []
    with pytest.raises(assent.Conflict):
        await active.spent(1)


async def test_a_checkpoint_shows_and_gives_back_what_was_changed(house: House) -> None:
    async def agent() -> Any:
        async with house.gate.run("Write") as run:
            return await run.checkpoint("draft ready", {"text": "hi"}, editable=True)

    task = house.start(agent())
    (request,) = await house.waiting()
    card = await house.inbox.brief(request.id)
    assert card.title == "Checkpoint: draft ready"
    assert any("stops here for a look" in why.lower() for why in card.why)
    await house.inbox.modify(house.me, request.id, {**card.args, "show": {"text": "hello"}})
    assert await task == {"text": "hello"}
    assert (await the_run(house)).checked_steps == 1


async def test_a_checkpoint_that_may_not_be_edited_is_not(house: House) -> None:
    async def agent() -> Any:
        async with house.gate.run("Write") as run:
            return await run.checkpoint("draft ready", "hi")

    task = house.start(agent())
    (request,) = await house.waiting()
    with pytest.raises(assent.errors.InvalidDecision):
        await house.inbox.modify(house.me, request.id, {"checkpoint": "draft ready", "show": "other"})
    await house.inbox.revise(house.me, request.id, "shorter")
    with pytest.raises(assent.SentBack, match="shorter"):
        await task


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
        assert (await the_run(house)).used["files"] == files
        return
    with pytest.raises(assent.Parked) as parked:
        await agent()
    card = await house.inbox.brief(parked.value.request_id)
    assert any("the run was given 20" in why.lower() for why in card.why)


async def test_a_scope_counts_over_the_whole_run(house: House) -> None:
    world = World(house.gate)

    async def agent() -> None:
        async with house.gate.run("Tidy up", scope={"actions": ["delete_files"], "files": 5}, patience=0):
            await world.delete(["a", "b", "c"])
            await world.delete(["d", "e", "f"])

    with pytest.raises(assent.Parked):
        await agent()
    assert world.did == ["delete 3"]


@pytest.mark.parametrize(("limits", "cost", "why"), [
    ("budget: 1.0", 0.5, None), ("budget: 0.9", 0.5, "the run has spent"),
    ("steps: 2", 0.0, None), ("steps: 1", 0.0, "steps since somebody looked in"),
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
    with pytest.raises(assent.Parked) as parked:
        await agent()
    assert any(why in each.lower() for each in (await house.inbox.brief(parked.value.request_id)).why)
    request = await house.desk.store.request("default", parked.value.request_id)
    assert request is not None
    assert request.state is State.PENDING


async def test_two_triggers_give_one_card_with_both_reasons(house: House) -> None:
    await house.policy("limits: {budget: 0.1}\n")
    world = World(house.gate)
    with pytest.raises(assent.Parked) as parked:
        async with house.gate.run("Tidy up", scope={"files": 1}, patience=0):
            await world.delete.with_(cost=1.0, confidence=0.2)(["a", "b"])
    card = await house.inbox.brief(parked.value.request_id)
    for text in ("the run was given 1", "the run has spent", "sure"):
        assert any(text in each.lower() for each in card.why), (text, card.why)
    assert len((await house.inbox.page()).requests) == 1


class Shaky:
    """Fails as often as it is told to."""

    def __init__(self, gate: assent.Gate, fails: int) -> None:
        self.calls: list[str] = []

        @gate.guard(reversible=True, reach="local")
        async def upload(path: str) -> str:
            self.calls.append(path)
            if len(self.calls) <= fails:
                raise OSError("disk on fire")
            return f"uploaded {path}"

        self.upload = upload


async def failing(house: House, shaky: Shaky) -> Any:
    async with house.gate.run("Upload") as run:
        return await run.attempt(shaky.upload, path="a", done=["b"])


async def test_a_failed_step_is_tried_again_when_a_person_says_so(house: House) -> None:
    shaky = Shaky(house.gate, 1)
    task = house.start(failing(house, shaky))
    (request,) = await house.waiting()
    card = await house.inbox.brief(request.id)
    assert card.title == "upload failed"
    assert card.args["done"] == ["b"]
    assert [option.label for option in card.options] == ["Skip this step", "Abort the run"]
    await house.inbox.approve(house.me, request.id)
    assert await task == "uploaded a"


async def test_a_failed_step_is_tried_again_with_changes(house: House) -> None:
    shaky = Shaky(house.gate, 1)
    task = house.start(failing(house, shaky))
    (request,) = await house.waiting()
    args = (await house.inbox.brief(request.id)).args
    with pytest.raises(assent.errors.InvalidDecision):
        await house.inbox.modify(house.me, request.id, {**args, "error": "none"})
    await house.inbox.modify(house.me, request.id, {**args, "args": {"path": "c"}})
    assert await task == "uploaded c"


@pytest.mark.parametrize(("option", "state"), [(0, RunState.FINISHED), (1, RunState.STOPPED)])
async def test_a_failed_step_is_skipped_or_ends_the_run(house: House, option: int, state: RunState) -> None:
    shaky = Shaky(house.gate, 9)
    task = house.start(failing(house, shaky))
    (request,) = await house.waiting()
    await house.inbox.choose(house.me, request.id, option)
    if state is RunState.STOPPED:
        with pytest.raises(RunStopped):
            await task
    else:
        assert await task is None
    assert (await the_run(house)).state is state
    assert shaky.calls == ["a"]


async def test_a_failure_that_parked_is_not_asked_about_twice(house: House) -> None:
    shaky = Shaky(house.gate, 1)

    async def work() -> str:
        async with house.gate.run("Upload", key="k", patience=0) as run:
            found: str = await run.attempt(shaky.upload, path="a")
            return found

    with pytest.raises(assent.Parked):
        await work()
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    assert await work() == "uploaded a"
    assert shaky.calls == ["a", "a"]


@pytest.mark.parametrize(("every", "asked"), [(3, [3, 6]), (0, [])])
async def test_every_so_manieth_item_is_looked_at(house: House, every: int, asked: list[int]) -> None:
    looked: list[int] = []

    async def batch() -> None:
        async with house.gate.run("Label") as run:
            for number in range(1, 8):
                looked.extend([number] * await run.sampled(number, f"in {number}", f"out {number}", every=every))

    task = house.start(batch())
    for _ in asked:
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        await house.until(lambda found: not found, Filter(states=(State.PENDING,)))
    await task
    assert looked == asked


async def test_a_share_is_the_same_when_the_run_is_taken_again_and_a_problem_stops_the_batch(house: House) -> None:
    done: list[int] = []

    async def batch() -> None:
        async with house.gate.run("Label", key="k", patience=0) as run:
            for number in range(100):
                await run.sampled(number, number, number, share=0.1)
                done.append(number)

    with pytest.raises(assent.Parked):
        await batch()
    first = list(done)
    done.clear()
    with pytest.raises(assent.Parked):
        await batch()
    assert done == first
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "the labels are shifted")
    with pytest.raises(assent.Denied, match="shifted"):
        await batch()


async def test_an_agent_that_cannot_go_on_says_so_plainly(house: House) -> None:
    async def agent() -> str:
        async with house.gate.run("Deploy") as run:
            return await run.cannot_go_on("there is no other way", without="deploy")

    for word, expected in (("approve", ""), ("revise", "use staging")):
        task = house.start(agent())
        (request,) = await house.waiting()
        assert (await house.inbox.brief(request.id)).title == "The agent says that it cannot go on"
        if word == "approve":
            await house.inbox.approve(house.me, request.id)
        else:
            await house.inbox.revise(house.me, request.id, "use staging")
        assert await task == expected
    task = house.start(agent())
    (request,) = await house.waiting()
    await house.inbox.choose(house.me, request.id, 0)
    with pytest.raises(RunStopped):
        await task


async def test_an_agent_interrupts_itself_and_its_host_hears_what_was_chosen(house: House) -> None:
    told: list[Any] = []

    @house.gate.host("loop")
    async def resume(state: Any, resumption: Any) -> Any:
        told.append((state, resumption.chosen, resumption.allowed))
        return "done"

    async def agent() -> None:
        async with house.gate.run("Scale down", host="loop"):
            raise assent.Interrupt(
                "they look like a standby cluster",
                planned_action="Delete 47 instances",
                impact="no failover for the shop",
                options=["Keep them", "Only those of 2019"],
                state={"messages": [1, 2]},
            )

    with pytest.raises(assent.Parked):
        await agent()
    (request,) = await house.waiting()
    card = await house.inbox.brief(request.id)
    assert (card.title, card.args["impact"]) == (
        "The agent stopped itself and asks for a person",
        "no failover for the shop",
    )
    async with house.gate.worker():
        await house.inbox.choose(house.me, request.id, 1)
        await until(house, RunState.FINISHED)
    assert told == [({"messages": [1, 2]}, "Only those of 2019", False)]


async def test_an_ambiguous_task_is_clarified_before_it_starts_and_a_clear_one_is_not(house: House) -> None:
    async def agent(task: str) -> dict[str, str]:
        async with house.gate.run("Tidy up", original=task) as run:
            return await run.clarify()

    assert await agent("Delete /srv/tmp/a.log") == {}
    task = house.start(agent("Delete the old log files"))
    (request,) = await house.waiting()
    assert request.ask.question is not None
    assert "old" in request.ask.question.text
    await house.inbox.answer(house.me, request.id, "older than a year")
    async with asyncio.timeout(20):
        while not task.done():
            for other in (await house.inbox.page()).requests:
                await house.inbox.answer(house.me, other.id, "whatever is there")
            await asyncio.sleep(0.01)
    assert "older than a year" in task.result().values()


async def test_a_question_of_a_parked_run_is_asked_once(house: House) -> None:
    async def agent() -> str:
        async with house.gate.run("Deploy", key="k", patience=0) as run:
            answer: str = await run.ask("Which one?", choices=["a", "b"])
            return answer

    for _ in range(2):
        with pytest.raises(assent.Parked):
            await agent()
    (request,) = await house.waiting()
    await house.inbox.answer(house.me, request.id, "b")
    assert await agent() == "b"


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
    with pytest.raises(assent.Parked) as parked:
        await agent()
    card = await house.inbox.brief(parked.value.request_id)
    assert any("leanup today has spent 1, this costs 0.5" in why for why in card.why), card.why


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

    with pytest.raises(assent.Parked) as parked:
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
        record = await until(house, RunState.FINISHED)
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

    with pytest.raises(assent.Parked):
        async with house.gate.run("Tidy up", patience=0):
            await shred("a")
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    objection = house.gate._judgement.objection

    async def slow(*call: Any) -> str:
        found = await objection(*call)
        if (await the_run(house)).state is RunState.PARKED:
            await said(house, Pause("ann"))
        return found

    monkeypatch.setattr(house.gate._judgement, "objection", slow)
    async with house.gate.worker():
        await until(house, RunState.PAUSED)
        await asyncio.sleep(0.2)
        assert did == []
        monkeypatch.undo()
        await said(house, Continue("ann"))
        await house.in_state(request.id, State.DONE)
    assert did == ["a"]


@pytest.mark.parametrize("amount", ["1e999999", "inf", "nan", -1, "much", 1e16])
async def test_what_was_spent_is_a_number_that_can_be_meant(house: House, amount: Any) -> None:
    async with house.gate.run("Tidy up") as run:
        with pytest.raises(InvalidArguments, match="what was spent must be a number"):
            await run.spent(amount)
    assert (await the_run(house)).spend == 0


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
    with pytest.raises(assent.ActionFailed, match="ran and failed with OSError; `error` has what it said") as failed:
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


async def test_a_paused_run_whose_process_waits_does_nothing_until_it_goes_on(house: House) -> None:
    world = World(house.gate)
    moved = asyncio.Event()

    async def agent() -> str:
        async with house.gate.run("Tidy up"):
            await world.move("a")
            moved.set()
            await said_and_paused
            found = await world.find("x")  # reading waits as well
            return await world.move(found[0])  # type: ignore[no-any-return]

    said_and_paused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = house.start(agent())
    await moved.wait()
    await said(house, Pause("ann"))
    said_and_paused.set_result(None)
    await asyncio.sleep(0.3)
    assert not task.done()
    assert world.did == ["move a"]
    await said(house, Continue("ann"))
    assert await asyncio.wait_for(task, 20) == "X0"


async def test_what_is_approved_while_its_run_is_paused_does_not_run_before_it_goes_on(house: House) -> None:
    world = World(house.gate)

    async def agent() -> int:
        async with house.gate.run("Tidy up"):
            return await world.delete(["a"])  # type: ignore[no-any-return]

    task = house.start(agent())
    (request,) = await house.waiting()
    await said(house, Pause("ann"))
    await house.inbox.approve(house.me, request.id)
    await asyncio.sleep(0.3)
    assert world.did == []
    await said(house, Continue("ann"))
    assert await asyncio.wait_for(task, 20) == 1


async def test_a_hosted_run_that_is_paused_puts_itself_down_and_is_resumed(house: House) -> None:
    world = World(house.gate)
    go = asyncio.Event()

    async def work() -> str:
        await world.move("a")
        await go.wait()
        return await world.move("b")  # type: ignore[no-any-return]

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> str:
        return await work()

    async def agent() -> None:
        async with house.gate.run("Tidy up", host="loop"):
            await work()

    task = house.start(agent())
    await house.until(lambda found: len(found) == 1, Filter(states=(State.DONE,)))
    await said(house, Pause("ann"))
    go.set()
    with pytest.raises(RunStopped):
        await asyncio.wait_for(task, 20)
    assert (await the_run(house)).state is RunState.PAUSED
    async with house.gate.worker():
        await said(house, Continue("ann"))
        await until(house, RunState.FINISHED)
    assert world.did == ["move a", "move b"]


async def test_a_worker_runs_nothing_of_a_run_that_is_paused_or_stopped(house: House) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def wipe(disk: str) -> None:
        did.append(disk)

    async def agent() -> None:
        async with house.gate.run("Wipe", host="loop"):
            await wipe("a")

    @house.gate.host("loop")
    async def resume(_: Any, __: Any) -> None: ...

    with pytest.raises(assent.Parked) as parked:
        await agent()
    await said(house, Pause("ann"))
    await house.inbox.approve(house.me, parked.value.request_id)
    async with house.gate.worker():
        await asyncio.sleep(0.3)
        assert did == []
        await said(house, Stop("ann", "enough"))
        async with asyncio.timeout(20):
            while (await house.desk.store.request("default", parked.value.request_id)).state is not State.CANCELLED:  # type: ignore[union-attr]
                await asyncio.sleep(0.02)
    assert did == []


async def test_one_call_approved_beside_one_that_still_waits_keeps_its_result(house: House) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False)
    async def drop(path: str) -> str:
        await asyncio.sleep(0.02)
        did.append(path)
        return path

    async def work() -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(drop(path)) for path in ("a", "b")]
        return [task.result() for task in tasks]

    @house.gate.host("loop")
    async def resume(state: Any, resumption: Any) -> Any:
        return await work()

    async def begun() -> None:
        async with house.gate.run("Tidy up", host="loop"):
            await work()

    with pytest.raises(BaseException) as stopped:
        await begun()
    assert stopped.type in (assent.Parked, BaseExceptionGroup)
    requests = {request.candidate.action.args["path"]: request for request in await house.waiting(2)}
    async with house.gate.worker():
        await house.inbox.approve(house.me, requests["a"].id)
        await house.in_state(requests["a"].id, State.DONE)
        await until(house, RunState.PARKED)
        assert did == ["a"]
        await house.inbox.approve(house.me, requests["b"].id)
        record = await until(house, RunState.FINISHED)
    assert (record.outcome, did) == (["a", "b"], ["a", "b"])


async def test_whoever_lost_a_run_has_no_say_in_it_however_much_it_hears(house: House) -> None:
    async with house.gate.run("Tidy up", key="nightly") as run:
        other = house.another_gate(agent="cleanup", lease=timedelta(seconds=30))
        record = await the_run(house)

        def taken(view: View) -> Any:
            assert view.run is not None
            return advance_run(view.run, Enter("elsewhere", timedelta(seconds=30)), view.now + timedelta(hours=1))

        await other.store.transact("default", None, taken, run=record.id)
        async with asyncio.timeout(10):
            while run.record.worker != "elsewhere":
                await run._look()
        with pytest.raises(assent.Conflict):
            await run.spent(1)
    assert (await the_run(house)).spend == 0


async def test_a_call_cancelled_while_it_begins_is_on_record_as_not_run(house: House) -> None:
    world = World(house.gate)
    task = house.start(world.delete(["a"]))
    (request,) = await house.waiting()
    store, began = house.gate.store, asyncio.Event()
    transact = store.transact

    async def slow(*args: Any, **more: Any) -> Any:
        made = await transact(*args, **more)
        if made is not None and made.request is not None and made.request.state is State.RUNNING:
            began.set()
            await asyncio.sleep(30)
        return made

    store.transact = slow  # type: ignore[method-assign]
    await house.inbox.approve(house.me, request.id)
    async with asyncio.timeout(10):
        await began.wait()
    task.cancel()
    failed = await house.in_state(request.id, State.FAILED)
    assert (failed.error, world.did) == ("cancelled before it ran", [])


async def test_one_function_is_the_whole_agent(house: House) -> None:
    world = World(house.gate)
    told: list[Any] = []

    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        told.append((state, resumption is None))
        assent.current_run().snapshot([*state, "seen"])
        return await world.delete(["a"])

    with pytest.raises(assent.Parked):
        await house.gate.begin("loop", ["hello"], goal="Tidy up", scope={"steps": 9})
    (request,) = await house.waiting()
    async with house.gate.worker():
        await house.inbox.approve(house.me, request.id)
        record = await until(house, RunState.FINISHED)
    assert (record.outcome, record.goal, world.did) == (1, "Tidy up", ["delete 1"])
    assert told == [(["hello"], True), (["hello", "seen"], False)]


async def test_a_function_that_takes_the_run(house: House) -> None:
    world = World(house.gate)

    async def work(run: Any) -> str:
        await run.plan(["move"])
        return str(await world.move("a"))

    assert await house.gate.perform("Tidy up", work, original="please") == "A"
    record = await the_run(house)
    assert (record.state, record.outcome, record.original) == (RunState.FINISHED, "A", "please")
    with pytest.raises(GuardError, match="not inside a run"):
        assent.current_run()


async def test_a_hosted_run_waits_until_somebody_has_looked_into_an_unknown_outcome(house: House) -> None:
    started = asyncio.Event()
    gate = await asyncio.to_thread(house.another_gate, agent="cleanup", lease=timedelta(seconds=1))

    @gate.guard(reversible=False)
    async def shred(path: str) -> str:
        started.set()
        await asyncio.sleep(60)
        return path

    @gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        return [await shred("a"), state]

    with pytest.raises(assent.Parked):
        await gate.begin("loop", "hello", goal="Tidy up")
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    dying = house.start(resumed(gate._office, gate._hosts["loop"], await the_run(house)))
    async with asyncio.timeout(20):
        await started.wait()
    dying.cancel()  # as if its process were gone, halfway through
    await asyncio.gather(dying, return_exceptions=True)
    async with gate.worker():
        await house.in_state(request.id, State.UNKNOWN)
        async with asyncio.timeout(20):
            while (run := await the_run(house)).state is not RunState.PARKED or run.waits != (request.id,):
                await asyncio.sleep(0.01)
        await house.inbox.reconcile(house.me, request.id, Finding.DONE, "the file is gone")
        record = await until(house, RunState.FINISHED)
    assert record.outcome == [None, "hello"]


async def test_a_call_inside_a_guarded_call_waits_there_and_parks_nothing_halfway(house: House) -> None:
    did: list[str] = []

    @house.gate.guard(reversible=False)
    async def inner(path: str) -> str:
        did.append(f"inner {path}")
        return path

    @house.gate.guard(reversible=False)
    async def outer(path: str) -> str:
        did.append(f"outer {path}")
        return await inner(path) + "!"

    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        return await outer("a")

    with pytest.raises(assent.Parked):
        await house.gate.begin("loop", goal="Tidy up")
    (first,) = await house.waiting()
    async with house.gate.worker():
        await house.inbox.approve(house.me, first.id)
        (second,) = await house.until(
            lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,))
        )
        assert (await the_run(house)).state is RunState.RUNNING  # its process waits, in the middle of the call
        await house.inbox.approve(house.me, second.id)
        record = await until(house, RunState.FINISHED)
    assert (record.outcome, did) == ("a!", ["outer a", "inner a"])


async def test_a_state_or_an_outcome_that_is_no_json_is_said_so(house: House) -> None:
    with pytest.raises(InvalidArguments, match="the state of a run is kept as JSON"):
        async with house.gate.run("Tidy up") as run:
            run.snapshot({1: "x"})
    with pytest.raises(InvalidArguments, match="the outcome of a run is kept as JSON"):
        async with house.gate.run("Tidy up") as run:
            run.outcome = {1, 2}
    assert {each.state for each in await house.desk.store.runs("default", RunFilter())} == {RunState.FAILED}


@pytest.mark.parametrize("how", [asyncio.CancelledError, SystemExit, "another run"])
async def test_what_ends_a_host_and_is_no_pause_of_its_run_is_its_failure(house: House, how: Any) -> None:
    """Or it would be taken up again at once, without end."""
    entered = 0

    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        nonlocal entered
        if resumption is None:
            await assent.current_run().ask("May I?")
        entered += 1
        raise RunStopped("other", "somebody") if how == "another run" else how()

    with pytest.raises(assent.Parked):
        await house.gate.begin("loop", goal="Tidy up")
    (request,) = await house.waiting()
    async with house.gate.worker():
        await house.inbox.answer(house.me, request.id, "yes")
        record = await until(house, RunState.FAILED)
    assert (entered, "GuardError" in record.error) == (1, True)


async def test_a_run_with_a_host_begins_no_other_one_inside(house: House) -> None:
    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        return await house.gate.begin("loop", goal="Another one")

    with pytest.raises(GuardError, match="begin a run with a host of its own outside"):
        await house.gate.begin("loop", goal="Tidy up")


async def test_the_same_interruption_twice_asks_twice(house: House) -> None:
    @house.gate.host("loop")
    async def tidy(state: Any, resumption: Any) -> Any:
        if state < 2:
            raise assent.Interrupt("look at this", planned_action="a batch", state=state + 1)
        return "done"

    with pytest.raises(assent.Parked):
        await house.gate.begin("loop", 0, goal="Batches")
    async with house.gate.worker():
        (first,) = await house.waiting()
        assert (await house.inbox.brief(first.id)).title == "The agent stopped itself and asks for a person"
        await house.inbox.approve(house.me, first.id)
        (second,) = await house.until(
            lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,))
        )
        await house.inbox.approve(house.me, second.id)
        record = await until(house, RunState.FINISHED)
    assert record.outcome == "done"


async def test_where_nothing_is_held_a_failed_step_fails(house: House) -> None:
    await house.policy("mode: observe")
    tried = 0

    @house.gate.guard(reversible=True, reach="local")
    async def upload(path: str) -> str:
        nonlocal tried
        tried += 1
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        async with house.gate.run("Upload") as run:
            await run.attempt(upload, path="a")
    assert tried == 1


async def test_what_happens_to_a_run_elsewhere_is_heard_here_with_its_version(house: House) -> None:
    heard: dict[str, int] = {}
    stop = house.gate.store.watch(lambda news: heard.update(news or {}))
    async with house.gate.run("Tidy up") as run:
        await Oversight(house.desk.store, "default").pause(house.me, await the_run(house))
        async with asyncio.timeout(10):
            while heard.get(f"run:{run.id}", 0) < 2:
                await asyncio.sleep(0.005)
        await Oversight(house.desk.store, "default").go(house.me, await the_run(house))
    stop()


async def test_many_plain_hosts_at_once_do_not_wait_for_each_others_threads(house: House) -> None:
    @house.gate.guard(reversible=True, reach="local")
    def move(path: str) -> str:
        return path

    @house.gate.host("loop", capacity=40)
    def tidy(state: Any, resumption: Any) -> Any:
        return [move(f"{state} {number}") for number in range(2)]

    made = await asyncio.gather(*(house.gate.begin("loop", number, goal="Tidy up") for number in range(40)))
    assert made == [[f"{number} 0", f"{number} 1"] for number in range(40)]
