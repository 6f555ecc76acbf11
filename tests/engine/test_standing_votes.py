"""Every decision that approves counts votes in one way, whatever it is called: plainly, by a change, by an option."""

from dataclasses import replace

import pytest

import assentry
from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.request import State
from assentry.engine.tool import tool_of
from assentry.errors import ConfirmationNeeded, InvalidDecision, StaleRequest
from tests.stage import GONE

TEAM = """
people:
  ann: {roles: [dba]}
  bob: {roles: [dba]}
  cy: {roles: [dba]}
  dan: {roles: [intern], teams: [data]}
rules:
  - {name: deletions, actions: ["delete_*"], gate: hard, reviewers: ["role:dba", "team:data"], quorum: 2}
"""
ANN, BOB, CY, DAN = (Principal(name) for name in ("ann", "bob", "cy", "dan"))
CALLED = pytest.mark.parametrize("called", ["approve", "modify", "choose"])


@pytest.fixture
async def team(house):
    await house.policy(TEAM)
    return house


async def asked(team):
    """A request whose first option is exactly what is asked for."""
    options = [assentry.option("As it is", change={"files": ["a"]})]
    return (await team.gate.propose("delete_files", {"files": ["a"]}, declared=GONE, options=options)).request


async def decided(team, request, by, called, **shown):
    """This person approves exactly the bytes that are shown."""
    match called:
        case "approve":
            return await team.inbox.approve(by, request.id, **shown)
        case "modify":
            return await team.inbox.modify(by, request.id, dict(request.candidate.action.args), **shown)
        case _:
            return await team.inbox.choose(by, request.id, 0, **shown)


@CALLED
@pytest.mark.parametrize(
    ("ann", "later"),
    [
        ("{roles: [dba]}", ""),
        ("{roles: [dba]}", "{roles: [intern]}"),
        ("{teams: [data]}", "{teams: [sales]}"),
    ],
    ids=["gone", "role", "team"],
)
async def test_only_votes_that_count_now_complete_it(team, called, ann, later):
    await team.policy(TEAM.replace("ann: {roles: [dba]}", f"ann: {ann}"))
    request = await asked(team)
    await team.inbox.approve(ANN, request.id)
    await team.policy(TEAM.replace("  ann: {roles: [dba]}\n", f"  ann: {later}\n" if later else ""))
    after = await decided(team, request, BOB, called)
    assert (after.state, [vote.by for vote in after.votes]) == (State.PENDING, ["bob"])
    assert "the approval of ann no longer counts" in " ".join((await team.inbox.brief(request.id)).why).lower()
    assert (await team.inbox.approve(CY, request.id)).state is State.APPROVED


@CALLED
async def test_stricter_demands_are_asked_anew(team, called):
    request = await asked(team)
    await team.inbox.approve(ANN, request.id)
    await team.policy(TEAM.replace("gate: hard", "gate: manual"))
    with pytest.raises(StaleRequest, match="types what they confirm"):
        await decided(team, request, BOB, called)
    with pytest.raises(ConfirmationNeeded) as needed:
        await decided(team, request, BOB, called)
    after = await decided(team, request, BOB, called, confirm=needed.value.phrase)
    assert (after.state, [vote.by for vote in after.votes]) == (State.PENDING, ["bob"])


@CALLED
async def test_what_is_forbidden_by_now_is_not_approved(team, called):
    request = await asked(team)
    await team.inbox.approve(ANN, request.id)
    await team.policy(TEAM.replace('gate: hard, reviewers: ["role:dba", "team:data"], quorum: 2', "gate: forbid"))
    with pytest.raises(InvalidDecision, match="policy forbids"):
        await decided(team, request, BOB, called)


async def test_what_is_forbidden_by_now_may_be_changed_into_what_is_not(team):
    request = await asked(team)
    allowed = TEAM.replace(
        "rules:\n", "rules:\n  - {name: no, actions: ['*'], when: 'args.files != [\"b\"]', gate: forbid}\n"
    )
    await team.policy(allowed)
    after = await team.inbox.modify(BOB, request.id, {"files": ["b"]})
    assert (after.state, [vote.by for vote in after.votes]) == (State.PENDING, ["bob"])
    assert (await team.inbox.approve(CY, request.id)).state is State.APPROVED


@CALLED
async def test_a_vote_of_somebody_whom_the_ladder_had_added_counts(team, called):
    added = TEAM.replace(', "team:data"', "").replace(
        "quorum: 2}", "quorum: 2, limit: 2h, ladder: [{after: 1m, tell: [dan]}]}"
    )
    await team.policy(added)
    request = await asked(team)

    def step(view):
        return Change(replace(view.request, version=view.request.version + 1, told=("dan",)))

    await team.store.transact(team.workspace, request.id, step)
    await team.inbox.approve(DAN, request.id)
    await team.policy(added.replace("limit: 2h", "limit: 3h"))
    after = await decided(team, request, BOB, called)
    assert (after.state, {vote.by for vote in after.votes}) == (State.APPROVED, {"dan", "bob"})
    assert await team.gate._judgement.objection(tool_of(after.candidate.action), after) == ("", 3)


async def test_votes_are_looked_at_before_it_begins_also_where_the_policy_did_not_change(team):
    request = await asked(team)
    await team.inbox.approve(ANN, request.id)
    approved = await team.inbox.approve(BOB, request.id)
    tool = tool_of(approved.candidate.action)
    assert await team.gate._judgement.objection(tool, approved) == ("", 1)
    forged = replace(approved, votes=tuple(replace(vote, by="eve") for vote in approved.votes))
    why, _ = await team.gate._judgement.objection(tool, forged)
    assert "eve is not among the people" in why
