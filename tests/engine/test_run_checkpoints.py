"""What a run asks by itself: checkpoints, samples, failed steps, questions, and that it cannot go on."""

import asyncio
from typing import Any

import pytest

import assentry
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.errors import RunStopped
from assentry.ports import Filter
from assentry.stores import rows
from tests.engine.conftest import House
from tests.stage import PATIENCE

pytestmark = pytest.mark.usefixtures("house")


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
    assert (await house.run()).checked_steps == 1


async def test_a_checkpoint_that_may_not_be_edited_is_not(house: House) -> None:
    async def agent() -> Any:
        async with house.gate.run("Write") as run:
            return await run.checkpoint("draft ready", "hi")

    task = house.start(agent())
    (request,) = await house.waiting()
    with pytest.raises(assentry.errors.InvalidDecision):
        await house.inbox.modify(house.me, request.id, {"checkpoint": "draft ready", "show": "other"})
    await house.inbox.revise(house.me, request.id, "shorter")
    with pytest.raises(assentry.SentBack, match="shorter"):
        await task


class Shaky:
    """Fails as often as it is told to."""

    def __init__(self, gate: assentry.Gate, fails: int) -> None:
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
    with pytest.raises(assentry.errors.InvalidDecision):
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
    assert (await house.run()).state is state
    assert shaky.calls == ["a"]


async def test_a_failure_that_parked_is_not_asked_about_twice(house: House) -> None:
    shaky = Shaky(house.gate, 1)

    async def work() -> str:
        async with house.gate.run("Upload", key="k", patience=0) as run:
            found: str = await run.attempt(shaky.upload, path="a")
            return found

    with pytest.raises(assentry.Parked):
        await work()
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    assert await work() == "uploaded a"
    assert shaky.calls == ["a", "a"]


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

    with pytest.raises(assentry.Parked):
        await batch()
    first = list(done)
    done.clear()
    with pytest.raises(assentry.Parked):
        await batch()
    assert done == first
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "the labels are shifted")
    with pytest.raises(assentry.Denied, match="shifted"):
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
    async with asyncio.timeout(PATIENCE):
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
        with pytest.raises(assentry.Parked):
            await agent()
    (request,) = await house.waiting()
    await house.inbox.answer(house.me, request.id, "b")
    assert await agent() == "b"


async def test_a_secret_at_a_stop_is_nowhere_in_the_clear(house: House) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    told = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    with pytest.raises(assentry.Parked):
        async with house.gate.run("Tidy up", patience=0) as run:
            await run.checkpoint(f"plan with {told}", show={"error": f"login with {key} failed"})
    (request,) = await house.waiting()
    kept = rows.ask_text(request.ask) + rows.moving_text(request)
    assert key not in kept
    assert told not in kept


@pytest.mark.parametrize("silent", [True, False])
async def test_a_checkpoint_that_passed_in_silence_is_no_look_at_the_run(house: House, silent: bool) -> None:
    await house.policy("rules: [{name: soft, actions: [checkpoint], gate: soft, window: 1s}]")

    async def agent() -> None:
        async with house.gate.run("Tidy up") as run:
            before = run.record.checked_at
            await run.checkpoint("plan ready", soft=True)
            assert (run.record.checked_at == before) is silent

    async with house.gate.worker():
        task = house.start(agent())
        (request,) = await house.waiting()
        if silent:
            await house.inbox.seen(house.me, request.id)
        else:
            await house.inbox.approve(house.me, request.id)
        await asyncio.wait_for(task, PATIENCE)
