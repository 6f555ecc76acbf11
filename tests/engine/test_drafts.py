"""Drafts that go back and forth, phases with a look before and after, and calls that are no functions, inside runs."""

import asyncio
from typing import Any

import pytest

import assentry
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.engine.runs import Draft
from assentry.errors import InvalidArguments
from assentry.ports import Filter
from tests.engine.conftest import House


def mailer(gate: assentry.Gate, sent: list[str]) -> Any:
    @gate.guard(name="send_email", reversible=False, outside=True)
    async def send_email(to: str, body: str) -> str:
        sent.append(body)
        return f"sent to {to}"

    return send_email


async def test_a_draft_goes_back_and_forth_until_it_is_approved(house: House) -> None:
    sent: list[str] = []
    told: list[Draft | None] = []

    def write(draft: Draft | None) -> dict[str, str]:
        told.append(draft)
        return {
            "to": "ada@example.org",
            "body": "Dear Ada" if draft is None else f"{draft.args['body']}, {draft.instructions}",
        }

    async def compose() -> Any:
        async with house.gate.run("Write to Ada") as run:
            return await run.revise(mailer(house.gate, sent), write)

    task = house.start(compose())
    (first,) = await house.waiting()
    await house.inbox.revise(house.me, first.id, "be warmer")
    second = (
        await house.until(lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,)))
    )[0]
    assert second.ask.draft_of == first.id
    await house.inbox.revise(house.me, second.id, "shorter")
    third = (
        await house.until(
            lambda found: bool(found) and found[0].id not in (first.id, second.id), Filter(states=(State.PENDING,))
        )
    )[0]
    assert third.ask.draft_of == second.id
    await house.inbox.approve(house.me, third.id)
    assert await task == "sent to ada@example.org"
    assert sent == ["Dear Ada, be warmer, shorter"]
    assert [draft and (draft.number, draft.instructions) for draft in told] == [None, (1, "be warmer"), (2, "shorter")]


async def test_rounds_on_record_are_not_written_again(house: House) -> None:
    """Whoever resumes the run finds the drafts as they were, even from a writer that never says the same twice."""
    written: list[int] = []

    def agent(gate: assentry.Gate, sent: list[str]) -> Any:
        send = mailer(gate, sent)

        def write(draft: Draft | None) -> dict[str, str]:
            written.append(len(written))
            return {"to": "ada@example.org", "body": f"take {len(written)}"}

        async def work() -> Any:
            active = assentry.engine.holding.CURRENT.get()  # type: ignore[attr-defined]
            return await active.revise(send, write)

        @gate.host("composer")
        async def resume(state: Any, resumption: Any) -> Any:
            return await work()

        return work

    sent: list[str] = []
    work = agent(house.gate, sent)

    async def begun() -> None:
        async with house.gate.run("Write to Ada", host="composer"):
            await work()

    with pytest.raises(assentry.Parked):
        await begun()
    (first,) = await house.waiting()
    other = house.another_gate(agent="cleanup")
    agent(other, sent)
    async with other.worker():
        await house.inbox.revise(house.me, first.id, "again")
        (second,) = await house.until(
            lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,))
        )
        assert second.ask.candidate.args_text == '{"body":"take 2","to":"ada@example.org"}'
        await house.inbox.approve(house.me, second.id)
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome, sent, written) == ("sent to ada@example.org", ["take 2"], [0, 1])


async def test_a_draft_alone_can_be_changed_by_whoever_reads_it(house: House) -> None:
    async def notes() -> Any:
        async with house.gate.run("Release notes") as run:
            return await run.revise("release notes", lambda draft: {"title": "Version 2", "lines": ["faster"]})

    task = house.start(notes())
    (request,) = await house.waiting()
    assert request.candidate.says == "Draft: release notes"
    changed = {"what": "release notes", "draft": {"title": "Version 2.0", "lines": ["faster"]}}
    await house.inbox.modify(house.me, request.id, changed)
    assert await task == {"title": "Version 2.0", "lines": ["faster"]}


async def test_a_draft_that_is_not_wanted_is_denied(house: House) -> None:
    async def notes() -> Any:
        async with house.gate.run("Release notes") as run:
            return await run.revise("release notes", lambda draft: "…")

    task = house.start(notes())
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "no release")
    with pytest.raises(assentry.Denied, match="no release"):
        await task


async def test_rounds_end(house: House) -> None:
    async def notes() -> Any:
        async with house.gate.run("Release notes") as run:
            return await run.revise("release notes", lambda draft: f"take {draft.number if draft else 0}", rounds=1)

    task = house.start(notes())
    (request,) = await house.waiting()
    await house.inbox.revise(house.me, request.id, "again")
    with pytest.raises(assentry.SentBack, match="again"):
        await task


async def test_a_draft_of_the_wrong_shape_is_said_so(house: House) -> None:
    with pytest.raises(InvalidArguments, match="by name"):
        async with house.gate.run("Write") as run:
            await run.revise(mailer(house.gate, []), lambda draft: "just text")


async def test_phases_stop_before_and_after_as_asked(house: House) -> None:
    seen: list[str] = []

    async def deploy() -> None:
        async with house.gate.run("Deploy") as run:
            await run.plan(["build", "deploy"])
            async with run.phase("build"):
                seen.append("build")
            async with run.phase("deploy", {"version": 2}, before=True, after="hard") as phase:
                seen.append(f"deploy {phase.shown}")
                phase.result = {"healthy": 3}
            seen.append("end")

    task = house.start(deploy())
    (before,) = await house.waiting()
    assert (before.candidate.says, seen) == ("Checkpoint: before deploy", ["build"])
    await house.inbox.approve(house.me, before.id)
    (after,) = await house.until(
        lambda found: bool(found) and found[0].id != before.id, Filter(states=(State.PENDING,))
    )
    assert after.candidate.action.args["show"] == {"healthy": 3}
    assert seen == ["build", "deploy {'version': 2}"]
    await house.inbox.approve(house.me, after.id)
    await task
    record = await house.run()
    assert [(step.says, step.done) for step in record.plan] == [("build", True), ("deploy", True)]


async def test_policy_can_ask_for_a_look_where_the_code_does_not(house: House) -> None:
    await house.policy(
        "version: 1\nrules:\n  - {name: look first, actions: [checkpoint], when: 'args.checkpoint == \"before deploy\"', gate: hard}\n"
    )
    seen: list[str] = []

    async def deploy() -> None:
        async with house.gate.run("Deploy") as run:
            async with run.phase("build"):
                seen.append("build")
            async with run.phase("deploy"):
                seen.append("deploy")

    task = house.start(deploy())
    (request,) = await house.waiting()
    assert seen == ["build"]
    await house.inbox.approve(house.me, request.id)
    await task
    assert seen == ["build", "deploy"]


async def test_a_phase_is_soft_hard_or_nothing(house: House) -> None:
    with pytest.raises(InvalidArguments, match="soft"):
        async with house.gate.run("Deploy") as run, run.phase("deploy", before="maybe"):
            pass


async def test_a_proposal_inside_a_run_belongs_to_it_and_parks_it(house: House) -> None:
    carried: list[Any] = []

    def agent(gate: assentry.Gate) -> Any:
        async def work() -> Any:
            proposal = await gate.propose("transfer_money", {"amount": 5.0})
            if proposal.is_done:
                return proposal.result
            async with proposal.execution() as running:
                carried.append(running.args)
                running.result = "ok"
            return "ok"

        @gate.host("loop")
        async def resume(state: Any, resumption: Any) -> Any:
            return [await work(), await work_again(gate)]

        return work

    async def work_again(gate: assentry.Gate) -> str:
        return str(await gate.ask("And now?", choices=["stop", "go on"]))

    work = agent(house.gate)

    async def begun() -> None:
        async with house.gate.run("Pay", host="loop"):
            await work()

    with pytest.raises(assentry.Parked):
        await begun()
    (request,) = await house.waiting()
    run = await house.run()
    assert (request.ask.run, run.waits) == (run.id, (request.id,))
    other = house.another_gate(agent="cleanup")
    agent(other)
    async with other.worker():
        await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
        # The question of the same run parks it again, and its third life finds the payment made.
        (asked,) = await house.until(
            lambda found: bool(found) and found[0].id != request.id, Filter(states=(State.PENDING,))
        )
        assert asked.ask.run == run.id
        await house.inbox.answer(house.me, asked.id, "stop")
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome, carried) == (["ok", "stop"], [{"amount": 5.0}])


async def test_a_plain_function_called_in_a_thread_belongs_to_the_run(house: House) -> None:
    @house.gate.guard(reversible=True, reach="local")
    def move(path: str) -> str:
        return path.upper()

    @house.gate.guard(reversible=False)
    def drop(path: str) -> str:
        return path

    async def work() -> Any:
        async with house.gate.run("Tidy"):
            return [await asyncio.to_thread(move, "a"), await asyncio.to_thread(drop, "b")]

    task = house.start(work())
    (request,) = await house.waiting()
    record = await house.run()
    assert (request.ask.run, record.steps) == (record.id, 2)
    await house.inbox.approve(house.me, request.id)
    assert await task == ["A", "b"]
