"""Callers that die while their request waits: nobody can approve it any more, it can be dismissed, and it ends."""

import asyncio
import json
from datetime import timedelta

import pytest

import assentry
from assentry.core.briefing import brief
from assentry.core.decision import Awaited, Finding
from assentry.core.request import State
from assentry.engine import agent_calls
from assentry.engine.callers import clear, moved
from assentry.engine.judgement import Context
from assentry.engine.tool import tool
from assentry.errors import AssentryError, CallerGone, Denied, StoreBusy
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases
SHORT = timedelta(milliseconds=200)


def guarded(gate: assentry.Gate, **options):
    @gate.guard(reversible=False, **options)
    async def delete_files(files: list[str]) -> str:
        return "ran"

    return delete_files


def dies(gate: assentry.Gate) -> None:
    """As after kill -9: nothing is heard of the process any more, it hears nothing, and it said nothing at its end."""
    gate._callers.leave()
    gate._execution.close()
    gate._hub.stop()


def lives_again(gate: assentry.Gate) -> None:
    """As after SIGCONT."""
    gate._hub.start()
    gate._callers._closed = False
    gate._callers._keeper = gate._portal.submit(gate._callers._keep())


async def abandoned(house, request_id: str):
    """The request once it says that nobody waits for it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await clear(house.desk.store, "default")
            request = await house.desk.store.request("default", request_id)
            if request.abandoned_at is not None:
                return request
            await asyncio.sleep(0.02)


async def entries(house, request_id: str):
    await house.desk.store.sequence("default")
    return [json.loads(each.text) for each in await house.desk.store.entries("default", subject=request_id)]


async def held(house, gate, *args, **said):
    """A call of this gate that waits, and its request."""
    delete_files = guarded(gate)
    task = house.start((delete_files.with_(**said) if said else delete_files)(["a"]))
    (request,) = await house.waiting()
    return task, request


async def test_what_a_dead_process_asked_for_cannot_be_approved_and_is_dismissed(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    _, request = await held(house, gate)
    dies(gate)
    gone = await abandoned(house, request.id)
    assert gone.state is State.PENDING
    card = await house.inbox.brief(request.id)
    assert card.abandoned_at == gone.abandoned_at
    assert any("nobody is waiting for this any more" in each for each in card.warnings)
    for decide in (
        house.inbox.approve(house.me, request.id, confirm=card.phrase),
        house.inbox.modify(house.me, request.id, {"files": ["b"]}),
        house.inbox.revise(house.me, request.id, "shorter"),
    ):
        with pytest.raises(
            CallerGone, match=r"nobody is waiting for this any more.*Deny it without a reason to dismiss it"
        ):
            await decide
    ended = await house.inbox.deny(house.me, request.id, "")
    assert (ended.state, ended.word, ended.reason) == (
        State.CANCELLED,
        "dismiss",
        "nobody is waiting for this any more",
    )
    kinds = [(each["kind"], each["actor"]) for each in await entries(house, request.id)]
    assert kinds == [
        ("request.asked", "cleanup"), ("request.abandoned", "time"), ("request.dismissed", house.me.name),
    ]  # fmt: skip
    assert ended.sealed == {}


async def test_a_denial_with_a_reason_is_one_although_nobody_waits(house):
    """Whoever denied may have seen the card while somebody still waited, and the agent may turn out to live."""
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    _, request = await held(house, gate)
    dies(gate)
    await abandoned(house, request.id)
    ended = await house.inbox.deny(house.me, request.id, "never delete these, they are evidence")
    assert (ended.state, ended.word) == (State.DENIED, "deny")


async def test_who_asks_for_the_same_waits_for_it_too_and_is_not_left_behind(house):
    first, second = (house.another_gate(agent="cleanup", lease=SHORT) for _ in range(2))
    asked = await first.propose("delete_files", {"files": ["a"]})
    same = await second.propose("delete_files", {"files": ["a"]})
    assert same.request.id == asked.request.id
    await first.close()
    await clear(house.desk.store, "default")
    now = await house.now(asked.request)
    assert (now.state, now.abandoned_at) == (State.PENDING, None)
    await house.approve(now)


async def test_who_asks_for_the_same_and_finds_it_by_its_id_is_not_left_behind(house):
    agent, made, context = house.gate.agent("cleanup"), tool("delete_files"), Context(agent="cleanup")
    await agent.show_caller("first", timedelta(minutes=1), new=True)
    asked = await agent.propose(made, {"files": ["a"]}, context, caller="first")
    same = await agent.propose(made, {"files": ["a"]}, context)
    assert same.id == asked.id
    await agent.show_caller("first", timedelta())
    await clear(house.desk.store, "default")
    now = await house.now(asked)
    assert (now.state, now.abandoned_at, now.callers) == (State.PENDING, None, ())


async def test_what_was_approved_for_a_process_that_then_died_ends_and_never_runs(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    proposal = await gate.propose("delete_files", {"files": ["a"]})
    request = proposal.request
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    dies(gate)
    ended = await abandoned(house, request.id)
    assert (ended.state, ended.due_at) == (State.EXPIRED, None)
    assert ended.reason == "approved, but its caller was gone before it began"
    assert (await entries(house, request.id))[-1]["kind"] == "permit.abandoned"
    with pytest.raises(AssentryError, match=r"taken for gone; propose it again|showed no sign of life"):
        async with proposal.execution(0):
            pytest.fail("it ran")


async def test_a_process_that_was_only_stopped_for_a_while_waits_again_and_is_approved(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    task, request = await held(house, gate)
    dies(gate)
    await abandoned(house, request.id)
    lives_again(gate)
    async with asyncio.timeout(PATIENCE):
        while (await house.desk.store.request("default", request.id)).abandoned_at is not None:
            await asyncio.sleep(0.02)
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    assert await task == "ran"
    assert "request.awaited_again" in [each["kind"] for each in await entries(house, request.id)]


async def test_while_one_of_two_processes_lives_the_request_can_be_approved(house):
    first, second = (house.another_gate(agent="cleanup", lease=SHORT) for _ in range(2))
    _, request = await held(house, first)
    house.start(guarded(second)(["a"]))
    async with asyncio.timeout(PATIENCE):
        while len((await house.desk.store.request("default", request.id)).callers) < 2:
            await asyncio.sleep(0.01)
    dies(first)
    async with asyncio.timeout(PATIENCE):
        while len((await house.desk.store.request("default", request.id)).callers) > 1:
            await asyncio.sleep(0.02)
    assert (await house.desk.store.request("default", request.id)).abandoned_at is None
    house.tasks[0].cancel()
    await asyncio.gather(house.tasks[0], return_exceptions=True)


async def test_the_same_call_from_a_new_process_takes_up_what_the_old_one_left(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    _, request = await held(house, gate)
    dies(gate)
    await abandoned(house, request.id)
    second = house.another_gate(agent="cleanup")
    again = house.start(guarded(second)(["a"]))
    async with asyncio.timeout(PATIENCE):
        while (await house.desk.store.request("default", request.id)).abandoned_at is not None:
            await asyncio.sleep(0.02)
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    assert await again == "ran"


@pytest.mark.parametrize("how", ["parked at once", "parked after a while", "key", "run with a key", "detached"])
async def test_what_can_be_found_again_is_never_abandoned(house, how):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    patience = {"parked at once": 0, "parked after a while": 0.1}.get(how)
    delete_files = guarded(gate, patience=patience, detached=how == "detached")
    if how == "run with a key":

        async def inside():
            async with gate.run("Tidy up", key="nightly"):
                await delete_files(["a"])

        house.start(inside())
    elif patience is None:
        house.start((delete_files.with_(key="1") if how == "key" else delete_files)(["a"]))
    else:
        with pytest.raises(assentry.Parked):
            await delete_files(["a"])
    (request,) = await house.waiting()
    dies(gate)
    assert (await house.desk.store.request("default", request.id)).callers == ()
    # Longer than any lease here; a caller that was named would be gone by now.
    other = house.another_gate(agent="other", lease=SHORT)
    _ = house.start(guarded(other)(["b"]))
    (_, second) = await house.waiting(2)
    dies(other)
    await abandoned(house, second.id)
    found = await house.desk.store.request("default", request.id)
    assert (found.state, found.abandoned_at) == (State.PENDING, None)
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)


async def test_what_was_parked_in_a_dead_process_is_resumed_by_its_id(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    with pytest.raises(assentry.Parked) as parked:
        await guarded(gate, patience=0.1)(["a"])
    dies(gate)
    await clear(house.desk.store, "default")
    request_id = parked.value.request_id
    await house.inbox.approve(house.me, request_id, confirm=(await house.inbox.brief(request_id)).phrase)
    second = house.another_gate(agent="cleanup")
    guarded(second)
    assert await second.resume(request_id) == "ran"


async def test_an_orderly_end_says_at_once_that_nobody_waits(house):
    gate = house.another_gate(agent="cleanup")
    proposal = await gate.propose("delete_files", {"files": ["a"]})
    await gate.close()
    assert (await abandoned(house, proposal.request.id)).state is State.PENDING


async def test_a_living_process_is_not_taken_for_gone_however_long_it_waits(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    task, request = await held(house, gate)
    until = asyncio.get_running_loop().time() + 5 * SHORT.total_seconds()
    while asyncio.get_running_loop().time() < until:
        await clear(house.desk.store, "default")
        await asyncio.sleep(0.02)
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    assert await task == "ran"


async def test_a_question_that_nobody_hears_the_answer_of_cannot_be_answered(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    house.start(gate.ask("Which one?", choices=["a", "b"]))
    (request,) = await house.waiting()
    dies(gate)
    await abandoned(house, request.id)
    with pytest.raises(CallerGone):
        await house.inbox.answer(house.me, request.id, "a")
    assert (await house.inbox.deny(house.me, request.id, "")).state is State.CANCELLED


async def test_dismissing_is_no_denial_for_whoever_comes_back(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    task, request = await held(house, gate)
    dies(gate)
    await abandoned(house, request.id)
    await house.inbox.deny(house.me, request.id, "")
    assert brief(await house.desk.store.request("default", request.id), await house.desk.store.now()).abandoned_at
    with pytest.raises(Denied) as denied:
        await gate.resume(request.id) if "delete_files" in gate._tools else None
    assert "dismissed" in str(denied.value)
    task.cancel()


async def until_now(house, request_id, is_so):
    """The request once it is so; nobody else looks for callers that are gone meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while not is_so(now := await house.now(request_id)):
            await asyncio.sleep(0.01)
    return now


async def test_what_is_retried_after_an_unknown_outcome_waits_for_whoever_calls_again(house):
    gate = house.another_gate(agent="cleanup")
    guarded(gate)
    proposal = await gate.propose("delete_files", {"files": ["a"]})
    await house.lost(await house.approve(proposal.request))
    await house.unknown(proposal.request.id)
    retried = await house.inbox.reconcile(house.me, proposal.request.id, Finding.RETRY)
    assert (retried.state, retried.abandoned_at) == (State.PENDING, retried.changed_at)
    assert (await house.kinds(retried.id))[-2:] == ["execution.reconciled", "request.abandoned"]
    with pytest.raises(CallerGone):
        await house.approve(retried)
    again = await gate.propose("delete_files", {"files": ["a"]})
    assert (again.request.id, again.request.abandoned_at) == (retried.id, None)
    await house.approve(retried)
    async with again.execution(PATIENCE) as running:
        running.result = "ran"
    await house.in_state(retried.id, State.DONE)


@pytest.mark.parametrize("approved", [False, True])
async def test_a_name_without_a_row_is_taken_for_gone_however_it_came_to_be_there(house, approved):
    gate = house.another_gate(agent="cleanup")
    request = (await gate.propose("delete_files", {"files": ["a"]})).request
    if approved:
        await house.approve(request)
    await moved(house.store, "default", request.id, Awaited("0123456789abcdef", instead=request.callers[0]))
    gone = await abandoned(house, request.id)
    assert gone.state is (State.EXPIRED if approved else State.PENDING)


async def test_a_process_that_was_taken_for_gone_does_not_come_back_under_its_old_name(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    request = (await gate.propose("delete_files", {"files": ["a"]})).request
    dies(gate)
    gone = await abandoned(house, request.id)
    # As after SIGCONT, before it has shown again that it lives.
    gate._callers._shown_at = float("inf")
    back = await gate._callers.waits(gone)
    assert back.abandoned_at is None
    assert not set(back.callers) & set(gone.callers)
    assert await house.store.show_caller("default", back.callers[-1], timedelta(minutes=1))


async def test_a_process_that_could_not_show_for_a_lease_that_it_lives_has_another_name_for_what_is_new(house):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    first = (await gate.propose("delete_files", {"files": ["a"]})).request
    dies(gate)
    await abandoned(house, first.id)
    second = (await gate.propose("delete_files", {"files": ["b"]})).request
    assert not set(second.callers) & set(first.callers)
    assert (await house.now(first)).callers == second.callers


async def test_a_process_that_a_proposal_names_and_that_never_shows_itself_is_gone(house, monkeypatch):
    agent, made, context = house.gate.agent("cleanup"), tool("delete_files"), Context(agent="cleanup")
    early = await agent.propose(made, {"files": ["a"]}, context, caller="first")
    await clear(house.store, "default")
    assert (await house.now(early)).abandoned_at is None, "it has a lease to show itself in"
    monkeypatch.setattr(agent_calls, "FIRST_SIGN", timedelta())
    late = await agent.propose(made, {"files": ["b"]}, context, caller="second")
    assert (await abandoned(house, late.id)).state is State.PENDING
    assert await agent.show_caller("first", timedelta(minutes=1), new=True)


@pytest.mark.parametrize("approved", [False, True])
async def test_a_process_that_was_only_slow_waits_again_for_what_others_wait_for_as_well(house, approved):
    slow, other = (house.another_gate(agent="cleanup", lease=SHORT) for _ in range(2))
    waited = await slow.propose("delete_files", {"files": ["a"]})
    request = (await other.propose("delete_files", {"files": ["a"]})).request
    assert request.id == waited.request.id
    dies(slow)
    await until_now(house, request.id, lambda now: len(now.callers) == 1)
    lives_again(slow)
    await until_now(house, request.id, lambda now: len(now.callers) == 2)
    if approved:
        await house.approve(request)
    dies(other)
    now = await until_now(house, request.id, lambda now: len(now.callers) == 1)
    assert (now.state, now.abandoned_at) == (State.APPROVED if approved else State.PENDING, None)
    if not approved:
        await house.approve(request)
    async with waited.execution(PATIENCE) as running:
        running.result = "ran"
    await house.in_state(request.id, State.DONE)


async def test_a_process_that_took_another_name_tells_it_until_it_was_heard(house, monkeypatch):
    gate = house.another_gate(agent="cleanup", lease=SHORT)
    request = (await gate.propose("delete_files", {"files": ["a"]})).request
    dies(gate)
    gone = await abandoned(house, request.id)
    transact, failed = gate._store.transact, []

    async def busy(*args, **more):
        if not failed:
            failed.append(args)
            raise StoreBusy("the database is locked")
        return await transact(*args, **more)

    monkeypatch.setattr(gate._store, "transact", busy)
    lives_again(gate)
    back = await until_now(house, request.id, lambda now: now.abandoned_at is None)
    assert failed
    assert not set(back.callers) & set(gone.callers)


async def test_a_process_remembers_no_more_than_it_waits_for(house):
    gate = house.another_gate(agent="cleanup")
    call = house.start(guarded(gate)(["a"]))
    (request,) = await house.waiting()
    await house.approve(request)
    assert await call == "ran"
    assert not gate._callers._waits_for
