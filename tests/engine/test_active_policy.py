"""The policy that holds is the one in the database: an instance that has not heard of it decides and begins nothing by another."""

import asyncio

import pytest

import assentry
from assentry.core.advance import advance
from assentry.core.authority import Principal
from assentry.core.decision import Seen
from assentry.core.request import State
from assentry.engine.policies import apply_policy
from assentry.errors import NotAllowed, PolicyMoved, StaleRequest
from tests.stage import BOSS, GONE

pytestmark = pytest.mark.both_databases

OPEN = """
people:
  root: {roles: [operator]}
  ann: {}
  bob: {}
rules:
  - {name: deletions, actions: ["delete_*"], gate: hard, reviewers: [ann]}
"""
ANN, BOB = Principal("ann"), Principal("bob")


@pytest.fixture
async def deaf(house, monkeypatch):
    """Neither the gate nor the desk hears of changes by itself any more."""
    await house.policy(OPEN)

    async def nothing() -> None: ...

    monkeypatch.setattr(house.gate, "_refresh", nothing)
    return house


async def applied(house, text: str) -> None:
    """Somebody else applies this policy."""
    await apply_policy(house.store, house.workspace, text, BOSS, "test")


async def test_who_lost_the_right_does_not_decide_at_an_instance_that_has_not_heard(deaf):
    proposal = await deaf.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    await applied(deaf, OPEN.replace("reviewers: [ann]", "reviewers: [bob]"))
    assert deaf.inbox.may_decide(ANN, proposal.request) is None, "it has heard after all"
    for decide in (deaf.inbox.approve(ANN, proposal.request.id), deaf.inbox.deny(ANN, proposal.request.id, "no")):
        with pytest.raises(NotAllowed, match="waits for bob"):
            await decide
    assert (await deaf.inbox.approve(BOB, proposal.request.id)).state is State.APPROVED


async def test_more_that_is_demanded_counts_at_an_instance_that_has_not_heard(deaf):
    proposal = await deaf.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    await applied(deaf, OPEN.replace("reviewers: [ann]", "reviewers: [ann, bob], quorum: 2"))
    with pytest.raises(StaleRequest, match="2 people"):
        await deaf.inbox.approve(ANN, proposal.request.id)
    await deaf.inbox.approve(ANN, proposal.request.id)
    assert (await deaf.inbox.approve(BOB, proposal.request.id)).state is State.APPROVED


@pytest.mark.parametrize("by", ["proposal", "guarded", "run", "worker"])
async def test_what_is_forbidden_by_now_does_not_begin_where_nobody_has_heard(deaf, by):
    ran = []

    @deaf.gate.guard(reversible=False, patience=0, detached=by == "worker")
    async def delete_rows(table: str) -> None:
        ran.append(table)

    async def call():
        if by == "run":
            async with deaf.gate.run("Tidy up", key="r"):
                await delete_rows("t")
        else:
            await delete_rows.with_(run="r", key="k")("t")

    proposal = None
    if by == "proposal":
        proposal = await deaf.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    else:
        with pytest.raises(assentry.Parked):
            await call()
    (request,) = await deaf.waiting()
    await deaf.inbox.approve(ANN, request.id)
    await applied(deaf, OPEN.replace("gate: hard, reviewers: [ann]", "gate: forbid"))
    assert deaf.gate._judgement.version == 1, "it has heard after all"
    if proposal is not None:
        with pytest.raises(assentry.Denied, match="forbid"):
            async with proposal.execution():
                ran.append("proposal")
    elif by == "worker":
        async with deaf.gate.worker():
            await deaf.in_state(request, State.CANCELLED)
    else:
        with pytest.raises(assentry.Denied, match="forbid"):
            await call()
    assert ran == []
    assert (await deaf.now(request)).permit.used_at is None


async def test_a_change_commits_under_no_other_policy_than_the_one_by_which_it_was_judged(house):
    proposal = await house.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    request, store = proposal.request, house.store

    def seen(view):
        return advance(view.request, Seen("ann"), view.now)

    for hint in (None, request):
        with pytest.raises(PolicyMoved):
            await store.transact(house.workspace, request.id, seen, hint=hint, policy=3)
    assert (await house.now(request)).version == request.version
    await applied(house, "limits: {time: 2h}")
    with pytest.raises(PolicyMoved):
        await store.transact(house.workspace, request.id, seen, policy=0)
    assert await store.transact(house.workspace, request.id, seen, hint=request, policy=1) is not None


async def test_whoever_applies_a_policy_waits_for_no_row_while_many_decide(house):
    requests = [
        (await house.gate.propose("delete_files", {"files": [str(n)]}, declared=GONE)).request for n in range(12)
    ]
    await asyncio.gather(
        *(house.inbox.deny(house.me, request.id, "no") for request in requests),
        *(applied(house, f"limits: {{time: {hours}h}}") for hours in range(1, 4)),
    )
    assert {(await house.now(request)).state for request in requests} == {State.DENIED}
