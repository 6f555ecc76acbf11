"""Votes count when they matter: by the people, the roles and the quorum in force at the deciding vote and at begin."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import assentry
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.engine.os_user import os_user
from assentry.errors import ConfirmationNeeded, InvalidDecision, NotAllowed, StaleRequest
from tests.stage import GONE

pytestmark = pytest.mark.both_databases

TEAM = """
people:
  ann: {roles: [dba]}
  bob: {roles: [dba]}
  cy: {roles: [dba]}
  dan: {roles: [intern]}
rules:
  - {name: deletions, actions: ["delete_*"], gate: hard, reviewers: ["role:dba"], quorum: 2}
"""
ANN, BOB, CY, DAN = (Principal(name) for name in ("ann", "bob", "cy", "dan"))


@pytest.fixture
async def team(house):
    await house.policy(TEAM)
    return house


async def proposed(team):
    proposal = await team.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    return proposal, proposal.request


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("  ann: {roles: [dba]}\n", ""), "ann is not among the people of the policy"),
        (("ann: {roles: [dba]}", "ann: {roles: [intern]}"), "this waits for role:dba, and ann is not one of them"),
        (("rules:", "agents:\n  cleanup: {owner: ann}\nrules:"), "ann owns cleanup"),
    ],
    ids=["gone", "without the role", "owner"],
)
async def test_an_approval_counts_only_while_its_person_may_give_it(team, change, why):
    _, request = await proposed(team)
    await team.inbox.approve(ANN, request.id)
    await team.policy(TEAM.replace(*change))
    after = await team.inbox.approve(BOB, request.id)
    assert after.state is State.PENDING, "one approval that counts is not two"
    assert [vote.by for vote in after.votes] == ["bob"]
    told = (await team.inbox.brief(request.id)).why
    assert any(
        f"the approval of ann no longer counts: {why}" in each.replace("The approval", "the approval") for each in told
    )
    assert (await team.inbox.approve(CY, request.id)).state is State.APPROVED


async def test_roles_that_a_quorum_needs_are_those_of_now(team):
    needs = TEAM.replace("quorum: 2", "quorum: {count: 2, roles: [lead]}").replace(
        "ann: {roles: [dba]}", "ann: {roles: [dba, lead]}"
    )
    await team.policy(needs)
    _, request = await proposed(team)
    await team.inbox.approve(ANN, request.id)
    moved = needs.replace("ann: {roles: [dba, lead]}", "ann: {roles: [dba]}").replace(
        "cy: {roles: [dba]}", "cy: {roles: [dba, lead]}"
    )
    await team.policy(moved)
    assert (await team.inbox.approve(BOB, request.id)).state is State.PENDING, "nobody who approved is lead by now"
    assert (await team.inbox.approve(CY, request.id)).state is State.APPROVED


async def test_reviewers_are_those_of_now(team):
    _, request = await proposed(team)
    await team.policy(TEAM.replace('reviewers: ["role:dba"]', "reviewers: [cy, dan]"))
    assert team.inbox.may_decide(DAN, request) is None
    for decide in (team.inbox.approve(ANN, request.id), team.inbox.deny(ANN, request.id, "no")):
        with pytest.raises(NotAllowed, match="cy or dan"):
            await decide
    await team.inbox.approve(CY, request.id)
    assert (await team.inbox.approve(DAN, request.id)).state is State.APPROVED


async def test_a_larger_quorum_is_asked_for_anew_with_the_difference_on_the_card(team):
    one = TEAM.replace("quorum: 2", "quorum: 1")
    await team.policy(one)
    _, request = await proposed(team)
    shown = await team.inbox.brief(request.id)
    await team.policy(TEAM)
    with pytest.raises(StaleRequest, match=r"needs the approval of 2 people \(before: the approval of 1 person\)"):
        await team.inbox.approve(ANN, request.id, seen_digest=shown.digest)
    brief = await team.inbox.brief(request.id)
    assert brief.needs == 2
    assert any("policy changed" in each and "2 people" in each for each in brief.why)
    with pytest.raises(StaleRequest):
        await team.inbox.approve(ANN, request.id, seen_digest=shown.digest)
    await team.inbox.approve(ANN, request.id, seen_digest=brief.digest)
    assert (await team.inbox.approve(BOB, request.id)).state is State.APPROVED
    assert "request.rejudged" in await team.kinds(request.id)


async def test_an_approval_given_under_weaker_demands_does_not_count_towards_stricter_ones(team):
    _, request = await proposed(team)
    await team.inbox.approve(ANN, request.id)
    await team.policy(TEAM.replace("gate: hard", "gate: manual"))
    with pytest.raises(StaleRequest, match="types what they confirm"):
        await team.inbox.approve(BOB, request.id)
    with pytest.raises(ConfirmationNeeded) as needed:
        await team.inbox.approve(BOB, request.id)
    confirm = needed.value.phrase
    after = await team.inbox.approve(BOB, request.id, confirm=confirm)
    assert [vote.by for vote in after.votes] == ["bob"]
    assert (await team.inbox.approve(ANN, request.id, confirm=confirm)).state is State.APPROVED


async def test_a_looser_policy_loosens_nothing_that_was_asked_before(team):
    _, request = await proposed(team)
    await team.policy(TEAM.replace("quorum: 2", "quorum: 1"))
    assert (await team.inbox.approve(ANN, request.id)).state is State.PENDING
    assert (await team.inbox.approve(BOB, request.id)).state is State.APPROVED


async def test_what_the_policy_forbids_by_now_can_only_be_denied(team):
    _, request = await proposed(team)
    await team.policy(TEAM.replace('gate: hard, reviewers: ["role:dba"], quorum: 2', "gate: forbid"))
    with pytest.raises(InvalidDecision, match="policy forbids"):
        await team.inbox.approve(ANN, request.id)
    assert (await team.inbox.deny(ANN, request.id, "forbidden")).state is State.DENIED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("  ann: {roles: [dba]}\n", ""), "ann is not among the people"),
        (("quorum: 2", "quorum: 3"), "it needs the approval of 3 people by now"),
        (("gate: hard", "gate: manual"), "policy says manual"),
    ],
    ids=["gone", "quorum", "gate"],
)
async def test_what_was_approved_does_not_begin_once_its_approvals_do_not_suffice(team, change, why):
    proposal, request = await proposed(team)
    await team.inbox.approve(ANN, request.id)
    await team.inbox.approve(BOB, request.id)
    await team.policy(TEAM.replace(*change))
    with pytest.raises(assentry.Denied, match=why):
        async with proposal.execution():
            pytest.fail("it ran")
    assert (await team.now(request)).permit.used_at is None


async def test_a_guarded_call_and_a_worker_ask_the_same_before_they_begin(team):
    ran = []

    @team.gate.guard(reversible=False, detached=True, patience=0)
    async def delete_table(name: str) -> None:
        ran.append(name)

    @team.gate.guard(reversible=False, patience=0)
    async def delete_rows(name: str) -> None:
        ran.append(name)

    for call in (delete_table.with_(run="r", key="1")("t"), delete_rows.with_(run="r", key="2")("t")):
        with pytest.raises(assentry.Parked):
            await call
    for request in await team.waiting(2):
        await team.inbox.approve(ANN, request.id)
        await team.inbox.approve(BOB, request.id)
    await team.policy(TEAM.replace("  ann: {roles: [dba]}\n", ""))
    with pytest.raises(assentry.Denied, match="no longer counts"):
        await delete_rows.with_(run="r", key="2")("t")
    async with team.gate.worker():
        for request in await team.requests():
            await team.in_state(request, State.CANCELLED)
    assert ran == []


async def test_who_was_on_duty_is_judged_as_of_the_vote(team):
    start = datetime.now(UTC) - timedelta(hours=1)
    rota = (
        TEAM.replace('"role:dba"', "rota:calls, bob").replace("rules:", "rotas:\n  calls:\n    turns:\n"
        f'      - {{person: ann, from: "{start.isoformat()}", to: "TO"}}\n'
        '      - {person: cy, from: "TO", to: "2999-01-01T00:00:00+00:00"}\nrules:')
    )  # fmt: skip
    soon = await team.store.now() + timedelta(seconds=1.5)
    await team.policy(rota.replace("TO", soon.isoformat()))
    _, request = await proposed(team)
    await team.inbox.approve(ANN, request.id)
    while await team.store.now() < soon:
        await asyncio.sleep(0.05)
    assert (await team.inbox.approve(BOB, request.id)).state is State.APPROVED


async def test_a_checkpoint_waits_as_it_was_asked_whatever_the_policy_says_of_actions(team):
    async def work():
        async with team.gate.run("Tidy up") as run:
            return await run.checkpoint("plan ready", show={"files": 3})

    task = team.start(work())
    (request,) = await team.waiting()
    await team.policy(TEAM.replace("quorum: 2", "quorum: 3"))
    await team.inbox.approve(ANN, request.id)
    await task


MONEY = """
people:
  carol: {roles: [cfo]}
  mary: {roles: [manager]}
  bob: {}
rules:
  - {name: big, actions: [pay], when: "args.amount > 1000", gate: hard, reviewers: ["role:cfo"], quorum: {roles: [cfo]}}
  - {name: small, actions: [pay], gate: hard, reviewers: ["role:manager"], quorum: {roles: [manager]}}
"""
CAROL, MARY = Principal("carol"), Principal("mary")


async def to_pay(house, amount):
    await house.policy(MONEY)
    args = {"amount": amount, "currency": "EUR", "to": "x"}
    return args, (await house.gate.propose("pay", args, declared=GONE)).request


async def approved_by_both(house, request):
    with pytest.raises(NotAllowed, match="bob is not one of them"):
        await house.inbox.approve(BOB, request.id)
    assert (await house.inbox.approve(MARY, request.id)).state is State.PENDING
    return await house.inbox.approve(CAROL, request.id)


async def test_whoever_holds_a_role_of_both_quorums_votes_on_what_was_changed(house):
    args, request = await to_pay(house, 5_000)
    changed = await house.inbox.modify(CAROL, request.id, {**args, "amount": 500})
    assert (changed.state, [vote.by for vote in changed.votes]) == (State.PENDING, ["carol"])
    verdict = changed.candidate.verdict
    assert (verdict.reviewers, set(verdict.quorum.roles)) == (("role:manager", "role:cfo"), {"manager", "cfo"})
    assert (await house.inbox.approve(MARY, request.id)).state is State.APPROVED


async def test_whoever_holds_a_role_of_a_rule_that_failed_or_of_the_next_votes(house):
    _, request = await to_pay(house, "lots")
    assert request.candidate.verdict.reviewers == ("role:cfo", "role:manager")
    assert (await approved_by_both(house, request)).state is State.APPROVED


async def test_a_role_that_was_asked_for_before_still_votes_under_another_version(house):
    _, request = await to_pay(house, 5_000)
    await house.policy(MONEY.replace("args.amount > 1000", "args.amount > 9000"))
    with pytest.raises(StaleRequest, match="including role:manager and role:cfo"):
        await house.inbox.approve(MARY, request.id)
    assert (await approved_by_both(house, request)).state is State.APPROVED


SHOP = """
people:
  alice: {roles: [manager], os_users: [ROOT]}
  bob: {roles: [finance]}
  carol: {roles: [finance]}
agents: {cleanup: {owner: bob}}
rules: [{name: two, actions: [pay], gate: hard, reviewers: ["role:finance", "role:manager"], quorum: {count: 2, roles: [finance]}}]
""".replace("ROOT", os_user())  # fmt: skip


async def test_a_card_says_that_nobody_can_complete_it(house):
    await house.policy(SHOP)
    request = (await house.gate.propose("pay", {"amount": 5}, declared=GONE)).request
    stuck = (
        "nobody can complete this: needs 2 of role:finance or role:manager, including role:finance: carol (alice is "
        "excluded: made the request; bob is excluded: owner of the agent), so only 1 can decide; deny it, or change the "
        "policy"
    )
    assert (await house.inbox.brief(request.id)).warnings == (stuck,)
    await house.policy(SHOP.replace("agents:", "  dora: {}\nagents:").replace("role:manager", "dora"))
    assert (await house.inbox.brief(request.id)).warnings == (), "dora decides by the policy of now"
